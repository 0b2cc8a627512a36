"""What the schema of every media tool refuses, by field and issue, one constraint at a time; and that nothing is made or charged by it."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from polyloop.contract.schema import Shape
from polyloop.media.runtime import TOOLS
from tests.canvas.cells import cells, weakened
from tests.media.room import room

_ON = {"prompt": "words", "nodeId": "n1", "title": "words", "referenceNodeIds": ["r1"]}
_MODEL = {"logicalModelId": "m1"}
_PAIR = {"channelId": "c1", "channelModelKey": "k1"}

#: tool -> valid arguments that together use every field.
EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "model_list": [{"mode": "image", "referenceNodeIds": ["r1"]}],
    "generate_media": [
        {
            **_ON, **_MODEL, "mode": "video", "durationSeconds": 2.5, "size": "640x360", "quality": "high", "videoGenerateAudio": True,
            "snapshotHash": "media:0", "sourceNodeId": "t1", "referenceTransientIds": ["tr_1"],
        },
        {**_ON, **_PAIR, "mode": "image"}, {**_ON, **_PAIR, "mode": "audio", "durationSeconds": 2.5},
    ],
    "image_layer_split": [
        {**_ON, **_MODEL, "quality": "high", "snapshotHash": "media:0", "referenceTransientIds": ["tr_1"]}, {**_ON, **_PAIR},
    ],
    "task_get": [{"taskId": "t1"}],
    "canvas_inspect_image": [{"nodeId": "n1", "refresh": True}],
    "image_text_detect": [{"nodeId": "n1"}],
    "image_annotation_render": [{"nodeId": "n1", "annotations": [{"label": "words", "x": 0.5, "y": 0.5}]}],
    "upload": [{"nodeId": "n1", "title": "words", "file": "AAAA"}],
    "task_cancel": [{"taskId": "t1"}],
    "task_recover": [{"taskId": "t1", "nodeId": "n1"}],
    "task_settle": [{"taskId": "t1", "as": "charged"}],
    "batch_run": [{"nodeId": "n1", **_MODEL, "size": "640x360", "quality": "high"}, {"nodeId": "n1", **_PAIR}],
}  # fmt: skip


def refused(tool: str):
    shape = TOOLS[tool].op.arguments
    return [(cell, found) for cell in cells(shape.raw, EXAMPLES[tool]) if len(repr(cell.value)) < 10**6 and (found := shape.problems(cell.value))]


def told(found) -> list[tuple[str, str]]:
    return sorted((p.field, p.issue) for p in found)


def test_every_tool_has_examples_and_they_are_right():
    assert EXAMPLES.keys() == TOOLS.keys()
    for tool, examples in EXAMPLES.items():
        assert [TOOLS[tool].op.arguments.problems(example) for example in examples] == [[]] * len(examples), tool


@pytest.mark.needs("media")
def test_S1_24_S1_25_S1_28_S1_45_S1_46_every_cell_is_refused_by_field_and_issue_and_makes_nothing(tmp_path):
    with room(tmp_path) as here:
        here.grant()
        for tool in TOOLS:
            table = refused(tool)
            assert len(table) >= 5, tool
            for cell, found in table:
                assert not cell.issue or (cell.field, cell.issue) in told(found), (cell, found)
                answer, code = here.call(tool, cell.value)
                problems = [(p["field"], p["issue"]) for p in answer["error"]["details"]["problems"]]
                assert (code, answer["error"]["kind"], sorted(problems)) == (2, "validation", told(found)), cell
        assert (here.charges(), here.count("task"), here.count("canvas_node"), here.count("media_asset")) == ([], 0, 0, 0)


@pytest.mark.parametrize("tool", EXAMPLES)
def test_S1_24_S1_28_dropping_any_one_constraint_fails_a_cell(tool):
    table = refused(tool)

    def noticed(less: dict[str, Any]) -> bool:
        """Lets a cell through; else, names something else."""
        lets = jsonschema_rs.Draft202012Validator(less).is_valid
        return any(lets(cell.value) for cell, _ in table) or any(told(Shape(less).problems(cell.value)) != told(found) for cell, found in table)

    dropped = [path for path, less in weakened(TOOLS[tool].op.arguments.raw) if not noticed(less)]
    assert [path for path in dropped if path != ("properties", "file", "maxLength")] == []  # 64 MiB are not made to prove it


@pytest.mark.needs("media")
def test_S1_79_an_address_is_no_reference(tmp_path):
    with room(tmp_path) as here:
        here.grant()
        wish = {**_ON, "logicalModelId": "studio-image", "mode": "image"}
        for url in ("https://example.org/a.png", "file:///etc/passwd", "data:image/png;base64,AAAA"):
            answer, code = here.call("generate_media", {**wish, "referenceNodeIds": [url]})
            assert (code, answer["error"]["kind"]) == (2, "not_found")
            answer, code = here.call("generate_media", {**wish, "referenceNodeIds": [], "referenceTransientIds": [url]})
            assert code == 2
        assert here.count("task") == 0


@pytest.mark.needs("media")
def test_S1_88_after_three_wrong_calls_the_tool_is_withdrawn_from_the_session(tmp_path):
    with room(tmp_path) as here:
        for attempt in (1, 2, 3):
            answer, _ = here.call("generate_media", {}, session="s1")
            assert (answer["error"]["details"]["attempt"], answer["error"]["details"]["maxAttempts"]) == (attempt, 3)
        answer, _ = here.call("generate_media", {}, session="s1")
        assert answer["error"]["kind"] == "capability_unavailable"
        assert here.call("model_list", {"mode": "image", "referenceNodeIds": []}, session="s1")[1] == 0
