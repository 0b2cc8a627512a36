"""One watcher per process: tells runs in flight that somebody left them a signal (<= 200 ms)."""

from __future__ import annotations

import asyncio
from typing import Final

from .driver import Driver
from .seams import Log, StoreError

POLL_S: Final = 0.15


class Watcher:
    """Polls the log's `moved` for all runs in flight of one event loop; idle without runs."""

    def __init__(self, log: Log, poll_s: float = POLL_S) -> None:
        self._log = log
        self._poll_s = poll_s
        self._drivers: dict[Driver, None] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, driver: Driver) -> None:
        """Watch a run until it is done."""
        self._drivers[driver] = None
        driver.on_done = lambda: self._drivers.pop(driver, None)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        while self._drivers:
            await asyncio.sleep(self._poll_s)
            since = {d.stream: d.signal_seen for d in self._drivers}
            try:
                moved = set(await self._log.moved(since))
                for driver in [d for d in self._drivers if d.stream in moved]:
                    await driver.heed()
            except StoreError:
                continue  # the run's own next append will tell; a watcher only listens
