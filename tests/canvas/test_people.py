"""What people do: delete, lock, move, undo, redo; and that agents and people together lose nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyloop.canvas import limits
from polyloop.canvas.model import EMPTY
from polyloop.db import Database
from tests.canvas.easel import Easel, edge, node, update


def board(easel: Easel) -> Easel:
    easel.apply(node("f", "frame"), node("a", content="x"), node("i", "image"), node("j", "image"), edge("e", "a", "i"), edge("k", "i", "j"))
    return easel


def person(easel: Easel, tool: str, **args: Any) -> dict[str, Any]:
    based = {} if tool in ("set_view", "view", "history") else {"snapshotHash": easel.hash}
    return easel.do(f"canvas_{tool}", {**based, **args}, session="", approved_by="ann")


def test_deleting_takes_connections_and_rows_along_and_undo_brings_all_back(easel: Easel) -> None:
    board(easel)
    shots = [{"durationSeconds": 2, "plotDescription": "a"}]
    easel.do("canvas_create_storyboard", {"snapshotHash": easel.hash, "nodeId": "s", "title": "S", "rows": shots})
    person(easel, "move_nodes", nodes=[{"id": "i", "parentId": "f"}])
    before, rows = easel.hash, easel.everything()[:5]
    deleted = person(easel, "delete_nodes", nodeIds=["f", "a", "s"])
    assert deleted["data"]["changed"] == {"added": [], "updated": ["i"], "removed": ["a", "e", "f", "s"]}
    assert easel.look(lambda b: (b.head.nodes, b.head.edges, b.node("i").parent)) == (2, 1, "")
    assert easel.recomputed()[0] == easel.hash
    undo = deleted["compensation"]
    assert (undo["available"], undo["operation"], undo["expected"]) == (True, "canvas.undo", easel.hash)
    easel.do("canvas_undo", {**undo["arguments"], "snapshotHash": undo["expected"]}, session="")
    assert easel.hash == before == easel.recomputed()[0]
    assert [sorted(r) for r in easel.everything()[1:4]] == [sorted(r) for r in rows[1:4]], "ids, places, rows: as they were"
    assert person(easel, "redo")["data"]["snapshotHash"] == deleted["data"]["snapshotHash"]


def test_undo_goes_back_step_by_step_and_a_new_change_ends_redo(easel: Easel) -> None:
    hashes = [easel.hash]
    for n in range(3):
        easel.apply(node(f"n{n}"))
        hashes.append(easel.hash)
    for wanted in (hashes[2], hashes[1]):
        person(easel, "undo")
        assert easel.hash == wanted
    person(easel, "redo")
    assert easel.hash == hashes[2]
    easel.apply(node("other"))
    assert easel.refused("conflict", "canvas_redo", {"snapshotHash": easel.hash}, session="")["details"]["reason"] == "nothing_to_redo"
    person(easel, "undo")
    assert easel.hash == hashes[2]
    person(easel, "undo")
    person(easel, "undo")
    assert easel.hash == EMPTY[0]
    assert easel.refused("conflict", "canvas_undo", {"snapshotHash": easel.hash}, session="")["details"]["reason"] == "nothing_to_undo"
    told = person(easel, "history", limit=3)
    assert [(e["kind"], e.get("undoes")) for e in told["entries"]] == [("undo", 1), ("undo", 2), ("undo", 7)]
    rest = person(easel, "history", before=told["nextBefore"])
    assert [(e["kind"], e.get("state")) for e in rest["entries"]] == [
        ("do", "undone"), ("redo", None), ("undo", None), ("undo", None), ("do", "gone"), ("do", "undone"), ("do", "undone"),
    ]  # fmt: skip
    assert (rest["hasMore"], rest["entries"][-1]["changed"]["added"]) == (False, ["n0"])


def test_an_undo_based_on_another_state_is_refused(easel: Easel) -> None:
    easel.apply(node("a"))
    old = easel.hash
    easel.apply(node("b"))
    easel.refused("revision_conflict", "canvas_undo", {"snapshotHash": old}, session="")


def test_a_locked_node_is_changed_by_nobody_until_it_is_unlocked(easel: Easel) -> None:
    board(easel)
    person(easel, "lock_nodes", nodeIds=["a", "i"], locked=True)
    easel.state()
    assert easel.wrong("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [update("i", prompt="x")]}) == [("ops[0].id", "locked")]
    assert easel.wrong("canvas_delete_nodes", {"snapshotHash": easel.hash, "nodeIds": ["a", "none"]}, session="", approved_by="ann") == [
        ("nodeIds[0]", "locked"), ("nodeIds[1]", "not_found"),
    ]  # fmt: skip
    assert easel.wrong("canvas_move_nodes", {"snapshotHash": easel.hash, "nodes": [{"id": "a", "x": 1, "y": 1}]}, session="") == [
        ("nodes[0]", "locked")
    ]
    person(easel, "lock_nodes", nodeIds=["a", "i"], locked=False)
    person(easel, "move_nodes", nodes=[{"id": "a", "x": 7, "y": 8, "width": 9, "height": 10}])
    assert easel.look(lambda b: (b.node("a").x, b.node("a").height)) == (7, 10)


@pytest.mark.parametrize(
    ("move", "field", "issue"),
    [
        ({"id": "a"}, "nodes[0]", "invalid_value"), ({"id": "a", "x": 1}, "nodes[0].y", "required"),
        ({"id": "a", "parentId": "i"}, "nodes[0].parentId", "wrong_node_type"),
        ({"id": "a", "parentId": "none"}, "nodes[0].parentId", "not_found"), ({"id": "f", "parentId": "f"}, "nodes[0].parentId", "wrong_node_type"),
        ({"id": "none", "x": 1, "y": 1}, "nodes[0]", "not_found"), ({"id": "a", "width": 0, "height": 1}, "nodes[0].width", "out_of_range"),
    ],
)  # fmt: skip
def test_where_a_node_cannot_be_put(easel: Easel, move: dict[str, Any], field: str, issue: str) -> None:
    board(easel)
    assert (field, issue) in easel.wrong("canvas_move_nodes", {"snapshotHash": easel.hash, "nodes": [move]}, session="")


def test_a_deletion_is_confirmed_by_a_person(easel: Easel) -> None:
    board(easel)
    args = {"snapshotHash": easel.hash, "nodeIds": ["a"]}
    assert "planId" in easel.refused("confirmation_required", "canvas_delete_nodes", args, session="")["details"]


def test_S1_31_what_only_the_screen_needs_changes_no_hash_and_counts_as_no_reading(db: Database) -> None:
    easel = Easel(db)
    before = easel.state()
    seen = Easel(db, easel.tenant)
    seen.canvas = easel.canvas
    seen.do("canvas_set_view", {"view": {"zoom": 2, "open": ["a"]}})
    assert seen.do("canvas_view", {})["view"] == {"zoom": 2, "open": ["a"]}
    assert Easel(db, easel.tenant, owner="bob").do("canvas_view", {})["view"] == {}
    assert easel.state() == before
    assert seen.wrong("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [node("a")]})[0] == ("snapshotHash", "read_first")


IDS = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.one_of(
    st.tuples(st.just("add"), IDS, st.sampled_from(["text", "image", "frame"])), st.tuples(st.just("connect"), IDS, IDS),
    st.tuples(st.just("update"), IDS, st.text("xy", min_size=1, max_size=2)), st.tuples(st.just("delete"), IDS, IDS),
    st.tuples(st.just("move"), IDS, st.integers(-5, 5)), st.tuples(st.just("undo"), IDS, IDS), st.tuples(st.just("redo"), IDS, IDS),
    st.tuples(st.just("lock"), IDS, st.booleans()),
)  # fmt: skip


def taken(easel: Easel, step: tuple[str, Any, Any]) -> dict[str, Any] | None:
    """The receipt's data, or None where it was refused."""
    verb, one, other = step
    based = {"snapshotHash": easel.hash}
    tool, args = {
        "add": lambda: ("apply_ops", {"ops": [node(one, other)]}), "connect": lambda: ("apply_ops", {"ops": [edge(f"{one}{other}", one, other)]}),
        "update": lambda: ("apply_ops", {"ops": [update(one, title=other)]}), "delete": lambda: ("delete_nodes", {"nodeIds": [one]}),
        "move": lambda: ("move_nodes", {"nodes": [{"id": one, "x": other, "y": other}]}),
        "lock": lambda: ("lock_nodes", {"nodeIds": [one], "locked": other}),
        "undo": lambda: ("undo", {}), "redo": lambda: ("redo", {}),
    }[verb]()  # fmt: skip
    told, code = easel.call(f"canvas_{tool}", {**based, **args}, session="", approved_by="ann")
    return None if code else told["data"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=10))
