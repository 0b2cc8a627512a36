"""Folders in folders: how deep they stand, and that roles reach all the way down."""

from __future__ import annotations

from typing import Any

from polyloop.db import Tx
from polyloop.documents import limits, store
from polyloop.documents.access import role_of
from tests.documents.office import Office


def test_folders_stand_so_deep_and_no_deeper_and_roles_reach_all_the_way(office: Office) -> None:
    """By making them, and by moving a folder with others in it."""

    def box(title: str, inside: str) -> str:
        return office.do("create_folder", {"title": title, "containerId": inside})["data"]["nodeId"]

    boxes = ["root"]
    for n in range(limits.DEPTH):
        boxes.append(box(f"f{n}", boxes[-1]))
    office.do("access_grant", {"nodeId": boxes[1], "user": "u", "role": "MANAGER"})
    leaf = office.new("leaf", "deepword\n", containerId=boxes[-1])
    assert office.do("fetch", {"nodeId": leaf}, user="u")["data"]["title"] == "leaf"
    assert office.do("search", {"query": "deepword"}, user="u")["count"] == 1
    inner = box("inner", other := box("other", "root"))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("create_folder", {"title": "x", "containerId": boxes[-1]}), ("move", {"nodeId": other, "containerId": boxes[-1]}),
        ("move", {"nodeId": other, "containerId": boxes[-2]}), ("move", {"nodeId": boxes[1], "containerId": other}),
        ("move", {"nodeId": boxes[1], "containerId": boxes[2]}),
    ]  # fmt: skip
    for op, args in calls:
        assert "folder" in office.refused("validation", op, args)["message"]
    office.do("move", {"nodeId": other, "containerId": boxes[-3]})
    office.do("move", {"nodeId": leaf, "containerId": inner}, user="u")
    office.do("delete", {"nodeId": leaf})
    office.do("delete", {"nodeId": inner})
    office.do("move", {"nodeId": other, "containerId": boxes[-1 - 1]})
    assert "at most" in office.refused("validation", "restore", {"nodeId": inner})["message"]
    office.do("restore", {"nodeId": inner, "containerId": "root"})


def test_trees_from_before_there_was_a_limit_are_seen_to_their_ends(office: Office) -> None:
    boxes = ["root"]
    for n in range(3):
        boxes.append(office.do("create_folder", {"title": f"f{n}", "containerId": boxes[-1]})["data"]["nodeId"])
    office.do("access_grant", {"nodeId": boxes[1], "user": "u", "role": "READER"})

    def deeper(tx: Tx) -> str:
        above = boxes[-1]
        for n in range(limits.DEPTH + 5):
            node, seq = f"n_deep{n}", store.next_seq(tx, office.tenant)
            made = store.Node(
                id=node, type="folder", revision=1, hash=store.EMPTY, blocks=0, appended=0, created=seq, title="d", container=above, state="live"
            )
            store.add_node(tx, office.tenant, made, seq)
            above = node
        return above

    last = office.db.write_sync(deeper)
    assert office.db.look(role_of, office.tenant, "u", last) == 1
    assert office.db.look(role_of, office.tenant, "v", last) == 0
