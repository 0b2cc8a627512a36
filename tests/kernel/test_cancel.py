"""Cancelling reaches whatever is in flight, leaves nothing behind, and is written before it is told (S2.22, S2.23; R53-R58)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from polyloop.clock import SystemClock
from polyloop.kernel.seams import Deferred, NotStarted, Outcome, Unknown
from polyloop.kernel.watch import Watcher
from polyloop.testing import said
from tests.kernel.desk import TOOLS, Desk, Spelled, act, go, spell, tool
from tests.kernel.stuck import Stubborn, hang, others, waited

DONE = act("submit", summary="s")


async def cancelled_in(desk: Desk, after_s: float, how: str = "native", times: int = 1) -> tuple[str, float]:
    """Cancel a visit some time after its start; ("raised" | result's reason, seconds it waited to end)."""
    desk._watch = Watcher(desk.log, 0.01).add
    task = asyncio.ensure_future(desk.starting())
    await asyncio.sleep(after_s)
    for _ in range(200):  # on a machine however slow: what needs no waiting has been done
        await asyncio.sleep(0)
    began = waited()
    for _ in range(times):
        if how == "native":
            task.cancel()
        else:
            desk.log.leave("cancel", body="enough", by="me")
        await asyncio.sleep(0.01)
    try:
        result = await task
    except asyncio.CancelledError:
        return "raised", waited() - began
    return result.reason, waited() - began


def status(desk: Desk) -> list[tuple]:
    return [(x["status"], x["code"], x["interrupted"], x["leaked"]) for x in desk.shown() if x["kind"] == "action_result"]


@pytest.mark.parametrize("how", ["native", "signal"])
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("what", ["model", "read", "write", "reads"])
def test_S2_22_a_cancel_interrupts_what_is_in_flight(what: str, how: str, times: int) -> None:
    """In well under a second; the intent is closed as unknown; the end is durable before the caller is told; 0 tasks left."""
    line = {"model": hang, "read": spell(["act", "look"]), "write": spell(["act", "write"]), "reads": spell(*[["act", "look"]] * 3)}[what]
    desk = Desk([line], {"look": hang, "write": hang}, clock=SystemClock(), interpreter=Spelled(), tools=(TOOLS[0], tool("write", "write", "never")))

    async def main() -> tuple[str, float, int]:
        told, seconds = await cancelled_in(desk, 0.03, how, times)
        await asyncio.sleep(0.05)
        return told, seconds, len(others())

    told, seconds, left = go(main())
    assert (told, left) == ("raised" if how == "native" else "cancelled", 0)
    assert seconds < 0.5
    ended = desk.log.bodies()[-1]
    assert (ended.reason, desk.log.kinds.count("cancel_requested")) == ("cancelled", 1)
    assert (ended.detail == "enough") == (how == "signal")
    assert status(desk) == [("unknown", "cancel", True, False)] * {"model": 0, "read": 1, "write": 1, "reads": 3}[what]
    desk.check()


def test_who_asked_and_why_stand_in_the_log() -> None:
    desk = Desk([hang], clock=SystemClock())
    go(cancelled_in(desk, 0.02, "signal"))
    (asked,) = [x for x in desk.shown() if x["kind"] == "cancel_requested"]
    assert (asked["by"], asked["reason"]) == ("me", "enough")


@pytest.mark.parametrize("times", [1, 3])
def test_a_tool_that_swallows_the_cancel_is_left_behind_and_named(times: int) -> None:
    """After the grace; one task is left, the tool's own; its late result is discarded; nothing follows the end."""
    tool_ = Stubborn()
    desk = Desk([act("look")], {"look": tool_}, clock=SystemClock(), grace_s=0.1)

    async def main() -> tuple[str, float, int, int]:
        told, seconds = await cancelled_in(desk, 0.03, "native", times)
        await asyncio.sleep(0.05)
        left = len(others())
        await asyncio.sleep(0.5)
        return told, seconds, left, len(others())

    told, seconds, left, after = go(main())
    assert (told, left, after, tool_.ended) == ("raised", 1, 0, True)
    assert seconds < 0.4
    assert status(desk) == [("unknown", "cancel", True, True)]
    assert desk.log.kinds[-1] == "run_ended"
    desk.check()


@pytest.mark.parametrize(("tool", "named"), [("look", False), ("write", True)])
def test_a_run_is_not_plain_cancelled_while_a_write_may_still_land(tool: str, named: bool) -> None:
    """Handed case cancellation_leak-03: its end names the action; a read that goes on changes nothing."""
    desk = Desk([act(tool)], {tool: Stubborn()}, clock=SystemClock(), grace_s=0.1)
    go(cancelled_in(desk, 0.03, "signal"))
    (intent,) = [x for x in desk.shown() if x["kind"] == "action_intent"]
    ended = desk.log.bodies()[-1]
    assert (ended.reason, ended.error) == ("cancelled", {"mayStillLand": [intent["seq"]]} if named else None)
    desk.check()


def test_a_model_that_swallows_the_cancel_is_left_behind() -> None:
    desk = Desk([Stubborn()], clock=SystemClock(), grace_s=0.05)
    told, seconds = go(cancelled_in(desk, 0.02))
    assert (told, seconds < 0.4) == ("raised", True)
    assert desk.log.kinds[-3:] == ["cancel_requested", "model_result", "run_ended"]


def test_a_tool_that_finishes_within_the_grace_has_its_result() -> None:
    """It was told to stop and came back with what it had done: that is the truth about it."""

    async def tidy(_: object) -> Outcome:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.02)
        return said("tidied up")

    desk = Desk([act("write")], {"write": tidy}, clock=SystemClock())
    told, _ = go(cancelled_in(desk, 0.02))
    assert (told, status(desk)) == ("raised", [("ok", "", False, False)])
    desk.check()


