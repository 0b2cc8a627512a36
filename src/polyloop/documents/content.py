"""Content as callers write and read it (markdown, blocks, text) and as it is stored: one JSON body a block.

Where a block stood in the text it came with (`order`) is kept beside its source, counted from a number of its own write: only
blocks that really came together are ever written back without a gap between them, and untouched bytes come back as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from ..contract.problem import FieldProblem, ProblemError, bad_arguments, is_object, problem
from ..formats import Target, losses
from ..formats.blocks import CONTAINER_TYPES, Block, Cell, Document, Loss, Run, Table, joined
from ..formats.markdown_in import read_markdown
from ..formats.markdown_out import write_markdown
from ..formats.text_in import read_text
from . import limits
from .bodies import check, strings

_SERVED: Final = frozenset({"source", "span", "order"})
_FIELDS: Final = frozenset(name for kind in (Block, Run, Cell, Table) for name in kind.__struct_fields__) - _SERVED
#: One write holds at most this many blocks, so two writes never number a block the same.
_ORDERS: Final = 1 << 20
#: Characters, or blocks, from which on a content is read before the call begins.
LONG: Final = 4_000
LONG_BLOCKS: Final = 100


class Kept(Struct, frozen=True):
    """A stored block: its id, the JSON kept, the hash of the row, and what it says."""

    id: str
    body: str
    hash: str
    block: Block


def kept(rows: Sequence[Sequence[str]]) -> list[Kept]:
    return [Kept(i, body, mark, msgspec.json.decode(body, type=Block)) for i, body, mark in rows]


def bodies(content: object, form: str, mark: str) -> tuple[tuple[str, ...], tuple[Loss, ...]]:
    """The bodies of a content argument, and what of it a block tree cannot say. `mark` = 10 hex digits, this write's own.

    Raises ProblemError (validation) naming `content`.
    """
    given, lost = _read(content, form)
    if len(given) > limits.BLOCKS:
        raise bad_arguments([FieldProblem("content", "too_large", f"more than {limits.BLOCKS} blocks")])
    first = int(mark, 16) * _ORDERS
    placed = (
        b.edited(span=None, order=first + n, source=b.source) if b.source is not None else b.edited(span=None, order=-1) for n, b in enumerate(given)
    )
    told = tuple(body_of(block) for block in placed)
    check(told, "content")
    return told, lost


class Read(Struct, frozen=True):
    """A content argument that was read before the call began, and what it said."""

    content: object
    form: str
    mark: str
    told: tuple[tuple[str, ...], tuple[Loss, ...]]


def is_long(args: Mapping[str, Any]) -> bool:
    """Whether a call carries so much content that nobody else should wait while it is read."""
    content, form = args.get("content"), args.get("format", "markdown")
    return (isinstance(content, str) and form in ("markdown", "text") and len(content) >= LONG) or (
        isinstance(content, list) and form == "blocks" and len(cast("list[object]", content)) >= LONG_BLOCKS
    )


def ahead(args: Mapping[str, Any], mark: str) -> Read | None:
    """The content of a call; None = what is wrong with it is said in its turn."""
    content, form = args["content"], args.get("format", "markdown")
    try:
        return Read(content, form, mark, bodies(content, form, mark))
    except ProblemError:
        return None


def bodies_of(known: Read | None, content: object, form: str, mark: str) -> tuple[tuple[str, ...], tuple[Loss, ...]]:
    """As `bodies`, from what was read ahead if it was this."""
    same = known is not None and (known.content, known.form, known.mark) == (content, form, mark)
    return known.told if known is not None and same else bodies(content, form, mark)


def document_of(rows: Sequence[Sequence[str]], title: str, target: Target) -> Document:
    """Stored blocks as a document to be written; Markdown keeps the source of what was not edited."""
    return Document(tuple(k.block for k in kept(rows)), title=title, name=title, format="md" if target == "md" else "blocks")


def alike(blocks: Sequence[Kept], written: Sequence[str]) -> bool:
    """Whether these bodies say just what these blocks say, whichever write they came with."""
    told = (msgspec.json.decode(body, type=Block) for body in written)
    return len(blocks) == len(written) and all(_unplaced(k.block) == _unplaced(b) for k, b in zip(blocks, told, strict=True))


def _unplaced(block: Block) -> Block:
    return block.edited(source=block.source, order=-1)


def body_of(block: Block) -> str:
    return msgspec.json.encode(block).decode()


def _read(content: object, form: str) -> tuple[Sequence[Block], tuple[Loss, ...]]:
    if form == "blocks":
        return _given_blocks(content), ()
    if not isinstance(content, str):
        raise bad_arguments([FieldProblem("content", "wrong_type", f"{form} is a text")])
    if len(content) > limits.CONTENT_CHARS:
        raise bad_arguments([FieldProblem("content", "too_large", f"more than {limits.CONTENT_CHARS} characters")])
    if "\0" in content:
        raise bad_arguments([FieldProblem("content", "invalid_value", "a text holds no NUL character")])
    if not content.strip():
        return (), ()
    if form == "text":
        return [block.edited() for block in read_text("content", content.encode()).blocks], ()
    read = read_markdown("content", content.encode())
    return read.blocks, read.losses


def _given_blocks(content: object) -> list[Block]:
    try:
        value = msgspec.json.decode(content) if isinstance(content, str) else content
        if unknown := sorted(_names(value) - _FIELDS):
            raise bad_arguments([FieldProblem(f"content.{name}", "unknown_field", "no field of a block") for name in unknown[:10]])
        if any("\0" in text for text in strings(value)):
            raise bad_arguments([FieldProblem("content", "invalid_value", "a text holds no NUL character")])
        return msgspec.convert(value, list[Block])
    except (ValueError, RecursionError) as error:  # msgspec.DecodeError is one
        raise bad_arguments([FieldProblem("content", "invalid_value", str(error)[:200])]) from error


def _names(value: object) -> set[str]:
    if is_object(value):
        return set(value).union(*(_names(part) for part in value.values()))
    return set[str]().union(*(_names(part) for part in cast("list[object]", value))) if isinstance(value, list) else set()


def shown(blocks: Sequence[Kept], form: str) -> dict[str, Any]:
    """`content` and, for the form that has them, `blocks` with their ids."""
    if form == "markdown":
        document = Document(tuple(k.block for k in blocks), format="md")
        return {"content": write_markdown(document).decode("utf-8", "replace")}
    text = Document(tuple(k.block for k in blocks)).text
    if form == "text":
        return {"content": text}
    return {"content": text, "blocks": [{"blockId": k.id, **msgspec.to_builtins(k.block.edited(span=None, order=-1))} for k in blocks]}


# --- parts of a content ----------------------------------------------------------------------------------------------


def at(blocks: Sequence[Kept], field: str, block_id: str) -> int:
    """Raises not_found naming the field."""
    found = next((n for n, k in enumerate(blocks) if k.id == block_id), None)
    if found is None:
        raise problem("not_found", f"there is no block {block_id}", stage="resolve", details={"field": field, "blockId": block_id})
    return found


def whole(blocks: Sequence[Kept], start: int) -> list[Kept]:
    """A block with all that sits in it."""
    end = start + 1
    if blocks[start].block.type in CONTAINER_TYPES:
        while end < len(blocks) and blocks[end].block.depth > blocks[start].block.depth:
            end += 1
    return list(blocks[start:end])


def _range(blocks: Sequence[Kept], args: dict[str, Any]) -> Sequence[Kept]:
    first = at(blocks, "startBlockId", args["startBlockId"]) if "startBlockId" in args else 0
    last = at(blocks, "endBlockId", args["endBlockId"]) if "endBlockId" in args else len(blocks) - 1
    if last < first and blocks:
        raise bad_arguments([FieldProblem("endBlockId", "out_of_range", "it stands before startBlockId")])
    return blocks[first : last + 1]


def _section(blocks: Sequence[Kept], args: dict[str, Any]) -> Sequence[Kept]:
    first = at(blocks, "startBlockId", args["startBlockId"])
    head = blocks[first].block
    if head.type != "heading":
        raise problem(
            "type_mismatch", "a section begins with a heading", stage="resolve", details={"blockId": args["startBlockId"], "type": head.type}
        )
    ends = (n for n, k in enumerate(blocks) if n > first and k.block.type == "heading" and k.block.level <= head.level)
    return blocks[first : next(ends, len(blocks))]


def _keyword(blocks: Sequence[Kept], args: dict[str, Any]) -> Sequence[Kept]:
    words = [word.casefold() for word in args["keyword"].split("|") if word]
    return [k for k in _range(blocks, args) if any(word in k.block.text.casefold() for word in words)]


#: All but a section keep to startBlockId and endBlockId where they stand, so that every one can be gone on with.
SCOPES: Final[dict[str, Callable[[Sequence[Kept], dict[str, Any]], Sequence[Kept]]]] = {
    "full": _range,
    "outline": lambda blocks, args: [k for k in _range(blocks, args) if k.block.type == "heading"],
    "range": _range,
    "section": _section,
    "keyword": _keyword,
    "tags": lambda blocks, args: [k for k in _range(blocks, args) if k.block.type in args["tags"]],
}


def fitting(blocks: Sequence[Kept], chars: int) -> int:
    """How many of the blocks fit into so many characters; one at least, so that there is always a way on."""
    total = 0
    for n, k in enumerate(blocks):
        total += len(k.block.source or k.body)
        if total > chars and n:
            return n
    return len(blocks)


def inexpressible(blocks: Sequence[Kept]) -> list[str]:
    """Ids of the blocks that a content given as Markdown or text could not bring back."""
    return [k.id for k in blocks if k.block.type == "raw" or losses(Document((k.block.edited(),)), "md")]


# --- replacing a text ------------------------------------------------------------------------------------------------


def replaced(blocks: Sequence[Kept], old: str, new: str) -> tuple[Kept, Block]:
    """The one block that holds `old` once, and what it becomes: marks and type stay. Raises not_found, ambiguous (with block ids)."""
    pattern = re.compile(f"(?={re.escape(old)})")
    found = [(k, len(pattern.findall(text))) for k in blocks for text in _texts(k.block)]
    hits = [(k, count) for k, count in found if count]
    if not hits:
        raise problem("not_found", "the text does not occur", stage="resolve", details={"field": "old"})
    total = sum(count for _, count in hits)
    if total > 1:
        ids = list(dict.fromkeys(k.id for k, _ in hits))
        details = {"field": "old", "count": total, "candidates": ids[: limits.IDS_SHOWN]}
        raise problem("ambiguous", f"the text occurs {total} times", stage="resolve", details=details)
    only = hits[0][0]
    block = only.block
    if block.table is None:
        return only, block.edited(runs=_spliced(block.runs, old, new))
    rows = tuple(tuple(msgspec.structs.replace(cell, runs=_spliced(cell.runs, old, new)) for cell in row) for row in block.table.rows)
    return only, block.edited(table=msgspec.structs.replace(block.table, rows=rows))


def _texts(block: Block) -> list[str]:
    return [block.text] if block.table is None else [cell.text for row in block.table.rows for cell in row]


def _spliced(runs: tuple[Run, ...], old: str, new: str) -> tuple[Run, ...]:
    """The new text takes the marks of the run the old one began in."""
    start = "".join(run.text for run in runs).find(old)
    if start < 0:
        return runs
    out: list[Run] = []
    end, here = start + len(old), 0
    for run in runs:
        low, high = max(start - here, 0), max(end - here, 0)
        put = new if here <= start < here + len(run.text) else ""
        out.append(msgspec.structs.replace(run, text=run.text[:low] + put + run.text[max(high, low) :], wrap=run.wrap and not put))
        here += len(run.text)
    return joined(out)
