"""What became of the blocks between two revisions, and inside a changed block of its words; as data and as a page to read. Pure.

Blocks are first told by their ids, which edits keep; where all of a stretch was written anew, by what they say. What is compared
with one another is bounded, for each pair and for all of one comparison: beyond that a stretch is told as replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html import escape
from typing import Any, Final, Literal

from msgspec import Struct, structs

from ..formats.blocks import Block
from .anchors import differ
from .content import Kept

Kind = Literal["same", "added", "removed", "changed", "moved"]
#: Pairs of words, or of blocks, up to which two stretches are compared with one another.
PAIRS: Final = 1_000_000
BUDGET: Final = 10 * PAIRS
#: How alike two texts must be for one to be the other, changed.
ALIKE: Final = 0.5
_PIECE: Final = re.compile(
    r"\s+|[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W\u3005-\u3007\u3040-\u9fff\uac00-\ud7af]+|.", re.DOTALL
)


class Budget:
    """The pairs that one comparison may still compare."""

    def __init__(self, left: int = BUDGET) -> None:
        self.left = left

    def allows(self, one: int, other: int) -> bool:
        """Whether stretches so long may be compared; if so, it is spent."""
        fits = one * other <= min(PAIRS, self.left)
        self.left -= one * other if fits else 0
        return fits


class Change(Struct, frozen=True):
    """One block: before (None = it was not there) and after. A moved one stands where it stands now."""

    kind: Kind
    before: Kept | None
    after: Kept | None

    @property
    def block(self) -> Kept:
        """As it stands now, or last stood."""
        found = self.after or self.before
        assert found is not None
        return found


def changes(before: Sequence[Kept], after: Sequence[Kept], budget: Budget | None = None) -> list[Change]:
    """Every block of both sides once, in the order of reading."""
    budget = budget or Budget()
    was, now = {k.id: k for k in before}, {k.id: k for k in after}
    out: list[Change] = []
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, [k.id for k in before], [k.id for k in after], autojunk=False).get_opcodes():
        if tag == "equal":
            out += [_one(x, y) for x, y in zip(before[a1:a2], after[b1:b2], strict=True)]
            continue
        gone, come = [k for k in before[a1:a2] if k.id not in now], after[b1:b2]
        fresh = [k for k in come if k.id not in was]
        rest = iter(_rewritten(gone, fresh, budget))
        for k in come:
            if k.id in was:
                out.append(_one(was[k.id], k, moved=True))
            else:
                out += _until(rest, k)
        out += rest
    return out


def _one(before: Kept, after: Kept, *, moved: bool = False) -> Change:
    same = _said(before.block) == _said(after.block)
    return Change("changed" if not same else "moved" if moved else "same", before, after)


def _said(block: Block) -> Block:
    """A block as it reads, wherever it stood in whichever source."""
    return structs.replace(block, source=None, span=None, order=-1)


def _until(rest: Iterator[Change], after: Kept) -> Iterator[Change]:
    for change in rest:
        yield change
        if change.after is after:
            return


def _rewritten(gone: Sequence[Kept], come: Sequence[Kept], budget: Budget) -> list[Change]:
    """Blocks with new ids told by what they say; every one of both sides once, new ones in their order."""
    out: list[Change] = []
    one, other = [(k.block.type, k.block.text) for k in gone], [(k.block.type, k.block.text) for k in come]
    known = budget.allows(len(one), len(other))
    parts = SequenceMatcher(None, one, other, autojunk=False).get_opcodes() if known else _all_anew(one, other)
    for tag, a1, a2, b1, b2 in parts:
        if tag == "equal":
            out += [_one(x, y) for x, y in zip(gone[a1:a2], come[b1:b2], strict=True)]
            continue
        olds, news = list(gone[a1:a2]), come[b1:b2]
        for new in news:
            if olds and _alike(olds[0].block, new.block, budget):
                out.append(_one(olds.pop(0), new))
            else:
                out.append(Change("added", None, new))
        out += [Change("removed", old, None) for old in olds]
    return out


def _all_anew(one: Sequence[Any], other: Sequence[Any]) -> list[tuple[str, int, int, int, int]]:
    return [("replace", 0, len(one), 0, len(other))]


def _alike(one: Block, other: Block, budget: Budget) -> bool:
    """What both begin and end with counts first; only what is left is compared."""
    a0, a1, b0, b1 = differ(one.text, other.text)
    most = (len(one.text) + len(other.text)) * ALIKE / 2
    same = len(one.text) - (a1 - a0)
    if one.type != other.type or same >= most or same + min(a1 - a0, b1 - b0) < most:
        return one.type == other.type and same >= most
    left = SequenceMatcher(None, one.text[a0:a1], other.text[b0:b1], autojunk=False)
    if same + left.quick_ratio() * (a1 - a0 + b1 - b0) / 2 < most or not budget.allows(a1 - a0, b1 - b0):
        return False
    return same + sum(part.size for part in left.get_matching_blocks()) >= most


def words(before: str, after: str, budget: Budget | None = None) -> list[tuple[str, str]]:
    """What stayed (=), went (-) and came (+) inside a text, in order."""
    one, other = _PIECE.findall(before), _PIECE.findall(after)
    a0, a1, b0, b1 = differ(one, other)
    left, right = one[a0:a1], other[b0:b1]
    known = (budget or Budget()).allows(len(left), len(right))
    parts = SequenceMatcher(None, left, right, autojunk=False).get_opcodes() if known else _all_anew(left, right)
    out = [("=", "".join(one[:a0]))]
    for tag, x1, x2, y1, y2 in parts:
        out += [("=", "".join(left[x1:x2]))] if tag == "equal" else [("-", "".join(left[x1:x2])), ("+", "".join(right[y1:y2]))]
    return [(mark, text) for mark, text in (*out, ("=", "".join(one[a1:]))) if text]


def told(change: Change, budget: Budget | None = None) -> dict[str, Any]:
    """A change as plain data."""
    before, after, block = change.before, change.after, change.block.block
    out: dict[str, Any] = {"kind": change.kind, "blockId": change.block.id, "type": block.type}
    if change.kind == "changed" and before is not None and after is not None:
        out["words"] = [list(part) for part in words(before.block.text, after.block.text, budget)]
        more = [n for n in Block.__struct_fields__ if n not in _CARRIED and getattr(before.block, n) != getattr(after.block, n)]
        return out | ({"fields": more} if more else {}) | ({"before": before.id} if before.id != after.id else {})
    return out | {"text": block.text}


#: Fields of a block that are told as text, or say only where it stood.
_CARRIED: Final = frozenset({"runs", "table", "source", "span", "order"})
_STYLE: Final = (
    "body{font:16px/1.6 system-ui,sans-serif;max-width:48rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}"
    "div{white-space:pre-wrap;padding:.15rem .75rem;border-left:.25rem solid transparent;overflow-wrap:anywhere}"
    "ins{background:#d8f5dd;text-decoration:none}del{background:#fde0df}"
    ".added{border-color:#2c974b}.removed{border-color:#cf222e}.changed{border-color:#bf8700}.moved{border-color:#0969da}"
    ".heading{font-weight:600;font-size:1.15em}.code,.raw,.formula{font-family:ui-monospace,monospace}.left{color:#666}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}ins{background:#164a25}del{background:#5a1d1c}}"
)
#: Unchanged blocks shown around a change.
CONTEXT: Final = 2


def page(title: str, found: Sequence[Change], budget: Budget | None = None) -> str:
    """A self-contained page: what went is struck, what came is marked, long unchanged stretches are left out."""
    budget = budget or Budget()
    shown = {n + k for n, change in enumerate(found) if change.kind != "same" for k in range(-CONTEXT, CONTEXT + 1)}
    lines = [f'<!doctype html><html><head><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style></head><body>']
    lines.append(f"<h1>{escape(title)}</h1>")
    skipped = 0
    for n, change in enumerate(found):
        if n not in shown:
            skipped += 1
            continue
        lines += [f'<div class="left">⋯ {skipped}</div>'] if skipped else []
        skipped = 0
        lines.append(f'<div class="{change.kind} {change.block.block.type}">{_marked(change, budget)}</div>')
    lines += [f'<div class="left">⋯ {skipped}</div>'] if skipped else []
    return "\n".join([*lines, "</body></html>", ""])


def _marked(change: Change, budget: Budget) -> str:
    before, after, text = change.before, change.after, escape(change.block.block.text)
    if change.kind == "changed" and before is not None and after is not None:
        tags = {"=": "{}", "-": "<del>{}</del>", "+": "<ins>{}</ins>"}
        return "".join(tags[mark].format(escape(part)) for mark, part in words(before.block.text, after.block.text, budget))
    return {"added": f"<ins>{text}</ins>", "removed": f"<del>{text}</del>"}.get(change.kind, text)
