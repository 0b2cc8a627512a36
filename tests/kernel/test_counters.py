"""What counts, what does not, and what ends a run that gets nowhere (S2.17, S2.36, S2.52; R22-R31)."""

from __future__ import annotations

import json

import pytest

from polyloop.kernel.objects import Counters
from polyloop.kernel.records import Evidence
from polyloop.kernel.seams import Deferred, ModelCallFailed, Outcome, Reply
from polyloop.testing import ScriptedActions, said
from polyloop.testing.sim.grammar import Grammar
from tests.kernel.desk import CLOSED, LOOK, SUBMIT, TOOLS, WRITE, Desk, Spelled, act, spell, tool

NOPE = act("nope", path="a")
DONE = act("submit", summary="s")
NEEDY = tool("needy", max_argument_failures=3, schema={**CLOSED, "properties": {"path": {}}, "required": ["path"]})
STRICT = tool("strict", schema={**CLOSED, "properties": {"path": {}}, "required": ["path"]})


def refused(code: str) -> Outcome:
    return Outcome("not_executed", code=code)


def at_once(decision: str, shelf_of: list[Desk], body: object = None):
    """A deed that waits, and a person who has already decided when it does."""

    def deed(action):
        shelf_of[0].log.leave("resolve", f"t-{action.key}", decision, body, at=shelf_of[0].clock.now_ms())
        return Deferred(f"t-{action.key}", "approval")

    return deed


#: reply, deed of `look`, whether the executor promises a signal -> tier, valid, outcome, reason of the end.
TIERS = [
    ("not interpretable", "prose", None, False, "A", False, "not_json", "model_call_failed"),
    ("no action", '{"plan": "p"}', None, False, "A", False, "no_action", "model_call_failed"),
    ("unknown tool", NOPE, None, False, "B", False, "unknown_tool", "model_call_failed"),
    ("arguments missing", '{"action": {"tool": "look"}}', None, False, "C", False, "args_missing", "model_call_failed"),
    ("arguments invalid", act("strict"), None, False, "C", False, "args_invalid", "model_call_failed"),
    ("refused by policy", act("look"), refused("denied"), False, "D", False, "denied", "model_call_failed"),
    ("refused by the tool's own check", act("look"), refused("args_invalid"), False, "C", False, "args_invalid", "model_call_failed"),
    ("environment done", act("look"), said("x", completion="DONE"), True, "E", True, "ok", "completed"),
    ("environment done, unpromised", act("look"), said("x", completion="DONE"), False, "E", True, "ok", "completed"),
    ("promised signal missing", act("look"), said("x", completion="UNAVAILABLE"), True, "F", True, "ok", "environment_fault"),
    ("no signal by nature", act("look"), said("x", completion="UNAVAILABLE"), False, "G", True, "ok", "model_call_failed"),
    ("not done", act("look"), said("x"), True, "G", True, "ok", "model_call_failed"),
    ("business failure", act("look"), Outcome("error"), False, "G", True, "error", "model_call_failed"),
    ("unknown", act("look"), Outcome("unknown"), False, "G", True, "unknown", "model_call_failed"),
    ("executor fault", act("look"), OSError("gone"), False, "F", True, "unknown", "environment_fault"),
]  # fmt: skip


@pytest.mark.parametrize(("reply", "deed", "promises", "tier", "valid", "outcome", "reason"), [t[1:] for t in TIERS], ids=[t[0] for t in TIERS])
def test_S2_17_S2_38_tiers(reply, deed, promises, tier, valid, outcome, reason) -> None:
    desk = Desk([reply], actions=ScriptedActions({"look": deed} if deed else {}, promises=promises), tools=(*TOOLS, STRICT))
    ended = desk.start()
    (step,) = desk.steps()
    assert (step["tier"], step["valid"], step["outcome"], ended.reason) == (tier, valid, outcome, reason)
    assert (ended.counters.valid_steps, ended.counters.rejections_total) == (valid, not valid)
    desk.check()


def test_the_last_kind_of_tier_is_not_executed() -> None:
    desk = Desk([spell(["act", "submit"], ["act", "write"])], interpreter=Spelled())
    desk.start()
    assert [(s["tier"], s["outcome"], s["valid"]) for s in desk.steps()] == [("G", "ok", True), ("H", "not_executed", False)]


def test_S2_17_an_invalid_call_is_no_step_but_an_iteration() -> None:
    """R22: invalid xN, then valid."""
    desk = Desk([act("nope", n=1), "prose", act("nope", n=2), act("look"), DONE])
    ended = desk.start()
    assert ended.counters == Counters(iterations=5, valid_steps=2, rejections_total=3)
    assert [s["iteration"] for s in desk.steps()] == [1, 2, 3, 4, 5]
    assert [s["counters"]["rejections_consecutive"] for s in desk.steps()] == [1, 2, 3, 0, 0]