@pytest.mark.parametrize(
    ("word", "closed"), [(said("landed"), "ok"), (NotStarted(), "not_executed"), (Unknown(), "unknown"), (hang, "unknown"), (Stubborn(), "unknown")]
)
def test_a_probe_tool_in_flight_is_settled_with_a_fence(word: object, closed: str) -> None:
    desk = Desk([act("write")], {"write": hang}, clock=SystemClock(), grace_s=0.1)
    desk.actions.words["write"] = word
    told, seconds = go(cancelled_in(desk, 0.02))
    assert (told, seconds < 0.5) == ("raised", True)
    assert [(token, fence) for _, token, fence in desk.actions.asked] == [(None, True)]
    assert [s[0] for s in status(desk)] == [closed]
    assert desk.log.bodies()[-1].reason == "cancelled"
    desk.check()


def test_a_cancel_before_the_call_sends_nothing_and_costs_nothing() -> None:
    desk = Desk([act("look"), DONE])
    desk.log.leave("cancel")
    ended = desk.start()
    assert (ended.reason, desk.model.seen, ended.counters.iterations) == ("cancelled", [], 0)


def test_a_cancel_that_comes_with_the_intent_sends_nothing_and_is_refunded() -> None:
    desk = Desk([act("look"), DONE])
    desk.log.after = lambda number, _: number == 3 and desk.log.leave("cancel")
    ended = desk.start()
    assert (ended.reason, len(desk.model.seen), ended.counters.iterations) == ("cancelled", 1, 1)
    assert desk.log.kinds[-3:] == ["cancel_requested", "model_result", "run_ended"]
    assert desk.shown()[-2]["error"]["sent"] is False
    desk.check()


def test_a_cancel_between_two_actions_of_a_reply_stops_the_second() -> None:
    desk = Desk([spell(["act", "write", {"n": 1}], ["act", "write", {"n": 2}])], interpreter=Spelled())
    desk.actions.deeds["write"] = lambda _: desk.log.leave("cancel") or said("x")
    assert desk.start().reason == "cancelled"
    assert [(s["tier"], s["outcome"]) for s in desk.steps()] == [("G", "ok"), ("H", "not_executed")]
    desk.check()


def test_a_cancel_that_finds_the_run_complete_changes_nothing() -> None:
    desk = Desk([DONE])
    desk.actions.deeds["submit"] = lambda _: desk.log.leave("cancel") or said("x")
    assert desk.start().reason == "completed"


