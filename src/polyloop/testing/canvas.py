"""A canvas in memory, for planning without a store."""

from __future__ import annotations

from collections.abc import Iterable

from polyloop.canvas.model import Change, Edge, Item, Key, Node, Row, full, key_of


class Shelf:
    """A canvas in memory: for planning without a store, and for tests."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self.items: dict[Key, Item] = {key_of(item): item for item in items}

    def node(self, node_id: str) -> Node | None:
        found = self.items.get(("node", "", node_id))
        return found if isinstance(found, Node) else None

    def edge(self, edge_id: str) -> Edge | None:
        found = self.items.get(("edge", "", edge_id))
        return found if isinstance(found, Edge) else None

    def edges_at(self, node_id: str) -> list[Edge]:
        return [i for i in self.items.values() if isinstance(i, Edge) and node_id in (i.source, i.target)]

    def rows_of(self, node_id: str) -> list[Row]:
        return sorted((i for i in self.items.values() if isinstance(i, Row) and i.node == node_id), key=lambda r: r.place)

    def inside(self, node_id: str) -> list[Node]:
        return [i for i in self.items.values() if isinstance(i, Node) and i.parent == node_id]

    def at(self, x: int, y: int, width: int, height: int) -> list[Node]:
        nodes = [i for i in self.items.values() if isinstance(i, Node)]
        return [n for n in nodes if n.x < x + width and x < n.x + n.width and n.y < y + height and y < n.y + n.height]

    @property
    def bottom(self) -> int:
        return max((i.y + i.height for i in self.items.values() if isinstance(i, Node)), default=0)

    @property
    def newest(self) -> Node | None:
        return max((i for i in self.items.values() if isinstance(i, Node)), key=lambda n: n.no, default=None)

    def apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if change.after is None:
                del self.items[change.key]
            else:
                self.items[change.key] = change.after

    @property
    def hashes(self) -> tuple[str, str]:
        return full(i for i in self.items.values() if not isinstance(i, Row)).hashes
