"""canvas_get_state: pages that together are the canvas, levels, offsets that are handles."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from polyloop.canvas import limits
from polyloop.canvas.board import Board, By
from polyloop.canvas.model import Change, Edge, Node
from polyloop.canvas.store import find_canvas
from polyloop.db import Database, Tx
from tests.canvas.easel import Easel, edge, node, update

SOAK = os.environ.get("POLYLOOP_SOAK") == "1"


def fill(easel: Easel, nodes: int, edges: int, chars: int = 0) -> None:
    """Written at once, in a grid; edges from each node to those after it."""
    grid = {n: (n % 100 * 800, n // 100 * 500) for n in range(nodes)}
    many = [
        Node(id=f"n{n}", type="image", x=x, y=y, width=720, height=405)
        if n % 2 else Node(id=f"n{n}", type="text", x=x, y=y, width=720, height=405, body={"content": "w" * chars} if chars else {})
        for n, (x, y) in grid.items()
    ]  # fmt: skip
    joined = [Edge(id=f"e{n}", source=f"n{n % nodes}", target=f"n{(n + 1 + n // nodes) % nodes}") for n in range(edges)]

    def work(tx: Tx) -> None:
        Board(tx, easel.tenant, find_canvas(tx, easel.tenant, easel.owner, easel.canvas)).write(
            [Change(None, item) for item in (*many, *joined)], By()
        )

    easel.db.write_sync(work)


def walked(easel: Easel) -> tuple[list[str], list[str], int]:
    """All nodes and connections by pages, following what the answers say; and how many pages it took."""
    nodes, edges, pages, args = list[str](), list[str](), 0, dict[str, Any]()
    while True:
        told = easel.state(**args)
        pages += 1
        assert told["level"] == "index"
        assert told["range"]["count"] == len(told["nodes"])
        assert told["range"]["total"] == told["totalNodes"]
        nodes += [n["id"] for n in told["nodes"]]
        edges += [e["id"] for e in told["connections"]]
        if not told["hasMore"] and not told["hasMoreConnections"]:
            return nodes, edges, pages
        following = {"offset": told["nextOffset"], "connectionOffset": told["nextConnectionOffset"]}
        args = {name: value for name, value in following.items() if value is not None}


@pytest.mark.parametrize(("nodes", "edges"), [(0, 0), (41, 101), (400, 800), *([(10_000, 20_000)] if SOAK else [])])
def test_S1_62_the_pages_together_are_the_canvas(db: Database, nodes: int, edges: int) -> None:
    easel = Easel(db)
    fill(easel, nodes, edges)
    found = walked(easel)
    stored = easel.look(lambda b: ([n.id for n in b.nodes(0, 1 << 40)], [e.id for e in b.edges(0, 1 << 40)]))
    assert found[:2] == stored
    assert (len(stored[0]), len(stored[1])) == (nodes, edges)
    assert found[2] == max(1, -(-nodes // limits.PAGE_NODES), -(-edges // limits.PAGE_EDGES))


def test_S1_32_an_offset_is_what_an_answer_gave_and_nothing_else(db: Database) -> None:
    easel = Easel(db)
    fill(easel, 100, 150)
    first = easel.state()
    assert (first["nextOffset"], first["nextConnectionOffset"]) == (40, 100)
    for name, value in (("offset", 1), ("offset", 2), ("offset", 100), ("connectionOffset", 40), ("connectionOffset", 2)):
        assert easel.wrong("canvas_get_state", {name: value}, session=easel.session + str(value)) == [(name, "not_issued")], (
            "a page number is no offset"
        )
    assert easel.wrong("canvas_get_state", {"offset": 2}) == [("offset", "not_issued")]
    assert easel.state(offset=40)["range"] == {"offset": 40, "count": 40, "total": 100}
    other = Easel(db, easel.tenant, session=easel.session)
    assert other.wrong("canvas_get_state", {"offset": 40}) == [("offset", "not_issued")], "it was given out for another canvas"


def test_S1_32_a_canvas_changed_between_pages_is_a_conflict(db: Database) -> None:
    easel = Easel(db)
    fill(easel, 100, 0)
    easel.state()
    easel.call("canvas_move_nodes", {"snapshotHash": easel.hash, "nodes": [{"id": "n99", "x": 9, "y": 9}]}, session="")
    error = easel.refused("revision_conflict", "canvas_get_state", {"offset": 40})
    assert (error["details"]["field"], error["details"]["current"]) == ("offset", easel.hash)
    assert walked(easel)[0] == [f"n{n}" for n in range(100)]


def test_S1_62_a_page_is_whole_and_never_too_large(db: Database) -> None:
    easel = Easel(db)
    fill(easel, 300, 0, chars=16_000)
    nodes = [f"n{n}" for n in range(0, 16, 2)]
    told = easel.state(nodeIds=nodes)
    assert told["level"] == "detail"
    assert len(json.dumps(told["nodes"])) <= limits.PAGE_BYTES * 1.1
    seen, args = [n["id"] for n in told["nodes"]], {}
    while told["hasMore"]:
        args = {"nodeIds": nodes, "offset": told["nextOffset"]}
        told = easel.state(**args)
        seen += [n["id"] for n in told["nodes"]]
        assert all(len(n["content"]) == 16_000 for n in told["nodes"])
    assert seen == nodes


def test_S1_39_S1_40_what_was_asked_for_is_what_comes(easel: Easel) -> None:
    easel.apply(*(node(f"i{n}", "image", patch={"prompt": "p" * 3000}) for n in range(6)), *(edge(f"e{n}", f"i{n}", f"i{n + 1}") for n in range(5)))
    assert [n["prompt"] for n in easel.state()["nodes"]] == ["p" * limits.INDEX_CHARS] * 6
    near = {
        depth: [n["id"] for n in easel.state(focusNodeIds=["i2"], **({} if depth is None else {"depth": depth}))["nodes"]]
        for depth in (None, 0, 1, 2, 3)
    }
    assert {depth: sorted(found) for depth, found in near.items()} == {
        None: ["i1", "i2", "i3"], 0: ["i2"], 1: ["i1", "i2", "i3"], 2: ["i0", "i1", "i2", "i3", "i4"], 3: ["i0", "i1", "i2", "i3", "i4", "i5"],
    }  # fmt: skip
    page = easel.state(focusNodeIds=["i2"])
    assert (page["level"], len(page["nodes"][0]["prompt"]), page["nodes"][0]["promptTruncated"]) == ("page", limits.PAGE_CHARS, True)
    assert sorted(e["id"] for e in page["connections"]) == ["e1", "e2"]
    assert len(easel.state(focusNodeIds=["i0"], includeRelated=True)["nodes"]) == 6
    detail = easel.state(nodeIds=["i3", "i0"])
    assert [(n["id"], len(n["prompt"])) for n in detail["nodes"]] == [("i3", 3000), ("i0", 3000)]
    assert sorted(e["id"] for e in detail["connections"]) == ["e0", "e2", "e3"]
    for args in ({"nodeIds": ["i0", "gone"]}, {"focusNodeIds": ["gone"]}):
        assert easel.refused("not_found", "canvas_get_state", args)["details"] == {"nodeIds": ["gone"]}


def test_a_connected_part_is_cut_where_it_grows_too_large_and_says_so(db: Database) -> None:
    easel = Easel(db)
    fill(easel, 300, 300)
    told = easel.state(focusNodeIds=["n0"], includeRelated=True)
    assert (told["truncated"], told["totalNodes"]) == (True, limits.RELATED)


def test_what_the_registry_does_not_name_is_never_told(db: Database) -> None:
    easel = Easel(db)
    secret = {
        "prompt": "p",
        "url": "https://a/b.png",
        "storageKey": "k",
        "asset": {"assetId": "as1", "mimeType": "image/png", "key": "k", "width": 1},
    }
    nodes = [
        Node(id="a", type="image", width=1, height=1, body={**secret, "task": {"taskId": "t1", "status": "succeeded", "providerRequestId": "x"}}),
        Node(id="b", type="odd", width=1, height=1, body=secret), Node(id="c", type="image", width=1, height=1),
    ]  # fmt: skip

    def work(tx: Tx) -> None:
        Board(tx, easel.tenant, find_canvas(tx, easel.tenant, easel.owner, easel.canvas)).write([Change(None, n) for n in nodes], By())

    easel.db.write_sync(work)
    for told in (easel.state(), easel.state(nodeIds=["a", "b", "c"]), easel.state(focusNodeIds=["a", "b"])):
        text = json.dumps(told)
        assert not any(word in text for word in ("https", "storageKey", "providerRequestId", '"k"'))
    a, b, c = easel.state(nodeIds=["a", "b", "c"])["nodes"]
    assert a["asset"] == {"assetId": "as1", "mimeType": "image/png", "width": 1}
    assert (a["generation"], a["referenceReady"]) == ({"taskId": "t1", "status": "succeeded"}, True)
    assert (b["agentSupported"], c["referenceReady"], c["referenceIssue"]) == (False, False, "no_asset")
    easel.do("canvas_list_node_types", {})
    args = {"snapshotHash": easel.hash, "ops": [update("b", title="x")]}
    assert easel.wrong("canvas_apply_ops", args) == [("ops[0].id", "unsupported_type")]


def test_S1_62_rows_are_shown_with_their_node_by_pages(easel: Easel) -> None:
    shots = [{"durationSeconds": 1, "plotDescription": f"shot {n}"} for n in range(25)]
    easel.do("canvas_create_storyboard", {"snapshotHash": easel.hash, "nodeId": "s", "title": "S", "rows": shots})
    assert easel.state()["nodes"][0]["storyboard"] == {"totalRows": 25}
    part = easel.state(nodeIds=["s"])["nodes"][0]["storyboard"]
    assert (len(part["rows"]), part["nextOffset"], part["rows"][0]["rowId"][:4]) == (20, 20, "row_")
    rest = easel.state(nodeIds=["s"], storyboardOffset=20)["nodes"][0]["storyboard"]
    assert (rest["range"], rest["hasMore"], rest["rows"][-1]["plotDescription"]) == ({"offset": 20, "count": 5, "total": 25}, False, "shot 24")
    assert easel.wrong("canvas_get_state", {"nodeIds": ["s"], "storyboardOffset": 2}) == [("storyboardOffset", "not_issued")]
    alone = {"session": ""}
    assert easel.wrong("canvas_get_state", {"nodeIds": ["s"], "storyboardOffset": 26}, **alone) == [("storyboardOffset", "out_of_range")]


def test_an_offset_of_rows_is_given_out_only_with_the_node_it_is_of(easel: Easel) -> None:
    """A node that does not fit on the page any more was not shown, so nothing of it was given out."""
    easel.apply(node("t", "markdown", content="文" * 16_000))
    shots = [{"durationSeconds": 1, "plotDescription": "p"}] * 21
    easel.do("canvas_create_storyboard", {"snapshotHash": easel.hash, "nodeId": "s", "title": "S", "rows": shots})
    assert [n["id"] for n in easel.state(nodeIds=["t", "s"])["nodes"]] == ["t"]
    args = {"nodeIds": ["s"], "storyboardOffset": 20}
    assert easel.wrong("canvas_get_state", args) == [("storyboardOffset", "not_issued")]
    assert easel.state(nodeIds=["s"])["nodes"][0]["storyboard"]["nextOffset"] == 20
    assert len(easel.state(**args)["nodes"][0]["storyboard"]["rows"]) == 1
