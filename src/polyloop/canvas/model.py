"""What a canvas is made of: nodes, edges, rows of structured nodes; changes of them; the hashes that stand for their state.

Theory of operation. Everything on a canvas is an item with an id. A change is an item before and after, so every change can be
taken back and a set of them is what history keeps. A `Draft` is a copy that changes are planned on: it reads what it is asked
for, remembers it, and tells in the end what differs. Nothing here stores anything.

Three hashes, told apart by their prefix: `canvas:` covers all items, `media:` leaves geometry out, `node:` covers one node with
its rows. The first two are sums (mod 2^256) of item digests in 256 buckets, digested: a write renews the buckets of the items it
changed and nothing else. What only the screen needs (viewport, selection, measured heights) is no item and in no hash.
Seed: S1.31, S1.42, S1.54.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from ..contract.snapshot import digest, stamp

_MODULUS: Final = 1 << 256
NO_ROWS: Final = "0" * 64


class Node(Struct, frozen=True, kw_only=True, tag_field="item", tag="node", omit_defaults=True):
    """`body` holds what its type keeps (content, prompt, task and asset of media, settings of a table). `no` is its place in the
    order of making, 0 = not yet stored; `rows` and `count` sum up its rows and are the store's to keep.
    """

    id: str
    type: str
    title: str = ""
    x: int = 0
    y: int = 0
    width: int
    height: int
    parent: str = ""
    locked: bool = False
    body: dict[str, Any] = {}
    no: int = 0
    rows: str = NO_ROWS
    count: int = 0

    @property
    def hash(self) -> str:
        """The `node:` hash: what a structured edit, or an update of a text, is based on."""
        return stamp("node", [self.id, self.type, self.title, self.locked, self.body, self.rows, self.count])


class Edge(Struct, frozen=True, kw_only=True, tag_field="item", tag="edge", omit_defaults=True):
    """From the node that gives to the node that takes it as an input."""

    id: str
    source: str
    target: str
    source_handle: str = "output"
    target_handle: str = "input"
    no: int = 0


class Row(Struct, frozen=True, kw_only=True, tag_field="item", tag="row", omit_defaults=True):
    """One row of a structured node. `place` orders the rows; ids are the server's."""

    node: str
    id: str
    place: int
    body: dict[str, Any] = {}


Item = Node | Edge | Row
Key = tuple[str, str, str]


def key_of(item: Item) -> Key:
    """(kind, node of a row, id)"""
    if isinstance(item, Row):
        return "row", item.node, item.id
    return "node" if isinstance(item, Node) else "edge", "", item.id


class Change(Struct, frozen=True):
    """One item before and after; None = it was, or is, not there."""

    before: Item | None
    after: Item | None

    @property
    def key(self) -> Key:
        item = self.after or self.before
        assert item is not None
        return key_of(item)


def inverse(changes: Iterable[Change]) -> tuple[Change, ...]:
    """What takes these changes back."""
    return tuple(Change(c.after, c.before) for c in changes)


# --- hashes ----------------------------------------------------------------------------------------------------------


def digests(item: Node | Edge) -> tuple[str, str]:
    """What an item adds to `canvas:` and to `media:`."""
    if isinstance(item, Edge):
        own = digest(["edge", item.id, item.source, item.source_handle, item.target, item.target_handle])
        return own, own
    content = ["node", item.hash, item.parent]
    return digest([*content, item.x, item.y, item.width, item.height]), digest(content)


def row_digest(row: Row) -> str:
    return digest([row.id, row.place, row.body])


def bucket_of(item: Node | Edge) -> int:
    return hashlib.sha256(f"{key_of(item)[0]}\0{item.id}".encode()).digest()[0]


def summed(before: str, added: Iterable[str], removed: Iterable[str]) -> str:
    """A sum of digests after some came and went."""
    total = int(before, 16) + sum(int(d, 16) for d in added) - sum(int(d, 16) for d in removed)
    return f"{total % _MODULUS:064x}"


class Buckets(Struct):
    """The sums of a canvas by bucket, for content and for media. A bucket of nothing is not kept."""

    content: dict[int, str]
    media: dict[int, str]

    def apply(self, changes: Iterable[Change]) -> set[int]:
        """Renew what these changes touch; which buckets that were. Rows count through their nodes."""
        touched: set[int] = set()
        for change in changes:
            for item, came in ((change.before, False), (change.after, True)):
                if item is None or isinstance(item, Row):
                    continue
                touched.add(no := bucket_of(item))
                for sums, one in zip((self.content, self.media), digests(item), strict=True):
                    after = summed(sums.get(no, NO_ROWS), [one] if came else [], [] if came else [one])
                    if after == NO_ROWS:
                        sums.pop(no, None)
                    else:
                        sums[no] = after
        return touched

    @property
    def hashes(self) -> tuple[str, str]:
        """`canvas:` and `media:`"""
        content, media = (stamp(kind, sorted(sums.items())) for kind, sums in (("canvas", self.content), ("media", self.media)))
        return content, media


def full(items: Iterable[Node | Edge]) -> Buckets:
    """The buckets of all items, computed from nothing."""
    buckets = Buckets({}, {})
    buckets.apply(Change(None, item) for item in items)
    return buckets


EMPTY: Final = full(()).hashes


# --- planning on a copy ----------------------------------------------------------------------------------------------


