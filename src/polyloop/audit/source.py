"""A document as lines of text, for a model to read with its own tools, and back again, exactly.

The first line tells of the document, each further one is a block as JSON. A line longer than LINE_CHARS goes on in lines that
begin with `+`; JSON objects never do. Quotes and places of findings are those of the blocks, so nothing is lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from polyloop.formats.blocks import Block, Document

#: Where a point's document lies in its workspace.
DOCUMENT: Final = "data/document.jsonl"
LINE_CHARS: Final = 20_000


class Head(Struct, frozen=True):
    """The first line. `lang` and `blocks` are for a reader that has not come to the rest."""

    name: str
    format: str
    title: str
    lang: str
    blocks: int


def source_of(document: Document) -> bytes:
    head = Head(document.name, document.format, document.title, document.lang, len(document.blocks))
    return b"".join(line.encode() + b"\n" for value in (head, *document.blocks) for line in _folded(msgspec.json.encode(value).decode()))


def _folded(text: str) -> Iterator[str]:
    yield text[:LINE_CHARS]
    for at in range(LINE_CHARS, len(text), LINE_CHARS):
        yield "+" + text[at : at + LINE_CHARS]


def document_of(lines: Iterable[str]) -> Document:
    """Raises ValueError for lines that are no document."""
    whole: list[str] = []
    for line in lines:
        if line.startswith("+") and whole:
            whole[-1] += line[1:]
        elif line:
            whole.append(line)
    if not whole:
        raise ValueError("no lines")
    head = msgspec.json.decode(whole[0], type=Head)
    blocks = tuple(msgspec.json.decode(line, type=Block) for line in whole[1:])
    return replace(Document(blocks), name=head.name, format=head.format, title=head.title)


@lru_cache(maxsize=4)
def read_source(data: bytes) -> Document:
    """`document_of` for a whole file; the same bytes are read once."""
    return document_of(data.decode().split("\n"))


def holds(document: Document, quote: str) -> bool:
    """Whether the quote stands verbatim in the document's text, or in its source where that is known."""
    return bool(quote) and any(quote in block.text or quote in (block.source or "") for block in document.blocks)
