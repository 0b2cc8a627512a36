"""Tables of canvases, and how items stand in them: one row a node, an edge, a row of a structured node, a bucket, a change set."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

from ..contract.problem import ProblemError, problem
from ..db import Schema, Tx
from ..db.tx import Row as Values
from ..journal.operations import SCHEMA as JOURNAL
from .model import EMPTY, Edge, Item, Node, Row, digests, row_digest

_TABLES: Final = """
create table canvas (
  tenant text not null, id text not null, owner text not null, title text not null, rev bigint not null, made bigint not null,
  content text not null, media text not null, nodes bigint not null, edges bigint not null, bottom bigint not null, created bigint not null,
  primary key (tenant, id));
create index canvas_owner on canvas (tenant, owner, created);
create table canvas_node (
  tenant text not null, canvas text not null, id text not null, no bigint not null, type text not null, title text not null, x bigint not null,
  y bigint not null, width bigint not null, height bigint not null, parent text not null, locked bigint not null, body text not null,
  row_sum text not null, row_count bigint not null, cell bigint not null, content text not null, primary key (tenant, canvas, id));
create index canvas_node_order on canvas_node (tenant, canvas, no);
create index canvas_node_cell on canvas_node (tenant, canvas, cell);
create index canvas_node_parent on canvas_node (tenant, canvas, parent);
create table canvas_edge (
  tenant text not null, canvas text not null, id text not null, no bigint not null, source text not null, source_handle text not null,
  target text not null, target_handle text not null, content text not null, primary key (tenant, canvas, id));
create index canvas_edge_order on canvas_edge (tenant, canvas, no);
create index canvas_edge_source on canvas_edge (tenant, canvas, source);
create index canvas_edge_target on canvas_edge (tenant, canvas, target);
create table canvas_row (
  tenant text not null, canvas text not null, node text not null, id text not null, place bigint not null, body text not null,
  content text not null, primary key (tenant, canvas, node, id));
create index canvas_row_order on canvas_row (tenant, canvas, node, place);
create table canvas_bucket (
  tenant text not null, canvas text not null, no bigint not null, content text not null, media text not null, primary key (tenant, canvas, no));
create table canvas_change (
  tenant text not null, canvas text not null, rev bigint not null, content text not null, kind text not null, undoes bigint not null,
  state text not null, actor text not null, operation text not null, at bigint not null, changes text not null,
  primary key (tenant, canvas, rev));
create index canvas_change_content on canvas_change (tenant, canvas, content);
create table canvas_view (
  tenant text not null, canvas text not null, owner text not null, body text not null, primary key (tenant, canvas, owner));
"""
#: Smaller cells, and how large the largest node is: what overlaps a box is found by looking at fewer others.
_CELLS: Final = """
alter table canvas add column widest bigint not null default 8192;
alter table canvas add column tallest bigint not null default 8192;
update canvas_node set cell = ((x - ((x % 1024) + 1024) % 1024) / 1024 + 1024) * 4096 + (y - ((y % 1024) + 1024) % 1024) / 1024 + 1024;
"""
SCHEMAS: Final = (JOURNAL, Schema("canvas", (_TABLES, _CELLS)))

#: Side of a cell. A node reaches no further from its corner than the largest one, so what overlaps a box begins in few cells.
CELL: Final = 1024
_MIDDLE: Final = 1024
_COLUMN: Final = 4096
_HEAD: Final = "owner, title, rev, made, content, media, nodes, edges, bottom, widest, tallest"
NODE: Final = "id, no, type, title, x, y, width, height, parent, locked, body, row_sum, row_count"
EDGE: Final = "id, no, source, source_handle, target, target_handle"


class Head(Struct, frozen=True, kw_only=True):
    """A canvas as it stands. `content` and `media` are its hashes; `made` numbers what was ever put on it; no node reaches below `bottom`,
    none was ever larger than `widest` and `tallest`.
    """

    id: str
    owner: str
    title: str
    rev: int = 0
    made: int = 0
    content: str = EMPTY[0]
    media: str = EMPTY[1]
    nodes: int = 0
    edges: int = 0
    bottom: int = 0
    widest: int = 0
    tallest: int = 0


def missing(canvas_id: str) -> ProblemError:
    """The answer for a canvas that is not there, or not the caller's: the same, byte for byte."""
    return problem("not_found", f"there is no canvas {canvas_id!r}", stage="resolve", details={"canvasId": canvas_id})


def add_canvas(tx: Tx, tenant: str, head: Head, at: int) -> None:
    """Raises conflict when there is one of this id."""
    if tx.row("select 1 from canvas where tenant = ? and id = ?", tenant, head.id):
        raise problem("conflict", f"{head.id} exists", stage="write")
    tx.run(
        "insert into canvas (tenant, id, owner, title, rev, made, content, media, nodes, edges, bottom, widest, tallest, created)"
        " values (?, ?, ?, ?, 0, 0, ?, ?, 0, 0, 0, 0, 0, ?)",
        tenant, head.id, head.owner, head.title, head.content, head.media, at,
    )  # fmt: skip


def find_canvas(tx: Tx, tenant: str, owner: str, canvas_id: str) -> Head:
    """Raises not_found unless it is there and the owner's."""
    row = tx.row(f"select {_HEAD} from canvas where tenant = ? and id = ?", tenant, canvas_id) if canvas_id.isprintable() else None  # noqa: S608  # our own
    if row is None or row[0] != owner:
        raise missing(canvas_id)
    return Head(id=canvas_id, **dict(zip(_HEAD.split(", "), row, strict=True)))


def values_of(item: Item) -> dict[str, Any]:
    if isinstance(item, Row):
        return {"node": item.node, "id": item.id, "place": item.place, "body": _text(item.body), "content": row_digest(item)}
    if isinstance(item, Edge):
        return {
            "id": item.id, "no": item.no, "source": item.source, "source_handle": item.source_handle, "target": item.target,
            "target_handle": item.target_handle, "content": digests(item)[0],
        }  # fmt: skip
    return {
        "id": item.id, "no": item.no, "type": item.type, "title": item.title, "x": item.x, "y": item.y, "width": item.width,
        "height": item.height, "parent": item.parent, "locked": int(item.locked), "body": _text(item.body), "row_sum": item.rows,
        "row_count": item.count, "cell": cell_of(item.x // CELL, item.y // CELL), "content": digests(item)[0],
    }  # fmt: skip


def node_of(row: Values) -> Node:
    node_id, no, kind, title, x, y, width, height, parent, locked, body, row_sum, row_count = row
    return Node(
        id=node_id, no=no, type=kind, title=title, x=x, y=y, width=width, height=height, parent=parent, locked=bool(locked),
        body=msgspec.json.decode(body), rows=row_sum, count=row_count,
    )  # fmt: skip


def edge_of(row: Values) -> Edge:
    edge_id, no, source, source_handle, target, target_handle = row
    return Edge(id=edge_id, no=no, source=source, source_handle=source_handle, target=target, target_handle=target_handle)


def _text(body: dict[str, Any]) -> str:
    return msgspec.json.encode(body).decode()


def list_canvases(tx: Tx, tenant: str, owner: str) -> list[tuple[str, str]]:
    """Id and title of all, in the order of their making."""
    rows = tx.rows("select id, title from canvas where tenant = ? and owner = ? order by created, id", tenant, owner)
    return [(canvas_id, title) for canvas_id, title in rows]


def cell_of(column: int, row: int) -> int:
    """The number of a cell; those of one column follow one another."""
    return (column + _MIDDLE) * _COLUMN + row + _MIDDLE
