"""The rules of ownership and appending, written once for every store: pure functions over the values of a row."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from polyloop.kernel.seams import Holder, OwnedElsewhere, StaleFence, StoreError, Stream, Taken

from .frames import ZERO, Frame
from .process import Machine


class Control(Struct, frozen=True):
    """A stream's control row."""

    holder: str
    epoch: int
    signal_no: int


def key(stream: Stream) -> tuple[str, str]:
    """Scope and run, both part of every key. Raises StoreError for an empty one, or for text that no store can hold."""
    scope, run = stream.scope, stream.run
    if not scope or not run:
        raise StoreError("a stream needs a scope and a run")
    try:
        if b"\0" in (scope + run).encode():
            raise StoreError("a scope or run with a NUL character cannot be a key")
    except UnicodeEncodeError as error:
        raise StoreError("a scope or run with lone surrogates cannot be a key") from error
    return scope, run


def fits(epoch: int, end: tuple[int | None, bytes | None], frame: Frame, fence: int) -> bool:
    """Whether the frame goes to the end of the stream; `end` = last seq and hash, nulls for none. A missing stream is at epoch 0.

    False: it can only be a repeat of one that is there. Raises StaleFence.
    """
    check_fence(epoch, fence)
    seq, last_hash = end
    return frame.first_seq == (0 if seq is None else seq + 1) and frame.prev == (last_hash or ZERO)


def check_fence(epoch: int, fence: int) -> None:
    if epoch != fence:
        raise StaleFence(f"the stream is at epoch {epoch}, the writer has {fence}")


def take(row: Control | None, old: Holder | None, new: Holder, floor: int, now: int, machine: Machine) -> Taken:
    """What taking gives. `old` = the row of the present holder; `floor` = highest epoch of any deleted stream, where a first epoch starts.

    Allowed if nobody holds it, the lease is over, the holder is dead, or it is the same holder. Raises OwnedElsewhere.
    """
    epoch = ((row.epoch if row else 0) or floor) + 1
    signal_no = row.signal_no if row else 0
    previous = row.holder if row else ""
    if old is None:
        return Taken(epoch, signal_no, (), previous)
    if old.id != new.id and is_live(old, now, machine):
        raise OwnedElsewhere(old.id, old.until)
    kill = old.groups if old.boot == new.boot and not _same_process(old, new) else ()
    return Taken(epoch, signal_no, kill, previous)


def introduced(own: Holder | None, new: Holder, kill: tuple[tuple[int, int], ...]) -> Holder:
    """The taker's row after a take. What a take brings may be older than the last heartbeat: it shortens no lease, drops no group.

    The groups it is to end stand in its row too: should it die before they are gone, they are the next taker's to end.
    """
    if own is not None and _same_process(own, new):
        new = replace(new, until=max(own.until, new.until), groups=own.groups + new.groups)
    return replace(new, groups=tuple(dict.fromkeys(new.groups + kill)))


def _same_process(a: Holder, b: Holder) -> bool:
    return (a.boot, a.pid, a.started) == (b.boot, b.pid, b.started)


def is_live(holder: Holder, now: int, machine: Machine) -> bool:
    """A holder lives while its lease runs, unless this machine knows better."""
    if holder.until <= now:
        return False
    return not machine.boot or holder.boot != machine.boot or machine.alive(holder.pid, holder.started)


def may_release(row: Control | None, epoch: int, signal_seen: int) -> bool | None:
    """True = let go; False = a signal has come, keep it; None = it is not ours any more, nothing to do."""
    if row is None or row.epoch != epoch:
        return None
    return row.signal_no <= signal_seen
