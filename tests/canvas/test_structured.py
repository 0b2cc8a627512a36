"""Storyboards and batch tables as tools: hashes, order, ids, pages, undo of nothing else, and every cell refused without a trace."""

from __future__ import annotations

import random
import threading
from typing import Any

from tests.canvas.easel import Easel, edge, node, update

PLOT = {"durationSeconds": 3, "plotDescription": "A door opens."}


def storyboard(easel: Easel, count: int = 3, node_id: str = "s") -> list[str]:
    """A storyboard of so many shots; the ids of its rows."""
    args = {"snapshotHash": easel.hash, "nodeId": node_id, "title": "T", "rows": [{**PLOT, "camera": f"c{n}"} for n in range(count)]}
    return [row["rowId"] for row in easel.do("canvas_create_storyboard", args)["data"]["rows"]]


def read(easel: Easel, node_id: str = "s", offset: int = 0, **more: Any) -> dict[str, Any]:
    return easel.do("canvas_read_storyboard", {"nodeId": node_id, "offset": offset, **more})


def sibling(easel: Easel) -> Easel:
    """Another session on the same canvas."""
    other = Easel(easel.db, easel.tenant)
    other.canvas, other.runtime = easel.canvas, easel.runtime
    return other.ready()


def test_S1_57_S1_75_a_storyboard_is_made_of_rows_and_told_whole(easel: Easel) -> None:
    before = easel.hash
    receipt = easel.do("canvas_create_storyboard", {"snapshotHash": before, "nodeId": "s", "title": "T", "rows": [PLOT, {**PLOT, "dialogue": "No."}]})
    data = receipt["data"]
    assert (receipt["status"], receipt["verification"]["matched"], data["nodeId"], data["beforeSnapshotHash"]) == ("success", True, "s", before)
    told = read(easel)
    assert told["snapshotHash"] == data["nodeSnapshotHash"]
    assert told["snapshotHash"].startswith("node:")
    assert [(r["rowId"], r["shotNumber"], r.get("dialogue")) for r in told["storyboard"]["rows"]] == [
        (data["rows"][0]["rowId"], 1, None), (data["rows"][1]["rowId"], 2, "No."),
    ]  # fmt: skip
    assert told["storyboard"]["range"] == {"offset": 0, "count": 2, "total": 2}
    assert (told["storyboard"]["hasMore"], told["storyboard"]["nextOffset"]) == (False, None)
    assert easel.recomputed() == (data["snapshotHash"], data["mediaSnapshotHash"])
    shown = easel.state(nodeIds=["s"])["nodes"][0]
    assert shown["storyboard"]["totalRows"] == 2


def test_S1_76_rows_are_edited_by_their_ids_and_own_edits_follow_one_another(easel: Easel) -> None:
    ids = storyboard(easel)
    state = read(easel)["snapshotHash"]
    for action, more in (
        ("update", {"rowId": ids[0], "patch": {"camera": "low"}}),
        ("append", {"patch": PLOT}),
        ("remove", {"rowId": ids[1]}),
        ("update", {"rowId": ids[2], "patch": {"camera": "high"}}),
    ):
        data = easel.do("canvas_edit_storyboard", {"snapshotHash": state, "nodeId": "s", "action": action, **more})["data"]
        assert data["beforeSnapshotHash"] == state
        assert data["canvasSnapshotHash"] == easel.hash
        state = data["snapshotHash"]
    assert [(r["shotNumber"], r.get("camera")) for r in read(easel)["storyboard"]["rows"]] == [(1, "low"), (2, "high"), (3, None)]
    assert easel.recomputed()[0] == easel.hash


