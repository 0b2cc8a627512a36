"""Storyboards: structured shots, one row each, never text that looks like a table.

Pure: everything is planned on a `Draft`. Seed: S1.44, S1.54, S1.57, S1.75, S1.76.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from ..contract.problem import FieldProblem
from . import limits
from .model import Draft, Node, Row
from .ops import HASH, ID, PLACE
from .registry import NODE_TYPES
from .rows import Edited, acting, made_id, row_named

TYPE: Final = "script"
TEXTS: Final = (
    "plotDescription", "dialogue", "videoMotionPrompt", "imageGenerationPrompt", "camera", "motion", "shotSize", "emotion",
    "lightingAndAtmosphere", "audioEffects", "narrativeIntent", "viewerPOV", "performanceBlocking", "timeBeats", "continuityOut",
    "negativePrompt",
)  # fmt: skip
ROLES: Final = ("character", "environment", "wardrobe", "prop", "weapon", "style", "motion", "audio")
#: What the server alone writes into a row: what was made of the shot.
SERVER: Final = ("imageNodeId", "videoNodeId", "status")
MEDIA: Final = frozenset({"image", "video", "audio", "character"})

_BINDING: Final = {
    "type": "object", "required": ["nodeId", "role"],
    "properties": {"nodeId": ID, "role": {"enum": list(ROLES)}, "priority": {"type": "integer", "minimum": 0, "maximum": limits.PRIORITY}},
}  # fmt: skip
_FIELDS: Final = {
    "durationSeconds": {"type": "number", "exclusiveMinimum": 0, "maximum": limits.SHOT_SECONDS},
    **{name: {"type": "string", "maxLength": limits.ROW_TEXT_CHARS} for name in TEXTS},
    "assetBindings": {"type": "array", "items": _BINDING, "maxItems": limits.BINDINGS},
}
#: A new shot has a length, and a plot or a motion.
_WHOLE_ROW: Final = {"required": ["durationSeconds"], "anyOf": [{"required": ["plotDescription"]}, {"required": ["videoMotionPrompt"]}]}

CREATE: Final[dict[str, Any]] = {
    "type": "object", "required": ["snapshotHash", "nodeId", "title", "rows"],
    "properties": {
        "snapshotHash": HASH, "nodeId": ID, "title": {"type": "string", "maxLength": limits.TITLE_CHARS},
        "rows": {"type": "array", "minItems": 1, "maxItems": limits.NEW_ROWS, "items": {"type": "object", "properties": _FIELDS, **_WHOLE_ROW}},
        "x": PLACE, "y": PLACE,
    },
    "dependentRequired": {"x": ["y"], "y": ["x"]},
}  # fmt: skip
_PATCH: Final = {"type": "object", "properties": _FIELDS, "minProperties": 1}
_ACTIONS: Final = {"append": (("patch",), ()), "update": (("rowId", "patch"), ()), "remove": (("rowId",), ())}
EDIT: Final[dict[str, Any]] = {
    "type": "object", "required": ["snapshotHash", "nodeId", "action"],
    "properties": {
        "snapshotHash": HASH, "nodeId": ID, "action": {"enum": list(_ACTIONS)},
        "rowId": {"type": "string", "maxLength": limits.PART_ID_CHARS}, "patch": _PATCH,
    },
    "allOf": [
        *acting(("rowId", "patch"), _ACTIONS)["allOf"],
        {"if": {"properties": {"action": {"const": "append"}}, "required": ["action"]}, "then": {"properties": {"patch": _WHOLE_ROW}}},
    ],
}  # fmt: skip
READ: Final[dict[str, Any]] = {
    "type": "object", "required": ["nodeId", "offset"],
    "properties": {
        "nodeId": ID, "offset": {"type": "integer", "minimum": 0, "description": "0, or a nextOffset as it was given"},
        "rows": {"type": "integer", "minimum": 1, "maximum": limits.PAGE_ROWS, "description": "rows of this page; 1 shows the row whole"},
    },
}  # fmt: skip

#: The line under the head of a Markdown table.
_TABLE: Final = re.compile(r"^[ \t]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)+\|?[ \t]*$", re.MULTILINE)


# --- writing ---------------------------------------------------------------------------------------------------------


def created(draft: Draft, args: Mapping[str, Any], mark: str, place: Callable[[int, int], tuple[int, int]]) -> Edited:
    """A new storyboard with its rows. `place` finds a free spot for a size where the call names none."""
    node_id, kind = args["nodeId"], NODE_TYPES[TYPE]
    found = [FieldProblem("nodeId", "duplicate", "there is such a node already")] if draft.node(node_id) else []
    for number, shot in enumerate(args["rows"]):
        found += _checked(draft, shot, f"rows[{number}]")
    if found:
        return Edited(problems=tuple(found))
    x, y = (args["x"], args["y"]) if "x" in args else place(kind.width, kind.height)
    draft.put(Node(id=node_id, type=TYPE, title=args["title"], x=x, y=y, width=kind.width, height=kind.height))
    rows = [Row(node=node_id, id=made_id(node_id, mark, number), place=number, body=dict(shot)) for number, shot in enumerate(args["rows"])]
    for row in rows:
        draft.put(row)
    ids = tuple(row.id for row in rows)
    told = [{"rowId": row.id, "shotNumber": number} for number, row in enumerate(rows, 1)]
    return Edited(rows=ids, data={"summary": {"rowsAdded": len(rows), "totalRows": len(rows)}, "rows": told})


def edited(draft: Draft, node: Node, args: Mapping[str, Any], mark: str) -> Edited:
    """One change of one row."""
    rows, action, patch = draft.rows_of(node.id), args["action"], args.get("patch", {})
    if node.locked:
        return Edited(problems=(FieldProblem("nodeId", "locked", "the node is locked"),))
    if action == "append":
        return _appended(draft, node, rows, patch, mark)
    named = row_named(rows, args["rowId"])
    if isinstance(named, FieldProblem):
        return Edited(problems=(named,))
    at, row = named
    if action == "remove":
        draft.drop(row)
        told = {"summary": {"rowsRemoved": 1, "totalRows": len(rows) - 1}, "rowId": row.id, "preview": [shown(at, row, limits.INDEX_CHARS)]}
        return Edited(data=told)
    after = replace(row, body={**row.body, **patch})
    if found := _checked(draft, patch, "patch", after.body):
        return Edited(problems=tuple(found))
    draft.put(after)
    told = {"summary": {"rowsUpdated": 1, "totalRows": len(rows)}, "rowId": row.id, "shotNumber": at + 1, "fields": sorted(patch)}
    return Edited(rows=(row.id,), data=told)


def _appended(draft: Draft, node: Node, rows: Sequence[Row], patch: Mapping[str, Any], mark: str) -> Edited:
    found = _checked(draft, patch, "patch")
    if len(rows) >= limits.ROWS:
        found.append(FieldProblem("action", "item_count", f"at most {limits.ROWS} rows"))
    if found:
        return Edited(problems=tuple(found))
    row = Row(node=node.id, id=made_id(node.id, mark, 0), place=rows[-1].place + 1 if rows else 0, body=dict(patch))
    draft.put(row)
    told = {"summary": {"rowsAdded": 1, "totalRows": len(rows) + 1}, "rowId": row.id, "shotNumber": len(rows) + 1}
    return Edited(rows=(row.id,), data=told)


def _checked(draft: Draft, shot: Mapping[str, Any], field: str, whole: Mapping[str, Any] | None = None) -> list[FieldProblem]:
    """What the schema cannot see. `whole` = the row as it would be."""
    tables = [name for name in TEXTS if _TABLE.search(shot.get(name, ""))]
    found = [FieldProblem(f"{field}.{name}", "not_structured", "a table belongs into rows, not into a text") for name in tables]
    if sum(len((whole or shot).get(name, "")) for name in TEXTS) > limits.ROW_CHARS:
        found.append(FieldProblem(field, "length", f"all texts of a row together: at most {limits.ROW_CHARS} characters"))
    if not any(str((whole or shot).get(name, "")).strip() for name in ("plotDescription", "videoMotionPrompt")):
        found.append(FieldProblem(f"{field}.plotDescription", "empty", "a plot or a motion must be told"))
    for number, binding in enumerate(shot.get("assetBindings", ())):
        issue = not_ready(draft.node(binding["nodeId"]))
        found += [FieldProblem(f"{field}.assetBindings[{number}].nodeId", issue, "ready media of this canvas are needed")] if issue else []
    return found


def not_ready(node: Node | None) -> str:
    """Why a node cannot be used as a reference, "" = it can."""
    if node is None:
        return "not_found"
    return "not_media" if node.type not in MEDIA else "" if node.body.get("asset") else "not_ready"


# --- reading ---------------------------------------------------------------------------------------------------------


def shown(number: int, row: Row, chars: int = 0) -> dict[str, Any]:
    """A row as it is read; each text at most `chars` characters, 0 = whole. `truncated` names the fields that were cut."""
    cut = [name for name in TEXTS if chars and len(row.body.get(name, "")) > chars]
    told = {name: row.body[name] for name in ("durationSeconds", *TEXTS, "assetBindings", *SERVER) if name in row.body}
    told |= {name: told[name][:chars] for name in cut}
    return {"rowId": row.id, "shotNumber": number + 1, **told, **({"truncated": cut} if cut else {})}
