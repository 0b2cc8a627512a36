"""Markdown to blocks.

The parser's line maps cut the file: each block owns the lines from its start to the next block's start, so the sources of all blocks
joined are the file. A container whose first child starts on its own line (`- # x`) owns the empty string, the child owns the line.
Lines that no token claims (link definitions, content nested too deeply) become raw blocks: what is not understood is kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from polyloop.formats.blocks import CONTAINER_TYPES, Align, Block, BlockType, Cell, Document, Loss, Run, Span, Table, joined, text_of
from polyloop.formats.encoding import decode
from polyloop.formats.inline import alt_of, runs_of
from polyloop.formats.limits import MAX_NESTING
from polyloop.formats.problems import unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.token import Token

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
#: Possessive: a line of a million markers takes one look at each.
_ONLY_MARKERS: Final = re.compile(r"(?:[\s>\-+*]|\d{1,9}[.)](?=\s|\Z))*+\Z")
_DASHES: Final = re.compile(r"-{3,}")
_TODO: Final = re.compile(r"\[([ xX])\](?:[ \t]+|\Z)")
_LEAVES: Final = frozenset({"inline", "heading_open", "fence", "code_block", "html_block", "hr", "math_block", "front_matter"})


class _Draft(Struct):
    type: BlockType
    start: int
    end: int
    fields: dict[str, Any]


def parser() -> MarkdownIt:
    """CommonMark with tables, strikethrough, `$$` formulas and front matter. Raises `library_missing`."""
    try:
        from markdown_it import MarkdownIt
        from mdit_py_plugins.dollarmath import dollarmath_plugin
    except ImportError as error:
        raise unreadable("markdown", "library_missing", "needs markdown-it-py and mdit-py-plugins") from error
    made = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    made.use(dollarmath_plugin).disable("math_inline")
    made.block.ruler.before("table", "front_matter", _front_matter)
    made.normalizeLink = lambda url: url  # targets stay as written, and links stay links; the writers judge them
    made.validateLink = lambda url: True  # noqa: ARG005  # called by position
    return made


def _front_matter(state: StateBlock, start: int, end: int, silent: bool) -> bool:  # noqa: FBT001  # a rule of the parser
    """Lines between two of dashes at the head of the file, and nowhere else: the usual rule takes in text beside dashes and in lists."""
    lines = [state.src[state.bMarks[at] : state.eMarks[at]].rstrip() for at in range(end)] if start == 0 and state.level == 0 else []
    if not lines or not _DASHES.fullmatch(lines[0]):
        return False
    last = next((at for at in range(1, end) if lines[at] == "..." or (_DASHES.fullmatch(lines[at]) and len(lines[at]) >= len(lines[0]))), 0)
    if last and not silent:
        token = state.push("front_matter", "", 0)
        token.content, token.map = "\n".join(lines[: last + 1]), [0, last + 1]
        state.line = last + 1
    return bool(last)


def read_markdown(name: str, data: bytes) -> Document:
    """A tree whose block sources, joined, are the text of the file. Raises `undecidable_encoding`, `library_missing`."""
    text, encoding = decode(name, data)
    lines = _LINE.findall(text)
    walk = _Walk()
    walk.all(parser().parse(text.removeprefix("\ufeff")))
    drafts = _with_unclaimed(walk.drafts, walk.covered, lines)
    blocks = tuple(_cut(drafts, lines))
    title = next((text_of(block.runs) for block in blocks if block.type == "heading"), "") if _opens_with_title(blocks) else ""
    losses = [Loss(code, count) for code, count in walk.losses.items()]
    if encoding != "utf-8":
        losses.append(Loss("encoding", detail=encoding))
    return Document(blocks, tuple(losses), title, name, "md")


def _opens_with_title(blocks: Sequence[Block]) -> bool:
    first = next((block for block in blocks if block.type != "raw"), None)
    return first is not None and first.type == "heading" and first.level == 1


def _cut(drafts: Sequence[_Draft], lines: Sequence[str]) -> list[Block]:
    starts = [draft.start for draft in drafts]
    if not starts:
        return []
    starts[0] = 0
    ends = [*starts[1:], len(lines)]
    blocks: list[Block] = []
    for order, (draft, start, end) in enumerate(zip(drafts, starts, ends, strict=True)):
        span = Span("line", draft.start + 1, max(draft.end, draft.start + 1))
        blocks.append(Block(draft.type, span=span, source="".join(lines[start:end]), order=order, **draft.fields))
    return blocks


def _with_unclaimed(drafts: list[_Draft], covered: set[int], lines: Sequence[str]) -> list[_Draft]:
    """Adds raw blocks for the lines that hold something and belong to no leaf."""
    out: list[_Draft] = []
    pending = iter(drafts)
    upcoming = next(pending, None)
    for at, line in enumerate(lines):
        while upcoming is not None and upcoming.start <= at:
            out.append(upcoming)
            upcoming = next(pending, None)
        if at in covered or _ONLY_MARKERS.match(line.removeprefix("\ufeff")):
            continue
        depth = 0
        while out and out[-1].start == at and out[-1].type in CONTAINER_TYPES and not out[-1].fields.get("runs"):
            depth = out.pop().fields["depth"]  # containers of nothing but this line are part of it
        last = out[-1] if out else None
        if last is not None and last.type == "raw" and last.end == at and last.fields["info"] == "markdown":
            last.end = at + 1
            last.fields["runs"] = (Run(text_of(last.fields["runs"]) + "\n" + line.rstrip("\r\n")),)
        else:
            out.append(_Draft("raw", at, at + 1, {"runs": (Run(line.rstrip("\r\n")),), "info": "markdown", "depth": depth}))
    out.extend(draft for draft in (upcoming, *pending) if draft is not None)
    return out


class _Walk:
    """One pass over the tokens. `opened` holds the containers around; one whose text has not come yet has no draft."""

    def __init__(self) -> None:
        self.drafts: list[_Draft] = []
        self.covered: set[int] = set()
        self.losses: dict[str, int] = {}
        self.opened: list[_Draft] = []
        self.waiting: _Draft | None = None
        self.lists: list[BlockType] = []
        self.heading = 0

    def all(self, tokens: Sequence[Token]) -> None:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.map is not None and token.type in _LEAVES:
                self.covered.update(range(*token.map))
            if token.type == "table_open":
                at = self.table(tokens, at)
            else:
                self.one(token)
            at += 1

    def one(self, token: Token) -> None:
        kind = token.type
        if kind in ("bullet_list_open", "ordered_list_open"):
            self.lists.append("bulleted" if kind == "bullet_list_open" else "numbered")
        elif kind in ("bullet_list_close", "ordered_list_close"):
            self.lists.pop()
        elif kind == "list_item_open":
            number = {"number": int(token.info)} if self.lists[-1] == "numbered" else {}
            self.open(self.lists[-1], token, number)
        elif kind == "blockquote_open":
            self.open("quote", token, {})
        elif kind in ("list_item_close", "blockquote_close"):
            self.settle()
            self.opened.pop()
        elif kind == "heading_open":
            self.heading = int(token.tag[1])
        elif kind == "inline":
            self.text(token)
        else:
            self.leaf(token)

    def open(self, kind: BlockType, token: Token, fields: dict[str, Any]) -> None:
        self.settle()
        start, end = token.map or (0, 0)
        self.waiting = _Draft(kind, start, end, {"depth": len(self.opened)} | fields)
        self.opened.append(self.waiting)

    def settle(self) -> None:
        """A container that waits for its text, and something else comes: it stands without text."""
        if self.waiting is not None:
            self.drafts.append(self.waiting)
            self.waiting = None

    def text(self, token: Token) -> None:
        if not self.heading and (picture := _only_image(token)) is not None:
            self.add("image", token, src=str(picture.attrs.get("src", "")), runs=joined([Run(alt_of(picture))]))
            return
        runs = self.runs(token)
        if self.heading:
            self.add("heading", token, runs=runs, level=self.heading)
            self.heading = 0
        elif (target := _only_file(token)) is not None:
            self.add("file", token, src=target, runs=tuple(Run(run.text) for run in runs))
        elif self.waiting is not None:
            draft, self.waiting = self.waiting, None
            draft.end = (token.map or (0, draft.end))[1]
            mark = _TODO.match(token.content) if draft.type == "bulleted" else None
            if mark and runs[0].text.startswith(mark[0].rstrip()):
                draft.type, draft.fields["done"] = "todo", mark[1] in "xX"
                runs = joined([Run(runs[0].text[mark.end() :]), *runs[1:]])
            draft.fields["runs"] = runs
            self.drafts.append(draft)
        else:
            self.add("paragraph", token, runs=runs)

    def runs(self, token: Token) -> tuple[Run, ...]:
        runs, lost = runs_of(token.children or [])
        for code, count in lost.items():
            self.losses[code] = self.losses.get(code, 0) + count
        return runs

    def add(self, kind: BlockType, token: Token, **fields: Any) -> None:
        self.settle()
        start, end = token.map or (0, 0)
        self.drafts.append(_Draft(kind, start, end, {"depth": len(self.opened)} | fields))

    def leaf(self, token: Token) -> None:
        content = (Run(token.content.removesuffix("\n")),) if token.content else ()
        if token.type in ("fence", "code_block"):
            self.add("code", token, runs=content, info=token.info.strip())
        elif token.type == "html_block":
            self.add("raw", token, runs=(Run(token.content.removesuffix("\n").lstrip(" ")),), info="html")
        elif token.type == "front_matter":
            self.add("raw", token, runs=(Run(token.content),), info="yaml")
        elif token.type == "math_block":
            self.add("formula", token, runs=(Run(token.content.strip()),))
        elif token.type == "hr":
            self.add("divider", token)

    def table(self, tokens: Sequence[Token], at: int) -> int:
        """Reads up to the closing token; returns its place."""
        opening = tokens[at]
        rows: list[tuple[Cell, ...]] = []
        cells: list[Cell] = []
        aligns: list[Align] = []
        heads = 0
        while tokens[at].type != "table_close":
            token = tokens[at]
            if token.type == "tr_open":
                cells = []
            elif token.type == "tr_close":
                rows.append(tuple(cells))
            elif token.type == "th_open":
                heads = 1
                aligns.append(_align(str(token.attrs.get("style", ""))))
            elif token.type == "inline":
                cells.append(Cell(self.runs(token)))
            at += 1
        self.covered.update(range(*(opening.map or (0, 0))))
        self.add("table", opening, table=Table(tuple(rows), heads, tuple(aligns) if any(aligns) else ()))
        return at


def _align(style: str) -> Align:
    value = style.removeprefix("text-align:")
    return value if value in ("left", "center", "right") else ""


def _only_image(token: Token) -> Token | None:
    children = token.children or []
    return children[0] if len(children) == 1 and children[0].type == "image" else None


def _only_file(token: Token) -> str | None:
    """A paragraph that is one link with the title `file` stands for an attached file."""
    children = token.children or []
    if len(children) == 3 and children[0].type == "link_open" and children[0].attrs.get("title") == "file":
        return str(children[0].attrs.get("href", ""))
    return None
