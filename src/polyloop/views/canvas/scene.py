"""What a canvas looks like, as marks of four kinds that any painter can draw: boxes, arcs between boxes, lines of text,
pictures.

Lines are broken here, by widths that hold for the shipped font, so that a picture is the same whoever paints it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from polyloop.canvas import storyboard, table
from polyloop.canvas.model import Node, Row
from polyloop.formats.blocks import is_wide
from polyloop.words.catalog import Lang

from .board import PICTURES, Asset, Board, body_text, measures, number_of, plain, standing

MARGIN: Final = 60
TITLE_SIZE: Final = 20
TEXT_SIZE: Final = 16
LINE: Final = 1.45
PAD: Final = 14
HEAD: Final = 36
#: The colour of a node's head, by type: readable under white letters.
HEADS: Final = {
    "text": "#5b6472", "markdown": "#5b6472", "image": "#1f7a4d", "video": "#6a3fa0", "audio": "#a3541b", "script": "#1d5fa8",
    "batch-table": "#0f6f7c", "frame": "#8a8f98", "character": "#a02f5f",
}  # fmt: skip
PAPER, CARD, INK, LOCK, ARC, FRAME = "#f4f5f7", "#ffffff", "#20242b", "#c0392b", "#7d8796", "#dfe3e8"


class Rect(Struct, frozen=True, kw_only=True):
    x: float
    y: float
    w: float
    h: float
    fill: str
    stroke: str = ""
    radius: float = 0


class Arc(Struct, frozen=True, kw_only=True):
    """From the right side of one box to the left side of another, ending in an arrow head."""

    x1: float
    y1: float
    x2: float
    y2: float

    @property
    def bend(self) -> float:
        """How far its handles reach out."""
        return max(40, abs(self.x2 - self.x1) / 2)


class Line(Struct, frozen=True, kw_only=True):
    """One line of text; `y` is its baseline."""

    x: float
    y: float
    size: float
    text: str
    fill: str = INK
    bold: bool = False


class Picture(Struct, frozen=True, kw_only=True):
    """A file of the canvas, drawn whole inside a box."""

    x: float
    y: float
    w: float
    h: float
    asset: Asset


Mark = Rect | Arc | Line | Picture


class Scene(Struct, frozen=True):
    """`x`, `y`, `width`, `height`: the part of the canvas that is seen."""

    x: int
    y: int
    width: int
    height: int
    marks: Sequence[Mark]


def scene(board: Board, lang: Lang = "zh") -> Scene:
    """The whole canvas with a margin; an empty one is an empty sheet."""
    nodes = board.back_to_front
    left, top = min((n.x for n in nodes), default=0), min((n.y for n in nodes), default=0)
    right, bottom = max((n.x + n.width for n in nodes), default=400), max((n.y + n.height for n in nodes), default=200)
    by_id = {n.id: n for n in nodes}
    marks: list[Mark] = [mark for n in nodes if n.type == "frame" for mark in _frame(n)]
    ends = [(by_id[e.source], by_id[e.target]) for e in board.edges if e.source in by_id and e.target in by_id]
    marks += [Arc(x1=a.x + a.width, y1=a.y + a.height / 2, x2=b.x, y2=b.y + b.height / 2) for a, b in ends]
    marks += [mark for n in nodes if n.type != "frame" for mark in _card(n, board, lang)]
    return Scene(left - MARGIN, top - MARGIN, right - left + 2 * MARGIN, bottom - top + 2 * MARGIN, marks)


def _frame(node: Node) -> Iterator[Mark]:
    yield Rect(x=node.x, y=node.y, w=node.width, h=node.height, fill=FRAME, stroke=HEADS["frame"], radius=12)
    yield from _text(node.title, node.x + PAD, node.y + 26, node.width - 2 * PAD, 1, size=TITLE_SIZE, bold=True)


def _card(node: Node, board: Board, lang: Lang) -> Iterator[Mark]:
    head = HEADS.get(node.type, HEADS["frame"])
    yield Rect(x=node.x, y=node.y, w=node.width, h=node.height, fill=CARD, stroke=LOCK if node.locked else head, radius=10)
    yield Rect(x=node.x, y=node.y, w=node.width, h=min(HEAD, node.height), fill=head, radius=10)
    if node.height < HEAD:
        return
    state = standing(node, lang)
    beside = width_of(state, TEXT_SIZE) + PAD if state else 0
    yield from _text(node.title or node.type, node.x + PAD, node.y + 25, node.width - 2 * PAD - beside, 1, size=TITLE_SIZE, bold=True, fill=CARD)
    yield from _text(state, node.x + node.width - beside, node.y + 24, beside, 1, size=TEXT_SIZE, fill=CARD)
    asset = board.assets.get(node.id)
    if asset and asset.data and asset.mime in PICTURES:
        if (width := node.width - 8) > 0 and (height := node.height - HEAD - 4) > 0:
            yield Picture(x=node.x + 4, y=node.y + HEAD, w=width, h=height, asset=asset)
        return
    room = int((node.height - HEAD - PAD) / (TEXT_SIZE * LINE))
    told = _told(node, board)
    yield from _text(told, node.x + PAD, node.y + HEAD + PAD + TEXT_SIZE * 0.6, node.width - 2 * PAD, room, size=TEXT_SIZE)


def _told(node: Node, board: Board) -> str:
    rows = board.rows.get(node.id, ())
    if node.type == storyboard.TYPE:
        return "\n".join(f"{number}  {number_of(row.body['durationSeconds'])} s  {_shot(row)}" for number, row in enumerate(rows, 1))
    if node.type == table.TYPE:
        return "\n".join(f"{'✓' if row.body['enabled'] else '–'}  {len(row.body['inputNodeIds'])}  {row.body['prompt']}" for row in rows)
    return "\n".join(part for part in (measures(node), body_text(node)) if part)


def _shot(row: Row) -> str:
    return " ".join(str(row.body.get("plotDescription") or row.body.get("videoMotionPrompt") or "").split())


# --- lines ------------------------------------------------------------------------------------------------------------


def width_of(text: str, size: float) -> float:
    """About how wide a text is in the shipped font."""
    return size * sum(map(_width, text))


@functools.lru_cache(maxsize=10_000)
def _width(character: str) -> float:
    """In units of the letter's size."""
    if is_wide(character):
        return 1.0
    return 0.3 if character in " .,:;'|!ijlI" else 0.62 if character.islower() or character.isdigit() else 0.78