def test_S1_54_an_edit_names_the_hash_of_its_node_and_no_other(easel: Easel) -> None:
    ids = storyboard(easel)
    state = read(easel)["snapshotHash"]
    edit = {"nodeId": "s", "action": "update", "rowId": ids[0], "patch": {"camera": "x"}}
    assert easel.wrong("canvas_edit_storyboard", {**edit, "snapshotHash": easel.hash}) == [("snapshotHash", "wrong_kind")]
    easel.apply(node("far"), node("i", "image"))
    assert easel.do("canvas_edit_storyboard", {**edit, "snapshotHash": state})["status"] == "success", "work elsewhere is no conflict"
    old = easel.refused("revision_conflict", "canvas_edit_storyboard", {**edit, "snapshotHash": state})
    assert old["details"]["changed"] == {"added": [], "updated": ["s"], "removed": [], "count": 1}
    easel.refused("not_found", "canvas_edit_storyboard", {**edit, "nodeId": "none", "snapshotHash": state})
    easel.refused("type_mismatch", "canvas_edit_storyboard", {**edit, "nodeId": "far", "snapshotHash": state})
    easel.refused("type_mismatch", "canvas_edit_batch_table", {"nodeId": "s", "action": "append", "snapshotHash": state})
    easel.refused("type_mismatch", "canvas_read_batch_table", {"nodeId": "s", "offset": 0})


def test_S1_26_S1_33_S1_54_rows_must_be_read_as_they_stand(easel: Easel) -> None:
    ids = storyboard(easel, 25)
    other = sibling(easel)
    state = easel.do("canvas_read_storyboard", {"nodeId": "s", "offset": 0}, session="elsewhere")["snapshotHash"]
    edit = {"nodeId": "s", "snapshotHash": state}
    first = {**edit, "action": "remove", "rowId": ids[0]}
    assert other.wrong("canvas_edit_storyboard", first) == [("rowId", "not_issued")]
    assert other.wrong("canvas_edit_storyboard", {**edit, "action": "append", "patch": PLOT}) == [("action", "read_first")]
    page = read(other)["storyboard"]
    assert (page["range"]["count"], page["nextOffset"]) == (20, 20)
    assert other.wrong("canvas_edit_storyboard", {**edit, "action": "append", "patch": PLOT}) == [("action", "read_first")]
    assert other.wrong("canvas_edit_storyboard", {**edit, "action": "remove", "rowId": ids[22]}) == [("rowId", "not_issued")], "not on this page"
    read(other, offset=20)
    state = other.do("canvas_edit_storyboard", {**edit, "action": "append", "patch": PLOT})["data"]["snapshotHash"]
    other.do("canvas_edit_storyboard", {**first, "snapshotHash": state})
    old = read(easel)["snapshotHash"]
    read(easel, offset=20)
    other_state = read(other)["snapshotHash"]
    read(other, offset=20)
    other.do("canvas_edit_storyboard", {"nodeId": "s", "snapshotHash": other_state, "action": "remove", "rowId": ids[1]})
    easel.refused("revision_conflict", "canvas_edit_storyboard", {"nodeId": "s", "snapshotHash": old, "action": "remove", "rowId": ids[24]})
    now = read(easel)["snapshotHash"]
    late = {"nodeId": "s", "snapshotHash": now, "action": "remove", "rowId": ids[24]}
    assert easel.wrong("canvas_edit_storyboard", late) == [("rowId", "not_issued")], "a row of an older reading"


def test_S1_33_a_row_is_changed_by_who_has_read_all_of_it(easel: Easel) -> None:
    ids = storyboard(easel, 2)
    state = read(easel)["snapshotHash"]
    edit = {"nodeId": "s", "action": "update", "rowId": ids[0]}
    easel.do("canvas_edit_storyboard", {**edit, "snapshotHash": state, "patch": {"dialogue": "x" * 2_001}})
    other = sibling(easel)
    told = read(other)
    assert told["storyboard"]["rows"][0]["truncated"] == ["dialogue"]
    args = {**edit, "snapshotHash": told["snapshotHash"], "patch": {"camera": "y"}}
    assert other.wrong("canvas_edit_storyboard", args) == [("rowId", "read_first")]
    assert "truncated" not in read(other, rows=1)["storyboard"]["rows"][0]
    other.do("canvas_edit_storyboard", args)