@pytest.mark.parametrize("word", [hang, Stubborn()], ids=["hangs", "swallows"])
def test_a_cancel_during_recovery_ends_the_run(word: object) -> None:
    """While the service is being asked about an orphan: it is asked again with a fence, within the grace; then the end."""
    first = Desk([act("write"), DONE])
    first.start()
    desk = Desk([act("write"), DONE], shelf=first.log.upto(4), clock=SystemClock(), grace_s=0.1)
    desk.actions.words["write"] = word
    desk.starting = desk.resuming
    told, seconds = go(cancelled_in(desk, 0.03))
    assert (told, seconds < 0.6) == ("raised", True)
    assert [s[:2] for s in status(desk)][:1] in ([("unknown", "recovered")], [("unknown", "cancel")])
    assert desk.log.bodies()[-1].reason == "cancelled"
    assert desk.actions.done == []
    desk.check()


def test_a_cancel_during_a_poll_ends_the_run() -> None:
    desk = Desk([act("write")], {"write": Deferred("t", "task", dispatched=True)}, clock=SystemClock(), grace_s=0.1)
    desk.actions.words["write"] = hang
    told, seconds = go(cancelled_in(desk, 0.03))
    assert (told, seconds < 0.6) == ("raised", True)
    assert desk.log.bodies()[-1].reason == "cancelled"
    assert [x["decision"] for x in desk.shown() if x["kind"] == "action_resolved"] == ["withdrawn"]
    desk.check()


def test_a_suspend_interrupts_and_leaves_the_intent_open() -> None:
    desk = Desk([act("look"), DONE], {"look": hang}, clock=SystemClock())

    async def main() -> Any:
        task = asyncio.ensure_future(desk.starting())
        await asyncio.sleep(0.03)
        desk.driver.suspend()
        return await task

    stopped = go(main())
    assert (stopped.state, stopped.reason, stopped.persisted) == ("interrupted", "", True)
    assert desk.log.kinds[-1] == "action_intent"
    assert (stopped.last_seq, stopped.head_hash) == (desk.log.records[-1].seq, desk.log.records[-1].hash)
    desk.actions.deeds["look"] = said("x")
    assert desk.resume().reason == "completed"
    desk.check()


def test_other_runs_are_not_affected() -> None:
    """Handed case cancellation_leak-10."""
    desks = [Desk([lambda _: asyncio.sleep(0.1, act("look")), DONE], clock=SystemClock()) for _ in range(3)]
    victim = Desk([act("look")], {"look": hang}, clock=SystemClock())

    async def main() -> list[str]:
        tasks = [asyncio.ensure_future(d.starting()) for d in desks]
        assert (await cancelled_in(victim, 0.02))[0] == "raised"
        return [(await t).reason for t in tasks]

    assert go(main()) == ["completed"] * 3


def test_a_tick_never_comes_after_the_grace() -> None:
    """Handed case cancellation_leak-01."""
    ticks: list[float] = []

    async def ticking(_: object) -> None:
        while True:
            ticks.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.01)

    desk = Desk([act("look")], {"look": ticking}, clock=SystemClock())

    async def main() -> float:
        await cancelled_in(desk, 0.05)
        told = asyncio.get_running_loop().time()
        await asyncio.sleep(0.05)
        return told

    told = go(main())
    assert max(ticks) <= told


@pytest.mark.parametrize("how", ["native", "signal"])
def test_a_tool_that_must_not_be_interrupted_is_waited_for(how: str) -> None:
    """A write in a thread: the run is not told as cancelled while it may still land, and its outcome is the true one."""
    steady = tool("write", "write", "never", kind="thread", interruptible=False, timeout_s=0.05)

    async def landing(_: object) -> Outcome:
        await asyncio.sleep(0.2)
        return said("landed")

    desk = Desk([act("write"), DONE], {"write": landing}, tools=(steady, TOOLS[2]), clock=SystemClock(), grace_s=0.02)
    told, seconds = go(cancelled_in(desk, 0.03, how, 2))
    assert (told, seconds < 0.5) == ("raised" if how == "native" else "cancelled", True)
    assert status(desk) == [("ok", "", False, False)]
    assert desk.log.kinds[-4:] == ["action_result", "cancel_requested", "step", "run_ended"]
    desk.check()


