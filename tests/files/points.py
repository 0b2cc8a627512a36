"""Which system calls of a writer are struck."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("POLYLOOP_SOAK"))


def sampled(points: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """(call, its number) -> all of them in a soak; else the first and last of each kind of call, and every third."""
    kinds = [call for call, _ in points]
    ends = {kinds.index(call) for call in kinds} | {len(kinds) - 1 - kinds[::-1].index(call) for call in kinds}
    return [point for at, point in enumerate(points) if SOAK or at in ends or at % 3 == 0]
