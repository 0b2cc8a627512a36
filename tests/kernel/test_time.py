"""Time budgets: they interrupt what is in flight, count what they say, and end the run under their own names (kernel.md, A step)."""

from __future__ import annotations

import asyncio

import pytest

from polyloop.clock import SystemClock
from polyloop.kernel.records import Timings
from polyloop.kernel.seams import Deferred, Outcome
from polyloop.testing import said
from tests.kernel.desk import LOOK, SUBMIT, TOOLS, WRITE, Desk, act, go, tool
from tests.kernel.stuck import Stubborn, hang, waited

DONE = act("submit", summary="s")


def took(desk: Desk) -> float:
    """Seconds one visit waits."""

    async def main() -> float:
        began = waited()
        await desk.starting()
        return waited() - began

    return go(main())


@pytest.mark.parametrize("budget", ["wall_clock_s", "working_time_s"])
def test_a_time_budget_interrupts_a_hanging_model(budget: str) -> None:
    desk = Desk([act("look"), hang], clock=SystemClock(), **{budget: 0.15})
    assert took(desk) < 1
    ended = desk.log.bodies()[-1]
    assert (ended.reason, ended.detail) == ("budget_exhausted", budget.removesuffix("_s"))
    assert desk.shown()[-2]["error"]["code"] == "interrupted"
    assert ended.counters.iterations == 2
    desk.check()


@pytest.mark.parametrize("budget", ["wall_clock_s", "working_time_s"])
@pytest.mark.parametrize("name", ["look", "write"])
def test_a_time_budget_interrupts_a_hanging_tool(budget: str, name: str) -> None:
    """The action is closed as unknown, for the deadline; the end has its own name."""
    desk = Desk([act(name)], {name: hang}, clock=SystemClock(), **{budget: 0.15})
    assert took(desk) < 1
    ended = desk.log.bodies()[-1]
    assert (ended.reason, ended.detail) == ("budget_exhausted", budget.removesuffix("_s"))
    (closed,) = [x for x in desk.shown() if x["kind"] == "action_result"]
    assert (closed["status"], closed["code"], closed["interrupted"], closed["leaked"]) == ("unknown", "deadline", True, False)
    desk.check()


def test_working_time_counts_the_model_of_the_same_iteration() -> None:
    async def slow(_: object) -> str:
        await asyncio.sleep(0.3)
        return act("look")

    desk = Desk([slow], {"look": hang}, clock=SystemClock(), working_time_s=0.4)
    assert took(desk) < 0.6


def test_working_time_is_the_sum_of_what_the_steps_say() -> None:
    box: list[Desk] = []

    def busy(seconds: float, value: object):
        def deed(_: object) -> object:
            box[0].clock.advance(seconds)
            return value

        return deed

    desk = Desk([busy(1, act("look", n=n)) for n in range(9)], {"look": busy(2, said("x"))}, working_time_s=7)
    box.append(desk)
    ended = desk.start()
    assert (ended.reason, ended.detail, ended.counters.valid_steps) == ("budget_exhausted", "working_time", 3)
    assert [s["timings"]["total"] for s in desk.steps()] == [3000.0, 3000.0, 3000.0]


def test_S2_51_the_time_of_a_tool_stands_alone_and_is_null_where_none_ran() -> None:
    """R96: model, interpretation and action apart, in milliseconds."""
    box: list[Desk] = []

    def model(_: object) -> str:
        box[0].clock.advance(1.5)
        return act("look") if len(box[0].model.seen) > 1 else act("nope")

    def look(_: object) -> Outcome:
        box[0].clock.advance(0.25)
        return said("x")

    desk = Desk(model, {"look": look}, valid_steps=1)
    box.append(desk)
    desk.start()
    assert [s["timings"]["action"] for s in desk.steps()] == [None, 250.0]
    assert [s["timings"]["model"] for s in desk.steps()] == [1500.0, 1500.0]
    assert [s["timings"]["total"] for s in desk.steps()] == [1500.0, 1750.0]
    assert set(desk.steps()[0]["timings"]) == set(Timings.__struct_fields__)


def test_a_rejection_by_the_tool_itself_has_its_time() -> None:
    desk = Desk([act("look")], {"look": Outcome("not_executed", code="denied")})
    desk.start()
    assert [s["timings"]["action"] for s in desk.steps()] == [0.0]


