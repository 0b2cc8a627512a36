"""A stored log's verdict: what cannot even be read is a finding too, with the record it belongs to."""

from __future__ import annotations

from collections.abc import Sequence

from polyloop.kernel import records as r
from polyloop.kernel import seams as k
from polyloop.kernel.verify import Finding, Verdict, verify

from .audit_log import digests_of


async def verdict(log: k.Log, stream: k.Stream, head: str) -> Verdict:
    """Recompute every hash and rule of a stream. Raises StoreError kinds, but never for damage."""
    try:
        loaded = await log.load(stream)
    except k.CorruptStore as e:
        return _unread(0, r.ZERO_HASH, Finding("corrupt_store", e.seq, str(e)))
    records, torn = loaded.records, loaded.torn
    try:
        blobs = await log.blobs(stream, list(dict.fromkeys(digests_of(records))))
    except k.CorruptStore:
        return await _damaged_text(log, stream, records)
    if torn is not None:
        return _unread(len(records), records[-1].hash if records else r.ZERO_HASH, Finding("torn", torn.first_seq, torn.reason))
    return verify(records, blobs, head)


async def _damaged_text(log: k.Log, stream: k.Stream, records: Sequence[k.Sealed]) -> Verdict:
    """Which record's text it is that does not match its name."""
    for s in records:
        try:
            await log.blobs(stream, digests_of([s]))
        except k.CorruptStore as e:
            return _unread(s.seq, s.prev, Finding("blob", s.seq, str(e)))
    raise AssertionError("a damaged text belongs to a record")


def _unread(records: int, head: str, finding: Finding) -> Verdict:
    """The verdict on a log that cannot be read to its end."""
    return Verdict(records, ended=False, head_hash=head, erased=0, problem=finding)
