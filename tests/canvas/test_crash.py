"""Many at once, killed at any moment, and a commit whose answer is lost: all of a call is there, or none of it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from polyloop.canvas.store import SCHEMAS
from polyloop.contract.receipt import Receipt
from polyloop.db import CommitUnknown, Database, DbError
from polyloop.db.sqlite import SqliteSession
from polyloop.journal import operations
from tests import outside
from tests.canvas.easel import Easel, node

PAINTER = Path(__file__).with_name("painter.py")
SOAK = bool(os.environ.get("POLYLOOP_SOAK"))
PROCESSES, CALLS, OPS = (16, 32, 20) if SOAK else (4, 4, 20)
KILLS = 60 if SOAK else 5


def start(path: Path, easel: Easel, name: str, calls: int) -> subprocess.Popen[str]:
    return outside.start(PAINTER, path, easel.tenant, easel.canvas, name, calls, OPS, stdout=subprocess.PIPE, text=True)


def told(lines: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {"begin": [], "done": [], "lost": []}
    for line in lines.splitlines():
        word, number = line.split()
        found[word].append(int(number))
    return found


def agree(easel: Easel) -> set[tuple[str, int]]:
    """Items, hashes, history and journal tell the same; which calls there are: (name, number)."""
    nodes = easel.look(lambda b: b.nodes(0, 1 << 40))
    assert easel.recomputed() == easel.look(lambda b: (b.head.content, b.head.media))
    calls: dict[tuple[str, int], set[str]] = {}
    for n in nodes:
        name, number, part = n.id.rsplit("-", 2)
        calls.setdefault((name, int(number)), set()).add(part)
    assert all(len(parts) == OPS for parts in calls.values()), "all of a call, or none of it"
    ids = easel.db.look(lambda tx: tx.rows("select operation from canvas_change where tenant = ? order by rev", easel.tenant))
    entries = [easel.db.look(operations.by_id, easel.tenant, operation_id) for (operation_id,) in ids]
    assert len(entries) == len(calls) == easel.look(lambda b: b.head.rev)
    assert all(e and e.entry.receipt and e.entry.receipt.ok for e in entries), "an operation is there with its receipt, or not at all"
    return set(calls)


def test_S1_42_many_processes_lose_nothing_that_was_acknowledged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = Database.open(tmp_path / "s.db", SCHEMAS)
    easel = Easel(db)
    painters = {f"p{n}": start(tmp_path / "s.db", easel, f"p{n}", CALLS) for n in range(PROCESSES)}
    done, lost = set[tuple[str, int]](), 0
    for name, painter in painters.items():
        found = told(painter.communicate()[0])
        assert painter.returncode == 0
        done |= {(name, n) for n in found["done"]}
        lost += len(found["lost"])
    assert agree(easel) == done
    assert len(done) == PROCESSES * CALLS
    with capsys.disabled():
        print(f"\n{PROCESSES} processes: {len(done) * OPS} operations accepted, {lost} calls lost and made again")
    db.close()


def test_S1_42_killed_at_any_moment_a_call_is_whole_or_absent(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "s.db", SCHEMAS)
    easel, odds, done = Easel(db), random.Random(1), 0
    for kill in range(KILLS):
        painter = start(tmp_path / "s.db", easel, f"k{kill}", 10**6)
        assert painter.stdout
        lines = [painter.stdout.readline() for _ in range(odds.randrange(1, 12))]
        os.kill(painter.pid, signal.SIGKILL)
        found = told("".join(lines) + painter.communicate()[0])
        there = {number for name, number in agree(easel) if name == f"k{kill}"}
        assert set(found["done"]) <= there <= set(found["begin"])
        done += len(there)
    assert done >= KILLS
    db.close()


@pytest.mark.parametrize(("fault", "after"), [(CommitUnknown("lost"), True), (CommitUnknown("lost"), False), (DbError("the disk is full"), False)])
def test_S1_43_a_lost_reply_stops_writing_until_the_canvas_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: DbError, after: bool
) -> None:
    db = Database.open(tmp_path / "s.db", SCHEMAS)
    easel = Easel(db).ready()
    whole, failed = SqliteSession.commit, list[object]()

    def commit(self: SqliteSession) -> None:
        if failed:
            return whole(self)
        failed.append(self)
        (whole if after else SqliteSession.rollback)(self)
        raise fault

    before = easel.hash
    with monkeypatch.context() as patched:
        patched.setattr(SqliteSession, "commit", commit)
        receipt = easel.answer("canvas_apply_ops", {"snapshotHash": before, "ops": [node("a")]})
    assert isinstance(receipt, Receipt)
    unknown = isinstance(fault, CommitUnknown)
    assert receipt.status == ("unknown" if unknown else "failed")
    again = {"snapshotHash": easel.hash, "ops": [node("b")]}
    if unknown:
        assert ("", "read_first") in easel.wrong("canvas_apply_ops", again)
        assert easel.call("canvas_arrange_nodes", {"snapshotHash": easel.hash})[1] == 2, "no write of any kind"
        easel.state()
    assert easel.state()["totalNodes"] == int(after), "once, or not at all"
    resent = easel.call("canvas_apply_ops", {"snapshotHash": easel.hash, "ops": [node("a")]})[1]
    assert (resent == 0) != after, "the same id again is refused where it is"
    assert easel.state()["totalNodes"] == 1
    db.close()
