"""Work that does not end when it should, and a look at what is left of it."""

from __future__ import annotations

import asyncio
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


def others() -> set[asyncio.Task[Any]]:
    return {t for t in asyncio.all_tasks() if t is not asyncio.current_task() and not t.done()}


def slow(value: Any) -> Callable[[object], Awaitable[Any]]:
    """A value that takes two trips of the event loop."""

    async def played(_: object) -> Any:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return value

    return played
