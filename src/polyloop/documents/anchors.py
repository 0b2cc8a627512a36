"""Where a comment stands: a stretch of a block's text that is found again however the text was edited around it.

An anchor keeps the text it was made in. What it has become is told by what did not change between that text and the text now: a
stretch inside an unchanged part is `kept` and exact; one that was itself edited is `changed` and covers what stands in its place. One
whose block went away is looked for elsewhere (`moved`); if it is nowhere it is `gone`, and still says what it was about. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

from msgspec import Struct

#: Characters kept on each side of a stretch.
AROUND: Final = 1_000
#: Up to so many pairs of characters the parts that differ are compared with one another.
PAIRS: Final = 1_000_000
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


def stands(anchor: Anchor, blocks: Sequence[tuple[str, str]]) -> Stands:
    """What became of an anchor among the blocks (id, text) there are now."""
    texts = dict(blocks)
    here = texts.get(anchor.block_id)
    if here is not None:
        start, end, exact = _followed(anchor, here)
        if exact or start < end or not anchor.quote:
            return Stands("kept" if exact else "changed", anchor.block_id, start, end, here[start:end])
    found = [(block, at) for block, text in blocks if len(anchor.quote) >= SHORTEST and (at := text.find(anchor.quote)) >= 0]
    if len(found) == 1 and texts[found[0][0]].count(anchor.quote) == 1:
        block, at = found[0]
        return Stands("moved", block, at, at + len(anchor.quote), anchor.quote)
    return Stands("gone", anchor.block_id, 0, 0, anchor.quote)


def _followed(anchor: Anchor, now: str) -> tuple[int, int, bool]:
    """Start and end in the text now, and whether all of the stretch is as it was."""
    old, low = anchor.around, anchor.start - anchor.offset
    high = low + len(anchor.quote)
    if now[anchor.offset : anchor.offset + len(old)] == old and (anchor.offset == 0 or now[anchor.start : anchor.end] == anchor.quote):
        return anchor.start, anchor.end, True
    equal = _equal(old, now)
    for a, b, size in (*equal, *_equal(old, now, tail_first=True)):  # where an edit can be read in two ways, in the one that spares it
        if a <= low and high <= a + size and low < high:
            return b + low - a, b + high - a, True
    start = next((b + max(low - a, 0) for a, b, size in equal if a + size > low), len(now))
    end = next((b + min(high - a, size) for a, b, size in reversed(equal) if a < high), 0)
    return start, max(start, end), False


def _equal(old: str, now: str, *, tail_first: bool = False) -> list[tuple[int, int, int]]:
    """The stretches both texts share, in order, as (place in old, place in now, length)."""
    shortest = min(len(old), len(now))
    if tail_first:
        tail = _shared(old[::-1], now[::-1], shortest)
        head = _shared(old, now, shortest - tail)
    else:
        head = _shared(old, now, shortest)
        tail = _shared(old[::-1], now[::-1], shortest - head)
    a, b = old[head : len(old) - tail], now[head : len(now) - tail]
    middle = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks() if len(a) * len(b) <= PAIRS else ()
    found = [(0, 0, head), *((head + x, head + y, size) for x, y, size in middle), (len(old) - tail, len(now) - tail, tail)]
    return [part for part in found if part[2]]


def _shared(one: str, other: str, most: int) -> int:
    """How many characters both begin with, at most `most`."""
    return next((n for n in range(most) if one[n] != other[n]), most)