def _text(text: str, x: float, y: float, width: float, room: int, *, size: float, bold: bool = False, fill: str = INK) -> Iterator[Line]:
    for number, line in enumerate(broken(text, width, size, room)):
        yield Line(x=x, y=y + number * size * LINE, size=size, text=line, bold=bold, fill=fill)


def broken(text: str, width: float, size: float, room: int) -> list[str]:
    """At most `room` lines, none wider than `width`; what does not fit ends in an ellipsis. Words are kept whole where they can be."""
    lines = list[str]()
    for paragraph in plain(text).splitlines():
        rest = paragraph.strip()
        while rest and len(lines) <= room:
            cut = _cut(rest, width, size)
            lines.append(rest[:cut].rstrip())
            rest = rest[cut:].lstrip()
        if len(lines) > room:
            break
    if len(lines) <= room:
        return lines
    kept = lines[: max(0, room)]
    return [*kept[:-1], _ended(kept[-1], width, size)] if kept else []


def _cut(text: str, width: float, size: float) -> int:
    """How many characters of a text go on one line; always one at least."""
    used, end = 0.0, len(text)
    for at, character in enumerate(text):
        used += _width(character)
        if used * size > width:
            end = max(1, at)
            break
    if end == len(text):
        return end
    blank = text.rfind(" ", 1, end + 1)
    return blank if blank > 0 and not is_wide(text[end]) and not is_wide(text[end - 1]) else end


def _ended(line: str, width: float, size: float) -> str:
    while line and width_of(line + "…", size) > width:
        line = line[:-1]
    return f"{line}…"
