"""Blocks to Markdown. A block that still has its source is written back as it stood; only the others are spelled anew."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from polyloop.formats.blocks import CONTAINER_TYPES, LIST_TYPES, Block, Document, Run, Table, grid, printable, shown, text_of
from polyloop.formats.inline import markdown_of
from polyloop.formats.markdown_in import parser, read_markdown

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

_MARKER: Final = re.compile(r"(?:[-+*]|\d{1,9}[.)])[ \t]+")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_FENCE: Final = re.compile(r"[> \t]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)*[> \t]*(`{3,}|~{3,})")
#: Stands for "no block of the source" where the order of the last one written is kept.
_NOTHING: Final = -9
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
    last_kept = -1
    for at, block in enumerate(document.blocks):
        while opened and opened[-1].depth >= block.depth:
            opened.pop()
        prefix = "".join(container.prefix for container in opened)
        first = "".join(container.first or container.prefix for container in opened)
        moved = block.order != last_kept + 1
        verbatim = kept and _still_fits(document.blocks, at, prefix, opened, reader, moved=moved)
        if previous is not None and first == prefix and (moved or not verbatim):
            out.append(_gap(out, previous, block, prefix, line_end))
        waits = not verbatim and _waits_for_child(document.blocks, at)
        if verbatim:
            out.append(block.source or "")
        elif not waits:
            lines = _spelled(block, reader)
            starts = [first, *[prefix] * (len(lines) - 1)]
            out.extend((start + line if line else start.rstrip()) + line_end for start, line in zip(starts, lines, strict=True))
        if not waits:
            previous = block
            opened = [structs.replace(container, first="") for container in opened]
        last_kept = block.order if verbatim else _NOTHING
        if block.type in CONTAINER_TYPES:
            marker = _marker(block) if waits else ""
            opened.append(_Container(block.depth, _inner(block, verbatim=verbatim), not verbatim, marker))
    return "".join(out).encode()


def _still_fits(blocks: tuple[Block, ...], at: int, prefix: str, opened: list[_Container], reader: MarkdownIt, *, moved: bool) -> bool:
    """The source may stand: it is there, and under containers spelled anew its lines still begin as lines in them must."""
    block = blocks[at]
    if block.source is None or _leans(blocks, at, reader, moved=moved):
        return False
    if any(container.anew for container in opened):
        return not any(container.first for container in opened) and _stands_in(block, prefix)
    # An empty source: its marker stands in the line of the first child (or that one's), which must still be there and untouched.
    while at + 1 < len(blocks) and blocks[at].source == "" and blocks[at + 1].order == blocks[at].order + 1:
        at += 1
    return bool(blocks[at].source) and not _leans(blocks, at, reader, moved=moved)


def _leans(blocks: tuple[Block, ...], at: int, reader: MarkdownIt, *, moved: bool) -> bool:
    """Whether a block is what it is only between the neighbours it was read with, and has got others (`moved`: above it).

    A fence that only the end of its container closed would take in what follows now; an indented block would join a list above it;
    a line of dashes at the head of a file opens front matter.
    """
    block = blocks[at]
    lines = _LINE_END.split((block.source or "").rstrip())
    if moved and block.depth == 0 and (lines[0][:1] in (" ", "\t") or (at == 0 and block.type == "divider")):
        return True
    opening = _FENCE.match(lines[0]) if block.type == "code" else None  # a formula is none before its own end stands
    if opening is None:
        return block.type == "raw" and not ends_itself(block.text, reader) and _meets_another(blocks, at)
    closed = len(lines) > 1 and re.match(rf"[> \t]*{re.escape(opening[1])}[`~$]*\s*\Z", lines[-1]) is not None
    return not closed and _meets_another(blocks, at)


def _meets_another(blocks: tuple[Block, ...], at: int) -> bool:
    """Whether another block follows than the one that did where this one was read."""
    below = blocks[at + 1] if at + 1 < len(blocks) else None
    return below is not None and (below.source is None or below.order != blocks[at].order + 1)


def _stands_in(block: Block, prefix: str) -> bool:
    """Under containers spelled anew a source may stand if its lines begin as lines in them do and then read as this block alone."""
    lines = _LINE_END.split(block.source or "")
    if not all(line.startswith(prefix) for line in lines if line.strip()):
        return False
    found = read_markdown("", "\n".join(line.removeprefix(prefix) for line in lines).encode()).blocks
    return len(found) == 1 and structs.replace(found[0], depth=block.depth, span=block.span, source=block.source, order=block.order) == block


def _gap(out: list[str], previous: Block, block: Block, prefix: str, line_end: str) -> str:
    """What keeps a block apart from the one before it: a line end, and a blank line but between items of a list."""
    tail = next((piece for piece in reversed(out) if piece), "")
    if not tail:
        return ""
    gap = "" if tail.endswith(("\n", "\r")) else line_end
    blank = not _LINE_END.split(tail)[-1 if gap else -2].strip("> \t")
    # Right under text an empty item would be its underline, and a list that begins at another number than 1 more of it.
    joins_text = not _said(block) or (block.type == "numbered" and block.number != 1 and block.depth > previous.depth)
    tight = block.type in LIST_TYPES and previous.type in LIST_TYPES and not joins_text
    return gap if blank or tight else gap + prefix.rstrip() + line_end


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


def _said(block: Block) -> tuple[Run, ...]:
    """What stands in a block's lines. A list numbers its items itself."""
    return block.runs if block.type == "numbered" else shown(block)


