"""What an answer for a person must be: standard Markdown without gaps, without HTML, without anything that only machines read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

_PARSER = MarkdownIt("commonmark", {"linkify": False}).enable("table")
#: The blocks a template makes, and what is inside them.
ALLOWED = {"heading", "paragraph", "bullet_list", "ordered_list", "list_item", "blockquote", "inline", "text", "softbreak"}
_MACHINE = (
    (re.compile(r"[a-z]+://|www\.", re.IGNORECASE), "a URL"),
    (re.compile(r"(?<![0-9a-zA-Z])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{12,}(?![0-9a-zA-Z])"), "a hash"),
    (re.compile(r"(?<![0-9a-zA-Z])(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,}(?![0-9a-zA-Z])"), "a short hash"),
    (re.compile(r"(?<![0-9a-z])(?:localhost|[a-z0-9-]+\.[a-z]{2,})(?::[0-9]+)?/", re.IGNORECASE), "an address"),
    (re.compile(r"(?<![0-9a-z])localhost:[0-9]", re.IGNORECASE), "an address"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-", re.IGNORECASE), "an id"),
    (re.compile(r"(?<![0-9a-zA-Z])[A-Za-z0-9]+_[A-Za-z0-9]+(?![A-Za-z0-9_]*\.(?:mp4|png))(?![A-Za-z0-9])"), "a name of a program"),
    (re.compile(r"(?<![0-9a-zA-Z])[a-z]{2,}(?:[A-Z][a-z0-9]|ID|URL|URI)"), "a name of a field"),
)


def breaches(text: str, hidden: Iterable[str] = ()) -> list[str]:
    """All that is wrong with an answer; `hidden` = names that may not be in it."""
    tokens = [t for block in _PARSER.parse(text) for t in (block, *(block.children or ()))]
    return [*_structure(tokens), *_words(tokens, hidden)]


def _structure(tokens: list[Token]) -> Iterator[str]:
    yield from (f"{kind} is no part of an answer" for t in tokens if (kind := re.sub(r"_(open|close)$", "", t.type)) not in ALLOWED)
    levels = [int(t.tag[1]) for t in tokens if t.type == "heading_open"]
    yield from (f"a heading of level {b} after one of {a}" for a, b in zip([0, *levels], levels, strict=False) if b > a + 1)
    depth = 0
    for t in tokens:
        depth += t.nesting if t.type.startswith(("bullet_list", "ordered_list", "blockquote")) else 0
        if depth > 1:
            yield "a block inside a block"
    yield from ("a long paragraph" for t in tokens if t.type == "text" and len(t.content) > 2100)


def _words(tokens: list[Token], hidden: Iterable[str]) -> Iterator[str]:
    read = "".join(t.content + "\n" for t in tokens if t.type in ("text", "softbreak"))
    yield from (f"{what} in it: {found[0]!r}" for shape, what in _MACHINE if (found := shape.search(read)))
    for name in hidden:
        case = 0 if name.isalpha() and name.islower() else re.IGNORECASE  # a word may be written as one
        if re.search(rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])", read, case):
            yield f"{name!r} in it"


def headings(text: str) -> list[tuple[int, str]]:
    tokens = _PARSER.parse(text)
    return [(int(t.tag[1]), tokens[i + 1].content) for i, t in enumerate(tokens) if t.type == "heading_open"]
