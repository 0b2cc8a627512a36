"""Work that does not end when it should, and a look at what is left of it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from typing import Any

from polyloop.kernel.seams import Outcome
from polyloop.testing import said


async def hang(_: object) -> None:
    await asyncio.sleep(600)


class Stubborn:
    """Works on for a while whatever it is told, and notes when it really ends."""

    def __init__(self, seconds: float = 0.5) -> None:
        self.seconds, self.ended = seconds, False

    async def __call__(self, _: object) -> Outcome:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.seconds
        while (left := end - loop.time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                continue
        self.ended = True
        return said("too late")


class Idle(selectors.DefaultSelector):
    """The selector of an event loop, which adds up how long it was told to wait for nothing."""

    waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(timeout)
        if not found:
            self.waited += max(0.0, timeout or 0.0)
        return found


def waited() -> float:
    """Seconds the running loop (one of `go`) has waited for timers: what the work asked for, however slow the machine is."""
    return asyncio.get_running_loop()._selector.waited


def others() -> set[asyncio.Task[Any]]:
    return {t for t in asyncio.all_tasks() if t is not asyncio.current_task() and not t.done()}


def slow(value: Any) -> Callable[[object], Awaitable[Any]]:
    """A value that takes two trips of the event loop."""

    async def played(_: object) -> Any:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return value

    return played
