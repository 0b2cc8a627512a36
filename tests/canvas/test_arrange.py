"""The layout: over nothing, the same every time, and in the order things stood in."""

from __future__ import annotations

import os
import random
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.canvas.arrange import ALIGNS, MODES, Box, Group, NoRoom, arranged, crowded, overlapping
from polyloop.canvas.limits import REACH

HUGE = 90_000
SIZES = st.sampled_from([1, 40, 120, 340, 720, 1280, 5_000, HUGE]) | st.floats(1, 3_000)


@st.composite
def boards(draw: st.DrawFn) -> dict[str, Any]:
    """Some nodes to arrange, others that stay (locked, contained, containers: the layout need not know why), and edges at random."""
    count = draw(st.integers(1, 24))
    spot = st.integers(-2_000, 2_000) | st.floats(-2_000, 2_000) | st.sampled_from([-REACH, REACH])
    boxes = [
        Box(id=f"n{n}", x=draw(spot), y=draw(spot), w=draw(SIZES), h=draw(SIZES), kind=draw(st.sampled_from(["text", "image"]))) for n in range(count)
    ]
    chosen = draw(st.lists(st.sampled_from([b.id for b in boxes]), min_size=1, unique=True))
    cuts = draw(st.lists(st.integers(0, len(chosen)), max_size=2).map(sorted))
    parts = [chosen[a:b] for a, b in zip([0, *cuts], [*cuts, len(chosen)], strict=True) if a < b]
    node = st.sampled_from([b.id for b in boxes])
    align = draw(st.none() | st.sampled_from(ALIGNS))
    return {
        "boxes": boxes, "edges": draw(st.lists(st.tuples(node, node), max_size=40)),
        "groups": [Group(ids=tuple(part), mode=draw(st.sampled_from(MODES))) for part in parts],
        "align": align, "laid": align is None or draw(st.booleans()), "gap": draw(st.integers(0, 400) | st.floats(0, 400)),
    }  # fmt: skip


