"""What is delivered to a node, and what people do to the canvas meanwhile: nothing paid for is lost, no hash is untrue, no state is stale."""

from __future__ import annotations

import pytest

from polyloop.canvas.board import Board
from polyloop.canvas.model import full
from polyloop.canvas.store import find_canvas
from tests.media.room import Room, picture, room

pytestmark = pytest.mark.needs("media")


@pytest.fixture
def here(tmp_path):
    with room(tmp_path) as found:
        found.grant()
        yield found


def person(here: Room, tool: str, **args) -> None:
    """What a person does on the canvas as it stands; its hash is afterwards that of what is on it."""
    here.board(f"canvas_{tool}", {"snapshotHash": here.board("canvas_get_state")["snapshotHash"], **args}, approved_by="ann")
    whole(here)


def whole(here: Room) -> None:
    """The hashes, kept step by step, are those of what is there."""

    def look(tx):
        board = Board(tx, here.tenant, find_canvas(tx, here.tenant, "local", here.canvas))
        return (board.head.content, board.head.media), full([*board.nodes(0, 1 << 30), *board.edges(0, 1 << 30)]).hashes

    kept, computed = here.db.look(look)
    assert kept == computed


def made(here: Room, node: str = "p1") -> str:
    return here.call("generate_media", picture(node, f"wish {node}"))[0]["taskId"]


def shown(here: Room, node: str = "p1") -> tuple[str, bool]:
    found = here.node(node)
    return found["generation"]["status"], found["referenceReady"]


def test_undo_and_redo_of_a_wish_whose_result_has_come_lose_no_result(here):
    made(here)
    here.worker.all()
    person(here, "undo")
    person(here, "redo")
    assert shown(here) == ("succeeded", True)


def test_what_is_delivered_while_a_node_is_undone_is_on_it_when_it_comes_back(here):
    task = made(here)
    person(here, "undo")
    here.worker.all()
    told, _ = here.call("task_get", {"taskId": task})
    assert (told["state"], told["writeback"]["outcome"], told["billing"]["state"]) == ("succeeded", "not_applied", "settled")
    person(here, "redo")
    assert shown(here) == ("succeeded", True)
    assert here.call("task_get", {"taskId": task})[0]["writeback"] == {"outcome": "applied", "nodeId": "p1"}


def test_what_ends_while_a_node_is_deleted_is_told_when_it_comes_back(here):
    one, two = made(here, "p1"), made(here, "p2")
    person(here, "delete_nodes", nodeIds=["p1", "p2"])
    here.call("task_cancel", {"taskId": two})
    here.worker.all()
    person(here, "undo")
    assert (shown(here, "p1"), shown(here, "p2")) == (("succeeded", True), ("cancelled", False))
    assert here.call("task_get", {"taskId": one})[0]["writeback"]["outcome"] == "applied"


def test_undoing_a_move_takes_no_result_away(here):
    made(here)
    person(here, "move_nodes", nodes=[{"id": "p1", "x": 5000, "y": 70}])
    here.worker.all()
    person(here, "undo")
    assert (here.node("p1")["position"], shown(here)) == ({"x": 0, "y": 0}, ("succeeded", True))
    person(here, "redo")
    assert (here.node("p1")["position"], shown(here)) == ({"x": 5000, "y": 70}, ("succeeded", True))


def test_a_file_that_was_brought_in_comes_back_with_its_node(here):
    import base64

    from tests.media.scenes import scene

    here.call("upload", {"nodeId": "src", "title": "photo", "file": base64.b64encode(scene("hill")[0]).decode()})
    before = here.node("src")
    person(here, "undo")
    person(here, "redo")
    assert here.node("src") == before


@pytest.mark.parametrize("again", [False, True])
def test_open_ai_canvas_609_a_result_without_a_node_is_recovered_as_a_new_one_free_of_charge(here, again):
    task = made(here)
    person(here, "delete_nodes", nodeIds=["p1"])
    here.worker.all()
    before, asset = here.charges(), here.call("task_get", {"taskId": task})[0]["result"]["asset"]
    told, code = here.call("task_recover", {"taskId": task, "nodeId": "again"})
    assert (code, told["data"]["nodeIds"]) == (0, ["again"])
    assert here.node("again")["asset"]["assetId"] == asset["assetId"]
    assert here.node("again")["generation"] == {"taskId": task, "status": "succeeded"}
    now, _ = here.call("task_get", {"taskId": task})
    assert now["writeback"] == {"outcome": "applied", "nodeId": "again"}
    assert (now["nodeId"], now["result"]["nodeId"], here.charges()) == ("again", "again", before)
    whole(here)
    if again:  # it is there: there is nothing to recover, until that node is gone too
        told, code = here.call("task_recover", {"taskId": task, "nodeId": "third"})
        assert (code, told["error"]["details"]["issue"]) == (2, "delivered")
        person(here, "delete_nodes", nodeIds=["again"])
        assert here.call("task_recover", {"taskId": task, "nodeId": "third"})[1] == 0
        assert here.count("media_asset") == 1


