"""A flow's own log: a stream of the log seam beside those of its runs, in the same hash chain, with the same fence.

Its kinds are this layer's, not the kernel's (S2.30): attempts started and ended, recoveries, retries asked for. Its scope is
the tenant's with a suffix that no tenant's name can have, so a flow is never taken for a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ..kernel.records import ZERO_HASH, Sealed, canonical, chain_hash, digest_of
from ..kernel.seams import Clock, Entropy, Holder, Log, NewerSchema, Stream

SUFFIX: Final = "\x1fflows"


class PhaseStarted(Struct, frozen=True, omit_defaults=True):
    """An attempt begins. `before`: sha256 by path of all files a tool may write, as they were then."""

    phase: str
    attempt: int
    run: str
    before: dict[str, str] = {}


class PhaseEnded(Struct, frozen=True, omit_defaults=True):
    """It ended. `outputs`: sha256 of the required files; `files`: of all it made, which a retry sets aside. `reason` is the run's."""

    phase: str
    attempt: int
    run: str
    state: Literal["completed", "failed"]
    reason: str
    problems: tuple[str, ...] = ()
    outputs: dict[str, str] = {}
    files: dict[str, str] = {}
    recovered: str = ""


class PhaseRecoveryStarted(Struct, frozen=True, omit_defaults=True):
    """A recovery is about to write: what it writes is told as recovered whatever happens in between."""

    phase: str
    attempt: int
    recovery: str
    problems: tuple[str, ...]


class PhaseRecovery(Struct, frozen=True, omit_defaults=True):
    """A recovery function has written files (the seed's third audit event). `checksums`: sha256 by path."""

    phase: str
    attempt: int
    recovery: str
    source: str
    checksums: dict[str, str]


class RetryAsked(Struct, frozen=True, omit_defaults=True):
    """A person wants the failed phase tried again, whatever it failed of."""

    phase: str
    by: str = ""


FlowRecord: TypeAlias = PhaseStarted | PhaseEnded | PhaseRecoveryStarted | PhaseRecovery | RetryAsked
KINDS: Final[dict[str, type[FlowRecord]]] = {
    "phase_started": PhaseStarted, "phase_ended": PhaseEnded, "phase_recovery_started": PhaseRecoveryStarted, "phase_recovery": PhaseRecovery,
    "phase_retry_asked": RetryAsked,
}  # fmt: skip
Noted = Callable[[str, FlowRecord], object]
_KIND_OF: Final = {record: kind for kind, record in KINDS.items()}


class Attempt(Struct, frozen=True):
    """An attempt as the log tells it. `seq` is that of its last record."""

    number: int
    run: str
    before: dict[str, str]
    seq: int
    ended: PhaseEnded | None = None


class FlowLog:
    """The log of one flow, held by this process between `open` and `close`; without a holder it can only be read.

    `noted` is called with kind and record of all that is appended (the `emit(type, payload)` of a consumer). Raises store errors.
    """

    def __init__(
        self, log: Log, stream: Stream, clock: Clock, entropy: Entropy, holder: Holder | None = None,
        noted: Noted | None = None,
    ) -> None:  # fmt: skip
        self._log, self._stream, self._clock, self._entropy = log, stream, clock, entropy
        self._holder, self._noted = holder, noted
        self._epoch = self._signal_no = 0
        self._head = ZERO_HASH
        self.records: list[FlowRecord] = []

    async def open(self) -> None:
        """Take the flow and read what there is. Raises OwnedElsewhere."""
        if self._holder is not None:
            taken = await self._log.take(self._stream, self._holder)
            self._epoch, self._signal_no = taken.epoch, taken.signal_no
        loaded = await self._log.load(self._stream)
        if loaded.torn is not None and self._holder is not None:
            await self._log.repair(self._stream, loaded.torn, self._epoch)
        for sealed in loaded.records:
            self.records.append(_decoded(sealed))
            self._head = sealed.hash

    async def close(self) -> None:
        if self._holder is not None:
            await self._log.release(self._stream, self._epoch, self._signal_no)

    async def append(self, record: FlowRecord) -> None:
        """Durable when it returns."""
        body, kind, seq, salt, at = canonical(record), _KIND_OF[type(record)], len(self.records), self._entropy(), self._clock.now_ms()
        digest = digest_of(salt, body)
        own = chain_hash(self._head, seq, kind, at, self._epoch, digest)
        self._signal_no = await self._log.append(
            self._stream, [Sealed(seq, kind, at, self._epoch, salt, body, digest, self._head, own)], self._epoch, {}
        )
        self._head = own
        self.records.append(record)
        if self._noted is not None:
            self._noted(kind, record)

    def attempts(self, phase: str) -> list[Attempt]:
        """All attempts of a phase, in their order."""
        found: list[Attempt] = []
        for seq, record in enumerate(self.records):
            if isinstance(record, PhaseStarted) and record.phase == phase:
                found.append(Attempt(record.attempt, record.run, record.before, seq))
            elif isinstance(record, PhaseEnded) and record.phase == phase:
                found[-1] = msgspec.structs.replace(found[-1], ended=record, seq=seq)
        return found

    def recovery(self, phase: str, attempt: int) -> tuple[PhaseRecoveryStarted | None, PhaseRecovery | None]:
        """How far the recovery of an attempt has come."""
        of = [r for r in self.records if isinstance(r, PhaseRecoveryStarted | PhaseRecovery) and (r.phase, r.attempt) == (phase, attempt)]
        started = next((r for r in of if isinstance(r, PhaseRecoveryStarted)), None)
        return started, next((r for r in of if isinstance(r, PhaseRecovery)), None)

    def asked(self, phase: str, after: int) -> bool:
        """Whether a retry of the phase was asked for after record `after`."""
        return any(isinstance(record, RetryAsked) and record.phase == phase for record in self.records[after + 1 :])

    def runs(self) -> list[str]:
        """The runs of all attempts, in their order."""
        return [record.run for record in self.records if isinstance(record, PhaseStarted)]


def flow_stream(scope: str, flow: str) -> Stream:
    return Stream(scope + SUFFIX, flow)


def sealed_lines(records: Sequence[Sealed]) -> list[dict[str, object]]:
    """A flow's records for people and programs: header and fields, flat."""
    return [
        {"seq": s.seq, "kind": s.kind, "at": s.at, "fence": s.fence, "prev": s.prev, "hash": s.hash, **msgspec.to_builtins(_decoded(s))}
        for s in records
    ]


def _decoded(sealed: Sealed) -> FlowRecord:
    if sealed.kind not in KINDS:
        raise NewerSchema(f"record {sealed.seq} of the flow is of a kind this version does not know: {sealed.kind}")
    return msgspec.json.decode(sealed.body or b"", type=KINDS[sealed.kind])
