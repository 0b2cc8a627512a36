"""The only door to time."""

from __future__ import annotations

import time


class SystemClock:
    """Wall clock for records and leases, monotonic clock for durations."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that tests move by hand. `advance(s)` moves both hands; `skew(ms)` the wall only."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._mono = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._mono

    def advance(self, seconds: float) -> None:
        self._mono += seconds
        self._now_ms += round(seconds * 1000)

    def skew(self, ms: int) -> None:
        self._now_ms += ms