@pytest.mark.parametrize(("iterations", "guard"), [(1, 0), (7, 0), (7, 8)])
def test_S2_17_always_invalid_ends_at_the_iteration_cap_exactly(iterations: int, guard: int) -> None:
    """R23: not the 2,001 calls of the predecessor; the cap, and not one more."""
    desk = Desk(lambda _: NOPE, iterations=iterations, max_identical_rejections=guard)
    ended = desk.start()
    assert (ended.reason, ended.detail) == ("budget_exhausted", "iterations")
    assert len(desk.model.seen) == iterations
    assert ended.counters == Counters(iterations, 0, iterations, iterations, iterations)
    assert desk.actions.done == []


def test_S2_17_a_step_budget_is_its_own_bound() -> None:
    desk = Desk(lambda _: act("look"), valid_steps=4, iterations=100)
    ended = desk.start()
    assert (ended.reason, ended.detail, len(desk.model.seen)) == ("budget_exhausted", "valid_steps", 4)


def test_an_executed_action_counts_whatever_its_business_outcome() -> None:
    """R25."""
    desk = Desk([act("look"), act("write"), DONE], {"look": Outcome("error", code="not_found"), "write": Outcome("unknown")})
    assert desk.start().counters.valid_steps == 3


def test_the_model_is_told_why() -> None:
    """R26: a short coded reason stands in the next context."""
    desk = Desk([NOPE, "prose " * 5000, act("look"), DONE], {"look": Outcome("not_executed", (said("Read-only mode.").observation), code="denied")})
    desk.start()
    assert "[rejected: unknown_tool]" in desk.told(1)
    assert "[rejected: not_json]" in desk.told(2)
    assert len(desk.told(2)) < 6000
    assert "[rejected: denied]" in desk.told(3)
    assert "Read-only mode." in desk.told(3)


def test_S2_35_only_what_the_kernel_sees_is_counted() -> None:
    """R27, R28: a gateway that failed over three times inside one call is one unit; tokens are none."""
    desk = Desk([Reply(act("look"), attempts=4), Reply(DONE, attempts=4)], iterations=2)
    ended = desk.start()
    assert (ended.reason, ended.counters.iterations) == ("completed", 2)
    assert [x["attempts"] for x in desk.shown() if x["kind"] == "model_result"] == [4, 4]


@pytest.mark.parametrize(("sent", "iterations"), [(False, 0), (True, 1)])
def test_S2_45_a_call_refused_before_it_was_sent_costs_nothing(sent: bool, iterations: int) -> None:
    """R29, R80: the run ends at step 0 as a failed model call, and names the key."""
    desk = Desk([ModelCallFailed("binding_rejected", sent=sent, key="session_id", message="session_id must be gateway.session_id")])
    ended = desk.start()
    assert (ended.reason, ended.detail, ended.counters) == ("model_call_failed", "binding_rejected", Counters(iterations))
    assert ended.error == {"code": "binding_rejected", "key": "session_id", "message": "session_id must be gateway.session_id", "sent": sent}
    assert len(desk.model.seen) == 1


def test_S2_35_a_failed_call_is_not_repeated() -> None:
    """R69: one intent, one call, the end; no setting says otherwise (R71)."""
    desk = Desk(lambda _: ModelCallFailed("down"))
    assert desk.start().reason == "model_call_failed"
    assert (len(desk.model.seen), desk.log.kinds.count("model_intent")) == (1, 1)
    assert not [f for f in desk.request.budget.__struct_fields__ if "retr" in f]


def test_a_model_that_breaks_is_a_failed_call() -> None:
    desk = Desk([RuntimeError("broken adapter")])
    ended = desk.start()
    assert (ended.reason, ended.detail) == ("model_call_failed", "model_exception")
    assert "broken adapter" in str(ended.error)


@pytest.mark.parametrize("path", ["mark", "environment"])
def test_completion_on_the_last_permitted_step_is_completion(path: str) -> None:
    """R31: budget 1, done in step 1."""
    deeds = {"submit": said("x")} if path == "mark" else {"submit": said("x", completion="DONE")}
    ended = Desk([DONE], deeds, valid_steps=1, iterations=1).start()
    assert (ended.ended, ended.reason, ended.completed_by) == (True, "completed", "completion_tool" if path == "mark" else "environment")


# --- stall ---------------------------------------------------------------------------------------------------------


