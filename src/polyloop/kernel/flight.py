"""Work in flight: the one await a run can be interrupted at.

Theory of operation. A run is one task. While it awaits a seam it may be interrupted (cancel, suspend, deadline, tool
timeout): exactly that await is cancelled. Nothing else of the run is ever cancelled, so records are never
cut. Work that swallows cancellation is left behind after `grace_s`: state is a value, so a fresh task goes on from it
and the old one finds its flight `abandoned` and stops without a trace in the log (R53-R58, F11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupted(BaseException):
    """The awaited work was cut short; `why` is cancel, suspend, deadline or timeout. Never caught by tool code."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Abandoned(BaseException):
    """This task's work was left behind; another task has gone on. It must do nothing more."""


async def unbroken(work: Awaitable[T], on_cancel: Callable[[], None] = lambda: None) -> T:
    """Await `work` to its end whatever happens to the caller; a cancel that comes meanwhile is told at once and raised after."""
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as cancel:
            cancelled = cancel
            on_cancel()
        except GeneratorExit:
            raise  # the loop is gone, and the work with it
        except BaseException:
            break
    if cancelled is not None:
        raise cancelled
    return task.result()


class Flight:
    """Guards one await at a time. `on_leak(why)` is called when the work outlives its grace."""

    def __init__(self, grace_s: float, on_leak: Callable[[str], None]) -> None:
        self.grace_s = grace_s
        self._on_leak = on_leak
        self._task: asyncio.Task[Any] | None = None
        self._why = ""
        self._wanted = ""
        self._number = 0
        self._patient = False
        self._timers: list[asyncio.TimerHandle] = []

    async def guard(self, work: Awaitable[T], deadlines: tuple[tuple[float, str], ...] = (), *, patient: bool = False) -> T:
        """Await `work`. `deadlines` are (seconds from now, why); `patient` = whatever is wanted, wait for it to end.

        Raises Interrupted, or what the work raises.
        """
        task = asyncio.current_task()
        assert task is not None
        loop, number = task.get_loop(), self._number
        self._task, self._why, self._patient = task, "", patient
        if self._wanted:
            loop.call_soon(self._strike, number, self._wanted)
        self._timers = [loop.call_later(max(0.0, s), self._strike, number, why) for s, why in deadlines]
        try:
            value = await work
        except asyncio.CancelledError:
            why = self._landed(task, number)
            if why or task.cancelling():
                raise Interrupted(why or "suspend") from None
            raise RuntimeError("the work cancelled itself") from None
        except BaseException:
            self._landed(task, number)
            raise
        self._landed(task, number)
        return value

    def _landed(self, task: asyncio.Task[Any], number: int) -> str:
        if number != self._number:
            raise Abandoned
        for timer in self._timers:
            timer.cancel()
        why, self._task, self._timers = self._why, None, []
        self._number += 1
        if why:
            task.uncancel()
        return why

    def want(self, why: str) -> None:
        """Interrupt now if work is in flight, else as soon as the next begins. `suspend` and `cancel` stay wanted."""
        self._wanted = why
        if self._task is not None:
            self._task.get_loop().call_soon(self._strike, self._number, why)

    def heeded(self) -> None:
        """The interrupt has been acted upon (a cancel is in the log): new work may run undisturbed."""
        self._wanted = ""

    def _strike(self, number: int, why: str) -> None:
        """Cut that work short, if it is still in flight and may be; leave it behind after the grace."""
        if number != self._number or self._task is None or self._why or self._patient:
            return
        self._why = why
        self._task.cancel()
        self._timers.append(self._task.get_loop().call_later(self.grace_s, self._leave, number))

    def _leave(self, number: int) -> None:
        self._number = number + 1
        self._task, why = None, self._why
        self._on_leak(why)