def test_S1_32_S1_41_offsets_are_those_given_out(easel: Easel) -> None:
    ids = storyboard(easel, 25)
    assert easel.wrong("canvas_read_storyboard", {"nodeId": "s"}) == [("offset", "required")]
    assert easel.wrong("canvas_read_storyboard", {"nodeId": "s", "offset": 1}) == [("offset", "not_issued")]
    easel.state()
    state = read(easel)["snapshotHash"]
    assert read(easel, offset=20)["storyboard"]["range"] == {"offset": 20, "count": 5, "total": 25}
    easel.do("canvas_edit_storyboard", {"nodeId": "s", "snapshotHash": state, "action": "remove", "rowId": ids[0]})
    conflict = easel.refused("revision_conflict", "canvas_read_storyboard", {"nodeId": "s", "offset": 20})
    assert conflict["details"]["field"] == "offset"
    outside = easel.call("canvas_read_storyboard", {"nodeId": "s", "offset": 99}, session="")
    assert (outside[1], outside[0]["error"]["details"]["field"]) == (2, "offset")
    assert easel.call("canvas_read_storyboard", {"nodeId": "s", "offset": 3}, session="")[1] == 0, "no session, no offsets given out"


def table(easel: Easel) -> str:
    """A batch table `t` beside two images; its hash."""
    easel.apply(node("t", "batch-table", title="Plan"), node("i", "image"), node("j", "image"), node("w"))
    return easel.do("canvas_read_batch_table", {"nodeId": "t", "offset": 0})["snapshotHash"]


def plan(easel: Easel, state: str, action: str, **more: Any) -> dict[str, Any]:
    return easel.do("canvas_edit_batch_table", {"snapshotHash": state, "nodeId": "t", "action": action, **more})["data"]


def test_S1_77_a_batch_table_is_planned_and_nothing_is_submitted(easel: Easel) -> None:
    state = table(easel)
    data = plan(easel, state, "append", patch={"inputNodeIds": ["i", "j"], "prompt": "@参考图1 in the light of @参考图2"})
    data = plan(easel, data["snapshotHash"], "append")
    assert data["row"]["inputNodeIds"] == ["i", "j"]
    data = plan(easel, data["snapshotHash"], "update", rowId=data["rowId"], patch={"enabled": False})
    for action, more in (
        ("set_operation", {"operation": "creative"}), ("set_concurrency", {"concurrency": 1}), ("add_reference_column", {}),
        ("set_global_prompt", {"globalPrompt": "all"}), ("remove_reference_column", {}),
    ):  # fmt: skip
        data = plan(easel, data["snapshotHash"], action, **more)
    told = easel.do("canvas_read_batch_table", {"nodeId": "t", "offset": 0})
    assert told["snapshotHash"] == data["snapshotHash"]
    own = told["batchTable"]
    assert (own["operation"], own["concurrency"], own["globalPrompt"], len(own["referenceColumns"])) == ("creative", 1, "all", 2)
    assert own["generationPreview"] == {"enabledRows": 1, "readyRows": 1, "missingPromptRows": 0, "missingReferenceRows": 0, "outputLinkedRows": 0}
    assert [r["enabled"] for r in own["rows"]] == [True, False]
    assert easel.recomputed()[0] == easel.hash


def test_S1_77_an_edit_of_a_table_writes_no_more_than_the_plan(easel: Easel) -> None:
    state = table(easel)
    edit = {"snapshotHash": state, "nodeId": "t", "action": "append"}
    for patch, found in (
        ({"outputNodeId": "i"}, ("patch.outputNodeId", "unknown_field")), ({"url": "http://x.test/a.png"}, ("patch.url", "unknown_field")),
        ({"inputNodeIds": ["w"]}, ("patch.inputNodeIds[0]", "wrong_node_type")),
    ):  # fmt: skip
        assert easel.wrong("canvas_edit_batch_table", {**edit, "patch": patch}) == [found]
    other = easel.call("canvas_edit_batch_table", {**edit, "patch": {"inputNodeIds": ["http://x.test/a.png"]}}, session="again")
    assert other[0]["error"]["kind"] in ("validation", "capability_unavailable")


