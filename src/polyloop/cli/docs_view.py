"""What operations on documents answer, for people: one sentence, and tables where there are rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from polyloop.contract.problem import as_wire
from polyloop.contract.task import Ticket
from polyloop.formats.blocks import Loss
from polyloop.words.catalog import Lang, say
from polyloop.words.losses import say_loss

from .cells import fit, pad, plain, visible, width
from .told import headline

#: Columns of a table and the fields they show, by what stands in its rows; the first that fits.
_TABLES: Final[tuple[tuple[str, ...], ...]] = (
    ("nodeId", "resourceType", "title", "excerpt"), ("version", "revision", "label"),
    ("commentId", "state", "author", "content", "anchor", "replies"),
    ("resourceId", "type", "bytes", "name", "blockIds"), ("user", "role"),
)  # fmt: skip
_CELL_COLUMNS: Final = 60


def for_people(lang: Lang, op: str, answer: dict[str, Any]) -> str:
    """One answer as lines."""
    if error := answer.get("error"):
        if "taskId" in answer:
            return _task(answer, lang)
        planned = [f"planId {p}" for p in [error["details"].get("planId")] if p]
        return "\n".join([headline(lang, op, answer), plain(f"{error['kind']}: {error['message']}"), *planned])
    if "state" in answer and "taskId" in answer:
        return _task(answer, lang)
    if isinstance(data := answer.get("data"), dict) and "content" in data:
        content = str(cast("dict[str, Any]", data)["content"])
        return visible(content) if sys.stdout.isatty() else content  # a terminal obeys what stands in it, a file keeps it
    line = headline(lang, f"doc.{op}", answer)
    if isinstance(rows := answer.get("items"), list):
        more = [] if answer.get("complete") else [say("doc.list.incomplete", lang)]
        return "\n".join([*table(cast("list[dict[str, Any]]", rows)), *more]) or say("doc.list.none", lang)
    losses = [f"  - {say_loss(loss.code, lang, loss.count, loss.detail)}" for loss in _losses(answer)]
    return "\n".join([line, *losses, visible(json.dumps(answer.get("data", answer), ensure_ascii=False, indent=2))])


def _losses(answer: Mapping[str, Any]) -> list[Loss]:
    data = cast("dict[str, Any]", answer.get("data") or {})
    return msgspec.convert(answer.get("losses") or data.get("losses") or [], list[Loss])


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows of the same kind under their heads, in columns as wide as needed."""
    if not rows:
        return []
    named = next((names for names in _TABLES if names[0] in rows[0]), tuple(dict.fromkeys(name for row in rows for name in row)))
    heads = tuple(name for name in named if any(row.get(name, []) != [] for row in rows))
    lines = [heads, *(tuple(fit(_cell(name, row.get(name, "")), _CELL_COLUMNS) for name in heads) for row in rows)]
    wide = [max(width(line[n]) for line in lines) for n in range(len(heads))]
    return ["  ".join(pad(cell, w) for cell, w in zip(line, wide, strict=True)).rstrip() for line in lines]


def _cell(name: str, value: Any) -> str:
    """A field on one line: of an anchor what it stands on and how, of replies how many, of blocks which."""
    if name == "anchor" and value:
        return f"{value['quote'] or value['blockId']} ({value['state']})"
    if isinstance(value, list):
        many = cast("list[Any]", value)
        return (str(len(many)) if name == "replies" else " ".join(map(str, many))) if many else ""
    return str(value)


def task_line(task: Ticket, lang: Lang) -> str:
    """How a task stands, on one line."""
    return _task(as_wire(task), lang)


def _task(told: Mapping[str, Any], lang: Lang) -> str:
    result, error = (cast("dict[str, Any]", told.get(name) or {}) for name in ("result", "error"))
    what = result.get("output") or result.get("documentUrl") or error.get("message", "")
    return f"{told['taskId']}  {pad(say('doc.task.' + told['state'], lang), 8)}  {told['kind']}  {fit(str(what), 100)}".rstrip()