class Look(Protocol):
    """What planning may ask of the canvas as it stands."""

    def node(self, node_id: str) -> Node | None: ...
    def edge(self, edge_id: str) -> Edge | None: ...
    def edges_at(self, node_id: str) -> list[Edge]:
        """Every edge that begins or ends there."""
        ...

    def rows_of(self, node_id: str) -> list[Row]:
        """All rows of a structured node, in order."""
        ...

    def inside(self, node_id: str) -> list[Node]:
        """The nodes whose parent it is."""
        ...

    def at(self, x: int, y: int, width: int, height: int) -> list[Node]:
        """The nodes that overlap this box."""
        ...

    @property
    def bottom(self) -> int:
        """A line no node reaches below."""
        ...

    @property
    def newest(self) -> Node | None:
        """The node made last."""
        ...


class Draft:
    """A copy of a canvas, made as it is read. `put` and `drop` change the copy; `changes` is what then differs."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._was: dict[Key, Item | None] = {}
        self._now: dict[Key, Item | None] = {}

    def node(self, node_id: str) -> Node | None:
        found = self._found(("node", "", node_id), lambda: self._look.node(node_id))
        return found if isinstance(found, Node) else None

    def edge(self, edge_id: str) -> Edge | None:
        found = self._found(("edge", "", edge_id), lambda: self._look.edge(edge_id))
        return found if isinstance(found, Edge) else None

    def edges_at(self, node_id: str) -> list[Edge]:
        return [e for e in self._merged(self._look.edges_at(node_id)) if isinstance(e, Edge) and node_id in (e.source, e.target)]

    def rows_of(self, node_id: str) -> list[Row]:
        rows = [r for r in self._merged(self._look.rows_of(node_id)) if isinstance(r, Row) and r.node == node_id]
        return sorted(rows, key=lambda r: r.place)

    def inside(self, node_id: str) -> list[Node]:
        return [n for n in self._merged(self._look.inside(node_id)) if isinstance(n, Node) and n.parent == node_id]

    def at(self, x: int, y: int, width: int, height: int) -> list[Node]:
        near = [n for n in self._merged(self._look.at(x, y, width, height)) if isinstance(n, Node)]
        return [n for n in near if n.x < x + width and x < n.x + n.width and n.y < y + height and y < n.y + n.height]

    @property
    def newest(self) -> Node | None:
        """The node made last, before anything was planned."""
        return self._look.newest

    @property
    def bottom(self) -> int:
        return max([self._look.bottom, *(n.y + n.height for n in self._now.values() if isinstance(n, Node))])

    def put(self, item: Item) -> None:
        """A node keeps its place and its rows, whatever is said of them."""
        if isinstance(item, Node):
            was = self.node(item.id)
            item = replace(item, no=was.no, rows=was.rows, count=was.count) if was else replace(item, no=0, rows=NO_ROWS, count=0)
        self._set(key_of(item), item)

    def drop(self, item: Item) -> None:
        self._set(key_of(item), None)

    def changes(self) -> tuple[Change, ...]:
        """In the order in which things were first touched. The sums of rows are brought up to date."""
        for node_id in {key[1] for key in self._now if key[0] == "row"}:
            if node := self.node(node_id):
                self._set(key_of(node), self._with_rows(node))
        return tuple(Change(self._was[key], now) for key, now in self._now.items() if self._was[key] != now)

    def _with_rows(self, node: Node) -> Node:
        own = [(self._was[key], now) for key, now in self._now.items() if key[:2] == ("row", node.id)]
        gone, come = ([row for row in side if isinstance(row, Row)] for side in zip(*own, strict=True))
        was = self._was["node", "", node.id]
        rows, count = (was.rows, was.count) if isinstance(was, Node) else (NO_ROWS, 0)
        after = summed(rows, map(row_digest, come), map(row_digest, gone))
        return replace(node, rows=after, count=count + len(come) - len(gone))

    def _found(self, key: Key, read: Any) -> Item | None:
        if key not in self._now:
            self._was[key] = self._now[key] = read()
        return self._now[key]

    def _merged(self, read: Iterable[Item]) -> list[Item]:
        """What the store gave, as it is on the copy, and what the copy has beside it."""
        for item in read:
            self._found(key_of(item), lambda item=item: item)
        return [item for item in self._now.values() if item is not None]

    def _set(self, key: Key, item: Item | None) -> None:
        if key not in self._now:
            self._was[key] = self._stored(key)
        self._now[key] = item

    def _stored(self, key: Key) -> Item | None:
        kind, node_id, item_id = key
        if kind == "row":
            return next((r for r in self._look.rows_of(node_id) if r.id == item_id), None)
        return self._look.node(item_id) if kind == "node" else self._look.edge(item_id)


def named(changes: Iterable[Change]) -> Mapping[str, list[str]]:
    """Ids of nodes and edges added, updated, removed; each list sorted."""
    out: dict[str, set[str]] = {"added": set(), "updated": set(), "removed": set()}
    for change in changes:
        kind, node_id, item_id = change.key
        if kind == "row":
            out["updated"].add(node_id)
        else:
            out["added" if change.before is None else "removed" if change.after is None else "updated"].add(item_id)
    out["updated"] -= out["added"] | out["removed"]
    return {name: sorted(ids) for name, ids in out.items()}