def test_S1_54_a_table_is_read_to_its_end_before_it_is_set(easel: Easel) -> None:
    table(easel)
    other = sibling(easel)
    state = easel.do("canvas_read_batch_table", {"nodeId": "t", "offset": 0})["snapshotHash"]
    args = {"snapshotHash": state, "nodeId": "t", "action": "set_concurrency", "concurrency": 5}
    assert other.wrong("canvas_edit_batch_table", args) == [("action", "read_first")]
    other.do("canvas_read_batch_table", {"nodeId": "t", "offset": 0})
    other.do("canvas_edit_batch_table", args)


def test_S1_49_what_a_person_approves_is_the_same_when_it_is_planned_again(easel: Easel) -> None:
    args = {"snapshotHash": easel.hash, "nodeId": "s", "title": "T", "rows": [PLOT]}
    asked = easel.refused("confirmation_required", "canvas_create_storyboard", args, mode="request_approval")
    assert asked["details"]["plan"]["resolved"] == {"nodeId": "s", "action": "create", "summary": {"rowsAdded": 1, "totalRows": 1}}
    easel.do("canvas_create_storyboard", args, mode="request_approval", approved_by="ann")
    easel.refused("permission_denied", "canvas_edit_storyboard", {**args_of(easel), "action": "append", "patch": PLOT}, mode="read_only")


def args_of(easel: Easel) -> dict[str, Any]:
    return {"nodeId": "s", "snapshotHash": read(easel)["snapshotHash"]}


def test_a_storyboard_without_a_place_overlaps_nothing(easel: Easel) -> None:
    for n in range(6):
        storyboard(easel, 1, f"s{n}")
    easel.apply(node("a"), node("i", "image"), edge("e", "a", "i"))
    for one in easel.look(lambda board: board.nodes(0, 100)):
        assert easel.look(lambda board, n=one: [m.id for m in board.at(n.x, n.y, n.width, n.height)]) == [one.id]


def test_a_change_of_rows_changes_the_canvas_and_its_media_hash(easel: Easel) -> None:
    ids = storyboard(easel)
    before = easel.state()
    easel.do("canvas_edit_storyboard", {**args_of(easel), "action": "remove", "rowId": ids[0]})
    after = easel.state()
    assert before["snapshotHash"] != after["snapshotHash"]
    assert before["mediaSnapshotHash"] != after["mediaSnapshotHash"]
    easel.apply(update("s", title="Renamed"))
    assert read(easel)["title"] == "Renamed"


def test_any_sequence_of_edits_leaves_what_was_told_and_hashes_that_can_be_recomputed(easel: Easel) -> None:
    """Against a plain list: a hundred edits, some of them stale, some of rows that are gone."""
    dice, shots = random.Random(11), [{"camera": f"c{n}"} for n in range(3)]
    ids, state = storyboard(easel), read(easel)["snapshotHash"]
    gone, old = "row_0000000000000000", state
    for step in range(100):
        action = dice.choice(["append", "update", "remove", "stale", "gone"]) if ids else "append"
        base = {"snapshotHash": state, "nodeId": "s"}
        if action == "stale" and old != state:
            easel.refused("revision_conflict", "canvas_edit_storyboard", {**base, "snapshotHash": old, "action": "append", "patch": PLOT})
        elif action == "gone":
            told = easel.call("canvas_edit_storyboard", {**base, "action": "remove", "rowId": gone}, session="")[0]
            assert told["error"]["details"]["issue"] == "not_found"
        elif action in ("append", "update", "remove"):
            at, camera = dice.randrange(len(ids)) if ids else 0, f"n{step}"
            more = {"append": {"patch": {**PLOT, "camera": camera}}, "update": {"rowId": (ids or [""])[at], "patch": {"camera": camera}}}
            data = easel.do("canvas_edit_storyboard", {**base, "action": action, **more.get(action, {"rowId": (ids or [""])[at]})})["data"]
            old, state = state, data["snapshotHash"]
            if action == "append":
                ids.append(data["rowId"])
                shots.append({"camera": camera})
            elif action == "update":
                shots[at] = {"camera": camera}
            else:
                gone = ids.pop(at)
                del shots[at]
    rows, offset = list[dict[str, Any]](), 0
    while True:
        page = read(easel, offset=offset)["storyboard"]
        rows += page["rows"]
        if not page["hasMore"]:
            break
        offset = page["nextOffset"]
    assert [(r["rowId"], r["shotNumber"], r["camera"]) for r in rows] == [
        (i, n, s["camera"]) for n, (i, s) in enumerate(zip(ids, shots, strict=True), 1)
    ]
    assert easel.recomputed()[0] == easel.hash
    assert read(easel)["snapshotHash"] == state