def test_only_a_result_is_recovered_and_nothing_is_written_over(here):
    waiting, done = made(here, "p1"), made(here, "p2")
    for _ in range(4):
        here.worker.one(done)
    here.call("task_cancel", {"taskId": waiting})
    person(here, "delete_nodes", nodeIds=["p2"])
    recovers = [({"taskId": waiting, "nodeId": "x"}, {}), ({"taskId": done, "nodeId": "p1"}, {}), ({"taskId": "task_of_nobody", "nodeId": "x"}, {}),
                ({"taskId": done, "nodeId": "x"}, {"owner": "bob"})]  # fmt: skip
    refused = [here.call("task_recover", given, **caller) for given, caller in recovers]
    assert [(code, told["error"]["kind"]) for told, code in refused] == [(2, "validation"), (2, "validation"), (2, "not_found"), (2, "not_found")]
    assert [told["error"]["details"]["issue"] for told, _ in refused[:2]] == ["no_result", "exists"]


def test_layers_without_their_node_are_recovered_all_together(here):
    import base64

    from tests.media.scenes import scene

    here.call("upload", {"nodeId": "src", "title": "photo", "file": base64.b64encode(scene("two things")[0]).decode()})
    wish = {"prompt": "part it", "nodeId": "cut", "title": "layers", "referenceNodeIds": ["src"], "logicalModelId": "local-colour-regions"}
    task = here.call("image_layer_split", wish)[0]["taskId"]
    person(here, "delete_nodes", nodeIds=["cut"])
    here.worker.all()
    lost, _ = here.call("task_get", {"taskId": task})
    assert lost["writeback"]["outcome"] == "not_applied"
    told, code = here.call("task_recover", {"taskId": task, "nodeId": "again"})
    assert (code, told["data"]["nodeIds"]) == (0, ["again", "again_2", "again_3"])
    done, _ = here.call("task_get", {"taskId": task})
    assert done["result"]["nodeIds"] == told["data"]["nodeIds"]
    assert [here.node(n)["asset"]["assetId"] for n in told["data"]["nodeIds"]] == [layer["asset"]["assetId"] for layer in lost["result"]["layers"]]


def test_S1_37_a_result_whose_node_was_deleted_is_not_told_as_on_it(here):
    task = made(here)
    here.worker.all()
    assert here.call("task_get", {"taskId": task})[0]["writeback"] == {"outcome": "applied", "nodeId": "p1"}
    person(here, "delete_nodes", nodeIds=["p1"])
    gone = {"outcome": "not_applied", "reason": "node_gone", "nodeId": "p1"}
    told, code = here.call("task_get", {"taskId": task})
    assert (told["writeback"], told["complete"], code) == (gone, True, 0), "the file is there, and paid"
    again, _ = here.call("generate_media", picture("p1", "wish p1"))
    assert (again["taskId"], again["writeback"]) == (task, gone), "the same wish is told so too"
    person(here, "undo")
    assert here.call("task_get", {"taskId": task})[0]["writeback"] == {"outcome": "applied", "nodeId": "p1"}


def test_a_person_who_says_yes_to_the_wish_again_gets_it_where_its_node_is_gone(here):
    task = made(here)
    here.worker.all()
    assert here.call("generate_media", picture("p1", "wish p1"), approved_by="ann")[0]["taskId"] == task, "it is there"
    person(here, "delete_nodes", nodeIds=["p1"])
    again, _ = here.call("generate_media", picture("p1", "wish p1"), approved_by="ann")
    assert again["taskId"] != task
    assert here.call("generate_media", picture("p1", "wish p1"), approved_by="ann")[0]["taskId"] == again["taskId"], "once"
    here.worker.all()
    assert shown(here) == ("succeeded", True)


def test_layers_of_which_one_was_deleted_are_not_all_there(here):
    import base64

    from tests.media.scenes import scene

    here.call("upload", {"nodeId": "src", "title": "photo", "file": base64.b64encode(scene("two things")[0]).decode()})
    wish = {"prompt": "part it", "nodeId": "cut", "title": "layers", "referenceNodeIds": ["src"], "logicalModelId": "local-colour-regions"}
    task = here.call("image_layer_split", wish)[0]["taskId"]
    here.worker.all()
    assert here.call("task_get", {"taskId": task})[0]["writeback"]["outcome"] == "applied"
    person(here, "delete_nodes", nodeIds=["cut_2"])
    assert here.call("task_get", {"taskId": task})[0]["writeback"]["reason"] == "node_gone"


def test_a_task_whose_canvas_is_gone_says_so(here):
    import asyncio

    task = made(here)
    here.worker.all()
    here.db.write_sync(lambda tx: tx.run("delete from canvas where id = ?", here.canvas))
    [told] = asyncio.run(here.media.tasks(""))
    assert (told.task_id, told.writeback["reason"]) == (task, "canvas_gone")
