"""An intent without a result, by replay policy: what is asked, what is dispatched, what is recorded (R41, R62; kernel.md)."""

from __future__ import annotations

import pytest

from polyloop.kernel import records as r
from polyloop.kernel.objects import Counters
from polyloop.kernel.seams import Damage, NotStarted, Outcome, Pending, Unknown
from polyloop.testing import said
from tests.kernel.desk import LOOK, SUBMIT, Desk, Spelled, act, spell, tool

DONE = act("submit", summary="s")
LINES = [act("work", n=1), DONE]
#: Records up to and with the intent of the first action.
OPEN = 4


def crashed(policy: str, deed: object = None, word: object = None, *, upto: int = OPEN, effect: str = "", lines=LINES, **budget) -> Desk:
    """A run whose process died while `work` was running, on the desk of another process."""
    work = tool("work", effect or ("read" if policy == "rerun" else "write"), policy)
    first = Desk(lines, tools=(work, LOOK, SUBMIT), **budget)
    first.start()
    desk = Desk(lines, {"work": deed or said("worked")}, tools=(work, LOOK, SUBMIT), shelf=first.log.upto(upto), **budget)
    desk.actions.words["work"] = word or Unknown()
    return desk


def recovery(desk: Desk) -> list[tuple[str, str]]:
    """What was done about the intent: (policy, decision) of each replay record, then the result's status."""
    work = [x for x in desk.shown() if x["kind"] == "action_result" and x["call"] == 0]
    return [(x["policy"], x["decision"]) for x in desk.shown() if x["kind"] == "replay"] + [("", w["status"]) for w in work[:1]]


#: policy, the service's word -> dispatches, replay decisions and result, reason of the end
POLICIES = [
    ("rerun", None, 1, [("rerun", "rerun"), ("", "ok")], "completed"),
    ("probe", said("landed"), 0, [("probe", "probe"), ("", "ok")], "completed"),
    ("probe", Outcome("error", code="declined"), 0, [("probe", "probe"), ("", "error")], "completed"),
    ("probe", NotStarted(), 1, [("probe", "probe"), ("probe", "execute"), ("", "ok")], "completed"),
    ("probe", Unknown(), 0, [("probe", "probe"), ("", "unknown")], "completed"),
    ("probe", OSError("unreachable"), 0, [("probe", "probe"), ("", "unknown")], "completed"),
    ("report_unknown", None, 0, [("report_unknown", "report_unknown"), ("", "unknown")], "completed"),
    ("never", None, 0, [("never", "never")], "unresolved_action"),
]


@pytest.mark.parametrize(("policy", "word", "dispatches", "records", "reason"), POLICIES, ids=[f"{p[0]} {type(p[1]).__name__}" for p in POLICIES])
def test_S2_21_S2_28_each_policy(policy, word, dispatches, records, reason) -> None:
    """The source of a recovery is the log itself: which intent had no result, and which policy handled it."""
    desk = crashed(policy, word=word)
    ended = desk.resume()
    assert (ended.reason, desk.actions.calls("work"), recovery(desk)) == (reason, dispatches, records)
    assert {x["of"] for x in desk.shown() if x["kind"] == "replay"} == {OPEN - 1}
    desk.check()


def test_a_probe_is_always_fenced() -> None:
    """NotStarted is the seed's retryable only when a late arrival cannot begin any more."""
    desk = crashed("probe", word=NotStarted())
    desk.resume()
    ((asked, token, fence),) = desk.actions.asked
    (executed, _) = desk.actions.done
    assert (token, fence) == (None, True)
    assert (asked.key, asked.attempt, executed.key, executed.attempt) == (executed.key, 1, asked.key, 2)


def test_S2_28_a_recovery_is_recorded_before_it_dispatches() -> None:
    kinds: list[list[str]] = []
    for policy, word in (("rerun", None), ("probe", NotStarted())):
        desk = crashed(policy, word=word)
        desk.actions.deeds["work"] = lambda _, d=desk: kinds.append(d.log.kinds[OPEN:]) or said("worked")
        desk.resume()
    assert kinds == [["resume_started", "replay"], ["resume_started", "replay", "replay"]]


def test_unknown_is_told_to_the_model() -> None:
    """S0.9, S0.10: it must read back before it does it again."""
    desk = crashed("report_unknown")
    desk.resume()
    assert "[work: unknown]" in desk.told()
    assert "Read back before" in desk.told()
    assert desk.steps()[0]["valid"]


