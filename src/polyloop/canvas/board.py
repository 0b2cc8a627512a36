"""One canvas inside one transaction.

Theory of operation. `Board` is what planning may ask (`model.Look`), what reading asks, and `write`, the only way anything on a
canvas changes. A write costs rows and buckets by what it changes, never by how much there is: sums of digests are kept by bucket,
places are found through the cell a node's corner lies in, what reaches lowest is remembered. Every write leaves its changes,
before and after, in the history. Seed: S1.31, S1.42, S1.43.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import problem
from ..db import Tx
from ..db.tx import Row as Values
from . import limits
from .model import EMPTY, NO_ROWS, Buckets, Change, Edge, Item, Node, Row, digests, named, row_digest
from .store import CELL, EDGE, NODE, Head, cell_of, edge_of, node_of, values_of

#: Cells beyond which all nodes are looked at instead.
_CELLS: Final = 500


class By(Struct, frozen=True, kw_only=True):
    """Who writes: the actor, the operation it belongs to, when (epoch ms), and what kind of write it is."""

    actor: str = ""
    operation: str = ""
    at: int = 0
    kind: str = "do"
    undoes: int = 0


class Board:
    """One canvas inside one transaction. Implements `model.Look`."""

    def __init__(self, tx: Tx, tenant: str, head: Head) -> None:
        self.tx, self.head = tx, head
        self.key = (tenant, head.id)

    # --- what planning asks

    def node(self, node_id: str) -> Node | None:
        row = self.tx.row(f"select {NODE} from canvas_node where tenant = ? and canvas = ? and id = ?", *self.key, node_id)  # noqa: S608  # our own
        return node_of(row) if row else None

    def edge(self, edge_id: str) -> Edge | None:
        row = self.tx.row(f"select {EDGE} from canvas_edge where tenant = ? and canvas = ? and id = ?", *self.key, edge_id)  # noqa: S608  # our own
        return edge_of(row) if row else None

    def edges_at(self, node_id: str) -> list[Edge]:
        found: dict[str, Edge] = {}
        for end in ("source", "target"):
            found |= {e.id: e for e in self._edges(f"{end} = ?", node_id)}
        return sorted(found.values(), key=lambda e: e.no)

    def rows_of(self, node_id: str) -> list[Row]:
        rows = self.tx.rows(
            "select id, place, body from canvas_row where tenant = ? and canvas = ? and node = ? order by place, id", *self.key, node_id
        )
        return [Row(node=node_id, id=row_id, place=place, body=msgspec.json.decode(body)) for row_id, place, body in rows]

    def row(self, node_id: str, row_id: str) -> Row | None:
        row = self.tx.row("select place, body from canvas_row where tenant = ? and canvas = ? and node = ? and id = ?", *self.key, node_id, row_id)
        return Row(node=node_id, id=row_id, place=row[0], body=msgspec.json.decode(row[1])) if row else None

    def inside(self, node_id: str) -> list[Node]:
        return self._nodes("parent = ?", node_id)

    def at(self, x: int, y: int, width: int, height: int) -> list[Node]:
        """The nodes that overlap this box, in the order of their making."""
        head, overlaps, box = self.head, "x < ? and x + width > ? and y < ? and y + height > ?", (x + width, x, y + height, y)
        columns, rows = range((x - head.widest) // CELL, (x + width) // CELL + 1), range((y - head.tallest) // CELL, (y + height) // CELL + 1)
        if len(columns) * len(rows) > _CELLS:
            return self._nodes(overlaps, *box)
        # One by one: of several ranges SQLite thinks so ill that it reads the whole canvas instead.
        cells = [cell_of(column, row) for column in columns for row in rows]
        return self._nodes(f"cell in ({', '.join('?' * len(cells))}) and {overlaps}", *cells, *box)

    @property
    def bottom(self) -> int:
        return self.head.bottom

    @property
    def newest(self) -> Node | None:
        row = self.tx.row(f"select {NODE} from canvas_node where tenant = ? and canvas = ? order by no desc limit 1", *self.key)  # noqa: S608  # our own
        return node_of(row) if row else None

    # --- what reading asks

    def nodes(self, offset: int, count: int) -> list[Node]:
        """In the order of their making."""
        return self._nodes("1 = 1", limit=(count, offset))

    def edges(self, offset: int, count: int) -> list[Edge]:
        return self._edges("1 = 1", limit=(count, offset))

    def changed_since(self, state: str) -> dict[str, Any]:
        """Ids of what was added, updated, removed after the canvas was last in this state; empty when it never was."""
        since = self.tx.row("select max(rev) from canvas_change where tenant = ? and canvas = ? and content = ?", *self.key, state)
        rev = 0 if state == EMPTY[0] else since[0] if since else None
        if rev is None:
            return {}
        rows = self.tx.rows("select changes from canvas_change where tenant = ? and canvas = ? and rev > ? order by rev", *self.key, rev)
        merged: dict[Any, Change] = {}
        for (text,) in rows:
            for change in decoded(text):
                first = merged.get(change.key)
                merged[change.key] = Change(first.before if first else change.before, change.after)
        ids = named(c for c in merged.values() if c.before != c.after)
        return {name: found[: limits.IDS_SHOWN] for name, found in ids.items()} | {"count": sum(map(len, ids.values()))}

    def hashes_read_back(self) -> tuple[str, str]:
        """The canvas' hashes from the buckets as they are stored."""
        return self._buckets().hashes

    # --- writing

    def write(self, changes: Sequence[Change], by: By) -> Head:
        """Carry changes out. They must be planned on this board in this transaction. Raises conflict if the canvas moved on."""
        head, made = self.head, self.head.made
        numbered: list[Change] = []
        for change in changes:
            after = change.after
            if isinstance(after, Node | Edge) and after.no == 0:
                made += 1
                after = replace(after, no=made)
            numbered.append(Change(change.before, after))
        if not numbered:
            return head
        for change in numbered:
            self._put(change)
        buckets = self._buckets()
        self._keep_buckets(buckets, buckets.apply(numbered))
        content, media = buckets.hashes
        there = [c.after for c in numbered if isinstance(c.after, Node)]
        self.head = replace(
            head, rev=head.rev + 1, made=made, content=content, media=media, nodes=head.nodes + _balance(numbered, Node),
            edges=head.edges + _balance(numbered, Edge), bottom=max([head.bottom, *(n.y + n.height for n in there)]),
            widest=max([head.widest, *(n.width for n in there)]), tallest=max([head.tallest, *(n.height for n in there)]),
        )  # fmt: skip
        self._keep(head.rev, numbered, by)
        return self.head

    def _keep(self, rev: int, changes: Sequence[Change], by: By) -> None:
        head = self.head
        moved = self.tx.run(
            "update canvas set rev = ?, made = ?, content = ?, media = ?, nodes = ?, edges = ?, bottom = ?, widest = ?, tallest = ?"
            " where tenant = ? and id = ? and rev = ?",
            head.rev, head.made, head.content, head.media, head.nodes, head.edges, head.bottom, head.widest, head.tallest, *self.key, rev,
        )  # fmt: skip
        if moved != 1:
            raise problem("conflict", "the canvas has moved on", stage="write")
        if by.kind == "do":  # what was undone before cannot be brought back over it
            self.tx.run("update canvas_change set state = 'gone' where tenant = ? and canvas = ? and state = 'undone'", *self.key)
        self.tx.run(
            "insert into canvas_change (tenant, canvas, rev, content, kind, undoes, state, actor, operation, at, changes)"
            " values (?, ?, ?, ?, ?, ?, 'done', ?, ?, ?, ?)",
            *self.key, head.rev, head.content, by.kind, by.undoes, by.actor, by.operation, by.at, msgspec.json.encode(changes).decode(),
        )  # fmt: skip

    def _put(self, change: Change) -> None:
        kind, node_id, item_id = change.key
        if change.after is None:
            where, ids = ("node = ? and id = ?", (node_id, item_id)) if kind == "row" else ("id = ?", (item_id,))
            self.tx.run(f"delete from canvas_{kind} where tenant = ? and canvas = ? and {where}", *self.key, *ids)  # noqa: S608  # our own
            return
        values = values_of(change.after)
        keys = ("node", "id") if kind == "row" else ("id",)
        names, rest = ", ".join(values), ", ".join(f"{name} = excluded.{name}" for name in values if name not in keys)
        self.tx.run(
            f"insert into canvas_{kind} (tenant, canvas, {names}) values (?, ?{', ?' * len(values)})"  # noqa: S608  # our own
            f" on conflict (tenant, canvas, {', '.join(keys)}) do update set {rest}",
            *self.key, *values.values(),
        )  # fmt: skip

    def _buckets(self) -> Buckets:
        rows = self.tx.rows("select no, content, media from canvas_bucket where tenant = ? and canvas = ?", *self.key)
        sums = [{no: row[side] for no, *row in rows if row[side] != NO_ROWS} for side in (0, 1)]
        return Buckets(sums[0], sums[1])

    def _keep_buckets(self, buckets: Buckets, touched: Iterable[int]) -> None:
        for no in sorted(touched):
            self.tx.run(
                "insert into canvas_bucket (tenant, canvas, no, content, media) values (?, ?, ?, ?, ?)"
                " on conflict (tenant, canvas, no) do update set content = excluded.content, media = excluded.media",
                *self.key, no, buckets.content.get(no, NO_ROWS), buckets.media.get(no, NO_ROWS),
            )  # fmt: skip

    def _nodes(self, where: str, *values: int | str, limit: tuple[int, int] | None = None) -> list[Node]:
        return sorted((node_of(row) for row in self._select(NODE, "canvas_node", where, values, limit)), key=lambda n: n.no)

    def _edges(self, where: str, *values: str, limit: tuple[int, int] | None = None) -> list[Edge]:
        return sorted((edge_of(row) for row in self._select(EDGE, "canvas_edge", where, values, limit)), key=lambda e: e.no)

    def _select(self, columns: str, table: str, where: str, values: Sequence[int | str], limit: tuple[int, int] | None) -> list[Values]:
        """Only pages are sorted by the database: asked for an order, it would walk all of it rather than the index that finds the few."""
        bound, page = (" order by no limit ? offset ?", limit) if limit else ("", ())
        sql = f"select {columns} from {table} where tenant = ? and canvas = ? and {where}{bound}"  # noqa: S608  # our own
        return self.tx.rows(sql, *self.key, *values, *page)


def _balance(changes: Iterable[Change], kind: type[Item]) -> int:
    return sum(isinstance(c.after, kind) - isinstance(c.before, kind) for c in changes)


def decoded(text: str) -> tuple[Change, ...]:
    return msgspec.json.decode(text, type=tuple[Change, ...])


def read_back(board: Board, changes: Iterable[Change]) -> list[tuple[Any, str]]:
    """What is stored of the things these changes were about, as digests in the order of the changes; "" = not there."""
    return [(change.key, _digest_of(stored(board, change))) for change in changes]


def wanted(changes: Iterable[Change]) -> list[tuple[Any, str]]:
    """What these changes should leave, as `read_back` tells it."""
    return [(change.key, _digest_of(change.after)) for change in changes]


def stored(board: Board, change: Change) -> Item | None:
    """What this change is about, as it stands."""
    kind, node_id, item_id = change.key
    if kind == "row":
        return board.row(node_id, item_id)
    return board.node(item_id) if kind == "node" else board.edge(item_id)


def _digest_of(item: Item | None) -> str:
    return "" if item is None else row_digest(item) if isinstance(item, Row) else digests(item)[0]
