"""Opening a store: found, made, checked before it is touched, migrated."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from polyloop.db import Damaged, Database, DbError, NewerSchema, Schema, Tx
from polyloop.db.birth import locate
from tests import outside

ONE = Schema("notes", ("create table note (id integer primary key, text text not null) strict;",))
TWO = Schema("notes", (*ONE.steps, "alter table note add column size integer; create index note_size on note (size);"))
OTHER = Schema("other", ("create table other (id integer primary key) strict;",))


def versions(tx: Tx) -> list[tuple[str, int]]:
    return tx.rows("select component, no from migration order by component, no")


def opened(path: Path, *schemas: Schema) -> list[tuple[str, int]]:
    db = Database.open(path, schemas)
    try:
        return db.look(versions)
    finally:
        db.close()


@pytest.mark.parametrize(
    ("where", "path"),
    [
        ("/srv/a.db", "/srv/a.db"),
        (Path("/srv/a b.db"), "/srv/a b.db"),
        ("sqlite:///srv/a.db", "/srv/a.db"),
        ("sqlite:/srv/a.db", "/srv/a.db"),
        ("sqlite:rel.db", f"{Path.cwd()}/rel.db"),
        ("rel/a:b.db", f"{Path.cwd()}/rel/a:b.db"),
    ],
)
def test_locate(where: str | Path, path: str) -> None:
    assert str(locate(where)) == path


@pytest.mark.parametrize("where", ["postgres://h/d", "sqlite:", "", "a\0b"])
def test_locate_refuses(where: str) -> None:
    with pytest.raises(DbError):
        locate(where)


def test_a_new_store_is_made_whole_private_and_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "store.db"
    assert opened(path, ONE, OTHER) == [("notes", 1), ("other", 1)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["store.db"]


def test_the_log_and_its_index_are_private_too(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "store.db", [ONE])
    db.write_sync(lambda tx: tx.run("insert into note (text) values ('x')"))
    assert {p.name: p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == dict.fromkeys(("store.db", "store.db-wal", "store.db-shm"), 0o600)
    db.close()


def test_migrations_are_applied_once_each_and_data_stays(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    db = Database.open(path, [ONE])
    db.write_sync(lambda tx: tx.run("insert into note (text) values ('kept')"))
    db.close()
    for _ in range(2):
        assert opened(path, TWO, OTHER) == [("notes", 1), ("notes", 2), ("other", 1)]
    db = Database.open(path, [TWO])
    assert db.look(lambda tx: tx.rows("select text, size from note")) == [("kept", None)]
    db.close()


def test_a_failing_migration_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path, ONE)
    with pytest.raises(DbError):
        opened(path, Schema("notes", (*ONE.steps, "create table more (id integer) strict; no such statement;")))
    assert opened(path, TWO) == [("notes", 1), ("notes", 2)]


def test_a_newer_store_is_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path, TWO)
    before = path.read_bytes()
    with pytest.raises(NewerSchema, match=r"version 2 of notes.* version 1") as caught:
        opened(path, OTHER, ONE)
    assert (caught.value.component, caught.value.found, caught.value.known) == ("notes", 2, 1)
    assert path.read_bytes() == before


def test_a_newer_store_with_a_log_left_by_a_crash_is_refused_unchanged(tmp_path: Path) -> None:
    path, wal = tmp_path / "store.db", tmp_path / "store.db-wal"
    db = Database.open(path, [TWO])
    db.write_sync(lambda tx: tx.run("insert into note (text) values ('x')"))
    before = path.read_bytes(), wal.read_bytes()
    db.close()
    path.write_bytes(before[0])
    wal.write_bytes(before[1])
    with pytest.raises(NewerSchema):
        opened(path, ONE)
    assert (path.read_bytes(), wal.read_bytes()) == before


@pytest.mark.parametrize("content", [b'{"agents": {', b"", b"SQLite format 3\0", b"\0" * 100, b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 8000])
def test_half_written_file_06_an_unreadable_store_is_never_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with pytest.raises(Damaged):
        opened(path, ONE)
    assert path.read_bytes() == content


def test_a_truncated_store_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path, ONE)
    whole = path.read_bytes()
    for size in (*range(1, 4096, 511), 4096, len(whole) - 4096):
        path.write_bytes(whole[:size])
        with pytest.raises(Damaged):
            opened(path, ONE)
        assert path.read_bytes() == whole[:size]


def test_a_database_of_something_else_is_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "cookies.db"
    c = apsw.Connection(str(path))
    c.execute("create table cookie (id integer)")
    c.close()
    before = path.read_bytes()
    with pytest.raises(Damaged, match="something else"):
        opened(path, ONE)
    assert path.read_bytes() == before


def test_gaps_in_the_migrations_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path, TWO)
    c = apsw.Connection(str(path))
    c.execute("delete from migration where no = 1")
    c.close()
    with pytest.raises(Damaged, match="gaps"):
        opened(path, TWO)


@pytest.mark.parametrize("blocked", ["a folder", "a file as folder"])
def test_a_path_that_cannot_be_is_a_typed_error(tmp_path: Path, blocked: str) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DbError):
        opened(tmp_path if blocked == "a folder" else tmp_path / "file" / "store.db", ONE)


def test_many_may_open_a_new_store_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: opened(path, TWO), range(8)))
    assert found == [[("notes", 1), ("notes", 2)]] * 8
    assert [p.name for p in tmp_path.iterdir()] == ["store.db"]


def test_processes_may_migrate_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    opened(path, ONE)
    code = f"from tests.db.test_open import *; print(opened(Path({str(path)!r}), TWO))"
    children = [outside.start("-c", code, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [child.communicate()[0] for child in children] == ["[('notes', 1), ('notes', 2)]\n"] * 4
