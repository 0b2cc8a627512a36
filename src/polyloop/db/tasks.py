"""Leased work that outlives its caller: one row a task, taken by one worker at a time.

Theory of operation. `due` says when a task may be taken: at once when it is new, at the end of the lease while a worker has it,
never (NEVER) once it has ended. Taking a task raises `attempt`, and a worker changes it only under the attempt it was given:
whoever slept through its lease finds `keep` false and has lost it. What the states mean is the subject's business, told in
`contract.task`; `body` is the subject's own JSON. A subject adds TABLES to its schema; subjects share the table by their kinds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from .tx import Tx

#: When a task that has ended is due.
NEVER: Final = 2**53 - 1

TABLES: Final = """
create table if not exists task (
  tenant text not null, id text not null, kind text not null, state text not null, session text not null, attempt bigint not null,
  due bigint not null, no bigint not null, body text not null, primary key (tenant, id));
create index if not exists task_due on task (tenant, due);
create index if not exists task_session on task (tenant, session);
create index if not exists task_no on task (tenant, no);
"""
_FIELDS: Final = "tenant, id, kind, state, session, attempt, due, body"


class Task(NamedTuple):
    """One task as it stands. `attempt` = times it was taken; `due` in epoch ms."""

    tenant: str
    id: str
    kind: str
    state: str
    session: str
    attempt: int
    due: int
    body: str


def add(tx: Tx, task: Task) -> None:
    """A new one; its place in every list is behind all there are."""
    tx.run(
        f"insert into task ({_FIELDS}, no) values (?, ?, ?, ?, ?, ?, ?, ?, (select coalesce(max(no), 0) + 1 from task where tenant = ?))",  # noqa: S608  # fields of our own
        *task, task.tenant,
    )  # fmt: skip


def find(tx: Tx, tenant: str, task_id: str) -> Task | None:
    row = tx.row(f"select {_FIELDS} from task where tenant = ? and id = ?", tenant, task_id)  # noqa: S608  # as above
    return Task(*row) if row else None


def of_session(tx: Tx, tenant: str, session: str) -> list[Task]:
    """Oldest first."""
    return [Task(*row) for row in tx.rows(f"select {_FIELDS} from task where tenant = ? and session = ? order by no", tenant, session)]  # noqa: S608  # as above


def newest(tx: Tx, tenant: str, kinds: Collection[str], limit: int) -> list[Task]:
    """The latest of these kinds, newest first."""
    marks = ", ".join("?" * len(kinds))
    rows = tx.rows(f"select {_FIELDS} from task where tenant = ? and kind in ({marks}) order by no desc limit ?", tenant, *kinds, limit)  # noqa: S608  # as above
    return [Task(*row) for row in rows]


def live(tx: Tx, tenant: str, kinds: Collection[str]) -> list[Task]:
    """Those of these kinds that have not ended, oldest first."""
    marks = ", ".join("?" * len(kinds))
    rows = tx.rows(f"select {_FIELDS} from task where tenant = ? and kind in ({marks}) and due < ? order by no", tenant, *kinds, NEVER)  # noqa: S608  # as above
    return [Task(*row) for row in rows]


def next_due(tx: Tx, tenant: str, kinds: Collection[str]) -> int:
    """When the next one may be taken; NEVER = all have ended."""
    marks = ", ".join("?" * len(kinds))
    row = tx.row(f"select min(due) from task where tenant = ? and kind in ({marks})", tenant, *kinds)  # noqa: S608  # as above
    return row[0] if row and row[0] is not None else NEVER


def take(tx: Tx, tenant: str, kinds: Collection[str], now: int, until: int, task_id: str = "") -> Task | None:
    """Lease the one that has been due longest, or the one named, until then; None = nothing is due."""
    marks, one = ", ".join("?" * len(kinds)), " and id = ?" if task_id else ""
    row = tx.row(
        f"select {_FIELDS} from task where tenant = ? and kind in ({marks}) and due <= ?{one} order by due, no limit 1",  # noqa: S608  # as above
        tenant, *kinds, now, *([task_id] if task_id else []),
    )  # fmt: skip
    if row is None:
        return None
    taken = Task(*row)._replace(attempt=row[5] + 1, due=until)
    tx.run("update task set attempt = ?, due = ? where tenant = ? and id = ?", taken.attempt, until, tenant, taken.id)
    return taken


def keep(tx: Tx, task: Task) -> bool:
    """Write state, due and body under the attempt it was taken with; False = it has ended, or another has it by now, and nothing was written."""
    return bool(
        tx.run(
            "update task set state = ?, due = ?, body = ? where tenant = ? and id = ? and attempt = ? and due < ?",
            task.state, task.due, task.body, task.tenant, task.id, task.attempt, NEVER,
        )
    )  # fmt: skip


def renew(tx: Tx, task: Task, until: int) -> bool:
    """Hold it longer; False as `keep`."""
    same = "tenant = ? and id = ? and attempt = ? and due < ?"
    return bool(tx.run(f"update task set due = ? where {same}", until, task.tenant, task.id, task.attempt, NEVER))  # noqa: S608  # a literal of our own


def withdraw(tx: Tx, task: Task) -> None:
    """Write it over whoever has it: that worker has lost it."""
    tx.run(
        "update task set state = ?, due = ?, body = ?, attempt = attempt + 1 where tenant = ? and id = ?",
        task.state, task.due, task.body, task.tenant, task.id,
    )  # fmt: skip


def wake(tx: Tx, tenant: str, task_id: str, waits: int, now: int) -> bool:
    """One that is due at `waits`, far off, is due now; False = somebody has woken it already, and may have it."""
    return bool(tx.run("update task set due = ? where tenant = ? and id = ? and due = ?", now, tenant, task_id, waits))
