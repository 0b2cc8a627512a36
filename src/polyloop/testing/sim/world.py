"""One seed, one world: processes that come and go over one store, and everything that befalls them.

Theory of operation. The world owns the loop, the clock, the dice and the faults; `chance(name)` is the only way a fault
happens, so each is counted and a swarm can leave some out. Worker processes keep the runs going through the real driver.
In mode liveness the faults stop at a random tick and then every run must end, or rest where only an outsider can help.
The judge stops the world at the first breach.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from msgspec import Struct

from polyloop.kernel.driver import Driver
from polyloop.kernel.machine import State
from polyloop.kernel.objects import Agent, Budget, Request, Segment
from polyloop.kernel.seams import Stream

from .judge import EPOCH_MS, Judge
from .loop import Life, SimLoop
from .model import script
from .service import TOOLS, Narrow, People, SimService
from .store import SimStore
from .worker import Case, Worker

MODES = ("safety", "liveness", "swarm")
#: Faults that come by count and not by time, so that a sink cannot move them (I9).
STILL = (
    "tool refused", "tool raises before", "tool raises after commit", "tool reply lost", "tool signal unavailable", "model not reached",
    "model fails", "model raises", "sink raises", "sink hangs", "sink listens",
)  # fmt: skip
#: Virtual seconds: how long a world of faults lasts, and how long after the last fault a run may take to end.
HORIZON_S = 200.0
LIVENESS_S = 1_200.0
#: Chance of each fault at each opportunity.
RATES: dict[str, float] = {
    "EIO": 0.008, "commit unknown": 0.01, "unknown, and it is in": 0.5, "unknown, and it lands later": 0.3, "read fails": 0.004,
    "crash at a request": 0.013, "crash after a commit": 0.006, "crash at a dispatch": 0.03, "crash before a tool's reply": 0.03,
    "crash at a model call": 0.02, "crash before a model's reply": 0.02, "torn frame": 0.9,
    "tool refused": 0.04, "tool raises before": 0.016, "tool raises after commit": 0.016, "tool reply lost": 0.03, "tool request lost": 0.03,
    "tool hangs before": 0.02, "tool hangs after commit": 0.02, "tool ignores cancel": 0.025, "tool bails out": 0.025, "tool slow": 0.05,
    "tool signal unavailable": 0.02, "settle raises": 0.11, "settle cannot tell": 0.12, "settle hangs": 0.12,
    "settle ignores cancel": 0.12, "model ignores cancel": 0.02,
    "model not reached": 0.01, "model hangs": 0.02, "model slow": 0.05, "model fails": 0.012, "model raises": 0.011,
    "decided before the deferral is logged": 0.16, "decided in the moment of release": 0.3, "decided after the deadline": 0.35,
    "decided twice": 0.3, "nobody decides": 0.25, "says what makes no sense": 0.15, "drift accepted": 0.02, "drifted resume": 0.03,
    "pointless visit": 0.02, "visit cancelled": 0.05, "visit cancelled twice": 0.4, "sink raises": 0.2, "sink hangs": 0.1,
    "sink listens": 0.1, "cancel in the moment of a commit": 0.005, "suspend in the moment of a commit": 0.005,
}  # fmt: skip
#: Chance that a world has it, once or twice, at a random moment.
EVENTS: dict[str, float] = {
    "process stopped": 0.3, "power lost": 0.12, "last frame rots": 0.08, "store outage": 0.15, "disk full": 0.15, "clock jump": 0.2,
    "cancel": 0.12, "cancel again": 0.05, "suspend": 0.2, "abandon": 0.05,
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

    def __init__(self, seed: int, mode: str, *, trace: bool = False, until: int = 0, sinks: bool = True) -> None:
        self.seed, self.mode, self.sinks = seed, mode, sinks
        self.rng = Random(f"{mode} {seed}")  # noqa: S311  # dice, not secrets
        self.shuffles = self.coin() and mode != "twin"
        self.loop = SimLoop(self._choose)
        self.store, self.service, self.people, self.judge = SimStore(self), SimService(self), People(self), Judge(self)
        self.clock = SimClock(self)
        self.events, self.until = 0, until
        self.trace: list[str] | None = [] if trace else None
        self.failure: Failure | None = None
        self.counts: Counter[str] = Counter()
        self.calm = self.outage = self.disk_full = False
        self.skew, self.calm_at = 0, 0.0
        self.waiting_for_calm: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self.lives: dict[int, Life] = {}
        self.drivers: dict[tuple[Life, Stream], Driver] = {}
        self.rates = self._rates()
        self.streams = [Stream(scope, "r1") for scope in ("acme", "zeta")[: 1 + (self.rng.random() < 0.25 and mode != "twin")]]
        self.cases = [self._case(stream) for stream in self.streams]
        self.workers = [Worker(self, no) for no in range(1 if mode == "twin" else self.rng.choice((1, 1, 2, 2, 3, 4)))]

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
        if self.mode == "twin":
            return {name: 3 * rates[name] for name in STILL}
        if self.mode != "swarm":
            return rates
        more = self.rng.choice((1, 3, 8))
        return {name: min(0.6, rate * more) for name, rate in rates.items() if self.rng.random() < 0.4}

    def _case(self, stream: Stream) -> Case:
        rng, scope = self.rng, stream.scope
        protocol = rng.choice(("json-text/1", "native-tools/1"))
        usual = [name for name, t in TOOLS.items() if not t.completes and not (t.defers and self.mode == "twin")]
        names = rng.sample(usual, rng.randrange(2, 5)) + (["submit"] if rng.random() < 0.7 else [])
        budget = Budget(
            max_valid_steps=rng.randrange(1, 9), max_iterations=rng.randrange(2, 15), max_identical_rejections=rng.choice((0, 2, 3, 3)),
            max_consecutive_rejections=rng.choice((0, 0, 2, 4)), max_recoveries=rng.choice((0, 1, 2, 3)),
            max_tool_calls_per_iteration=rng.choice((0, 2, 16)), wall_clock_s=rng.choice((0, 0, 0, 8, 40)),
            working_time_s=rng.choice((0, 0, 0, 4, 20)),
        )  # fmt: skip
        segments = (Segment("task", text=self.marker(scope)), Segment("history", slot="history"), Segment("notice", slot="notice"))
        overflow = rng.choice(("none", "window(2)", "cap_observation(1000)"))
        binding = {"gateway.cache_namespace": scope}
        request = Request(stream.run, Agent("sim", protocol=protocol), budget, segments, binding, scope=scope, overflow=overflow)
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
        if self.trace is not None and (not self.until or self.events <= self.until):
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
        elif name in ("power lost", "last frame rots"):
            for life in live:
                self.crash(life)
            if name == "last frame rots":
                self.store.rot(self.pick(self.streams))
        elif name == "abandon" and live:
            self.pick([w for w in self.workers if w.life.alive]).abandon(self.pick(self.cases))
        elif name == "store outage":
            self.outage = True
            self.loop.later(self.delay(20), self._mend, "outage")
        elif name == "disk full":
            self.disk_full = True
            self.loop.later(self.delay(20), self._mend, "disk_full")
        elif name == "clock jump":
            self.skew += self.pick((-600_000, -20_000, 20_000, 259_200_000))
        elif name in ("cancel", "cancel again", "suspend"):
            stream = self.pick(self.streams)
            if stream in self.store.shelves:
                self.people.stop(stream, name.removesuffix(" again"))

    def _mend(self, what: str) -> None:
        setattr(self, what, False)

    def _be_calm(self) -> None:
        self.note("calm")
        self.calm, self.outage, self.disk_full, self.calm_at = True, False, False, self.loop.time()
        for worker in self.workers:
            self.loop.go_on(worker.life)
        for act, args in self.waiting_for_calm:
            self.loop.later(0, act, *args)

    # --- the run of it -----------------------------------------------------------------------------------------------

    def live_state(self, life: Life, stream: Stream, fence: int) -> State | None:
        driver = self.drivers.get((life, stream))
        return driver.state if driver and driver.fence == fence else None

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
        if self.failure is None:
            self.judge.close()
        self.loop.end()
        return self

    @property
    def digest(self) -> str:
        """One hash of all logs and of how they came about."""
        shelves = [self.store.shelf(stream) for stream in self.streams]
        parts = [f"{shelf.hash} {len(shelf.signals)} {shelf.epoch}" for shelf in shelves]
        return hashlib.sha256("\n".join([*parts, str(self.events), repr(self.loop.time())]).encode()).hexdigest()


def twin(seed: int, *, trace: bool = False) -> World:
    """I9: the same world with and without its sinks; the logs must be equal to the byte."""
    world, bare = World(seed, "twin", trace=trace).run(), World(seed, "twin", sinks=False).run()
    world.failure = world.failure or bare.failure
    for stream in world.streams:
        a, b = world.store.shelf(stream).records, bare.store.shelf(stream).records
        first = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        if a != b:
            world.fail("I9", f"{stream.scope}: with sinks the log differs from record {first} on")
    return world
