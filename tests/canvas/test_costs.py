"""What a write costs follows what it changes, never how much there is: guarded by counts and by the plans of queries."""

from __future__ import annotations

from typing import Any

from polyloop.canvas.board import Board, By, read_back, wanted
from polyloop.canvas.model import Change, Node, Row
from polyloop.canvas.store import SCHEMAS, find_canvas
from polyloop.db import Database, Schema, Tx
from tests.canvas.easel import Easel, edge, node, update


class Counting:
    """A transaction that keeps what it was asked."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.read = 0

    def rows(self, sql: str, /, *params: Any) -> list[tuple[Any, ...]]:
        self.asked.append((sql, params))
        found = self._tx.rows(sql, *params)
        self.read += len(found)
        return found

    def row(self, sql: str, /, *params: Any) -> tuple[Any, ...] | None:
        return next(iter(self.rows(sql, *params)), None)

    def run(self, sql: str, /, *params: Any) -> int:
        self.asked.append((sql, params))
        return self._tx.run(sql, *params)


def fill(easel: Easel, count: int) -> None:
    grid = [Node(id=f"g{n}", type="text", x=n % 50 * 400, y=n // 50 * 300, width=340, height=240) for n in range(count)]

    def work(tx: Tx) -> None:
        Board(tx, easel.tenant, find_canvas(tx, easel.tenant, easel.owner, easel.canvas)).write([Change(None, n) for n in grid], By())

    easel.db.write_sync(work)


def test_what_planning_asks_is_found_by_the_index_of_the_few(easel: Easel) -> None:
    easel.apply(node("a"), node("i", "image"), edge("e", "a", "i"))

    def work(tx: Tx) -> list[str]:
        seen = Counting(tx)
        board = Board(seen, easel.tenant, find_canvas(tx, easel.tenant, easel.owner, easel.canvas))
        board.row("a", "r")
        for ask in (board.node, board.edge, board.edges_at, board.inside, board.rows_of):
            ask("a")
        for width in (1, 700, 5000):
            board.at(0, 0, width, 400)
        plans = [tx.rows(f"explain query plan {sql}", *params) for sql, params in seen.asked]
        return [str(row[-1]) for plan in plans for row in plan]

    told = easel.db.look(work)
    assert not [line for line in told if "SCAN" in line or ("_order" in line and "canvas_row" not in line)]
    assert not [line for line in told if "canvas_node" in line and not line.endswith(("id=?)", "parent=?)", "cell=?)"))]
    assert any("canvas_node_cell" in line for line in told)


def test_twenty_operations_read_as_many_rows_however_much_there_is(db: Database) -> None:
    ops = [
        *(node(f"n{n}", "image") for n in range(10)),
        *(edge(f"e{n}", "g0", f"n{n}") for n in range(5)),
        *(update(f"g{n}", title="x") for n in range(5)),
    ]
    costs = []
    for count in (500, 5000):
        easel = Easel(db, session="")
        fill(easel, count)
        before = db.commits
        counted: list[Counting] = []
        whole = Board.__init__

        def init(self: Board, tx: Tx, tenant: str, head: Any, whole: Any = whole, counted: list[Counting] = counted) -> None:
            counted.append(Counting(tx))
            whole(self, counted[-1], tenant, head)

        args = {"snapshotHash": easel.hash, "ops": ops}
        Board.__init__ = init  # type: ignore[method-assign]  # what the call reads is the subject
        try:
            easel.do("canvas_apply_ops", args)
        finally:
            Board.__init__ = whole  # type: ignore[method-assign]  # and is left as it was
        written = sum(sql.startswith(("insert", "update", "delete")) for sql, _ in counted[0].asked)
        buckets = sum("into canvas_bucket" in sql for sql, _ in counted[0].asked)
        costs.append((db.commits - before, written, buckets, counted[0].read))
    (commits, written, buckets, few), (commits_2, written_2, buckets_2, many) = costs
    assert (commits, written, buckets) == (commits_2, written_2, buckets_2)
    assert commits == 1
    assert many <= few + 256 * 3, "reading 256 buckets is all that may grow, up to there"


def test_rows_are_read_back_one_by_one_however_many_their_node_has(easel: Easel) -> None:
    rows = [Change(None, Row(node="s", id=f"r{n}", place=n)) for n in range(200)]

    def work(tx: Tx) -> tuple[int, bool]:
        seen = Counting(tx)
        board = Board(seen, easel.tenant, find_canvas(tx, easel.tenant, easel.owner, easel.canvas))
        board.write(rows, By())
        before = seen.read
        same = read_back(board, rows) == wanted(rows)
        return seen.read - before, same

    assert easel.db.write_sync(work) == (len(rows), True)


def test_a_store_with_the_cells_of_before_finds_the_same_nodes(tmp_path: Any) -> None:
    """The second step numbers the cells anew."""
    place = tmp_path / "s.db"
    journal, canvas = SCHEMAS
    old = Database.open(place, [journal, Schema("canvas", canvas.steps[:1])])
    boxes = [(-5000, -700), (-1, -1), (0, 0), (1023, 1024), (900_000, -900_000)]

    def work(tx: Tx) -> None:
        tx.run("insert into canvas values ('t', 'c', 'local', 'T', 0, 5, 'x', 'x', 5, 0, 0, 0)")
        for n, (x, y) in enumerate(boxes):
            tx.run("insert into canvas_node values ('t', 'c', ?, ?, 'text', '', ?, ?, 10, 10, '', 0, '{}', '0', 0, 7, '')", f"n{n}", n, x, y)

    old.write_sync(work)
    old.close()
    db = Database.open(place, SCHEMAS)
    for n, (x, y) in enumerate(boxes):
        found = db.look(lambda tx, x=x, y=y: Board(tx, "t", find_canvas(tx, "t", "local", "c")).at(x + 5, y + 5, 1, 1))
        assert f"n{n}" in [m.id for m in found]
    db.close()
