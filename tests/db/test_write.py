"""Writing and reading through the door: group commit, failing alone, cancelling, threads, closing."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from polyloop.db import Busy, Closed, ConstraintFailed, Database, DbError, Schema, Tx
from polyloop.db import sqlite as driver

SCHEMA = Schema("t", ("create table item (id integer primary key, name text not null unique, data blob) strict;",))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "store.db", [SCHEMA])
    yield database
    database.close()


def add(tx: Tx, name: str, fault: BaseException | None = None) -> str:
    tx.run("insert into item (name) values (?)", name)
    if fault is not None:
        raise fault
    return name


def names(tx: Tx) -> list[str]:
    return [name for (name,) in tx.rows("select name from item order by id")]


def hold_writer(db: Database, gate: threading.Event) -> None:
    """Keep the writer busy until the gate opens, so that what comes after queues up."""
    started = threading.Event()

    def wait(_: Tx) -> None:
        started.set()
        gate.wait(10)

    threading.Thread(target=db.write_sync, args=(wait,)).start()
    assert started.wait(10)


def choose(db: Database, dedicated: bool) -> None:
    """Let the running loop commit for itself, or leave it to the writer thread."""
    if dedicated:
        db.dedicate()


both_ways = pytest.mark.parametrize("dedicated", [False, True], ids=["thread", "dedicated"])


@both_ways
def test_a_write_is_seen_by_every_kind_of_read(db: Database, dedicated: bool) -> None:
    async def main() -> None:
        choose(db, dedicated)
        assert await db.write(add, "a") == "a"
        assert db.look(names) == ["a"]
        assert await db.read(names) == ["a"]

    asyncio.run(main())
    assert db.write_sync(add, "b") == "b"
    assert db.look(names) == ["a", "b"]


@both_ways
def test_a_dedicated_loop_writes_where_it_stands(db: Database, dedicated: bool) -> None:
    def where(_: Tx) -> int:
        return threading.get_ident()

    async def main() -> None:
        choose(db, dedicated)
        here = threading.get_ident()
        assert (await db.write(where) == here) == dedicated
        assert await asyncio.to_thread(db.write_sync, where) != here
        assert await asyncio.to_thread(lambda: asyncio.run(db.write(where))) != here
        await asyncio.to_thread(db.close)
        with pytest.raises(Closed):
            await db.write(add, "late")

    asyncio.run(main())


@both_ways
def test_the_tasks_of_one_turn_share_one_commit(db: Database, dedicated: bool) -> None:
    async def main() -> list[str]:
        choose(db, dedicated)
        return await asyncio.gather(*(db.write(add, f"n{i}") for i in range(100)))

    assert asyncio.run(main()) == [f"n{i}" for i in range(100)]
    assert db.commits == 1
    assert db.look(names) == [f"n{i}" for i in range(100)]


class Stop(BaseException):
    """Control flow that no `except Exception` sees."""


@pytest.mark.parametrize("fault", [ValueError("no"), Stop(), StopIteration(), DbError("x"), asyncio.CancelledError()])
@pytest.mark.parametrize("among", [1, 7])
@both_ways
def test_a_failing_piece_fails_alone_and_whole(db: Database, fault: BaseException, among: int, dedicated: bool) -> None:
    async def main() -> list[object]:
        choose(db, dedicated)
        work = [db.write(add, f"n{i}", fault if i == among // 2 else None) for i in range(among)]
        return await asyncio.gather(*work, return_exceptions=True)

    done = asyncio.run(main())
    want = RuntimeError if isinstance(fault, StopIteration) else type(fault)
    assert isinstance(done[among // 2], want)
    good = [f"n{i}" for i in range(among) if i != among // 2]
    assert [d for d in done if isinstance(d, str)] == db.look(names) == good


def test_a_broken_constraint_is_typed_and_undone(db: Database) -> None:
    db.write_sync(add, "a")

    def twice(tx: Tx) -> None:
        add(tx, "b")
        add(tx, "a")

    with pytest.raises(ConstraintFailed):
        db.write_sync(twice)
    assert db.look(names) == ["a"]


def test_work_may_catch_a_broken_constraint_and_go_on(db: Database) -> None:
    db.write_sync(add, "a")

    def or_else(tx: Tx) -> str:
        try:
            return add(tx, "a")
        except ConstraintFailed:
            return add(tx, "b")

    assert db.write_sync(or_else) == "b"
    assert db.look(names) == ["a", "b"]


@pytest.mark.parametrize("wrong", ["\ud800", 1 << 70])
def test_values_that_cannot_be_stored_are_typed(db: Database, wrong: str | int) -> None:
    with pytest.raises(DbError):
        db.write_sync(lambda tx: tx.run("insert into item (name) values (?)", wrong))
    with pytest.raises(DbError):
        db.look(lambda tx: tx.rows("select * from item where name = ?", wrong))


def test_wrong_sql_is_a_typed_error_on_every_path(db: Database) -> None:
    with pytest.raises(DbError):
        db.look(lambda tx: tx.rows("select nothing from nowhere"))
    with pytest.raises(DbError):
        db.write_sync(lambda tx: tx.run("no statement"))
    db.write_sync(add, "a")
    assert db.look(names) == ["a"]


def test_a_read_cannot_write(db: Database) -> None:
    with pytest.raises(DbError):
        db.look(add, "a")
    assert db.look(names) == []


def test_a_fault_of_the_reading_work_does_not_spoil_its_connection(db: Database) -> None:
    def fail(tx: Tx) -> None:
        names(tx)
        raise KeyError("k")

    async def main() -> None:
        with pytest.raises(KeyError):
            await db.read(fail)
        with pytest.raises(KeyError):
            db.look(fail)
        await db.write(add, "a")
        assert await db.read(names) == ["a"]

    asyncio.run(main())


def test_a_read_is_one_snapshot(db: Database) -> None:
    def before_and_after(tx: Tx) -> tuple[list[str], list[str]]:
        before = names(tx)
        db.write_sync(add, "late")
        return before, names(tx)

    async def main() -> None:
        assert await db.read(before_and_after) == ([], [])
        assert await db.read(names) == ["late"]

    asyncio.run(main())


def test_a_cancelled_write_happens_whole(db: Database) -> None:
    async def main() -> None:
        gate = threading.Event()
        hold_writer(db, gate)
        waiting = [asyncio.ensure_future(db.write(add, f"n{i}")) for i in range(10)]
        await asyncio.sleep(0)
        for task in waiting[::2]:
            task.cancel()
        gate.set()
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(d) for d in done] == [asyncio.CancelledError, str] * 5
        assert await db.read(names) == [f"n{i}" for i in range(10)]

    asyncio.run(main())


@both_ways
def test_threads_and_loops_share_the_writer(db: Database, dedicated: bool) -> None:
    async def some(name: str) -> None:
        await asyncio.gather(*(db.write(add, f"{name}-{i}") for i in range(20)))

    def loop(name: str) -> None:
        async def main() -> None:
            choose(db, dedicated and name == "w0")
            await some(name)

        asyncio.run(main())

    def plain(name: str) -> None:
        for i in range(20):
            db.write_sync(add, f"{name}-{i}")

    with ThreadPoolExecutor(6) as pool:
        for n in range(6):
            pool.submit((loop, plain)[n % 2], f"w{n}")
    assert sorted(db.look(names)) == sorted(f"w{n}-{i}" for n in range(6) for i in range(20))
    assert db.commits < 120


def test_a_loop_that_is_gone_holds_nobody_up(db: Database) -> None:
    gate = threading.Event()
    hold_writer(db, gate)

    async def leave() -> None:
        asyncio.get_running_loop().create_task(db.write(add, "orphan"))
        await asyncio.sleep(0.01)

    asyncio.run(leave())
    gate.set()
    assert db.write_sync(add, "next") == "next"
    assert db.look(names) == ["orphan", "next"]
    gc.collect()


def test_closing_finishes_what_is_queued_and_refuses_the_rest(db: Database, tmp_path: Path) -> None:
    async def main() -> None:
        gate = threading.Event()
        hold_writer(db, gate)
        queued = asyncio.ensure_future(db.write(add, "queued"))
        await asyncio.sleep(0.01)
        closing = asyncio.ensure_future(asyncio.to_thread(db.close))
        await asyncio.sleep(0.05)
        late = asyncio.ensure_future(db.write(add, "late"))
        await asyncio.sleep(0.01)
        gate.set()
        assert await queued == "queued"
        with pytest.raises(Closed):
            await late
        await closing
        for refused in (db.write(add, "x"), db.read(names), asyncio.to_thread(db.look, names), asyncio.to_thread(db.write_sync, add, "x")):
            with pytest.raises(Closed):
                await refused

    asyncio.run(main())
    db.close()
    assert [p.name for p in tmp_path.iterdir()] == ["store.db"]
    again = Database.open(tmp_path / "store.db", [SCHEMA])
    assert again.look(names) == ["queued"]
    again.close()


def test_another_process_that_holds_the_lock_is_waited_for(db: Database, tmp_path: Path) -> None:
    other = apsw.Connection(str(tmp_path / "store.db"))
    other.execute("begin immediate")
    done: list[str] = []
    thread = threading.Thread(target=lambda: done.append(db.write_sync(add, "a")))
    thread.start()
    time.sleep(0.1)
    assert not done
    other.execute("commit")
    thread.join(60)
    assert done == ["a"]
    other.close()


def test_a_lock_held_too_long_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "BUSY_TIMEOUT_MS", 50)
    db = Database.open(tmp_path / "store.db", [SCHEMA])
    other = apsw.Connection(str(tmp_path / "store.db"))
    other.execute("begin immediate")
    with pytest.raises(Busy):
        db.write_sync(add, "a")
    assert db.look(names) == []
    other.execute("rollback")
    other.close()
    assert db.write_sync(add, "b") == "b"
    db.close()


@pytest.mark.parametrize("then", ["gone", "replaced"])
def test_a_store_that_was_taken_away_is_not_written(tmp_path: Path, then: str) -> None:
    path = tmp_path / "store.db"
    db = Database.open(path, [SCHEMA])
    db.write_sync(add, "a")
    path.rename(tmp_path / "moved.db")
    if then == "replaced":
        Database.open(path, [SCHEMA]).close()
    with pytest.raises(DbError, match="moved or replaced"):
        db.write_sync(add, "b")
    db.close()
    assert path.exists() == (then == "replaced")


def test_the_log_is_folded_in_as_it_grows(db: Database, tmp_path: Path) -> None:
    data = b"x" * 200_000
    for i in range(60):
        db.write_sync(lambda tx, n: tx.run("insert into item (name, data) values (?, ?)", n, data), f"n{i}")
    assert (tmp_path / "store.db-wal").stat().st_size < 3 * driver.FOLD_PAGES * 4096


def test_an_old_sqlite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "OLDEST", (99, 0, 0))
    with pytest.raises(DbError, match=r"99\.0\.0 is needed"):
        Database.open(tmp_path / "store.db", [SCHEMA])
