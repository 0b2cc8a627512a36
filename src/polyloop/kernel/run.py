"""Start, resume, end from outside: how a holder comes to a run and leaves it. One path for all of them (R59-R64).

take -> load -> fold -> compare -> resume_started -> decide ... A new run is a run with an empty log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TypeVar, cast

from msgspec.structs import replace

from . import records as r
from . import view
from .driver import Driver, Seams
from .flight import unbroken
from .heap import uncollected
from .machine import State, fold, texts_of
from .objects import Json, Request, RunResult
from .records import BlobRef, Record, Sealed, bytes_text
from .seams import Conflict, CorruptStore, Damage, Head, Loaded, Log, NewerSchema, OwnedElsewhere, Signal, StaleFence, StoreError, Stream
from .snapshot import BadRequest, acceptable, differences, is_name, snapshot

T = TypeVar("T")


class ParameterDrift(Exception):
    """A resume offered other parameters than the log holds; `fields` = `{path, logged, offered}`. Nothing was touched."""

    def __init__(self, fields: list[dict[str, Json]]) -> None:
        super().__init__("parameters differ from the logged ones: " + ", ".join(str(f["path"]) for f in fields))
        self.fields = fields


class RunExists(Exception):
    """Another request stands under this run id; `fields` as for drift. No record was written."""

    def __init__(self, run_id: str, fields: list[dict[str, Json]]) -> None:
        super().__init__(f"{run_id} was started with another request")
        self.run_id, self.fields = run_id, fields


class NoSuchRun(Exception):
    """There is no such run in this scope."""


class Past:
    """A loaded log: its records decoded, folded, its texts at hand."""

    def __init__(self, loaded: Loaded) -> None:
        self.sealed: tuple[Sealed, ...] = loaded.records
        self.torn = loaded.torn
        self.records: list[Record] = []
        self.state = State()
        for s in self.sealed:
            if s.body is None:
                raise CorruptStore(f"record {s.seq} was erased; the run can be read but not continued", s.seq)
            try:
                record = r.decode(s.kind, s.body)
                self.state = fold(self.state, s.seq, s.at, record)
            except r.UnknownKind as unknown:
                raise NewerSchema(f"record {s.seq} is of a kind this version does not know: {unknown}") from unknown
            except ValueError as wrong:
                raise CorruptStore(f"record {s.seq} cannot stand there: {wrong}", s.seq) from wrong
            self.records.append(record)

    @property
    def head_hash(self) -> str:
        return self.sealed[-1].hash if self.sealed else r.ZERO_HASH

    @cached_property
    def digests(self) -> list[str]:
        return list(dict.fromkeys(t.blob for rec in self.records for t in texts_of(rec) if isinstance(t, BlobRef)))

    def result(self, look: view.Look) -> Json:
        return self.result_of(self.state, look)

    def result_of(self, state: State, look: view.Look) -> Json:
        """The result an end record points at, read from these records."""
        return None if state.ended is None else view.result_value(state.ended, self.records, look)


async def known(stream: Stream, log: Log) -> Head:
    """The end of a run that has begun. Raises NoSuchRun."""
    head = await log.head(stream)
    if head is None or not head.seq:
        raise NoSuchRun(stream.run)
    return head


async def start(request: Request, seams: Seams) -> RunResult:
    """Run to the end, a wait or a suspend. An existing run with an equal request is resumed, or its result returned.

    Raises BadRequest, RunExists (other request under this id), OwnedElsewhere, StoreError kinds.
    """
    if not is_name(request.run_id):
        raise BadRequest("run_id", "must be text that is not empty, without NUL and without halves of characters")
    stream = Stream(request.scope, request.run_id)
    head = await seams.log.head(stream)
    driver = Driver(stream, seams)
    started = snapshot(request, seams.tools.specs, driver.hold)
    try:
        if head is not None and head.kind:  # a last frame that cannot be read may be all there is
            return await _enter(stream, request, seams, (), refusing=False)
        if await _held(driver, _begin_new(driver, started)):
            return await _drive(driver)
        await unbroken(_release(driver))
        return await _enter(stream, request, seams, (), refusing=False)
    except OwnedElsewhere:
        past = Past(await seams.log.load(stream))
        refused = _fields(past, started, ())[1] if past.state.start else []  # its holder may not have begun
        if refused:  # a used id is a conflict, whoever has the run
            raise RunExists(stream.run, refused) from None
        raise


async def _begin_new(driver: Driver, started: r.RunStarted) -> bool:
    """False when the run has been started before. A first frame that was lost, and never acknowledged, is begun anew."""
    await _take(driver)
    loaded = await driver.seams.log.load(driver.stream)
    if loaded.records:
        return False
    if loaded.torn is not None:
        await driver.seams.log.repair(driver.stream, loaded.torn, driver.fence)
    await driver.heed()
    driver.emit(started)
    if loaded.torn is not None:
        driver.emit(_cut(loaded.torn))
    return True


async def _take(driver: Driver) -> None:
    """Own the run, and let nothing of its former holder live on. If something does, the run is held on to: its groups stand in our row."""
    taken = await driver.seams.log.take(driver.stream, driver.seams.holder)
    driver.fence, driver.since = taken.epoch, taken.signal_no
    try:
        driver.seams.kill(taken.kill)
    except StoreError as alive:
        driver.failure = alive
        raise


async def _held(driver: Driver, work: Awaitable[T]) -> T:
    """Coming to a run is never cut in the middle; if it fails, or the caller has gone, the run is let go again."""
    try:
        return await unbroken(work)
    except BaseException:
        await unbroken(_release(driver))
        raise


def _cut(torn: Damage) -> r.TailRepaired:
    return r.TailRepaired(torn.first_seq, torn.reason, torn.lost_hash)


async def resume(stream: Stream, request: Request | None, seams: Seams, accepted: Sequence[str] = ()) -> RunResult:
    """Continue a run. `accepted` = paths whose difference a person accepts; `request` None = compare nothing (a cancelled run's end).

    Raises NoSuchRun, ParameterDrift (recorded once as resume_refused), OwnedElsewhere, StoreError kinds.
    """
    await known(stream, seams.log)
    return await _enter(stream, request, seams, accepted, refusing=True)


async def _enter(stream: Stream, request: Request | None, seams: Seams, accepted: Sequence[str], *, refusing: bool) -> RunResult:
    driver = Driver(stream, seams)
    offered = None if request is None else snapshot(request, seams.tools.specs, driver.hold)
    driver.blobs.clear()
    head = await seams.log.head(stream)
    if head is not None and head.kind == "run_ended":
        return _ended(driver, await _load(driver), offered, accepted, refusing=refusing)
    past = await _held(driver, _arrive(driver, offered, accepted, refusing=refusing))
    if past.state.ended is None:
        return await _drive(driver)
    await unbroken(_release(driver))
    return _ended(driver, past, offered, accepted, refusing=refusing)


async def _arrive(driver: Driver, offered: r.RunStarted | None, accepted: Sequence[str], *, refusing: bool) -> Past:
    """Take, read, compare, begin. A run that has ended meanwhile is only read."""
    await _take(driver)
    past = await _load(driver)
    if past.state.ended is None:
        if any(digest not in driver.texts for digest in past.digests):
            raise CorruptStore("texts of this run were erased; it can be read but not continued")
        fields, refused = _fields(past, offered, accepted)
        if refused:
            await _refuse(driver, past, refused, refusing=refusing)
        await _begin(driver, past, fields)
    return past


def _fields(past: Past, offered: r.RunStarted | None, accepted: Sequence[str]) -> tuple[list[dict[str, Json]], list[dict[str, Json]]]:
    """What differs, and what of it nobody has accepted or may accept."""
    fields = [] if offered is None else differences(cast(r.RunStarted, past.state.start), offered)
    return fields, [f for f in fields if f["path"] not in accepted or not acceptable(str(f["path"]))]


async def abandon(stream: Stream, seams: Seams, by: str) -> RunResult:
    """Write the end of a run that nobody will go on with; nothing else of it is touched. Raises as `resume`."""
    driver = Driver(stream, seams)
    await known(stream, seams.log)
    past = await _held(driver, _closed(driver, by))
    await unbroken(_release(driver))
    return _result(driver, past.result(driver.look))


async def _closed(driver: Driver, by: str) -> Past:
    await _take(driver)
    past = await _load(driver)
    if past.state.ended is None:
        await _begin(driver, past, [])
        driver.emit(r.RunEnded("abandoned", driver.state.counters, error={"by": by}))
        await driver.flush()
    return past


def _ended(driver: Driver, past: Past, offered: r.RunStarted | None, accepted: Sequence[str], *, refusing: bool) -> RunResult:
    """A run that has ended is only read; its result is what the log says."""
    _, refused = _fields(past, offered, accepted)
    if refused:
        raise ParameterDrift(refused) if refusing else RunExists(driver.stream.run, refused)
    return _result(driver, past.result(driver.look))


async def _load(driver: Driver) -> Past:
    loaded = await driver.seams.log.load(driver.stream)
    with uncollected():
        past = Past(loaded)
    if past.state.start is None:
        raise CorruptStore("the log has no start", 0)
    blobs = await driver.seams.log.blobs(driver.stream, past.digests)
    driver.texts.update((k, bytes_text(v)) for k, v in blobs.items())
    driver.state, driver.prev = driver.durable = past.state, past.head_hash
    return past


async def _refuse(driver: Driver, past: Past, fields: list[dict[str, Json]], *, refusing: bool) -> None:
    """Write the refusal, unless the log already ends with the same one, or with a frame that only a resume may cut; touch nothing else."""
    if not refusing:
        raise RunExists(driver.stream.run, fields)
    last = past.records[-1]
    if past.torn is None and (not isinstance(last, r.ResumeRefused) or list(last.fields) != fields):
        driver.emit(r.ResumeRefused(tuple(fields)))
        await driver.flush()
    raise ParameterDrift(fields)


async def _begin(driver: Driver, past: Past, fields: list[dict[str, Json]]) -> None:
    state = past.state
    if past.torn is not None:
        await driver.seams.log.repair(driver.stream, past.torn, driver.fence)
    driver.recall = lambda: past.result_of(driver.state, driver.look)
    driver.emit(r.ResumeStarted(state.attempts + 1, driver.seams.holder.id, state.seq - 1))
    if past.torn is not None:
        driver.emit(_cut(past.torn))
    if fields:
        driver.emit(r.DriftAccepted(tuple(fields)))
    await driver.heed()


async def _drive(driver: Driver) -> RunResult:
    driver.seams.watch(driver)
    try:
        await driver.drive()
    finally:
        try:
            await unbroken(_release(driver), driver.cancelled_by_caller)
        finally:
            if driver.rested and driver.cancel is not None:
                await unbroken(_end_after_all(driver.stream, driver.seams, driver.cancel))
    return _result(driver, driver.value)


async def _end_after_all(stream: Stream, seams: Seams, asked: r.CancelRequested) -> None:
    """A cancel in the very instant the run was left waiting finds no holder to heed it: it is left as a signal, and the end written.

    Whoever has taken the run meanwhile reads the signal; where the store is away for the end, so does the next holder.
    """
    with suppress(StoreError):
        await seams.log.signal(stream, Signal(0, "cancel", seams.clock.now_ms(), asked.by, body=asked.reason))
        await resume(stream, None, seams)


async def _release(driver: Driver) -> None:
    """Let the run go, whatever ended the visit. Where the store is away the lease runs out, and what became of the run is told."""
    if driver.fence and driver.failure is None and not driver.rested:
        with suppress(StoreError):
            await driver.seams.log.release(driver.stream, driver.fence, 1 << 62)


def _result(driver: Driver, value: Json) -> RunResult:
    """After a failure of the store: what its log has taken, and no word of anything else."""
    failure, (state, head) = driver.failure, driver.durable if driver.failure else (driver.state, driver.prev)
    result = view.run_result(state, driver.stream.run, driver.stream.scope, head, "interrupted", value)
    if failure is None or state.ended:
        return result
    code = "owned_elsewhere" if isinstance(failure, StaleFence | Conflict) else "store_failed"
    return replace(
        result, state="interrupted", reason=code, persisted=False, result=None, waiting=None, error={"code": code, "message": str(failure)}
    )