def test_S1_42_incremental_equals_full_whatever_was_done_and_all_of_it_can_be_undone(db: Database, steps: list[tuple[str, Any, Any]]) -> None:
    easel = Easel(db, session="")
    for step in steps:
        before = easel.everything()
        data = taken(easel, step)
        assert easel.recomputed() == easel.look(lambda b: (b.head.content, b.head.media))
        assert easel.look(lambda b: (b.head.nodes, b.head.edges)) == easel.look(lambda b: (len(b.nodes(0, 99)), len(b.edges(0, 99))))
        if data is None:
            assert easel.everything() == before
    while taken(easel, ("undo", "", "")):
        pass
    assert easel.hash == EMPTY[0]


def test_a_place_in_the_history_and_a_view_have_bounds(easel: Easel) -> None:
    assert easel.wrong("canvas_history", {"before": 2**70}) == [("before", "out_of_range")]
    view: dict[str, Any] = {}
    for _ in range(900):
        view = {"a": view}
    assert easel.wrong("canvas_set_view", {"view": view}) == [("", "too_deep")]
    assert easel.wrong("canvas_set_view", {"view": {"a": "x" * limits.VIEW_BYTES}}) == [("view", "length")]


def test_a_move_names_each_node_once_and_loses_none_of_what_it_says(easel: Easel) -> None:
    board(easel)
    twice = [{"id": "a", "parentId": "f"}, {"id": "i", "x": 5, "y": 5}, {"id": "a", "x": 1, "y": 1}]
    assert easel.wrong("canvas_move_nodes", {"snapshotHash": easel.hash, "nodes": twice}) == [("nodes[2].id", "duplicate")]
    easel.do("canvas_move_nodes", {"snapshotHash": easel.hash, "nodes": [{"id": "a", "parentId": "f", "x": 1, "y": 1}]})
    moved = easel.look(lambda b: b.node("a"))
    assert (moved.parent, moved.x, moved.y) == ("f", 1, 1)
