"""A cancel at every single await of a run, and one that comes by the watcher (S2.22, S2.23; R53-R55)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from polyloop.clock import SystemClock
from polyloop.kernel.seams import Deferred, StoreError
from polyloop.kernel.watch import Watcher
from polyloop.testing import said
from tests.kernel.desk import STREAM, Desk, Spelled, act, go, spell
from tests.kernel.shelf import Shelf
from tests.kernel.stuck import hang, others, slow, waited

DONE = act("submit", summary="s")


def scripts() -> dict[str, Callable[[], Desk]]:
    def steps() -> Desk:
        lines = [slow(act("look")), slow(act("nope")), slow(act("write")), slow(DONE)]
        return Desk(lines, {"look": slow(said("x")), "write": slow(said("x")), "submit": slow(said("x"))}, shelf=Shelf(yields=1))

    def overlapping() -> Desk:
        lines = [slow(spell(["act", "look", {"n": 1}], ["act", "look", {"n": 2}], ["act", "write"])), slow(spell(["act", "submit"]))]
        return Desk(lines, {"look": slow(said("x")), "write": slow(said("x"))}, shelf=Shelf(yields=1), interpreter=Spelled())

    def recovering() -> Desk:
        first = Desk([act("write"), DONE])
        first.start()
        shelf = first.log.upto(4)
        shelf.yields = 1
        desk = Desk([act("write"), slow(DONE)], shelf=shelf)
        desk.actions.words["write"] = slow(said("landed"))
        desk.starting = desk.resuming
        return desk

    def waiting() -> Desk:
        """Left waiting in the end, unless the cancel comes in time: in the very instant of the release, too."""
        return Desk([slow(act("write"))], {"write": slow(Deferred("t", "approval"))}, shelf=Shelf(yields=1), sinks=[lambda _: None])

    return {"steps": steps, "overlapping": overlapping, "recovering": recovering, "waiting": waiting}


def cancelled_at(desk: Desk, trip: int, times: int) -> tuple[bool, str, int]:
    """Cancel at the n-th trip of the event loop: every await of the run lies on one. (cancelled, outcome, tasks left)"""

    async def main() -> tuple[bool, str, int]:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(desk.starting())
        reached = False

        def tick(left: int) -> None:
            nonlocal reached
            if task.done():
                return
            if left > 0:
                loop.call_soon(tick, left - 1)
                return
            reached = True
            task.cancel()
            if left > 1 - times:
                loop.call_soon(tick, left - 1)

        loop.call_soon(tick, trip)
        try:
            outcome = (await task).reason
        except asyncio.CancelledError:
            outcome = "raised"
        for _ in range(5):
            await asyncio.sleep(0)
        return reached, outcome, len(others())

    return go(main())


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("name", scripts())
def test_S2_22_S2_23_a_cancel_at_each_await(name: str, times: int) -> None:
    """Either the run never began, or its end is durable and the cancel is told; nothing pends; nobody holds it."""
    make, trip, outcomes = scripts()[name], 0, []
    while True:
        desk = make()
        began = len(desk.log.records)
        reached, outcome, left = cancelled_at(desk, trip, times)
        assert left == 0
        assert desk.log.holder == "", f"held after trip {trip}"
        if desk.log.records:
            desk.check()
        if not reached:
            break
        outcomes.append(outcome)
        if len(desk.log.records) > began:
            ended = desk.log.bodies()[-1]
            assert (outcome, desk.log.kinds[-1]) == ("raised", "run_ended"), f"trip {trip}"
            assert ended.reason in ("cancelled", "completed")
        trip += 1
    assert (outcome, trip > 15) == ("" if name == "waiting" else "completed", True)
    assert outcomes.count("raised") >= trip - 3
    gc.collect()


def test_a_cancel_while_a_batch_is_being_written_waits_for_it() -> None:
    """A write is never cut: the batch that was on its way and the end are both there."""
    desk = Desk([act("look"), DONE])
    seen: list[int] = []

    async def append(*given: Any) -> int:
        seen.append(len(given[1]))
        if len(seen) == 3:
            task.cancel()
            task.cancel()
        await asyncio.sleep(0.02)
        return await Shelf.append(desk.log, *given)

    async def main() -> None:
        nonlocal task
        task = asyncio.ensure_future(desk.starting())
        with pytest.raises(asyncio.CancelledError):
            await task

    task: asyncio.Task[Any]
    desk.log.append = append
    go(main())
    assert desk.log.kinds[-1] == "run_ended"
    assert sum(seen) == len(desk.log.records)
    desk.check()


def test_one_watcher_serves_all_runs_and_tells_only_the_one_that_was_meant() -> None:
    shelves = [Shelf(), Shelf()]
    desks = [Desk([hang], shelf=shelf, clock=SystemClock()) for shelf in shelves]

    class Both:
        async def moved(self, since: Any) -> Any:
            return [s for s in since if shelves[0].left and s.run == "r1"]

    async def main() -> list[str]:
        watcher = Watcher(Both(), 0.01)
        desks[1].request = replace(desks[1].request, run_id="r2")
        tasks = []
        for desk in desks:
            desk._watch = watcher.add
            tasks.append(asyncio.ensure_future(desk.starting()))
        await asyncio.sleep(0.03)
        shelves[0].leave("cancel")
        told = [(await tasks[0]).reason, str(tasks[1].done())]
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        return told

    assert go(main()) == ["cancelled", "False"]


def test_the_watcher_tells_runs_in_flight_and_stops_with_them() -> None:
    """One per process: a signal reaches a hanging call within 200 ms; it idles without runs and survives a store that is away."""
    desk = Desk([hang], clock=SystemClock())

    async def main() -> tuple[float, int]:
        watcher = Watcher(desk.log)
        desk._watch = watcher.add
        moved, calls = desk.log.moved, []

        async def flaky(since: Any) -> Any:
            calls.append(since)
            if len(calls) == 1:
                raise StoreError("away")
            return await moved(since)

        desk.log.moved = flaky
        task = asyncio.ensure_future(desk.starting())
        await asyncio.sleep(0.2)
        began = waited()
        await desk.log.signal(STREAM, desk.log.left[0]) if desk.log.left else desk.log.leave("cancel")
        await task
        seconds = waited() - began
        await asyncio.sleep(0.2)
        return seconds, len(others())

    seconds, left = go(main())
    assert (seconds < 0.3, left) == (True, 0)
