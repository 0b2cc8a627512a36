"""The document service: answers a request inside one transaction, for one tenant.

Theory of operation. A write is known by its step id: asked again it is answered from the write log and nothing happens; fenced
it is refused; otherwise content, revision and write log change in the transaction of the caller, or not at all. Preconditions
(revision, hashes of the blocks meant) are checked in that same transaction. Refusals are raised before anything is written.
Seed: S0.3, S0.8, S0.10, S0.11, S0.26.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from ..contract.problem import as_wire, problem
from ..contract.snapshot import digest
from ..db import Database, Tx
from . import access, blobs, bodies, index, items, limits, store, tasks, writes
from . import requests as ask
from .positions import numbered, spread
from .store import Node, Row
from .words import around


def serve(tx: Tx, tenant: str, request: ask.Request | ask.Local, step_id: str = "", user: str = "") -> ask.Reply:
    """The reply to a user of the tenant ("" = whoever owns it). Raises ProblemError (execution_started False) for what is refused."""
    access.admit(tx, tenant, user, request)
    if isinstance(request, ask.Nodes | ask.Search):
        return (_page if isinstance(request, ask.Nodes) else _search)(tx, tenant, cast("Any", request), user)
    read = _READS.get(type(request))
    if read is not None:
        return read(tx, tenant, request)
    if not step_id:
        raise problem("validation", "a write needs a step id", stage="arguments")
    asked = digest(as_wire(request))
    known = writes.recall(tx, tenant, step_id)
    if known is not None and known.reply is not None:
        if known.request != asked:
            raise problem("conflict", "another write was made under this step id", stage="write")
        return json.loads(known.reply)
    if known is not None and known.fenced_at(getattr(request, "node", "")):
        raise problem("conflict", "this step was declared absent and cannot begin any more", stage="write")
    reply = _WRITES[type(request)](tx, tenant, request, step_id)
    writes.log(tx, tenant, step_id, writes.Written(asked, msgspec.json.encode(reply).decode(), user))
    return reply


class Here:
    """The service of this very store as a transport: each request a transaction of its own."""

    chunk_chars = 0

    def __init__(self, db: Database, tenant: str, user: str = "") -> None:
        self._db, self._tenant, self._user = db, tenant, user

    def ask(self, request: ask.Request, step_id: str = "") -> ask.Reply:
        """Raises ProblemError, DbError."""
        carry = self._db.read_sync if isinstance(request, ask.READING) else self._db.write_sync
        return made_small(request, carry(serve, self._tenant, request, step_id, self._user))


def asks_small(request: ask.Request | ask.Local) -> bool:
    return isinstance(request, ask.Blob) and request.small


def made_small(request: ask.Request | ask.Local, reply: ask.Reply) -> ask.Reply:
    """What takes long and needs no store: a picture is decoded outside the transaction that found it. Raises as `blobs.preview`."""
    return {"data": blobs.preview(reply["data"])} if asks_small(request) else reply


# --- writes ----------------------------------------------------------------------------------------------------------


def _document(node: Node) -> Node:
    if node.type != "document":
        raise problem("type_mismatch", f"{node.id} is a {node.type}", stage="resolve", details={"nodeId": node.id, "resourceType": node.type})
    return node


def _folder(tx: Tx, tenant: str, container: str, *, holds: int = 0, node: str = "") -> None:
    """Raises not_found or type_mismatch unless something can stand there; validation where folders would stand too deep.

    `holds` = levels of folders that come to stand there; `node` = the one that does, which cannot stand inside itself.
    """
    depth, above = holds, container
    while above != ask.ROOT:
        box = store.get_node(tx, tenant, above)
        if box.type != "folder":
            raise problem("type_mismatch", f"{container} is a {box.type}", stage="resolve", details={"containerId": container})
        depth += 1
        if above == node or depth > limits.DEPTH:
            inside, deep = ("cycle", "a folder cannot stand inside itself"), ("too_deep", f"folders stand at most {limits.DEPTH} deep")
            issue, why = inside if above == node else deep
            raise problem("validation", why, stage="arguments", details={"field": "containerId", "issue": issue})
        above = box.container


def _done(tx: Tx, tenant: str, node: Node, seq: int, step_id: str, **more: Any) -> ask.Reply:
    store.add_revision(tx, tenant, node, seq, step_id)
    return {"nodeId": node.id, "revision": node.revision, "before": node.revision - 1, **more}


def _fresh(tx: Tx, tenant: str, node: str) -> None:
    """Raises conflict for an id that is taken. The root is, always: roles on what stood above it would be roles on everything."""
    if node == ask.ROOT or store.find_node(tx, tenant, node) is not None:
        raise problem("conflict", f"{node} exists", stage="write")


def _create(tx: Tx, tenant: str, r: ask.Create, step_id: str) -> ask.Reply:
    bodies.check(r.blocks)
    _folder(tx, tenant, r.container, holds=r.type == "folder")
    _fresh(tx, tenant, r.node)
    if r.type == "folder" and r.blocks:
        raise problem("validation", "a folder has no content", stage="arguments")
    rows = [store.row_of(store.new_block_id(step_id, n), numbered(n), body) for n, body in enumerate(r.blocks, 1)]
    return _new(tx, tenant, r, r.type, rows, len(rows), step_id)


def _copy(tx: Tx, tenant: str, r: ask.Copy, step_id: str) -> ask.Reply:
    source = _document(store.current(tx, tenant, r.source, r.expected))
    _folder(tx, tenant, r.container)
    _fresh(tx, tenant, r.node)
    rows = store.rows_at(tx, tenant, source.id, source.revision)
    reply = _new(tx, tenant, r, "document", rows, source.appended, step_id)
    items.copied(tx, tenant, source.id, r.node, store.current_seq(tx, tenant))
    return reply


def _new(tx: Tx, tenant: str, r: ask.Create | ask.Copy, kind: str, rows: list[Row], appended: int, step_id: str) -> ask.Reply:
    seq = store.next_seq(tx, tenant)
    node = Node(
        id=r.node, type=kind, revision=1, hash=store.summed(store.EMPTY, rows, ()), blocks=len(rows), appended=appended, created=seq, title=r.title,
        container=r.container, state="live",
    )  # fmt: skip
    store.add_node(tx, tenant, node, seq)
    store.add_rows(tx, tenant, node.id, rows, 1, seq)
    return _done(tx, tenant, node, seq, step_id, blockIds=[row.id for row in rows[: limits.IDS_SHOWN]])


def _consistent(r: ask.Edit) -> None:
    """Raises validation for an edit that means one block twice, or gives blocks ids other than those it takes out."""
    gone = [*(r.remove or ()), *r.change]
    named = not r.ids or (len(r.ids) == len(r.blocks) == len(set(r.ids)) and set(r.ids) <= set(r.remove or ()))
    if len(set(gone)) < len(gone) or (r.remove is None and r.change) or not named:
        raise problem("validation", "an edit means each block once", stage="arguments")


def _edit(tx: Tx, tenant: str, r: ask.Edit, step_id: str) -> ask.Reply:
    _consistent(r)
    bodies.check((*r.blocks, *r.change.values()))
    node = _document(store.current(tx, tenant, r.node, r.expected))
    meant = {*r.was, *(r.remove or ()), *r.change, *([r.anchor] if r.anchor else [])}
    now = {block_id: _block(tx, tenant, node, block_id) for block_id in sorted(meant)}
    changed = sorted(block_id for block_id, was in r.was.items() if now[block_id].hash != was)
    if changed:
        details = {"current": node.revision, "changed": {"added": [], "updated": changed, "removed": []}}
        raise problem("revision_conflict", "blocks have changed since they were read; nothing was written", stage="precondition", details=details)
    revision = node.revision + 1
    ended = store.rows_at(tx, tenant, node.id, node.revision) if r.remove is None else [now[i] for i in r.remove]
    places, appended = _places(tx, tenant, node, r, now.get(r.anchor))
    names = r.ids or [store.new_block_id(step_id, n) for n in range(1, len(r.blocks) + 1)]
    added = [store.row_of(name, pos, body) for name, pos, body in zip(names, places, r.blocks, strict=True)]
    added += [store.row_of(block_id, now[block_id].pos, body) for block_id, body in r.change.items()]
    ended += [now[block_id] for block_id in r.change]
    seq = store.next_seq(tx, tenant)
    store.end_rows(tx, tenant, node.id, ended, revision, seq)
    store.add_rows(tx, tenant, node.id, added, revision, seq)
    blocks = node.blocks + len(added) - len(ended)
    after = replace(node, revision=revision, hash=store.summed(node.hash, added, ended), blocks=blocks, appended=appended)
    store.set_node(tx, tenant, after)
    return _done(tx, tenant, after, seq, step_id, blockIds=[row.id for row in added[: limits.IDS_SHOWN]])


def _block(tx: Tx, tenant: str, node: Node, block_id: str) -> Row:
    row = store.row_now(tx, tenant, node.id, block_id)
    if row is None:
        details = {"nodeId": node.id, "blockId": block_id}
        raise problem("not_found", f"{node.id} has no block {block_id}", stage="resolve", details=details)
    return row


def _places(tx: Tx, tenant: str, node: Node, r: ask.Edit, anchor: Row | None) -> tuple[list[str], int]:
    """Where the new blocks go, and how many were ever appended after that. After the last block is the end."""
    low, high = "", ""
    if anchor is not None and r.side != "end":
        after = r.side == "after"
        beside = store.neighbour(tx, tenant, node.id, anchor.pos, node.revision, after=after)
        other = beside.pos if beside else ""
        low, high = (anchor.pos, other) if after else (other, anchor.pos)
    if high:
        return spread(low, high, len(r.blocks)), node.appended
    count = len(r.blocks)
    return [numbered(node.appended + n) for n in range(1, count + 1)], node.appended + count


def _revert(tx: Tx, tenant: str, r: ask.Revert, step_id: str) -> ask.Reply:
    node = _document(store.current(tx, tenant, r.node, r.expected))
    store.revision_of(tx, tenant, node.id, r.revision)
    wanted = {row.id: row for row in store.rows_at(tx, tenant, node.id, r.revision)}
    present = {row.id: row for row in store.rows_at(tx, tenant, node.id, node.revision)}
    ended = [row for block_id, row in present.items() if wanted.get(block_id) != row]
    added = [row for block_id, row in wanted.items() if present.get(block_id) != row]
    after = replace(node, revision=node.revision + 1, hash=store.summed(node.hash, added, ended), blocks=len(wanted))
    seq = store.next_seq(tx, tenant)
    store.end_rows(tx, tenant, node.id, ended, after.revision, seq)
    store.add_rows(tx, tenant, node.id, added, after.revision, seq)
    store.set_node(tx, tenant, after)
    return _done(tx, tenant, after, seq, step_id)


def _put(tx: Tx, tenant: str, r: ask.Put, step_id: str) -> ask.Reply:
    node = store.current(tx, tenant, r.node, r.expected, "trashed" if r.state == "live" else "live")
    container = node.container if r.container is None else r.container
    if container != node.container or r.state == "live":
        _folder(tx, tenant, container, holds=store.height(tx, tenant, node), node=node.id)
    if r.state == "trashed":
        _empty(tx, tenant, node)
    moved = replace(node, revision=node.revision + 1, title=r.title or node.title, container=container, state=r.state or node.state)
    seq = store.next_seq(tx, tenant)
    store.set_node(tx, tenant, moved)
    store.set_place(tx, tenant, moved, seq, renamed=moved.title != node.title)
    return _done(tx, tenant, moved, seq, step_id)


def _empty(tx: Tx, tenant: str, node: Node) -> None:
    inside = _page(tx, tenant, ask.Nodes(container=node.id, limit=1))["total"] if node.type == "folder" else 0
    if inside != 0:
        raise problem("conflict", f"{node.id} is not empty", stage="precondition", details={"nodeId": node.id, "reason": "not_empty"})


def _purge(tx: Tx, tenant: str, r: ask.Purge, step_id: str) -> ask.Reply:
    node = store.current(tx, tenant, r.node, r.expected, "trashed")
    gone = replace(node, revision=node.revision + 1, hash=store.EMPTY, blocks=0, state="purged")
    seq = store.next_seq(tx, tenant)
    store.set_node(tx, tenant, gone)
    store.set_place(tx, tenant, gone, seq)
    held = items.digests(tx, tenant, node.id)
    store.erase(tx, tenant, node.id)
    blobs.sweep(tx, tenant, held)
    return _done(tx, tenant, gone, seq, step_id)


def _save(tx: Tx, tenant: str, r: ask.Save, step_id: str) -> ask.Reply:
    node = _document(store.current(tx, tenant, r.node, r.expected))
    version = store.add_version(tx, tenant, node.id, node.revision, r.label)
    return {"nodeId": node.id, "revision": node.revision, "before": node.revision, "version": version}


# --- reads -----------------------------------------------------------------------------------------------------------


def _describe(tx: Tx, tenant: str, r: ask.Describe) -> ask.Reply:
    node = store.get_node(tx, tenant, r.node, "live", "trashed")
    since = {} if r.since is None else {"changed": store.changed_since(tx, tenant, r.node, r.since)}
    target = store.target_of(tenant, node.id, node.type, node.container)
    return {"target": target, "title": node.title, "state": node.state, "revision": node.revision, "hash": node.hash, "blocks": node.blocks, **since}


def _content(tx: Tx, tenant: str, r: ask.Content) -> ask.Reply:
    node = _document(store.get_node(tx, tenant, r.node, "live", "trashed"))
    revision = node.revision if r.revision is None else r.revision
    _, content, _ = store.revision_of(tx, tenant, node.id, revision)
    rows = store.rows_at(tx, tenant, node.id, revision)
    return {"nodeId": node.id, "revision": revision, "hash": content, "blocks": [[row.id, row.body, row.hash] for row in rows]}


def _page(tx: Tx, tenant: str, r: ask.Nodes, user: str = "") -> ask.Reply:
    snapshot = store.number(r.snapshot) if r.snapshot else store.current_seq(tx, tenant)
    where, values = "tenant = ? and since_seq <= ? and until_seq > ? and state = 'live'", [tenant, snapshot, snapshot]
    for column, value in (("container", r.container), ("title", r.title)):
        if value is not None:
            where, values = f"{where} and {column} = ?", [*values, value]
    after = store.number(r.cursor) if r.cursor else 0
    before, theirs, who = access.seen(tenant, user)
    where = f"from doc_place where {where}{theirs}"
    rows = tx.rows(
        f"{before}select created, id, type, title, container {where} and created > ? order by created limit ?",
        *who, *values, after, r.limit + 1,
    )  # fmt: skip
    more = len(rows) > r.limit
    items = [{**store.target_of(tenant, node_id, kind, box), "title": title} for _, node_id, kind, title, box in rows[: r.limit]]
    total = None if more else (tx.row(f"{before}select count(*) {where}", *who, *values) or (None,))[0]
    return {"items": items, "next": str(rows[r.limit - 1][0]) if more else None, "hasMore": more, "total": total, "snapshot": str(snapshot)}


def _search(tx: Tx, tenant: str, r: ask.Search, user: str = "") -> ask.Reply:
    snapshot = store.number(r.snapshot) if r.snapshot else store.current_seq(tx, tenant)
    if store.current_seq(tx, tenant) - snapshot > index.KEPT:
        raise problem("pagination", "so much has changed since that this search cannot be gone on with; ask anew", stage="pagination")
    found = index.Found(tx, tenant, r.query, snapshot, r.container or "", access.seen(tenant, user, "p"))
    rows = found.after(store.number(r.cursor) if r.cursor else 0, r.limit + 1)
    more, phrases = len(rows) > r.limit, index.asked(r.query)
    items = [
        {**store.target_of(tenant, node_id, kind, box), "title": title, **(_hit(tx, tenant, node_id, block, phrases) if block else {})}
        for _, block, node_id, kind, title, box in rows[: r.limit]
    ]
    total = None if more else found.count()
    return {"items": items, "next": str(rows[r.limit - 1][0]) if more else None, "hasMore": more, "total": total, "snapshot": str(snapshot)}


def _hit(tx: Tx, tenant: str, node_id: str, block: str, phrases: list[list[str]]) -> ask.Reply:
    """Where the words were found, and what stands around them there now."""
    row = store.row_now(tx, tenant, node_id, block)
    short = row is not None and len(row.body) <= limits.EXCERPT_FROM
    return {"blockId": block, **({"excerpt": around(store.text_of(row), phrases)} if row and short else {})}


def _versions(tx: Tx, tenant: str, r: ask.Versions) -> ask.Reply:
    """Versions are never taken back, so the highest number there is makes a snapshot."""
    store.get_node(tx, tenant, r.node, "live", "trashed")
    last = tx.row("select coalesce(max(version), 0) from doc_version where tenant = ? and node = ?", tenant, r.node)
    snapshot = store.number(r.snapshot) if r.snapshot else (last or (0,))[0]
    after = store.number(r.cursor) if r.cursor else 0
    rows = tx.rows(
        "select version, rev, label from doc_version where tenant = ? and node = ? and version > ? and version <= ? order by version limit ?",
        tenant, r.node, after, snapshot, r.limit + 1,
    )  # fmt: skip
    more = len(rows) > r.limit
    items = [{"version": version, "revision": revision, "label": label} for version, revision, label in rows[: r.limit]]
    return {"items": items, "next": str(items[-1]["version"]) if more else None, "hasMore": more, "total": snapshot, "snapshot": str(snapshot)}


def _facts(tx: Tx, tenant: str, r: ask.Facts) -> ask.Reply:
    """Read from rows, never from what the write said of itself."""
    step, content, blocks = store.revision_of(tx, tenant, r.node, r.revision)
    added, ended = store.changed_at(tx, tenant, r.node, r.revision)
    kept = {row.id for row in added}
    place = tx.row(
        "select p.title, p.container, p.state, p.type from doc_place p join doc_revision r on r.tenant = p.tenant and r.node = p.id"
        " where p.tenant = ? and p.id = ? and r.rev = ? and p.since_seq <= r.seq and p.until_seq > r.seq",
        tenant, r.node, r.revision,
    )  # fmt: skip
    before = store.revision_of(tx, tenant, r.node, r.revision - 1)[1] if r.revision > 1 else store.EMPTY
    facts: ask.Reply = {
        "nodeId": r.node, "step": step, "hash": content, "blocks": blocks, "whole": store.summed(before, added, ended) == content,
        "bodies": digest([row.body for row in added]), "removed": sorted(row.id for row in ended if row.id not in kept),
        **dict(zip(("title", "container", "state", "resourceType"), place or (), strict=False)),
    }  # fmt: skip
    if added:
        for side, row, after in (("previous", added[0], False), ("next", added[-1], True)):
            beside = store.neighbour(tx, tenant, r.node, row.pos, r.revision, after=after)
            facts[side] = beside.id if beside else ""
    if r.version and (saved := store.version_of(tx, tenant, r.node, r.version)):
        facts |= {"versionRevision": saved[0], "label": saved[1]}
    if r.seq:
        facts["item"] = items.fact(tx, tenant, r.node, r.kind, r.item, r.seq)
    return facts


_WRITES: Final[dict[type, Callable[[Tx, str, Any, str], ask.Reply]]] = {
    ask.Create: _create, ask.Edit: _edit, ask.Revert: _revert, ask.Copy: _copy, ask.Put: _put, ask.Purge: _purge, ask.Save: _save,
    ask.Attach: items.attach,
    ask.Submit: tasks.submit, ask.Cancel: tasks.cancel,
}  # fmt: skip
_READS: Final[dict[type, Callable[[Tx, str, Any], ask.Reply]]] = {
    ask.Describe: _describe, ask.Content: _content, ask.Versions: _versions, ask.Attached: items.attached, ask.Blob: items.blob, ask.Facts: _facts,
    ask.Find: writes.find,
}  # fmt: skip
