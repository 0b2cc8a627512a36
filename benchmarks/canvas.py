"""The canvas: what 20 operations cost, whatever the canvas holds, and against a store of one JSON document. `python benchmarks/canvas.py [--quick]`.

Counts decide (commits, rows touched, buckets renewed); times are medians of interleaved rounds.
Scratch: $BENCH_TMP (on the disk under test), else a temporary folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from polyloop.canvas.board import Board, By
from polyloop.canvas.model import Change, Edge, Node, full
from polyloop.canvas.runtime import CanvasRuntime
from polyloop.canvas.store import SCHEMAS, find_canvas
from polyloop.contract.receipt import Receipt
from polyloop.db import Database, Tx
from polyloop.ids import uuid7
from polyloop.journal.carry import Caller

QUICK = "--quick" in sys.argv
SMALL, LARGE = 1_000, 100_000
ROUNDS = 20 if QUICK else 50
#: Rounds of the slow store.
JSON_ROUNDS = 3 if QUICK else 5
TABLES = ("canvas", "canvas_node", "canvas_edge", "canvas_bucket", "canvas_change", "op_entry")


class Desk:
    """One store with a canvas of `count` nodes and as many connections."""

    def __init__(self, folder: Path, count: int) -> None:
        self.db = Database.open(folder / f"{count}.db", SCHEMAS)
        self.runtime, self.loop, self.calls = CanvasRuntime(self.db, "t", lambda: 0, uuid7), asyncio.new_event_loop(), 0
        made = self.loop.run_until_complete(self.runtime.call("canvas_new", {"title": "C"}))
        assert isinstance(made, Receipt), made
        self.caller = Caller(within=made.data["canvasId"])
        self.hash = made.data["snapshotHash"]
        self._fill(count)

    def _fill(self, count: int) -> None:
        items: list[Node | Edge] = []
        for n in range(count):
            body = {"content": f"text of node {n}, a few words long"}
            items.append(Node(id=f"n{n}", type="text", title=f"node {n}", x=n % 300 * 400, y=n // 300 * 300, width=340, height=240, body=body))
            items.append(Edge(id=f"e{n}", source=f"n{n}", target=f"n{(n * 7 + 1) % count}"))

        def work(tx: Tx) -> str:
            board = Board(tx, "t", find_canvas(tx, "t", "local", self.caller.within))
            return board.write([Change(None, item) for item in items], By()).content

        self.hash = self.db.write_sync(work)

    def ops(self) -> list[dict[str, Any]]:
        """20 operations: 8 updates all over the canvas, 6 new nodes, 6 connections."""
        self.calls += 1
        k = self.calls
        update = [{"type": "update_node", "id": f"n{(k * 131 + i * 97) % 1000}", "patch": {"content": f"changed {k} {i}"}} for i in range(8)]
        add = [{"type": "add_node", "id": f"new-{k}-{i}", "nodeType": "image", "patch": {"prompt": f"a picture {k}"}} for i in range(6)]
        join = [{"type": "connect_nodes", "id": f"join-{k}-{i}", "fromNodeId": f"n{(k + i) % 1000}", "toNodeId": f"new-{k}-{i}"} for i in range(6)]
        return [*update, *add, *join]

    def apply(self) -> float:
        """Milliseconds of one canvas_apply_ops."""
        args = {"snapshotHash": self.hash, "ops": self.ops()}
        began = time.perf_counter()
        receipt = self.loop.run_until_complete(self.runtime.call("canvas_apply_ops", args, self.caller))
        took = (time.perf_counter() - began) * 1000
        assert isinstance(receipt, Receipt), receipt
        assert receipt.ok, receipt
        self.hash = receipt.data["snapshotHash"]
        return took

    def costs(self) -> dict[str, int]:
        """What one call does: commits, statements that write, rows they touch, buckets renewed."""
        before, seen = self.db.commits, {"rows written": 0, "buckets renewed": 0}
        session = self.db._session  # noqa: SLF001  # it is the one that writes
        assert session is not None
        run = session.run

        def counted(sql: str, /, *params: Any) -> int:
            changed = run(sql, *params)
            if sql.startswith(("insert", "update", "delete")):
                seen["rows written"] += changed
                seen["buckets renewed"] += "canvas_bucket" in sql
            return changed

        type(session).run = lambda own, sql, /, *params: counted(sql, *params) if own is session else run(sql, *params)  # type: ignore[method-assign]
        try:
            self.apply()
        finally:
            type(session).run = run.__func__  # type: ignore[attr-defined,method-assign]
        return {"commits": self.db.commits - before, **seen}


class OneDocument:
    """The same canvas as one JSON document: read, changed, hashed and written whole, in the same database."""

    def __init__(self, desk: Desk) -> None:
        self.db, self.desk = desk.db, desk
        nodes, edges = self.db.look(lambda tx: _all(Board(tx, "t", find_canvas(tx, "t", "local", desk.caller.within))))
        text = json.dumps({"nodes": nodes, "edges": edges})

        def work(tx: Tx) -> None:
            tx.run("create table one_document (id text primary key, body text not null)")
            tx.run("insert into one_document values ('c', ?)", text)

        self.db.write_sync(work)

    def apply(self) -> float:
        ops = self.desk.ops()

        def work(tx: Tx) -> None:
            document = json.loads(tx.rows("select body from one_document")[0][0])
            by_id = {n["id"]: n for n in document["nodes"]}
            for op in ops:
                if op["type"] == "update_node":
                    by_id[op["id"]]["body"] |= op["patch"]
                elif op["type"] == "add_node":
                    document["nodes"].append({"id": op["id"], "type": op["nodeType"], "body": op["patch"]})
                else:
                    document["edges"].append({"id": op["id"], "source": op["fromNodeId"], "target": op["toNodeId"]})
            tx.run("update one_document set body = ?", json.dumps(document))

        began = time.perf_counter()
        self.db.write_sync(work)
        return (time.perf_counter() - began) * 1000


def _all(board: Board) -> tuple[list[Any], list[Any]]:
    nodes = [{"id": n.id, "type": n.type, "title": n.title, "x": n.x, "y": n.y, "body": n.body} for n in board.nodes(0, 1 << 40)]
    return nodes, [{"id": e.id, "source": e.source, "target": e.target} for e in board.edges(0, 1 << 40)]


def medians(rounds: int, *sides: Callable[[], float]) -> list[float]:
    """Measured turn by turn."""
    turns = [[side() for side in sides] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*turns, strict=True)]


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_TMP")) as folder:
        small, large = (Desk(Path(folder), count) for count in (SMALL, LARGE))
        for desk in (small, large):
            desk.apply()
        few, many = small.costs(), large.costs()
        for name in few:
            print(f"{name:<18} at {SMALL} / {LARGE} nodes   {few[name]} / {many[name]}")
        short, long = medians(ROUNDS, small.apply, large.apply)
        print(f"20 operations      at {SMALL} / {LARGE} nodes   {short:.2f} / {long:.2f} ms   ratio {long / short:.2f}   (limit 1.5)")
        whole = OneDocument(large)
        [document] = medians(JSON_ROUNDS, whole.apply)
        print(f"one JSON document  at {LARGE} nodes   {document:.0f} ms   {document / long:.0f} times as long   (at least 50)")
        read = large.db.look(lambda tx: Board(tx, "t", find_canvas(tx, "t", "local", large.caller.within)))
        began = time.perf_counter()
        again = large.db.look(lambda tx: full(_items(Board(tx, "t", read.head))).hashes)
        took, same = (time.perf_counter() - began) * 1000, again == (read.head.content, read.head.media)
        print(f"hash from nothing  at {LARGE} nodes   {took:.0f} ms   equal: {same}")
        for desk in (small, large):
            desk.db.close()
            desk.loop.close()


def _items(board: Board) -> list[Node | Edge]:
    return [*board.nodes(0, 1 << 40), *board.edges(0, 1 << 40)]


if __name__ == "__main__":
    main()
