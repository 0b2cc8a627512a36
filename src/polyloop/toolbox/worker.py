"""Warm worker processes for tools that are plain functions: quick to call, true to cancel.

Theory of operation. A pool starts workers (`runner.py`) from one thread that lives as long as the pool, because the
signal that tells a child of its parent's death follows the thread that made it. A worker serves one call at a time over a
socket and is kept for the next call from the same working directory. A call that is cancelled is not asked to stop: its
whole process tree is killed and reaped before the cancellation goes on, and the next call gets a fresh worker (S2.22,
S2.23). What a tool prints is read from pipes of its own, the end of it kept. `groups()` lists the process groups for the
holder row; `on_groups_changed` is awaited before a new worker gets its first call, so that whoever takes over knows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct

from .calls import Answer, decode_answer

T = TypeVar("T")
Group = tuple[int, int]

#: Workers of one pool. A call waits for a free one.
SIZE: Final = 8
#: Seconds: for a worker to come up, and for each way of ending one.
START_S: Final = 20.0
END_S: Final = 1.0
#: Bytes kept of what a call prints, per stream.
PRINTED: Final = 4096
_HEADER: Final = struct.Struct(">Q")
#: The keeper's exit code is the runner's, or this and the number of the signal that ended it.
_BY_SIGNAL: Final = 128


class Home(Struct, frozen=True):
    """Where a worker lives: its working directory, and the folder beside a request file ("" = none)."""

    workdir: str
    folder: str = ""


class Reply(Struct, frozen=True):
    """What came of a call. `answer` None = the process ended in the middle of it, and `ended` says how."""

    answer: Answer | None
    out: str = ""
    err: str = ""
    ended: str = ""


class _NotSent(Exception):
    """The worker was gone before it could take the call."""


async def undisturbed(work: Coroutine[Any, Any, T]) -> T:
    """Finish `work` whoever cancels meanwhile; the cancellation is raised afterwards. `work` must be bounded."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as asked:
            cancelled = asked
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result


class _Printed:
    """The end of what comes out of a pipe."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._kept = bytearray()
        os.set_blocking(fd, False)
        asyncio.get_running_loop().add_reader(fd, self.read)

    def read(self) -> bool:
        """True if there may be more at once."""
        with contextlib.suppress(BlockingIOError):  # nothing there just now
            data = os.read(self.fd, 65536)
            self._kept = (self._kept + data)[-PRINTED:]
            if data:
                return True
            asyncio.get_running_loop().remove_reader(self.fd)
        return False

    def take(self) -> str:
        """What the call just ended has printed. Bounded: a process left behind may go on printing."""
        for _ in range(16):
            if not self.read():
                break
        text, self._kept = bytes(self._kept).decode(errors="replace"), bytearray()
        return text

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.fd)
        os.close(self.fd)


class _Spawned(Struct, frozen=True):
    keeper: subprocess.Popen[bytes]
    channel: socket.socket
    life: int
    out: int
    err: int


def _spawn(home: Home) -> _Spawned:
    """Start the keeper and runner. Blocks for a few milliseconds; called in the pool's own thread only."""
    ours, theirs = socket.socketpair()
    held, life = os.pipe()
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    try:
        script = str(Path(__file__).with_name("runner.py"))
        keeper = subprocess.Popen(  # noqa: S603  # our own interpreter and script
            [sys.executable, "-P", script, str(theirs.fileno()), str(held), str(os.getpid())],
            stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err, pass_fds=(theirs.fileno(), held), cwd=home.workdir, start_new_session=True,
        )  # fmt: skip
    except BaseException:
        ours.close()
        for fd in (life, out, err):
            os.close(fd)
        raise
    finally:
        theirs.close()
        for fd in (held, to_out, to_err):
            os.close(fd)
    ours.settimeout(0)
    return _Spawned(keeper, ours, life, out, err)


