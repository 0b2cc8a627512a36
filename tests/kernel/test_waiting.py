"""Runs that wait: for an approval, an answer, a task, a sub-run, a person's word (kernel.md, Ownership, waiting, cancelling)."""

from __future__ import annotations

import pytest

from polyloop.kernel import run
from polyloop.kernel.objects import Waiting
from polyloop.kernel.seams import CorruptStore, Deferred, NotStarted, Outcome, OwnedElsewhere, Pending, Unknown
from polyloop.testing import said
from tests.kernel.desk import STREAM, Desk, act, go

DONE = act("submit", summary="s")
UNTIL = 1_700_000_100_000


def waiting(awaited: str = "approval", *, until: int = 0, dispatched: bool = False, then: object = None) -> Desk:
    """A run that waits in its first action; `then` is what the action does once it is dispatched again."""
    first = Deferred("t", awaited, until, dispatched, {"ask": "may I?"})
    desk = Desk([act("write", n=1), DONE], {"write": lambda a: then if a.token else first})
    result = desk.start()
    assert (result.state, result.waiting, result.reason) == ("waiting", Waiting(awaited, "t", until), "")
    return desk


def resolve(desk: Desk, decision: str, body: object = None, *, at: int = 0) -> None:
    desk.log.leave("resolve", "t", decision, body, at=at or desk.clock.now_ms())


def outcomes(desk: Desk) -> list[str]:
    return [s["outcome"] for s in desk.steps()]


@pytest.mark.parametrize("awaited", ["approval", "answer", "task", "settle", "run"])
def test_a_waiting_run_has_no_end_and_no_holder(awaited: str) -> None:
    desk = waiting(awaited)
    assert desk.log.kinds[-1] == "action_deferred"
    assert "run_ended" not in desk.log.kinds
    assert desk.log.holder == ""
    desk.check()


@pytest.mark.parametrize("awaited", ["approval", "answer", "task", "settle", "run"])
def test_polling_a_waiting_run_writes_nothing(awaited: str) -> None:
    desk = waiting(awaited)
    before = list(desk.log.records)
    for _ in range(3):
        result = desk.resume()
        assert (result.state, result.last_seq, result.head_hash) == ("waiting", before[-1].seq, before[-1].hash)
    assert desk.log.records == before
    desk.check()


def test_an_approved_action_is_dispatched_once_with_its_token() -> None:
    """The resolution is durable before the effect."""
    desk = waiting(then=said("written"))
    seen: list[list[str]] = []
    desk.actions.deeds["write"] = lambda _: seen.append(list(desk.log.kinds)) or said("written")
    resolve(desk, "approved")
    assert desk.resume().reason == "completed"
    assert seen[0][-2:] == ["resume_started", "action_resolved"]
    first, second, _ = desk.actions.done
    assert (first.key, first.approved, first.token) == (second.key, False, "")
    assert (second.approved, second.token, second.attempt) == (True, "t", 1)
    assert outcomes(desk) == ["ok", "ok"]
    desk.check()


def test_an_approval_that_is_there_before_the_run_waits_is_taken_up_at_once() -> None:
    desk = Desk([act("write"), DONE])

    def deed(action):
        resolve(desk, "approved")
        return said("written") if action.approved else Deferred("t", "approval")

    desk.actions.deeds["write"] = deed
    assert desk.start().reason == "completed"


def test_an_approval_in_the_moment_of_release_is_not_lost() -> None:
    desk = Desk([act("write"), DONE], {"write": lambda a: said("written") if a.approved else Deferred("t", "approval")})
    desk.log.on_release = lambda: desk.log.left or resolve(desk, "approved")
    assert desk.start().reason == "completed"
    desk.check()


@pytest.mark.parametrize(
    ("at", "now", "outcome"),
    [(UNTIL, UNTIL - 1, "ok"), (UNTIL, UNTIL + 50_000, "ok"), (UNTIL + 1, UNTIL + 50_000, "denied"), (UNTIL + 1, UNTIL + 1, "denied")],
    ids=["in time", "in time, read late", "too late, read late", "too late"],
)
def test_an_approval_counts_when_it_was_given_not_when_it_is_read(at: int, now: int, outcome: str) -> None:
    desk = waiting(until=UNTIL, then=said("written"))
    resolve(desk, "approved", at=at)
    desk.clock.skew(now - desk.clock.now_ms())
    desk.resume()
    assert outcomes(desk) == [outcome, "ok"]
    desk.check()


