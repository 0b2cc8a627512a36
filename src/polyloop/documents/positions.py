"""Where a block stands: texts of hex digits that sort as the blocks do, so that putting one in touches no other.

Appended blocks are numbered; between two there is always room for another.
"""

from __future__ import annotations

from typing import Final

_DIGITS: Final = 16


def numbered(number: int) -> str:
    """The position of the n-th block ever appended."""
    return f"{number:010x}"


def between(low: str, high: str) -> str:
    """A position after `low` ("" = the start) and before `high`. Never ends in 0, so that there is always one before it."""
    out = ""
    for at in range(max(len(low), len(high)) + 1):
        below = int(low[at], _DIGITS) if at < len(low) else 0
        above = int(high[at], _DIGITS) if at < len(high) else _DIGITS
        if above - below > 1:
            return out + f"{(below + above) // 2:x}"
        out += f"{below:x}"
        if above != below:
            high = ""  # already before it
    return out + "8"


def spread(low: str, high: str, count: int) -> list[str]:
    """`count` positions between two, in order, as short as halving makes them."""
    if count == 0:
        return []
    middle = between(low, high)
    left = (count - 1) // 2
    return [*spread(low, middle, left), middle, *spread(middle, high, count - 1 - left)]