def test_S2_52_the_same_rejection_warns_then_ends_the_run() -> None:
    """R30: the second names the tools, the third ends it, and not as a used-up budget."""
    desk = Desk(lambda _: NOPE)
    ended = desk.start()
    assert (ended.reason, ended.detail, len(desk.model.seen)) == ("stalled", "identical_rejections", 3)
    first, second, _ = (s["rejection"]["message"] for s in desk.steps())
    assert all(t.name in second[len(first) :] for t in TOOLS)
    assert "end" in second[len(first) :]
    assert second in desk.told(2)
    assert [s["counters"]["identical_streak"] for s in desk.steps()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("replies", "streaks"),
    [
        ([NOPE, NOPE, act("nope", path="b"), NOPE, NOPE], [1, 2, 1, 1, 2]),
        ([NOPE, NOPE, act("look"), NOPE, NOPE], [1, 2, 0, 1, 2]),
        ([NOPE, "prose", "prose", "poem"], [1, 1, 2, 1]),
        ([act("nope", path="a"), '{"reflection": "else", "action": {"tool": "nope", "args": {"path": "a"}}}'], [1, 2]),
    ],
    ids=["another argument", "a valid step", "another kind", "other words around the same call"],
)  # fmt: skip
def test_a_streak_is_of_one_mistake(replies: list[str], streaks: list[int]) -> None:
    desk = Desk(replies)
    desk.start()
    assert [s["counters"]["identical_streak"] for s in desk.steps()] == streaks


@pytest.mark.parametrize(("limit", "calls"), [(1, 1), (2, 2), (5, 5)])
def test_the_guard_is_the_requests(limit: int, calls: int) -> None:
    desk = Desk(lambda _: NOPE, max_identical_rejections=limit)
    assert (desk.start().reason, len(desk.model.seen)) == ("stalled", calls)


def test_a_signature_scores_once_per_iteration() -> None:
    """Three equal mistakes in one reply are one bad reply."""
    three = spell(*[["reject", "unknown_tool", "nope", "x"]] * 3)
    desk = Desk([three, three, three], interpreter=Spelled())
    ended = desk.start()
    assert (ended.reason, ended.counters) == ("stalled", Counters(3, 0, 9, 3, 3))


def test_a_rejection_beside_a_valid_step_is_no_stall() -> None:
    """A rejected call does not stop the others, and a reply that got something done is not stuck."""
    both = spell(["reject", "unknown_tool", "nope", "x"], ["act", "look"])
    desk = Desk([both] * 5, interpreter=Spelled())
    ended = desk.start()
    assert (ended.reason, ended.counters) == ("model_call_failed", Counters(5, 5, 5))
    other = spell(["act", "look"], ["reject", "unknown_tool", "nope", "x"])
    assert Desk([other] * 5, interpreter=Spelled()).start().counters == Counters(5, 5, 5)


def test_consecutive_rejections_are_a_guard_of_their_own_off_by_default() -> None:
    ended = Desk(lambda q: act("nope", n=q.reply_no), iterations=30).start()
    assert (ended.reason, ended.counters.rejections_consecutive) == ("budget_exhausted", 30)
    ended = Desk(lambda q: act("nope", n=q.reply_no), max_consecutive_rejections=4).start()
    assert (ended.reason, ended.detail, ended.counters.iterations) == ("stalled", "consecutive_rejections", 4)


@pytest.mark.parametrize("decision", ["denied", "expired"])
def test_denied_and_expired_count_as_rejections(decision: str) -> None:
    box: list[Desk] = []
    desk = Desk([act("look")] * 9, {"look": at_once(decision, box)})
    box.append(desk)
    ended = desk.start()
    assert (ended.reason, ended.detail) == ("stalled", "identical_rejections")
    assert {(s["tier"], s["outcome"], s["valid"]) for s in desk.steps()} == {("D", "denied", False)}
    assert ended.counters == Counters(3, 0, 3, 3, 3)
    desk.check()


# --- tools with a limit on argument failures -------------------------------------------------------------------------


def test_S1_88_a_tool_is_withdrawn_after_its_argument_failures() -> None:
    """Counted per tool, not as a stall; only further calls of the withdrawn tool score."""
    desk = Desk([act("needy", n=i) for i in range(9)], tools=(*TOOLS, NEEDY))
    ended = desk.start()
    assert [s["outcome"] for s in desk.steps()] == ["args_invalid"] * 3 + ["tool_exhausted"] * 3
    assert [s["tier"] for s in desk.steps()] == ["C"] * 3 + ["D"] * 3
    assert [s["counters"]["identical_streak"] for s in desk.steps()] == [0, 0, 0, 1, 2, 3]
    assert (ended.reason, ended.detail) == ("stalled", "identical_rejections")


