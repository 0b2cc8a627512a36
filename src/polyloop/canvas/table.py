"""Batch tables: a plan of many similar pictures. It plans and never submits.

Rows name pictures of this canvas, one for each reference column, and a prompt that may mention a column by its token. A token is
that of a column of this table or the prompt is refused. Pure: everything is planned on a `Draft`. Seed: S1.54, S1.76, S1.77.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from ..contract.problem import FieldProblem
from ..words.catalog import MENTION
from . import limits
from .model import Draft, Node, Row
from .ops import HASH, ID
from .rows import Edited, acting, made_id, row_named

TYPE: Final = "batch-table"
OPERATIONS: Final = {"try_on": 2, "creative": 1}
CONCURRENCY: Final = (1, 5, 10)
#: What the server alone writes into a row.
SERVER: Final = ("outputNodeId",)

_PATCH: Final = {
    "type": "object", "minProperties": 1,
    "properties": {
        "enabled": {"type": "boolean"},
        "inputNodeIds": {"type": "array", "items": ID, "maxItems": limits.COLUMNS, "uniqueItems": True},
        "prompt": {"type": "string", "maxLength": limits.ROW_TEXT_CHARS},
    },
}  # fmt: skip
_ACTIONS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "append": ((), ("patch",)), "update": (("rowId", "patch"), ()), "remove": (("rowId",), ()), "set_operation": (("operation",), ()),
    "set_concurrency": (("concurrency",), ()), "add_reference_column": ((), ()), "remove_reference_column": ((), ()),
    "set_global_prompt": (("globalPrompt",), ()),
}  # fmt: skip
EDIT: Final[dict[str, Any]] = {
    "type": "object", "required": ["snapshotHash", "nodeId", "action"],
    "properties": {
        "snapshotHash": HASH, "nodeId": ID, "action": {"enum": list(_ACTIONS)},
        "rowId": {"type": "string", "maxLength": limits.PART_ID_CHARS}, "patch": _PATCH, "operation": {"enum": list(OPERATIONS)},
        "concurrency": {"enum": list(CONCURRENCY)},
        "globalPrompt": {"type": "string", "minLength": 0, "maxLength": limits.ROW_TEXT_CHARS, "description": "an empty text takes it away"},
    },
    **acting(("rowId", "patch", "operation", "concurrency", "globalPrompt"), _ACTIONS),
}  # fmt: skip
READ: Final[dict[str, Any]] = {
    "type": "object", "required": ["nodeId", "offset"],
    "properties": {"nodeId": ID, "offset": {"type": "integer", "minimum": 0, "description": "0, or a nextOffset as it was given"}},
}  # fmt: skip

#: A mention begins here, unless it is the middle of an address, whose host is ASCII.
_AT: Final = re.compile(rf"@(?:(?<![A-Za-z0-9._-]@)(?=\S)|(?=[^\s\x00-\x7f]))(?:{re.escape(MENTION[1:])}([0-9]+))?")
_DEFAULTS: Final[dict[str, Any]] = {"operation": "try_on", "concurrency": 10, "globalPrompt": "", "referenceColumns": ["reference-1", "reference-2"]}


def settings(node: Node) -> dict[str, Any]:
    """Operation, concurrency, global prompt and columns of a table, with what a new one begins with."""
    return {name: node.body.get(name, value) for name, value in _DEFAULTS.items()}


def token(number: int) -> str:
    """The mention of the column at this place, counted from 1."""
    return f"{MENTION}{number}"


# --- writing ---------------------------------------------------------------------------------------------------------


def edited(draft: Draft, node: Node, args: Mapping[str, Any], mark: str) -> Edited:
    if node.locked:
        return Edited(problems=(FieldProblem("nodeId", "locked", "the node is locked"),))
    change = _CHANGES.get(args["action"])
    return change(draft, node, args, mark) if change else _named(draft, node, args)


def _appended(draft: Draft, node: Node, args: Mapping[str, Any], mark: str) -> Edited:
    """A row without inputs of its own takes those of the row before it."""
    rows, patch = draft.rows_of(node.id), args.get("patch", {})
    found = _checked(draft, node, patch)
    if len(rows) >= limits.ROWS:
        found.append(FieldProblem("action", "item_count", f"at most {limits.ROWS} rows"))
    if found:
        return Edited(problems=tuple(found))
    inherited = {"enabled": True, "inputNodeIds": list(rows[-1].body["inputNodeIds"]) if rows else [], "prompt": ""}
    row = Row(node=node.id, id=made_id(node.id, mark, 0), place=rows[-1].place + 1 if rows else 0, body={**inherited, **patch})
    draft.put(row)
    return Edited(rows=(row.id,), data={"summary": {"rowsAdded": 1, "totalRows": len(rows) + 1}, "rowId": row.id, "row": shown(len(rows), row)})


def _named(draft: Draft, node: Node, args: Mapping[str, Any]) -> Edited:
    """update and remove"""
    rows, patch = draft.rows_of(node.id), args.get("patch", {})
    named = row_named(rows, args["rowId"])
    found = [named] if isinstance(named, FieldProblem) else _checked(draft, node, patch)
    if found or isinstance(named, FieldProblem):
        return Edited(problems=tuple(found))
    at, row = named
    if args["action"] == "remove":
        draft.drop(row)
        return Edited(data={"summary": {"rowsRemoved": 1, "totalRows": len(rows) - 1}, "rowId": row.id, "preview": [shown(at, row)]})
    draft.put(replace(row, body={**row.body, **patch}))
    return Edited(rows=(row.id,), data={"summary": {"rowsUpdated": 1, "totalRows": len(rows)}, "rowId": row.id, "fields": sorted(patch)})


def _set(draft: Draft, node: Node, args: Mapping[str, Any], _: str) -> Edited:
    """One setting of the table."""
    name = next(n for n in ("operation", "concurrency", "globalPrompt") if n in args)
    found = unresolved(args[name], len(settings(node)["referenceColumns"]), name) if name == "globalPrompt" else []
    if not found:
        draft.put(replace(node, body={**node.body, **settings(node), name: args[name]}))
    return Edited(problems=tuple(found), data={"summary": {"changed": name}, name: args[name]})


def _widened(draft: Draft, node: Node, args: Mapping[str, Any], _: str) -> Edited:
    columns = settings(node)["referenceColumns"]
    if len(columns) >= limits.COLUMNS:
        return Edited(problems=(FieldProblem("action", "item_count", f"at most {limits.COLUMNS} reference columns"),))
    return _with_columns(draft, node, [*columns, f"reference-{len(columns) + 1}"])


def _narrowed(draft: Draft, node: Node, args: Mapping[str, Any], _: str) -> Edited:
    """The last column goes; not while a row or a prompt uses it, for nothing is dropped unasked."""
    columns = settings(node)["referenceColumns"]
    if len(columns) == 1:
        return Edited(problems=(FieldProblem("action", "item_count", "at least one reference column"),))
    last, fewer = len(columns), len(columns) - 1
    users = [row.id for row in draft.rows_of(node.id) if len(row.body["inputNodeIds"]) == last or unresolved(row.body["prompt"], fewer, "")]
    if users or unresolved(settings(node)["globalPrompt"], fewer, ""):
        return Edited(problems=(FieldProblem("action", "in_use", f"the last column is used by {', '.join(users[:5]) or 'the global prompt'}"),))
    return _with_columns(draft, node, columns[:-1])


def _with_columns(draft: Draft, node: Node, columns: list[str]) -> Edited:
    after = replace(node, body={**node.body, **settings(node), "referenceColumns": columns})
    draft.put(after)
    return Edited(data={"summary": {"changed": "referenceColumns"}, "referenceColumns": _columns(after)})


_CHANGES: Final[dict[str, Callable[[Draft, Node, Mapping[str, Any], str], Edited]]] = {
    "append": _appended, "set_operation": _set, "set_concurrency": _set, "set_global_prompt": _set, "add_reference_column": _widened,
    "remove_reference_column": _narrowed,
}  # fmt: skip


def _checked(draft: Draft, node: Node, patch: Mapping[str, Any]) -> list[FieldProblem]:
    columns, found = len(settings(node)["referenceColumns"]), list[FieldProblem]()
    inputs = patch.get("inputNodeIds", ())
    if len(inputs) > columns:
        found.append(FieldProblem("patch.inputNodeIds", "item_count", f"the table has {columns} reference columns"))
    for number, node_id in enumerate(inputs):
        own = draft.node(node_id)
        issue = "not_found" if own is None else "" if own.type == "image" else "wrong_node_type"
        found += [FieldProblem(f"patch.inputNodeIds[{number}]", issue, "an image node of this canvas is needed")] if issue else []
    return found + unresolved(patch.get("prompt", ""), columns, "patch.prompt")


def unresolved(prompt: str, columns: int, field: str) -> list[FieldProblem]:
    """Mentions in a prompt that are no token of a column."""
    wrong = [m for m in _AT.finditer(prompt) if m[1] not in {str(n) for n in range(1, columns + 1)}]
    return [FieldProblem(field, "unresolved", f"{prompt[m.start() : m.start() + 12]!r} names no reference column") for m in wrong[:1]]


# --- reading ---------------------------------------------------------------------------------------------------------


def _columns(node: Node) -> list[dict[str, Any]]:
    columns = settings(node)["referenceColumns"]
    return [{"id": column, "label": token(n)[1:], "mentionToken": token(n)} for n, column in enumerate(columns, 1)]


def shown(_: int, row: Row) -> dict[str, Any]:
    """A row as it is read, always whole."""
    return {"rowId": row.id, **row.body}


def told(node: Node, rows: Sequence[Row], find: Callable[[str], Node | None]) -> dict[str, Any]:
    """Everything about a table beside its rows. A row is ready with a prompt and as many references as its operation takes, all of
    which are still images of this canvas.
    """
    own = settings(node)
    gone = {i for i in {i for row in rows for i in row.body["inputNodeIds"]} if (found := find(i)) is None or found.type != "image"}
    live = [row for row in rows if row.body["enabled"]]
    silent = [row for row in live if not (own["globalPrompt"] or row.body["prompt"]).strip()]
    bare = [row for row in live if len(row.body["inputNodeIds"]) < OPERATIONS[own["operation"]] or gone.intersection(row.body["inputNodeIds"])]
    lacking = {row.id for row in (*silent, *bare)}
    preview = {
        "enabledRows": len(live), "readyRows": len(live) - len(lacking), "missingPromptRows": len(silent), "missingReferenceRows": len(bare),
        "outputLinkedRows": sum(1 for row in rows if row.body.get("outputNodeId")),
    }  # fmt: skip
    return {**own, "referenceColumns": _columns(node), "generationPreview": preview}
