"""SIGKILL at every step of a task, and the same task ended by another worker: one document, one file. Many at once: one winner."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyloop.db import Database
from polyloop.documents import tasks as t
from polyloop.documents.runtime import DocRuntime
from polyloop.documents.store import SCHEMAS
from polyloop.files.folder import folder_of
from polyloop.files.landing import Landing
from polyloop.ids import uuid7
from tests.documents.office import Office

MD = "# Title\n\nText with **bold**.\n"
LEASE_MS = 60
PROCESSES = 8


def runtime(db: Database, folder: Path) -> DocRuntime:
    return DocRuntime(db, "t", lambda: time.time_ns() // 1_000_000, uuid7, folder=folder_of(str(folder)), lease_ms=LEASE_MS)


def office_of(db: Database, folder: Path) -> Office:
    """On the clock of the world: leases run out."""
    office = Office(db, "t")
    office.runtime = runtime(db, folder)
    return office


def opened(folder: Path) -> Database:
    return Database.open(folder / "store.db", SCHEMAS)


def in_child(work: Callable[[], object]) -> int:
    """`work` in a process of its own (a fork: nothing of the parent's is used in it); what it ended with."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killing(moment: int) -> Callable[[], None]:
    """Counts what is called of it, and kills this process at that count."""
    seen = iter(range(1, 10_000))

    def step() -> None:
        if next(seen) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


def worked(folder: Path, moment: int) -> None:
    """One worker, killed before or after its n-th commit or landing."""
    step = killing(moment)

    def around(kind: Any, name: str) -> None:
        real = getattr(kind, name)

        def call(*args: Any, **more: Any) -> Any:
            step()
            value = real(*args, **more)
            step()
            return value

        setattr(kind, name, call)

    for kind, name in ((Database, "write_sync"), (Database, "write"), (Landing, "__enter__"), (Landing, "publish")):
        around(kind, name)
    db = opened(folder)
    runtime(db, folder).worker().one()


def finished(folder: Path) -> t.Task:
    """Another worker, once the dead one's lease is over; the task as it ended."""
    db = opened(folder)
    try:
        runtime(db, folder).worker().all()
        (task,) = db.look(lambda tx: [t.get(tx, "t", i) for (i,) in tx.rows("select id from task")])
        return task
    finally:
        db.close()


def begun(folder: Path, op: str, args: dict[str, Any]) -> None:
    db = opened(folder)
    office = office_of(db, folder)
    if op == "export_submit":
        args = {**args, "nodeId": office.new("D", MD)}
    assert office.call(op, args, wait_s=0, person=True)[1] == 10
    db.close()


def moments(tmp_path: Path, op: str, args: dict[str, Any], check: Callable[[Path], None]) -> int:
    """Kill at the first moment, the second, ... until a worker gets through; returns how many there were."""
    for moment in range(1, 100):
        folder = tmp_path / f"m{moment}"
        folder.mkdir()
        (folder / "a.md").write_text(MD)
        begun(folder, op, args)
        code = in_child(lambda at=folder, m=moment: worked(at, m))
        assert code in (0, -signal.SIGKILL)
        task = finished(folder)
        assert task.state == "SUCCESS", task
        assert task.attempt <= 2
        check(folder)
        if code == 0:
            return moment - 1
    raise AssertionError("it never got through")


def test_S0_8_an_import_killed_at_any_moment_makes_one_document(tmp_path: Path) -> None:
    def check(folder: Path) -> None:
        db = opened(folder)
        assert Office(db, "t").documents() == [["a", MD]]
        assert db.look(lambda tx: tx.rows("select * from doc_upload")) == []
        db.close()

    assert moments(tmp_path, "import", {"file": "a.md"}, check) >= 10


@pytest.mark.parametrize("overwrite", [False, True], ids=["new", "overwrite"])
def test_S0_43_an_export_killed_at_any_moment_lands_one_file(tmp_path: Path, *, overwrite: bool) -> None:
    args = {"format": "markdown", "output": "a.md" if overwrite else "out/b.md", **({"overwrite": True} if overwrite else {})}

    def check(folder: Path) -> None:
        names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and not p.name.startswith("store.db"))
        assert names == (["a.md"] if overwrite else ["a.md", "out/b.md"])
        assert (folder / args["output"]).read_text() == MD

    assert moments(tmp_path, "export_submit", args, check) >= 10


def test_S0_44_of_many_exports_to_one_name_one_wins(tmp_path: Path) -> None:
    db = opened(tmp_path)
    office = office_of(db, tmp_path)
    told = [
        office.call("export_submit", {"nodeId": office.new(f"D{n}", f"text {n}\n"), "format": "markdown", "output": "one.md"})[0]
        for n in range(PROCESSES)
    ]
    db.close()

    def one(task_id: str) -> None:
        mine = opened(tmp_path)
        runtime(mine, tmp_path).worker().one(task_id)
        mine.close()

    children = []
    for ticket in told:
        pid = os.fork()
        if not pid:
            try:
                one(ticket["taskId"])
            finally:
                os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    db = opened(tmp_path)
    ended = [db.look(t.get, "t", ticket["taskId"]) for ticket in told]
    won = [n for n, task in enumerate(ended) if task.state == "SUCCESS"]
    assert len(won) == 1
    assert (tmp_path / "one.md").read_text() == f"text {won[0]}\n"
    errors = [t.body_of(task).error for task in ended if task.state == "FAILED"]
    assert [e.kind for e in errors if e] == ["conflict"] * (PROCESSES - 1)
    db.close()
