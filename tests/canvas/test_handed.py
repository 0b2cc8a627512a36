"""The handed cases of area canvas that need no media, each by its id, with its own input (tests/cases/handed.jsonl)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from polyloop.canvas.doings import AGENT
from polyloop.db import Database
from tests.canvas.easel import Easel, node, update

CASES = {c["id"]: c for c in map(json.loads, (Path(__file__).parents[1] / "cases" / "handed.jsonl").read_text().splitlines())}
#: Cases of this area that are about generated media or about questions to a person.
ELSEWHERE = (
    "hostile_input-06", "cancellation_leak-08", "cancellation_leak-11", "stuck_loop-06", "stuck_loop-08", "tenant_leak-05", "unknown_commit-06",
    "unknown_commit-12", "false_success-07", "approval-01",
)  # fmt: skip
PLOT = {"durationSeconds": 3, "plotDescription": "A door opens."}


def given(case: str) -> Any:
    return CASES[case]["minimal_input"]


def storyboard(easel: Easel, count: int) -> list[str]:
    args = {"snapshotHash": easel.hash, "nodeId": "s", "title": "T", "rows": [PLOT] * count}
    return [row["rowId"] for row in easel.do("canvas_create_storyboard", args)["data"]["rows"]]


def test_malformed_call_37_null_is_no_absent_value(easel: Easel) -> None:
    case = given("malformed_call-37")
    assert {("depth", "null"), ("nodeIds", "null")} <= set(easel.wrong(case["tool"], case["args"]))


def test_malformed_call_38_what_is_not_declared_is_refused_by_name(easel: Easel) -> None:
    case = given("malformed_call-38")
    found = easel.wrong(case["tool"], case["args"])
    assert ("ops[0].colour", "unknown_field") in found
    assert easel.state()["totalNodes"] == 0


def test_duplicate_effect_16_stale_write_07_a_batch_lands_whole_or_not_at_all(easel: Easel) -> None:
    for case in ("duplicate_effect-16", "stale_write-07"):
        assert len(given(case)["ops"]) == 2
    easel.apply(node("n1"))
    args = {"snapshotHash": easel.hash, "ops": [update("n1", title="new"), node("n2", "unknown")]}
    assert easel.wrong("canvas_apply_ops", args)[0][0].startswith("ops[1]")
    assert [(n["id"], n["title"]) for n in easel.state()["nodes"]] == [("n1", "")]
    easel.do("canvas_apply_ops", {**args, "ops": [args["ops"][0], node("n2")]})


def test_pagination_14_the_next_offset_is_the_one_that_was_given(easel: Easel) -> None:
    assert given("pagination-14")["resp"]["nextOffset"] == 1
    storyboard(easel, 30)
    other = Easel(easel.db, easel.tenant)
    other.canvas, other.runtime = easel.canvas, easel.runtime
    other.ready()
    told = other.do("canvas_read_storyboard", {"nodeId": "s", "offset": 0})
    edit = {"snapshotHash": told["snapshotHash"], "nodeId": "s", "action": "append", "patch": PLOT}
    assert other.wrong("canvas_read_storyboard", {"nodeId": "s", "offset": 2}) == [("offset", "not_issued")], "a page number"
    assert other.wrong("canvas_edit_storyboard", edit) == [("action", "read_first")], "before the last page"
    other.do("canvas_read_storyboard", {"nodeId": "s", "offset": told["storyboard"]["nextOffset"]})
    other.do("canvas_edit_storyboard", edit)


def test_stale_write_05_own_writes_follow_one_another(easel: Easel) -> None:
    assert given("stale_write-05")["writes"] == ["h1->h2", "h2->h3"]
    first = easel.apply(node("a"))
    second = easel.apply(node("b"), state=first["snapshotHash"])
    assert second["beforeSnapshotHash"] == first["snapshotHash"]


def test_stale_write_08_a_base_is_demanded_and_the_same_again_makes_nothing_twice(easel: Easel) -> None:
    assert given("stale_write-08")["ops"] == "no snapshotHash"
    ops = [node("a")]
    assert easel.wrong("canvas_apply_ops", {"ops": ops}) == [("snapshotHash", "required")]
    args = {"snapshotHash": easel.hash, "ops": ops}
    easel.do("canvas_apply_ops", args)
    easel.refused("revision_conflict", "canvas_apply_ops", args)
    assert easel.wrong("canvas_apply_ops", {**args, "snapshotHash": easel.hash}) == [("ops[0].id", "duplicate")]
    assert easel.state()["totalNodes"] == 1


def test_stale_write_13_a_row_of_an_older_reading_is_refused_and_nothing_stands_in_for_it(easel: Easel) -> None:
    assert given("stale_write-13")["edit"] == "rowId r_old"
    ids = storyboard(easel, 2)
    state = easel.do("canvas_read_storyboard", {"nodeId": "s", "offset": 0})["snapshotHash"]
    gone = easel.do("canvas_edit_storyboard", {"snapshotHash": state, "nodeId": "s", "action": "remove", "rowId": ids[0]})["data"]
    for row_id in (ids[0], "1", "A door opens."):
        args = {"snapshotHash": gone["snapshotHash"], "nodeId": "s", "action": "update", "rowId": row_id, "patch": {"camera": "x"}}
        told = easel.call("canvas_edit_storyboard", args, session="")[0]["error"]
        assert (told["kind"], told["details"]["field"], told["details"]["issue"]) == ("validation", "rowId", "not_found")
    assert easel.wrong("canvas_edit_storyboard", args) == [("rowId", "not_issued"), ("rowId", "not_found")]


def test_stuck_loop_09_the_fourth_wrong_call_is_not_looked_at(easel: Easel) -> None:
    case = given("stuck_loop-09")
    bad = {"snapshotHash": easel.hash, "ops": []}
    for attempt in range(1, case["maxAttempts"] + 1):
        details = easel.refused("validation", "canvas_apply_ops", bad)["details"]
        assert (details["attempt"], details["maxAttempts"]) == (attempt, case["maxAttempts"])
    for _ in range(case["bad_calls"] - case["maxAttempts"]):
        assert easel.refused("capability_unavailable", "canvas_apply_ops", bad)["details"]["reason"] == "attempts_exhausted"


def test_approval_03_a_read_only_session_changes_nothing_with_any_tool(db: Database) -> None:
    assert given("approval-03")["tools"] == "all writes"
    easel = Easel(db).ready()
    easel.apply(node("t", "batch-table"))
    storyboard(easel, 1)
    state = {"s": easel.do("canvas_read_storyboard", {"nodeId": "s", "offset": 0})["snapshotHash"]}
    state["t"] = easel.do("canvas_read_batch_table", {"nodeId": "t", "offset": 0})["snapshotHash"]
    calls = {
        "canvas_apply_ops": {"snapshotHash": easel.hash, "ops": [node("x")]}, "canvas_arrange_nodes": {"snapshotHash": easel.hash},
        "canvas_create_storyboard": {"snapshotHash": easel.hash, "nodeId": "n", "title": "T", "rows": [PLOT]},
        "canvas_edit_storyboard": {"snapshotHash": state["s"], "nodeId": "s", "action": "append", "patch": PLOT},
        "canvas_edit_batch_table": {"snapshotHash": state["t"], "nodeId": "t", "action": "append"},
    }  # fmt: skip
    assert calls.keys() == {name for name, doing in AGENT.items() if doing.op.effect != "read"}
    for tool, args in calls.items():
        easel.refused("permission_denied", tool, args, mode="read_only")


def test_no_case_of_the_canvas_lacks_a_test() -> None:
    here = "".join(re.findall(r"def (test_\w+)", Path(__file__).read_text()))
    ids = {i for i, c in CASES.items() if c["area"] == "canvas"}
    assert {i for i in ids - set(ELSEWHERE) if i.replace("-", "_") not in here} == set()
    assert set(ELSEWHERE) <= ids
