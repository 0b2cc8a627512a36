"""canvas_apply_ops: up to 20 operations planned on a copy, all of them or none.

It adds and updates nodes and connects them; it deletes nothing, takes no URL and no metadata, moves nothing and submits nothing
(S1.56, S1.73, S1.74). What a patch may hold is what the registry says, for each type of node.
Seed: S1.27, S1.42, S1.53, S1.71, S1.72.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import PROBLEMS_MAX, FieldProblem
from ..contract.schema import Shape, closed
from ..contract.session import Issued, Need, Read
from . import limits
from .model import Draft, Edge, Node
from .places import below, beside
from .registry import CREATABLE, FIELDS, INPUT, NODE_TYPES, OUTPUT, REGISTRY_HASH, Field, NodeType
from .seam import DETAIL, GET_STATE, NODE, PAGE, Asked, Doing, Done, Plan, whole_texts, writing
from .seam import NODE_TYPES as LIST_NODE_TYPES

#: Controls of both kinds, and what breaks a line.
_CONTROL: Final = r"\x00-\x1f\x7f-\x9f\u2028\u2029"
#: No outer blanks, no control characters.
ID: Final = {"type": "string", "maxLength": limits.ID_CHARS, "pattern": rf"^[^\s{_CONTROL}]([^{_CONTROL}]*[^\s{_CONTROL}])?$"}
HASH: Final = {"type": "string", "maxLength": limits.PART_ID_CHARS, "description": "the snapshotHash the last read or write gave"}
_TITLE: Final = {"type": "string", "maxLength": limits.TITLE_CHARS}
PLACE: Final = {"type": "integer", "minimum": -limits.REACH, "maximum": limits.REACH}
_HANDLE: Final = {"type": "string", "maxLength": limits.ID_CHARS}


def _field(field: Field) -> dict[str, Any]:
    return {"type": "string", "maxLength": field.max_characters or limits.ID_CHARS}


_PATCH: Final[dict[str, Any]] = {"type": "object", "minProperties": 1, "properties": {name: _field(field) for name, field in FIELDS.items()}}


def _op(kind: str, required: tuple[str, ...], **fields: Any) -> dict[str, Any]:
    return {"type": "object", "required": ["type", "id", *required], "properties": {"type": {"const": kind}, "id": ID, **fields}}


_OPS: Final = (
    {
        **_op(
            "add_node", ("nodeType",), nodeType={"enum": list(CREATABLE)}, title=_TITLE, content=_PATCH["properties"]["content"], patch=_PATCH,
            x=PLACE, y=PLACE,
        ),
        "dependentRequired": {"x": ["y"], "y": ["x"]},
    },
    _op("update_node", ("patch",), patch=_PATCH),
    _op("connect_nodes", ("fromNodeId", "toNodeId"), fromNodeId=ID, toNodeId=ID, fromHandleId=_HANDLE, toHandleId=_HANDLE),
)  # fmt: skip
APPLY_OPS: Final[dict[str, Any]] = {
    "type": "object", "required": ["snapshotHash", "ops"],
    "properties": {"snapshotHash": HASH, "ops": {"type": "array", "minItems": 1, "maxItems": limits.OPS, "items": {"oneOf": list(_OPS)}}},
}  # fmt: skip

_GEOMETRY: Final = re.compile(r"ops\[\d+\]\.(?:patch\.)?(?:x|y|width|height|position|size)")


class _Hinting(Shape):
    """Says where a node is moved, to whoever tries it here (S1.74)."""

    def problems(self, value: object) -> list[FieldProblem]:
        return [_hinted(p) for p in super().problems(value)]


def _hinted(found: FieldProblem) -> FieldProblem:
    if found.issue == "unknown_field" and _GEOMETRY.fullmatch(found.field):
        return FieldProblem(found.field, found.issue, "nodes are moved with canvas_arrange_nodes")
    return found


# --- planning --------------------------------------------------------------------------------------------------------


class _Batch(Struct):
    """The operations on their way: the copy, what is wrong, what must be read first, which new nodes still need a place."""

    asked: Asked
    draft: Draft
    problems: list[FieldProblem] = []
    needs: list[Need] = []
    unplaced: dict[str, Node] = {}
    made: set[str] = set()

    def wrong(self, field: str, issue: str, message: str) -> None:
        self.problems.append(FieldProblem(field, issue, message))


def _plan(asked: Asked) -> Plan:
    batch = _Batch(asked, asked.draft())
    for number, op in enumerate(asked.args["ops"]):
        _PLANS[op["type"]](batch, op, f"ops[{number}]")
    if batch.problems:
        return Plan(problems=tuple(batch.problems[:PROBLEMS_MAX]), needs=tuple(batch.needs))
    _place(batch)
    changes = batch.draft.changes()
    ops = [{"index": n, "type": op["type"], "id": op["id"], "status": "applied"} for n, op in enumerate(asked.args["ops"])]
    counts = {kind: sum(op["type"] == kind for op in ops) for kind in _PLANS}
    summary = {"added": counts["add_node"], "updated": counts["update_node"], "connected": counts["connect_nodes"]}
    preview = [
        {"id": n.id, "type": n.type, "title": n.title, "x": n.x, "y": n.y, "width": n.width, "height": n.height}
        for n in (c.after for c in changes) if isinstance(n, Node)
    ]  # fmt: skip
    told = {"ops": ops, "summary": summary, "preview": preview}
    return Plan(changes=changes, needs=tuple(batch.needs), resolved=told, data=told)


def _add(batch: _Batch, op: Mapping[str, Any], field: str) -> None:
    kind = NODE_TYPES[op["nodeType"]]
    batch.needs.append(Need(f"{field}.nodeType", LIST_NODE_TYPES, token=REGISTRY_HASH))
    if batch.draft.node(op["id"]):
        batch.wrong(f"{field}.id", "duplicate", "there is such a node already")
    given = {name: op[name] for name in ("title", "content") if name in op}
    if twice := given.keys() & op.get("patch", {}).keys():
        batch.wrong(f"{field}.patch.{min(twice)}", "duplicate", "it is given twice")
    for name in given:
        _check(batch, kind, {name: op[name]}, field)
    _check(batch, kind, op.get("patch", {}), f"{field}.patch")
    values = {**given, **op.get("patch", {})}
    node = Node(
        id=op["id"], type=kind.type, title=values.pop("title", ""), x=op.get("x", 0), y=op.get("y", 0), width=kind.width, height=kind.height,
        body=values,
    )  # fmt: skip
    batch.draft.put(node)
    batch.made.add(node.id)
    if "x" not in op:
        batch.unplaced[node.id] = node


def _update(batch: _Batch, op: Mapping[str, Any], field: str) -> None:
    node = _known(batch, op["id"], f"{field}.id")
    if node is None:
        return
    kind = NODE_TYPES.get(node.type)
    if kind is None:
        batch.wrong(f"{field}.id", "unsupported_type", f"nothing is known of nodes of type {node.type}")
        return
    if node.locked:
        batch.wrong(f"{field}.id", "locked", "the node is locked")
    _check(batch, kind, op["patch"], f"{field}.patch")
    if "content" in kind.fields and node.id not in batch.made:
        stored = batch.asked.board.node(node.id)
        token = stored.hash if stored else ""
        batch.needs.append(Need(f"{field}.id", GET_STATE, batch.asked.node_mark(node.id), PAGE, token))
    title = op["patch"].get("title", node.title)
    batch.draft.put(replace(node, title=title, body={**node.body, **{n: v for n, v in op["patch"].items() if n != "title"}}))


def _connect(batch: _Batch, op: Mapping[str, Any], field: str) -> None:
    source, target = (_known(batch, op[name], f"{field}.{name}") for name in ("fromNodeId", "toNodeId"))
    if batch.draft.edge(op["id"]):
        batch.wrong(f"{field}.id", "duplicate", "there is such a connection already")
    if source is None or target is None:
        return
    edge = Edge(
        id=op["id"], source=source.id, target=target.id, source_handle=op.get("fromHandleId", OUTPUT), target_handle=op.get("toHandleId", INPUT)
    )
    inputs = [e for e in batch.draft.edges_at(target.id) if e.target == target.id]
    for part, message in _refusals(edge, source, target, inputs):
        batch.wrong(f"{field}.{part}", "locked" if part == "toNodeId" and target.locked else "invalid_connection", message)
    batch.draft.put(edge)


def _refusals(edge: Edge, source: Node, target: Node, inputs: Iterable[Edge]) -> Iterator[tuple[str, str]]:
    """Why this connection may not be, by what the registry says of both ends (S1.72)."""
    gives, takes = NODE_TYPES.get(source.type), NODE_TYPES.get(target.type)
    ends = [(e.source, e.source_handle, e.target_handle) for e in inputs]
    if source.id == target.id:
        yield "toNodeId", "a node is no input of itself"
    elif target.locked:
        yield "toNodeId", "the node is locked"
    elif gives is None or not gives.kind:
        yield "fromNodeId", f"a {source.type} gives nothing"
    elif takes is None or takes.max_inputs == 0:
        yield "toNodeId", f"a {target.type} takes no inputs"
    elif gives.kind not in takes.accepts:
        yield "toNodeId", f"a {target.type} takes no {gives.kind}"
    elif edge.source_handle != OUTPUT:
        yield "fromHandleId", f"one of: {OUTPUT}"
    elif edge.target_handle not in takes.handles:
        yield "toHandleId", f"one of: {', '.join(takes.handles)}"
    elif (edge.source, edge.source_handle, edge.target_handle) in ends:
        yield "toNodeId", "they are connected so already"
    elif takes.max_inputs is not None and len(ends) >= takes.max_inputs:
        yield "toNodeId", f"a {target.type} takes at most {takes.max_inputs} inputs"


def _known(batch: _Batch, node_id: str, field: str) -> Node | None:
    """The node, which this session must have been given."""
    node = batch.draft.node(node_id)
    if node is None:
        batch.wrong(field, "not_found", "there is no such node")
    elif node_id not in batch.made:
        batch.needs += batch.asked.must_know(field, node_id)
    return node


def _check(batch: _Batch, kind: NodeType, values: Mapping[str, str], field: str) -> None:
    for name, value in values.items():
        own = kind.fields.get(name)
        if own is None:
            batch.wrong(f"{field}.{name}", "unsupported_field", f"a {kind.type} has: {', '.join(kind.fields)}")
        elif own.max_characters and len(value) > own.max_characters:
            batch.wrong(f"{field}.{name}", "length", f"at most {own.max_characters} characters")
        elif not own.max_characters:
            found = batch.draft.node(value)
            if found is None or found.type != "image":
                batch.wrong(f"{field}.{name}", "not_found" if found is None else "wrong_node_type", "an image node of this canvas is needed")


def _place(batch: _Batch) -> None:
    """New nodes without a place stand beside what they are connected with, else in a line below everything."""
    draft, line = batch.draft, None
    for node in batch.unplaced.values():
        draft.drop(node)
    for node in batch.unplaced.values():
        spot = None
        for edge in draft.edges_at(node.id):
            linked = draft.node(edge.target if edge.source == node.id else edge.source)
            if linked:
                spot = beside(draft, linked, node.width, node.height, before=edge.source == node.id)
                break
        if spot is None:
            spot = line = below(draft, node.width, node.height, line)
            line = (line[0] + node.width + limits.GAP, line[1])
        draft.put(replace(node, x=spot[0], y=spot[1]))


_PLANS: Final[dict[str, Callable[[_Batch, Mapping[str, Any], str], None]]] = {
    "add_node": _add, "update_node": _update, "connect_nodes": _connect,
}  # fmt: skip


def _after(asked: Asked, plan: Plan) -> Done:
    """What was made or changed is known to whoever did it, as it now stands."""
    nodes = [n for n in (asked.board.node(c.key[2]) for c in plan.changes if c.key[0] == "node") if n]
    seen = [Read(GET_STATE, asked.node_mark(n.id), DETAIL, n.hash) for n in nodes]
    issued = Issued(NODE, tuple(n.id for n in nodes), asked.canvas_id)
    return Done(data={"nodeHashes": {n.id: n.hash for n in nodes}}, facts=(issued, *seen))


TABLE: Final[tuple[Doing, ...]] = (
    writing(
        "apply_ops", APPLY_OPS, "Add nodes, update their texts, connect them: up to 20 operations, all or none.", _plan, after=_after,
        arguments=_Hinting(closed(whole_texts(APPLY_OPS)).raw),
    ),
)  # fmt: skip
