"""The log in memory: the same frames, rules and answers as the durable stores, for one process and one event loop.

No verb awaits anything, so each is atomic. Frames are kept packed and are verified on reading, like any stored ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from polyloop.clock import SystemClock
from polyloop.kernel.records import ZERO_HASH, Sealed
from polyloop.kernel.seams import Clock, Conflict, Damage, Head, Holder, Loaded, Signal, Stream, Taken

from . import frames, rules
from .frames import Stored
from .process import Machine, this_machine


class Kept(Struct):
    """All that is kept of one stream. `blobs` maps digest -> (first seq of the frame that brought it, bytes)."""

    created: int
    holder: str = ""
    epoch: int = 0
    next_poll: int = 0
    frames: list[Stored] = field(default_factory=list[Stored])
    blobs: dict[str, tuple[int, bytes]] = field(default_factory=dict[str, tuple[int, bytes]])
    signals: list[bytes] = field(default_factory=list[bytes])

    @property
    def control(self) -> rules.Control:
        return rules.Control(self.holder, self.epoch, len(self.signals))


class MemoryLog:
    """The log seam over a dict. `kept` is open to tests that want to see or damage what is stored."""

    def __init__(self, clock: Clock | None = None, machine: Machine | None = None) -> None:
        self.kept: dict[tuple[str, str], Kept] = {}
        self.holders: dict[str, Holder] = {}
        self._retired = 0
        #: Damaged last frames to be cut by the append that takes their place: (first seq, fence) by stream.
        self._cuts: dict[tuple[str, str], tuple[int, int]] = {}
        self._clock = clock or SystemClock()
        self._machine = machine or this_machine()

    async def append(self, stream: Stream, records: Sequence[Sealed], fence: int, blobs: Mapping[str, bytes]) -> int:
        frame = frames.pack(records)
        kept = self._find(stream)
        cut = kept is not None and self._cuts.get(rules.key(stream)) == (frame.first_seq, fence)
        whole = kept.frames[:-1] if kept and cut and frames.must_cut(kept.frames[:-3:-1], frame.first_seq) else kept.frames if kept else []
        end = whole[-1][1:3] if whole else (None, None)
        if not rules.fits(kept.epoch if kept else 0, end, frame, fence):
            for row in kept.frames if kept else ():
                if row[:3] == (frame.first_seq, frame.last_seq, frame.last_hash):
                    return len(kept.signals) if kept else 0
            raise Conflict(f"the stream does not end at seq {frame.first_seq} with that hash")
        if kept is None:
            kept = self.kept[rules.key(stream)] = Kept(records[0].at)
        if len(whole) < len(kept.frames):
            kept.frames.pop()
            kept.blobs = {d: at for d, at in kept.blobs.items() if at[0] != frame.first_seq}
        self._cuts.pop(rules.key(stream), None)
        for digest, data in blobs.items():
            frames.unhex(digest)
            kept.blobs.setdefault(digest, (frame.first_seq, data))
        kept.frames.append((frame.first_seq, frame.last_seq, frame.last_hash, frame.body))
        return len(kept.signals)

    async def load(self, stream: Stream) -> Loaded:
        kept = self._find(stream)
        return frames.unpack(kept.frames if kept else ())

    async def repair(self, stream: Stream, damage: Damage, fence: int) -> None:
        kept = self._find(stream)
        rules.check_fence(kept.epoch if kept else 0, fence)
        frames.must_cut(kept.frames[:-3:-1] if kept else (), damage.first_seq)
        self._cuts[rules.key(stream)] = (damage.first_seq, fence)

    async def blobs(self, stream: Stream, digests: Sequence[str]) -> dict[str, bytes]:
        kept = self._find(stream)
        return {d: frames.checked(d, kept.blobs[d][1]) for d in digests if kept and d in kept.blobs}

    async def head(self, stream: Stream) -> Head | None:
        kept = self._find(stream)
        return self._head(kept) if kept else None

    async def streams(self, scope: str, after: str = "", limit: int = 50) -> list[tuple[Stream, Head]]:
        """As the seam says. Raises KeyError when the cursor's stream is gone: begin again, a gap is never passed over."""
        runs = [run for own, run in reversed(self.kept) if own == scope]
        if after and after not in runs:
            raise KeyError(after)
        start = runs.index(after) + 1 if after else 0
        return [(Stream(scope, run), self._head(self.kept[scope, run])) for run in runs[start : start + limit]]

    async def take(self, stream: Stream, holder: Holder) -> Taken:
        now = self._clock.now_ms()
        kept = self._find(stream)
        old = self.holders.get(kept.holder) if kept else None
        taken = rules.take(kept.control if kept else None, old, holder, self._retired, now, self._machine)
        if kept is None:
            kept = self.kept[rules.key(stream)] = Kept(now)
        kept.holder, kept.epoch, kept.next_poll = holder.id, taken.epoch, 0
        self.holders[holder.id] = rules.introduced(self.holders.get(holder.id), holder, taken.kill)
        return taken

    async def release(self, stream: Stream, epoch: int, signal_seen: int, next_poll: int = 0) -> bool:
        kept = self._find(stream)
        may = rules.may_release(kept.control if kept else None, epoch, signal_seen)
        if may and kept:
            kept.holder, kept.next_poll = "", next_poll
        return may is not False

    async def signal(self, stream: Stream, signal: Signal) -> int:
        body = frames.pack_signal(signal)
        kept = self._find(stream)
        if kept is None:
            raise KeyError(stream.run)
        kept.signals.append(body)
        return len(kept.signals)

    async def signals(self, stream: Stream, after: int) -> list[Signal]:
        kept = self._find(stream)
        return [frames.unpack_signal(no, body) for no, body in enumerate(kept.signals if kept else (), 1) if no > after]

    async def moved(self, since: Mapping[Stream, int]) -> list[Stream]:
        return [s for s, no in since.items() if (kept := self._find(s)) and len(kept.signals) > no]

    async def heartbeat(self, holder: Holder) -> None:
        self.holders[holder.id] = holder
        now, held = self._clock.now_ms(), {kept.holder for kept in self.kept.values()}
        self.holders = {i: h for i, h in self.holders.items() if h.until >= now or i in held}

    async def delete(self, stream: Stream) -> None:
        kept = self.kept.pop(rules.key(stream), None)
        if kept is not None:
            self._retired = max(self._retired, kept.epoch)

    async def close(self) -> None:
        """Nothing to let go of."""

    def _find(self, stream: Stream) -> Kept | None:
        return self.kept.get(rules.key(stream))

    def _head(self, kept: Kept) -> Head:
        held = self.holders.get(kept.holder)
        live = held is not None and rules.is_live(held, self._clock.now_ms(), self._machine)
        if not kept.frames:
            return Head(0, ZERO_HASH, "", kept.holder, live, kept.created, kept.created)
        _, last_seq, last_hash, body = kept.frames[-1]
        kind, at = frames.last_entry(body)
        return Head(last_seq + 1, last_hash.hex(), kind, kept.holder, live, kept.created, at or kept.created)
