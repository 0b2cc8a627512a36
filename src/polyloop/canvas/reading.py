"""canvas_get_state and canvas_list_node_types: what is on a canvas, by pages, at one of three levels.

A directory (`index`) tells that nodes are there; texts are excerpts. A neighbourhood (`page`) shows up to 2,000 characters of each
text, named nodes (`detail`) all of it. A page ends where it would grow too large for its reader, so a page is always whole; its
continuation is an offset given out for this canvas as it stands, and of no use once it has changed (S1.32). URLs, storage keys and
whatever the registry does not name are never told. Seed: S1.39, S1.40, S1.52, S1.62-S1.64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..contract.problem import FieldProblem, bad_arguments, problem
from ..contract.session import Fact, Issued, Read
from . import limits
from .model import Edge, Node, Row
from .ops import ID
from .registry import NODE_TYPES, REGISTRY_HASH, node_types
from .seam import DETAIL, GET_STATE, INDEX, NODE, PAGE, Asked, Doing, Done, Plan, reading
from .seam import NODE_TYPES as LIST_NODE_TYPES

_LEVELS: Final = {INDEX: "index", PAGE: "page", DETAIL: "detail"}
_CHARS: Final = {INDEX: limits.INDEX_CHARS, PAGE: limits.PAGE_CHARS, DETAIL: limits.CONTENT_CHARS}
#: Kinds of the handles that offsets are, by argument.
OFFSETS: Final = ("offset", "connectionOffset", "storyboardOffset")
#: What of a node's task and asset is told: facts, never where they are kept.
_TASK: Final = ("taskId", "status")
_ASSET: Final = ("assetId", "mimeType", "bytes", "width", "height", "durationMs")

_OFFSET: Final = {"type": "integer", "minimum": 0, "description": "0, or as a page gave it; one list goes on alone if only its offset is given"}
_NODES: Final = {"type": "array", "items": ID, "minItems": 1, "maxItems": limits.NAMED, "uniqueItems": True}
STATE: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(OFFSETS, _OFFSET),
        "nodeIds": {**_NODES, "description": "these nodes, whole"},
        "focusNodeIds": {**_NODES, "description": "these nodes and those around them"},
        "depth": {"type": "integer", "minimum": 0, "maximum": limits.DEPTH, "description": "how many connections around the focus"},
        "includeRelated": {"type": "boolean", "description": "everything connected with the focus"},
    },
    "dependentRequired": {"depth": ["focusNodeIds"], "includeRelated": ["focusNodeIds"], "storyboardOffset": ["nodeIds"]},
    "allOf": [{"not": {"required": ["nodeIds", "focusNodeIds"]}}, {"not": {"required": ["depth", "includeRelated"]}}],
}  # fmt: skip


class _Scope(Struct, frozen=True):
    """What a read is about: nodes and connections of these numbers, and how to get at a part of each. `near` = ids in scope, None = all."""

    level: int
    total: int
    edges: int
    near: Mapping[str, Node] | None = None
    joined: Sequence[Edge] = ()
    truncated: bool = False


def _checked(asked: Asked) -> Plan:
    """An offset must be 0 or have been given out. Raises revision_conflict when the canvas has changed since (S1.32)."""
    handles, head = asked.session.handles, asked.board.head
    problems: list[FieldProblem] = []
    for name in OFFSETS:
        value = asked.args.get(name, 0)
        if value == 0 or not asked.session.lasting or handles.knows(name, value, asked.canvas_id, head.content):
            continue
        problems += handles.check(name, name, value, asked.canvas_id)
        if handles.knows(name, value, asked.canvas_id):
            details = {"field": name, "current": head.content}
            raise problem("revision_conflict", "the canvas has changed since the page before; read from 0", stage="precondition", details=details)
    return Plan(problems=tuple(problems))


def _state(asked: Asked, _: Plan) -> Done:
    args, board, head = asked.args, asked.board, asked.board.head
    scope = _scoped(asked)
    # Going on with one list alone asks nothing of the other: it stands at its end.
    offset = args.get("offset", scope.total if args.get("connectionOffset") else 0)
    start = args.get("connectionOffset", scope.edges if args.get("offset") else 0)
    rows_at, most = args.get("storyboardOffset", 0), max((n.count for n in (scope.near or {}).values()), default=0)
    for name, value, total in (("offset", offset, scope.total), ("connectionOffset", start, scope.edges), ("storyboardOffset", rows_at, most)):
        if value > total:
            raise bad_arguments([FieldProblem(name, "out_of_range", f"there are {total}")])
    if scope.near is None:
        found, edges = board.nodes(offset, limits.PAGE_NODES), board.edges(start, limits.PAGE_EDGES)
    else:
        found, edges = list(scope.near.values())[offset : offset + limits.PAGE_NODES], list(scope.joined[start : start + limits.PAGE_EDGES])
    shown, rows = _page(asked, found, scope.level)
    end, last = offset + len(shown), start + len(edges)
    more, more_edges = end < scope.total, last < scope.edges
    told = {
        "canvasId": head.id, "title": head.title, "snapshotHash": head.content, "mediaSnapshotHash": head.media, "level": _LEVELS[scope.level],
        "range": {"offset": offset, "count": len(shown), "total": scope.total}, "nodes": shown, "totalNodes": scope.total,
        "hasMore": more, "nextOffset": end if more else None,
        "connectionRange": {"offset": start, "count": len(edges), "total": scope.edges}, "connections": [_edge(e) for e in edges],
        "totalConnections": scope.edges, "hasMoreConnections": more_edges, "nextConnectionOffset": last if more_edges else None,
        **({"truncated": True} if scope.truncated else {}),
    }  # fmt: skip
    issued = ((name, value) for name, value in (("offset", end), ("connectionOffset", last)) if (more if name == "offset" else more_edges))
    facts = [Issued(name, (value,), head.id, head.content) for name, value in (*issued, *(("storyboardOffset", n) for n in rows))]
    return Done(data=told, facts=(Read(GET_STATE, head.id, 1, head.content), *facts, *_known(asked, found[: len(shown)], shown, scope.level)))


def _known(asked: Asked, nodes: Sequence[Node], shown: Sequence[Mapping[str, Any]], level: int) -> tuple[Fact, ...]:
    """A text that was cut is one that was not read (S1.63)."""
    ids = Issued(NODE, tuple(n.id for n in nodes), asked.canvas_id)
    whole = [n for n, told in zip(nodes, shown, strict=True) if level > INDEX and not any(name.endswith("Truncated") for name in told)]
    return (ids, *(Read(GET_STATE, asked.node_mark(n.id), level, n.hash) for n in whole))


# --- what is read ----------------------------------------------------------------------------------------------------


def _scoped(asked: Asked) -> _Scope:
    """Raises not_found for an id that is no node of this canvas: none is dropped silently."""
    args, board = asked.args, asked.board
    if "nodeIds" not in args and "focusNodeIds" not in args:
        return _Scope(INDEX, board.head.nodes, board.head.edges)
    named = args.get("nodeIds") or args["focusNodeIds"]
    near = {node_id: board.node(node_id) for node_id in named}
    if lacking := [node_id for node_id, node in near.items() if node is None]:
        raise problem("not_found", f"there are no such nodes: {', '.join(lacking)}", stage="resolve", details={"nodeIds": lacking})
    found = {node_id: node for node_id, node in near.items() if node}
    if "nodeIds" in args:
        joined = {e.id: e for node_id in found for e in board.edges_at(node_id)}
        return _Scope(DETAIL, len(found), len(joined), found, list(joined.values()))
    deep = limits.RELATED if args.get("includeRelated") else args.get("depth", 1)
    joined, truncated = _around(asked, found, deep)
    inside = [e for e in joined.values() if e.source in found and e.target in found]
    return _Scope(PAGE, len(found), len(inside), found, inside, truncated)


def _around(asked: Asked, found: dict[str, Node], deep: int) -> tuple[dict[str, Edge], bool]:
    """Adds to `found` what lies within `deep` connections, in the order it is reached; at most `limits.RELATED` nodes."""
    edges: dict[str, Edge] = {}
    rim = list(found)
    for step in range(deep + 1):
        at_rim = {e.id: e for node_id in rim for e in asked.board.edges_at(node_id)}
        edges |= at_rim
        if step == deep:
            break
        ids = dict.fromkeys(end for e in at_rim.values() for end in (e.source, e.target) if end not in found)
        if not ids:
            break
        rim = list[str]()
        for node_id in ids:
            if len(found) >= limits.RELATED:
                return edges, True
            if node := asked.board.node(node_id):
                found[node_id] = node
                rim.append(node_id)
    return edges, False


# --- how it is shown -------------------------------------------------------------------------------------------------


def _page(asked: Asked, nodes: Sequence[Node], level: int) -> tuple[list[dict[str, Any]], list[int]]:
    """As many nodes as fit, at least one; and the offsets of rows these give out."""
    out, offsets, size = list[dict[str, Any]](), list[int](), 0
    for node in nodes:
        told = projected(node, level, kept=not node.body.get("asset") or asked.deliveries.kept(asked.board, node))
        kind = NODE_TYPES.get(node.type)
        if kind and kind.structured:
            told[kind.structured] = _structured(asked, node, level)
        size += len(msgspec.json.encode(told))
        if out and size > limits.PAGE_BYTES:
            break
        out.append(told)
        if kind and (more := told.get(kind.structured, {}).get("nextOffset")):
            offsets.append(more)
    return out, offsets


def projected(node: Node, level: int, *, kept: bool = True) -> dict[str, Any]:
    """A node as it is told at a level. `kept` = whether its file is still there: one that is lost is no reference."""
    kind = NODE_TYPES.get(node.type)
    told: dict[str, Any] = {
        "id": node.id, "type": node.type, "title": node.title, "position": {"x": node.x, "y": node.y},
        "size": {"width": node.width, "height": node.height}, "nodeHash": node.hash,
        **({"parentId": node.parent} if node.parent else {}), **({"locked": True} if node.locked else {}),
    }  # fmt: skip
    if kind is None:
        return {**told, "agentSupported": False}
    for name in kind.fields:
        if name != "title" and (value := node.body.get(name)):
            told[name] = value[: _CHARS[level]]
            if len(value) > _CHARS[level]:
                told[f"{name}Truncated"] = True
    if task := node.body.get("task"):
        told["generation"] = {name: task[name] for name in _TASK if name in task}
    if kind.kind in ("image", "video", "audio", "character"):
        asset = node.body.get("asset")
        told["referenceReady"] = bool(asset) and kept
        told |= {"asset": {name: asset[name] for name in _ASSET if name in asset}} if asset else {}
        told |= {} if asset and kept else {"referenceIssue": "asset_lost" if asset else "no_asset"}
    return told


def _structured(asked: Asked, node: Node, level: int) -> dict[str, Any]:
    """Rows are shown where the node is; what is changed must be read with the reading made for it."""
    if level == INDEX:
        return {"totalRows": node.count}
    offset = asked.args.get("storyboardOffset", 0)
    rows = asked.board.rows_of(node.id)
    part = rows[offset : offset + limits.PAGE_ROWS]
    end = offset + len(part)
    more = end < len(rows)
    return {
        "rows": [_row(row, offset + n, level) for n, row in enumerate(part, 1)], "range": {"offset": offset, "count": len(part), "total": len(rows)},
        "totalRows": len(rows), "hasMore": more, "nextOffset": end if more else None,
    }  # fmt: skip


def _row(row: Row, number: int, level: int) -> dict[str, Any]:
    """At most an excerpt of each text; ids only where a node was named."""
    told = {name: value[: limits.INDEX_CHARS] if isinstance(value, str) else value for name, value in row.body.items()}
    return {"number": number, **({"rowId": row.id} if level == DETAIL else {}), **told}


def _edge(edge: Edge) -> dict[str, Any]:
    return {
        "id": edge.id, "fromNodeId": edge.source, "fromHandleId": edge.source_handle, "toNodeId": edge.target, "toHandleId": edge.target_handle,
    }  # fmt: skip


def _types(asked: Asked, _: Plan) -> Done:
    return Done(data=node_types(), facts=(Read(LIST_NODE_TYPES, token=REGISTRY_HASH),))


TABLE: Final[tuple[Doing, ...]] = (
    reading("get_state", STATE, "Read the canvas: nodes, connections, texts, and the snapshotHash writes are based on.", _state, plan=_checked),
    reading("list_node_types", {"type": "object"}, "The types of nodes, their fields and what they can be connected with.", _types),
)
