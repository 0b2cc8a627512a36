"""One coroutine to its end in a loop of its own. As `asyncio.run`, but work that ignores its cancellation holds nobody back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

#: Seconds that tasks left over may take to stop. Those of a run have had their grace already.
REST_S: Final = 0.5


def carried_out(work: Coroutine[Any, Any, T]) -> T:
    """Its result, or what it raises. Tasks left over are cancelled and waited for shortly; threads are not waited for (S2.23)."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        try:
            _stop(loop)
        finally:
            loop.close()


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    if rest:
        loop.run_until_complete(asyncio.wait(rest, timeout=REST_S))
    loop.run_until_complete(loop.shutdown_asyncgens())
