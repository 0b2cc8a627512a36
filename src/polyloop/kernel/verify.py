"""Is this log whole, unforged and legal? Recomputed from its bytes alone (R42, R52; the audit's own proof)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from . import records as r
from .machine import IllegalRecord, State, fold, texts_of
from .records import BlobRef, Record, Sealed
from .steps import account


class Finding(Struct, frozen=True):
    """The first thing wrong. `kind`: chain, fence, body, blob, unknown_kind, illegal, counters, head."""

    kind: str
    seq: int
    message: str


class Verdict(Struct, frozen=True):
    """`records` checked, `erased` bodies and blobs met on the way; `problem` None = verified."""

    records: int
    ended: bool
    head_hash: str
    erased: int
    problem: Finding | None

    @property
    def ok(self) -> bool:
        return self.problem is None


def verify(sealed: Sequence[Sealed], blobs: Mapping[str, bytes], head: str = "") -> Verdict:
    """Check hashes, bodies, blobs, legality and counters; with `head`, that the log still reaches that kept hash."""
    prev, fence, erased, state, problem = r.ZERO_HASH, 0, 0, State(), None
    legal = all(s.body is not None for s in sealed)
    for i, s in enumerate(sealed):
        problem = _chained(s, i, prev, fence)
        if problem is None and s.body is not None:
            record, problem = _decoded(s, s.body)
            if record is not None:
                problem, missing = _blobs(s, record, blobs)
                erased += missing
                if problem is None and legal:
                    state, problem = _legal(state, s, record)
        erased += s.body is None
        if problem is not None:
            break
        prev, fence = s.hash, s.fence
    if problem is None and head and head != r.ZERO_HASH and all(s.hash != head for s in sealed):
        problem = Finding("head", len(sealed) - 1, "the kept head is not in this log: it was cut or replaced")
    ended = bool(sealed) and sealed[-1].kind == "run_ended"
    return Verdict(len(sealed), ended, prev, erased, problem)


def _chained(s: Sealed, seq: int, prev: str, fence: int) -> Finding | None:
    if s.seq != seq or s.prev != prev:
        return Finding("chain", seq, "this record does not follow the one before it")
    if s.body is not None and r.digest_of(s.salt, s.body) != s.body_digest:
        return Finding("body", seq, "the body does not match its digest")
    if r.chain_hash(prev, s.seq, s.kind, s.at, s.fence, s.body_digest) != s.hash:
        return Finding("chain", seq, "the hash does not match the record")
    return Finding("fence", seq, "its writer had lost the run to a later holder") if s.fence < fence else None


def _decoded(s: Sealed, body: bytes) -> tuple[Record | None, Finding | None]:
    try:
        return r.decode(s.kind, body), None
    except r.UnknownKind:
        return None, Finding("unknown_kind", s.seq, f"{s.kind} belongs to a newer schema")
    except ValueError as error:
        return None, Finding("body", s.seq, f"the body cannot be read: {error}")


def _blobs(s: Sealed, record: Record, blobs: Mapping[str, bytes]) -> tuple[Finding | None, int]:
    missing = 0
    for text in texts_of(record):
        if not isinstance(text, BlobRef):
            continue
        data = blobs.get(text.blob)
        if data is None:
            missing += 1
        elif r.sha256(data) != text.blob or len(data) != text.size:
            return Finding("blob", s.seq, "a text does not match its digest"), missing
    return None, missing


def _legal(state: State, s: Sealed, record: Record) -> tuple[State, Finding | None]:
    forged = isinstance(record, r.Step) and account(state, record.rejection, valid=record.valid) != record.counters
    if forged or (isinstance(record, r.RunEnded) and record.counters != state.counters):
        return state, Finding("counters", s.seq, "the counters do not follow from the record")
    try:
        return fold(state, s.seq, s.at, record), None
    except IllegalRecord as illegal:
        return state, Finding("illegal", s.seq, str(illegal))
