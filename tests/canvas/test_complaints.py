"""What users of other canvases have complained of that concerns the board alone, each row with the thread it stands in: not here.

Through the product: commands, and the calls that commands, runs and servers make. Rows about media: `tests/media/test_complaints.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.canvas.easel import Easel, edge, node, update
from tests.canvas.test_runs import READ, SUBMIT, ids, lay, line, polyloop
from tests.outside import command

TEXT = "镜头从门口推进，" * 1_000


def _reader(easel: Easel) -> Easel:
    """Another session on the same canvas, that has read it as it is now: a second tab."""
    other = Easel(easel.db, easel.tenant)
    other.canvas, other.runtime = easel.canvas, easel.runtime
    return other.ready()


def test_open_ai_canvas_528_an_old_tab_takes_away_nothing_that_came_after_it(easel: Easel) -> None:
    tab, stale = _reader(easel), easel.hash
    easel.apply(node("asset", "image", title="new"))
    told = tab.refused("revision_conflict", "canvas_apply_ops", {"snapshotHash": stale, "ops": [node("late")]})
    assert told["details"]["changed"]["added"] == ["asset"], "it is told what it does not know of"
    assert [n["id"] for n in easel.state()["nodes"]] == ["asset"]
    history = easel.do("canvas_history", {}, session="")
    assert [entry["changed"]["added"] for entry in history["entries"]] == [["asset"]]


def test_open_ai_canvas_566_a_missing_patch_ends_no_run(tmp_path: Path) -> None:
    """It is an argument error, named and counted; the next call is looked at as ever."""
    first = line("canvas_apply_ops", snapshotHash="$", ops=[{"type": "update_node", "id": "a"}])
    canvas = lay(tmp_path, [*READ, first, first, SUBMIT])
    done = command(tmp_path, "run", "r.toml", "--store", "s.db", "--json")
    assert (done.code, done.said["reason"]) == (0, "completed")
    log = command(tmp_path, "log", "r1", "--jsonl", "--store", "s.db").out
    refused = [record["rejection"] for record in map(json.loads, log.splitlines()) if record.get("rejection")]
    assert [(r["code"], "patch" in json.dumps(r)) for r in refused] == [("args_invalid", True)] * 2
    assert ids(tmp_path, canvas) == []


def test_infinite_canvas_221_nothing_is_cut_without_a_word_and_a_write_answers_with_what_it_did(easel: Easel) -> None:
    text = TEXT[:16_000]
    easel.apply(node("t", content=text))
    for part in range(8):
        easel.apply(*[node(f"n{part}_{n}", content=f"note {n}" * 40) for n in range(19)])
    page = easel.state(nodeIds=["t"])["nodes"][0]
    assert page["content"] == text, "whole where it is asked for"
    listed = next(n for n in easel.state()["nodes"] if n["id"] == "t")
    assert listed["contentTruncated"] is True
    assert text.startswith(listed["content"])
    ops = [node("one"), node("i", "image"), edge("e", "t", "i"), update("t", content="short")]
    told = easel.do("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": ops})
    assert [op["id"] for op in told["data"]["ops"]] == ["one", "i", "e", "t"], "every operation is told"
    assert len(json.dumps(told)) < 6_000, "not the canvas"
    assert len(json.dumps(easel.state())) < 60_000
    assert easel.wrong("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [node("ok"), update("nobody", content="x")]})[0][0].startswith(
        "ops[1]"
    )


def test_infinite_canvas_198_and_202_the_same_node_is_made_once(easel: Easel) -> None:
    args: dict[str, Any] = {"snapshotHash": easel.hash, "ops": [node("prompt", content="a river")], "operationKey": "k1"}
    first = easel.do("canvas_apply_ops", args)
    assert easel.do("canvas_apply_ops", args)["data"] == first["data"], "the same call is the receipt there is"
    wrong = easel.wrong("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [node("prompt", content="a river")]})
    assert wrong == [("ops[0].id", "duplicate")]
    easel.apply(node("i", "image"), edge("e", "prompt", "i"))
    assert easel.wrong("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [edge("e2", "prompt", "i")]})[0][0].startswith("ops[0]")
    assert [n["id"] for n in easel.state()["nodes"]] == ["prompt", "i"]


def test_excalidraw_3997_and_tldraw_10514_a_second_tab_reverts_nothing(tmp_path: Path) -> None:
    store = ("--store", tmp_path / "s.db")
    canvas = polyloop("canvas", "new", "--title", "T", *store)[1]["canvasId"]

    def call(tool: str, args: dict[str, Any], *more: str) -> tuple[int, Any]:
        return polyloop("canvas", "call", tool, "--canvas", canvas, "--args", "-", *store, *more, stdin=json.dumps(args))

    old = call("canvas_get_state", {})[1]["snapshotHash"]  # the tab that was left open
    now = old
    for day in range(3):
        now = call("canvas_apply_ops", {"snapshotHash": now, "ops": [node(f"day{day}", content="work")]})[1]["data"]["snapshotHash"]
    shot, moved = {"durationSeconds": 1, "plotDescription": "x"}, {"id": "day0", "x": 9, "y": 9}
    writes: list[tuple[str, dict[str, Any]]] = [
        ("canvas_apply_ops", {"ops": [node("day0", content="old")]}), ("canvas_delete_nodes", {"nodeIds": ["day0"]}), ("canvas_undo", {}),
        ("canvas_redo", {}), ("canvas_move_nodes", {"nodes": [moved]}), ("canvas_lock_nodes", {"nodeIds": ["day0"], "locked": True}),
        ("canvas_arrange_nodes", {}), ("canvas_create_storyboard", {"nodeId": "s", "title": "S", "rows": [shot]}),
    ]  # fmt: skip
    for tool, args in writes:
        code, told = call(tool, {"snapshotHash": old, **args}, "--yes")
        assert (code, told["error"]["kind"]) == (7, "revision_conflict"), tool
    state = call("canvas_get_state", {})[1]
    assert (state["snapshotHash"], [n["id"] for n in state["nodes"]]) == (now, ["day0", "day1", "day2"])