def test_a_wait_expires_by_itself() -> None:
    desk = waiting(until=UNTIL)
    desk.clock.skew(UNTIL - desk.clock.now_ms())
    assert desk.resume().reason == "completed"
    assert [(x["decision"], x["by"]) for x in desk.shown() if x["kind"] == "action_resolved"] == [("expired", "kernel")]
    assert (outcomes(desk), desk.actions.calls("write")) == (["denied", "ok"], 1)


def test_a_refusal_and_its_reason_reach_the_model() -> None:
    desk = waiting()
    resolve(desk, "denied", {"reason": "too dear"})
    assert desk.resume().reason == "completed"
    assert (outcomes(desk), desk.actions.calls("write")) == (["denied", "ok"], 1)
    assert "too dear" in desk.told()
    assert [(x["by"], x["evidence"]) for x in desk.shown() if x["kind"] == "action_resolved"] == [("somebody", {"reason": "too dear"})]


def test_an_answer_is_the_observation_and_dispatches_nothing() -> None:
    desk = waiting("answer")
    resolve(desk, "answered", {"colour": "blau", "lone": "\ud800"})
    assert desk.resume().reason == "completed"
    assert desk.actions.calls("write") == 1
    assert '"colour":"blau"' in desk.told()
    assert outcomes(desk) == ["ok", "ok"]
    desk.check()


def test_an_answer_is_consumed_once_and_a_second_one_ignored() -> None:
    """Handed case resume_drift-02: never silently the old value with success, never two values."""
    desk = waiting("answer")
    resolve(desk, "answered", "yes")
    resolve(desk, "answered", "no")
    assert desk.resume().reason == "completed"
    assert ["no" in desk.told(), "yes" in desk.told()] == [False, True]
    assert desk.log.kinds.count("action_resolved") == 1
    resolve(desk, "answered", "later")
    before = list(desk.log.records)
    assert desk.resume().reason == "completed"
    assert desk.log.records == before


def test_an_approval_is_consumed_once() -> None:
    """The same question asked again under the same token is a question again."""
    desk = Desk([act("write", n=1), act("write", n=1), DONE], {"write": lambda a: said("written") if a.approved else Deferred("t", "approval")})
    desk.start()
    resolve(desk, "approved")
    again = desk.resume()
    assert (again.state, desk.actions.calls("write")) == ("waiting", 3)
    assert desk.resume().state == "waiting"
    resolve(desk, "approved")
    assert desk.resume().reason == "completed"
    assert outcomes(desk) == ["ok", "ok", "ok"]
    desk.check()


@pytest.mark.parametrize("decision", ["", "maybe", "Approved", "__class__"])
def test_a_resolution_that_says_nothing_known_is_ignored(decision: str) -> None:
    """A signal is data from outside: it can neither break a run nor stand in the way of a proper one."""
    desk = waiting(then=said("written"))
    before = list(desk.log.records)
    resolve(desk, decision)
    assert desk.resume().state == "waiting"
    assert desk.log.records == before
    resolve(desk, "approved")
    assert desk.resume().reason == "completed"


def test_a_resolution_for_another_token_is_ignored() -> None:
    desk = waiting()
    desk.log.leave("resolve", "other", "approved")
    assert desk.resume().state == "waiting"


# --- tasks, sub-runs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("awaited", ["task", "run"])
def test_a_task_is_polled_once_a_visit_and_its_outcome_taken(awaited: str) -> None:
    desk = waiting(awaited, dispatched=True)
    desk.actions.words["write"] = Pending("t")
    assert desk.resume().state == "waiting"
    assert [(token, fence) for _, token, fence in desk.actions.asked] == [("t", False)] * 2
    desk.actions.words["write"] = said("the file is there")
    assert desk.resume().reason == "completed"
    assert "the file is there" in desk.told()
    assert (outcomes(desk), desk.actions.calls("write")) == (["ok", "ok"], 1)
    desk.check()


