"""Carry out commands through the seams; make records; keep them durable before anything is visible.

Theory of operation. `emit` seals and folds a record at once but only queues it; `flush` appends the queue as one batch.
Every command that touches the world flushes first, so an intent is durable before its effect and the two commits of a
step are [model_result, action_intent] and [action_result, step, next model_intent | run_ended] (S2.28, R42). A store
that cannot take a batch stops the run: no later seam call, never "completed" (R44).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, cast

from msgspec import Struct

from . import decide as d
from . import perform
from . import records as r
from .context import look_up
from .events import Events
from .flight import Abandoned, Flight, Interrupted, unbroken
from .machine import Call, State, fold
from .objects import Json
from .records import BlobRef, Record, Sealed, Text, sha256, text_bytes
from .recover import MAY_SAY, cut_short, inquire
from .seams import Actions, Clock, Entropy, Holder, Interpreter, Log, Model, Pending, Signal, Sink, StoreError, Stream, Tools, Unknown
from .view import step_view

#: Seconds that cancelled work may take to stop before it is left behind.
GRACE_S: Final = 2.0
#: Milliseconds after which a task or sub-run that is waited for is worth another visit.
POLL_MS: Final = 60_000
#: What is waited for by asking.
POLLED: Final = ("task", "run")


class Seams(Struct, frozen=True):
    """What a run is wired to."""

    log: Log
    model: Model
    interpreter: Interpreter
    tools: Tools
    actions: Actions
    clock: Clock
    entropy: Entropy
    holder: Holder
    sinks: tuple[Sink, ...] = ()
    grace_s: float = GRACE_S
    #: Ends the process groups of a former holder, and returns once they are gone. Raises StoreError if one is not.
    kill: Callable[[Sequence[tuple[int, int]]], None] = lambda _: None
    #: Told of each run in hand, before it is driven.
    watch: Callable[[Driver], None] = lambda _: None


class Driver:
    """One holder's hand on one run."""

    def __init__(self, stream: Stream, seams: Seams) -> None:
        self.stream, self.seams, self.fence = stream, seams, 0
        self.state, self.prev = State(), r.ZERO_HASH
        self.pending: list[Sealed] = []
        self.blobs, self.texts = dict[str, bytes](), dict[str, str]()
        self.look = look_up(self.texts)
        self.signal_seen = 0
        #: The last signal before this holder came: a suspend up to it was meant for an earlier one.
        self.since = 0
        #: What outsiders have said about each token, in order.
        self.resolutions: dict[str, list[Signal]] = {}
        self.failure: StoreError | None = None
        self.cancel: r.CancelRequested | None = None
        self.suspended = False
        self.rested = False  # left waiting, and let go
        self.result: Json = None
        #: State and head as the log has them: what is told of a run that stops, and what a visit without news goes back to.
        self.durable: tuple[State, str] = (self.state, self.prev)
        #: Reads the result from the log when the completing step was an earlier holder's.
        self.recall: Callable[[], Json] = lambda: None
        self.on_done: Callable[[], None] = lambda: None
        self.flight = Flight(seams.grace_s, self._leaked)
        self.events = Events(seams.sinks)
        #: Indices of the actions in flight; () = a model call; None = nothing.
        self.flying: tuple[int, ...] | None = None
        self.landed: set[int] = set()  # those of several reads in flight that have ended
        self.flown_at = 0.0
        self._done: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.marks: dict[str, float] = {}

    # --- records ---------------------------------------------------------------------------------------------

    def emit(self, record: Record) -> None:
        """Give the record its place; it becomes durable with the next flush."""
        at = max(self.seams.clock.now_ms(), self.state.at)
        sealed = r.seal(self.prev, self.state.seq, at, self.fence, self.seams.entropy(), record)
        if b"\\ud" in (sealed.body or b""):
            record = r.decode(sealed.kind, sealed.body or b"")  # two halves of a character side by side read back as one
        if self.seams.sinks:
            self._announce(sealed, record)
        self.state = fold(self.state, sealed.seq, at, record)
        self.prev = sealed.hash
        self.pending.append(sealed)

    def hold(self, text: str) -> Text:
        """Keep a long text as a blob, a short one as it is."""
        if len(text) < r.INLINE_BYTES // 4:
            return text
        data = text_bytes(text)
        if len(data) < r.INLINE_BYTES:
            return text
        digest = sha256(data)
        self.blobs[digest] = data
        self.texts[digest] = text
        return BlobRef(digest, len(data))

    async def flush(self) -> None:
        """Make everything emitted durable, then let it be seen, then heed what outsiders have left."""
        if self.news:
            batch, blobs = self.pending, self.blobs
            started = self.seams.clock.monotonic()
            signal_no = await self.seams.log.append(self.stream, batch, self.fence, blobs)
            self.mark("store", started)
            self.pending, self.blobs, self.durable = [], {}, (self.state, self.prev)
            self.events.publish()
            if signal_no > self.signal_seen:
                await self.heed()

    @property
    def news(self) -> bool:
        """Whether anything waits to be written. A resumption alone does not: it is the first record of the first batch."""
        return len(self.pending) > 1 or (bool(self.pending) and self.pending[0].kind != "resume_started")

    async def heed(self) -> None:
        """Read new signals: cancel, suspend, resolutions of what the run waits for."""
        for signal in await self.seams.log.signals(self.stream, self.signal_seen):
            self.signal_seen = max(self.signal_seen, signal.no)
            if signal.kind == "cancel":
                self._called_off(signal.by, str(signal.body or ""))
            elif signal.kind == "suspend" and signal.no > self.since:
                self.suspend()
            elif signal.kind == "resolve" and signal.no > self.state.spent.get(signal.token, 0):
                self.resolutions.setdefault(signal.token, []).append(signal)

    def suspend(self) -> None:
        """Stop without an end; the run stays resumable."""
        self.suspended = True
        self.flight.want("suspend")

    def mark(self, name: str, started: float) -> None:
        self.marks[name] = self.marks.get(name, 0.0) + (self.seams.clock.monotonic() - started) * 1000

    def timings(self, call: Call | None) -> r.Timings:
        marks = {k: round(v, 1) for k, v in self.marks.items()}
        action = call.result.ms if call and call.result else None
        total = round(sum(marks.values()) + (action or 0.0), 1)
        self.marks = {}
        return r.Timings(action=action, total=total, **marks)

    @property
    def value(self) -> Json:
        """The result of an ended run."""
        if self.state.ended is None:
            return None
        return self.result if self.result is not None else self.recall()

    # --- the loop --------------------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Run until the end, a wait, a suspend or a store failure; the outcome is in `state`, `failure`, `suspended`."""
        self._done = asyncio.get_running_loop().create_future()
        self._go(self._loop())
        try:
            await unbroken(self._done, self.cancelled_by_caller)
        finally:
            self.on_done()
            await unbroken(self.events.close(), self.cancelled_by_caller)

    def cancelled_by_caller(self) -> None:
        """The task that drives the run was cancelled: the run is to end."""
        self._called_off("caller", "the calling task was cancelled")

    def _called_off(self, by: str, reason: str) -> None:
        if not (self.cancel or self.state.cancel):
            self.cancel = r.CancelRequested(by, reason)
            self.flight.want("cancel")

    def _go(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._finish(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, work: Awaitable[None]) -> None:
        done = cast("asyncio.Future[None]", self._done)
        try:
            await self._caught(work)
        except Abandoned:
            return
        except BaseException as fault:
            done.set_exception(fault)
        else:
            done.set_result(None)

    async def _caught(self, work: Awaitable[None]) -> None:
        """A store that fails or a stop leaves the run resumable; a fault of interpreter or kernel ends it, and says so."""
        try:
            try:
                await work
            except Interrupted:
                self.suspended = True
            except Exception as fault:
                if isinstance(fault, StoreError):
                    raise
                error: Json = {"type": type(fault).__name__, "message": str(fault)[:2000]}
                self.emit(r.RunEnded("internal_error", self.state.counters, error=error))
            await self._leave()
        except StoreError as failure:
            self.failure, self.suspended = failure, True

    async def _leave(self) -> None:
        """What is known is written, whatever ends the visit; a resume that found nothing new writes nothing."""
        if self.news:
            await self.flush()
        else:
            self.pending, (self.state, self.prev) = [], self.durable

    async def _loop(self) -> None:
        while not self.suspended:
            self.take_up_cancel()
            command = d.decide(self.state, self.seams.clock.now_ms())
            if command is None or (isinstance(command, d.Wait) and await self._rest(command)):
                return
            if not isinstance(command, d.Wait):
                work = perform.PERFORM[type(command)](self, command)
                if work is not None:
                    await work

    def take_up_cancel(self) -> None:
        """Write down that the run is to end; what is begun from then on is not cut short by it."""
        if self.cancel is not None and self.state.cancel is None and self.state.ended is None:
            self.emit(self.cancel)
            self.flight.heeded()

    @property
    def halting(self) -> bool:
        """Suspended, or to be cancelled and not yet so in the log: nothing is sent any more."""
        return self.suspended or (self.cancel is not None and self.state.cancel is None)

    async def _rest(self, command: d.Wait) -> bool:
        """True when the run may be left waiting."""
        call = cast(Call, self.state.call(command.call))
        await self.flush()
        if self.resolved(call) or self.halting:
            return self.suspended
        if await self._polled(call) or self.state.cancel is not None:
            return False
        if not await self.seams.log.release(self.stream, self.fence, self.signal_seen, self._next_visit(call, command.until)):
            await self.heed()
            return False
        self.rested = True
        return True

    def _next_visit(self, call: Call, until: int) -> int:
        """When somebody should look after the run, epoch ms; 0 = not before it is told something. Nobody tells of most tasks: they are asked."""
        if cast(r.ActionDeferred, call.deferred).awaited not in POLLED:
            return until
        asks = self.seams.clock.now_ms() + POLL_MS
        return min(until, asks) if until else asks

    def resolved(self, call: Call) -> bool:
        """Take up what an outsider has said about a wait, if anything."""
        deferred = cast(r.ActionDeferred, call.deferred)
        said = self.resolutions.get(deferred.token, [])
        signal = next((s for s in said if s.decision in MAY_SAY[deferred.awaited]), None)
        if signal is None:
            return False
        late = 0 < deferred.until < signal.at
        self.resolve(call, "expired" if late else cast(r.Decision, signal.decision), signal.by, signal.body)
        return True

    def resolve(self, call: Call, decision: r.Decision, by: str, evidence: Json = None) -> None:
        """Record the end of a wait; all that has been said about its token is spent with it."""
        token = cast(r.ActionDeferred, call.deferred).token
        self.resolutions.pop(token, None)
        self.emit(r.ActionResolved(call.index, token, decision, by, evidence, self.signal_seen))

    async def _polled(self, call: Call) -> bool:
        """Ask the service about a dispatched action once per visit."""
        deferred = cast(r.ActionDeferred, call.deferred)
        if deferred.awaited not in POLLED:
            return False
        settled = await inquire(self, call, deferred.token, fence=False)
        if isinstance(settled, Pending | Unknown) or self.state.cancel is not None:
            return False
        self.resolve(call, "finished", "poll")
        return True

    def _leaked(self, why: str) -> None:
        async def go_on() -> None:
            await cut_short(self, why, leaked=True)
            await self._loop()

        self._go(go_on())

    # --- events ------------------------------------------------------------------------------------------------

    def _announce(self, sealed: Sealed, record: Record) -> None:
        body = step_view(record, self.state, self.look) if isinstance(record, r.Step) else None
        self.events.queue(self.stream, sealed, record, body)
