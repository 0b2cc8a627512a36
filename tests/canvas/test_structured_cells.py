"""Storyboard and table: what their schemas refuse, by field and issue, one constraint at a time."""

from __future__ import annotations

from typing import Any

import pytest

from polyloop.canvas import storyboard, table
from polyloop.contract.problem import FieldProblem
from polyloop.contract.schema import Shape, closed
from tests.canvas.cells import cells, weakened

HASH = "node:" + "0" * 64
SHOT = {
    "durationSeconds": 2.5, **dict.fromkeys(storyboard.TEXTS, "words"),
    "assetBindings": [{"nodeId": "n1", "role": "character", "priority": 1}],
}  # fmt: skip
ROW = {"enabled": True, "inputNodeIds": ["n1"], "prompt": "words"}
ON = {"snapshotHash": HASH, "nodeId": "n1"}
PLOT, MOTION = ({"durationSeconds": 1, name: "words"} for name in ("plotDescription", "videoMotionPrompt"))

#: operation -> schema and examples that together use every field.
STRUCTURED: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "canvas_create_storyboard": (
        storyboard.CREATE,
        [
            {**ON, "title": "t", "rows": [SHOT], "x": 1, "y": 2},
            {**ON, "title": "t", "rows": [PLOT]},
            {**ON, "title": "t", "rows": [MOTION]},
        ],
    ),
    "canvas_read_storyboard": (storyboard.READ, [{"nodeId": "n1", "offset": 0, "rows": 2}]),
    "canvas_edit_storyboard": (
        storyboard.EDIT,
        [
            {**ON, "action": "append", "patch": SHOT},
            {**ON, "action": "append", "patch": PLOT},
            {**ON, "action": "append", "patch": MOTION},
            {**ON, "action": "update", "rowId": "r1", "patch": {"dialogue": "words"}},
            {**ON, "action": "remove", "rowId": "r1"},
        ],
    ),
    "canvas_read_batch_table": (table.READ, [{"nodeId": "n1", "offset": 0}]),
    "canvas_edit_batch_table": (
        table.EDIT,
        [
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
    ),
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_S1_24_S1_75_S1_76_S1_77_every_cell_names_its_field(name: str) -> None:
    raw, examples = STRUCTURED[name]
    shape = closed(raw)
    assert [shape.problems(example) for example in examples] == [[]] * len(examples)
    refused = 0
    for cell in cells(shape.raw, examples):
        found = shape.problems(cell.value)
        if cell.issue:
            assert any(p.field == cell.field and p.issue == cell.issue for p in found), (cell, found)
        refused += bool(found)
    assert refused > 10


@pytest.mark.parametrize("name", STRUCTURED)
def test_S1_24_dropping_any_one_constraint_fails_a_cell(name: str) -> None:
    raw, examples = STRUCTURED[name]
    shape = closed(raw)
    table_of_cells = [(cell, verdict) for cell in cells(shape.raw, examples) if (verdict := shape.problems(cell.value))]
    unguarded = [path for path, less in weakened(shape.raw) if not _noticed(Shape(less), table_of_cells)]
    assert unguarded == []


def _noticed(shape: Shape, table_of_cells: list[tuple[Any, list[FieldProblem]]]) -> bool:
    return any(_told(shape.problems(cell.value)) != _told(verdict) for cell, verdict in table_of_cells)


def _told(found: list[FieldProblem]) -> list[tuple[str, str]]:
    return sorted((p.field, p.issue) for p in found)
