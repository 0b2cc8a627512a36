"""Tables of documents and the rows in them. Every function is one small query or change of one transaction.

Theory of operation. A block row stands from revision `since_rev` until before `until_rev`; a change ends rows and adds rows, and
touches no other, so an append costs one row however long the document is. Where a node stands (title, container, state) is kept
the same way by the tenant's sequence: any earlier listing can be read again. The hash of a content is the sum (mod 2^256) of the
hashes of its blocks with their ids and positions: it follows from the hash before and the rows that changed (S0.23).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec import Struct

from ..contract.problem import problem
from ..contract.snapshot import digest, require_current
from ..db import Schema, Tx, tasks
from ..formats.blocks import Block
from ..journal.operations import SCHEMA as JOURNAL
from . import index, writes
from .limits import IDS_SHOWN, MARK_DIGITS
from .requests import ROOT

#: Until when a row stands that still stands.
OPEN: Final = 2**53 - 1
_MODULUS: Final = 1 << 256
EMPTY: Final = "0" * 64

_TABLES: Final = """
create table doc_tenant (tenant text not null primary key, seq bigint not null);
create table doc_node (
  tenant text not null, id text not null, type text not null, rev bigint not null, hash text not null, blocks bigint not null,
  appended bigint not null, created bigint not null, primary key (tenant, id));
create table doc_place (
  tenant text not null, id text not null, since_seq bigint not null, until_seq bigint not null, created bigint not null,
  type text not null, title text not null, container text not null, state text not null, primary key (tenant, id, since_seq));
create index doc_place_order on doc_place (tenant, created, until_seq);
create index doc_place_container on doc_place (tenant, container, created, until_seq);
create index doc_place_title on doc_place (tenant, title, created, until_seq);
create table doc_block (
  tenant text not null, node text not null, id text not null, since_rev bigint not null, until_rev bigint not null, pos text not null,
  body text not null, hash text not null, primary key (tenant, node, id, since_rev));
create index doc_block_order on doc_block (tenant, node, pos);
create index doc_block_since on doc_block (tenant, node, since_rev);
create index doc_block_until on doc_block (tenant, node, until_rev);
create table doc_revision (
  tenant text not null, node text not null, rev bigint not null, seq bigint not null, step text not null, hash text not null,
  blocks bigint not null, primary key (tenant, node, rev));
create table doc_version (
  tenant text not null, node text not null, version bigint not null, rev bigint not null, label text not null,
  primary key (tenant, node, version));
create table doc_write (
  tenant text not null, step text not null, request text not null, reply text, primary key (tenant, step));
create table doc_operation (
  tenant text not null, id text not null, key text, session text not null, plan text not null, entry text not null,
  primary key (tenant, id), unique (tenant, key));
create index doc_operation_session on doc_operation (tenant, session);
create table doc_approval (
  tenant text not null, id text not null, request text not null, no bigint not null, approval text not null, primary key (tenant, id));
create index doc_approval_request on doc_approval (tenant, request, no);
create table doc_fact (tenant text not null, session text not null, no bigint not null, fact text not null, primary key (tenant, session, no));
create table doc_secret (tenant text not null primary key, secret text not null);
"""
#: Operations moved to the journal of all subjects, which must be there (it is opened first).
_MOVED: Final = """
insert into op_entry (tenant, id, key, session, memo, entry) select tenant, id, key, session, plan, entry from doc_operation;
insert into op_approval (tenant, id, request, no, approval) select tenant, id, request, no, approval from doc_approval;
insert into op_fact (tenant, session, no, fact) select tenant, session, no, fact from doc_fact;
insert into op_secret (tenant, secret) select tenant, secret from doc_secret;
drop table doc_operation;
drop table doc_approval;
drop table doc_fact;
drop table doc_secret;
"""
#: The file of an import, until its task has ended. A bytes column is `bytea` to PostgreSQL, and SQLite takes any name.
_UPLOADS: Final = "create table doc_upload (tenant text not null, task text not null, data bytea not null, primary key (tenant, task));"
#: What hangs on nodes (`items`).
_ITEMS: Final = """
create table doc_item (
  tenant text not null, node text not null, kind text not null, id text not null, no bigint not null, since_seq bigint not null,
  until_seq bigint not null, mark text not null, body text not null, primary key (tenant, node, kind, id, since_seq));