def test_a_lost_submit_does_not_complete() -> None:
    """R32: only its successful execution ends the run."""
    work = tool("work", "write", "report_unknown", completes=True)
    first = Desk([act("work"), DONE], tools=(work, LOOK, SUBMIT))
    first.start()
    desk = Desk([act("work"), DONE], tools=(work, LOOK, SUBMIT), shelf=first.log.upto(OPEN))
    ended = desk.resume()
    assert (ended.completed_by, ended.result, ended.counters.valid_steps) == ("completion_tool", {"summary": "s"}, 2)


def test_a_probed_submit_completes_with_its_arguments() -> None:
    first = Desk([DONE])
    first.start()
    desk = Desk([DONE], shelf=first.log.upto(OPEN))
    desk.actions.words["submit"] = said("in")
    ended = desk.resume()
    assert (ended.reason, ended.completed_by, ended.result, desk.actions.done) == ("completed", "completion_tool", {"summary": "s"}, [])


def test_a_pending_action_waits_and_is_polled() -> None:
    desk = crashed("probe", word=Pending("task-7"))
    waiting = desk.resume()
    assert (waiting.state, waiting.waiting.kind, waiting.waiting.token) == ("waiting", "task", "task-7")
    desk.actions.words["work"] = said("landed")
    assert desk.resume().reason == "completed"
    assert desk.actions.calls("work") == 0
    desk.check()


# --- ask -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "dispatches", "status", "valid"),
    [("finished", 0, "ok", True), ("denied", 0, "not_executed", False), ("approved", 1, "ok", True)],
    ids=["done", "not-done", "retry"],
)
def test_a_person_settles(decision: str, dispatches: int, status: str, valid: bool) -> None:
    desk = crashed("ask")
    waiting = desk.resume()
    assert (waiting.state, waiting.waiting.kind, waiting.waiting.token) == ("waiting", "settle", f"settle:{OPEN - 1}")
    assert desk.resume().state == "waiting"
    desk.log.leave("resolve", f"settle:{OPEN - 1}", decision, at=desk.clock.now_ms())
    ended = desk.resume()
    assert (ended.reason, desk.actions.calls("work")) == ("completed", dispatches)
    assert recovery(desk) == [("ask", "ask"), ("", status)]
    step = desk.steps()[0]
    assert (step["valid"], step["tier"]) == (valid, "G" if valid else "H")
    assert ended.counters.rejections_total == 0
    assert ("settled this action" in desk.told()) == (decision != "approved")
    desk.check()


def test_a_person_may_say_it_before_anybody_has_asked() -> None:
    desk = crashed("ask")
    desk.log.leave("resolve", f"settle:{OPEN - 1}", "finished", at=desk.clock.now_ms())
    assert desk.resume().reason == "completed"
    desk.check()


def test_a_retry_by_a_person_is_a_new_attempt_and_no_approval() -> None:
    desk = crashed("ask")
    desk.resume()
    desk.log.leave("resolve", f"settle:{OPEN - 1}", "approved", at=desk.clock.now_ms())
    desk.resume()
    assert [(a.attempt, a.approved, a.token) for a in desk.actions.done if a.tool == "work"] == [(2, False, "")]


# --- the model's own intent ------------------------------------------------------------------------------------------


def test_an_open_ask_is_asked_again_under_its_call_id_and_counts() -> None:
    """Policy `recall`: the first may have been answered and paid for."""
    desk = crashed("rerun", upto=2)
    ended = desk.resume()
    asked = [b.call_id for b in desk.log.of(r.ModelIntent)]
    assert (ended.reason, ended.counters) == ("completed", Counters(3, 2))
    assert desk.model.seen[0].call_id == asked[0]
    assert recovery(desk)[0] == ("recall", "recall")
    assert desk.model.seen[0].reply_no == 1
    desk.check()


def test_a_crash_loop_cannot_ask_without_bound() -> None:
    """Every recall counts; the iteration budget ends it even without the guard."""
    image = crashed("rerun", upto=2, iterations=3, max_recoveries=0).log
    for recalls in range(1, 4):
        desk = Desk([SystemExit("killed")] * 9, shelf=image, tools=(tool("work", replay="rerun"), LOOK, SUBMIT), iterations=3, max_recoveries=0)
        if recalls < 3:
            with pytest.raises(SystemExit):
                desk.resume()
            image = desk.log.upto(len(desk.log.records))
        else:
            assert (desk.resume().detail, len(desk.model.seen)) == ("iterations", 0)


