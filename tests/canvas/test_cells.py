"""What the schema of every tool on a canvas refuses, by field and issue, one constraint at a time; and that nothing changes by it.

The cells are made from the schemas as they are published; the tables here hold valid arguments only.
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from polyloop.canvas import storyboard
from polyloop.canvas.doings import AGENT
from polyloop.canvas.registry import FIELDS
from polyloop.contract.problem import FieldProblem
from polyloop.contract.schema import Shape
from polyloop.db import Database
from tests.canvas.cells import Cell, cells, weakened
from tests.canvas.easel import Easel, edge, node, update

CANVAS, HASH = (f"{kind}:{'0' * 64}" for kind in ("canvas", "node"))
SHOT = {
    "durationSeconds": 2.5, **dict.fromkeys(storyboard.TEXTS, "words"),
    "assetBindings": [{"nodeId": "n1", "role": "character", "priority": 1}],
}  # fmt: skip
ROW = {"enabled": True, "inputNodeIds": ["n1"], "prompt": "words"}
ON = {"snapshotHash": HASH, "nodeId": "n1"}
PLOT, MOTION = ({"durationSeconds": 1, name: "words"} for name in ("plotDescription", "videoMotionPrompt"))
PATCH = dict.fromkeys(FIELDS, "words")
OPS = [
    node("n1", title="words", content="words", x=1, y=2, patch=PATCH), update("n1", **PATCH),
    edge("e1", "n1", "n2", fromHandleId="output", toHandleId="input"),
]  # fmt: skip

#: tool -> valid arguments that together use every field.
EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "canvas_list_node_types": [{}],
    "canvas_get_state": [
        {"offset": 0, "connectionOffset": 0, "storyboardOffset": 0, "nodeIds": ["n1"]},
        {"focusNodeIds": ["n1"], "depth": 1},
        {"focusNodeIds": ["n1"], "includeRelated": True},
    ],
    "canvas_apply_ops": [{"snapshotHash": CANVAS, "ops": [op]} for op in OPS],
    "canvas_arrange_nodes": [
        {"snapshotHash": CANVAS, "nodeIds": ["n1"], "mode": "row", "align": "left", "gap": 10, "dryRun": True},
        {"snapshotHash": CANVAS, "groups": [{"nodeIds": ["n1"], "label": "words", "mode": "grid"}]},
    ],
    "canvas_create_storyboard": [
        {**ON, "title": "t", "rows": [SHOT], "x": 1, "y": 2},
        {**ON, "title": "t", "rows": [PLOT]},
        {**ON, "title": "t", "rows": [MOTION]},
    ],
    "canvas_read_storyboard": [{"nodeId": "n1", "offset": 0, "rows": 2}],
    "canvas_edit_storyboard": [
        {**ON, "action": "append", "patch": SHOT},
        {**ON, "action": "append", "patch": PLOT},
        {**ON, "action": "append", "patch": MOTION},
        {**ON, "action": "update", "rowId": "r1", "patch": {"dialogue": "words"}},
        {**ON, "action": "remove", "rowId": "r1"},
    ],
    "canvas_read_batch_table": [{"nodeId": "n1", "offset": 0}],
    "canvas_edit_batch_table": [
        {**ON, "action": "append"},
        {**ON, "action": "append", "patch": ROW},
        {**ON, "action": "update", "rowId": "r1", "patch": {"enabled": False}},
        {**ON, "action": "remove", "rowId": "r1"},
        {**ON, "action": "set_operation", "operation": "creative"},
        {**ON, "action": "set_concurrency", "concurrency": 5},
        {**ON, "action": "add_reference_column"},
        {**ON, "action": "remove_reference_column"},
        {**ON, "action": "set_global_prompt", "globalPrompt": "words"},
        {**ON, "action": "set_global_prompt", "globalPrompt": ""},
    ],
}


Refused = list[tuple[Cell, list[FieldProblem]]]


def refused(tool: str) -> Refused:
    shape = AGENT[tool].op.arguments
    return [(cell, found) for cell in cells(shape.raw, EXAMPLES[tool]) if (found := shape.problems(cell.value))]


def told(found: list[FieldProblem]) -> list[tuple[str, str]]:
    return sorted((p.field, p.issue) for p in found)


def test_every_tool_of_an_agent_has_examples_and_they_are_right() -> None:
    assert EXAMPLES.keys() == AGENT.keys()
    for tool, examples in EXAMPLES.items():
        assert [AGENT[tool].op.arguments.problems(example) for example in examples] == [[]] * len(examples), tool


@pytest.mark.parametrize("tool", EXAMPLES)
def test_S1_24_S1_25_S1_39_S1_75_S1_76_S1_77_every_cell_is_refused_by_field_and_issue_and_changes_nothing(tool: str, db: Database) -> None:
    easel = Easel(db).ready()
    easel.apply(node("n1", "image"), node("n2", "batch-table"), edge("e1", "n1", "n2"))
    before, table = easel.everything(), refused(tool)
    for cell, found in table:
        assert not cell.issue or (cell.field, cell.issue) in told(found), (cell, found)
        answer, code = easel.call(tool, cell.value, session="")
        error = answer["error"]
        assert (code, error["kind"], sorted((p["field"], p["issue"]) for p in error["details"]["problems"])) == (2, "validation", told(found)), cell
    assert easel.everything() == before
    assert len(table) > (5 if AGENT[tool].op.arguments.raw["properties"] else 0)


@pytest.mark.parametrize("tool", EXAMPLES)
def test_S1_24_S1_27_S1_42_dropping_any_one_constraint_fails_a_cell(tool: str) -> None:
    table = refused(tool)

    def noticed(less: dict[str, Any]) -> bool:
        """Lets a cell through; else, names something else."""
        lets = jsonschema_rs.Draft202012Validator(less).is_valid
        if any(lets(cell.value) for cell, _ in table):
            return True
        return any(told(Shape(less).problems(cell.value)) != told(found) for cell, found in table)

    assert [path for path, less in weakened(AGENT[tool].op.arguments.raw) if not noticed(less)] == []