def test_S1_88_right_arguments_come_too_late_for_a_withdrawn_tool() -> None:
    lines = [act("needy"), '{"action": {"tool": "needy"}}', act("look"), act("needy", n=1), act("needy", path="a"), DONE]
    desk = Desk(lines, tools=(*TOOLS, NEEDY))
    assert desk.start().reason == "completed"
    assert [s["outcome"] for s in desk.steps()] == ["args_invalid", "args_missing", "ok", "args_invalid", "tool_exhausted", "ok"]
    assert desk.actions.calls("needy") == 0


def test_S1_88_the_tools_own_refusals_count_among_them() -> None:
    """contract.md: validation is a rejection, whoever found it."""
    desk = Desk([act("needy", path="a", n=i) for i in range(4)], {"needy": refused("args_invalid")}, tools=(*TOOLS, NEEDY))
    desk.start()
    assert [s["outcome"] for s in desk.steps()] == ["args_invalid"] * 3 + ["tool_exhausted"]


def test_a_tool_without_the_limit_is_left_to_the_stall_guard() -> None:
    desk = Desk(lambda _: act("strict"), tools=(*TOOLS, STRICT))
    assert (desk.start().reason, len(desk.model.seen)) == ("stalled", 3)


# --- repeats -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "deed", "spec", "flags"),
    [
        ([act("look", a=1)] * 3, said("same"), LOOK, [False, True, True]),
        ([act("look", a=1), act("look", a=2)], said("same"), LOOK, [False, False]),
        ([act("look", a=1)] * 2, lambda a: said(a.key), LOOK, [False, False]),
        ([act("look", a=1)] * 3, said("same"), tool("look", pollable=True), [False] * 3),
        ([act("look", a="x" * 3000), act("look", a="y" * 3000)], said("same"), LOOK, [False, False]),
        ([act("look", a="x" * 3000)] * 2, said("same"), LOOK, [False, True]),
    ],
    ids=["the same", "other arguments", "another observation", "pollable", "other long arguments", "the same long arguments"],
)  # fmt: skip
def test_executed_repeats_are_flagged_and_go_on(lines, deed, spec, flags) -> None:
    desk = Desk([*lines, DONE], {"look": deed}, tools=(spec, WRITE, SUBMIT))
    assert desk.start().reason == "completed"
    assert [s["repeated"] for s in desk.steps()][:-1] == flags


def below(iterations: int, valid_steps: int) -> Outcome:
    return said("found", evidence=(Evidence("sub", "run", "completed", iterations=iterations, valid_steps=valid_steps),))


@pytest.mark.parametrize(
    ("used", "budget", "detail", "steps"),
    [((3, 2), {"valid_steps": 4}, "valid_steps", 2), ((3, 2), {"iterations": 6}, "iterations", 3), ((0, 0), {"valid_steps": 4}, "valid_steps", 4)],
)
def test_what_a_run_below_has_used_counts_against_the_budget_and_is_in_no_counter(used, budget, detail, steps) -> None:
    first = [below(*used)]
    desk = Desk([act("look", n=n) for n in range(9)], {"look": lambda _: first.pop() if first else said("seen")}, **budget)
    result = desk.start()
    assert (result.reason, result.detail) == ("budget_exhausted", detail)
    assert (result.counters.valid_steps, result.counters.iterations) == (steps, steps)
    assert desk.resume() == result, "the log alone says so"
    desk.check()
    grammar = Grammar()
    for one in desk.log.records:
        grammar.accept([one], [json.loads(one.body or b"")])
    assert grammar.ended


def test_S1_15_a_reading_that_may_wait_is_carried_out_by_itself() -> None:
    """Readings of one reply overlap, but for those that may wait: after the first that does, nothing else of the reply is begun."""
    ask = tool("ask", replay="probe", defers=True)
    desk = Desk(
        [spell(["act", "look"], ["act", "look"], ["act", "ask"], ["act", "ask"], ["act", "look"]), spell(["act", "submit"])],
        {"ask": lambda action: Deferred(f"t-{action.key}", "answer")}, tools=(*TOOLS, ask), interpreter=Spelled(),
    )  # fmt: skip
    assert desk.start().state == "waiting"
    assert [action.tool for action in desk.actions.done] == ["look", "look", "ask"]
    assert [(s["call"], s["outcome"]) for s in desk.shown() if s["kind"] == "step"] == [
        (0, "ok"), (1, "ok"), (3, "not_executed"), (4, "not_executed"),
    ]  # fmt: skip