@pytest.mark.parametrize(("upto", "policy"), [(2, "rerun"), (OPEN, "rerun")], ids=["model", "tool"])
def test_recoveries_of_one_intent_are_bounded(upto: int, policy: str) -> None:
    """The default is three; then the run ends and names the intent."""
    image = crashed(policy, upto=upto).log
    for _ in range(3):
        desk = Desk([SystemExit("killed")] * 2, {"work": SystemExit("killed")}, tools=(tool("work", replay=policy), LOOK, SUBMIT), shelf=image)
        with pytest.raises(SystemExit):
            desk.resume()
        image = desk.log.upto(len(desk.log.records))
    desk = Desk(LINES, tools=(tool("work", replay=policy), LOOK, SUBMIT), shelf=image)
    ended = desk.resume()
    assert (ended.reason, ended.error["of"], ended.error["recoveries"]) == ("unresolved_action", upto - 1, 3)
    assert (desk.actions.done, desk.model.seen) == ([], [])
    desk.check()


def test_recoveries_are_counted_per_intent() -> None:
    image = Desk([act("look", n=n) for n in range(4)] + [DONE])
    image.start()
    log = image.log.upto(4)
    for n in range(4):
        desk = Desk(image.model.lines, {"look": lambda a, n=n: said("x") if a.args["n"] == n else SystemExit("killed")}, shelf=log)
        if n < 3:
            with pytest.raises(SystemExit):
                desk.resume()
            log = desk.log.upto(len(desk.log.records))
    assert desk.resume().reason == "completed"


def test_overlapping_reads_are_recovered_each() -> None:
    both = spell(["act", "look", {"n": 1}], ["act", "look", {"n": 2}])
    first = Desk([both], interpreter=Spelled())
    first.start()
    assert first.log.kinds[:5] == ["run_started", "model_intent", "model_result", "action_intent", "action_intent"]
    desk = Desk([both], interpreter=Spelled(), shelf=first.log.upto(5))
    desk.resume()
    assert [x["of"] for x in desk.shown() if x["kind"] == "replay"] == [3, 4]
    assert sorted(a.args["n"] for a in desk.actions.done) == [1, 2]
    assert {a.key for a in desk.actions.done} == {a.key for a in first.actions.done}
    desk.check()


# --- a cut tail ----------------------------------------------------------------------------------------------------


def test_an_action_that_a_cut_frame_may_have_held_is_an_open_intent() -> None:
    """Frame [model_result, action_intent] is torn: the model answers the same, and the write is probed, not sent again."""
    desk = crashed("probe", word=said("it had landed"), upto=2)
    desk.log.torn = Damage(2, "checksum", "ff" * 32)
    ended = desk.resume()
    assert (ended.reason, desk.actions.calls("work")) == ("completed", 0)
    assert desk.log.kinds[2:4] == ["resume_started", "tail_repaired"]
    assert [(x["first_seq"], x["reason"], x["lost_hash"]) for x in desk.shown() if x["kind"] == "tail_repaired"] == [(2, "checksum", "ff" * 32)]
    desk.check()


def test_a_cut_tail_is_suspected_for_its_own_iteration_only() -> None:
    desk = crashed("probe", word=said("x"), upto=2, lines=[act("work"), act("work", n=2), DONE])
    desk.log.torn = Damage(2, "checksum")
    desk.resume()
    assert [(len(desk.actions.asked), a.args) for a in desk.actions.done if a.tool == "work"] == [(1, {"n": 2})]


# --- cancelled before it is recovered ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "word", "status"),
    [
        ("rerun", None, "unknown"), ("report_unknown", None, "unknown"), ("ask", None, "unknown"), ("never", None, "unknown"),
        ("probe", said("landed"), "ok"), ("probe", NotStarted(), "not_executed"), ("probe", Unknown(), "unknown"), ("probe", Pending("t"), "unknown"),
    ],
)  # fmt: skip
def test_an_ownerless_run_is_ended_by_the_canceller(policy: str, word: object, status: str) -> None:
    """Nothing is dispatched and nobody waited for; a service that can be asked is asked, with a fence."""
    desk = crashed(policy, word=word)
    desk.log.leave("cancel", body="enough")
    ended = desk.resume()
    assert (ended.reason, desk.actions.done) == ("cancelled", [])
    assert recovery(desk)[-1] == ("", status)
    assert all(fence for _, _, fence in desk.actions.asked)
    desk.check()
