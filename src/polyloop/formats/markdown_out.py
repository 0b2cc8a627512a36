"""Blocks to Markdown. A block that still has its source is written back as it stood; only the others are spelled anew."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from polyloop.formats.blocks import CONTAINER_TYPES, LIST_TYPES, Block, Document, Run, Table, grid, printable
from polyloop.formats.inline import markdown_of
from polyloop.formats.markdown_in import parser

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_MARKER: Final = re.compile(r"(?:[-+*]|\d{1,9}[.)])[ \t]+")
_RULES: Final = {"left": ":--", "center": ":-:", "right": "--:", "": "---"}


class _Container(Struct):
    """An open list item or quote: what lines inside it begin with, and whether the container itself was spelled anew.

    `first` is set while an item without text of its own waits for its first child, in whose line its marker must stand.
    """

    depth: int
    prefix: str
    anew: bool
    first: str = ""


def write_markdown(document: Document) -> bytes:
    """UTF-8. An unchanged tree read from UTF-8 Markdown gives the same bytes."""
    reader = parser()
    kept = document.format == "md"
    line_end = "\r\n" if kept and any("\r\n" in (block.source or "") for block in document.blocks) else "\n"
    out: list[str] = []
    opened: list[_Container] = []
    previous: Block | None = None
    for at, block in enumerate(document.blocks):
        while opened and opened[-1].depth >= block.depth:
            opened.pop()
        prefix = "".join(container.prefix for container in opened)
        verbatim = kept and _still_fits(document.blocks, at, prefix, opened)
        if (
            previous is not None
            and not any(container.first for container in opened)
            and not (verbatim and block.order == previous.order + 1 and _has_source(previous, kept))
        ):
            out.append(_gap(out, previous, block, prefix, line_end))
        waits = not verbatim and _waits_for_child(document.blocks, at)
        if verbatim:
            out.append(block.source or "")
        elif not waits:
            first = "".join(container.first or container.prefix for container in opened)
            lines = _spelled(block, reader)
            starts = [first, *[prefix] * (len(lines) - 1)]
            out.extend((start + line if line else start.rstrip()) + line_end for start, line in zip(starts, lines, strict=True))
        if not waits:
            previous = block
            opened = [structs.replace(container, first="") for container in opened]
        if block.type in CONTAINER_TYPES:
            marker = _marker(block) if waits else ""
            opened.append(_Container(block.depth, _inner(block, verbatim=verbatim), not verbatim, marker))
    return "".join(out).encode("utf-8", "surrogatepass")


def _has_source(block: Block, kept: bool) -> bool:  # noqa: FBT001 - a private predicate of two facts
    return kept and block.source is not None


def _still_fits(blocks: tuple[Block, ...], at: int, prefix: str, opened: list[_Container]) -> bool:
    """The source may stand: it is there, and under containers spelled anew its lines still begin as lines in them must."""
    block = blocks[at]
    if block.source is None:
        return False
    if block.source == "":  # its marker stands in the first child's line
        return at + 1 < len(blocks) and blocks[at + 1].order == block.order + 1 and blocks[at + 1].source is not None
    if not any(container.anew for container in opened):
        return True
    if any(container.first for container in opened):
        return False
    return all(line.startswith(prefix.rstrip()) for line in block.source.splitlines() if line.strip())


def _gap(out: list[str], previous: Block, block: Block, prefix: str, line_end: str) -> str:
    tail = next((piece for piece in reversed(out) if piece), "")
    gap = "" if not tail or tail.endswith(("\n", "\r")) else line_end
    last_line = tail.rstrip("\r\n").rsplit("\n", 1)[-1] if gap or not re.search(r"\n[> \t]*\r?\n\Z", tail) else ""
    tight = block.type in LIST_TYPES and previous.type in LIST_TYPES
    return gap + prefix.rstrip() + line_end if last_line.strip("> \t") and not tight else gap


def _inner(block: Block, *, verbatim: bool) -> str:
    if block.type == "quote":
        return _marker(block)
    found = _MARKER.match((block.source or "").lstrip("> \t")) if verbatim else None
    return " " * (len(found[0]) if found else len(_marker(block)))


def _marker(block: Block) -> str:
    """What a container's first line begins with. The box of a todo is text to Markdown, so it does not indent what follows."""
    if block.type == "quote":
        return "> "
    return f"{block.number}. " if block.type == "numbered" else "- "


def _waits_for_child(blocks: tuple[Block, ...], at: int) -> bool:
    block = blocks[at]
    has_child = at + 1 < len(blocks) and blocks[at + 1].depth > block.depth
    return block.type in CONTAINER_TYPES and block.type != "todo" and not block.runs and has_child


def _spelled(block: Block, reader: MarkdownIt) -> list[str]:
    """The block's lines, without what the containers around it add. At least one, else a container would be lost."""
    lines = _lines(block, reader) or [""]
    if block.type == "quote":
        return ["> " + line for line in lines]
    if block.type in LIST_TYPES:
        marker = _marker(block)
        box = ("[x] " if block.done else "[ ] ") if block.type == "todo" else ""
        return [(marker + box if at == 0 else " " * len(marker)) + line for at, line in enumerate(lines)]
    return lines


def _lines(block: Block, reader: MarkdownIt) -> list[str]:
    text = printable(block.text)
    if block.type == "code":
        fence = "`" * max(3, 1 + max((len(ticks) for ticks in re.findall("`{3,}", text)), default=2))
        return [fence + re.sub(r"[`\r\n]", "", block.info), *_split(text), fence]
    if block.type == "formula":
        return ["$$", *_split(text), "$$"]
    if block.type == "raw":
        return _split(text)
    if block.type == "divider":
        return ["***"]  # three dashes could be taken for front matter, a heading's underline, or the item's own marker
    if block.table is not None:
        return _table(block.table, reader)
    runs = (Run(block.label), *block.runs) if block.label and block.type not in LIST_TYPES else block.runs
    if block.type == "heading":
        return [("#" * min(max(block.level, 1), 6) + " " + markdown_of(runs, reader, "heading")).rstrip()]
    if block.type in ("image", "file"):
        linked = markdown_of((Run(text.replace("\n", " ") or block.src, link=block.src or "#"),), reader)
        return ["!" + linked if block.type == "image" else linked[:-1] + ' "file")']
    return _split(markdown_of(runs, reader)) if runs else []


def _split(text: str) -> list[str]:
    return text.split("\n")


def _table(table: Table, reader: MarkdownIt) -> list[str]:
    """A spanned place is written empty; a table without heads lends its first row."""
    texts = [[markdown_of(cell.runs, reader, "cell") for cell in row] for row in table.rows]
    places = grid(table)
    rows: list[str] = []
    for at, row in enumerate(places):
        above = places[at - 1] if at else []
        shown = ["" if place is None or place in row[:column] or place in above else texts[place[0]][place[1]] for column, place in enumerate(row)]
        rows.append("| " + " | ".join(shown) + " |")
    aligns = [*table.aligns, *[""] * len(places[0])][: len(places[0])] if places else []
    rows.insert(1, "|" + "|".join(_RULES[align] for align in aligns) + "|")
    return rows
