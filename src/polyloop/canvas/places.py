"""Where a new node finds room: never over another one."""

from __future__ import annotations

from typing import Final

from ..contract.problem import problem
from . import limits
from .model import Draft, Node

#: Places tried beside a node before the free line below everything is taken.
_TRIES: Final = 12
#: Where a line of new nodes ends.
_LINE: Final = 60_000
#: From one column of places that are tried to the next.
_COLUMN: Final = 1_500


def beside(draft: Draft, linked: Node, width: int, height: int, *, before: bool = False) -> tuple[int, int] | None:
    """The first free place right of a node (left of it: `before`), going down; None = there is none near."""
    x = linked.x - limits.GAP - width if before else linked.x + linked.width + limits.GAP
    y = linked.y
    for _ in range(_TRIES):
        if not (abs(x) <= limits.REACH and abs(y) <= limits.REACH):
            return None
        in_the_way = draft.at(x, y, width, height)
        if not in_the_way:
            return x, y
        y = max(n.y + n.height for n in in_the_way) + limits.GAP
    return None


def below(draft: Draft, width: int, height: int, line: tuple[int, int] | None = None) -> tuple[int, int]:
    """A place for something that belongs beside nothing: on the line of the newest node (or `line`), else on a new one below everything.

    Raises ProblemError(conflict) when below everything is out of reach, and nothing is free near the middle either.
    """
    newest = draft.newest
    here = line or ((newest.x + newest.width + limits.GAP, newest.y) if newest else (0, 0))
    if here[0] + width <= _LINE and not draft.at(*here, width, height):
        return here
    if draft.bottom + limits.GAP <= limits.REACH:
        return 0, draft.bottom + limits.GAP
    columns = (beside(draft, Node(id="", type="", width=0, height=0, x=x, y=0), width, height) for x in range(0, _LINE, _COLUMN))
    if spot := next(filter(None, columns), None):
        return spot
    raise problem("conflict", "there is no free place near; name one", stage="plan", details={"reason": "no_room"})