def lay(board: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return arranged(board["boxes"], board["edges"], board["groups"], align=board["align"], laid=board["laid"], gap=board["gap"])


@settings(max_examples=20_000 if os.environ.get("POLYLOOP_SOAK") else 150)
@given(boards())
def test_nothing_moved_lies_over_anything_and_nothing_else_moves(board: dict[str, Any]) -> None:
    try:
        placed = lay(board)
    except NoRoom:
        assert any(max(abs(b.x), abs(b.y)) == REACH or max(b.w, b.h) == HUGE for b in board["boxes"])  # only then
        return
    assert placed.keys() == {i for group in board["groups"] for i in group.ids}
    assert all(isinstance(v, int) and abs(v) <= REACH for spot in placed.values() for v in spot)
    after = [replace(b, x=placed[b.id][0], y=placed[b.id][1]) if b.id in placed else b for b in board["boxes"]]
    assert [(a.id, b.id) for a, b in combinations(after, 2) if placed.keys() & {a.id, b.id} and overlapping(a, b)] == []
    assert not crowded(after, [b for b in after if b.id in placed])
    dice = random.Random(len(board["boxes"]))
    assert lay({**board, **{name: dice.sample(board[name], len(board[name])) for name in ("boxes", "edges")}}) == placed


def at(text: str) -> list[Box]:
    """`a 0 0 10 10; b ...`"""
    return [Box(id=i, x=float(x), y=float(y), w=float(w), h=float(h)) for i, x, y, w, h in (part.split() for part in text.split(";"))]


def one(boxes: list[Box], mode: Any = "auto", edges: list[tuple[str, str]] | None = None, **more: Any) -> dict[str, tuple[int, int]]:
    return arranged(boxes, edges or [], [Group(ids=tuple(b.id for b in boxes), mode=mode)], gap=more.pop("gap", 10), **more)


PILE = "a 0 0 10 10; b 1 0 30 20; c 2 0 10 10"


@pytest.mark.parametrize(
    ("boxes", "told", "placed"),
    [
        (PILE, {"mode": "row"}, {"a": (0, 0), "b": (20, 0), "c": (60, 0)}),
        (PILE, {"mode": "column"}, {"a": (0, 0), "b": (0, 20), "c": (0, 50)}),
        (PILE, {"mode": "grid"}, {"a": (0, 0), "b": (20, 0), "c": (0, 30)}),
        (PILE, {"mode": "flow", "edges": [("a", "b"), ("b", "c")]}, {"a": (0, 5), "b": (20, 0), "c": (60, 5)}),
        (PILE, {"mode": "auto", "edges": [("c", "b"), ("b", "a")]}, {"c": (0, 5), "b": (20, 0), "a": (60, 5)}),
        (PILE, {"mode": "flow", "edges": [("a", "b"), ("b", "a"), ("a", "a")]}, {"a": (0, 5), "b": (20, 0), "c": (0, 30)}),
        (PILE, {"mode": "flow", "edges": [("a", "b"), ("a", "c")]}, {"a": (0, 17), "b": (20, 0), "c": (20, 30)}),
        ("a 0 0 10 10; b 5 20 30 10", {"align": "left", "laid": False}, {"a": (0, 0), "b": (0, 20)}),
        ("a 0 0 10 10; b 5 20 30 10", {"align": "right", "laid": False}, {"a": (25, 0), "b": (5, 20)}),
        ("a 0 0 10 10; b 0 20 30 10", {"align": "centerX", "laid": False}, {"a": (10, 0), "b": (0, 20)}),
        ("a 0 0 10 10; b 20 4 10 10", {"align": "bottom", "laid": False}, {"a": (0, 4), "b": (20, 4)}),
        ("a 0 0 10 10; b 2 40 10 10; c 3 90 10 10", {"align": "distributeY", "laid": False}, {"a": (0, 0), "b": (2, 45), "c": (3, 90)}),
        ("a 0 0 10 10; b 0 5 10 10", {"align": "left", "laid": False}, {"a": (0, 0), "b": (0, 20)}),
    ],
)
def test_the_layouts(boxes: str, told: dict[str, Any], placed: dict[str, tuple[int, int]]) -> None:
    found = one(at(boxes), **told)
    corner = [min(spot[axis] for spot in found.values()) - min(spot[axis] for spot in placed.values()) for axis in (0, 1)]
    assert {i: (x - corner[0], y - corner[1]) for i, (x, y) in found.items()} == placed


@pytest.mark.parametrize("mode", ["row", "column", "grid", "byType"])
def test_what_is_in_order_stays_as_it_is(mode: str) -> None:
    boxes = at("a 0 0 10 10; b 3 3 30 20; c 40 7 10 10; d 0 90 5 5")
    once = one(boxes, mode)
    again = [replace(b, x=once[b.id][0], y=once[b.id][1]) for b in boxes]
    assert one(again, mode) == once


def test_it_goes_round_what_stays_the_short_way() -> None:
    boxes = [*at("a 0 0 10 10; b 0 0 10 10"), *at("wall 12 -100 10 400")]
    placed = arranged(boxes, [], [Group(ids=("a", "b"), mode="row")], gap=5)
    assert placed == {"a": (-18, 0), "b": (-3, 0)}  # left by 18; to the right it would have been 27


def test_groups_are_blocks_one_below_the_other() -> None:
    boxes = at("a 0 0 10 10; b 0 0 10 10; c 0 0 10 10; d 0 0 10 10")
    placed = arranged(boxes, [], [Group(ids=("c", "d"), mode="row"), Group(ids=("a", "b"), mode="column")], gap=10)
    assert placed == {"c": (0, 0), "d": (20, 0), "a": (0, 30), "b": (0, 50)}


def test_no_room_is_said() -> None:
    wall = Box(id="wall", x=-REACH, y=-REACH, w=2 * REACH, h=2 * REACH)
    with pytest.raises(NoRoom):
        arranged([*at("a 0 0 10 10"), wall], [], [Group(ids=("a",))])


def test_a_longer_path_is_a_later_layer_and_crossings_are_taken_out() -> None:
    boxes = at("a 0 0 10 10; b 0 50 10 10; c 90 0 10 10; d 90 50 10 10; e 200 0 10 10")
    placed = one(boxes, "flow", [("a", "d"), ("b", "c"), ("d", "e"), ("a", "e")])
    assert placed["e"][0] > placed["d"][0] > placed["a"][0]
    assert (placed["a"][1] < placed["b"][1]) == (placed["d"][1] < placed["c"][1])


def test_fifty_nodes_among_ten_thousand_that_stay() -> None:
    field = [Box(id=f"s{n}", x=(n % 100) * 400, y=(n // 100) * 300, w=340, h=240) for n in range(10_000)]
    mine = [Box(id=f"m{n}", x=20_000, y=15_000, w=340, h=240) for n in range(50)]
    edges = [(f"m{n}", f"m{(n * 7) % 50}") for n in range(50)]
    placed = arranged([*field, *mine], edges, [Group(ids=tuple(b.id for b in mine))])
    after = [replace(b, x=placed[b.id][0], y=placed[b.id][1]) for b in mine]
    assert not crowded([*field, *after], after)
    assert crowded([*field, *mine], mine)
