"""The block tree every format is read into and written from.

A document is a flat row of blocks in reading order; `depth` says how many containers (list items, quotes) a block sits in,
so a block's children are the deeper ones that follow it. Flat rows cost one stored row each and keep their order by themselves.
A list item or quote carries the text of its first paragraph as its own runs; further content follows as children.
Text for people and text for search is `Block.text`: the runs, joined. Numbers that a word processor computed stand apart in
`label`, because no other extractor would find them in the text. `Run.wrap` marks a line end that belongs to the source only
(hard-wrapped text, a PDF line): it is in `text`, so that a quote is verbatim in the file, and no writer breaks a line for it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from msgspec import Struct, structs

if TYPE_CHECKING:
    from collections.abc import Sequence

BlockType = Literal[
    "heading", "paragraph", "bulleted", "numbered", "todo", "quote", "code", "table", "divider", "image", "file", "formula", "raw",
]  # fmt: skip
BLOCK_TYPES: Final[tuple[BlockType, ...]] = get_args(BlockType)
LIST_TYPES: Final[frozenset[str]] = frozenset({"bulleted", "numbered", "todo"})
CONTAINER_TYPES: Final[frozenset[str]] = LIST_TYPES | {"quote"}

Align = Literal["", "left", "center", "right"]
Unit = Literal["line", "paragraph", "table", "footnote"]


_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


class Run(Struct, frozen=True, omit_defaults=True):
    """A stretch of text with the same marks. `link` is the target as written; writers decide which schemes they let through."""

    text: str
    bold: bool = False
    italic: bool = False
    code: bool = False
    strike: bool = False
    link: str = ""
    wrap: bool = False


class Cell(Struct, frozen=True, omit_defaults=True):
    """One table cell. A spanned place holds no cell of its own (as in HTML)."""

    runs: tuple[Run, ...] = ()
    colspan: int = 1
    rowspan: int = 1

    @property
    def text(self) -> str:
        return text_of(self.runs)


class Table(Struct, frozen=True, omit_defaults=True):
    """Rows of cells; the first `header_rows` rows are heads; `aligns` per column, when the source says."""

    rows: tuple[tuple[Cell, ...], ...]
    header_rows: int = 0
    aligns: tuple[Align, ...] = ()


class Span(Struct, frozen=True, omit_defaults=True):
    """Where a block stands in its file, counted from 1.

    md, txt: lines `start..end`. docx: the n-th body paragraph, table or footnote. pdf: lines of `page`; a block that runs on to
    `end_page` has its `turn`-th text line (from 0) as the first one there, and `end` counts on that page.
    """

    unit: Unit
    start: int
    end: int
    page: int = 0
    end_page: int = 0
    turn: int = 0


class Block(Struct, frozen=True, omit_defaults=True):
    """One block. Change it with `edited`: `source` is what an untouched block is written back from, byte for byte.

    `level`: 1-9 of a heading. `number`: shown number of a numbered item. `label`: computed numbering such as `（一）`. `done`: of a
    todo. `info`: language of code, syntax of raw. `src`: of image and file. `order`: position in the file it was read from, -1 if new.
    """

    type: BlockType
    runs: tuple[Run, ...] = ()
    level: int = 0
    depth: int = 0
    number: int = 0
    label: str = ""
    done: bool = False
    info: str = ""
    src: str = ""
    table: Table | None = None
    span: Span | None = None
    source: str | None = None
    order: int = -1

    @property
    def text(self) -> str:
        """Plain text: runs joined; a table as tab-separated cells, a line per row."""
        if self.table is None:
            return text_of(self.runs)
        return "\n".join("\t".join(cell.text for cell in row) for row in self.table.rows)

    def edited(self, **changes: Any) -> Block:
        """A copy with these fields changed, which no longer claims to be the source's bytes."""
        return structs.replace(self, **({"source": None} | changes))


class Loss(Struct, frozen=True, omit_defaults=True):
    """Something the block tree (or a format written) cannot carry. `code` has its sentence in `words.losses`; `detail` names an instance."""

    code: str
    count: int = 1
    detail: str = ""