create index doc_item_order on doc_item (tenant, node, kind, no, until_seq);
create index doc_item_of on doc_item (tenant, kind, id, until_seq);
"""
#: Bytes of media, once a tenant. A bytes column is `bytea` to PostgreSQL, and SQLite takes any name.
_BLOBS: Final = "create table doc_blob (tenant text not null, sha256 text not null, data bytea not null, primary key (tenant, sha256));"
#: Which node a task is about ("" = not known yet), and which operation began it: what a purge must reach.
_ABOUT: Final = """
create table doc_task (
  tenant text not null, task text not null, node text not null, operation text not null, primary key (tenant, task));
create index doc_task_node on doc_task (tenant, node);
insert into doc_task (tenant, task, node, operation) select tenant, id, coalesce({result}, {work}, ''), '' from task
  where kind in ('doc.import', 'doc.export');
"""
#: PostgreSQL reads no NUL in JSON: one in what a task says (a message, a loss) would keep the store from being opened.
_JSON: Final = r"replace(body, '\u0000', '\ufffd')::jsonb"
_TASKS: Final = {
    "sqlite": _ABOUT.format(result="json_extract(body, '$.result.nodeId')", work="json_extract(body, '$.work.node')"),
    "postgres": _ABOUT.format(result=f"{_JSON} #>> '{{result,nodeId}}'", work=f"{_JSON} #>> '{{work,node}}'"),
}
#: For finding whether bytes are still used.
_MARKS: Final = "create index doc_item_mark on doc_item (tenant, mark, until_seq) where kind = 'media'"
SCHEMAS: Final = (
    JOURNAL,
    Schema(
        "documents", (_TABLES, _MOVED, tasks.TABLES + _UPLOADS, index.STEP, _ITEMS, _BLOBS, index.UNTIL, _TASKS, _MARKS, writes.WHO, index.SECURE)
    ),
)


class Node(Struct, frozen=True, kw_only=True):
    """A node as it stands now. `appended` counts the blocks ever appended; `created` is its place in every list."""

    id: str
    type: str
    revision: int
    hash: str
    blocks: int
    appended: int
    created: int
    title: str
    container: str
    state: str


class Row(Struct, frozen=True):
    """One block where it stands. `hash` covers id, position and body."""

    id: str
    pos: str
    body: str
    hash: str


def row_of(block_id: str, pos: str, body: str) -> Row:
    return Row(block_id, pos, body, hashlib.sha256(f"{block_id}\0{pos}\0{body}".encode()).hexdigest())


def text_of(row: Row) -> str:
    """What a block says."""
    return msgspec.json.decode(row.body, type=Block).text


def summed(before: str, added: Iterable[Row], removed: Iterable[Row]) -> str:
    """The hash of a content after these rows came and went."""
    total = int(before, 16) + sum(int(r.hash, 16) for r in added) - sum(int(r.hash, 16) for r in removed)
    return f"{total % _MODULUS:064x}"


def url_of(tenant: str, node_id: str) -> str:
    """Made from the id alone, so a rename never changes it."""
    return f"doc://{quote(tenant, safe='')}/{node_id}"


def target_of(tenant: str, node_id: str, resource: str, container: str) -> dict[str, Any]:
    """The four facts every receipt with a target has (S0.3)."""
    place = {"kind": "root" if container == ROOT else "folder", "id": container}
    return {"nodeId": node_id, "resourceType": resource, "canonicalUrl": url_of(tenant, node_id), "container": place}


def current_seq(tx: Tx, tenant: str) -> int:
    row = tx.row("select seq from doc_tenant where tenant = ?", tenant)
    return row[0] if row else 0


def next_seq(tx: Tx, tenant: str) -> int:
    row = tx.row("insert into doc_tenant values (?, 1) on conflict (tenant) do update set seq = doc_tenant.seq + 1 returning seq", tenant)
    assert row is not None
    return row[0]


def find_node(tx: Tx, tenant: str, node_id: str) -> Node | None:
    row = tx.row(
        "select n.type, n.rev, n.hash, n.blocks, n.appended, n.created, p.title, p.container, p.state from doc_node n"
        " join doc_place p on p.tenant = n.tenant and p.id = n.id and p.until_seq = ? where n.tenant = ? and n.id = ?",
        OPEN, tenant, node_id,
    )  # fmt: skip
    if row is None:
        return None
    kind, rev, content, blocks, appended, created, title, container, state = row
    return Node(
        id=node_id, type=kind, revision=rev, hash=content, blocks=blocks, appended=appended, created=created, title=title, container=container,
        state=state,
    )  # fmt: skip


def get_node(tx: Tx, tenant: str, node_id: str, *states: str) -> Node:
    """Raises not_found unless it is there, in one of these states ("live" if none is named)."""
    found = find_node(tx, tenant, node_id)
    if found is None or found.state not in (states or ("live",)):
        raise missing(node_id, {} if found is None or found.state == "purged" else {"state": found.state})
    return found


def height(tx: Tx, tenant: str, node: Node) -> int:
    """How many levels of folders a node is, with all that stands in it: 0 = a document."""
    boxes, levels = [node.id] if node.type == "folder" else [], 0
    while boxes:
        levels += 1
        inside = "select id from doc_place where tenant = ? and container = ? and until_seq = ? and type = 'folder' and state = 'live'"
        boxes = [row[0] for box in boxes for row in tx.rows(inside, tenant, box, OPEN)]
    return levels


def missing(node_id: str, more: dict[str, Any] | None = None) -> Exception:
    """What is said of a node that is not there, and of one that is not there for somebody."""
    return problem("not_found", f"there is no node {node_id}", stage="resolve", details={"nodeId": node_id, **(more or {})})


def current(tx: Tx, tenant: str, node_id: str, expected: int | None, *states: str) -> Node:
    """A node at the revision a write is based on. Raises not_found, revision_conflict."""
    node = get_node(tx, tenant, node_id, *states)
    if expected is not None and expected != node.revision:
        require_current("expectedRevision", expected, node.revision, changed_since(tx, tenant, node_id, expected))
    return node


def number(text: str) -> int:
    """The number behind a cursor or snapshot this service gave. Raises validation for what it never gives."""
    if text.isascii() and text.isdecimal() and len(text) <= MARK_DIGITS:
        return int(text)
    raise problem("validation", "no cursor and no snapshot of this service", stage="arguments")


def add_node(tx: Tx, tenant: str, node: Node, seq: int) -> None:
    tx.run(
        "insert into doc_node (tenant, id, type, rev, hash, blocks, appended, created) values (?, ?, ?, ?, ?, ?, ?, ?)",
        tenant, node.id, node.type, node.revision, node.hash, node.blocks, node.appended, seq,
    )  # fmt: skip
    _add_place(tx, tenant, node, seq, seq)
    index.put(tx, tenant, node.id, seq, [("", node.title)])


def set_node(tx: Tx, tenant: str, node: Node) -> None:
    tx.run(
        "update doc_node set rev = ?, hash = ?, blocks = ?, appended = ? where tenant = ? and id = ?",
        node.revision, node.hash, node.blocks, node.appended, tenant, node.id,
    )  # fmt: skip


def set_place(tx: Tx, tenant: str, node: Node, seq: int, *, renamed: bool = False) -> None:
    if renamed:
        index.end(tx, tenant, node.id, seq, [""])
        index.put(tx, tenant, node.id, seq, [("", node.title)])
    tx.run("update doc_place set until_seq = ? where tenant = ? and id = ? and until_seq = ?", seq, tenant, node.id, OPEN)
    _add_place(tx, tenant, node, seq, node.created)


def _add_place(tx: Tx, tenant: str, node: Node, seq: int, created: int) -> None:
    tx.run(
        "insert into doc_place (tenant, id, since_seq, until_seq, created, type, title, container, state) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        tenant, node.id, seq, OPEN, created, node.type, node.title, node.container, node.state,
    )  # fmt: skip


# `+` keeps the planner from an index that picks out nothing: rows at a revision are found by position, those of one by revision.


def rows_at(tx: Tx, tenant: str, node_id: str, revision: int) -> list[Row]:
    """The content at a revision, in order."""
    found = tx.rows(
        "select id, pos, body, hash from doc_block where tenant = ? and node = ? and +since_rev <= ? and +until_rev > ? order by pos",
        tenant, node_id, revision, revision,
    )  # fmt: skip
    return [Row(*r) for r in found]


def row_now(tx: Tx, tenant: str, node_id: str, block_id: str) -> Row | None:
    row = tx.row(
        "select id, pos, body, hash from doc_block where tenant = ? and node = ? and id = ? and +until_rev = ?", tenant, node_id, block_id, OPEN
    )
    return Row(*row) if row else None


def neighbour(tx: Tx, tenant: str, node_id: str, pos: str, revision: int, *, after: bool) -> Row | None:
    """The block next to a position at a revision."""
    sign, order = (">", "asc") if after else ("<", "desc")
    row = tx.row(
        f"select id, pos, body, hash from doc_block where tenant = ? and node = ? and pos {sign} ? and +since_rev <= ? and +until_rev > ?"  # noqa: S608  # two literals of our own
        f" order by pos {order} limit 1",
        tenant, node_id, pos, revision, revision,
    )  # fmt: skip
    return Row(*row) if row else None


def changed_at(tx: Tx, tenant: str, node_id: str, revision: int) -> tuple[list[Row], list[Row]]:
    """The rows a revision added and those it ended, each in order."""
    fields = "select id, pos, body, hash from doc_block where tenant = ? and node = ?"
    added = tx.rows(f"{fields} and since_rev = ? order by pos || ''", tenant, node_id, revision)
    ended = tx.rows(f"{fields} and until_rev = ? order by pos || ''", tenant, node_id, revision)
    return [Row(*r) for r in added], [Row(*r) for r in ended]


def changed_since(tx: Tx, tenant: str, node_id: str, revision: int) -> dict[str, Any]:
    """Which blocks were added, updated or removed after a revision: ids, sorted, at most IDS_SHOWN of each; `omitted` counts the others."""
    rows = tx.rows(
        "select id, min(since_rev), max(until_rev) from doc_block where tenant = ? and node = ? and until_rev > ?"
        " and (since_rev > ? or until_rev < ?) group by id",
        tenant, node_id, revision, revision, OPEN,
    )  # fmt: skip
    out: dict[str, list[str]] = {"added": [], "updated": [], "removed": []}
    for block_id, since, until in rows:
        was, now = since <= revision, until == OPEN
        if was or now:
            out["updated" if was and now else "removed" if was else "added"].append(block_id)
    omitted = {name: len(ids) - IDS_SHOWN for name, ids in out.items() if len(ids) > IDS_SHOWN}
    return {**{name: sorted(ids)[:IDS_SHOWN] for name, ids in out.items()}, **({"omitted": omitted} if omitted else {})}


def end_rows(tx: Tx, tenant: str, node_id: str, rows: Sequence[Row], revision: int, seq: int) -> None:
    index.end(tx, tenant, node_id, seq, (row.id for row in rows))
    for row in rows:
        tx.run(
            "update doc_block set until_rev = ? where tenant = ? and node = ? and id = ? and +until_rev = ?", revision, tenant, node_id, row.id, OPEN
        )


def add_rows(tx: Tx, tenant: str, node_id: str, rows: Sequence[Row], revision: int, seq: int) -> None:
    index.put(tx, tenant, node_id, seq, ((row.id, text_of(row)) for row in rows))
    for row in rows:
        tx.run(
            "insert into doc_block (tenant, node, id, since_rev, until_rev, pos, body, hash) values (?, ?, ?, ?, ?, ?, ?, ?)",
            tenant, node_id, row.id, revision, OPEN, row.pos, row.body, row.hash,
        )  # fmt: skip


def add_revision(tx: Tx, tenant: str, node: Node, seq: int, step_id: str) -> None:
    tx.run(
        "insert into doc_revision (tenant, node, rev, seq, step, hash, blocks) values (?, ?, ?, ?, ?, ?, ?)",
        tenant, node.id, node.revision, seq, step_id, node.hash, node.blocks,
    )  # fmt: skip


def revision_of(tx: Tx, tenant: str, node_id: str, revision: int) -> tuple[str, str, int]:
    """Step id, content hash and block count of a revision. Raises not_found."""
    row = tx.row("select step, hash, blocks from doc_revision where tenant = ? and node = ? and rev = ?", tenant, node_id, revision)
    if row is None:
        raise problem("not_found", f"{node_id} has no revision {revision}", stage="resolve", details={"nodeId": node_id, "revision": revision})
    return row[0], row[1], row[2]


def add_version(tx: Tx, tenant: str, node_id: str, revision: int, label: str) -> int:
    row = tx.row("select coalesce(max(version), 0) + 1 from doc_version where tenant = ? and node = ?", tenant, node_id)
    assert row is not None
    tx.run("insert into doc_version (tenant, node, version, rev, label) values (?, ?, ?, ?, ?)", tenant, node_id, row[0], revision, label)
    return row[0]


def version_of(tx: Tx, tenant: str, node_id: str, version: int) -> tuple[int, str] | None:
    """Revision and label."""
    row = tx.row("select rev, label from doc_version where tenant = ? and node = ? and version = ?", tenant, node_id, version)
    return (row[0], row[1]) if row else None


def unindexed(tx: Tx) -> bool:
    """Whether the store holds nodes from before there was an index."""
    return tx.row("select 1 from doc_unindexed limit 1") is not None


def catch_up(tx: Tx, nodes: int = 200) -> None:
    """Index some of them."""
    left = tx.rows("select tenant, node from doc_unindexed limit ?", nodes)
    for tenant, node_id in left:
        node = find_node(tx, tenant, node_id)
        if node is not None and node.state != "purged":
            rows, seq = rows_at(tx, tenant, node_id, node.revision), current_seq(tx, tenant)
            index.put(tx, tenant, node_id, seq, [("", node.title), *((row.id, text_of(row)) for row in rows)])
        tx.run("delete from doc_unindexed where tenant = ? and node = ?", tenant, node_id)


def erase(tx: Tx, tenant: str, node_id: str) -> None:
    """Contents, titles and labels go; that there was a node, and when, stays."""
    index.erase(tx, tenant, node_id)
    tx.run("delete from doc_item where tenant = ? and node = ?", tenant, node_id)
    tx.run("delete from doc_block where tenant = ? and node = ?", tenant, node_id)
    tx.run("delete from doc_version where tenant = ? and node = ?", tenant, node_id)
    tx.run("update doc_place set title = '' where tenant = ? and id = ?", tenant, node_id)


# --- the write log ---------------------------------------------------------------------------------------------------


def new_block_id(step_id: str, number: int) -> str:
    """The same step always names its blocks the same."""
    return f"b_{digest([step_id, number])[:16]}"
