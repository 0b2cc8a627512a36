"""The program of a worker process. Started as a script by `worker.py`; it needs only the standard library until a call comes.

Theory of operation. Two processes. The *keeper* does nothing but wait: for its owner to let go of the life pipe (or to die:
PDEATHSIG), or for the runner to end. Then it kills the runner's group, and every descendant that left the group (it is
their reaper), and only then ends itself: when the keeper is gone, nothing of the call is left. The *runner* leads a
process group of its own and serves one call after another over the socket; stdout and stderr are pipes to the owner.
The owner kills a call by letting go of the life pipe. Someone who takes over from a dead owner kills the runner's group.

    owner --life--> keeper --fork--> runner (group leader) --> whatever the tool starts
          <------------- socket: calls and answers ------>
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import NoReturn

_HEADER = struct.Struct(">Q")
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main(channel_fd: int, life_fd: int, owner: int) -> NoReturn:
    keeper = os.getpid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    runner = os.fork()
    if runner:
        os.close(channel_fd)
        _keep(runner, life_fd, owner)
    os.setpgid(0, 0)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.close(life_fd)
    if os.getppid() != keeper:
        os._exit(1)
    with socket.socket(fileno=channel_fd) as channel:
        channel.set_inheritable(False)
        _serve(channel)
    os._exit(0)


# --- the keeper --------------------------------------------------------------------------------------------------


def _keep(runner: int, life_fd: int, owner: int) -> NoReturn:
    with contextlib.suppress(OSError):  # the runner may have done it first, or be gone
        os.setpgid(runner, runner)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, _woken)  # a handler must be there for the wakeup pipe to be written
    code = _reap(runner)
    while code is None and os.getppid() == owner:
        ready, _, _ = select.select([life_fd, woken], [], [])
        if life_fd in ready or signal.SIGTERM in os.read(woken, 4096):
            break
        code = _reap(runner)
    with contextlib.suppress(OSError):  # an empty group is what we want
        os.killpg(runner, signal.SIGKILL)
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            os._exit(0 if code is None else code)
        if pid == runner:
            code = _code(status)
        if not pid:
            _kill_children()
            select.select([], [], [], 0.001)


def _woken(number: int, frame: object) -> None:
    """The wakeup pipe tells."""


def _reap(runner: int) -> int | None:
    """The runner's exit code, None while it lives. Orphans that came to us are reaped by the way."""
    while True:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in (0, runner):
            return _code(status) if pid else None


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _kill_children() -> None:
    with contextlib.suppress(OSError):  # no such file on this system: then the group was all we can reach
        for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            with contextlib.suppress(OSError):  # it ended by itself
                os.kill(int(child), signal.SIGKILL)


# --- the runner --------------------------------------------------------------------------------------------------


def _serve(channel: socket.socket) -> None:
    hello = _receive(channel)
    if hello is None:
        return
    sys.path[:] = json.loads(hello)["path"]
    from polyloop.toolbox.calls import answer

    me = os.getpid()
    _send(channel, str(me).encode())
    while (body := _receive(channel)) is not None:
        reply = answer(body)
        if os.getpid() != me:
            os._exit(0)  # a tool forked and its child came back to us
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the tool may have closed or replaced it
                stream.flush()
        _send(channel, reply)


def _receive(channel: socket.socket) -> bytes | None:
    header = _exactly(channel, _HEADER.size)
    return None if header is None else _exactly(channel, _HEADER.unpack(header)[0])


def _exactly(channel: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        if not (more := channel.recv(size - len(data), socket.MSG_WAITALL)):
            return None
        data = data + more if data else more
    return data


def _send(channel: socket.socket, body: bytes) -> None:
    channel.sendall(_HEADER.pack(len(body)) + body)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:4]))
