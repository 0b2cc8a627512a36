"""Killed at any moment, and many at once: journal, write log and content agree; nothing is lost, nothing doubled."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from polyloop.db import Database
from polyloop.documents import store
from polyloop.journal import operations as journal
from tests import outside
from tests.documents.office import Office

WRITER = Path(__file__).with_name("writer.py")
SOAK = bool(os.environ.get("POLYLOOP_SOAK"))
KILLS = 120 if SOAK else 8
APPENDS = 250 if SOAK else 25
PROCESSES = 8


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def opened(path: Path | str) -> Database:
    return Database.open(path, store.SCHEMAS)


def start(path: Path | str, tenant: str, *numbers: int) -> subprocess.Popen[str]:
    return outside.start(WRITER, path, tenant, *numbers, stdout=subprocess.PIPE, text=True)


def agree(db: Database, tenant: str = "t") -> list[str]:
    """Journal, write log, revisions and content tell the same; returns the lines there are."""
    db.write_sync(lambda _: None)  # on a server the last commit of a dead writer may still be under way: it has the lock
    office = Office(db, tenant)
    node_id = office.do("resolve", {"title": "D"})["target"]["nodeId"]
    node = db.look(store.get_node, tenant, node_id)
    entries = [e for e in db.look(journal.of_session, tenant, "") if e.key.startswith("key")]
    assert all(e.receipt and e.receipt.ok for e in entries), "an operation is there with its receipt, or not at all"
    revisions = {e.receipt.data["revision"]: e.step_id("write") for e in entries if e.receipt}
    steps = dict(db.look(lambda tx: tx.rows("select rev, step from doc_revision where tenant = ? and node = ? and rev > 1", tenant, node_id)))
    assert steps == revisions
    logged = {step for (step,) in db.look(lambda tx: tx.rows("select step from doc_write where tenant = ?", tenant))}
    assert set(steps.values()) < logged
    rows = db.look(store.rows_at, tenant, node_id, node.revision)
    assert store.summed(store.EMPTY, rows, ()) == node.hash
    assert len(rows) == node.blocks == len(entries)
    return [line for line in office.text(node_id, format="text").splitlines() if line]


def killed_and_asked_again(path: Path | str, tenant: str, kills: int) -> int:
    """How many lines there are in the end."""
    db = opened(path)
    Office(db, tenant).new("D", "")
    db.close()
    odds, done = random.Random(1), 0
    for _ in range(kills):
        writer = start(path, tenant, max(0, done - 1), 10**6, 1)  # the last one is asked for again
        assert writer.stdout
        last = -1
        until = odds.randrange(2, 26)
        for _ in range(until):
            word, number = writer.stdout.readline().split()
            last = max(last, int(number)) if word == "done" else last
        os.kill(writer.pid, signal.SIGKILL)
        told, _ = writer.communicate()
        for line in told.splitlines():
            if line.startswith("done"):
                last = max(last, int(line.split()[1]))
        db = opened(path)
        lines = agree(db, tenant)
        assert lines == [f"line {n}" for n in range(len(lines))], "each once, in the order it was made"
        assert len(lines) > last, "what was told to be done is there"
        done = len(lines)
        db.close()
    assert done > 3 * kills
    return done


def test_S0_8_killed_at_any_moment_and_asked_again(path: Path) -> None:
    assert killed_and_asked_again(path, "t", KILLS) > (500 if SOAK else 3 * KILLS)


def test_S0_11_many_processes_append_each_line_twice(path: Path) -> None:
    db = opened(path)
    Office(db, "t").new("D", "")
    db.close()
    writers = [start(path, "t", n * APPENDS, APPENDS, 2) for n in range(PROCESSES)]
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    db = opened(path)
    lines = Counter(agree(db))
    assert lines == Counter(f"line {n}" for n in range(PROCESSES * APPENDS))
    db.close()