def test_the_wall_clock_includes_waiting_and_withdraws_what_was_not_sent() -> None:
    desk = Desk([act("write")], {"write": Deferred("t", "approval")}, wall_clock_s=100)
    assert desk.start().waiting.until == 0
    desk.clock.advance(99)
    assert desk.resume().state == "waiting"
    desk.clock.advance(1)
    ended = desk.resume()
    assert (ended.reason, ended.detail) == ("budget_exhausted", "wall_clock")
    assert [(x["decision"], x["by"]) for x in desk.shown() if x["kind"] == "action_resolved"] == [("withdrawn", "kernel")]
    assert [(x["status"], x["code"]) for x in desk.shown() if x["kind"] == "action_result"] == [("not_executed", "withdrawn")]
    assert desk.steps()[0]["tier"] == "H"
    assert len(desk.actions.done) == 1
    desk.check()


def test_working_time_does_not_count_waiting() -> None:
    desk = Desk([act("write"), DONE], {"write": Deferred("t", "answer")}, working_time_s=10)
    desk.start()
    desk.clock.advance(1000)
    desk.log.leave("resolve", "t", "answered", {"a": 1}, at=desk.clock.now_ms())
    assert desk.resume().reason == "completed"


def test_an_overdue_run_begins_nothing_more() -> None:
    """The deadline passes while nobody holds the run: the open call is closed, not made."""
    box: list[Desk] = []

    def model(_: object) -> str:
        box[0].clock.advance(50)
        return act("write")

    desk = Desk(model, wall_clock_s=40)
    box.append(desk)
    ended = desk.start()
    assert (ended.reason, ended.detail, desk.actions.done) == ("budget_exhausted", "wall_clock", [])
    assert [(s["tier"], s["rejection"]["message"]) for s in desk.steps()] == [("H", "Not executed: the time budget is used up.")]


def test_an_orphan_past_the_deadline_is_closed_and_not_begun_again() -> None:
    desk = Desk([act("look")], wall_clock_s=40)
    desk.start()
    crashed = Desk([act("look")], shelf=desk.log.upto(4), wall_clock_s=40)
    crashed.clock.advance(100)
    ended = crashed.resume()
    assert (ended.reason, ended.detail, crashed.actions.done) == ("budget_exhausted", "wall_clock", [])
    assert [x["status"] for x in crashed.shown() if x["kind"] == "action_result"] == ["unknown"]
    crashed.check()


@pytest.mark.parametrize(("name", "status"), [("look", "error"), ("write", "unknown")])
def test_a_tool_has_its_own_limit_and_the_run_goes_on(name: str, status: str) -> None:
    limited = {"look": (tool("look", timeout_s=0.05), WRITE, SUBMIT), "write": (LOOK, tool("write", "write", timeout_s=0.05), SUBMIT)}
    desk = Desk([act(name), DONE], {name: hang}, tools=limited[name], clock=SystemClock())
    assert took(desk) < 1
    (first, _) = [x for x in desk.shown() if x["kind"] == "action_result"]
    assert (first["status"], first["code"], first["interrupted"]) == (status, "timeout", True)
    assert desk.log.bodies()[-1].reason == "completed"
    assert ("Read back before" in desk.told()) == (status == "unknown")


def test_a_tool_that_does_not_stop_is_left_behind_after_the_grace() -> None:
    desk = Desk([act("write"), DONE], {"write": Stubborn()}, tools=(LOOK, tool("write", "write", timeout_s=0.05), SUBMIT), clock=SystemClock())
    assert took(desk) < 1
    (first, _) = [x for x in desk.shown() if x["kind"] == "action_result"]
    assert (first["status"], first["leaked"]) == ("unknown", True)
    assert "may still be running" in desk.told()
    assert [s["outcome"] for s in desk.steps()] == ["unknown", "ok"]
    desk.check()


def test_a_limit_of_nought_is_none() -> None:
    async def slow(_: object) -> Outcome:
        await asyncio.sleep(0.05)
        return said("x")

    desk = Desk([act("look"), DONE], {"look": slow}, tools=TOOLS, clock=SystemClock())
    assert go(desk.starting()).reason == "completed"


def test_a_clock_that_goes_back_never_turns_the_log_around() -> None:
    desk = Desk([lambda _: desk.clock.skew(-5000) or act("look"), DONE])
    assert desk.start().reason == "completed"
    at = [s.at for s in desk.log.records]
    assert at == sorted(at)
