"""A document as lines of text, for a model to read with its own tools, and back again, exactly.

The first line tells of the document, each further one is a JSON array of blocks. What is usual is left out, so that the largest
document can be read within the budget of a phase: a paragraph of plain text is `{"text", "at": ["line", from, to]}`. A line longer than
LINE_CHARS goes on in lines that begin with `+`; JSON never does. Texts, quotes and places are those of the blocks: nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from polyloop.formats.blocks import Block, Document

#: Where a point's document lies in its workspace.
DOCUMENT: Final = "data/document.jsonl"
LINE_CHARS: Final = 20_000
#: Characters of blocks that share a line, as near as whole blocks come.
SHARED_CHARS: Final = 4_000
SOURCE_BYTES: Final = 256 << 20


class Head(Struct, frozen=True):
    """The first line. `lang` and `blocks` are for a reader that has not come to the rest."""

    name: str
    format: str
    title: str
    lang: str
    blocks: int


def source_of(document: Document) -> bytes:
    head = Head(document.name, document.format, document.title, document.lang, len(document.blocks))
    lines = [
        msgspec.json.encode(head).decode(),
        *_shared(json.dumps(_small(b, n), ensure_ascii=False, separators=(",", ":")) for n, b in enumerate(document.blocks)),
    ]
    return b"".join(part.encode() + b"\n" for line in lines for part in _folded(line))


def _shared(blocks: Iterable[str]) -> Iterator[str]:
    held: list[str] = []
    for block in blocks:
        held.append(block)
        if sum(map(len, held)) >= SHARED_CHARS:
            yield f"[{','.join(held)}]"
            held.clear()
    if held:
        yield f"[{','.join(held)}]"


def _folded(text: str) -> Iterator[str]:
    yield text[:LINE_CHARS]
    for at in range(LINE_CHARS, len(text), LINE_CHARS):
        yield "+" + text[at : at + LINE_CHARS]


def _small(block: Block, number: int) -> dict[str, Any]:
    """A block without what is usual: kind paragraph, one plain run, its number as its order, its own text in its source."""
    told = cast("dict[str, Any]", msgspec.to_builtins(block))
    small: dict[str, Any] = {}
    if told.pop("type") != "paragraph":
        small["type"] = block.type
    if told.get("runs") == [{"text": block.text}]:
        small["text"] = told.pop("runs")[0]["text"]
    if told.get("order") == number:
        told.pop("order")
    elif "order" not in told:
        told["order"] = -1
    span = told.get("span")
    if span is not None and span.keys() == {"unit", "start", "end"}:
        small["at"] = list(told.pop("span").values())
    source = told.get("source")
    if source is not None and small.get("text") and small["text"] in source:
        before, _, after = told.pop("source").partition(small["text"])
        small["around"] = [before, after]
    return small | told


def _block(small: dict[str, Any], number: int) -> Block:
    told: dict[str, Any] = {"type": "paragraph", "order": number, **small}
    if "around" in told:
        before, after = told.pop("around")
        told["source"] = before + told["text"] + after
    if "text" in told:
        told["runs"] = [{"text": told.pop("text")}]
    if "at" in told:
        told["span"] = dict(zip(("unit", "start", "end"), told.pop("at"), strict=True))
    return msgspec.convert(told, Block)


def document_of(lines: Iterable[str]) -> Document:
    """Raises ValueError for lines that are no document."""
    whole: list[list[str]] = []
    for line in lines:
        if line.startswith("+") and whole:
            whole[-1].append(line[1:])
        elif line:
            whole.append([line])
    if not whole:
        raise ValueError("no lines")
    head = msgspec.json.decode("".join(whole[0]), type=Head)
    every = [small for parts in whole[1:] for small in json.loads("".join(parts))]
    blocks = tuple(_block(small, number) for number, small in enumerate(every))
    return replace(Document(blocks), name=head.name, format=head.format, title=head.title)


@lru_cache(maxsize=4)
def read_source(data: bytes) -> Document:
    """`document_of` for a whole file; the same bytes are read once."""
    return document_of(data.decode().split("\n"))


def holds(document: Document, quote: str) -> bool:
    """Whether the quote stands verbatim in the document's text, or in its source where that is known."""
    return bool(quote.strip()) and any(quote in block.text or quote in (block.source or "") for block in document.blocks)
