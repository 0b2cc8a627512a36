"""Items, changes and hashes: incremental equals full, a change taken back is no change, and what is in which hash."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.canvas.model import EMPTY, NO_ROWS, Change, Draft, Edge, Item, Node, Row, full, inverse, named, row_digest, summed
from polyloop.journal.carry import apart, is_name
from polyloop.testing.canvas import Shelf

IDS = st.sampled_from(["a", "b", "c", "d"])
ITEMS = st.one_of(
    st.builds(
        Node, id=IDS, type=st.sampled_from(["text", "script"]), title=st.text(max_size=3), x=st.integers(-9, 9), y=st.integers(-9, 9),
        width=st.integers(1, 9), height=st.integers(1, 9), body=st.dictionaries(st.sampled_from(["content"]), st.text(max_size=3)),
    ),
    st.builds(Edge, id=IDS, source=IDS, target=IDS),
    st.builds(Row, node=IDS, id=IDS, place=st.integers(1, 9), body=st.dictionaries(st.sampled_from(["plot"]), st.text(max_size=3))),
)  # fmt: skip


def planned(shelf: Shelf, steps: list[tuple[bool, Item]]) -> tuple[Change, ...]:
    draft = Draft(shelf)
    for keep, item in steps:
        if isinstance(item, Row) and draft.node(item.node) is None:
            continue
        if isinstance(item, Node) and not keep:
            for row in draft.rows_of(item.id):
                draft.drop(row)
        (draft.put if keep else draft.drop)(item)
    return draft.changes()


@given(st.lists(st.lists(st.tuples(st.booleans(), ITEMS), max_size=6), max_size=5))
def test_incremental_hashes_equal_full_ones_and_undo_brings_the_old_ones_back(writes: list[list[tuple[bool, Item]]]) -> None:
    shelf, buckets = Shelf(), full(())
    past: list[tuple[Any, tuple[Change, ...]]] = []
    for steps in writes:
        changes = planned(shelf, steps)
        past.append((buckets.hashes, changes))
        shelf.apply(changes)
        touched = buckets.apply(changes)
        assert len(touched) <= 2 * len(changes)
        assert buckets.hashes == shelf.hashes
        for node in [i for i in shelf.items.values() if isinstance(i, Node)]:
            rows = shelf.rows_of(node.id)
            assert (node.rows, node.count) == (summed(NO_ROWS, map(row_digest, rows), ()), len(rows)) or not rows
    for before, changes in reversed(past):
        shelf.apply(inverse(changes))
        buckets.apply(inverse(changes))
        assert buckets.hashes == before
    assert shelf.items == {}
    assert buckets.hashes == EMPTY


NODE = Node(id="n", type="text", title="t", width=10, height=10, body={"content": "c"})


@pytest.mark.parametrize(
    ("change", "canvas", "media", "node"),
    [
        ({"x": 5}, True, False, False), ({"width": 20}, True, False, False), ({"no": 9}, False, False, False),
        ({"parent": "f"}, True, True, False), ({"title": "u"}, True, True, True), ({"body": {"content": "d"}}, True, True, True),
        ({"locked": True}, True, True, True), ({"rows": row_digest(Row(node="n", id="r", place=1)), "count": 1}, True, True, True),
    ],
)  # fmt: skip
def test_S1_31_what_is_in_which_hash(change: dict[str, Any], canvas: bool, media: bool, node: bool) -> None:
    other = replace(NODE, **change)
    before, after = full([NODE]).hashes, full([other]).hashes
    assert (before[0] != after[0], before[1] != after[1], NODE.hash != other.hash) == (canvas, media, node)
    assert [h.partition(":")[0] for h in (*before, NODE.hash)] == ["canvas", "media", "node"]


def test_kinds_are_told_apart_and_order_does_not_matter() -> None:
    edge = Edge(id="n", source="a", target="b")
    assert full([NODE, edge]).hashes == full([edge, NODE]).hashes
    assert len({full([NODE]).hashes, full([edge]).hashes, full([NODE, edge]).hashes, EMPTY}) == 4


def test_a_draft_reads_what_it_holds_and_tells_only_what_differs() -> None:
    frame = Node(id="f", type="frame", width=100, height=100)
    shelf = Shelf([frame, replace(NODE, parent="f"), Edge(id="e", source="n", target="f")])
    draft = Draft(shelf)
    draft.put(replace(NODE, parent="f", x=50))
    draft.put(replace(NODE, parent="f"))
    assert draft.changes() == (), "put back as it was"
    draft.put(Node(id="m", type="text", x=200, y=0, width=10, height=10, parent="f"))
    assert [n.id for n in draft.inside("f")] == ["n", "m"]
    assert [n.id for n in draft.at(205, 5, 1, 1)] == ["m"]
    assert draft.bottom == 100
    draft.drop(replace(NODE, parent="f"))
    assert draft.node("n") is None
    draft.drop(Edge(id="e", source="n", target="f"))
    assert draft.edges_at("f") == []
    draft.put(Row(node="m", id="r", place=2))
    draft.put(Row(node="m", id="q", place=1))
    assert [r.id for r in draft.rows_of("m")] == ["q", "r"]
    changes = draft.changes()
    assert named(changes) == {"added": ["m"], "updated": [], "removed": ["e", "n"]}
    node = next(c.after for c in changes if c.key == ("node", "", "m"))
    assert isinstance(node, Node)
    assert node.count == 2
    shelf.apply(changes)
    again = Draft(shelf)
    again.drop(Row(node="m", id="r", place=2))
    assert named(again.changes()) == {"added": [], "updated": ["m"], "removed": []}
    assert len(again.changes()) == 2


NAMES = st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=12).filter(is_name)


@given(NAMES, NAMES, NAMES, NAMES)
def test_what_a_session_keeps_of_one_canvas_has_a_name_of_its_own(session: str, under: str, other: str, beside: str) -> None:
    """Blanks may stand in names: what joins two of them may stand in none."""
    assert not is_name(apart(session, under))
    assert (apart(session, under) == apart(other, beside)) == ((session, under) == (other, beside))
    assert apart(f"{session} {under}", "") != apart(session, under)
