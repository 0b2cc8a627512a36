"""canvas_arrange_nodes: new places for nodes that lie over one another, or where a person wants them in order.

The layout is `arrange`'s; here it is decided what may be moved. What is locked, holds others or is held by another stays, and so
does everything while nothing overlaps and no person has asked for order: by a yes with the call, or a wish kept in the session.
After a real one the session reads the canvas again before it writes (S1.61). Seed: S1.60, S1.61, S1.74.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from ..contract.problem import FieldProblem, problem
from ..contract.session import Blocked
from . import limits
from .arrange import ALIGNS, GAP, MODES, Box, Group, NoRoom, arranged, crowded
from .model import Draft, Node
from .ops import HASH, ID
from .seam import Asked, Doing, Done, Plan, writing

#: A kind of handle a person gives a session: what they wish for.
WISH: Final = "wish"
ARRANGE: Final = "arrange"
WISHES: Final = (ARRANGE,)

_IDS: Final = {"type": "array", "items": ID, "minItems": 1, "maxItems": limits.ARRANGED, "uniqueItems": True}
SCHEMA: Final[dict[str, Any]] = {
    "type": "object", "required": ["snapshotHash"],
    "properties": {
        "snapshotHash": HASH, "nodeIds": {**_IDS, "description": "which; without it all that may be moved"},
        "mode": {"enum": list(MODES), "description": "auto: a flow where there are connections, else by type"},
        "groups": {
            "type": "array", "minItems": 1, "maxItems": limits.GROUPS,
            "items": {
                "type": "object", "required": ["nodeIds"],
                "properties": {
                    "nodeIds": _IDS, "label": {"type": "string", "maxLength": limits.TITLE_CHARS},
                    "mode": {"enum": [m for m in MODES if m != "auto"]},
                },
            },
        },
        "align": {"enum": list(ALIGNS)}, "gap": {"type": "number", "minimum": 0, "maximum": limits.ARRANGE_GAP},
        "dryRun": {"type": "boolean", "description": "only tell what would move"},
    },
}  # fmt: skip


def _plan(asked: Asked) -> Plan:
    every = asked.board.nodes(0, asked.board.head.nodes)
    named, problems = _named(asked.args, {node.id: node for node in every})
    needs = tuple(need for node_id, field in named.items() for need in asked.must_know(field, node_id))
    stays = _staying(every)
    chosen = [i for i in named if i not in stays] if named else [node.id for node in every if node.id not in stays]
    if len(chosen) > limits.ARRANGED:
        problems.append(FieldProblem("nodeIds", "item_count", f"{len(chosen)} nodes may be moved; name at most {limits.ARRANGED}"))
    if problems:
        return Plan(problems=tuple(problems), needs=needs)
    groups = list(_groups(asked.args, chosen))
    draft = asked.draft()
    moved = _move(asked, draft, every, groups)
    told = {
        "nodeIds": chosen, "groups": [{"nodeIds": list(g.ids), "mode": g.mode, **({"label": g.label} if g.label else {})} for g in groups],
        "skipped": [{"nodeId": i, "reason": stays[i]} for i in named if i in stays],
    }  # fmt: skip
    if asked.args.get("dryRun"):
        return Plan(needs=needs, resolved={"canvasId": asked.canvas_id, "snapshotHash": asked.board.head.content, "wouldMove": moved, **told})
    told = {"moved": moved, **told, "rereadRequired": bool(moved)}
    return Plan(changes=draft.changes(), needs=needs, resolved=told, data=told, warnings=() if moved else ("nothing_to_arrange",))


def _named(args: Mapping[str, Any], nodes: Mapping[str, Node]) -> tuple[dict[str, str], list[FieldProblem]]:
    """Each node that was named, with the field that named it; nothing is named twice, or is not there."""
    fields = [(f"groups[{n}].nodeIds[{m}]", i) for n, group in enumerate(args.get("groups", ())) for m, i in enumerate(group["nodeIds"])]
    named: dict[str, str] = {}
    problems = [FieldProblem(field, "not_found", "there is no such node") for field, i in fields if i not in nodes]
    for field, node_id in fields:
        if node_id in named:
            problems.append(FieldProblem(field, "duplicate", "the node is in another group already"))
        named.setdefault(node_id, field)
    for number, node_id in enumerate(args.get("nodeIds", ())):
        if node_id not in nodes:
            problems.append(FieldProblem(f"nodeIds[{number}]", "not_found", "there is no such node"))
        named.setdefault(node_id, f"nodeIds[{number}]")
    return named, problems


def _staying(nodes: Iterable[Node]) -> dict[str, str]:
    """What is never moved, and why."""
    every = list(nodes)
    holding = {node.parent for node in every}
    stays = {node.id: "container" for node in every if node.type == "frame" or node.id in holding}
    stays |= {node.id: "contained" for node in every if node.parent}
    return stays | {node.id: "locked" for node in every if node.locked}


def _groups(args: Mapping[str, Any], chosen: list[str]) -> Iterator[Group]:
    """The groups asked for, of what may be moved, then the rest as one."""
    mode, rest = args.get("mode", "auto"), dict.fromkeys(chosen)
    for group in args.get("groups", ()):
        ids = tuple(i for i in group["nodeIds"] if i in rest)
        for i in ids:
            del rest[i]
        if ids:
            yield Group(ids=ids, mode=group.get("mode", mode), label=group.get("label", ""))
    if rest:
        yield Group(ids=tuple(rest), mode=mode)


def _move(asked: Asked, draft: Draft, every: list[Node], groups: list[Group]) -> list[dict[str, Any]]:
    """Puts the nodes of the groups where they belong on the draft; what moved. Raises ProblemError(conflict) where there is no room."""
    boxes = [Box(id=n.id, x=n.x, y=n.y, w=n.width, h=n.height, kind=n.type) for n in every]
    mine = {i for group in groups for i in group.ids}
    wished = asked.yes or asked.session.handles.knows(WISH, ARRANGE)
    if not mine or not (wished or crowded(boxes, [box for box in boxes if box.id in mine])):
        return []
    edges = [(edge.source, edge.target) for node_id in sorted(mine) for edge in draft.edges_at(node_id) if edge.source == node_id]
    align, laid = asked.args.get("align"), "align" not in asked.args or "mode" in asked.args or "groups" in asked.args
    try:
        places = arranged(boxes, edges, groups, align=align, laid=laid, gap=asked.args.get("gap", GAP))
    except NoRoom:
        raise problem("conflict", "there is no room for these nodes", stage="plan", details={"reason": "no_room", "nodeIds": sorted(mine)}) from None
    moved = [node for node in every if node.id in places and places[node.id] != (node.x, node.y)]
    for node in moved:
        draft.put(replace(node, x=places[node.id][0], y=places[node.id][1]))
    return [{"nodeId": n.id, "x": places[n.id][0], "y": places[n.id][1], "before": {"x": n.x, "y": n.y}} for n in moved]


def _after(asked: Asked, plan: Plan) -> Done:
    if not plan.changes:
        return Done()
    return Done(facts=(Blocked(asked.canvas_id, "nodes were arranged; read the canvas again with canvas_get_state"),))


TABLE: Final[tuple[Doing, ...]] = (
    writing("arrange_nodes", SCHEMA, "Move nodes so that none lies over another; texts and connections stay.", _plan, after=_after),
)
