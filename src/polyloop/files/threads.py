"""Blocking work off the event loop, with cancellation that stays true: it is over when the thread is over."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T], stop: Callable[[], None], patience_s: float | None = None) -> T:
    """Run `work` in a thread of its own and return or raise what it does.

    Cancelled, it calls `stop` once and waits until `work` has ended (`patience_s` at most; None = as long as it takes)
    before CancelledError goes on, so that nothing is still happening when the caller believes it is not. A thread that
    outlasts the patience is left behind; it never keeps the process from exiting.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[T | None, BaseException | None]] = loop.create_future()

    def body() -> None:
        try:
            ended: tuple[T | None, BaseException | None] = (work(), None)
        except BaseException as error:  # it belongs to the caller, whatever it is
            ended = (None, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(ended))

    threading.Thread(target=body, name="polyloop-work", daemon=True).start()
    cancelled: asyncio.CancelledError | None = None
    until: float | None = None
    while not done.done():
        try:
            await asyncio.wait({done}, timeout=None if until is None else until - loop.time())
        except asyncio.CancelledError as asked:
            if cancelled is None:
                stop()
                until = None if patience_s is None else loop.time() + patience_s
            cancelled = asked
        if until is not None and loop.time() >= until:
            break
    if cancelled is not None:
        raise cancelled
    value, error = done.result()
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # None only if T allows it
