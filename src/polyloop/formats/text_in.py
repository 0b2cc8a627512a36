"""Plain text to paragraphs."""

from __future__ import annotations

import re
from typing import Final

from polyloop.formats.blocks import Block, Document, Loss
from polyloop.formats.encoding import decode
from polyloop.formats.reflow import Line, columns, grouped_text, paragraph

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


def read_text(name: str, data: bytes) -> Document:
    """Each block owns its lines and the blank ones after it; the sources joined are the text. Raises `undecidable_encoding`."""
    text, encoding = decode(name, data)
    sources = _LINE.findall(text)
    lines = [Line(shown, number, right=columns(shown)) for number, shown in enumerate((_shown(source) for source in sources), 1)]
    groups = grouped_text(lines)
    starts = [group[0].number - 1 for group in groups]
    ends = [*starts[1:], len(sources)] if starts else []
    blocks: list[Block] = []
    for order, (group, start, end) in enumerate(zip(groups, starts, ends, strict=True)):
        blocks.append(paragraph(group, order, "".join(sources[0 if order == 0 else start : end])))
    losses = () if encoding == "utf-8" else (Loss("encoding", detail=encoding),)
    return Document(tuple(blocks), losses, "", name, "txt")


def _shown(source: str) -> str:
    return source.rstrip("\r\n").removeprefix("\ufeff").rstrip()
