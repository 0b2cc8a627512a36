"""A source that keeps failing is left alone for a while. Pure: the time is given."""

from __future__ import annotations

from .settings import Breaking


class Breaker:
    """Closed, open, half-open: after `open_s` one call may try; its outcome decides."""

    def __init__(self, limits: Breaking) -> None:
        self._limits = limits
        self._failures = 0
        self._opened: float | None = None
        self._trying = False

    def admits(self, now: float) -> bool:
        """Whether a call may go out; in the half-open state this takes the one try."""
        if self._opened is None:
            return True
        if self._trying or now - self._opened < self._limits.open_s:
            return False
        self._trying = True
        return True

    def succeeded(self) -> None:
        """The source answered, whatever it said."""
        self._failures, self._opened, self._trying = 0, None, False

    def failed(self, now: float) -> None:
        self._failures += 1
        if self._trying or self._failures >= self._limits.failures:
            self._opened = now
        self._trying = False

    def cut(self) -> None:
        """The call was cancelled and proves nothing: the next one may try."""
        self._trying = False
