"""Who is alive on this machine: boot id, process start times. Where the system cannot tell, leases alone decide.

The boot id is paired with the process namespace: two containers of one machine share the boot but not each other's pids.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from polyloop.kernel.seams import Holder


class Machine(Struct, frozen=True):
    """What a store asks about processes. `boot` "" = cannot tell. `alive(pid, started)` is asked only for holders of this boot."""

    boot: str
    alive: Callable[[int, int], bool]


def this_machine() -> Machine:
    return Machine(_boot(), alive)


def this_process(holder_id: str, until: int, groups: tuple[tuple[int, int], ...] = ()) -> Holder:
    """The holder row of this process; `until` = lease end in epoch ms."""
    pid = os.getpid()
    return Holder(holder_id, os.uname().nodename, _boot(), pid, started(pid) or 0, until, groups)


def started(pid: int) -> int | None:
    """Start time of a living process in clock ticks since boot; None if it is gone, a zombie, or cannot be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may hold anything
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def alive(pid: int, start: int) -> bool:
    """False only if it is certain that the process which began at `start` is gone."""
    if pid <= 0 or start <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True  # there, but another user's: nothing more to learn
    return started(pid) == start


def _boot() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
