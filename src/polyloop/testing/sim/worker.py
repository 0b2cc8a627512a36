"""Worker processes: they visit runs through the real driver, for as long as they live.

The scheduling is the plainest that keeps the published promise: visit what nobody holds and is interrupted, due, or has
unseen signals; look after a run that waits for a task now and then; sometimes come without any reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from polyloop.kernel import run
from polyloop.kernel.driver import Driver, Seams
from polyloop.kernel.objects import Request, RunResult
from polyloop.kernel.seams import Event, Holder, Log, OwnedElsewhere, Reply, StoreError, Stream
from polyloop.kernel.watch import Watcher

from .loop import Life
from .model import INTERPRETERS, SimModel
from .service import Bail, Narrow, SimTools
from .store import SimLog

if TYPE_CHECKING:
    from .world import World

LEASE_MS = 15_000
POLL_S = 30.0
#: What a visit may end with besides a result.
REFUSALS = (OwnedElsewhere, StoreError, asyncio.CancelledError, Bail, run.NoSuchRun)


class Case(Struct):
    """A run to be kept going. `accepted` are differences a person has accepted."""

    stream: Stream
    request: Request
    tools: Narrow
    promises: bool
    replies: list[Reply]
    accepted: tuple[str, ...] = ()


class Worker:
    """A process, restarted after each crash."""

    def __init__(self, world: World, no: int) -> None:
        self.world, self.no, self.boots = world, no, 0
        self.machine, self.abandoning = f"h{no % 2}", 0
        self.life = Life("", 0)

    def boot(self) -> None:
        world = self.world
        self.boots += 1
        self.abandoning = 0
        self.life = life = Life(f"w{self.no}.{self.boots}", self.no * 1000 + self.boots)
        world.lives[life.pid] = life
        world.note("boot", life.name)
        self.log = cast(Log, SimLog(world.store, life))
        self.watcher = Watcher(self.log, poll_s=1.5)
        world.loop.spawn(life, self._heart(life))
        for case in world.cases:
            world.loop.spawn(life, self._keep(life, case))

    def holder(self, life: Life) -> Holder:
        return Holder(life.name, self.machine, self.machine, life.pid, self.boots, self.world.now_ms() + LEASE_MS)

    async def _heart(self, life: Life) -> None:
        while not all(self.world.store.shelf(s).ended for s in self.world.streams):
            await asyncio.sleep(5)
            try:
                await self.log.heartbeat(self.holder(life))
            except StoreError as failed:
                self.world.note("heartbeat", failed)

    async def _keep(self, life: Life, case: Case) -> None:
        shelf, wait_s = self.world.store.shelf(case.stream), 3.0
        while not shelf.ended:
            await asyncio.sleep(0.05 + self.world.delay(wait_s))
            if self._wanted(life, case):
                seq = len(shelf.records)
                await self._visit(life, case)
                wait_s = 3.0 if len(shelf.records) > seq else min(20.0, 1.5 * wait_s)
        if self.world.coin():
            await self._visit(life, case)

    def _wanted(self, life: Life, case: Case) -> bool:
        world, shelf = self.world, self.world.store.shelf(case.stream)
        if world.chance("pointless visit"):
            return True
        if shelf.holder not in ("", life.name) and world.store.is_live(shelf.holder, self.machine):
            return False
        wait = world.judge.docket(case.stream).state.waiting
        if not wait or not wait.deferred or not shelf.rests or shelf.torn:
            return True
        polled = wait.deferred.awaited == "task" and world.loop.time() > shelf.rested_at + POLL_S
        return polled or len(shelf.signals) > shelf.seen or 0 < shelf.next_poll <= world.now_ms()

    # --- a visit -----------------------------------------------------------------------------------------------------

    async def _visit(self, life: Life, case: Case) -> None:
        world = self.world
        world.drivers.pop((life, case.stream), None)
        fresh = not world.store.shelf(case.stream).records
        drifted = not fresh and world.chance("drifted resume")
        request = replace(case.request, binding={"gateway.cache_namespace": "other"}) if drifted else case.request
        if not fresh and world.chance("drift accepted"):
            name = world.pick(list(case.tools.specs))
            case.tools = case.tools.described(name)
            case.accepted = (*case.accepted, f"tools.{name}.description")
        await self._see(life, case, self._entry(life, case, request, fresh=fresh), drifted=drifted)

    def _entry(self, life: Life, case: Case, request: Request, *, fresh: bool) -> Coroutine[Any, Any, RunResult]:
        seams = self._seams(life, case)
        if fresh or (not case.accepted and self.world.coin()):
            return run.start(request, seams)
        cancelled = any(s.kind == "cancel" for s in self.world.store.shelf(case.stream).signals)
        offered = None if cancelled and request is case.request and self.world.coin() else request
        return run.resume(case.stream, offered, seams, case.accepted)

    def _seams(self, life: Life, case: Case) -> Seams:
        world = self.world

        def watch(driver: Driver) -> None:
            world.drivers[life, driver.stream] = driver
            self.watcher.add(driver)

        return Seams(
            log=self.log,
            model=SimModel(world, life, case.stream, case.replies),
            interpreter=INTERPRETERS[case.request.agent.protocol],
            tools=case.tools,
            actions=SimTools(world.service, life, promises_completion=case.promises),
            clock=world.clock,
            entropy=lambda: f"{world.rng.getrandbits(128):032x}",
            holder=self.holder(life),
            sinks=self._sinks(case.stream),
            watch=watch,
        )

    def _sinks(self, stream: Stream) -> tuple[Any, ...]:
        async def raises(event: Event) -> None:
            raise ValueError(event.type)

        async def hangs(event: Event) -> None:
            await self.world.loop.create_future()

        async def listens(event: Event) -> None:
            self.world.judge.event(stream, event)

        drawn = [sink for sink, fault in ((raises, "sink raises"), (hangs, "sink hangs"), (listens, "sink listens")) if self.world.chance(fault)]
        return tuple(drawn) if self.world.sinks else ()

    async def _see(self, life: Life, case: Case, work: Coroutine[Any, Any, RunResult], *, drifted: bool) -> None:
        """Wait for the visit's end, perhaps cancel it, and have its outcome judged."""
        world, shelf, faults = self.world, self.world.store.shelf(case.stream), self._faults()
        epoch, tools = shelf.epoch, case.tools
        task = asyncio.ensure_future(work)
        if world.chance("visit cancelled"):
            for _ in range(1 + world.chance("visit cancelled twice")):
                world.loop.later(world.delay(15), lambda: life.stopped or task.cancel())
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        world.note("visited", life.name, case.stream.scope, type(outcome).__name__, "" if isinstance(outcome, RunResult) else outcome)
        if case.tools is tools or not isinstance(outcome, run.ParameterDrift | run.RunExists):  # else it had the old ones
            world.judge.visited(case.stream, outcome, drifted=drifted, allowed=REFUSALS)
        failed = isinstance(outcome, StoreError) or (isinstance(outcome, RunResult) and not outcome.persisted) or faults != self._faults()
        if not failed and epoch != shelf.epoch and not self.abandoning:
            world.judge.left(life, case.stream)

    def _faults(self) -> int:
        return self.world.store.late + sum(self.world.counts[name] for name in ("EIO", "commit unknown", "read fails", "store outage", "disk full"))

    def abandon(self, case: Case) -> None:
        """A person gives the run up; this process writes it down if nobody holds the run."""
        self.world.loop.spawn(self.life, self._abandon(self.life, case))

    async def _abandon(self, life: Life, case: Case) -> None:
        self.abandoning += 1
        outcome = (await asyncio.gather(run.abandon(case.stream, self._seams(life, case), "person"), return_exceptions=True))[0]
        self.abandoning -= 1
        self.world.note("abandoned", life.name, case.stream.scope, outcome)
        self.world.judge.visited(case.stream, outcome, drifted=False, allowed=REFUSALS)