class Document(Struct, frozen=True, omit_defaults=True):
    """What was read: `format` is md, txt, html, docx, pdf, csv, xlsx, or blocks for one made in memory. `title` is empty when the file names none."""

    blocks: tuple[Block, ...]
    losses: tuple[Loss, ...] = ()
    title: str = ""
    name: str = ""
    format: str = "blocks"

    @property
    def text(self) -> str:
        return "\n".join(block.label + block.text for block in self.blocks)

    @property
    def lang(self) -> str:
        """`zh` when a fifth of the letters are Chinese, else `en`."""
        sample = "".join(block.text[:2_000] for block in self.blocks[:500])
        chinese = sum(map(is_cjk, sample))
        latin = sum(char.isascii() and char.isalpha() for char in sample)
        return "zh" if chinese * 4 > latin or not latin else "en"


class Node(Struct):
    """A block with its children, for writers that nest."""

    block: Block
    children: list[Node]


def nodes(blocks: tuple[Block, ...]) -> list[Node]:
    """The tree that `depth` spells. A block deeper than any container before it hangs on the last container there is."""
    root: list[Node] = []
    open_nodes: list[Node] = []
    for block in blocks:
        while open_nodes and open_nodes[-1].block.depth >= block.depth:
            open_nodes.pop()
        node = Node(block, [])
        (open_nodes[-1].children if open_nodes else root).append(node)
        if block.type in CONTAINER_TYPES:
            open_nodes.append(node)
    return root


def grid(table: Table) -> list[list[tuple[int, int] | None]]:
    """For each place of the table the (row, cell index) that covers it, spans spread out; None where a row is short."""
    places: dict[tuple[int, int], tuple[int, int]] = {}
    width = 0
    for at_row, row in enumerate(table.rows):
        column = 0
        for at_cell, cell in enumerate(row):
            while (at_row, column) in places:
                column += 1
            for down in range(min(cell.rowspan, len(table.rows) - at_row)):
                for right in range(cell.colspan):
                    places.setdefault((at_row + down, column + right), (at_row, at_cell))
            column += cell.colspan
        width = max(width, column)
    return [[places.get((row, column)) for column in range(width)] for row in range(len(table.rows))]


def text_of(runs: tuple[Run, ...]) -> str:
    return "".join(run.text for run in runs)


def shown(block: Block) -> tuple[Run, ...]:
    """What a reader must see of a block: its runs with the computed label before them; a picture or file by its name."""
    if block.type in ("image", "file"):
        return (Run(block.text or block.src, link=block.src),)
    return (Run(block.label + (" " if block.label.isascii() else "")), *block.runs) if block.label else block.runs


def joined(runs: list[Run]) -> tuple[Run, ...]:
    """Neighbours with the same marks become one run; empty runs go."""
    out: list[Run] = []
    for run in runs:
        if not run.text:
            continue
        if out and not run.wrap and structs.replace(out[-1], text="") == structs.replace(run, text=""):
            out[-1] = structs.replace(run, text=out[-1].text + run.text)
        else:
            out.append(run)
    return tuple(out)


def printable(text: str) -> str:
    """Without the characters that XML and HTML cannot carry (controls, lone surrogates, non-characters)."""
    return _UNPRINTABLE.sub("", text)


def is_cjk(char: str) -> bool:
    """An ideograph (radical forms that PDF fonts yield included)."""
    return "\u4e00" <= char <= "\u9fff" or "\u3400" <= char <= "\u4dbf" or "\u2e80" <= char <= "\u2fdf" or char >= "\U00020000"


def is_wide(char: str) -> bool:
    """Printed without a space to its neighbours: an ideograph or CJK punctuation."""
    return is_cjk(char) or "\u3000" <= char <= "\u30ff" or "\uff00" <= char <= "\uffef"


def joint(before: str, after: str) -> str:
    """What stands for a line end between two texts when lines are set as one: nothing next to Chinese or in a word with a hyphen, else a blank."""
    before, after = before[-2:], after[:1]
    if (before and is_wide(before[-1])) or (after and is_wide(after)):
        return ""
    return "" if after.isalnum() and before[-1:] == "-" and before[0].isalnum() else " "


def joint_at(runs: Sequence[Run], at: int) -> str:
    """`joint` for the wrapped line end that is this run."""
    return joint(runs[at - 1].text if at else "", runs[at + 1].text if at + 1 < len(runs) else "")