class Worker:
    """One worker process, seen from its owner."""

    def __init__(self, home: Home, spawned: _Spawned) -> None:
        self.home = home
        self.group: Group = (0, 0)
        self.keeper: Group = (spawned.keeper.pid, started(spawned.keeper.pid) or 0)
        self._spawned = spawned
        self._out, self._err = _Printed(spawned.out), _Printed(spawned.err)
        self._open = True

    async def greet(self) -> None:
        """Wait until it can take a call. Raises OSError if it does not come up."""
        folder = [self.home.folder] if self.home.folder else []
        try:
            async with asyncio.timeout(START_S):
                body = await self.exchange(json.dumps({"path": [*folder, *sys.path]}).encode(), 64)
        except _NotSent:
            body = None
        if body is None:
            raise OSError(f"a worker process did not come up: {self.printed()[1].strip()[-500:]}")
        pid = int(body)
        self.group = (pid, started(pid) or 0)

    async def exchange(self, message: bytes, most: int) -> bytearray | None:
        """One call, one answer of at most `most` bytes; None if it ended instead. Raises _NotSent only if the call cannot have begun."""
        loop, channel = asyncio.get_running_loop(), self._spawned.channel
        try:
            await loop.sock_sendall(channel, _HEADER.pack(len(message)) + message)
        except OSError as gone:
            raise _NotSent from gone
        header = await self._read(_HEADER.size)
        size = _HEADER.unpack(header)[0] if header else most + 1
        return await self._read(size) if size <= most else None

    def printed(self) -> tuple[str, str]:
        """The end of what was printed since the last time, to stdout and to stderr."""
        return self._out.take(), self._err.take()

    async def _read(self, size: int) -> bytearray | None:
        """Straight into its place: an answer may be as long as the tool's limit, and is held once."""
        data, there = bytearray(size), 0
        with memoryview(data) as room:
            while there < size:
                with contextlib.suppress(ConnectionResetError):  # it died with our message unread: the same as an end
                    if more := await asyncio.get_running_loop().sock_recv_into(self._spawned.channel, room[there:]):
                        there += more
                        continue
                return None
        return data

    @property
    def ended(self) -> str:
        """How the process ended, once it has."""
        code = self._spawned.keeper.returncode
        return "killed" if code is None or code < 0 else f"signal {code - _BY_SIGNAL}" if code > _BY_SIGNAL else f"exit code {code}"

    async def end(self) -> bool:
        """Kill and reap everything it is and has started. False if something could not be ended in bounded time."""
        for blow in (self._let_go, self._kill_group, self._spawned.keeper.kill):
            blow()
            if await self._gone(END_S):
                return True
        return False

    def _let_go(self) -> None:
        if self._open:
            self._open = False
            os.close(self._spawned.life)
            self._spawned.channel.close()
            self._out.close()
            self._err.close()

    def _kill_group(self) -> None:
        if self.group[0]:
            with contextlib.suppress(OSError):  # gone between the look and the blow
                os.killpg(self.group[0], signal.SIGKILL)

    async def _gone(self, patience_s: float) -> bool:
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_s
        while self._spawned.keeper.poll() is None:
            if loop.time() > until:
                return False
            await asyncio.sleep(0.001)
        return True


class WorkerPool:
    """Workers of one event loop. `on_groups_changed` is awaited after `groups()` has changed, before a new worker is called."""

    def __init__(self, size: int = SIZE, on_groups_changed: Callable[[], Awaitable[None]] | None = None) -> None:
        self._room = asyncio.Semaphore(size)
        self._size = size
        self._on_groups_changed = on_groups_changed
        self._starter = ThreadPoolExecutor(1, "polyloop-workers")
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._starting = 0

    def groups(self) -> tuple[Group, ...]:
        """(pgid, start time in clock ticks since boot) of every living worker, and then of its keeper."""
        return tuple(group for w in self._workers if w.group[0] for group in (w.group, w.keeper))

    async def exchange(self, home: Home, message: bytes, most: int) -> Reply:
        """Have a worker of this home answer. Cancelled: its process tree is gone before CancelledError goes on.

        Raises OSError if no worker can be started; then nothing has begun.
        """
        async with self._room:
            while True:
                worker = await self._take(home)
                try:
                    answer = _decoded(await worker.exchange(message, most))
                except _NotSent:
                    await undisturbed(self._end(worker))
                    continue
                except BaseException:
                    await undisturbed(self._end(worker))
                    raise
                out, err = worker.printed()
                if answer is not None:
                    self._idle.append(worker)
                    return Reply(answer, out, err)
                await undisturbed(self._end(worker))
                return Reply(None, out, err, worker.ended)

    async def aclose(self) -> None:
        """End all workers; calls in flight see theirs die. Nothing is left running."""
        await undisturbed(self._end_all())
        self._starter.shutdown(wait=False)

    async def _end_all(self) -> None:
        await asyncio.gather(*(self._end(w) for w in list(self._workers)))

    async def _take(self, home: Home) -> Worker:
        for worker in reversed(self._idle):
            if worker.home == home:
                self._idle.remove(worker)
                return worker
        while self._idle and len(self._workers) + self._starting >= self._size:
            await undisturbed(self._end(self._idle.pop(0)))
        self._starting += 1
        spawning = asyncio.ensure_future(self._spawned(home))
        try:
            worker = await asyncio.shield(spawning)
            await worker.greet()
            await self._announce()
        except BaseException:
            await undisturbed(self._discard(spawning))
            raise
        return worker

    async def _spawned(self, home: Home) -> Worker:
        try:
            worker = Worker(home, await asyncio.get_running_loop().run_in_executor(self._starter, _spawn, home))
            self._workers.append(worker)
        finally:
            self._starting -= 1
        return worker

    async def _discard(self, spawning: asyncio.Future[Worker]) -> None:
        with contextlib.suppress(OSError):  # it was never started: nothing to end
            await self._end(await spawning)

    async def _end(self, worker: Worker) -> None:
        if worker in self._idle:
            self._idle.remove(worker)
        if await worker.end() and worker in self._workers:
            self._workers.remove(worker)
            with contextlib.suppress(Exception):  # a group too many in the holder row does no harm: its start time tells
                await self._announce()

    async def _announce(self) -> None:
        if self._on_groups_changed is not None:
            await self._on_groups_changed()


def _decoded(body: bytearray | None) -> Answer | None:
    """None also for what is no answer: whoever wrote it is not to be trusted with another call."""
    try:
        return None if body is None else decode_answer(body)
    except (ValueError, TypeError, KeyError):
        return None


def started(pid: int) -> int | None:
    """Start time of a living process in clock ticks since boot; None if it is gone or cannot be told."""
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may hold anything
        return None if fields[0] in (b"Z", b"X") else int(fields[19])
    return None