def test_many_at_once_lose_nothing_that_was_acknowledged(easel: Easel) -> None:
    """Six sessions append to one storyboard as fast as they can; who is late is told so, reads again and goes on."""
    storyboard(easel, 1)
    acknowledged = list[str]()

    def work(worker: Easel, count: int = 5) -> None:
        while count:
            told = worker.call("canvas_read_storyboard", {"nodeId": "s", "offset": 0, "rows": 20})[0]
            while told["storyboard"]["hasMore"]:
                answer, code = worker.call("canvas_read_storyboard", {"nodeId": "s", "offset": told["storyboard"]["nextOffset"]})
                if code:
                    assert answer["error"]["kind"] == "revision_conflict"
                    break
                told = answer
            edit = {"snapshotHash": told["snapshotHash"], "nodeId": "s", "action": "append", "patch": PLOT}
            answer, code = worker.call("canvas_edit_storyboard", edit)
            if code:
                assert answer["error"]["kind"] in ("revision_conflict", "validation"), answer
            else:
                acknowledged.append(answer["data"]["rowId"])
                count -= 1

    threads = [threading.Thread(target=work, args=(sibling(easel),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = [row.id for row in easel.look(lambda board: board.rows_of("s"))]
    assert len(set(acknowledged)) == len(acknowledged) == 30
    assert set(stored[1:]) == set(acknowledged)
    assert len(stored) == 31
    assert easel.recomputed()[0] == easel.hash


def test_edits_of_rows_and_whole_storyboards_are_taken_back_by_people(easel: Easel) -> None:
    ids, made = storyboard(easel), easel.hash
    state = read(easel)["snapshotHash"]
    easel.do("canvas_edit_storyboard", {"snapshotHash": state, "nodeId": "s", "action": "remove", "rowId": ids[1]})
    edited = easel.hash
    easel.do("canvas_undo", {"snapshotHash": edited})
    assert (easel.hash, read(easel)["snapshotHash"]) == (made, state)
    assert [r["rowId"] for r in read(easel)["storyboard"]["rows"]] == ids
    easel.do("canvas_redo", {"snapshotHash": made})
    assert easel.hash == edited
    easel.do("canvas_delete_nodes", {"snapshotHash": edited, "nodeIds": ["s"]}, approved_by="ann")
    assert easel.look(lambda board: board.rows_of("s")) == []
    easel.do("canvas_undo", {"snapshotHash": easel.hash})
    assert (easel.hash, easel.recomputed()[0]) == (edited, edited)
    assert [row.id for row in easel.look(lambda board: board.rows_of("s"))] == [ids[0], ids[2]]


def test_an_edit_notes_as_much_in_a_session_however_many_rows_it_knows(easel: Easel) -> None:
    def noted() -> int:
        return easel.db.look(lambda tx: sum(len(f) for (f,) in tx.rows("select fact from op_fact where tenant = ?", easel.tenant)))

    grown = []
    for node_id, count in (("few", 5), ("all", 100)):
        ids = storyboard(easel, count, node_id)
        for offset in range(0, count, 20):
            state = read(easel, node_id, offset)["snapshotHash"]
        before = noted()
        easel.do("canvas_edit_storyboard", {"snapshotHash": state, "nodeId": node_id, "action": "update", "rowId": ids[0], "patch": {"camera": "x"}})
        grown.append(noted() - before)
    assert grown[0] == grown[1]
