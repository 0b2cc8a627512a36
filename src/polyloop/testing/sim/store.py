"""The simulated log: a disk with a buffer, control rows beside it, and everything that can go wrong on the way there.

Theory of operation. A verb is a request that travels, acts on the disk at one instant, and an answer that travels back. Only
the caller waits: the instant belongs to the world, so a batch may land after its writer has died or been overtaken. An
append lands whole or not at all; a crash may leave what was still in the buffer torn (`Loaded.torn`), never what was
acknowledged. The rules (epoch in the write, chained batches, idempotent repeats) are the published ones of `seams.Log`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from polyloop.kernel.machine import State
from polyloop.kernel.records import ZERO_HASH, Sealed
from polyloop.kernel.seams import Conflict, Damage, Head, Holder, Loaded, OwnedElsewhere, Signal, StaleFence, StoreError, StoreUnknown, Stream, Taken

from .loop import Life

if TYPE_CHECKING:
    from .world import World


class Shelf(Struct, eq=False):
    """One stream as it is on the disk, with its control row. `frames`: first seq -> last hash; `rests`: let go as waiting."""

    records: list[Sealed] = []
    frames: dict[int, str] = {}
    blobs: dict[str, bytes] = {}
    torn: Damage | None = None
    may_cut: int = -1
    epoch: int = 0
    holder: str = ""
    signals: list[Signal] = []
    seen: int = 0
    rests: bool = False
    rested_at: float = 0.0
    next_poll: int = 0

    @property
    def ended(self) -> bool:
        return bool(self.records) and self.records[-1].kind == "run_ended"

    @property
    def hash(self) -> str:
        return self.records[-1].hash if self.records else ZERO_HASH


class Op(Struct, eq=False):
    """A request on its way. It is done at its instant unless the crash of its sender took it along."""

    sender: Life
    verb: str
    args: tuple[Any, ...]
    answer: asyncio.Future[Any]
    lost: bool = False


class SimStore:
    """The disk. Verbs here act at once; `SimLog` gives each process its way to them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.shelves: dict[Stream, Shelf] = {}
        self.holders: dict[str, Holder] = {}
        self.late = 0
        self.ops: dict[Op, None] = {}  # in order: no choice may hang on an address

    def shelf(self, stream: Stream) -> Shelf:
        return self.shelves.setdefault(stream, Shelf())

    def check_epoch(self, shelf: Shelf, fence: int) -> None:
        if fence != shelf.epoch:
            raise StaleFence(f"epoch is {shelf.epoch}, the writer has {fence}")

    def append(self, stream: Stream, records: Sequence[Sealed], fence: int, blobs: Mapping[str, bytes], live: State | None) -> int:
        shelf = self.shelf(stream)
        self.check_epoch(shelf, fence)
        if shelf.frames.get(records[0].seq) != records[-1].hash:
            if (shelf.torn is not None and shelf.may_cut != fence) or (records[0].seq, records[0].prev) != (len(shelf.records), shelf.hash):
                raise Conflict(f"the stream ends at {len(shelf.records)}, not at {records[0].seq}")
            shelf.torn = None
            shelf.records += records
            shelf.frames[records[0].seq] = records[-1].hash
            shelf.blobs |= blobs
            self.world.judge.appended(stream, records, blobs, fence, live)
        return len(shelf.signals)

    def repair(self, stream: Stream, damage: Damage, fence: int) -> None:
        """Allow this holder's next append to take the place of the bad frame; until it does, `load` goes on telling of it.

        A cut that was forgotten before its notice was written would let an action that the frame held be done again.
        """
        shelf = self.shelf(stream)
        self.check_epoch(shelf, fence)
        shelf.may_cut = fence

    def head(self, stream: Stream) -> Head | None:
        shelf = self.shelves.get(stream)
        if shelf is None:
            return None
        live = self.is_live(shelf.holder)
        if shelf.torn is not None:  # its row still tells seq and hash
            return Head(shelf.torn.first_seq + 1, shelf.torn.lost_hash, "", shelf.holder, live)
        return Head(len(shelf.records), shelf.hash, shelf.records[-1].kind if shelf.records else "", shelf.holder, live)

    def rot(self, stream: Stream) -> None:
        """The last frame, long acknowledged, can no longer be read."""
        shelf = self.shelf(stream)
        if shelf.torn is not None or shelf.ended or len(shelf.frames) < 2:
            return
        first = max(shelf.frames)
        shelf.torn = Damage(first, "rotten", shelf.frames.pop(first))
        del shelf.records[first:]
        starts = [*sorted(shelf.frames), first]
        self.world.judge.rewound(stream, [shelf.records[a:b] for a, b in pairwise(starts)])

    def is_live(self, holder: str, seen_from: str = "") -> bool:
        """A lease runs out by store time; a dead process of the same machine is known at once."""
        row = self.holders.get(holder)
        if row is None or row.until <= self.world.now_ms():
            return False
        return row.boot != seen_from or self.world.is_alive(row.pid)

    def take(self, stream: Stream, holder: Holder) -> Taken:
        shelf = self.shelf(stream)
        if shelf.holder not in ("", holder.id) and self.is_live(shelf.holder, holder.boot):
            raise OwnedElsewhere(shelf.holder, self.holders[shelf.holder].until)
        previous, shelf.holder, shelf.rests = shelf.holder, holder.id, False
        shelf.epoch += 1
        self.holders[holder.id] = holder
        self.world.judge.taken(stream, shelf.epoch)
        return Taken(shelf.epoch, len(shelf.signals), (), previous)

    def release(self, stream: Stream, epoch: int, signal_seen: int, next_poll: int = 0) -> bool:
        shelf = self.shelf(stream)
        if epoch != shelf.epoch:
            return True
        if len(shelf.signals) > signal_seen:
            return False
        shelf.holder, shelf.rests = "", signal_seen <= len(shelf.signals)
        shelf.seen, shelf.next_poll, shelf.rested_at = len(shelf.signals), next_poll, self.world.loop.time()
        return True

    def signal(self, stream: Stream, signal: Signal) -> int:
        shelf = self.shelf(stream)
        shelf.signals.append(replace(signal, no=len(shelf.signals) + 1, at=self.world.now_ms()))
        return len(shelf.signals)

    def heartbeat(self, holder: Holder) -> None:
        self.holders[holder.id] = holder

    def load(self, stream: Stream) -> Loaded:
        shelf = self.shelf(stream)
        return Loaded(tuple(shelf.records), shelf.torn)

    def blobs(self, stream: Stream, digests: Sequence[str]) -> dict[str, bytes]:
        kept = self.shelf(stream).blobs
        return {d: kept[d] for d in digests if d in kept}

    def signals(self, stream: Stream, after: int) -> list[Signal]:
        return self.shelf(stream).signals[after:]

    def moved(self, since: Mapping[Stream, int]) -> list[Stream]:
        return [stream for stream, no in since.items() if len(self.shelf(stream).signals) > no]

    # --- the way there ---------------------------------------------------------------------------------------------

    def send(self, sender: Life, verb: str, *args: Any) -> asyncio.Future[Any]:
        world = self.world
        if not sender.alive:
            return world.loop.create_future()
        if verb == "append":  # a copy, and the state it makes
            args = (args[0], tuple(args[1]), args[2], dict(args[3]), world.live_state(sender, args[0], args[2]))
        op = Op(sender, verb, args, world.loop.create_future())
        self.ops[op] = None
        world.crash_maybe(sender, "crash at a request")
        world.loop.later(world.delay(0.004), self._land, op)
        return op.answer

    def _land(self, op: Op) -> None:
        self.ops.pop(op)
        if op.lost:
            return
        if op.verb in ("append", "release"):
            self.world.people.at_the_moment(op.verb, op.args[0])
        answer, error = None, self._fault(op)
        if error is None or (isinstance(error, StoreUnknown) and self.world.chance("unknown, and it is in")):
            try:
                answer = getattr(self, op.verb)(*op.args)
            except StoreError as refused:
                error = refused
        self.world.crash_maybe(op.sender, "crash after a commit")
        self.world.loop.later(self.world.delay(0.002), self._reply, op, answer, error)

    def _fault(self, op: Op) -> StoreError | None:
        world = self.world
        if world.outage:
            return StoreError("the store is away")
        if op.verb not in WRITES:
            return StoreError("the read failed") if world.chance("read fails") else None
        if world.disk_full:
            return StoreError("no space left on device")
        if world.chance("EIO"):
            return StoreError("input/output error")
        if world.chance("commit unknown"):
            if world.chance("unknown, and it lands later"):
                world.loop.later(world.delay(4.0), self._late, op)
            return StoreUnknown("connection lost in commit")
        return None

    def _late(self, op: Op) -> None:
        try:
            self.late += 1
            getattr(self, op.verb)(*op.args)
            self.world.note(f"late {op.verb}")
        except StoreError as refused:
            self.world.note(f"late {op.verb}", refused)

    def _reply(self, op: Op, answer: Any, error: StoreError | None) -> None:
        if not op.answer.done():
            op.answer.set_exception(error) if error else op.answer.set_result(answer)

    def crashed(self, life: Life) -> None:
        """What a dying process leaves in the buffer lands, is lost, or is torn."""
        for op in [o for o in self.ops if o.sender is life]:
            op.lost = self.world.coin()
            if op.lost and op.verb == "append" and self.world.chance("torn frame"):
                stream, records = op.args[0], cast("Sequence[Sealed]", op.args[1])
                shelf = self.shelf(stream)
                if (records[0].seq, records[0].prev, records[0].fence) == (len(shelf.records), shelf.hash, shelf.epoch):
                    shelf.torn = Damage(records[0].seq, "cut off", records[-1].hash)


WRITES = frozenset({"append", "repair", "take", "release", "signal", "heartbeat"})


class SimLog:
    """`seams.Log` as one process sees it: every verb of the store, on its way."""

    def __init__(self, store: SimStore, life: Life) -> None:
        self._store, self._life = store, life

    def __getattr__(self, verb: str) -> Callable[..., asyncio.Future[Any]]:
        return partial(self._store.send, self._life, verb)
