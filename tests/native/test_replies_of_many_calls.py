"""Native replies of 1 to 20 calls, drawn: order, tiers, pairing, and a kill after any record (S2.50; kernel.md, A step)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.kernel import records as r
from polyloop.kernel.objects import Budget
from polyloop.kernel.records import ToolCall
from polyloop.kernel.seams import Deferred, Outcome, Reply
from polyloop.testing import said
from tests.kernel.desk import Desk
from tests.kernel.test_native_runs import calls, native

#: What a call is, the tier of its step when it is within all limits.
CALLS: dict[str, tuple[tuple[str, Any], str]] = {
    "read": (("look", {"n": 1}), "G"),
    "write": (("write", {"n": 1}), "G"),
    "no such tool": (("nope", {}), "B"),
    "wrong arguments": (("strict", {"q": 1}), "C"),
    "cut arguments": (("strict", '{"path": "a'), "A"),
    "no arguments": (("look", ""), "C"),
}
REPLIES = st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=20)
LIMIT = 16


def desk_of(kinds: list[str], deeds: Any = None) -> Desk:
    desk = native([calls(*(CALLS[kind][0] for kind in kinds)), calls(("submit", {"summary": "s"}))], deeds)
    desk.request = replace(desk.request, budget=Budget(40, 40, max_identical_rejections=0))
    return desk


def paired(desk: Desk, call: int = -1) -> None:
    """The rule of the providers: after a message with calls, one result for each, in order, before anything else."""
    due: list[str] = []
    for message in desk.model.seen[call].messages:
        if message.call_id:
            assert due, message
            assert message.call_id == due.pop(0)
        else:
            assert not due, due
        due += [c.id for c in message.tool_calls]
    assert not due


@settings(max_examples=40)
@given(REPLIES)
def test_S2_50_each_call_is_judged_alone_and_answered_in_its_place(kinds: list[str]) -> None:
    desk = desk_of(kinds)
    ended = desk.start()
    steps = [s for s in desk.steps() if s["iteration"] == 1]
    assert [s["call"] for s in steps] == list(range(len(kinds)))
    assert [s["tier"] for s in steps] == ["H" if i >= LIMIT and CALLS[k][1] == "G" else CALLS[k][1] for i, k in enumerate(kinds)]
    intents = [body.call for body in desk.log.bodies() if isinstance(body, r.ActionIntent)][:-1]
    assert intents == [i for i, kind in enumerate(kinds) if kind in ("read", "write") and i < LIMIT]
    assert (ended.reason, ended.counters.iterations, ended.counters.valid_steps) == ("completed", 2, len(intents) + 1)
    paired(desk)
    desk.check()


@settings(max_examples=25)
@given(REPLIES, st.data())
def test_S2_28_killed_after_any_record_only_what_is_open_is_settled(kinds: list[str], data: Any) -> None:
    """A read in flight is run again, a write is asked about; what has a result is neither asked about nor run."""
    whole = desk_of(kinds)
    ended = whole.start()
    every = list(whole.log.bodies())
    second = [i for i, body in enumerate(every) if isinstance(body, r.ModelIntent)][1]
    kept = data.draw(st.integers(3, second), "records kept")  # from the reply on
    desk = desk_of(kinds)
    desk.log = whole.log.upto(kept)
    desk.actions.words = {"write": said("landed")}
    again = desk.resume()
    assert (again.reason, again.counters, again.result) == (ended.reason, ended.counters, ended.result)
    closed = {body.call for body in every[:kept] if isinstance(body, r.ActionResult)}
    opened = {body.call for body in every[:kept] if isinstance(body, r.ActionIntent)}
    due = {body.call: body for body in every[:second] if isinstance(body, r.ActionIntent) and body.call not in closed}
    asked = [call for call, body in due.items() if call in opened and body.effect == "write"]
    assert [action.call for action, _, _ in desk.actions.asked] == asked
    assert [(a.call, a.key) for a in desk.actions.done[:-1]] == [(call, body.key) for call, body in due.items() if call not in asked]
    assert [s["outcome"] for s in desk.steps()] == [s["outcome"] for s in whole.steps()]
    desk.check()


@settings(max_examples=25)
@given(REPLIES, st.integers(0, 19))
def test_after_a_wait_the_rest_is_not_executed_and_still_answered(kinds: list[str], at: int) -> None:
    place = min(at, len(kinds), LIMIT - 1)
    kinds = [*("read" if kind == "write" else kind for kind in kinds[:place]), "write", *kinds[place:19]]
    desk = desk_of(kinds, {"write": Deferred("t", "approval")})
    assert desk.start().state == "waiting"
    later = [s for s in desk.steps() if s["call"] > place]
    assert {s["tier"] for s in later} <= {"H", "A", "B", "C"}
    assert len(later) == len(kinds) - place - 1
    assert [b.call for b in desk.log.bodies() if isinstance(b, r.ActionIntent) and b.call > place] == []
    desk.log.leave("resolve", "t", "approved", at=desk.clock.now_ms())
    desk.actions.deeds["write"] = Outcome("ok")
    assert desk.resume().reason == "completed"
    paired(desk)
    desk.check()


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=2, max_size=20).filter(lambda ids: len(set(ids)) < len(ids)))
@settings(max_examples=20)
def test_one_id_twice_runs_nothing_of_the_reply(ids: list[str]) -> None:
    reply = Reply("", tool_calls=tuple(ToolCall(one, "write", "{}") for one in ids), finish_reason="tool_calls")
    desk = native([reply, calls(("submit", {}))])
    desk.start()
    assert [a.tool for a in desk.actions.done] == ["submit"]
    assert {s["outcome"] for s in desk.steps()[:-1]} == {"multiple_actions"}
    desk.check()
