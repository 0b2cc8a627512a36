"""Where a comment stands: a stretch of a block's text that is found again however the text was edited around it.

An anchor keeps the text it was made in. What it has become is told by what did not change between that text and the text now: a
stretch inside an unchanged part is `kept` and exact; one that was itself edited is `changed` and covers what stands in its place. One
whose block went away is looked for elsewhere (`moved`); if it is nowhere it is `gone`, and still says what it was about. In a long block
only what lies between the nearest pieces that are still there is compared; beyond the budget a stretch that was edited itself is told as
changed, or as gone, and never as kept. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

from msgspec import Struct

#: Characters kept on each side of a stretch.
AROUND: Final = 1_000
#: Up to so many pairs of characters the parts that differ are compared with one another; for all anchors asked about together.
PAIRS: Final = 1_000_000
BUDGET: Final = 2 * PAIRS
#: In texts of more pairs the place of a stretch is first found by what stands around it, in pieces of at least so many characters.
SEED: Final = 24
#: A stretch as short as this is not looked for in other blocks.
SHORTEST: Final = 4

State = Literal["kept", "changed", "moved", "gone"]


class Anchor(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """`start`, `end` = characters (code points) of the block's text when it was made; `around` = that text from `offset` on."""

    block_id: str
    start: int
    end: int
    quote: str
    revision: int
    around: str = ""
    offset: int = 0


class Stands(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Where it stands now. `quote` = the text there; of what is gone, the text it was made on."""

    state: State
    block_id: str
    start: int
    end: int
    quote: str


def made(block_id: str, text: str, start: int, end: int, revision: int) -> Anchor:
    first = max(start - AROUND, 0)
    return Anchor(block_id, start, end, text[start:end], revision, text[first : end + AROUND], first)


Equal = Sequence[tuple[int, int, int]]


def stands(anchor: Anchor, blocks: Sequence[tuple[str, str]]) -> Stands:
    """What became of an anchor among the blocks (id, text) there are now."""
    return Texts(blocks).stands(anchor)


class Texts:
    """The blocks (id, text) there are now. What is compared for one anchor is not compared again for the next."""

    def __init__(self, blocks: Sequence[tuple[str, str]]) -> None:
        self._texts = dict(blocks)
        self._compared: dict[tuple[str, str, bool], Equal] = {}
        self._left = BUDGET

    def stands(self, anchor: Anchor) -> Stands:
        """What became of an anchor."""
        here = self._texts.get(anchor.block_id)
        if here is not None and (found := self._followed(anchor, here)) is not None:
            start, end, exact = found
            if exact or start < end or not anchor.quote:
                return Stands("kept" if exact else "changed", anchor.block_id, start, end, here[start:end])
        known = len(anchor.quote) >= SHORTEST
        places = [(block, at) for block, text in self._texts.items() if known and (at := text.find(anchor.quote)) >= 0]
        if len(places) == 1 and self._texts[places[0][0]].count(anchor.quote) == 1:
            block, at = places[0]
            return Stands("moved", block, at, at + len(anchor.quote), anchor.quote)
        return Stands("gone", anchor.block_id, 0, 0, anchor.quote)

    def _followed(self, anchor: Anchor, now: str) -> tuple[int, int, bool] | None:
        """Start and end in the text now, and whether all of the stretch is as it was; None = nothing there is known again."""
        old, low = anchor.around, anchor.start - anchor.offset
        high = low + len(anchor.quote)
        if now[anchor.offset : anchor.offset + len(old)] == old:
            return anchor.start, anchor.end, True
        wide = len(old) * len(now) > PAIRS
        for reach in (AROUND, *([AROUND >> n for n in range(1, 6)] if wide else ())):
            first = max(low - reach, 0)
            if (at := _once(old[first : high + reach], now)) is not None:
                return at + low - first, at + high - first, True
        a0, b0, a1, b1 = 0, 0, len(old), len(now)
        if wide:
            near = _near(old, now, low, high)
            if near is None:
                return None
            a0, b0, a1, b1 = near
        parts: list[Equal] = []
        for tail_first in (False, True):  # where an edit can be read in two ways, in the one that spares it
            parts.append([(a0 + a, b0 + b, size) for a, b, size in self._equal(old[a0:a1], now[b0:b1], tail_first=tail_first)])
            for a, b, size in parts[-1]:
                if a <= low and high <= a + size and low < high:
                    return b + low - a, b + high - a, True
        start = next((b + max(low - a, 0) for a, b, size in parts[0] if a + size > low), b1)
        end = next((b + min(high - a, size) for a, b, size in reversed(parts[0]) if a < high), b0)
        return start, max(start, end), False

    def _equal(self, old: str, now: str, *, tail_first: bool) -> Equal:
        """The stretches both texts share, in order, as (place in old, place in now, length)."""
        key = (old, now, tail_first)
        if key not in self._compared:
            a0, a1, b0, b1 = differ(old, now, tail_first=tail_first)
            cost = (a1 - a0) * (b1 - b0)
            fits = cost <= min(PAIRS, self._left)
            self._left -= cost if fits else 0
            middle = SequenceMatcher(None, old[a0:a1], now[b0:b1], autojunk=False).get_matching_blocks() if fits else ()
            found = [(0, 0, a0), *((a0 + x, b0 + y, size) for x, y, size in middle), (a1, b1, len(old) - a1)]
            self._compared[key] = [part for part in found if part[2]]
        return self._compared[key]


def _once(part: str, text: str) -> int | None:
    """Where a part stands in a text that holds it once."""
    at = text.find(part) if part else -1
    return at if at >= 0 and text.find(part, at + 1) < 0 else None


def _near(old: str, now: str, low: int, high: int) -> tuple[int, int, int, int] | None:
    """The part of both texts around a stretch of the old one, as from and to in each; None = nothing around it is known again."""
    before = ((low - far - size, size) for far, size in _pieces(low))
    after = ((high + far, size) for far, size in _pieces(len(old) - high))
    left = next(((a, b) for a, size in before if (b := _once(old[a : a + size], now)) is not None), None)
    right = next(((a + size, b + size) for a, size in after if (b := _once(old[a : a + size], now)) is not None), None)
    if left is None and right is None:
        return None
    if left is not None and right is not None and left[1] <= right[1]:
        return *left, *right
    if left is not None:
        return *left, len(old), min(left[1] + len(old) - left[0] + AROUND, len(now))
    assert right is not None
    return 0, max(right[1] - right[0] - AROUND, 0), *right


def _pieces(length: int) -> Iterator[tuple[int, int]]:
    """How far off, and how long, the pieces are that are looked for beside a stretch: long ones first, of those the nearest."""
    size = length
    while size >= SEED:
        yield from ((far, size) for far in range(0, length - size + 1, size))
        size //= 2


def differ(old: Sequence[object], now: Sequence[object], *, tail_first: bool = False) -> tuple[int, int, int, int]:
    """What is left of both without what they begin and end with alike: from and to of the one, from and to of the other."""
    shortest = min(len(old), len(now))
    if tail_first:
        tail = _shared(old[::-1], now[::-1], shortest)
        head = _shared(old, now, shortest - tail)
    else:
        head = _shared(old, now, shortest)
        tail = _shared(old[::-1], now[::-1], shortest - head)
    return head, len(old) - tail, head, len(now) - tail


def _shared(one: Sequence[object], other: Sequence[object], most: int) -> int:
    """How much both begin with, at most `most`."""
    return next((n for n in range(most) if one[n] != other[n]), most)
