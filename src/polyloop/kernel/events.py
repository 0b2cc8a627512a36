"""Lossy notices to sinks. Nothing a sink does can touch the run (S2.20, S2.30).

Theory of operation. Each sink has a bounded queue and its own worker: a task for coroutine functions, a daemon thread for
plain ones. The loop only appends to queues. A sink that raises (anything), hangs, blocks or is slow loses events and is
told how many with the next one. `close` waits a bounded time.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Awaitable
from typing import Any, Final, Literal, cast

from msgspec.structs import replace

from . import records as r
from .objects import Json
from .records import Record, Sealed, plain
from .seams import Event, Sink, Stream

QUEUE_EVENTS: Final = 1000
CLOSE_S: Final = 1.0
EventType = Literal["run_started", "step", "waiting", "resumed", "run_ended"]
TYPE_OF: Final[dict[type, EventType]] = {
    r.RunStarted: "run_started",
    r.Step: "step",
    r.ActionDeferred: "waiting",
    r.ResumeStarted: "resumed",
    r.RunEnded: "run_ended",
}


class Pump:
    """One sink's queue and worker."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.lost = 0
        self._queue: deque[Event | None] = deque()
        self._ready = threading.Semaphore(0)
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        if inspect.iscoroutinefunction(sink) or inspect.iscoroutinefunction(getattr(sink, "__call__", None)):  # noqa: B004  # its kind, not whether it can be called
            self._task = asyncio.ensure_future(self._pump())
        else:
            threading.Thread(target=self._thread, name="polyloop-sink", daemon=True).start()

    def put(self, event: Event | None) -> None:
        if event is not None and len(self._queue) >= QUEUE_EVENTS:
            self.lost += 1
            return
        self._queue.append(event)
        self._wake.set()
        self._ready.release()

    def _next(self) -> Event | None:
        event = self._queue.popleft()
        if event is None:
            return None
        lost, self.lost = self.lost, 0
        return replace(event, dropped=lost) if lost else event

    async def _pump(self) -> None:
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            event = self._next()
            if event is None:
                self._closed.set()
                return
            try:
                await self.sink(event)
            except asyncio.CancelledError:
                if cast("asyncio.Task[None]", self._task).cancelling():
                    raise
                self.lost += 1
            except GeneratorExit:
                raise  # the loop is gone, and this task with it
            except BaseException:  # a sink may raise anything; the loss is counted and told with the next event
                self.lost += 1

    def _thread(self) -> None:
        while True:
            self._ready.acquire()
            event = self._next()
            if event is None:
                break
            try:
                answer: Any = self.sink(event)
                if inspect.isawaitable(answer):
                    asyncio.run(_wait(answer))
            except BaseException:  # as above
                self.lost += 1
        try:
            self._loop.call_soon_threadsafe(self._closed.set)
        except RuntimeError:  # the loop is gone: nobody waits any more
            return

    async def close(self) -> None:
        self.put(None)
        try:
            await asyncio.wait_for(self._closed.wait(), CLOSE_S)
        except TimeoutError:
            if self._task is not None:
                self._task.cancel()


async def _wait(answer: Awaitable[object]) -> None:
    await answer


class Events:
    """Events of one run: queued with their records, published when those are durable."""

    def __init__(self, sinks: tuple[Sink, ...]) -> None:
        self._sinks = sinks
        self._pumps: list[Pump] = []
        self._queued: list[Event] = []

    def queue(self, stream: Stream, sealed: Sealed, record: Record, body: dict[str, Json] | None) -> None:
        kind = TYPE_OF.get(type(record))
        if kind is not None:
            seen = body if body is not None else cast("dict[str, Json]", plain(sealed.body or b"{}"))
            self._queued.append(Event(kind, stream.run, stream.scope, sealed.seq, seen))

    def publish(self) -> None:
        if not self._queued:
            return
        if not self._pumps:
            self._pumps = [Pump(s) for s in self._sinks]
        for event in self._queued:
            for pump in self._pumps:
                pump.put(event)
        self._queued = []

    async def close(self) -> None:
        """Bounded: every sink gets the same second."""
        pumps, self._pumps = self._pumps, []
        if pumps:
            await asyncio.gather(*(p.close() for p in pumps))