@pytest.mark.parametrize("awaited", ["approval", "answer"])
def test_what_only_a_person_can_say_is_not_polled(awaited: str) -> None:
    desk = waiting(awaited)
    desk.resume()
    assert desk.actions.asked == []


def test_a_finished_task_is_asked_for_its_outcome() -> None:
    desk = waiting("task", dispatched=True)
    desk.actions.words["write"] = said("done at last", completion="DONE", result={"url": "u"})
    resolve(desk, "finished", by_worker := {"worker": "w"})
    ended = desk.resume()
    assert (ended.reason, ended.completed_by, ended.result) == ("completed", "environment", {"url": "u"})
    assert [x["evidence"] for x in desk.shown() if x["kind"] == "action_resolved"] == [by_worker]


@pytest.mark.parametrize(
    ("word", "status"),
    [(Unknown(), "unknown"), (OSError("gone"), "unknown"), (Pending("t"), "unknown"), (Outcome("error"), "error"), (NotStarted(), "not_executed")],
    ids=["cannot tell", "breaks", "still pending", "failed", "never began"],
)  # fmt: skip
def test_a_finished_task_whose_service_says_otherwise(word: object, status: str) -> None:
    desk = waiting("task", dispatched=True)
    desk.actions.words["write"] = word
    resolve(desk, "finished")
    assert desk.resume().reason == "completed"
    assert [x["status"] for x in desk.shown() if x["kind"] == "action_result"] == [status, "ok"]
    desk.check()


def test_a_poll_that_breaks_leaves_the_run_waiting() -> None:
    desk = waiting("task", dispatched=True)
    desk.actions.words["write"] = OSError("gone")
    before = list(desk.log.records)
    assert desk.resume().state == "waiting"
    assert desk.log.records == before
    desk.check()


# --- leaving a wait ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("awaited", "dispatched", "word", "status"),
    [
        ("approval", False, None, "not_executed"),
        ("answer", False, None, "not_executed"),
        ("task", True, NotStarted(), "not_executed"),
        ("task", True, said("landed all the same"), "ok"),
        ("task", True, Pending("t"), "unknown"),
        ("run", True, Unknown(), "unknown"),
        ("settle", True, None, "unknown"),
    ],
)
def test_cancel_while_waiting_withdraws(awaited: str, dispatched: bool, word: object, status: str) -> None:
    """What was never sent is withdrawn; what was sent is asked about, with a fence; what nobody can know stays unknown."""
    desk = waiting(awaited, dispatched=dispatched)
    desk.actions.words["write"] = word
    asked = len(desk.actions.asked)
    desk.log.leave("cancel", body="enough")
    ended = desk.resume()
    assert (ended.reason, ended.detail) == ("cancelled", "enough")
    assert [x["status"] for x in desk.shown() if x["kind"] == "action_result"] == [status]
    assert [(token, fence) for _, token, fence in desk.actions.asked[asked:]] == ([("t", True)] if word else [])
    assert [x["decision"] for x in desk.shown() if x["kind"] == "action_resolved"] == ["withdrawn"]
    assert desk.actions.calls("write") == 1
    desk.check()


def test_a_cancel_outranks_an_approval() -> None:
    desk = waiting(then=said("written"))
    resolve(desk, "approved")
    desk.log.leave("cancel")
    assert desk.resume().reason == "cancelled"
    assert desk.actions.calls("write") == 1


def test_a_suspend_is_heeded_once() -> None:
    """It stops who holds the run, and nobody who comes later."""
    desk = Desk([act("look"), act("look", n=2), DONE])
    desk.actions.deeds["look"] = lambda a: said(str(a.args or desk.log.leave("suspend")))
    stopped = desk.start()
    assert (stopped.state, stopped.reason, stopped.persisted) == ("interrupted", "", True)
    assert desk.log.holder == ""
    assert desk.resume().reason == "completed"
    assert [a.args for a in desk.actions.done] == [{}, {"n": 2}, {"summary": "s"}]
    desk.check()


