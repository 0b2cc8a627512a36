"""Blocking work in threads: its result, its exception, its cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from polyloop.files.threads import in_thread


def test_what_the_work_does_comes_back() -> None:
    async def main() -> None:
        assert await in_thread(lambda: 7, lambda: None) == 7
        for error in (ValueError("bad"), StopIteration(3), SystemExit(1), KeyboardInterrupt()):

            def work(error: BaseException = error) -> None:
                raise error

            with pytest.raises((Exception, SystemExit, KeyboardInterrupt)) as raised:
                await in_thread(work, lambda: None)
            assert raised.value is error or isinstance(raised.value.__cause__, StopIteration)

    asyncio.run(main())


def cancelled_work(patience_s: float | None, work: Any, times: int = 1) -> tuple[float, int]:
    """Seconds until the cancellation was over, and how often `stop` was called."""
    stops: list[None] = []

    async def main() -> float:
        task = asyncio.ensure_future(in_thread(work, lambda: stops.append(None), patience_s))
        await asyncio.sleep(0.02)
        began = time.monotonic()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    return asyncio.run(main()), len(stops)


def test_a_cancellation_waits_for_the_work_and_asks_it_once_to_stop() -> None:
    done = threading.Event()

    def work() -> None:
        time.sleep(0.2)
        done.set()

    took, stops = cancelled_work(None, work, times=3)
    assert done.is_set()
    assert 0.1 < took < 30
    assert stops == 1


def test_patience_has_an_end_and_the_thread_that_outlasts_it_harms_nobody() -> None:
    release = threading.Event()
    took, stops = cancelled_work(0.1, lambda: release.wait(60))
    assert 0.05 < took < 30
    assert stops == 1
    release.set()  # its answer finds a closed loop
    for thread in threading.enumerate():
        if thread.name == "polyloop-work":
            assert thread.daemon
            thread.join(60)
            assert not thread.is_alive()
