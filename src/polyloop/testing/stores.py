"""Logs for tests: one in memory, and one that fails where it is told to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from polyloop.kernel.seams import Log, Sealed, StoreError, StoreUnknown, Stream
from polyloop.stores.memory import MemoryLog as MemoryStore

__all__ = ["FaultyLog", "MemoryStore"]

#: `error`: nothing is written and that is known. `before`, `after`: the fate is not known; it was not, or was, written.
Fault = Literal["error", "before", "after"]


class FaultyLog:
    """Wraps a log: appends are counted from 1, and those that `faults` names fail so. All else is the wrapped log's own."""

    def __init__(self, log: Log, faults: Mapping[int, Fault]) -> None:
        self._log, self._faults = log, dict(faults)
        self.appends = 0

    async def append(self, stream: Stream, records: Sequence[Sealed], fence: int, blobs: Mapping[str, bytes]) -> int:
        self.appends += 1
        fault = self._faults.get(self.appends)
        if fault == "error":
            raise StoreError(f"append {self.appends} was told to fail")
        if fault == "before":
            raise StoreUnknown(f"append {self.appends} was told to be lost")
        number = await self._log.append(stream, records, fence, blobs)
        if fault == "after":
            raise StoreUnknown(f"the answer to append {self.appends} was told to be lost")
        return number

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._log, verb)
