"""What was done on a canvas, and taking it back: change sets as they were written, newest last.

A write is a `do`; undoing one is a write of its own that carries out its inverse, and redoing it another. Undo takes back the last
`do` that stands, so what it finds is what that write left, and nothing of anybody else's is lost. A new `do` makes what was undone
before it unreachable. Between them results are delivered to nodes; a delivery is nobody's to take back, so a node keeps what was
delivered to it, and one that comes back comes with what has been meanwhile. Seed: S1.87 (nothing is replayed on another state).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from .board import Board, decoded, stored
from .model import Change, Node

#: What is on a node by delivery.
_DELIVERED: Final = frozenset({"asset", "task"})
_PAST: Final = "rev, content, kind, undoes, state, actor, operation, at, changes"


class Past(Struct, frozen=True, kw_only=True):
    """One entry. kind: do, undo, redo; `undoes` = the revision it takes back or brings back; state of a `do`: done, undone, gone (undone,
    and then something else was done). `content` = the canvas' hash after it; `at` = epoch ms.
    """

    rev: int
    content: str
    kind: str
    undoes: int
    state: str
    actor: str
    operation: str
    at: int
    changes: tuple[Change, ...]


def entries(board: Board, before: int, count: int) -> list[Past]:
    """Newest first, below a revision."""
    return _found(board, "rev < ? order by rev desc limit ?", before, count)


def last_done(board: Board) -> Past | None:
    """What undo would take back."""
    return next(iter(_found(board, "kind = 'do' and state = 'done' order by rev desc limit 1")), None)


def first_undone(board: Board) -> Past | None:
    """What redo would bring back."""
    return next(iter(_found(board, "kind = 'do' and state = 'undone' order by rev limit 1")), None)


def mark(board: Board, rev: int, state: str) -> None:
    board.tx.run("update canvas_change set state = ? where tenant = ? and canvas = ? and rev = ?", state, *board.key, rev)


def carried_out(board: Board, changes: Iterable[Change], of: Callable[[Board, Node], dict[str, Any]]) -> tuple[Change, ...]:
    """These changes on the canvas as it stands: with what was delivered since they were written, and (`of`) while their nodes were away."""
    return tuple(
        Change(was, _with_delivered(board, was, c.after, of) if isinstance(c.after, Node) else c.after) for c in changes for was in [stored(board, c)]
    )


def _with_delivered(board: Board, was: object, after: Node, of: Callable[[Board, Node], dict[str, Any]]) -> Node:
    there = was.body if isinstance(was, Node) else {**after.body, **of(board, after)}
    kept = {name: value for name, value in after.body.items() if name not in _DELIVERED}
    return replace(after, body=kept | {name: value for name, value in there.items() if name in _DELIVERED})


def _found(board: Board, where: str, *values: int) -> list[Past]:
    rows: Sequence[tuple[object, ...]] = board.tx.rows(
        f"select {_PAST} from canvas_change where tenant = ? and canvas = ? and {where}",  # noqa: S608  # our own
        *board.key, *values,
    )  # fmt: skip
    names = _PAST.split(", ")
    return [Past(**{**dict(zip(names, row, strict=True)), "changes": decoded(str(row[-1]))}) for row in rows]  # pyright: ignore[reportArgumentType]  # columns by name
