"""What storyboards and batch tables share: rows with ids the server makes, read by pages, edited by actions, one node hash.

Theory of operation. A row id is a handle, issued under its node and the hash it was read at, the epoch. Which epochs hold is told
for the present hash alone, so a reading at another hash withdraws what was given before: only the latest ids are valid (S1.26).
Besides, a row is changed or removed only by who has read it whole as it stands, and rows are added, or the whole table changed,
only by who has read to the end at this hash (S1.33, S1.54). What the own write changed is known without reading again, so an
edit hands its epochs on to the hash after it, at the same cost however many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..contract.problem import FieldProblem, bad_arguments, problem
from ..contract.session import Fact, Issued, Need, Read, Session
from ..contract.snapshot import digest
from . import limits
from .model import Draft, Node, Row, row_digest

#: Kinds of handles, and of readings.
ROW: Final = "row"
EPOCH: Final = "rowEpoch"
OFFSET: Final = "rowOffset"
ALL: Final = "rows"
#: Levels of a reading of a row.
CUT, WHOLE = 1, 2


class Edited(Struct, frozen=True, kw_only=True):
    """What an edit would do to the draft it was planned on. `problems` = why it may not; `rows` = ids it made or changed."""

    problems: tuple[FieldProblem, ...] = ()
    rows: tuple[str, ...] = ()
    data: dict[str, Any] = {}


def acting(fields: Iterable[str], table: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> dict[str, Any]:
    """A schema fragment: which of `fields` each action needs and which it may have; it refuses those of the other actions."""
    return {
        "allOf": [
            {
                "if": {"properties": {"action": {"const": action}}, "required": ["action"]},
                "then": {"required": list(needs), "properties": {f: False for f in fields if f not in (*needs, *may)}},
            }
            for action, (needs, may) in table.items()
        ]
    }


def made_id(node_id: str, mark: str, number: int) -> str:
    """The id of a new row: the server's own, the same when the same operation is planned again."""
    return f"row_{digest([node_id, mark, number])[:16]}"


def structured(draft: Draft, node_id: str, kind: str) -> Node:
    """The node of this type. Raises ProblemError: not_found, type_mismatch."""
    node = draft.node(node_id)
    if node is None:
        raise problem("not_found", f"there is no node {node_id!r}", stage="resolve", details={"nodeId": node_id})
    if node.type != kind:
        raise problem("type_mismatch", f"{node_id} is a {node.type}, not a {kind}", stage="resolve", details={"nodeId": node_id, "type": node.type})
    return node


def row_named(rows: Sequence[Row], row_id: str) -> tuple[int, Row] | FieldProblem:
    """Where a row stands, counted from 0; titles and numbers name nothing."""
    at = next((n for n, row in enumerate(rows) if row.id == row_id), None)
    return FieldProblem("rowId", "not_found", "there is no such row") if at is None else (at, rows[at])


# --- reading by pages ------------------------------------------------------------------------------------------------


def page(rows: Sequence[Row], offset: int, count: int, shown: Callable[[int, Row], dict[str, Any]]) -> dict[str, Any]:
    """`rows` of one page with its range; at least one row, and no more bytes than a page may have.

    Raises ProblemError(validation) for an offset behind the last row.
    """
    if offset > len(rows):
        raise bad_arguments([FieldProblem("offset", "out_of_range", f"there are {len(rows)} rows")])
    out, size = list[dict[str, Any]](), 0
    for number, row in enumerate(rows[offset : offset + count], offset):
        told = shown(number, row)
        size += len(msgspec.json.encode(told))
        if out and size > limits.PAGE_BYTES:
            break
        out.append(told)
    end = offset + len(out)
    more = end < len(rows)
    return {
        "rows": out, "range": {"offset": offset, "count": len(out), "total": len(rows)}, "totalRows": len(rows), "hasMore": more,
        "nextOffset": end if more else None,
    }  # fmt: skip


def check_offset(session: Session, node: Node, field: str, offset: int) -> list[FieldProblem]:
    """An offset must be 0 or have been given out for the node as it stands. Raises revision_conflict when it has changed since (S1.32)."""
    handles = session.handles
    if not session.lasting or offset == 0 or handles.knows(OFFSET, offset, node.id, node.hash):
        return []
    if handles.knows(OFFSET, offset, node.id):
        details = {"field": field, "current": node.hash, "changed": {"updated": [node.id]}}
        raise problem("revision_conflict", "the node has changed since the page before; read from offset 0", stage="precondition", details=details)
    return handles.check(field, OFFSET, offset, node.id)


def read_facts(node: Node, rows: Sequence[Row], told: Mapping[str, Any]) -> tuple[Fact, ...]:
    """What a session knows by a page: the ids on it, how far each row was shown, the next offset, and whether it was the last page."""
    by_id = {row.id: row for row in rows}
    ids = [one["rowId"] for one in told["rows"]]
    seen = [Read(ROW, f"{node.id}/{one['rowId']}", CUT if one.get("truncated") else WHOLE, row_digest(by_id[one["rowId"]])) for one in told["rows"]]
    offsets = (told["nextOffset"],) if told["hasMore"] else ()
    last = () if told["hasMore"] else (Read(ALL, node.id, 1, node.hash),)
    epoch = (Issued(EPOCH, (node.hash,), node.id, node.hash), Issued(ROW, tuple(ids), f"{node.id}@{node.hash}"))
    return (*epoch, Issued(OFFSET, offsets, node.id, node.hash), *seen, *last)


# --- the rules of order ----------------------------------------------------------------------------------------------


def needs(node: Node, rows: Sequence[Row], args: Mapping[str, Any]) -> tuple[Need, ...]:
    """What must have been read before this edit."""
    if "rowId" not in args:
        return (Need("action", ALL, node.id, 1, node.hash),)
    own = next((row for row in rows if row.id == args["rowId"]), None)
    return (Need("rowId", ROW, f"{node.id}/{own.id}", WHOLE, row_digest(own)),) if own else ()


def check_row(session: Session, node: Node, args: Mapping[str, Any]) -> list[FieldProblem]:
    """A row must be named by an id of the latest reading."""
    if not session.lasting or "rowId" not in args:
        return []
    handles, row_id = session.handles, args["rowId"]
    if any(handles.knows(ROW, row_id, f"{node.id}@{epoch}") for epoch in handles.given(EPOCH, node.id, node.hash)):
        return []
    return [FieldProblem("rowId", "not_issued", f"{str(row_id)[:80]} was not given out by the latest reading")]


def write_facts(session: Session, was: str, now: Node, rows: Sequence[Row], touched: Iterable[str]) -> tuple[Fact, ...]:
    """What a session knows after its own write: what it knew at the hash before (`was`; "" = it made the node), and what it wrote itself."""
    mine = set(touched)
    epochs = tuple(sorted(map(str, session.handles.given(EPOCH, now.id, was)))) or (now.hash,)
    whole = not was or not session.unread([Need("", ALL, now.id, 1, was)])
    seen = [Read(ROW, f"{now.id}/{row.id}", WHOLE, row_digest(row)) for row in rows if row.id in mine]
    issued = (Issued(EPOCH, epochs, now.id, now.hash), Issued(ROW, tuple(sorted(mine)), f"{now.id}@{epochs[0]}"))
    return (*issued, *seen, *((Read(ALL, now.id, 1, now.hash),) if whole else ()))