def _waits_for_child(blocks: tuple[Block, ...], at: int) -> bool:
    block = blocks[at]
    has_child = at + 1 < len(blocks) and blocks[at + 1].depth > block.depth
    return block.type in CONTAINER_TYPES and block.type != "todo" and not _said(block) and has_child


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
    text = printable(text_of(shown(block)) if block.type in ("code", "formula") else block.text)
    if block.type == "formula" and formula_fits(text, reader):
        return ["$$", *_split(text), "$$"]
    if block.type == "raw" and ends_itself(text, reader):
        return _split(text)
    if block.type in ("code", "formula", "raw"):
        fence = "`" * max(3, 1 + max((len(ticks) for ticks in re.findall("`{3,}", text)), default=2))
        return [fence + ("math" if block.type == "formula" else re.sub(r"[`\r\n]", "", printable(block.info))), *_split(text), fence]
    if block.type == "divider":
        return ["***"]  # three dashes could be taken for front matter, a heading's underline, or the item's own marker
    if block.table is not None:
        return _table(block.table, reader)
    runs = _said(block)
    if block.type == "heading":
        return [("#" * min(max(block.level, 1), 6) + " " + markdown_of(runs, reader, "heading")).rstrip()]
    if block.type in ("image", "file"):
        linked = markdown_of((Run(text.replace("\n", " ") or block.src, link=block.src or "#"),), reader) or "[](<>)"
        return ["!" + linked if block.type == "image" else linked[:-1] + ' "file")']
    return _split(markdown_of(runs, reader)) if runs else []


def formula_fits(text: str, reader: MarkdownIt) -> bool:
    """Whether it reads back as one formula between its signs. What holds them itself, or is empty, does not, and is written as code."""
    found = reader.parse(f"$$\n{text}\n$$")
    return [token.type for token in found] == ["math_block"] and found[0].content.strip() == text.strip()


def ends_itself(raw: str, reader: MarkdownIt) -> bool:
    """Whether what follows raw content is not taken into it: a comment or fence may be left open. Such is written as code."""
    if raw[:1] in (" ", "\t"):
        return False
    place = raw.count("\n") + 2
    found = reader.parse(f"{raw}\n\n.\n\n$$\n\n---")
    return any(token.type == "paragraph_open" and token.level == 0 and token.map == [place, place + 1] for token in found)


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