def test_a_suspended_wait_is_let_go() -> None:
    desk = waiting("task", dispatched=True)

    def word(_):
        desk.log.leave("suspend")
        desk.driver.suspend()
        return Pending("t")

    desk.actions.words["write"] = word
    assert desk.resume().state in ("waiting", "interrupted")
    assert desk.log.holder == ""


# --- crashes around an approval ------------------------------------------------------------------------------------


def test_a_crash_before_the_resolution_is_durable_dispatches_once() -> None:
    desk = waiting(then=said("written"))
    resolve(desk, "approved")
    image = desk.log.upto(len(desk.log.records))
    crashed = Desk(desk.model.lines, shelf=image, actions=desk.actions)
    assert crashed.resume().reason == "completed"
    assert desk.actions.calls("write") == 2


@pytest.mark.parametrize(("word", "dispatches"), [(NotStarted(), 1), (said("it landed"), 0), (Unknown(), 0)])
def test_a_crash_after_the_resolution_is_durable_asks_before_it_dispatches(word: object, dispatches: int) -> None:
    desk = waiting(then=said("written"))
    resolve(desk, "approved")
    desk.resume()
    cut = desk.log.kinds.index("action_resolved") + 1
    crashed = Desk(desk.model.lines, {"write": said("written")}, shelf=desk.log.upto(cut))
    crashed.actions.words["write"] = word
    assert crashed.resume().reason == "completed"
    assert crashed.actions.calls("write") == dispatches
    assert [(a.approved, a.token) for a in crashed.actions.done if a.tool == "write"] == [(True, "t")] * dispatches
    crashed.check()


# --- abandoned -----------------------------------------------------------------------------------------------------


def abandoned(desk: Desk):
    return go(run.abandon(STREAM, desk.seams("h9"), "an operator"))


def test_an_abandoned_run_gets_its_end_and_nothing_else() -> None:
    """Whatever it waited for, nothing is asked, withdrawn or dispatched; the end says who."""
    for desk in (waiting("task", dispatched=True), waiting()):
        before = list(desk.log.records)
        ended = abandoned(desk)
        assert (ended.state, ended.reason, ended.error) == ("ended", "abandoned", {"by": "an operator"})
        assert desk.log.records[: len(before)] == before
        assert desk.log.kinds[len(before) :] == ["resume_started", "run_ended"]
        assert (desk.actions.calls("write"), desk.resume().reason) == (1, "abandoned")
        desk.check()


def test_an_ended_run_cannot_be_abandoned_and_a_living_one_is_not_there_to_be() -> None:
    desk = Desk([DONE])
    desk.start()
    assert abandoned(desk).reason == "completed"
    with pytest.raises(run.NoSuchRun):
        abandoned(Desk([]))
    held = waiting()
    held.log.holder = "another"
    with pytest.raises(OwnedElsewhere):
        abandoned(held)


def test_a_run_whose_texts_are_gone_can_still_be_abandoned() -> None:
    desk = Desk([act("write", long="x" * 3000)], {"write": Deferred("t", "approval")})
    desk.start()
    desk.log.texts.clear()
    with pytest.raises(CorruptStore):
        desk.resume()
    assert abandoned(desk).reason == "abandoned"


@pytest.mark.parametrize(
    ("awaited", "until", "visit_after_ms"),
    [("task", 0, 60_000), ("run", 0, 60_000), ("task", 100_000, 60_000), ("task", 5_000, 5_000), ("approval", 0, 0), ("approval", 5_000, 5_000)],
)
def test_what_nobody_tells_of_is_visited_again(awaited: str, until: int, visit_after_ms: int) -> None:
    """A task or sub-run without a deadline is asked about from time to time; an approval announces itself."""
    desk = Desk()
    now = desk.clock.now_ms()
    desk = Desk([act("write")], {"write": Deferred("t", awaited, until and now + until, dispatched=True)}, clock=desk.clock)
    assert desk.start().state == "waiting"
    assert desk.log.next_poll == (now + visit_after_ms if visit_after_ms else 0)
