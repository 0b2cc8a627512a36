"""The runs of one tenant in one store: start, resume, cancel, fork, read, verify. Everything for people starts here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, cast
from weakref import WeakSet

from msgspec import Struct
from msgspec.structs import replace

from polyloop.clock import SystemClock
from polyloop.contract.problem import ProblemError, problem
from polyloop.db.birth import locate
from polyloop.gateway.bindings import check_scope
from polyloop.gateway.office import Office
from polyloop.gateway.sources import seated
from polyloop.ids import salt
from polyloop.kernel import records as r
from polyloop.kernel import run as kernel
from polyloop.kernel import seams as k
from polyloop.kernel.context import look_up
from polyloop.kernel.driver import GRACE_S, Driver, Seams
from polyloop.kernel.history import carried_text
from polyloop.kernel.machine import Call, State
from polyloop.kernel.objects import Budget, Json, Origin, Request, RunResult
from polyloop.kernel.records import bytes_text
from polyloop.kernel.snapshot import is_name, request_of
from polyloop.kernel.verify import Verdict
from polyloop.kernel.view import Look, run_result
from polyloop.kernel.watch import Watcher
from polyloop.toolbox.worker import WorkerPool

from .audit_log import AuditLog, digests_of
from .gateway import office
from .holding import Holding
from .policies import renewed
from .subruns import SubRuns, abandon_below, left_behind
from .typed import typed
from .verdict import verdict
from .wiring import Wiring, logged_wiring

#: Resolution of an `ask` by the word a person uses (interface.md, settle --as).
SETTLE_DECISIONS: Final = {"done": "finished", "not-done": "denied", "retry": "approved"}
PAGE_RUNS: Final = 50
#: How long, and how often, a cancel looks for the end of a run in other hands: a holder has its watcher and its grace.
CANCEL_S: Final = 20.0
CANCEL_POLL_S: Final = 0.05
#: State of a run in a list that cannot be read; the reason is the kind of the error.
UNREADABLE: Final = "unreadable"


class Listed(Struct, frozen=True):
    """One run in a list."""

    run_id: str
    state: str
    created: int
    updated: int
    reason: str = ""


class Read(Struct, frozen=True):
    """A run read whole: its records, its texts, what became of it."""

    sealed: tuple[k.Sealed, ...]
    blobs: dict[str, bytes]
    look: Look
    result: RunResult

    @property
    def start(self) -> r.RunStarted:
        """The settings it was started with."""
        return cast(r.RunStarted, r.decode(self.sealed[0].kind, self.sealed[0].body or b""))

    @property
    def records(self) -> list[r.Record]:
        return [r.decode(s.kind, s.body) for s in self.sealed if s.body is not None]


class Runs:
    """Use as `async with runs.holding():` around run, resume, cancel, fork, abandon; reading needs no holder."""

    def __init__(self, log: k.Log, scope: str, *, grace_s: float = GRACE_S, store: str = "") -> None:
        """`store`: where documents of these runs are, "" = nowhere."""
        self.log, self.scope, self.grace_s, self.store = log, scope, grace_s, store
        self.clock = SystemClock()
        self._holder: k.Holder | None = None
        self._workers: WorkerPool | None = None
        self._holding: Holding | None = None
        self._hands: set[str] = set()
        self._office: Office | None = None
        self._watcher = Watcher(log)
        self._driving: WeakSet[Driver] = WeakSet()
        #: Runs that are to stop as soon as they are driven.
        self._stopped: set[str] = set()
        #: Set by `suspend`: whoever starts one run after another stops too.
        self.suspended = False

    @property
    def holder(self) -> k.Holder:
        """This process, while it is `holding`."""
        if self._holder is None:
            raise AssertionError("a run needs `async with runs.holding()`")
        return self._holder

    @asynccontextmanager
    async def holding(self) -> AsyncGenerator[None]:
        """Be a holder: heartbeat, watcher, tool processes; all are gone afterwards."""
        holding = self._holding = Holding(self.log, lambda: self._workers.groups() if self._workers else ())
        with typed("run"):
            self._holder = await holding.begin()
        # A new worker is in the holder row before it gets its first call: whoever takes over knows what to end.
        self._workers = WorkerPool(on_groups_changed=holding.tell)
        try:
            yield
        finally:
            await self._workers.aclose()
            holding.end()
            closing, self._office = self._office, None
            self._holder = self._workers = self._holding = None
            if closing is not None:
                await closing.aclose()

    @asynccontextmanager
    async def _seams(self, run_id: str, wiring: Wiring, audit_to: Path | None = None, accept: Sequence[str] = ()) -> AsyncGenerator[Seams]:
        """The seams of one run, its workspace held meanwhile. Raises OwnedElsewhere while this process already drives it."""
        with self._in_hand(run_id):
            async with self._wired(run_id, wiring, audit_to, accept) as seams:
                yield seams

    @contextmanager
    def _in_hand(self, run_id: str) -> Generator[None]:
        """One hand on a run: the store lets a holder take again what it holds, and could not tell two of one process apart."""
        if run_id in self._hands:
            raise k.OwnedElsewhere(self.holder.id, self.holder.until)
        self._hands.add(run_id)
        try:
            yield
        finally:
            self._hands.discard(run_id)
            self._stopped.discard(run_id)

    @asynccontextmanager
    async def _wired(self, run_id: str, wiring: Wiring, audit_to: Path | None, accept: Sequence[str]) -> AsyncGenerator[Seams]:
        holder, workers = self.holder, cast(WorkerPool, self._workers)
        log = self.log
        if audit_to is not None:
            audit = AuditLog(self.log, audit_to)
            audit.check()
            log = cast(k.Log, audit)
        if self._office is None:
            self._office = office(self.store, self.scope)
        actions, model = wiring.actions(workers), seated(wiring.model, self._office)
        head = await self.log.head(self.stream(run_id)) if is_name(run_id) else None
        if wiring.workspace is not None and not (head and head.kind == "run_ended"):  # one that has ended is only read
            for file in filter(None, (self.store and locate(self.store), audit_to)):
                wiring.workspace.keep_out(file)
            await asyncio.to_thread(wiring.workspace.hold)
        if wiring.library is not None:
            wiring.library.store, wiring.library.log = self.store, self.log
            wiring.library.below = SubRuns(self, wiring.library.workspace, audit_to, accept)
        try:
            yield Seams(
                log, model, wiring.interpreter, wiring.tools, actions, self.clock, salt, holder, wiring.sinks, self.grace_s,
                self._end_groups, self._watch,
            )  # fmt: skip
        finally:
            if wiring.workspace is not None:
                wiring.workspace.close()
            if wiring.library is not None:
                wiring.library.close()

    def _end_groups(self, groups: Sequence[tuple[int, int]]) -> None:
        cast(Holding, self._holding).end_groups(groups)

    def _watch(self, driver: Driver) -> None:
        self._driving.add(driver)
        self._watcher.add(driver)
        if self.suspended or driver.stream.run in self._stopped:
            driver.suspend()

    def suspend(self) -> None:
        """Stop all runs of this process without an end; they stay resumable."""
        self.suspended = True
        for driver in list(self._driving):
            driver.suspend()

    def stop_with(self, above: str, run_id: str) -> bool:
        """Stop a run without an end if the one above it was stopped so; whether it was."""
        stopped = any(d.suspended for d in self._driving if d.stream.run == above)
        if stopped:
            self._stopped.add(run_id)
            for driver in [d for d in self._driving if d.stream.run == run_id]:
                driver.suspend()
        return stopped

    # --- going on ----------------------------------------------------------------------------------------------

    async def run(self, request: Request, wiring: Wiring, audit_to: Path | None = None) -> RunResult:
        """Start a run, or resume it if its id exists and the request is equal. Raises ProblemError (conflict, validation, not_found

        for a `parent` that is no run here, ...).
        """
        check_scope(request.binding, self.scope)
        if request.parent:
            await self.head(request.parent)
        with typed("run"):
            async with self._seams(request.run_id, wiring, audit_to) as seams:
                return await _told(seams, await kernel.start(replace(request, scope=self.scope), seams), wiring)

    async def resume(self, request: Request, wiring: Wiring, accept: Sequence[str] = (), audit_to: Path | None = None) -> RunResult:
        """Go on with a run under this request; with a sub-run of one that has ended, to its end.

        Raises ProblemError (not_found, parameter_drift, owned_elsewhere, ...; `details.run` = of the sub-run it waits for).
        """
        if await left_behind(self, request.run_id):
            return await self.cancel(request.run_id, "the run above has ended", "run", lambda _: wiring)
        with typed("resume"):
            async with self._seams(request.run_id, wiring, audit_to, accept) as seams:
                return await _told(seams, await kernel.resume(self.stream(request.run_id), request, seams, accept), wiring)

    async def request(self, run_id: str) -> Request:
        """The request a logged run was started with, under the policies of today. Raises ProblemError(not_found)."""
        read = await self.read(run_id)
        return renewed(request_of(run_id, self.scope, read.start, read.look))

    async def like(self, run_id: str, request: Request) -> Request:
        """A request as the logged run would have it: same id and scope, and a fork's origin and history."""
        logged = await self.request(run_id)
        return replace(request, run_id=run_id, scope=self.scope, origin=logged.origin, history=logged.history)

    async def cancel(self, run_id: str, reason: str, by: str, wire: Callable[[Request], Wiring]) -> RunResult:
        """End a run for good. A run in other hands is told and waited for; one without an owner is ended here."""
        with typed("cancel"):
            await self._signal(run_id, k.Signal(0, "cancel", self.clock.now_ms(), by, body=reason))
            until = self.clock.monotonic() + CANCEL_S
            while (head := await self.log.head(self.stream(run_id))) is not None and head.live and head.kind != "run_ended":
                if self.clock.monotonic() > until:
                    return (await self.read(run_id)).result
                await asyncio.sleep(CANCEL_POLL_S)
            try:
                return await self._finish(run_id, wire)
            except k.OwnedElsewhere:  # somebody resumed it in this instant, and reads the signal
                return (await self.read(run_id)).result

    async def _finish(self, run_id: str, wire: Callable[[Request], Wiring]) -> RunResult:
        """Drive a run that has been cancelled to its end. Its own tools settle what is open, if they can still be found."""
        try:
            wiring = wire(await self.request(run_id))
        except ProblemError:
            wiring = logged_wiring((await self.read(run_id)).start)
        async with self._seams(run_id, wiring) as seams:
            return await kernel.resume(self.stream(run_id), None, seams)

    async def abandon(self, run_id: str, by: str) -> RunResult:
        """Close an interrupted or waiting run, and those below, touching nothing else. Raises ProblemError(owned_elsewhere) if it lives."""
        with typed("abandon"):
            read = await self.read(run_id)
            async with self._seams(run_id, logged_wiring(read.start)) as seams:
                result = await kernel.abandon(self.stream(run_id), seams, by)
        await abandon_below(self, read, by)
        return result

    async def fork(self, run_id: str, at: int, new_id: str, wire: Callable[[Request], Wiring], budget: Budget | None = None) -> RunResult:
        """Start a new run from the history of another up to record `at`, which must stand between two iterations."""
        with typed("fork"):
            request = await self.fork_request(run_id, at, new_id, budget)
            async with self._seams(new_id, wire(request)) as seams:
                return await kernel.start(request, seams)

    async def fork_request(self, run_id: str, at: int, new_id: str, budget: Budget | None) -> Request:
        read = await self.read(run_id)
        if not 0 <= at < len(read.sealed):
            raise problem("validation", f"run {run_id} has records 0 to {len(read.sealed) - 1}, not {at}", operation="fork", stage="arguments")
        state = _folded(read.sealed[: at + 1])
        if state.ask is not None or state.reply is not None or state.start is None:
            raise problem("validation", f"record {at} is not the end of a step; an intent is open there", operation="fork", stage="arguments")
        request = renewed(request_of(run_id, self.scope, state.start, read.look))
        origin = Origin(run_id, at, read.sealed[at].hash)
        history = carried_text(request.history, state.history, read.look)
        return replace(request, run_id=new_id, origin=origin, history=history, budget=budget or request.budget)

    async def settle(self, run_id: str, call: int, decision: str, by: str) -> None:
        """Say what became of an action nobody could ask about. Raises ProblemError: validation when it is not such a one, conflict

        when somebody has already said something else: the first word counts.
        """
        state = _folded((await self.read(run_id)).sealed)
        found = state.call(call)
        token = _settle_token(found) if found else ""
        if not token:
            message = f"call {call} of run {run_id} does not wait to be settled"
            raise problem("validation", message, operation="settle", stage="arguments")
        said, since = SETTLE_DECISIONS[decision], state.spent.get(token, 0)
        await self.resolve(run_id, token, said, by)
        signals = await self.log.signals(self.stream(run_id), since)
        first = next(s.decision for s in signals if s.token == token and s.decision in SETTLE_DECISIONS.values())
        if first != said:
            message = f"call {call} of run {run_id} was already settled otherwise ({first})"
            raise problem("conflict", message, operation="settle", stage="precondition")

    async def resolve(self, run_id: str, token: str, decision: str, by: str, body: Json = None) -> None:
        """Leave the resolution of a wait for whoever goes on with the run."""
        with typed("resolve"):
            await self._signal(run_id, k.Signal(0, "resolve", self.clock.now_ms(), by, token, decision, body))

    async def _signal(self, run_id: str, signal: k.Signal) -> None:
        stream = self.stream(run_id)
        await kernel.known(stream, self.log)
        await self.log.signal(stream, signal)

    # --- reading -----------------------------------------------------------------------------------------------

    def stream(self, run_id: str) -> k.Stream:
        """Raises NoSuchRun for what can be the name of none."""
        if not is_name(run_id):
            raise kernel.NoSuchRun(run_id)
        return k.Stream(self.scope, run_id)

    async def head(self, run_id: str) -> k.Head:
        """Where a run's log ends, and whether a living process holds it. Raises ProblemError(not_found)."""
        with typed("read"):
            return await kernel.known(self.stream(run_id), self.log)

    async def read(self, run_id: str) -> Read:
        """A run whole. Raises ProblemError(not_found, corrupt_store)."""
        with typed("read"):
            stream, head = self.stream(run_id), await self.head(run_id)
            sealed = (await self.log.load(stream)).records
            if not sealed:
                raise k.CorruptStore("the log's only frame is damaged", 0)
            blobs = await self.log.blobs(stream, list(dict.fromkeys(digests_of(sealed))))
        look = look_up({digest: bytes_text(data) for digest, data in blobs.items()})
        return Read(sealed, blobs, look, _result(self.scope, run_id, sealed, look, live=head.live))

    async def list(self, after: str = "", limit: int = PAGE_RUNS) -> tuple[list[Listed], bool]:
        """A page of runs, newest first, and whether more follow. Raises ProblemError(pagination) for a foreign continuation."""
        with typed("runs"):
            found: list[tuple[k.Stream, k.Head]] = []
            more = True
            while more and len(found) <= limit:
                try:
                    page = await self.log.streams(self.scope, after and self.stream(after).run, limit + 1)
                except (KeyError, kernel.NoSuchRun) as e:
                    raise problem("pagination", "the continuation belongs to no run here", operation="runs", stage="arguments") from e
                found += [(stream, head) for stream, head in page if head.seq]  # taken and never begun: no run yet
                more, after = len(page) > limit, page[-1][0].run if page else ""
            return [await self._listed(stream, head) for stream, head in found[:limit]], len(found) > limit

    async def _listed(self, stream: k.Stream, head: k.Head) -> Listed:
        """One run; a damaged one, or one of a later version, is listed as such and hides no other."""
        state, reason = "running", ""
        if head.kind in ("run_ended", "action_deferred") or not head.live:
            try:
                result = (await self.read(stream.run)).result
                state, reason = result.state, result.reason
            except ProblemError as error:
                state, reason = UNREADABLE, error.problem.kind
        return Listed(stream.run, state, head.created, head.updated, reason)

    async def verify(self, run_id: str, head: str = "") -> Verdict:
        """Recompute every hash and rule of a run's log. Raises ProblemError(not_found); damage is a finding, not an error."""
        with typed("verify"):
            stream = self.stream(run_id)
            await kernel.known(stream, self.log)
            return await verdict(self.log, stream, head)


