"""canvas_apply_ops: all or nothing, based on a state, by the registry, in the order a session must keep."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from polyloop.canvas import limits
from polyloop.canvas.board import Board, By
from polyloop.canvas.model import Draft
from polyloop.canvas.registry import NODE_TYPES
from polyloop.canvas.store import find_canvas
from polyloop.db import Database, Tx
from tests.canvas.easel import Easel, edge, node, update


def test_S1_42_one_call_adds_updates_and_connects_and_tells_every_op(easel: Easel) -> None:
    before = easel.hash
    receipt = easel.do(
        "canvas_apply_ops",
        {"snapshotHash": before, "ops": [node("a", title="A", content="hello"), node("b", "image", patch={"prompt": "p"}), edge("e", "a", "b")]},
    )
    data = receipt["data"]
    assert (receipt["contractVersion"], receipt["status"], receipt["verification"]["matched"]) == ("canvas.operation.v1", "success", True)
    assert (data["canvasId"], data["beforeSnapshotHash"], data["snapshotHash"]) == (easel.canvas, before, easel.hash)
    assert [(o["id"], o["status"]) for o in data["ops"]] == [("a", "applied"), ("b", "applied"), ("e", "applied")]
    assert data["summary"] == {"added": 2, "updated": 0, "connected": 1}
    assert easel.recomputed() == (data["snapshotHash"], data["mediaSnapshotHash"])
    state = easel.state()
    assert [n["id"] for n in state["nodes"]] == ["a", "b"]
    assert state["connections"] == [{"id": "e", "fromNodeId": "a", "fromHandleId": "output", "toNodeId": "b", "toHandleId": "input"}]
    again = easel.apply(update("a", content="other"), state=data["snapshotHash"])
    assert again["beforeSnapshotHash"] == data["snapshotHash"], "own consecutive writes go on"
    assert easel.state(nodeIds=["a"])["nodes"][0]["content"] == "other"


def test_S1_87_a_stale_write_changes_nothing_and_says_what_has_changed(easel: Easel) -> None:
    old = easel.hash
    easel.apply(node("a"))
    error = easel.refused("revision_conflict", "canvas_apply_ops", {"snapshotHash": old, "ops": [node("b"), update("gone", title="x")]})
    assert error["details"]["changed"] == {"added": ["a"], "updated": [], "removed": [], "count": 1}
    assert easel.refused("revision_conflict", "canvas_apply_ops", {"snapshotHash": "canvas:0", "ops": [node("b")]})["details"]["changed"] == {}
    media = easel.state()["mediaSnapshotHash"]
    assert easel.wrong("canvas_apply_ops", {"snapshotHash": media, "ops": [node("b")]}) == [("snapshotHash", "wrong_kind")]


@pytest.mark.parametrize(
    ("op", "field", "issue"),
    [
        (node("a"), "id", "duplicate"), (node("z", content="x", patch={"content": "y"}), "patch.content", "duplicate"),
        (node("z", "image", content="x"), "content", "unsupported_field"),
        (node("z", "frame", patch={"prompt": "x"}), "patch.prompt", "unsupported_field"),
        (node("z", "video", patch={"startFrameNodeId": "none"}), "patch.startFrameNodeId", "not_found"),
        (node("z", "video", patch={"startFrameNodeId": "a"}), "patch.startFrameNodeId", "wrong_node_type"),
        (update("none", title="x"), "id", "not_found"), (update("a", prompt="x"), "patch.prompt", "unsupported_field"),
        (update("l", content="x"), "id", "locked"), (edge("e", "a", "i"), "id", "duplicate"), (edge("z", "none", "i"), "fromNodeId", "not_found"),
        (edge("z", "a", "none"), "toNodeId", "not_found"), (edge("z", "i", "i"), "toNodeId", "invalid_connection"),
        (edge("z", "a", "i"), "toNodeId", "invalid_connection"), (edge("z", "i", "a"), "toNodeId", "invalid_connection"),
        (edge("z", "f", "i"), "fromNodeId", "invalid_connection"), (edge("z", "i", "s"), "toNodeId", "invalid_connection"),
        (edge("z", "i", "v", fromHandleId="x"), "fromHandleId", "invalid_connection"),
        (edge("z", "i", "v", toHandleId="x"), "toHandleId", "invalid_connection"), (edge("z", "i", "j"), "toNodeId", "locked"),
        (edge("z", "b", "s"), "toNodeId", "invalid_connection"),
    ],
)  # fmt: skip
def test_S1_71_S1_72_what_the_registry_and_the_canvas_refuse(easel: Easel, op: dict[str, Any], field: str, issue: str) -> None:
    easel.apply(
        node("a"), node("b"), node("l"), node("i", "image"), node("j", "image"), node("f", "frame"), node("s", "audio"), node("v", "video"),
        edge("e", "a", "i"), edge("only", "a", "s"),
    )  # fmt: skip
    lock(easel, "l", "j")
    easel.state()
    error = easel.wrong("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [node("good"), op]})
    assert (f"ops[1].{field}", issue) in error


def lock(easel: Easel, *ids: str) -> None:
    def work(tx: Tx) -> None:
        board = Board(tx, easel.tenant, find_canvas(tx, easel.tenant, easel.owner, easel.canvas))
        draft = Draft(board)
        for node_id in ids:
            locked = draft.node(node_id)
            assert locked
            draft.put(replace(locked, locked=True))
        board.write(draft.changes(), By())

    easel.db.write_sync(work)


def test_S1_74_where_nodes_are_moved_is_said(easel: Easel) -> None:
    easel.apply(node("a"))
    for op in ({"type": "update_node", "id": "a", "patch": {"x": 5}}, {"type": "update_node", "id": "a", "patch": {"title": "t"}, "x": 5, "y": 6}):
        details = easel.refused("validation", "canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [op]})["details"]
        assert details["issue"] == "unknown_field"
        assert "canvas_arrange_nodes" in details["problems"][0]["message"]


def test_S1_52_S1_53_what_a_session_must_read_first(db: Database) -> None:
    easel = Easel(db)
    args = {"snapshotHash": easel.hash, "ops": [node("a")]}
    assert easel.wrong("canvas_apply_ops", args) == [("snapshotHash", "read_first"), ("ops[0].nodeType", "read_first")]
    easel.state()
    assert easel.wrong("canvas_apply_ops", args) == [("ops[0].nodeType", "read_first")]
    easel.do("canvas_list_node_types", {})
    easel.do("canvas_apply_ops", args)
    assert easel.call("canvas_apply_ops", {**args, "snapshotHash": easel.hash, "ops": [node("b")]}, session="")[1] == 0, "no session, no order"


def test_S1_63_a_text_is_updated_by_who_has_read_it_as_it_stands(db: Database) -> None:
    writer, other = Easel(db).ready(), Easel(db)
    writer.apply(node("a", content="x" * 3000), node("i", "image"))
    other.canvas, other.tenant, other.runtime = writer.canvas, writer.tenant, writer.runtime
    args = {"snapshotHash": writer.hash, "ops": [update("a", content="mine")]}
    other.state()
    assert other.wrong("canvas_apply_ops", args) == [("ops[0].id", "read_first")], "a directory is not the text"
    cut = other.state(focusNodeIds=["a"])["nodes"][0]
    assert (len(cut["content"]), cut["contentTruncated"]) == (2000, True)
    assert other.wrong("canvas_apply_ops", args) == [("ops[0].id", "read_first")], "nor is the half of it"
    other.state(nodeIds=["a"])
    writer.apply(update("a", content="changed"))
    other.state()
    args["snapshotHash"] = writer.hash
    assert other.wrong("canvas_apply_ops", args) == [("ops[0].id", "read_first")], "it was read as it stood before"
    other.state(nodeIds=["a"])
    other.do("canvas_apply_ops", args)
    stranger = Easel(db)
    stranger.canvas, stranger.tenant, stranger.runtime = writer.canvas, writer.tenant, writer.runtime
    stranger.state(nodeIds=["a"])
    assert stranger.wrong("canvas_apply_ops", {"snapshotHash": writer.hash, "ops": [edge("e", "a", "i")]}) == [("ops[0].toNodeId", "read_first")]


def test_S1_88_the_fourth_wrong_call_is_not_looked_at(easel: Easel) -> None:
    bad = {"snapshotHash": easel.hash, "ops": [node("a", "none")]}
    for attempt in (1, 2, 3):
        details = easel.refused("validation", "canvas_apply_ops", bad)["details"]
        assert (details["attempt"], details["maxAttempts"]) == (attempt, 3)
        easel.state()
    assert easel.refused("capability_unavailable", "canvas_apply_ops", {**bad, "ops": [node("a")]})["details"]["reason"] == "attempts_exhausted"
    assert easel.call("canvas_apply_ops", {**bad, "ops": [node("a")]}, session="other")[1] == 2, "another session has its own count"


def test_S1_48_S1_49_modes(easel: Easel) -> None:
    args = {"snapshotHash": easel.hash, "ops": [node("a")]}
    easel.refused("permission_denied", "canvas_apply_ops", args, mode="read_only")
    asked = easel.refused("confirmation_required", "canvas_apply_ops", args, mode="request_approval")
    assert asked["details"]["plan"]["resolved"]["summary"]["added"] == 1
    plan = asked["details"]["planId"]
    asyncio.run(easel.runtime.decide(plan, "approved", by="ann"))
    easel.apply(node("other"))
    again = easel.refused("revision_conflict", "canvas_apply_ops", args, mode="request_approval", plan_id=plan)
    assert again["stage"] == "precondition", "what was approved is checked again"
    args["snapshotHash"] = easel.hash
    assert easel.call("canvas_apply_ops", args, mode="request_approval", plan_id=plan)[0]["error"]["kind"] == "validation", "it was for another call"
    plan = easel.refused("confirmation_required", "canvas_apply_ops", args, mode="request_approval")["details"]["planId"]
    asyncio.run(easel.runtime.decide(plan, "approved", by="ann"))
    easel.do("canvas_apply_ops", args, mode="request_approval", plan_id=plan)


def test_an_update_to_what_is_there_already_is_told_and_leaves_no_trace(easel: Easel) -> None:
    easel.apply(node("a", content="x"))
    before = easel.everything()
    receipt = easel.do("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [update("a", content="x")]})
    assert receipt["warnings"] == ["no_change"]
    assert receipt["data"]["snapshotHash"] == receipt["data"]["beforeSnapshotHash"]
    assert easel.everything() == before


def test_new_nodes_without_a_place_overlap_nothing(easel: Easel) -> None:
    easel.apply(node("a"), *(node(f"i{n}", "image") for n in range(6)), *(edge(f"e{n}", "a", f"i{n}") for n in range(6)))
    easel.apply(*(node(f"t{n}", kind) for n, kind in enumerate(t for t in NODE_TYPES if NODE_TYPES[t].creatable)))
    easel.apply(node("s"), edge("s1", "s", "i3"))
    nodes = easel.look(lambda board: board.nodes(0, 100))
    for n in nodes:
        assert easel.look(lambda board, n=n: [m.id for m in board.at(n.x, n.y, n.width, n.height)]) == [n.id]


def test_S1_26_a_key_and_a_plan_serve_one_canvas(easel: Easel, db: Database) -> None:
    args = {"snapshotHash": easel.hash, "ops": [node("a")], "operationKey": "k"}
    first = easel.do("canvas_apply_ops", args)
    assert easel.do("canvas_apply_ops", args) == first, "the same receipt, nothing done"
    other = Easel(db, easel.tenant).ready()
    assert easel.hash != other.hash
    assert other.refused("validation", "canvas_apply_ops", {**args, "snapshotHash": other.hash})["details"]["issue"] == "other_arguments"


def test_tenants_and_owners_are_told_apart_by_nothing(easel: Easel, db: Database) -> None:
    easel.apply(node("a"))
    foreign, mine = Easel(db), Easel(db, easel.tenant, owner="bob")
    for tool, args in (
        ("canvas_get_state", {}),
        ("canvas_get_state", {"nodeIds": ["a"]}),
        ("canvas_apply_ops", {"snapshotHash": "x", "ops": [node("b")]}),
    ):
        for who in (foreign, mine):
            answers = [who.call(tool, args, within=within)[0] for within in (easel.canvas, "cv_" + "0" * 24)]
            assert str(answers[0]).replace(easel.canvas, "ID") == str(answers[1]).replace("cv_" + "0" * 24, "ID")
            assert answers[0]["error"]["kind"] == "not_found"


@pytest.mark.parametrize("odd", ["a\x85b", "a\u2028b", "\x9b", "a\u2029"])
def test_ids_hold_no_control_and_no_line_break_of_any_kind(easel: Easel, odd: str) -> None:
    assert easel.wrong("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [node(odd)]}) == [("ops[0].id", "format")]


def test_a_new_node_stays_within_reach_when_everything_below_is_taken(easel: Easel) -> None:
    easel.apply(node("far", x=limits.REACH, y=limits.REACH), node("here", x=0, y=0))
    easel.apply(*(node(f"n{k}", "script") for k in range(20)))
    easel.do(
        "canvas_create_storyboard",
        {"snapshotHash": easel.hash, "nodeId": "s", "title": "S", "rows": [{"durationSeconds": 1, "plotDescription": "p"}]},
    )
    nodes = easel.look(lambda board: board.nodes(0, 100))
    assert all(abs(n.x) <= limits.REACH and abs(n.y) <= limits.REACH for n in nodes)
    assert all(easel.look(lambda board, n=n: [m.id for m in board.at(n.x, n.y, n.width, n.height)]) == [n.id] for n in nodes)
