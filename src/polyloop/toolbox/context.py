"""What a tool's own code meets of the runtime: the context of its call, and the way to say that it failed."""

from __future__ import annotations

from collections.abc import Callable


class ToolFailed(Exception):
    """Raise it in a tool: it did not do what was asked, and the text says why. The call's status is `error`."""


class ToolContext:
    """What a tool may know of its own call: annotate a parameter with it and the model never sees that parameter.

    `key` is the idempotency key of the intent: hand it to the service, so that `settle` can ask by it.
    """

    __slots__ = ("_stop", "call", "key", "run_id")

    def __init__(self, key: str, run_id: str, call: int, stop: Callable[[], bool] = lambda: False) -> None:
        self.key, self.run_id, self.call, self._stop = key, run_id, call, stop

    @property
    def cancelled(self) -> bool:
        """True once the run wants this call to end. Only a thread needs to look: coroutines and workers are stopped."""
        return self._stop()
