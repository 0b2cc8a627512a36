"""A virtual-time event loop: asyncio without a selector, without waiting, without chance of its own.

Theory of operation. Time stands still while anything is ready and jumps to the next timer when nothing is. Which of the
ready handles runs next is the seed's decision (`pick`). Every handle belongs to the life of a process or to nobody (the
world); its owner is found in its context, so tasks, timers and callbacks of a process inherit it. Handles of a dead life
never run; those of a stopped one are kept until it goes on, as after SIGSTOP and SIGCONT.
"""

from __future__ import annotations

import asyncio
import heapq
import warnings
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any

from msgspec import Struct


class Handle(Struct, eq=False):
    """A callback that is due, or will be."""

    callback: Callable[..., Any]
    args: tuple[Any, ...]
    context: Context
    dropped: bool = False

    def cancel(self) -> None:
        self.dropped = True


class Life(Struct, eq=False):
    """One process from start to crash."""

    name: str
    pid: int
    alive: bool = True
    stopped: bool = False
    frozen: list[Handle] = []


#: For event loops, says asyncio, and this is one.
set_running_loop = asyncio._set_running_loop  # noqa: SLF001
OWNER: ContextVar[Life | None] = ContextVar("owner", default=None)


class SimLoop(asyncio.AbstractEventLoop):
    """`pick(n)` chooses among n ready handles."""

    def __init__(self, pick: Callable[[int], int]) -> None:
        self._pick = pick
        self._now = 0.0
        self._ready: list[Handle] = []
        self._timers: list[tuple[float, int, Handle]] = []
        self._number = 0
        self._nobody = Context()
        self._tasks: list[tuple[asyncio.Task[Any], Coroutine[Any, Any, Any], Life | None]] = []
        self.stopped = False

    # --- what asyncio asks ---------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, copy_context() if context is None else context)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, handle))
        return handle

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=self, name=name or "sim", context=context)
        self._tasks.append((task, coro, context.get(OWNER) if context else OWNER.get()))
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.stopped

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Said when a task is destroyed with its fault, which is after the end; `unheard` asks before."""

    # --- what the world asks -------------------------------------------------------------------------------------

    def later(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        """A timer that belongs to nobody: it happens whatever becomes of the process that set it off."""
        self.call_at(self._now + delay, callback, *args, context=self._nobody)

    def spawn(self, life: Life, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of a process."""
        context = Context()
        context.run(OWNER.set, life)
        return self.create_task(work, context=context)

    def go_on(self, life: Life) -> None:
        """SIGCONT."""
        life.stopped = False
        self._ready += life.frozen
        life.frozen = []

    def run(self, until: float) -> None:
        """Until nothing is left, `stopped`, or the given second."""
        set_running_loop(self)
        try:
            while not self.stopped and (self._ready or self._advance(until)):
                count = len(self._ready)
                self._run(self._ready.pop(self._pick(count) if count > 1 else 0))
        finally:
            set_running_loop(None)

    def _run(self, handle: Handle) -> None:
        if handle.dropped:
            return
        life = handle.context.get(OWNER)
        if life is not None:
            if not life.alive:
                return
            if life.stopped:
                life.frozen.append(handle)
                return
        handle.context.run(handle.callback, *handle.args)

    def _advance(self, until: float) -> bool:
        """To the next timer; all that are due then become ready, in order."""
        timers = self._timers
        while timers and timers[0][2].dropped:
            heapq.heappop(timers)
        if not timers or timers[0][0] > until:
            return False
        self._now = timers[0][0]
        while timers and timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(timers)[2])
        return True

    def unheard(self) -> list[BaseException]:
        """Faults of living processes' tasks that nobody has fetched."""
        done = [task for task, _, life in self._tasks if task.done() and not task.cancelled() and (life is None or life.alive)]
        return [fault for task in done if getattr(task, "_log_traceback", False) and (fault := task.exception())]

    def end(self) -> None:
        """Let go of everything: what never finished is closed without running on."""
        self.stopped = True
        set_running_loop(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # some never began
            for task, coro, _ in self._tasks:
                if not task.done():
                    setattr(task, "_log_destroy_pending", False)  # noqa: B010  # a crash is meant to leave tasks behind
                    with suppress(RuntimeError):  # it awaited again while closing: a dead process does not get that far
                        coro.close()
        set_running_loop(None)
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()
