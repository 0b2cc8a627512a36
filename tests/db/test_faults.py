"""A disk that fails at the k-th call, for all k: every error is typed, and what it claims is true.

`ok` = it is there. `DbError` = it is not there, not even after a crash in that instant. `CommitUnknown` = it may be there; a read
settles it, and no later crash changes what the read said.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from polyloop.db import CommitUnknown, Damaged, Database, DbError, NewerSchema, Schema, Tx
from polyloop.db import sqlite as driver
from tests.db.shim import FailingDisk, copy

SCHEMA = Schema("t", ("create table item (name text primary key, data blob not null) strict;",))
NAMES = [f"n{i}" for i in range(6)]
FAULTS = [("write", "eio"), ("write", "torn"), ("write", "full"), ("sync", "eio"), ("read", "eio")]


def add(tx: Tx, name: str) -> None:
    tx.run("insert into item (name, data) values (?, ?)", name, name.encode() * 1500)


def names(tx: Tx) -> set[str]:
    return {name for (name,) in tx.rows("select name from item")}


def stored(path: Path) -> set[str]:
    """What a fresh process finds, once SQLite has recovered the files."""
    c = apsw.Connection(str(path))
    try:
        c.execute("pragma synchronous = off")
        assert c.execute("pragma integrity_check").fetchall() == [("ok",)]
        return {str(name) for (name,) in c.execute("select name from item")}
    finally:
        c.close()


class Story:
    """What the writes of one life of a store claimed."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.absent: set[str] = set()
        self.unknown: set[str] = set()
        #: Those whose fate was unknown at first.
        self.doubted: set[str] = set()

    def write(self, db: Database, name: str) -> None:
        try:
            db.write_sync(add, name)
            self.there.add(name)
        except CommitUnknown:
            self.unknown.add(name)
            self.doubted.add(name)
        except DbError:
            self.absent.add(name)

    def allows(self, found: set[str]) -> bool:
        return self.there <= found <= self.there | self.unknown


def live(path: Path, tmp_path: Path) -> Story:
    """Open, write, read after each unknown fate, close. What a read said holds, also for a copy made then."""
    story = Story()
    db = Database.open(path, [SCHEMA])
    for name in NAMES:
        story.write(db, name)
        if name in story.unknown:
            try:
                found = db.look(names)
            except DbError:
                continue
            assert story.allows(found)
            story.there, story.absent = found, story.absent | (story.unknown - found)
            story.unknown = set()
            assert stored(copy(path, tmp_path / "after")) == found
    db.close()
    return story


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "template" / "store.db"
    Database.open(path, [SCHEMA]).close()
    return path


