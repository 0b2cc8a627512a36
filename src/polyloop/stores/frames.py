"""Frames: one append batch as one value, packed and verified the same way by every store.

A frame body is a MessagePack array: the time of its first record, then one entry per record:

    [kind, at - first at, fence, salt (bytes), body (bytes)]           a record
    [kind, at - first at, fence, salt or "", [body_digest (bytes)]]    an erased one

in the one shortest encoding. `seq` is first_seq + index and `prev` the hash before it, so neither is stored; nor are the hashes inside
a frame: on reading they are all computed, and the last must be the one the row claims. A frame is written whole, so it is
believed whole or not at all. Kinds of schema 1 are written as their number in `KINDS`, others as text; what a kind means is the
kernel's business.
Seed: S2.27, S2.28.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec import Struct

from polyloop.kernel.heap import uncollected
from polyloop.kernel.records import ZERO_HASH, Sealed, canonical, chain_hash, digest_of, plain, sha256
from polyloop.kernel.seams import Conflict, CorruptStore, Damage, Loaded, Signal, StoreError

ZERO = bytes.fromhex(ZERO_HASH)


class Frame(Struct, frozen=True, gc=False):
    """A batch as its row holds it. `prev` is the hash it must follow; it is not stored."""

    first_seq: int
    last_seq: int
    prev: bytes
    last_hash: bytes
    body: bytes


class _Entry(Struct, frozen=True, array_like=True, gc=False):
    kind: int | str
    after: int
    fence: int
    salt: bytes
    body: bytes | tuple[bytes]


class BadFrame(Exception):
    """What is wrong with a frame."""


#: A frame row as stored: first_seq, last_seq, last_hash, body.
Stored = tuple[int, int, bytes, bytes]

#: Part of the store's format: names may be added at the end, nothing else.
KINDS = (
    "run_started", "model_intent", "model_result", "action_intent", "action_result", "action_deferred", "action_resolved", "step",
    "resume_started", "resume_refused", "replay", "drift_accepted", "tail_repaired", "cancel_requested", "run_ended",
)  # fmt: skip
_NUMBERS: dict[str, int | str] = {kind: number for number, kind in enumerate(KINDS)}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, list[_Entry]]).decode


def pack(records: Sequence[Sealed]) -> Frame:
    """One batch as a frame. Raises StoreError when it is empty, has a gap, or is not chained."""
    if not records:
        raise StoreError("a batch needs at least one record")
    first = records[0]
    seq, prev, start = first.seq, first.prev, first.at
    entries: list[tuple[object, ...]] = []
    for r in records:
        if r.seq != seq or r.prev != prev:
            raise StoreError(f"the batch is not a chain at seq {r.seq}")
        seq, prev = seq + 1, r.hash
        kind, after = _NUMBERS.get(r.kind, r.kind), r.at - start
        entries.append((kind, after, r.fence, unhex(r.salt), (unhex(r.body_digest),) if r.body is None else r.body))
    return Frame(first.seq, seq - 1, unhex(first.prev), unhex(prev), _encode((start, entries)))


def unpack(rows: Iterable[Stored]) -> Loaded:
    """All records of a stream's frames, in order. A bad last frame is told of as `torn`; damage before it raises CorruptStore."""
    out: list[Sealed] = []
    prev = ZERO_HASH
    torn: Damage | None = None
    with uncollected():
        for row in rows:
            if torn is not None:
                raise CorruptStore(f"record {torn.first_seq} is damaged: {torn.reason}", torn.first_seq)
            if row[0] != len(out):
                raise CorruptStore(f"record {len(out)} is missing: the next frame begins at {row[0]}", len(out))
            try:
                out += verified(row, prev)
                prev = out[-1].hash
            except BadFrame as error:
                torn = Damage(row[0], str(error), row[2].hex())
    return Loaded(tuple(out), torn)


def verified(row: Stored, prev: str) -> list[Sealed]:
    """The records of one frame, each hash computed. Raises BadFrame."""
    seq, last_seq, last_hash, body = row
    start, entries = _read(body)
    if not entries or len(entries) != last_seq - seq + 1:
        raise BadFrame("the frame does not hold the records it claims")
    out: list[Sealed] = []
    for e in entries:
        kind, at, fence, salt = _name(e.kind), start + e.after, e.fence, e.salt.hex()
        if isinstance(e.body, bytes):
            kept, digest = e.body, digest_of(salt, e.body)
        else:
            kept, digest = None, e.body[0].hex()
        own = chain_hash(prev, seq, kind, at, fence, digest)
        out.append(Sealed(seq, kind, at, fence, salt, kept, digest, prev, own))
        seq, prev = seq + 1, own
    if prev != last_hash.hex():
        raise BadFrame("the records do not end with the hash the frame claims")
    return out


def _read(body: bytes) -> tuple[int, list[_Entry]]:
    try:
        read = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadFrame(f"the frame cannot be read ({error})") from error
    if _encode(read) != body:
        raise BadFrame("the frame is not written as frames are")
    return read


def _name(kind: int | str) -> str:
    if isinstance(kind, str):
        return kind
    if 0 <= kind < len(KINDS):
        return KINDS[kind]
    raise BadFrame(f"the frame holds a record of no kind ({kind})")


def must_cut(last: Sequence[Stored], first_seq: int) -> bool:
    """Whether the frame at `first_seq` is a damaged last one; `last` = the last two frames, newest first. False = cut already.

    Raises Conflict when it is whole or not the last: a good record is never cut.
    """
    end = last[0][1] if last else -1
    if end + 1 == first_seq:
        return False
    if not last or last[0][0] != first_seq:
        raise Conflict(f"no last frame begins at seq {first_seq}")
    try:
        verified(last[0], last[1][2].hex() if last[1:] else ZERO_HASH)
    except BadFrame:
        return True
    raise Conflict(f"the frame at seq {first_seq} is whole")


def checked(digest: str, data: bytes) -> bytes:
    """A blob that is what its name says. Raises CorruptStore."""
    if sha256(data) != digest:
        raise CorruptStore(f"the text {digest} is damaged")
    return data


def unhex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise StoreError(f"not a digest: {text!r}") from error


def pack_signal(s: Signal) -> bytes:
    return canonical([s.kind, s.at, s.by, s.token, s.decision, s.body])


def unpack_signal(no: int, body: bytes) -> Signal:
    try:
        return Signal(no, *cast(list[Any], plain(body)))
    except (ValueError, TypeError) as error:
        raise CorruptStore(f"signal {no} is damaged") from error


def last_entry(body: bytes) -> tuple[str, int]:
    """Kind and time of a frame's last record, unverified; ("", 0) if it cannot be read."""
    try:
        start, entries = _read(body)
        return _name(entries[-1].kind), start + entries[-1].after
    except (BadFrame, IndexError):
        return "", 0
