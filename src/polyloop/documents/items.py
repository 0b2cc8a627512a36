"""What hangs on a node beside its content: comments, roles. Each stands from one change of the tenant until another, as places do.

An item is a text (JSON, plain data) under an id of its kind; it is put, changed or taken away, and never bumps the revision of
the node. `mark` is what lists are narrowed by: whether a comment is open, which role it is. Seed: S0.23, S0.26.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from ..contract.problem import problem
from ..db import Tx
from . import blobs, store
from . import requests as ask
from .anchors import Anchor
from .store import OPEN


class Reply(Struct, frozen=True, forbid_unknown_fields=True):
    """`at` in epoch ms."""

    author: str
    content: str
    at: int


class Comment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a comment; its mark is its state."""

    author: str
    content: str
    at: int
    state: Literal["open", "resolved"]
    replies: tuple[Reply, ...]
    anchor: Anchor | None = None


class Access(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a role; its mark is the role, and alone counts."""

    role: Literal["READER", "DOWNLOADER", "EDITOR", "MANAGER"]


class Media(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a media item; its mark is the digest. `type` = what the bytes are."""

    name: str
    type: str
    bytes: int
    sha256: str


#: What the body of each kind is, and which of its fields the mark repeats.
_BODIES: Final[dict[ask.ItemKind, tuple[type[Struct], str]]] = {"comment": (Comment, "state"), "access": (Access, "role"), "media": (Media, "sha256")}


def comment_of(body: str) -> Comment:
    """Raises validation."""
    return _body(body, Comment)


def _body(body: str, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise problem("validation", f"not the body of an item: {error}", stage="arguments", details={"field": "body"}) from error


def check(r: ask.Attach) -> None:
    """Raises validation for a body that is none of its kind, or whose mark says something else; for an item of no name."""
    if not r.item:
        raise problem("validation", "an item has a name", stage="arguments", details={"field": "item"})
    if not r.body:
        return
    kind, field = _BODIES[r.kind]
    if getattr(_body(r.body, kind), field) != r.mark:
        raise problem("validation", f"the mark of a {r.kind} is its {field}", stage="arguments", details={"field": "mark"})


def hash_of(mark: str, body: str) -> str:
    """What an item says, as one token; "" = it is not there."""
    return hashlib.sha256(f"{mark}\0{body}".encode()).hexdigest() if body else ""


def standing(tx: Tx, tenant: str, node: str, kind: str, item: str) -> tuple[str, str] | None:
    """Mark and body of an item as it stands now."""
    row = tx.row(
        "select mark, body from doc_item where tenant = ? and node = ? and kind = ? and id = ? and +until_seq = ?", tenant, node, kind, item, OPEN
    )
    return (row[0], row[1]) if row else None


def attach(tx: Tx, tenant: str, r: ask.Attach, step_id: str) -> ask.Reply:
    """Raises validation, not_found (the node), revision_conflict (the item is not as it was)."""
    check(r)
    node = store.current(tx, tenant, r.node, r.expected)
    now = standing(tx, tenant, r.node, r.kind, r.item)
    if r.was is not None and r.was != (hash_of(*now) if now else ""):
        details = {"field": "was", "current": node.revision, "changed": {"added": [], "updated": [r.item], "removed": []}}
        raise problem("revision_conflict", f"the {r.kind} has changed since it was read; nothing was written", stage="precondition", details=details)
    if r.kind == "media" and r.body:
        _kept(tx, tenant, r)
    seq = store.next_seq(tx, tenant)
    first = tx.row("select no from doc_item where tenant = ? and node = ? and kind = ? and id = ?", tenant, r.node, r.kind, r.item)
    tx.run(
        "update doc_item set until_seq = ? where tenant = ? and node = ? and kind = ? and id = ? and +until_seq = ?",
        seq, tenant, r.node, r.kind, r.item, OPEN,
    )  # fmt: skip
    if not r.body and r.kind == "media" and now:
        blobs.sweep(tx, tenant, [now[0]])
    if r.body:
        tx.run(
            "insert into doc_item (tenant, node, kind, id, no, since_seq, until_seq, mark, body) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            tenant, r.node, r.kind, r.item, first[0] if first else seq, seq, OPEN, r.mark, r.body,
        )  # fmt: skip
    return {"nodeId": node.id, "revision": node.revision, "before": node.revision, "kind": r.kind, "item": r.item, "seq": seq}


def _kept(tx: Tx, tenant: str, r: ask.Attach) -> None:
    """The bytes of a media item, whose mark is their digest. Raises validation, corrupt_store."""
    if hashlib.sha256(r.data).hexdigest() != r.mark:
        raise problem("validation", "these are not the bytes of this digest", stage="arguments")
    blobs.keep(tx, tenant, r.data)


def blob(tx: Tx, tenant: str, r: ask.Blob) -> ask.Reply:
    """The bytes as they were put in; whoever asked for a small picture makes it of them (`service.made_small`). Raises not_found, corrupt_store."""
    store.get_node(tx, tenant, r.node, "live", "trashed")
    found = standing(tx, tenant, r.node, "media", r.item)
    if found is None:
        raise problem("not_found", f"there is no media {r.item}", stage="resolve", details={"nodeId": r.node, "resourceId": r.item})
    return {"data": blobs.get(tx, tenant, found[0])}


def digests(tx: Tx, tenant: str, node: str) -> list[str]:
    """Of the media a node has or had."""
    return [row[0] for row in tx.rows("select distinct mark from doc_item where tenant = ? and node = ? and kind = 'media'", tenant, node)]


def copied(tx: Tx, tenant: str, source: str, node: str, seq: int) -> None:
    """A copy has the media of what it is a copy of; comments and roles it has not."""
    tx.run(
        "insert into doc_item (tenant, node, kind, id, no, since_seq, until_seq, mark, body)"
        " select tenant, ?, kind, id, no, ?, until_seq, mark, body from doc_item where tenant = ? and node = ? and kind = 'media' and until_seq = ?",
        node, seq, tenant, source, OPEN,
    )  # fmt: skip


def attached(tx: Tx, tenant: str, r: ask.Attached) -> ask.Reply:
    """A page of items, oldest first."""
    store.get_node(tx, tenant, r.node, "live", "trashed")
    snapshot = store.number(r.snapshot) if r.snapshot else store.current_seq(tx, tenant)
    where = "tenant = ? and node = ? and kind = ? and since_seq <= ? and until_seq > ? and (mark = ? or ? = '') and (id = ? or ? = '')"
    values: tuple[Any, ...] = (tenant, r.node, r.kind, snapshot, snapshot, r.mark, r.mark, r.item, r.item)
    after = store.number(r.cursor) if r.cursor else 0
    rows = tx.rows(f"select no, id, mark, body from doc_item where {where} and no > ? order by no limit ?", *values, after, r.limit + 1)  # noqa: S608  # our own words
    more = len(rows) > r.limit
    items = [{"id": item, "mark": mark, "body": body, "hash": hash_of(mark, body)} for _, item, mark, body in rows[: r.limit]]
    total = None if more else (tx.row(f"select count(*) from doc_item where {where}", *values) or (None,))[0]  # noqa: S608  # as above
    return {"items": items, "next": str(rows[r.limit - 1][0]) if more else None, "hasMore": more, "total": total, "snapshot": str(snapshot)}


def fact(tx: Tx, tenant: str, node: str, kind: str, item: str, seq: int) -> str | None:
    """What one change made of an item: its hash, "" = it was taken away, None = that change was about something else."""
    keys = (tenant, node, kind, item, seq)
    where = "tenant = ? and node = ? and kind = ? and id = ?"
    if row := tx.row(f"select mark, body from doc_item where {where} and since_seq = ?", *keys):  # noqa: S608  # our own words
        return hash_of(row[0], row[1]) if kind != "media" or blobs.whole(tx, tenant, row[0]) else None
    return "" if tx.row(f"select 1 from doc_item where {where} and +until_seq = ?", *keys) else None  # noqa: S608  # as above
