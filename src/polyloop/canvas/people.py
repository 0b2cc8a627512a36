"""What people alone do on a canvas: make one, move and lock and delete nodes, undo and redo. No agent is ever given these (S1.73)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ..contract.problem import FieldProblem, problem
from ..contract.schema import EXACT_MAX
from . import limits
from .history import Past, carried_out, entries, first_undone, last_done, mark
from .model import Draft, Node, inverse, named
from .ops import HASH, ID, PLACE
from .seam import Asked, Doing, Done, Plan, reading, writing

_SIDE: Final = {"type": "integer", "minimum": 1, "maximum": limits.SIDE}
_CHOSEN: Final = {"type": "array", "items": ID, "minItems": 1, "maxItems": limits.CHOSEN, "uniqueItems": True}


def _args(required: tuple[str, ...], **fields: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": fields}


_NEW: Final = _args(("title",), title={"type": "string", "maxLength": limits.TITLE_CHARS})
_DELETE: Final = _args(("snapshotHash", "nodeIds"), snapshotHash=HASH, nodeIds=_CHOSEN)
_LOCK: Final = _args(("snapshotHash", "nodeIds", "locked"), snapshotHash=HASH, nodeIds=_CHOSEN, locked={"type": "boolean"})
_MOVED: Final = {
    **_args(("id",), id=ID, x=PLACE, y=PLACE, width=_SIDE, height=_SIDE, parentId={"type": ["string", "null"], "maxLength": limits.ID_CHARS}),
    "dependentRequired": {"x": ["y"], "y": ["x"], "width": ["height"], "height": ["width"]}, "minProperties": 2,
}  # fmt: skip
_MOVE: Final = _args(("snapshotHash", "nodes"), snapshotHash=HASH, nodes={"type": "array", "items": _MOVED, "minItems": 1, "maxItems": limits.CHOSEN})
_BACK: Final = _args(("snapshotHash",), snapshotHash=HASH)
_VIEW: Final = _args(("view",), view={"type": "object", "additionalProperties": {}, "maxProperties": limits.CHOSEN})
_HISTORY: Final = _args(
    (), before={"type": "integer", "minimum": 1, "maximum": EXACT_MAX}, limit={"type": "integer", "minimum": 1, "maximum": limits.PAGE_HISTORY}
)


def _new(asked: Asked) -> Plan:
    return Plan(resolved={"title": asked.args["title"]}, data={"title": asked.args["title"]})


# --- nodes -----------------------------------------------------------------------------------------------------------


def _chosen(draft: Draft, ids: list[str], field: str, *, locked: bool) -> Iterator[Node | FieldProblem]:
    """The nodes named; a problem for one that is not there, or is locked where that is not `locked`'s own business."""
    for number, node_id in enumerate(ids):
        node = draft.node(node_id)
        if node is None:
            yield FieldProblem(f"{field}[{number}]", "not_found", "there is no such node")
        elif node.locked and not locked:
            yield FieldProblem(f"{field}[{number}]", "locked", "the node is locked")
        else:
            yield node


def _changed(asked: Asked, draft: Draft, found: list[Node | FieldProblem]) -> Plan:
    wrong = tuple(p for p in found if isinstance(p, FieldProblem))
    changes = draft.changes()
    told = {"changed": named(changes)}
    return Plan(problems=wrong) if wrong else Plan(changes=changes, resolved=told, data=told)


def _delete(asked: Asked) -> Plan:
    """Connections and rows of a node go with it; what stood in a frame stays where it is."""
    draft = asked.draft()
    found = list(_chosen(draft, asked.args["nodeIds"], "nodeIds", locked=False))
    for node in found:
        if isinstance(node, Node):
            for edge in draft.edges_at(node.id):
                draft.drop(edge)
            for row in draft.rows_of(node.id):
                draft.drop(row)
            for child in draft.inside(node.id):
                draft.put(replace(child, parent=""))
            draft.drop(node)
    return _changed(asked, draft, found)


def _lock(asked: Asked) -> Plan:
    draft = asked.draft()
    found = list(_chosen(draft, asked.args["nodeIds"], "nodeIds", locked=True))
    for node in found:
        if isinstance(node, Node):
            draft.put(replace(node, locked=asked.args["locked"]))
    return _changed(asked, draft, found)


