"""Leased tasks: one worker at a time, and one that slept through its lease has lost what it had."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from polyloop.db import Database, Schema, tasks
from polyloop.db.tasks import NEVER, Task

KINDS = ("doc.import", "doc.export")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(tmp_path / "t.db", [Schema("one", (tasks.TABLES,)), Schema("two", (tasks.TABLES,))])  # two subjects, one table
    yield opened
    opened.close()


def new(task_id: str, due: int = 0, kind: str = "doc.import", tenant: str = "t", session: str = "") -> Task:
    return Task(tenant, task_id, kind, "INIT", session, 0, due, "{}")


def added(db: Database, *several: Task) -> None:
    for task in several:
        db.write_sync(tasks.add, task)


def taken(db: Database, now: int, until: int, task_id: str = "") -> str:
    found = db.write_sync(tasks.take, "t", KINDS, now, until, task_id)
    return found.id if found else ""


def test_a_task_is_taken_by_one_and_again_when_its_lease_is_over(db: Database) -> None:
    added(db, new("a", due=5), new("b"), new("c", kind="media"), new("d", tenant="other"))
    line = [(0, 100, "b"), (0, 100, ""), (5, 105, "a"), (99, 200, ""), (100, 200, "b"), (104, 204, ""), (105, 205, "a")]
    assert [(now, until, taken(db, now, until)) for now, until, _ in line] == line
    assert taken(db, 300, 400, "c") == ""
    assert taken(db, 300, 400, "a") == "a"
    assert db.look(tasks.next_due, "t", KINDS) == 200
    assert db.look(tasks.next_due, "t", ("none",)) == NEVER


def test_who_slept_through_its_lease_can_change_nothing(db: Database) -> None:
    added(db, new("a"))
    slow = db.write_sync(tasks.take, "t", KINDS, 0, 10)
    fast = db.write_sync(tasks.take, "t", KINDS, 10, 20)
    assert slow
    assert fast
    assert (slow.attempt, fast.attempt) == (1, 2)
    assert not db.write_sync(tasks.keep, slow._replace(state="SUCCESS", due=NEVER))
    assert db.write_sync(tasks.keep, fast._replace(state="PROCESSING", due=30, body='{"stage": 1}'))
    assert db.look(tasks.find, "t", "a") == Task("t", "a", "doc.import", "PROCESSING", "", 2, 30, '{"stage": 1}')
    assert db.write_sync(tasks.renew, fast, 40)
    assert not db.write_sync(tasks.renew, slow, 50)
    assert taken(db, 39, 100) == ""
    added(db, new("b", due=10))
    ended = db.write_sync(tasks.take, "t", KINDS, 10, 20, "b")
    assert ended
    assert db.write_sync(tasks.keep, ended._replace(state="SUCCESS", due=NEVER))
    assert not db.write_sync(tasks.renew, ended, 99), "a late beat brings nothing back"
    assert not db.write_sync(tasks.keep, ended._replace(state="PROCESSING"))
    db.write_sync(tasks.withdraw, fast._replace(state="CANCELLED", due=NEVER))
    assert not db.write_sync(tasks.keep, fast._replace(state="SUCCESS", due=NEVER))
    assert taken(db, 10**6, 10**7) == ""


def test_tasks_are_listed_in_the_order_they_were_made(db: Database) -> None:
    added(db, new("z", session="r1"), new("a", session="r1"), new("m", session="r2"))
    assert [t.id for t in db.look(tasks.of_session, "t", "r1")] == ["z", "a"]
    assert [t.id for t in db.look(tasks.newest, "t", KINDS, 2)] == ["m", "a"]
    assert db.look(tasks.find, "other", "z") is None
