"""One seed, one world: processes that come and go over one store, and everything that befalls them.

Theory of operation. The world owns the loop, the clock, the dice and the faults; `chance(name)` is the only way a fault
happens, so each is counted and a swarm can leave some out. A worker process keeps visiting its runs through the real
`run.start` and `run.resume`; the scheduling around it is the plainest that keeps the published promise: visit what is not
held and is interrupted, due, or has unseen signals. In mode liveness the faults stop at a random tick and then every run
must end or rest. The judge stops the world at the first breach.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from msgspec import Struct

from polyloop.kernel import run
from polyloop.kernel.driver import Driver, Seams
from polyloop.kernel.machine import State
from polyloop.kernel.objects import Agent, Budget, Request, RunResult, Segment
from polyloop.kernel.seams import Event, Holder, OwnedElsewhere, Signal, StoreError, Stream
from polyloop.kernel.watch import Watcher

from .judge import Judge
from .loop import Life, SimLoop
from .model import INTERPRETERS, SimModel, script
from .service import TOOLS, Bail, Narrow, People, SimService, SimTools
from .store import SimLog, SimStore

MODES = ("safety", "liveness", "swarm")
EPOCH_MS = 1_700_000_000_000
LEASE_MS = 15_000
#: How often the scheduler looks after a run that waits for a task.
POLL_S = 30.0
#: Virtual seconds: how long a world of faults lasts, and how long after the last fault a run may take to end.
HORIZON_S = 200.0
LIVENESS_S = 2_000.0
#: Chance of each fault at each opportunity.
RATES: dict[str, float] = {
    "EIO": 0.008, "commit unknown": 0.01, "unknown, and it is in": 0.5, "unknown, and it lands later": 0.3, "read fails": 0.004,
    "crash at a request": 0.006, "crash after a commit": 0.006, "crash at a dispatch": 0.03, "crash before a tool's reply": 0.03,
    "crash at a model call": 0.02, "crash before a model's reply": 0.02, "torn frame": 0.6,
    "tool refused": 0.04, "tool raises before": 0.01, "tool raises after commit": 0.01, "tool reply lost": 0.03, "tool request lost": 0.03,
    "tool hangs before": 0.02, "tool hangs after commit": 0.02, "tool ignores cancel": 0.02, "tool bails out": 0.005, "tool signal unavailable": 0.02,
    "tool slow": 0.05, "settle raises": 0.05, "settle cannot tell": 0.1, "settle hangs": 0.05,
    "model not reached": 0.01, "model hangs": 0.02, "model slow": 0.05, "model fails": 0.01, "model raises": 0.005,
    "decided before the deferral is logged": 0.1, "decided after the deadline": 0.2, "decided twice": 0.3, "decided in the moment of release": 0.3,
    "nobody decides": 0.2, "drifted resume": 0.03, "pointless visit": 0.02, "visit cancelled": 0.05, "visit cancelled twice": 0.4, "sink raises": 0.2, "sink hangs": 0.1,
}  # fmt: skip
#: Chance that a world has it, once or twice, at a random moment.
EVENTS: dict[str, float] = {
    "process stopped": 0.3, "power lost": 0.1, "store outage": 0.15, "disk full": 0.15, "clock jump": 0.2, "cancel": 0.12, "cancel again": 0.05, "suspend": 0.2,
}  # fmt: skip


class Failure(Struct, frozen=True):
    """One breach, in one line that replays it."""

    seed: int
    event: int
    invariant: str
    mode: str
    what: str

    def __str__(self) -> str:
        return f"seed={self.seed} event={self.event} invariant={self.invariant} mode={self.mode}: {self.what}"


class Case(Struct):
    """A run to be kept going."""

    stream: Stream
    request: Request
    tools: Narrow
    promises: bool
    replies: list[Any]


class SimClock:
    """Store time, which may jump, and durations, which do not."""

    def __init__(self, world: World) -> None:
        self.world = world

    def now_ms(self) -> int:
        return self.world.now_ms()

    def monotonic(self) -> float:
        return self.world.loop.time()


class World:
    """Build it, `run()` it, read `failure`, `digest`, `counts`, `judge.ends`."""

    def __init__(self, seed: int, mode: str, *, trace: bool = False, until: int = 0) -> None:
        self.seed, self.mode = seed, mode
        self.rng = Random(seed * len(MODES) + MODES.index(mode))
        self.shuffles = self.coin()
        self.loop = SimLoop(self._choose)
        self.store, self.service, self.people, self.judge = SimStore(self), SimService(self), People(self), Judge(self)
        self.clock = SimClock(self)
        self.events, self.until = 0, until
        self.trace: list[str] | None = [] if trace else None
        self.failure: Failure | None = None
        self.counts: Counter[str] = Counter()
        self.calm = self.outage = self.disk_full = False
        self.skew = 0
        self.waiting_for_calm: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self.lives: dict[int, Life] = {}
        self.drivers: dict[tuple[Life, Stream], Driver] = {}
        self.rates = self._rates()
        self.streams = [Stream(scope, "r1") for scope in ("acme", "zeta")[: 1 + (self.rng.random() < 0.25)]]
        self.cases = [self._case(stream) for stream in self.streams]
        self.workers = [Worker(self, no) for no in range(self.rng.choice((1, 1, 2, 2, 3, 4)))]

    # --- dice --------------------------------------------------------------------------------------------------------

    def _choose(self, count: int) -> int:
        return self.rng.randrange(count) if self.shuffles else 0

    def coin(self) -> bool:
        return self.rng.random() < 0.5

    def pick(self, among: Sequence[Any]) -> Any:
        return self.rng.choice(among)

    def delay(self, scale_s: float) -> float:
        return self.rng.random() ** 2 * scale_s

    def chance(self, fault: str) -> bool:
        """Whether this fault happens now. Counted."""
        if self.calm or self.rng.random() >= self.rates.get(fault, 0.0):
            return False
        self.counts[fault] += 1
        self.note("fault", fault)
        return True

    def _rates(self) -> dict[str, float]:
        rates = RATES | EVENTS
        if self.mode != "swarm":
            return rates
        more = self.rng.choice((1, 3, 8))
        return {name: min(0.6, rate * more) for name, rate in rates.items() if self.rng.random() < 0.4}

    def _case(self, stream: Stream) -> Case:
        rng, scope = self.rng, stream.scope
        protocol = rng.choice(("json-text/1", "native-tools/1"))
        names = rng.sample([n for n in TOOLS if n != "submit"], rng.randrange(2, 5)) + (["submit"] if rng.random() < 0.7 else [])
        budget = Budget(
            max_valid_steps=rng.randrange(1, 9), max_iterations=rng.randrange(2, 15), max_identical_rejections=rng.choice((0, 2, 3, 3)),
            max_consecutive_rejections=rng.choice((0, 0, 2, 4)), max_recoveries=rng.randrange(1, 4), max_tool_calls_per_iteration=rng.choice((0, 2, 16)),
            wall_clock_s=rng.choice((0, 0, 0, 8, 40)), working_time_s=rng.choice((0, 0, 0, 4, 20)),
        )  # fmt: skip
        segments = (Segment("task", text=self.marker(scope)), Segment("history", slot="history"), Segment("notice", slot="notice"))
        request = Request(stream.run, Agent("sim", protocol=protocol), budget, segments, binding={"gateway.cache_namespace": scope}, scope=scope)
        if protocol == "native-tools/1":
            names = list(dict.fromkeys([*names, "look", "peek"]))
        return Case(stream, request, Narrow(names), rng.random() < 0.3, script(rng, protocol, names, self.marker(scope)))

    def deadline_ms(self) -> int:
        return self.now_ms() + int(1000 + self.delay(30_000)) if self.coin() else 0

    def marker(self, scope: str) -> str:
        """A word that stands in everything of a scope, and nowhere else."""
        return f"<{scope}>"

    def foreign_markers(self, stream: Stream) -> list[bytes]:
        return [f"<{s.scope}>".encode() for s in self.streams if s != stream]

    # --- time and faults -----------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        return EPOCH_MS + self.skew + int(self.loop.time() * 1000)

    def note(self, what: str, *about: Any) -> None:
        """An event. The number of the last one is what a failure names."""
        self.events += 1
        if self.trace is not None:
            self.trace.append(f"{self.events:5} {self.loop.time():9.3f} {what:9} {' '.join(map(str, about))}")
        if self.events == self.until:
            self.loop.stopped = True

    def fail(self, invariant: str, what: str) -> None:
        if self.failure is None:
            self.failure = Failure(self.seed, self.events, invariant, self.mode, what)
            self.loop.stopped = True

    def crash_maybe(self, life: Life | None, where: str) -> None:
        if life is not None and life.alive and self.chance(where):
            self.crash(life)

    def crash(self, life: Life) -> None:
        self.note("crash", life.name)
        life.alive = False
        self.store.crashed(life)
        self.service.crashed(life)
        worker = next(w for w in self.workers if w.life is life)
        self.loop.later(0.5 + self.delay(20), worker.boot)

    def when_calm(self, act: Callable[..., Any], *args: Any) -> None:
        """For what hangs: it goes on when the faults stop."""
        if self.calm:
            self.loop.later(0, act, *args)
        else:
            self.waiting_for_calm.append((act, args))

    def _befall(self) -> None:
        span = 40.0
        for name in EVENTS:
            for _ in range(2):
                if self.rng.random() < self.rates.get(name, 0) / 1.5:
                    self.loop.later(self.delay(span), self._event, name)

    def _event(self, name: str) -> None:
        if self.calm:
            return
        self.counts[name] += 1
        self.note("fault", name)
        live = [w.life for w in self.workers if w.life.alive]
        if name == "process stopped" and live:
            life = self.pick(live)
            life.stopped = True
            self.loop.later(1 + self.delay(45), self.loop.go_on, life)
        elif name == "power lost":
            for life in live:
                self.crash(life)
        elif name == "store outage":
            self.outage = True
            self.loop.later(self.delay(20), setattr, self, "outage", False)
        elif name == "disk full":
            self.disk_full = True
            self.loop.later(self.delay(20), setattr, self, "disk_full", False)
        elif name == "clock jump":
            self.skew += self.pick((-600_000, -20_000, 20_000, 259_200_000))
        elif name in ("cancel", "cancel again", "suspend"):
            stream = self.pick(self.streams)
            if stream in self.store.shelves:
                self.store.signal(stream, Signal(0, "suspend" if name == "suspend" else "cancel", 0, "person"))

    def _be_calm(self) -> None:
        self.note("calm")
        self.calm, self.outage, self.disk_full = True, False, False
        for worker in self.workers:
            self.loop.go_on(worker.life)
        for act, args in self.waiting_for_calm:
            self.loop.later(0, act, *args)

    # --- the run of it -----------------------------------------------------------------------------------------------

    def live_state(self, life: Life, stream: Stream) -> State | None:
        driver = self.drivers.get((life, stream))
        return driver.state if driver else None

    def is_alive(self, pid: int) -> bool:
        life = self.lives.get(pid)
        return life is not None and life.alive

    def is_zombie(self, life: Life, stream: Stream) -> bool:
        """Whether another holder has taken the run from this process."""
        driver = self.drivers.get((life, stream))
        return driver is None or driver.fence != self.store.shelf(stream).epoch

    def run(self) -> World:
        for worker in self.workers:
            worker.boot()
        self._befall()
        if self.mode == "liveness":
            start = 2 + self.delay(60)
            self.loop.later(start, self._be_calm)
            self.loop.run(start + LIVENESS_S)
            if self.failure is None and not self.loop.stopped:
                self.judge.verdict()
        else:
            self.loop.run(HORIZON_S)
        self.loop.end()
        return self

    @property
    def digest(self) -> str:
        """One hash of all logs and of how they came about."""
        parts = [f"{s.scope} {shelf.hash} {len(shelf.signals)} {shelf.epoch}" for s, shelf in sorted(self.store.shelves.items(), key=lambda x: x[0].scope)]
        return hashlib.sha256("\n".join([*parts, str(self.events), repr(self.loop.time())]).encode()).hexdigest()


class Worker:
    """A process, restarted after each crash, that keeps all runs going."""

    def __init__(self, world: World, no: int) -> None:
        self.world, self.no, self.boots = world, no, 0
        self.life = Life("", 0)

    def boot(self) -> None:
        world = self.world
        self.boots += 1
        self.life = life = Life(f"w{self.no}.{self.boots}", self.no * 1000 + self.boots)
        world.lives[life.pid] = life
        world.note("boot", life.name)
        log = SimLog(world.store, life)
        world.loop.spawn(life, self._heart(life, log))
        watcher = Watcher(log, poll_s=1.5)
        for case in world.cases:
            world.loop.spawn(life, self._keep(life, log, watcher, case))

    def holder(self, life: Life) -> Holder:
        host = f"h{self.no % 2}"
        return Holder(life.name, host, host, life.pid, self.boots, self.world.now_ms() + LEASE_MS)

    async def _heart(self, life: Life, log: SimLog) -> None:
        while not all(self.world.store.shelf(s).ended for s in self.world.streams):
            await asyncio.sleep(5)
            try:
                await log.heartbeat(self.holder(life))
            except StoreError as failed:
                self.world.note("heartbeat", failed)

    async def _keep(self, life: Life, log: SimLog, watcher: Watcher, case: Case) -> None:
        world, shelf = self.world, self.world.store.shelf(case.stream)
        while not shelf.ended:
            await asyncio.sleep(0.05 + world.delay(3))
            if self._wanted(life, case):
                await self._visit(life, log, watcher, case)
        if world.coin():
            await self._visit(life, log, watcher, case)

    def _wanted(self, life: Life, case: Case) -> bool:
        world, shelf = self.world, self.world.store.shelf(case.stream)
        if world.chance("pointless visit"):
            return True
        if shelf.holder not in ("", life.name) and world.store.is_live(shelf.holder, f"h{self.no % 2}"):
            return False
        wait = world.judge.docket(case.stream).state.waiting
        if wait and wait.deferred and wait.deferred.awaited == "task" and world.loop.time() > shelf.rested_at + POLL_S:
            return True
        return not (wait and shelf.rests) or len(shelf.signals) > shelf.seen or 0 < shelf.next_poll <= world.now_ms()

    async def _visit(self, life: Life, log: SimLog, watcher: Watcher, case: Case) -> None:
        world, stream = self.world, case.stream
        world.drivers.pop((life, stream), None)
        request = case.request
        if drifted := world.chance("drifted resume"):
            request = Request(request.run_id, request.agent, request.budget, request.segments, {"gateway.cache_namespace": "other"}, scope=request.scope)
        seams = Seams(
            log, SimModel(world, life, stream, case.replies), INTERPRETERS[request.agent.protocol], case.tools,
            SimTools(world.service, life, promises_completion=case.promises), world.clock, self._salt, self.holder(life), self._sinks(),
        )  # fmt: skip
        fresh = not world.store.shelf(stream).records
        if drifted and fresh:
            return
        if fresh or world.coin():
            work = run.start(request, seams, lambda groups: None, lambda d: self._watch(life, watcher, d))
        else:
            work = run.resume(stream, request, seams, lambda groups: None, lambda d: self._watch(life, watcher, d))
        await self._see(life, case, work, drifted=drifted)

    def _watch(self, life: Life, watcher: Watcher, driver: Driver) -> None:
        self.world.drivers[life, driver.stream] = driver
        watcher.add(driver)

    async def _see(self, life: Life, case: Case, work: Any, *, drifted: bool) -> None:
        world, faults, shelf = self.world, self._store_faults(), self.world.store.shelf(case.stream)
        epoch = shelf.epoch
        task = asyncio.ensure_future(work)
        if world.chance("visit cancelled"):
            again = world.chance("visit cancelled twice")
            for wait in (world.delay(15), *([world.delay(15)] if again else [])):
                world.loop.later(wait, lambda: life.stopped or task.cancel())
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        world.note("visited", life.name, case.stream.scope, type(outcome).__name__, "" if isinstance(outcome, RunResult) else outcome)
        if isinstance(outcome, RunResult):
            world.judge.need(not drifted, "drift", "a run with other parameters was let in")
            world.judge.returned(case.stream, outcome)
        elif isinstance(outcome, run.ParameterDrift | run.RunExists):
            world.judge.need(drifted, "drift", f"refused without a difference: {outcome}")
        elif not isinstance(outcome, OwnedElsewhere | StoreError | asyncio.CancelledError | Bail | run.NoSuchRun):
            world.fail("raised", f"{outcome!r}")
        failed = isinstance(outcome, StoreError) or (isinstance(outcome, RunResult) and not outcome.persisted)
        if not failed and faults == self._store_faults() and epoch != shelf.epoch == shelf.heard:
            world.judge.need(shelf.ended or shelf.holder != life.name, "stranded", f"the visit is over and {life.name} still holds the run")

    def _store_faults(self) -> int:
        counts = self.world.counts
        return sum(counts[name] for name in ("EIO", "commit unknown", "read fails", "store outage", "disk full"))

    def _salt(self) -> str:
        return f"{self.world.rng.getrandbits(128):032x}"

    def _sinks(self) -> tuple[Any, ...]:
        async def raises(event: Event) -> None:
            raise ValueError(event.type)

        async def hangs(event: Event) -> None:
            await self.world.loop.create_future()

        return tuple(sink for sink, fault in ((raises, "sink raises"), (hangs, "sink hangs")) if self.world.chance(fault))