async def _told(seams: Seams, result: RunResult, wiring: Wiring) -> RunResult:
    """The result, once the audit file has it too: a run may have ended in the log and died before the file had its end.

    Raises ProblemError where it waits for a sub-run that cannot go on.
    """
    house: object = wiring.library.below if wiring.library else None
    if result.state == "waiting" and isinstance(house, SubRuns) and house.stuck is not None:
        raise house.stuck
    log: object = seams.log
    if result.ended and isinstance(log, AuditLog):
        await log.catch_up(k.Stream(result.scope, result.run_id))
    return result


def _folded(sealed: Sequence[k.Sealed]) -> State:
    return kernel.Past(k.Loaded(tuple(sealed))).state


def _settle_token(call: Call) -> str:
    if call.stage == "waiting" and call.deferred is not None and call.deferred.awaited == "settle":
        return call.deferred.token
    open_ask = call.stage == "open" and call.intent is not None and call.intent.replay == "ask"
    return call.settle_token if open_ask else ""


def _result(scope: str, run_id: str, sealed: Sequence[k.Sealed], look: Look, *, live: bool) -> RunResult:
    past = kernel.Past(k.Loaded(tuple(sealed)))
    return run_result(past.state, run_id, scope, past.head_hash, "running" if live else "interrupted", past.result(look))
