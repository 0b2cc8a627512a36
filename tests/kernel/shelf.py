"""A log in memory for the kernel's tests: strict about what it is given, and able to fail, stop and be cut at any record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from polyloop.kernel import records as r
from polyloop.kernel.seams import Conflict, Damage, Head, Holder, Loaded, OwnedElsewhere, Sealed, Signal, StaleFence, Stream, Taken

T = TypeVar("T")


class Shelf:
    """One stream's records, blobs, signals and holder. `yields` = trips through the event loop per verb."""

    def __init__(self, records: Sequence[Sealed] = (), blobs: Mapping[str, bytes] | None = None, *, yields: int = 0) -> None:
        self.records = list(records)
        self.texts = dict(blobs or {})
        self.left: list[Signal] = []
        self.batches: list[tuple[str, ...]] = []
        self.epoch = max((s.fence for s in records), default=0)
        self.holder = ""
        self.next_poll = 0
        self.torn: Damage | None = None
        self.verbs: list[str] = []
        self.yields = yields
        #: Called before a batch is kept, with the number of this append (from 1) and the batch; may raise.
        self.before: Callable[[int, Sequence[Sealed]], None] = lambda *_: None
        #: Called after it is kept; may raise.
        self.after: Callable[[int, Sequence[Sealed]], None] = lambda *_: None
        self.on_release: Callable[[], None] = lambda: None

    # --- what a test looks at --------------------------------------------------------------------------------

    @property
    def kinds(self) -> list[str]:
        return [s.kind for s in self.records]

    def bodies(self) -> list[r.Record]:
        return [r.decode(s.kind, s.body or b"") for s in self.records]

    def of(self, kind: type[T]) -> list[T]:
        return [b for b in self.bodies() if isinstance(b, kind)]

    def upto(self, count: int) -> Shelf:
        """The image a crash leaves: the first `count` records, held by nobody, signals as they are."""
        image = Shelf(self.records[:count], self.texts, yields=self.yields)
        image.left = list(self.left)
        return image

    # --- Log ---------------------------------------------------------------------------------------------------

    async def _turn(self, verb: str) -> None:
        self.verbs.append(verb)
        for _ in range(self.yields):
            await asyncio.sleep(0)

    async def append(self, stream: Stream, records: Sequence[Sealed], fence: int, blobs: Mapping[str, bytes]) -> int:
        await self._turn("append")
        assert records, "an empty batch"
        number = len(self.batches) + 1
        self.before(number, records)
        if fence != self.epoch:
            raise StaleFence(f"epoch {self.epoch}, fence {fence}")
        prev = self.records[-1].hash if self.records else r.ZERO_HASH
        for i, sealed in enumerate(records):
            if sealed.seq != len(self.records) + i or sealed.prev != prev:
                raise Conflict(f"record {sealed.seq} where {len(self.records) + i} was due")
            prev = sealed.hash
        self.records.extend(records)
        self.texts.update(blobs)
        self.batches.append(tuple(s.kind for s in records))
        self.after(number, records)
        return len(self.left)

    async def load(self, stream: Stream) -> Loaded:
        await self._turn("load")
        return Loaded(tuple(self.records), self.torn)

    async def repair(self, stream: Stream, damage: Damage, fence: int) -> None:
        self.torn = None

    async def blobs(self, stream: Stream, digests: Sequence[str]) -> dict[str, bytes]:
        await self._turn("blobs")
        return {d: self.texts[d] for d in digests if d in self.texts}

    async def head(self, stream: Stream) -> Head | None:
        await self._turn("head")
        if not self.records:
            return None
        last = self.records[-1]
        return Head(last.seq + 1, last.hash, last.kind)

    async def take(self, stream: Stream, holder: Holder) -> Taken:
        await self._turn("take")
        if self.holder not in ("", holder.id):
            raise OwnedElsewhere(self.holder)
        previous, self.holder, self.epoch = self.holder, holder.id, self.epoch + 1
        return Taken(self.epoch, len(self.left), (), previous)

    async def release(self, stream: Stream, epoch: int, signal_seen: int, next_poll: int = 0) -> bool:
        await self._turn("release")
        self.on_release()
        if epoch != self.epoch:
            return True
        if signal_seen < len(self.left):
            return False
        self.holder, self.next_poll = "", next_poll
        return True

    async def signal(self, stream: Stream, signal: Signal) -> int:
        self.leave(signal.kind, signal.token, signal.decision, signal.body, at=signal.at, by=signal.by)
        return len(self.left)

    def leave(self, kind: str, token: str = "", decision: str = "", body: object = None, *, at: int = 0, by: str = "somebody") -> None:
        """What an outsider does: leave a signal."""
        self.left.append(Signal(len(self.left) + 1, kind, at, by, token, decision, body))

    async def signals(self, stream: Stream, after: int) -> list[Signal]:
        await self._turn("signals")
        return [s for s in self.left if s.no > after]

    async def moved(self, since: Mapping[Stream, int]) -> list[Stream]:
        return [stream for stream, seen in since.items() if seen < len(self.left)]
