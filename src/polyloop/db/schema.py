"""Numbered migrations. A component's version is the number of its steps that stand in the table `migration`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .errors import Damaged, NewerSchema
from .tx import Session, Tx

_TABLE = "create table if not exists migration (component text not null, no integer not null, primary key (component, no))"


Step = str | Mapping[str, str]


class Schema(NamedTuple):
    """The tables of one component: SQL scripts, applied in order and numbered from 1. A published step never changes.

    A step that cannot be said in one SQL is a script for each dialect.
    """

    component: str
    steps: tuple[Step, ...]


def pending(tx: Tx, tables: set[str], schemas: Sequence[Schema]) -> list[tuple[str, int, Step]]:
    """The steps this store lacks, as (component, no, sql). Raises NewerSchema, and Damaged for a foreign or broken database."""
    if "migration" not in tables and tables:
        raise Damaged("this is a database of something else: it has tables, but no table of migrations")
    todo: list[tuple[str, int, Step]] = []
    for component, steps in schemas:
        rows = tx.rows("select no from migration where component = ? order by no", component) if tables else []
        found = [no for (no,) in rows]
        if found != list(range(1, len(found) + 1)):
            raise Damaged(f"the migrations of {component} have gaps: {found}")
        if len(found) > len(steps):
            raise NewerSchema(component, len(found), len(steps))
        todo += [(component, no, sql) for no, sql in enumerate(steps, 1) if no > len(found)]
    return todo


def migrate(session: Session, schemas: Sequence[Schema]) -> None:
    """Bring a store up to date in one transaction. What is missing is asked again inside it: another process may have been first."""
    session.begin()
    try:
        todo = pending(session, session.tables(), schemas)
        session.run(_TABLE)
        for component, no, sql in todo:
            session.script(sql if isinstance(sql, str) else sql[session.dialect])
            session.run("insert into migration (component, no) values (?, ?)", component, no)
        session.commit()
    except BaseException:
        session.rollback()
        raise
