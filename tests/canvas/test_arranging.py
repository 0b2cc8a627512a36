"""canvas_arrange_nodes: only what overlaps or a person wants in order, never what stays, and read again afterwards."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from polyloop.canvas import arranging
from polyloop.canvas.board import Board, By
from polyloop.canvas.model import Draft, Node
from polyloop.canvas.store import find_canvas
from polyloop.contract.problem import ProblemError
from polyloop.db import Tx
from tests.canvas.easel import Easel, edge, node


def put(easel: Easel, *nodes: Node) -> None:
    """Nodes as only people can make them: locked, contained, of any size."""

    def work(tx: Tx) -> None:
        board = Board(tx, easel.tenant, find_canvas(tx, easel.tenant, easel.owner, easel.canvas))
        draft = Draft(board)
        for one in nodes:
            draft.put(one)
        board.write(draft.changes(), By())

    easel.db.write_sync(work)
    easel.state()


def box(node_id: str, x: int, y: int, **more: Any) -> Node:
    return Node(**{"id": node_id, "type": "text", "x": x, "y": y, "width": 340, "height": 240} | more)


def places(easel: Easel) -> dict[str, tuple[int, int]]:
    return {n.id: (n.x, n.y) for n in easel.look(lambda board: board.nodes(0, 1 << 20))}


def arrange(easel: Easel, **args: Any) -> dict[str, Any]:
    caller = {name: args.pop(name) for name in ("approved_by", "session") if name in args}
    return easel.do("canvas_arrange_nodes", {"snapshotHash": easel.hash, **args}, **caller)


def overlaps(easel: Easel, ids: set[str]) -> list[tuple[str, str]]:
    every = easel.look(lambda board: board.nodes(0, 1 << 20))
    return [(n.id, m.id) for n in every if n.id in ids for m in easel.look(lambda b, n=n: b.at(n.x, n.y, n.width, n.height)) if m.id != n.id]


def test_S1_60_S1_61_a_pile_is_arranged_and_read_again_before_the_next_write(easel: Easel) -> None:
    easel.apply(node("a", x=0, y=0), node("b", "image", x=10, y=10), node("c", x=20, y=20), edge("e", "a", "b"))
    easel.state()
    before = places(easel)
    receipt = arrange(easel)
    data = receipt["data"]
    assert data["rereadRequired"] is True
    assert {m["nodeId"]: (m["x"], m["y"]) for m in data["moved"]} == {i: at for i, at in places(easel).items() if at != before[i]}
    assert overlaps(easel, {"a", "b", "c"}) == []
    assert easel.wrong("canvas_apply_ops", {"snapshotHash": data["snapshotHash"], "ops": [node("d")]}) == [("", "read_first")]
    assert easel.wrong("canvas_arrange_nodes", {"snapshotHash": data["snapshotHash"]}) == [("", "read_first")]
    easel.state()
    easel.apply(node("d"), state=data["snapshotHash"])
    assert easel.recomputed()[0] == easel.hash


def test_S1_60_without_overlap_nothing_moves_unless_a_person_wishes_it(easel: Easel) -> None:
    easel.apply(node("a", x=3, y=5), node("b", x=2_000, y=900))
    before = easel.everything()
    receipt = arrange(easel, mode="row")
    assert (receipt["status"], receipt["data"]["moved"], receipt["data"]["rereadRequired"]) == ("success", [], False)
    assert "nothing_to_arrange" in receipt["warnings"]
    assert easel.everything() == before
    easel.apply(node("c", x=9_000, y=0))  # no reading is owed
    assert arrange(easel, mode="row", nodeIds=["a", "b"], approved_by="ann")["data"]["moved"] != []
    easel.state()
    asyncio.run(easel.runtime.wish("arrange", easel.session, easel.canvas, "local"))
    assert arrange(easel, mode="column", nodeIds=["a", "b"])["data"]["moved"] != []


@pytest.mark.parametrize(
    ("what", "session", "owner", "kind"),
    [("tidy", "s", "local", "validation"), ("arrange", "", "local", "validation"), ("arrange", "s", "bob", "not_found")],
)
def test_a_wish_is_of_a_session_and_of_its_own_canvas(easel: Easel, what: str, session: str, owner: str, kind: str) -> None:
    with pytest.raises(ProblemError) as stop:
        asyncio.run(easel.runtime.wish(what, session, easel.canvas, owner))
    assert stop.value.problem.kind == kind


def test_media_hash_stays_where_only_places_change(easel: Easel) -> None:
    easel.apply(node("a", x=0, y=0), node("b", x=1, y=1))
    before = easel.state()["mediaSnapshotHash"]
    data = arrange(easel)["data"]
    assert data["moved"]
    assert (data["mediaSnapshotHash"], data["snapshotHash"] != data["beforeSnapshotHash"]) == (before, True)


def test_what_is_locked_holds_others_or_is_held_never_moves_and_is_named(easel: Easel) -> None:
    put(
        easel, box("f", 0, 0, type="frame", width=900, height=700), box("in", 10, 10, parent="f"), box("l", 100, 100, locked=True),
        box("a", 50, 50), box("b", 60, 60), box("big", -500, -500, width=8_000, height=8_000),
    )  # fmt: skip
    before = places(easel)
    data = arrange(easel, nodeIds=["a", "b", "big", "in", "f", "l"])["data"]
    assert data["skipped"] == [{"nodeId": "in", "reason": "contained"}, {"nodeId": "f", "reason": "container"}, {"nodeId": "l", "reason": "locked"}]
    assert {m["nodeId"] for m in data["moved"]} <= {"a", "b", "big"}
    assert {i: before[i] for i in ("f", "in", "l")} == {i: places(easel)[i] for i in ("f", "in", "l")}
    assert overlaps(easel, {"a", "b", "big"}) == []
    easel.state()
    assert arrange(easel, nodeIds=["l", "in"])["data"]["moved"] == []


def test_a_dry_run_tells_and_changes_nothing(easel: Easel) -> None:
    easel.apply(node("a", x=0, y=0), node("b", x=10, y=10))
    before = easel.everything()
    told = arrange(easel, dryRun=True)
    assert told["executed"] is False
    assert easel.everything() == before
    data = arrange(easel)["data"]
    assert told["wouldMove"] == data["moved"] != []
    assert told["snapshotHash"] == data["beforeSnapshotHash"]


def test_groups_stand_apart_and_name_each_node_once(easel: Easel) -> None:
    easel.apply(*(node(i, x=n, y=n) for n, i in enumerate("abcd")))
    groups = [{"nodeIds": ["a", "b"], "label": "first", "mode": "row"}, {"nodeIds": ["c"]}]
    data = arrange(easel, groups=groups, nodeIds=["a", "d"], mode="column", gap=10)["data"]
    assert data["groups"] == [
        {"nodeIds": ["a", "b"], "mode": "row", "label": "first"}, {"nodeIds": ["c"], "mode": "column"}, {"nodeIds": ["d"], "mode": "column"},
    ]  # fmt: skip
    at = places(easel)
    assert at["a"][1] == at["b"][1] < at["c"][1] < at["d"][1]
    easel.state()
    wrong = {"groups": [{"nodeIds": ["a", "x"]}, {"nodeIds": ["a"]}], "nodeIds": ["y"]}
    assert easel.wrong("canvas_arrange_nodes", {"snapshotHash": easel.hash, **wrong}) == [
        ("groups[0].nodeIds[1]", "not_found"), ("groups[1].nodeIds[0]", "duplicate"), ("nodeIds[0]", "not_found"),
    ]  # fmt: skip


def test_more_than_fifty_must_be_named(easel: Easel) -> None:
    for batch in range(3):
        easel.apply(*(node(f"n{batch}_{n}", x=0, y=0) for n in range(20)))
    assert easel.wrong("canvas_arrange_nodes", {"snapshotHash": easel.hash}) == [("nodeIds", "item_count")]
    some = [f"n{batch}_{n}" for batch in range(3) for n in range(16)]
    arrange(easel, nodeIds=some)
    assert overlaps(easel, set(some)) == []


def test_no_room_is_a_conflict_and_changes_nothing(easel: Easel, monkeypatch: pytest.MonkeyPatch) -> None:
    easel.apply(node("a", x=0, y=0), node("b", x=1, y=1))

    def full(*_: Any, **__: Any) -> None:
        raise arranging.NoRoom

    monkeypatch.setattr(arranging, "arranged", full)
    error = easel.refused("conflict", "canvas_arrange_nodes", {"snapshotHash": easel.hash})
    assert error["details"]["reason"] == "no_room"


def test_ids_must_have_been_given_out_to_the_session(easel: Easel) -> None:
    easel.apply(node("a", x=0, y=0), node("b", x=1, y=1))
    other = Easel(easel.db, easel.tenant)
    other.canvas, other.runtime = easel.canvas, easel.runtime
    args = {"snapshotHash": easel.hash, "nodeIds": ["a", "b"]}
    assert ("snapshotHash", "read_first") in other.wrong("canvas_arrange_nodes", args)
    other.state()
    other.do("canvas_arrange_nodes", args)


def test_random_canvases_with_everything_on_them(easel: Easel) -> None:
    """Through the tool and the store: nothing moved overlaps anything, nothing that stays has moved, the same again gives the same."""
    dice = random.Random(7)
    for round_no in range(12):
        tag = f"r{round_no}"
        frame = box(f"{tag}f", dice.randint(-3_000, 3_000), dice.randint(-3_000, 3_000), type="frame", width=900, height=600)
        nodes = [
            box(
                f"{tag}{n}", dice.randint(-3_000, 3_000), dice.randint(-3_000, 3_000), width=dice.choice([50, 340, 920, 8_192]),
                height=dice.choice([50, 240, 560, 8_192]), locked=dice.random() < 0.2, parent=frame.id if dice.random() < 0.1 else "",
            )
            for n in range(dice.randint(2, 20))
        ]  # fmt: skip
        put(easel, frame, *nodes)
        free = [n.id for n in nodes if not n.locked and not n.parent]
        before = places(easel)
        if not free:
            continue
        args = {"nodeIds": free, "mode": dice.choice(["auto", "flow", "row", "column", "grid", "byType"])}
        foretold = arrange(easel, **args, dryRun=True, session="")["wouldMove"]
        moved = arrange(easel, **args, session="")["data"]["moved"]
        assert moved == foretold
        assert overlaps(easel, {m["nodeId"] for m in moved}) == []
        after = places(easel)
        assert {i for i in before if before[i] != after[i]} == {m["nodeId"] for m in moved} <= set(free)
        easel.state()
