"""This process as a holder of runs: its row, its heartbeat, its tool process groups; and the end of a dead holder's.

The heartbeat has a thread of its own, so that a busy event loop does not lose its lease (R56). A takeover ends the old holder's
process groups and waits until they are gone before anything is settled or rerun: an orphaned worker's effect would land later.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from polyloop.clock import SystemClock
from polyloop.contract.problem import problem
from polyloop.ids import uuid7
from polyloop.kernel.seams import Holder, Log, StoreError
from polyloop.stores.process import started, this_process

LEASE_S: Final = 15.0
LONGEST_LEASE_S: Final = 86400.0
#: How long a takeover waits for process groups to end by themselves once their leaders are told to, and for killed ones to be gone.
LET_GO_S: Final = 1.0
GONE_S: Final = 10.0


def lease_s() -> float:
    """Seconds until a silent holder's runs may be taken over (`POLYLOOP_LEASE_S`). Raises ProblemError(validation)."""
    said = os.environ.get("POLYLOOP_LEASE_S", "")
    try:
        value = float(said) if said else LEASE_S
    except ValueError:
        value = 0.0
    if not 0 < value <= LONGEST_LEASE_S:
        raise problem("validation", f"POLYLOOP_LEASE_S must be a number of seconds above 0, not {said!r}", stage="arguments")
    return value


class Holding:
    """The holder row of this process on one log. `groups` lists the tool process groups it owns."""

    def __init__(self, log: Log, groups: Callable[[], Sequence[tuple[int, int]]]) -> None:
        self._log, self._groups = log, groups
        self._clock, self._lease_s = SystemClock(), lease_s()
        self.id = uuid7()
        #: Groups of former holders that this process took over and has not yet seen gone.
        self._owed: tuple[tuple[int, int], ...] = ()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def row(self) -> Holder:
        until = self._clock.now_ms() + round(self._lease_s * 1000)
        return this_process(self.id, until, tuple(dict.fromkeys((*self._groups(), *self._owed))))

    async def begin(self) -> Holder:
        """Write the row and keep it alive until `end`."""
        row = self.row()
        await self._log.heartbeat(row)
        self._thread = threading.Thread(target=self._work, name="polyloop-heartbeat", daemon=True)
        self._thread.start()
        return row

    async def tell(self) -> None:
        """Write the row now: the process groups have changed."""
        await self._log.heartbeat(self.row())

    def end_groups(self, groups: Sequence[tuple[int, int]]) -> None:
        """End the groups of a former holder, and any an earlier takeover could not end: until then they stand in the row. Raises StoreError."""
        self._owed = tuple(dict.fromkeys((*self._owed, *groups)))
        end_groups(self._owed)
        self._owed = ()

    def _work(self) -> None:
        while not self._stop.wait(self._lease_s / 3):
            try:
                asyncio.run(self._log.heartbeat(self.row()))
            except StoreError:
                continue  # the next beat tries again; a lease that runs out meanwhile fences this process

    def end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()


def end_groups(groups: Sequence[tuple[int, int]]) -> None:
    """End the process groups of a former holder and wait until they are gone. A group id that was given anew is left alone.

    Leaders are told first: a keeper ends all that its worker has started, also what has left the worker's group, and goes last.
    Whoever does not heed it, or has no leader any more, is killed.
    """
    own = os.getpgid(0)  # whatever the number once was: it is ours now
    there = [(pgid, start) for pgid, start in groups if pgid != own and started(pgid) in (start, None) and _members(pgid)]
    for pgid, start in there:
        if start and started(pgid) == start:
            with suppress(ProcessLookupError):
                os.kill(pgid, signal.SIGTERM)
                os.kill(pgid, signal.SIGCONT)
    left = _left([pgid for pgid, _ in there], LET_GO_S)
    for pgid in left:
        with suppress(ProcessLookupError):
            os.killpg(pgid, signal.SIGKILL)
    if left := _left(left, GONE_S):
        raise StoreError(f"process groups of the former holder do not end: {left}")


def _left(groups: list[int], patience_s: float) -> list[int]:
    """Those that are still there after that long, or none as soon as none is."""
    clock, nap = SystemClock(), threading.Event()
    until = clock.monotonic() + patience_s
    while (groups := [pgid for pgid in groups if _members(pgid)]) and clock.monotonic() < until:
        nap.wait(0.005)
    return groups


def _members(pgid: int) -> bool:
    """True while the group has a living member (zombies do nothing more)."""
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return any(_group_of(pid) == pgid for pid in _pids())


def _pids() -> list[int]:
    try:
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _group_of(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] in (b"Z", b"X") else int(fields[2])
