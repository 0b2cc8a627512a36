"""The log on the SQL door: control rows, frames, blobs, signals, holders.

Theory of operation. Everything a verb does is one piece of work on the writer, so its checks and its writes are one transaction.
An append is two statements in steady state: one query finds the control row together with the end of the stream, one insert puts
the frame there (and one more for each text it refers to). The head of a stream is its last frame, so an append updates no row.
Texts lie in the row of the frame that brought them, after its body: their tail fills whole overflow pages, and reading a log never
touches them. `blob` tells where each one is, once per stream. The rules themselves are pure and stand in `rules`, the frame format
in `frames`. `?` parameters and plain SQL only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, cast

import msgspec

from polyloop.clock import SystemClock
from polyloop.db import CommitUnknown, Damaged, Database, DbError, NewerSchema, Row, Schema, Tx, Value
from polyloop.kernel import seams
from polyloop.kernel.records import ZERO_HASH, Sealed
from polyloop.kernel.seams import Clock, Conflict, CorruptStore, Damage, Head, Holder, Loaded, Signal, StoreError, StoreUnknown, Stream, Taken

from . import frames, rules
from .frames import Frame
from .process import Machine, this_machine

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_V1 = """
create table stream (
    id integer primary key, scope text not null, run text not null, holder text not null default '',
    epoch integer not null default 0, signal_no integer not null default 0, next_poll integer not null default 0,
    created integer not null, unique (scope, run)
) strict;
create index stream_newest on stream (scope, id);
create index stream_holder on stream (holder) where holder <> '';
create table frame (
    id integer primary key, stream integer not null, first_seq integer not null, last_seq integer not null,
    last_hash blob not null, body blob not null, texts blob, unique (stream, first_seq)
) strict;
create table blob (
    stream integer not null, digest blob not null, first_seq integer not null, start integer not null, size integer not null,
    primary key (stream, digest)
) strict, without rowid;
create table signal (
    id integer primary key, stream integer not null, no integer not null, body blob not null, unique (stream, no)
) strict;
create table holder (
    id text primary key, host text not null, boot text not null, pid integer not null, started integer not null,
    until integer not null, process_groups text not null
) strict;
create table retired (one integer primary key check (one = 1), epoch integer not null) strict;
insert into retired (one, epoch) values (1, 0);
"""
SCHEMA = Schema("log", (_V1,))

_STREAM = "select id, holder, epoch, signal_no from stream where scope = ? and run = ?"
_END = """
select s.id, s.epoch, s.signal_no, f.last_seq, f.last_hash from stream s
left join frame f on f.stream = s.id where s.scope = ? and s.run = ? order by f.first_seq desc limit 1
"""
_HEADS = """
select s.run, s.created, s.holder, f.last_seq, f.last_hash, f.body, h.id, h.host, h.boot, h.pid, h.started, h.until, h.process_groups
from stream s
left join frame f on f.stream = s.id and f.first_seq = (select max(first_seq) from frame where stream = s.id)
left join holder h on h.id = s.holder
"""
_FRAMES = "select first_seq, last_seq, last_hash, body from frame where stream = ? order by first_seq"
_LAST_TWO = "select first_seq, last_seq, last_hash, body from frame where stream = ? order by first_seq desc limit 2"
_ADD_FRAME = "insert into frame (stream, first_seq, last_seq, last_hash, body, texts) values (?, ?, ?, ?, ?, ?)"
_ADD_BLOB = "insert into blob (stream, digest, first_seq, start, size) values (?, ?, ?, ?, ?) on conflict (stream, digest) do nothing"
_BLOB = """
select substr(f.texts, b.start + 1, b.size) from blob b
join frame f on f.stream = b.stream and f.first_seq = b.first_seq where b.stream = ? and b.digest = ?
"""
_ADD_STREAM = "insert into stream (scope, run, holder, epoch, created) values (?, ?, ?, ?, ?) returning id"
_HOLDER = "select id, host, boot, pid, started, until, process_groups from holder where id = ?"
_ADD_HOLDER = """
insert into holder (id, host, boot, pid, started, until, process_groups) values (?, ?, ?, ?, ?, ?, ?)
on conflict (id) do update set host = excluded.host, boot = excluded.boot, pid = excluded.pid, started = excluded.started,
until = excluded.until, process_groups = excluded.process_groups
"""
_SWEEP = """
delete from holder where until < ? and not exists (select 1 from stream s where s.holder = holder.id and s.holder <> '')
"""
_MOVED = """
select s.scope, s.run from json_each(?) w
join stream s on s.scope = json_extract(w.value, '$[0]') and s.run = json_extract(w.value, '$[1]')
where s.signal_no > json_extract(w.value, '$[2]')
"""

#: Texts of a batch that are this long together go into their row piece by piece.
LONG_BYTES = 1 << 20

_Key = tuple[str, str]
_groups = msgspec.json.Decoder(tuple[tuple[int, int], ...]).decode


class SqliteLog:
    """The log seam over a `Database` that was opened with `SCHEMA`. `close` closes the database, for all who share it."""

    def __init__(self, db: Database, clock: Clock | None = None, machine: Machine | None = None) -> None:
        self._db = db
        self._clock = clock or SystemClock()
        self._machine = machine or this_machine()
        #: Damaged last frames to be cut by the append that takes their place: (first seq, fence) by stream.
        self._cuts: dict[_Key, tuple[int, int]] = {}

    def dedicate(self) -> None:
        """Let the running loop commit for itself; see `Database.dedicate`."""
        self._db.dedicate()

    async def append(self, stream: Stream, records: Sequence[Sealed], fence: int, blobs: Mapping[str, bytes]) -> int:
        frame = frames.pack(records)
        texts = [(frames.unhex(digest), data) for digest, data in blobs.items()]
        key = rules.key(stream)
        cut = self._cuts.get(key) == (frame.first_seq, fence)
        signal_no = await self._write(_cut_and_append if cut else _append, key, frame, fence, texts, records[0].at)
        self._cuts.pop(key, None)
        return signal_no

    async def load(self, stream: Stream) -> Loaded:
        return await self._read(_load, rules.key(stream))

    async def repair(self, stream: Stream, damage: Damage, fence: int) -> None:
        key = rules.key(stream)
        await self._read(_check_cut, key, damage.first_seq, fence)
        self._cuts[key] = (damage.first_seq, fence)

    async def blobs(self, stream: Stream, digests: Sequence[str]) -> dict[str, bytes]:
        return await self._read(_blobs, rules.key(stream), digests)

    async def head(self, stream: Stream) -> Head | None:
        found = self._look(_heads, "where s.scope = ? and s.run = ?", *rules.key(stream))
        return self._head(found[0]) if found else None

    async def streams(self, scope: str, after: str = "", limit: int = 50) -> list[tuple[Stream, Head]]:
        """As the seam says. Raises KeyError when the cursor's stream is gone: begin again, a gap is never passed over."""
        found = await self._read(_page, scope, after, limit)
        return [(Stream(scope, row[0]), self._head(row)) for row in found]

    async def take(self, stream: Stream, holder: Holder) -> Taken:
        return await self._write(_take, rules.key(stream), holder, self._clock.now_ms(), self._machine)

    async def release(self, stream: Stream, epoch: int, signal_seen: int, next_poll: int = 0) -> bool:
        return await self._write(_release, rules.key(stream), epoch, signal_seen, next_poll)

    async def signal(self, stream: Stream, signal: Signal) -> int:
        return await self._write(_signal, rules.key(stream), frames.pack_signal(signal))

    async def signals(self, stream: Stream, after: int) -> list[Signal]:
        return self._look(_signals, rules.key(stream), after)

    async def moved(self, since: Mapping[Stream, int]) -> list[Stream]:
        watched = msgspec.json.encode([(*rules.key(stream), no) for stream, no in since.items()])
        return [Stream(scope, run) for scope, run in self._look(_moved, watched.decode())]

    async def heartbeat(self, holder: Holder) -> None:
        await self._write(_heartbeat, holder, self._clock.now_ms())

    async def delete(self, stream: Stream) -> None:
        await self._write(_delete, rules.key(stream))

    async def close(self) -> None:
        await asyncio.to_thread(self._db.close)

    def _head(self, row: tuple[Any, ...]) -> Head:
        _, created, holder, last_seq, last_hash, body, *held = row
        live = bool(holder) and held[0] is not None and rules.is_live(_holder(held), self._clock.now_ms(), self._machine)
        if body is None:
            return Head(0, ZERO_HASH, "", holder, live, created, created)
        kind, at = frames.last_entry(body)
        return Head(last_seq + 1, last_hash.hex(), kind, holder, live, created, at or created)

    async def _write(self, fn: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        try:
            return await self._db.write(fn, *args)
        except DbError as error:
            raise typed(error) from error

    async def _read(self, fn: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        try:
            return await self._db.read(fn, *args)
        except DbError as error:
            raise typed(error) from error

    def _look(self, fn: Callable[[Tx, *Ts], T], *args: *Ts) -> T:
        try:
            return self._db.look(fn, *args)
        except DbError as error:
            raise typed(error) from error


def open_log(where: str | Path, clock: Clock | None = None, *, to_read: bool = False) -> SqliteLog:
    """A log with a database of its own. Raises CorruptStore, NewerSchema (file untouched), StoreError. `to_read`: see `Database.open`."""
    try:
        return SqliteLog(Database.open(where, [SCHEMA], to_read=to_read), clock)
    except DbError as error:
        raise typed(error) from error


def typed(error: DbError) -> StoreError:
    """The seam's error for one of the SQL door."""
    match error:
        case CommitUnknown():
            return StoreUnknown(str(error))
        case Damaged():
            return CorruptStore(str(error))
        case NewerSchema():
            return seams.NewerSchema(str(error))
        case _:
            return StoreError(str(error))


# --- pieces of work ----------------------------------------------------------------------------------------------


def _append(tx: Tx, key: _Key, frame: Frame, fence: int, texts: list[tuple[bytes, bytes]], at: int) -> int:
    row: Row = tx.row(_END, *key) or (None, 0, 0, None, None)
    stream, epoch, signal_no = row[:3]
    if not rules.fits(epoch, row[3:], frame, fence):
        same = tx.row("select last_seq, last_hash from frame where stream = ? and first_seq = ?", stream, frame.first_seq)
        if same == (frame.last_seq, frame.last_hash):
            return signal_no
        raise Conflict(f"the stream does not end at seq {frame.first_seq} with that hash")
    if stream is None:
        stream = _new_stream(tx, key, "", 0, at)
    fresh: list[bytes] = []
    start = 0
    for digest, data in texts:
        if tx.run(_ADD_BLOB, stream, digest, frame.first_seq, start, len(data)):
            fresh.append(data)
            start += len(data)
    short = b"".join(fresh) if 0 < start < LONG_BYTES else None
    tx.run(_ADD_FRAME, stream, frame.first_seq, frame.last_seq, frame.last_hash, frame.body, short)
    if start >= LONG_BYTES:
        (row_id,) = cast(Row, tx.row("select id from frame where stream = ? and first_seq = ?", stream, frame.first_seq))
        tx.fill("frame", "texts", row_id, fresh)
    return signal_no


def _new_stream(tx: Tx, key: _Key, holder: str, epoch: int, at: int) -> int:
    row = tx.row(_ADD_STREAM, *key, holder, epoch, at)
    assert row is not None
    return row[0]


def _load(tx: Tx, key: _Key) -> Loaded:
    stream, _ = _find(tx, key)
    return frames.unpack(tx.rows(_FRAMES, stream))


def _check_cut(tx: Tx, key: _Key, first_seq: int, fence: int) -> bool:
    stream, epoch = _find(tx, key)
    rules.check_fence(epoch, fence)
    return frames.must_cut(tx.rows(_LAST_TWO, stream), first_seq)


def _cut_and_append(tx: Tx, key: _Key, frame: Frame, fence: int, texts: list[tuple[bytes, bytes]], at: int) -> int:
    """One transaction: what was cut and the notice of it stand or fall together, or an action it held might be run again."""
    if _check_cut(tx, key, frame.first_seq, fence):
        stream, _ = _find(tx, key)
        tx.run("delete from frame where stream = ? and first_seq = ?", stream, frame.first_seq)
        tx.run("delete from blob where stream = ? and first_seq = ?", stream, frame.first_seq)
    return _append(tx, key, frame, fence, texts, at)


def _blobs(tx: Tx, key: _Key, digests: Sequence[str]) -> dict[str, bytes]:
    stream, _ = _find(tx, key)
    out: dict[str, bytes] = {}
    for digest in digests:
        found = tx.row(_BLOB, stream, frames.unhex(digest))
        if found is not None:
            out[digest] = frames.checked(digest, found[0] or b"")
    return out


def _heads(tx: Tx, where: str, *params: Value) -> list[Row]:
    return tx.rows(_HEADS + where, *params)


def _page(tx: Tx, scope: str, after: str, limit: int) -> list[Row]:
    if not after:
        return _heads(tx, "where s.scope = ? order by s.id desc limit ?", scope, limit)
    stream, _ = _find(tx, (scope, after))
    if stream is None:
        raise KeyError(after)
    return _heads(tx, "where s.scope = ? and s.id < ? order by s.id desc limit ?", scope, stream, limit)


def _take(tx: Tx, key: _Key, new: Holder, now: int, machine: Machine) -> Taken:
    row = tx.row(_STREAM, *key)
    retired = tx.row("select epoch from retired")
    assert retired is not None
    control = rules.Control(*row[1:]) if row else None
    taken = rules.take(control, _holder_of(tx, row[1]) if row else None, new, retired[0], now, machine)
    if row is None:
        _new_stream(tx, key, new.id, taken.epoch, now)
    else:
        tx.run("update stream set holder = ?, epoch = ?, next_poll = 0 where id = ?", new.id, taken.epoch, row[0])
    _write_holder(tx, rules.introduced(_holder_of(tx, new.id), new, taken.kill))
    return taken


def _release(tx: Tx, key: _Key, epoch: int, signal_seen: int, next_poll: int) -> bool:
    row = tx.row(_STREAM, *key)
    may = rules.may_release(rules.Control(*row[1:]) if row else None, epoch, signal_seen)
    if may and row:
        tx.run("update stream set holder = '', next_poll = ? where id = ?", next_poll, row[0])
    return may is not False


def _signal(tx: Tx, key: _Key, body: bytes) -> int:
    row = tx.row("update stream set signal_no = signal_no + 1 where scope = ? and run = ? returning id, signal_no", *key)
    if row is None:
        raise KeyError(key[1])
    tx.run("insert into signal (stream, no, body) values (?, ?, ?)", *row, body)
    return row[1]


def _signals(tx: Tx, key: _Key, after: int) -> list[Signal]:
    sql = "select g.no, g.body from signal g join stream s on s.id = g.stream where s.scope = ? and s.run = ? and g.no > ? order by g.no"
    return [frames.unpack_signal(no, body) for no, body in tx.rows(sql, *key, after)]


def _moved(tx: Tx, watched: str) -> list[Row]:
    return tx.rows(_MOVED, watched)


def _heartbeat(tx: Tx, holder: Holder, now: int) -> None:
    _write_holder(tx, holder)
    tx.run(_SWEEP, now)


def _delete(tx: Tx, key: _Key) -> None:
    stream, epoch = _find(tx, key)
    if stream is not None:
        tx.run("delete from frame where stream = ?", stream)
        tx.run("delete from blob where stream = ?", stream)
        tx.run("delete from signal where stream = ?", stream)
        tx.run("delete from stream where id = ?", stream)
        # A later stream of this name starts above every epoch a writer may still have in hand.
        tx.run("update retired set epoch = max(epoch, ?)", epoch)


def _find(tx: Tx, key: _Key) -> tuple[int | None, int]:
    """Row id and epoch of a stream; (None, 0) if it does not exist. No row belongs to a null stream."""
    row = tx.row(_STREAM, *key)
    return (row[0], row[2]) if row else (None, 0)


def _write_holder(tx: Tx, h: Holder) -> None:
    tx.run(_ADD_HOLDER, h.id, h.host, h.boot, h.pid, h.started, h.until, msgspec.json.encode(h.groups).decode())


def _holder_of(tx: Tx, name: str) -> Holder | None:
    row = tx.row(_HOLDER, name)
    return _holder(row) if row else None


def _holder(row: Sequence[Any]) -> Holder:
    try:
        return Holder(*row[:-1], groups=_groups(row[-1]))
    except msgspec.DecodeError as error:
        raise CorruptStore(f"the row of holder {row[0]} is damaged") from error