def _move(asked: Asked) -> Plan:
    """Where a node stands, how large it is, which frame it is in (null = none)."""
    draft, moves = asked.draft(), asked.args["nodes"]
    ids = [move["id"] for move in moves]
    found = list(_chosen(draft, ids, "nodes", locked=False))
    found += [FieldProblem(f"nodes[{n}].id", "duplicate", "the node is named before") for n, i in enumerate(ids) if i in ids[:n]]
    for number, (node, move) in enumerate(zip(tuple(found[: len(moves)]), moves, strict=True)):
        if isinstance(node, Node):
            parent = move.get("parentId", node.parent) or ""
            frame = draft.node(parent) if parent else None
            if parent and (frame is None or frame.type != "frame" or node.type == "frame"):
                issue = "not_found" if frame is None else "wrong_node_type"
                found.append(FieldProblem(f"nodes[{number}].parentId", issue, "a frame of this canvas is needed, and only one deep"))
            place = {name: move[name] for name in ("x", "y", "width", "height") if name in move}
            draft.put(replace(node, parent=parent, **place))
    return _changed(asked, draft, found)


# --- history ---------------------------------------------------------------------------------------------------------


def _turning(kind: str, find: Callable[[Any], Past | None]) -> Callable[[Asked], Plan]:
    def plan(asked: Asked) -> Plan:
        past = find(asked.board)
        if past is None:
            raise problem("conflict", f"there is nothing to {kind}", stage="precondition", details={"reason": f"nothing_to_{kind}"})
        changes = carried_out(asked.board, inverse(past.changes) if kind == "undo" else past.changes, asked.deliveries.of)
        told = {"revision": past.rev, "changed": named(changes)}
        return Plan(changes=changes, resolved=told, data=told, kind=kind, undoes=past.rev)

    return plan


def _undone(asked: Asked, plan: Plan) -> None:
    _turned(asked, plan, "undone")


def _redone(asked: Asked, plan: Plan) -> None:
    _turned(asked, plan, "done")


def _turned(asked: Asked, plan: Plan, state: str) -> None:
    mark(asked.board, plan.undoes, state)
    for change in plan.changes:
        if change.before is None and isinstance(change.after, Node):
            asked.deliveries.arrived(asked.board, change.after)


def _history(asked: Asked, _: Plan) -> Done:
    count = asked.args.get("limit", limits.PAGE_HISTORY)
    found = entries(asked.board, asked.args.get("before", asked.board.head.rev + 1), count)
    told = [
        {
            "revision": p.rev, "kind": p.kind, **({"undoes": p.undoes} if p.undoes else {"state": p.state}), "actor": p.actor,
            "operationId": p.operation, "at": p.at, "snapshotHash": p.content, "changed": named(p.changes),
        }
        for p in found
    ]  # fmt: skip
    more = len(found) == count and found[-1].rev > 1
    return Done(data={"canvasId": asked.canvas_id, "entries": told, "hasMore": more, "nextBefore": found[-1].rev if more else None})


# --- what only the screen needs --------------------------------------------------------------------------------------


def _viewed(asked: Asked) -> Plan:
    too_long = len(msgspec.json.encode(asked.args["view"])) > limits.VIEW_BYTES
    return Plan(problems=(FieldProblem("view", "length", f"at most {limits.VIEW_BYTES} bytes"),) if too_long else ())


def _looked(asked: Asked, _: Plan) -> None:
    body = msgspec.json.encode(asked.args["view"]).decode()
    asked.board.tx.run(
        "insert into canvas_view (tenant, canvas, owner, body) values (?, ?, ?, ?)"
        " on conflict (tenant, canvas, owner) do update set body = excluded.body",
        *asked.board.key, asked.owner, body,
    )  # fmt: skip


def _view(asked: Asked, _: Plan) -> Done:
    row = asked.board.tx.row("select body from canvas_view where tenant = ? and canvas = ? and owner = ?", *asked.board.key, asked.owner)
    return Done(data={"canvasId": asked.canvas_id, "view": msgspec.json.decode(row[0]) if row else {}})


TABLE: Final[tuple[Doing, ...]] = (
    writing("new", _NEW, "Make a canvas.", _new, people=True, makes=True),
    writing("delete_nodes", _DELETE, "Delete nodes with their connections and rows.", _delete, people=True, confirm=True),
    writing("lock_nodes", _LOCK, "Lock nodes against change, or unlock them.", _lock, people=True),
    writing("move_nodes", _MOVE, "Put nodes elsewhere, give them a size, put them into a frame.", _move, people=True),
    writing("undo", _BACK, "Take the last change back.", _turning("undo", last_done), people=True, also=_undone),
    writing("redo", _BACK, "Bring back what was undone.", _turning("redo", first_undone), people=True, also=_redone),
    reading("history", _HISTORY, "What was done, newest first.", _history, people=True),
    writing("set_view", _VIEW, "Keep what only the screen needs; it is in no hash.", _viewed, people=True, also=_looked),
    reading("view", _args(()), "What the screen kept.", _view, people=True),
)
