"""Where the nodes of a canvas should stand: a pure, deterministic layout over plain boxes.

Theory of operation. What may be moved is laid out as blocks (one per group, one per connected part of a flow), each free of
overlap in itself; the blocks are stacked into one, and that one is shifted, as a whole and as little as possible, to where it
touches nothing that stays. So no node that was laid out can lie over anything: not over another, not over what is locked,
contained or was not asked for. Order comes from where the nodes stood and from their ids, never from the order they were
handed in. Seed: S1.60, S1.74.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from .limits import REACH

Mode = Literal["auto", "flow", "byType", "row", "column", "grid"]
Align = Literal["left", "centerX", "right", "top", "centerY", "bottom", "distributeX", "distributeY"]
Edge = tuple[str, str]
MODES: Final = ("auto", "flow", "byType", "row", "column", "grid")
ALIGNS: Final = ("left", "centerX", "right", "top", "centerY", "bottom", "distributeX", "distributeY")
GAP: Final = 60
#: Passes over the layers of a flow, to and fro, in which crossings are taken out.
SWEEPS: Final = 8


class NoRoom(Exception):
    """What is to be arranged fits nowhere between what stays and the edge of the canvas."""


class Box(Struct, frozen=True, kw_only=True):
    """A node as the layout sees it, in canvas units, `x` to the right and `y` down."""

    id: str
    x: float
    y: float
    w: float
    h: float
    kind: str = ""


class Group(Struct, frozen=True, kw_only=True):
    """Nodes laid out as a block of their own."""

    ids: tuple[str, ...]
    mode: Mode = "auto"
    label: str = ""


def overlapping(a: Box, b: Box) -> bool:
    """Do two nodes share an area? Touching edges do not count."""
    apart = a.x + a.w <= b.x or b.x + b.w <= a.x or a.y + a.h <= b.y or b.y + b.h <= a.y
    return not apart and a.id != b.id


def crowded(boxes: Iterable[Box], chosen: Iterable[Box]) -> bool:
    """Does one of `chosen` lie over anything?"""
    mine = list(chosen)
    if not mine:
        return False
    area = _extent(mine)
    near = [box for box in boxes if overlapping(area, box)]
    return any(overlapping(one, other) for one in mine for other in near)


def arranged(
    boxes: Sequence[Box], edges: Iterable[Edge], groups: Sequence[Group], *, align: Align | None = None, laid: bool = True, gap: float = GAP
) -> dict[str, tuple[int, int]]:
    """New positions of the nodes of `groups` (all of which may be moved), by id; whole numbers. `laid` False = only `align`.

    Raises NoRoom.
    """
    by_id = {box.id: box for box in boxes}
    links = sorted(edges)
    gap = math.ceil(gap)
    blocks: list[list[Box]] = []
    for group in groups:
        block = [by_id[i] for i in group.ids]
        if laid:
            block = _LAYOUTS[_meant(group.mode, block, links)](block, links, gap)
        blocks.append(_aligned(block, align, gap) if align else block)
    mine = {i for group in groups for i in group.ids}
    start = _extent([by_id[i] for i in mine])
    whole = _stacked(blocks, gap, across=2 * gap) if len(blocks) > 1 else _from_zero(blocks[0])
    return _placed(whole, start, [box for box in boxes if box.id not in mine], gap)


def _meant(mode: Mode, block: Sequence[Box], edges: Iterable[Edge]) -> str:
    if mode != "auto":
        return mode
    ids = {box.id for box in block}
    return "flow" if any(a in ids and b in ids and a != b for a, b in edges) else "byType"


# --- the layouts: each gives its boxes new places, free of overlap, around the origin of its own ---------------------------


def _row(block: Sequence[Box], _: object, gap: float) -> list[Box]:
    x, out = 0.0, list[Box]()
    for box in sorted(block, key=lambda b: (b.x, b.y, b.id)):
        out.append(replace(box, x=x, y=0))
        x += math.ceil(box.w) + gap
    return out


def _column(block: Sequence[Box], _: object, gap: float) -> list[Box]:
    return [_turned(box) for box in _row([_turned(box) for box in block], _, gap)]


def _turned(box: Box) -> Box:
    return replace(box, x=box.y, y=box.x, w=box.h, h=box.w)


def _grid(block: Sequence[Box], _: object, gap: float) -> list[Box]:
    """Rows in reading order; a column is as wide as its widest, a row as high as its highest."""
    order = sorted(block, key=lambda b: (b.y, b.x, b.id))
    columns = math.ceil(math.sqrt(len(order)))
    rows = [order[n : n + columns] for n in range(0, len(order), columns)]
    widths = [max(math.ceil(row[c].w) for row in rows if c < len(row)) for c in range(columns)]
    y, out = 0.0, list[Box]()
    for row in rows:
        out += [replace(box, x=sum(widths[:c]) + c * gap, y=y) for c, box in enumerate(row)]
        y += max(math.ceil(box.h) for box in row) + gap
    return out


def _by_kind(block: Sequence[Box], edges: object, gap: float) -> list[Box]:
    kinds: defaultdict[str, list[Box]] = defaultdict(list)
    for box in block:
        kinds[box.kind].append(box)
    return _stacked([_grid(kinds[kind], edges, gap) for kind in sorted(kinds)], gap, across=gap)


def _flow(block: Sequence[Box], edges: Sequence[Edge], gap: float) -> list[Box]:
    """Layers from left to right along the edges; parts that are not connected below one another, what has no edge last, as a grid."""
    by_id = {box.id: box for box in sorted(block, key=lambda b: (b.y, b.x, b.id))}
    links = _without_cycles(list(by_id), [(a, b) for a, b in edges if a in by_id and b in by_id and a != b])
    parts, alone = list[list[Box]](), list[Box]()
    for ids in _connected(list(by_id), links):
        if len(ids) == 1:
            alone.append(by_id[ids[0]])
        else:
            parts.append(_layered([by_id[i] for i in ids], links, gap))
    return _stacked([*parts, *([_grid(alone, (), gap)] if alone else [])], gap, across=gap)


_LAYOUTS: Final[Mapping[str, Callable[[Sequence[Box], Any, float], list[Box]]]] = {
    "row": _row, "column": _column, "grid": _grid, "byType": _by_kind, "flow": _flow,
}  # fmt: skip


# --- a flow -----------------------------------------------------------------------------------------------------------


def _neighbours(edges: Iterable[Edge]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    after: defaultdict[str, list[str]] = defaultdict(list)
    before: defaultdict[str, list[str]] = defaultdict(list)
    for a, b in edges:
        after[a].append(b)
        before[b].append(a)
    return after, before


def _without_cycles(ids: Sequence[str], edges: Sequence[Edge]) -> list[Edge]:
    """The edges that lead back to what is still being walked are turned round."""
    after, _ = _neighbours(edges)
    walked, walking, back = set[str](), set[str](), set[Edge]()
    for root in ids:
        path = [] if root in walked else [(root, iter(after.get(root, ())))]
        walking.update(node for node, _ in path)
        while path:
            node, rest = path[-1]
            follower = next(rest, None)
            if follower is None:
                path.pop()
                walking.discard(node)
                walked.add(node)
            elif follower in walking:
                back.add((node, follower))
            elif follower not in walked:
                walking.add(follower)
                path.append((follower, iter(after.get(follower, ()))))
    return sorted({(b, a) if (a, b) in back else (a, b) for a, b in edges})


def _connected(ids: Sequence[str], edges: Iterable[Edge]) -> list[list[str]]:
    after, before = _neighbours(edges)
    seen, parts = set[str](), list[list[str]]()
    for root in ids:
        if root in seen:
            continue
        part, seen = [root], seen | {root}
        for node in part:
            fresh = [n for n in dict.fromkeys((*after.get(node, ()), *before.get(node, ()))) if n not in seen]
            part += fresh
            seen.update(fresh)
        parts.append([i for i in ids if i in set(part)])
    return parts


def _layered(block: Sequence[Box], edges: Sequence[Edge], gap: float) -> list[Box]:
    by_id = {box.id: box for box in block}
    after, before = _neighbours((a, b) for a, b in edges if a in by_id)
    layers = _ordered(_layers(list(by_id), after, before), after, before)
    x, middle, out = 0.0, dict[str, float](), list[Box]()
    for layer in layers:
        sources = {i: [middle[s] for s in before.get(i, ())] for i in layer}
        wished = {i: sum(middles) / len(middles) for i, middles in sources.items() if middles}
        out += _beside([replace(by_id[i], x=x) for i in layer], wished, gap)
        middle |= {box.id: box.y + box.h / 2 for box in out[-len(layer) :]}
        x += max(math.ceil(by_id[i].w) for i in layer) + gap
    return out


def _beside(layer: Sequence[Box], wished: Mapping[str, float], gap: float) -> list[Box]:
    """One layer, its nodes in this order with their middles as near as may be to those wished, and none nearer than the rest."""
    low, out = -math.inf, list[Box]()
    for box in layer:
        y = math.ceil(max(wished[box.id] - box.h / 2 if box.id in wished else max(low, 0), low))
        out.append(replace(box, y=y))
        low = y + math.ceil(box.h) + gap
    off = [box.y + box.h / 2 - wished[box.id] for box in out if box.id in wished]
    shift = math.floor(sum(off) / len(off)) if off else 0
    return [replace(box, y=box.y - shift) for box in out]


def _layers(ids: Sequence[str], after: Mapping[str, list[str]], before: Mapping[str, list[str]]) -> list[list[str]]:
    """Each node one layer behind the last of its sources."""
    level, waiting = dict.fromkeys(ids, 0), {i: len(before.get(i, ())) for i in ids}
    ready = [i for i in ids if not waiting[i]]
    for node in ready:
        for follower in after.get(node, ()):
            level[follower] = max(level[follower], level[node] + 1)
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    layers: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for i in ids:
        layers[level[i]].append(i)
    return layers


def _ordered(layers: list[list[str]], after: Mapping[str, list[str]], before: Mapping[str, list[str]]) -> list[list[str]]:
    """Each node near the mean place of its neighbours in the layers before, then behind, until nothing changes."""
    for sweep in range(SWEEPS):
        earlier = [list(layer) for layer in layers]
        forward = sweep % 2 == 0
        place = {i: n / len(layer) for layer in layers for n, i in enumerate(layer)}
        for layer in layers if forward else reversed(layers):
            near = {i: [place[n] for n in (before if forward else after).get(i, ())] or [place[i]] for i in layer}
            layer.sort(key=lambda i, near=near: sum(near[i]) / len(near[i]))
            place |= {i: n / len(layer) for n, i in enumerate(layer)}
        if layers == earlier and sweep:
            break
    return layers


# --- blocks ----------------------------------------------------------------------------------------------------------


def _aligned(block: Sequence[Box], how: Align, gap: float) -> list[Box]:
    """Lined up on one edge or middle, or spread evenly; moved along the other axis, in their order, only where they would overlap."""
    if how in ("top", "centerY", "bottom", "distributeY"):
        turned: dict[str, Align] = {"top": "left", "centerY": "centerX", "bottom": "right", "distributeY": "distributeX"}
        return [_turned(box) for box in _aligned([_turned(box) for box in block], turned[how], gap)]
    if how == "distributeX":
        return _spread(sorted(block, key=lambda b: (b.x + b.w / 2, b.y, b.id)))
    left, right = min(b.x for b in block), max(b.x + b.w for b in block)
    share = {"left": 0, "centerX": 0.5, "right": 1}[how]
    low, out = -math.inf, list[Box]()
    for box in sorted(block, key=lambda b: (b.y, b.x, b.id)):
        y = box.y if box.y >= low else low + gap
        out.append(replace(box, x=math.floor(left + (right - left - box.w) * share), y=math.ceil(y)))
        low = math.ceil(y) + math.ceil(box.h)
    return out


def _spread(order: Sequence[Box]) -> list[Box]:
    """Equal spaces from the first to the last; closer than touching they cannot stand, so they may reach further."""
    first, last = order[0], max(order, key=lambda b: b.x + b.w)
    room = last.x + last.w - first.x - sum(math.ceil(b.w) for b in order)
    space, x, out = max(0, math.floor(room / max(1, len(order) - 1))), math.floor(first.x), list[Box]()
    for box in order:
        out.append(replace(box, x=x, y=math.floor(box.y)))
        x += math.ceil(box.w) + space
    return out


def _extent(block: Sequence[Box]) -> Box:
    x, y = min(b.x for b in block), min(b.y for b in block)
    return Box(id="", x=x, y=y, w=max(b.x + b.w for b in block) - x, h=max(b.y + b.h for b in block) - y)


def _from_zero(block: Sequence[Box], down: float = 0) -> list[Box]:
    start = _extent(block)
    return [replace(b, x=math.floor(b.x - start.x), y=math.floor(b.y - start.y) + down) for b in block]


def _stacked(blocks: Sequence[Sequence[Box]], gap: float, *, across: float) -> list[Box]:
    """One below the other."""
    y, out = 0.0, list[Box]()
    for block in blocks:
        here = _from_zero(block, y)
        out += here
        y = math.ceil(max(b.y + b.h for b in here)) + across
    return out


def _placed(block: Sequence[Box], start: Box, others: Iterable[Box], gap: float) -> dict[str, tuple[int, int]]:
    """The block at `start`, or shifted to the nearest place along one axis where nothing of `others` is within `gap`."""
    area, last = _extent(block), (max(b.x for b in block), max(b.y for b in block))
    x, y = (math.floor(max(min(value, REACH - far), -REACH)) for value, far in zip((start.x, start.y), last, strict=True))
    stays = list(others)
    shifts = [
        *((step, 0) for step in _steps(x, area.w, [(b.x, b.x + b.w) for b in stays if _meets(b.y, b.h, y, area.h, gap)], gap)),
        *((0, step) for step in _steps(y, area.h, [(b.y, b.y + b.h) for b in stays if _meets(b.x, b.w, x, area.w, gap)], gap)),
    ]
    inside = [(across, down) for across, down in shifts if _fits(x + across, last[0]) and _fits(y + down, last[1])]
    if not inside:
        raise NoRoom
    across, down = min(inside, key=lambda s: (abs(s[0]) + abs(s[1]), s[0], -s[1]))
    return {b.id: (int(b.x + x + across), int(b.y + y + down)) for b in block}


def _fits(first: float, far: float) -> bool:
    return first >= -REACH and first + far <= REACH


def _meets(a: float, a_size: float, b: float, b_size: float, gap: float) -> bool:
    return a < b + b_size + gap and b < a + a_size + gap


def _steps(at: int, size: float, taken: Iterable[tuple[float, float]], gap: float) -> list[int]:
    """How far to go along one axis to the nearest free stretch on each side; 0 when it is free already."""
    ahead, behind = at, at
    spans = sorted(taken)
    for low, high in spans:
        if low - gap < ahead + size and ahead < high + gap:
            ahead = math.ceil(high + gap)
    for low, high in sorted(spans, key=lambda s: -s[1]):
        if low - gap < behind + size and behind < high + gap:
            behind = math.floor(low - gap - size)
    return [ahead - at, behind - at]
