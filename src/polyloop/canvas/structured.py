"""The operations on storyboards and batch tables. An edit is based on the hash of its node alone, so work elsewhere never disturbs it.

Seed: S1.41, S1.44, S1.54, S1.57, S1.62, S1.76, S1.77.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..contract.problem import FieldProblem
from ..contract.session import Fact, Issued, Need, Read
from ..contract.snapshot import State
from . import limits, rows, storyboard, table
from .model import Draft, Node
from .places import below
from .rows import Edited
from .seam import DETAIL, GET_STATE, NODE, Asked, Doing, Done, Plan, reading, writing


def _of(kind: str) -> Callable[[Asked], tuple[State, Callable[[str], dict[str, Any]]]]:
    """The state of the node itself, of this kind of node. Raises ProblemError: not_found, type_mismatch."""

    def base(asked: Asked) -> tuple[State, Callable[[str], dict[str, Any]]]:
        node = rows.structured(asked.draft(), asked.args["nodeId"], kind)
        return node.hash, lambda _: {"added": [], "updated": [node.id], "removed": [], "count": 1}

    return base


# --- reading ---------------------------------------------------------------------------------------------------------


def _checked(kind: str) -> Callable[[Asked], Plan]:
    def plan(asked: Asked) -> Plan:
        node = rows.structured(asked.draft(), asked.args["nodeId"], kind)
        return Plan(problems=tuple(rows.check_offset(asked.session, node, "offset", asked.args["offset"])))

    return plan


def _head(asked: Asked, node: Node) -> dict[str, Any]:
    return {"canvasId": asked.canvas_id, "nodeId": node.id, "title": node.title, "snapshotHash": node.hash}


def _read_storyboard(asked: Asked, _: Plan) -> Done:
    node = rows.structured(asked.draft(), asked.args["nodeId"], storyboard.TYPE)
    every, count = asked.board.rows_of(node.id), asked.args.get("rows", limits.PAGE_ROWS)
    chars = limits.PAGE_CHARS if count > 1 else 0
    told = rows.page(every, asked.args["offset"], count, lambda number, row: storyboard.shown(number, row, chars))
    return Done(data={**_head(asked, node), "storyboard": told}, facts=rows.read_facts(node, every, told))


def _read_table(asked: Asked, _: Plan) -> Done:
    node = rows.structured(asked.draft(), asked.args["nodeId"], table.TYPE)
    every = asked.board.rows_of(node.id)
    told = rows.page(every, asked.args["offset"], limits.PAGE_ROWS, table.shown)
    return Done(
        data={**_head(asked, node), "batchTable": {**table.told(node, every, asked.board.node), **told}}, facts=rows.read_facts(node, every, told)
    )


# --- writing ---------------------------------------------------------------------------------------------------------


def _planned(asked: Asked, draft: Draft, found: Edited, needs: tuple[Need, ...], problems: tuple[FieldProblem, ...] = ()) -> Plan:
    """Row ids are made from the operation, so what a person is shown to approve holds none: planned again it must be the same."""
    if found.problems or problems:
        return Plan(problems=(*problems, *found.problems), needs=needs)
    shown = {"nodeId": asked.args["nodeId"], "action": asked.args.get("action", "create"), "summary": found.data["summary"]}
    return Plan(changes=draft.changes(), needs=needs, resolved=shown, data={"nodeId": asked.args["nodeId"], **found.data})


def _create(asked: Asked) -> Plan:
    draft = asked.draft()
    found = storyboard.created(draft, asked.args, asked.mark, lambda width, height: below(draft, width, height))
    named = [
        (f"rows[{n}].assetBindings[{m}].nodeId", binding["nodeId"])
        for n, shot in enumerate(asked.args["rows"])
        for m, binding in enumerate(shot.get("assetBindings", ()))
    ]
    return _planned(asked, draft, found, _known(asked, named))


def _edit(kind: str, edited: Callable[[Draft, Node, dict[str, Any], str], Edited]) -> Callable[[Asked], Plan]:
    def plan(asked: Asked) -> Plan:
        draft = asked.draft()
        node = rows.structured(draft, asked.args["nodeId"], kind)
        patch = asked.args.get("patch", {})
        named = [(f"patch.inputNodeIds[{n}]", node_id) for n, node_id in enumerate(patch.get("inputNodeIds", ()))]
        named += [(f"patch.assetBindings[{n}].nodeId", b["nodeId"]) for n, b in enumerate(patch.get("assetBindings", ()))]
        needs = (*rows.needs(node, draft.rows_of(node.id), asked.args), *_known(asked, named))
        unissued = tuple(rows.check_row(asked.session, node, asked.args))
        return _planned(asked, draft, edited(draft, node, asked.args, asked.mark), needs, unissued)

    return plan


def _known(asked: Asked, named: list[tuple[str, str]]) -> tuple[Need, ...]:
    return tuple(need for field, node_id in named for need in asked.must_know(field, node_id))


def _written(asked: Asked) -> Node:
    node = asked.board.node(asked.args["nodeId"])
    assert node is not None
    return node


def _rows_known(asked: Asked, plan: Plan, was: str, now: Node) -> tuple[Fact, ...]:
    touched = [change.key[2] for change in plan.changes if change.key[0] == "row" and change.after]
    return rows.write_facts(asked.session, was, now, asked.board.rows_of(now.id), touched)


def _after_create(asked: Asked, plan: Plan) -> Done:
    """Whoever made it knows all of it; `nodeSnapshotHash` is what an edit of it is based on."""
    node = _written(asked)
    known = (Issued(NODE, (node.id,), asked.canvas_id), Read(GET_STATE, asked.node_mark(node.id), DETAIL, node.hash))
    return Done(data={"nodeSnapshotHash": node.hash}, facts=(*known, *_rows_known(asked, plan, "", node)))


def _after_edit(asked: Asked, plan: Plan) -> Done:
    """The receipt's `snapshotHash` is the node's: what the next edit is based on."""
    node, was = _written(asked), asked.args["snapshotHash"]
    hashes = {"snapshotHash": node.hash, "beforeSnapshotHash": was, "canvasSnapshotHash": asked.board.head.content}
    return Done(data=hashes, facts=_rows_known(asked, plan, was, node))


TABLE: Final[tuple[Doing, ...]] = (
    reading(
        "read_storyboard", storyboard.READ, "Read the rows of a storyboard, with the ids and the hash an edit needs.", _read_storyboard,
        plan=_checked(storyboard.TYPE),
    ),
    reading(
        "read_batch_table", table.READ, "Read the rows and settings of a batch table, with the ids and the hash an edit needs.", _read_table,
        plan=_checked(table.TYPE),
    ),
    writing("create_storyboard", storyboard.CREATE, "Make a storyboard with its rows.", _create, after=_after_create),
    writing(
        "edit_storyboard", storyboard.EDIT, "Append, update or remove one row of a storyboard.", _edit(storyboard.TYPE, storyboard.edited),
        base=_of(storyboard.TYPE), after=_after_edit,
    ),
    writing(
        "edit_batch_table", table.EDIT, "Change one row or one setting of a batch table; it submits nothing.", _edit(table.TYPE, table.edited),
        base=_of(table.TYPE), after=_after_edit,
    ),
)  # fmt: skip