@pytest.fixture(autouse=True)
def small_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fold the log in after every few writes, so that faults hit the folding too."""
    monkeypatch.setattr(driver, "FOLD_PAGES", 10)


def each_k(template: Path, tmp_path: Path, call: str, kind: str, *, ever: bool) -> Iterator[tuple[FailingDisk, Path, Story | None]]:
    k = 0
    while True:
        k += 1
        path = copy(template, tmp_path / f"{k}")
        with FailingDisk(k, call, kind, ever=ever, store=path, images=tmp_path / f"{k}") as disk:
            try:
                story = live(path, tmp_path)
            except DbError:
                story = None
            failed = disk.failed
        if not failed:
            assert story is not None
            assert story.there == set(NAMES)
            return
        yield disk, path, story


@pytest.mark.parametrize(("call", "kind"), FAULTS)
@pytest.mark.parametrize("ever", [False, True], ids=["once", "ever"])
def test_every_claim_is_true_whichever_call_fails(template: Path, tmp_path: Path, call: str, kind: str, ever: bool) -> None:
    met: set[str] = set()
    for disk, path, story in each_k(template, tmp_path, call, kind, ever=ever):
        if story is None:
            met.add("not opened")
            assert stored(path) == set()
            continue
        met |= {fate for fate in ("there", "absent", "unknown") if getattr(story, fate)}
        found = stored(path)
        assert story.allows(found), (disk.k, vars(story), found)
        if disk.at_fault is not None:
            early = stored(disk.at_fault)
            assert early <= story.there | story.doubted, (disk.k, vars(story), early)
    assert {"there", "unknown" if ever and call != "read" and kind != "full" else "absent"} <= met


def test_after_a_failed_sync_the_old_handle_is_never_synced_again(template: Path, tmp_path: Path) -> None:
    path = copy(template, tmp_path / "store")
    with FailingDisk(2, "sync", store=path, images=tmp_path) as disk:
        db = Database.open(path, [SCHEMA])
        with pytest.raises(CommitUnknown):
            db.write_sync(add, "a")
        before = len(disk.synced)
        assert db.look(names) == set()
        db.write_sync(add, "b")
        db.close()
    after = disk.synced[before:]
    assert after
    assert disk.synced[before - 1] not in after
    assert disk.at_fault is not None
    assert stored(disk.at_fault) == {"a"}
    assert stored(path) == {"b"}


@pytest.mark.parametrize("dedicated", [False, True], ids=["thread", "dedicated"])
def test_a_batch_of_unknown_fate_is_unknown_to_each_of_it(template: Path, tmp_path: Path, dedicated: bool) -> None:
    path = copy(template, tmp_path / "store")

    async def main() -> None:
        db = Database.open(path, [SCHEMA])
        if dedicated:
            db.dedicate()

        def fail(tx: Tx) -> None:
            raise KeyError

        work = [db.write(add, "a"), db.write(fail), db.write(add, "b")]
        done = await asyncio.gather(*work, return_exceptions=True)
        assert [type(d) for d in done] == [CommitUnknown, KeyError, CommitUnknown]
        assert done[0] is not done[2]
        assert await db.read(names) == set()
        db.close()

    with FailingDisk(2, "sync"):
        asyncio.run(main())


def test_a_transaction_lost_to_one_piece_is_an_error_for_its_batch(template: Path, tmp_path: Path) -> None:
    """A piece that fills the disk while it runs loses the transaction: nobody is told that it was written."""
    path = copy(template, tmp_path / "store")

    async def main() -> None:
        db = Database.open(path, [SCHEMA])

        def huge(tx: Tx) -> None:
            tx.run("pragma cache_size = 10")
            tx.run("insert into item (name, data) values ('huge', zeroblob(5000000))")

        done = await asyncio.gather(db.write(add, "a"), db.write(huge), db.write(add, "b"), return_exceptions=True)
        assert [isinstance(d, DbError) and not isinstance(d, CommitUnknown) for d in done] == [True] * 3
        assert db.look(names) == set()
        await db.write(add, "c")
        db.close()

    with FailingDisk(100, "write", "full"):
        asyncio.run(main())
    assert stored(path) == {"c"}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.needs("root")
def test_a_full_disk_is_typed_and_work_goes_on_when_there_is_space(small: Path) -> None:
    ballast = small / "ballast"
    db = Database.open(small / "store.db", [SCHEMA])
    ballast.write_bytes(b"x" * 40_000)
    story = Story()
    for i in range(60):
        story.write(db, f"n{i}")
    assert story.there
    assert story.absent
    assert not story.unknown
    assert db.look(names) == story.there
    ballast.unlink()
    story.write(db, "later")
    assert "later" in story.there
    db.close()
    assert stored(small / "store.db") == story.there


@pytest.mark.needs("root")
@pytest.mark.parametrize("disk", ["full", "full and open", "read-only"])
def test_a_store_can_be_looked_at_where_nothing_can_be_written(small: Path, disk: str) -> None:
    path = small / "odd ?#%41.db"
    db = Database.open(path, [SCHEMA])
    db.write_sync(add, "a")
    if disk != "full and open":
        db.close()
    if disk.startswith("full"):
        with suppress(OSError), (small / "ballast").open("wb", 0) as ballast:
            while ballast.write(b"x" * 512):
                pass
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    reader = Database.open(path, [SCHEMA], to_read=True)
    assert reader.look(names) == {"a"}
    if disk == "read-only":
        with pytest.raises(DbError, match="cannot be written"):
            reader.write_sync(add, "b")
    reader.close()
    db.close()


def test_what_is_looked_at_is_checked_as_well(tmp_path: Path) -> None:
    """A store of a later version, or no store, is refused however it is opened."""
    Database.open(tmp_path / "s.db", [SCHEMA]).close()
    Database.open(tmp_path / "s.db", [Schema(SCHEMA.component, (*SCHEMA.steps, "create table more (x)"))]).close()
    with pytest.raises(NewerSchema):
        Database.open(tmp_path / "s.db", [SCHEMA], to_read=True)
    (tmp_path / "n.db").write_bytes(b"x" * 5000)
    with pytest.raises(Damaged):
        Database.open(tmp_path / "n.db", [SCHEMA], to_read=True)


def test_a_damaged_page_is_typed(template: Path) -> None:
    db = Database.open(template, [SCHEMA])
    for name in NAMES:
        db.write_sync(add, name)
    db.close()
    whole = template.read_bytes()
    size = 4096
    found: set[str] = set()
    for page in range(1, len(whole) // size):
        template.write_bytes(whole[: page * size] + b"\xa5" * size + whole[(page + 1) * size :])
        try:
            db = Database.open(template, [SCHEMA])
            try:
                rows = db.look(lambda tx: tx.rows("select name, data from item order by name"))
                assert [name for name, _ in rows] == NAMES
                found.add("read")
            finally:
                db.close()
        except Damaged:
            found.add("damaged")
    assert "damaged" in found