# --- odd moments -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["model", "tool"])
def test_work_that_cancels_itself_is_at_fault_and_nobody_else_is_cancelled(what: str) -> None:
    """Handed case event_handler-04's kind: a CancelledError nobody asked for is a fault like any other."""
    desk = Desk([asyncio.CancelledError() if what == "model" else act("look")], {"look": asyncio.CancelledError()})
    ended = desk.start()
    assert (ended.reason, ended.state) == ("model_call_failed" if what == "model" else "environment_fault", "ended")
    assert "cancelled itself" in str(desk.shown())
    desk.check()


@pytest.mark.parametrize("poll", [False, True])
def test_a_suspend_while_a_service_is_asked_leaves_everything_open(poll: bool) -> None:
    first = Desk([act("write"), DONE], {"write": Deferred("t", "task", dispatched=True) if poll else said("x")})
    first.start()
    desk = Desk([act("write"), DONE], shelf=first.log.upto(5 if poll else 4), clock=SystemClock())
    desk.actions.words["write"] = hang
    before = list(desk.log.records)

    async def main() -> Any:
        task = asyncio.ensure_future(desk.resuming())
        await asyncio.sleep(0.03)
        desk.driver.suspend()
        return await task

    stopped = go(main())
    assert (stopped.state, stopped.reason) == ("waiting" if poll else "interrupted", "")
    assert (stopped.last_seq, desk.log.holder) == (desk.log.records[-1].seq, "")
    assert desk.log.kinds[len(before) :] == ([] if poll else ["resume_started", "replay"])
    desk.actions.words["write"] = said("landed")
    assert desk.resume().reason == "completed"
    desk.check()


def test_a_poll_that_swallows_the_cancel_is_left_behind() -> None:
    desk = Desk([act("write")], {"write": Deferred("t", "task", dispatched=True)}, clock=SystemClock(), grace_s=0.05)
    desk.actions.words["write"] = Stubborn(0.3)
    told, seconds = go(cancelled_in(desk, 0.03))
    assert (told, seconds < 0.3) == ("raised", True)
    assert desk.log.bodies()[-1].reason == "cancelled"
    desk.check()


@pytest.mark.parametrize(("policy", "status"), [("rerun", "unknown"), ("probe", "not_executed"), ("ask", "unknown")])
def test_a_cancel_between_a_recovery_and_its_dispatch(policy: str, status: str) -> None:
    """An earlier holder may have sent it, unless its service has said that it never began."""
    work = tool("work", "read" if policy == "rerun" else "write", policy)
    first = Desk([act("work")], tools=(work,))
    first.start()
    desk = Desk([act("work")], tools=(work,), shelf=first.log.upto(4))
    desk.actions.words["work"] = NotStarted()
    if policy == "ask":
        desk.resume()
        desk.log.leave("resolve", "settle:3", "approved", at=desk.clock.now_ms())
    desk.log.after = lambda _, batch: batch[-1].kind in ("replay", "action_resolved") and asked(policy, desk) and desk.log.leave("cancel")
    ended = desk.resume()
    assert (ended.reason, desk.actions.done) == ("cancelled", [])
    assert [x["status"] for x in desk.shown() if x["kind"] == "action_result"] == [status]
    desk.check()


def asked(policy: str, desk: Desk) -> bool:
    """The moment before the dispatch: for a probe, after the service was asked."""
    return policy != "probe" or bool(desk.actions.asked)


def test_two_limits_that_pass_are_one_interruption() -> None:
    slow = tool("look", timeout_s=0.04)
    desk = Desk([act("look")], {"look": Stubborn(0.3)}, tools=(slow,), clock=SystemClock(), grace_s=0.1, wall_clock_s=0.08)
    go(desk.starting())
    assert status(desk) == [("error", "timeout", True, True)]
    assert desk.log.bodies()[-1].detail == "wall_clock"
    desk.check()
