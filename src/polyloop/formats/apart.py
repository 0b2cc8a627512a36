"""Reading a file in a process of its own, which may use so much memory and computing and no more.

Whatever the file is made to do to the library that parses it - grow without end, never come back, break down in native code - is
done to that process alone, and is a typed problem here. It may write no file. Plain text and Markdown are read by code of our own
whose work is linear, so they are not worth a process.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from polyloop.contract.problem import Problem, ProblemError, problem
from polyloop.formats import kind_of, read
from polyloop.formats.blocks import Document
from polyloop.formats.limits import READER_CPU_S, READER_MEMORY_BYTES, READER_WALL_S
from polyloop.formats.problems import unreadable

_HERE: Final = frozenset({"txt", "md"})
#: The package is found where this one is, whatever the new process would find.
RUN: Final = "import sys; sys.path.insert(0, sys.argv[1]); from polyloop.formats.apart import serve; serve(sys.argv[2])"
#: What native code ends by that breaks down over a file; every other end came from outside and says nothing about the file.
_BROKEN: Final = frozenset(-number for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL))
_PR_SET_PDEATHSIG: Final = 1
_LIMITS: Final = (
    (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_AS, READER_MEMORY_BYTES), (resource.RLIMIT_CPU, READER_CPU_S),
)  # fmt: skip


class _Reply(Struct, frozen=True):
    document: Document | None = None
    problem: Problem | None = None
    costly: bool = False


def read_apart(name: str, data: bytes) -> Document:
    """As `formats.read`; also raises validation (`too_costly`), type_mismatch (`corrupt`: its reader broke down over it) and, when that was ended
    from outside or could not begin, capability_unavailable.
    """
    if kind_of(name, data) in _HERE:
        return read(name, data)
    command = [sys.executable, "-P", "-c", RUN, str(Path(__file__).parents[2]), name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:  # noqa: S603  # our own code
        try:
            out, _ = reader.communicate(data, timeout=READER_WALL_S)
        except subprocess.TimeoutExpired as error:
            raise _costly(name) from error
        finally:
            reader.kill()  # whoever stops waiting for it stops it
    if reader.returncode == -signal.SIGXCPU:
        raise _costly(name)
    if reader.returncode in _BROKEN:
        raise unreadable(name, "corrupt", f"its reader broke down over it ({reader.returncode})")
    if reader.returncode:
        raise problem("capability_unavailable", f"{name}: its reader ended before it had read it ({reader.returncode})", stage="read")
    try:
        reply = msgspec.json.decode(out, type=_Reply)
    except msgspec.MsgspecError as error:
        raise unreadable(name, "corrupt", f"its reader said nothing that can be read ({error})") from error
    if reply.costly:
        raise _costly(name)
    if reply.document is None:
        raise ProblemError(reply.problem or Problem("task_failed", f"{name}: nothing was read", stage="read"))
    return reply.document


def _costly(name: str) -> ProblemError:
    limit = f"{READER_CPU_S} seconds of computing or {READER_MEMORY_BYTES >> 20} MiB of memory"
    return unreadable(name, "too_costly", f"reading it takes more than {limit}")


def serve(name: str) -> None:
    """What the process does: the file from standard input, the reply to standard output."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # it ends with who asked for it
    for limit, most in _LIMITS:
        hard = resource.getrlimit(limit)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (least, hard))
    try:
        reply = msgspec.json.encode(_Reply(document=read(name, sys.stdin.buffer.read())))
    except ProblemError as stop:
        reply = msgspec.json.encode(_Reply(problem=stop.problem))
    except (MemoryError, RecursionError):
        reply = msgspec.json.encode(_Reply(costly=True))
    except Exception as fault:  # a fault of ours or of a library: told, and the task fails by it
        why = Problem("task_failed", f"{name}: {type(fault).__name__}: {fault}"[:500], stage="read", execution_started=None)
        reply = msgspec.json.encode(_Reply(problem=why))
    sys.stdout.buffer.write(reply)
    sys.stdout.buffer.flush()
    os._exit(0)  # nothing is left to tidy up, and libraries can hang while they try
