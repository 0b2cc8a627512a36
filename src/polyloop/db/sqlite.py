"""The SQLite driver: WAL, synchronous=FULL, apsw with its own SQLite.

A COMMIT writes the frames of the transaction to the WAL, the commit frame last, then syncs, then publishes them to the other
connections through the shared index. Hence: a COMMIT refused for want of space is rolled back for certain (its last frame is not
whole); one that failed otherwise has left whole frames, invisible as long as any connection keeps the index alive, but found by
the recovery after a crash. `bury` overwrites them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, cast
from urllib.parse import quote

import apsw

from .errors import Busy, CommitUnknown, ConstraintFailed, Damaged, DbError
from .tx import Dialect, Row, Value

BUSY_TIMEOUT_MS = 10_000
#: Pages in the WAL before they are folded into the file. More make each commit dearer: the file must grow.
FOLD_PAGES = 1000
#: Bytes the WAL file may keep after it has been folded in.
WAL_KEPT_BYTES = 64 << 20
Mode = Literal["write", "read", "still"]
_MODES: Final[dict[Mode, str]] = {"write": "mode=rw", "read": "mode=ro", "still": "mode=ro&immutable=1"}
#: Earlier versions have a race that can lose the WAL (fixed in 3.51.3).
OLDEST = (3, 51, 3)

_KINDS: dict[type[Exception], tuple[type[DbError], str]] = {
    apsw.BusyError: (Busy, "another process holds the database"),
    apsw.LockedError: (Busy, "the database is locked"),
    apsw.ConstraintError: (ConstraintFailed, "constraint"),
    apsw.CorruptError: (Damaged, "the database is damaged"),
    apsw.NotADBError: (Damaged, "the file is not a database"),
    apsw.FullError: (DbError, "the disk is full"),
    apsw.IOError: (DbError, "input/output error"),
    apsw.ReadOnlyError: (DbError, "the database cannot be written"),
    apsw.CantOpenError: (DbError, "the database cannot be opened"),
}

#: Also texts with lone surrogates and integers over 64 bits: they cannot be bound.
_REFUSALS = (apsw.Error, UnicodeEncodeError, OverflowError)


def _typed(error: Exception) -> DbError:
    kind, text = _KINDS.get(type(error), (DbError, "the database refused"))
    return kind(f"{text} ({type(error).__name__}: {error})")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class SqliteSession:
    """One connection, used by one thread at a time. It never creates a file that is not there.

    `mode`: "write"; "read" for a file, or "still" for a whole disk, that nobody can write.
    """

    __slots__ = ("_conn", "_execute", "_file", "_pages", "_path")
    dialect: ClassVar[Dialect] = "sqlite"

    def __init__(self, path: Path, mode: Mode = "write") -> None:
        version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
        if version < OLDEST:
            raise DbError(f"SQLite {apsw.sqlite_lib_version()} is too old: {'.'.join(map(str, OLDEST))} is needed")
        try:
            self._conn = apsw.Connection(f"file:{quote(str(path))}?{_MODES[mode]}", flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
            self._conn.set_busy_timeout(BUSY_TIMEOUT_MS)
            # Until `configure`, closing must not fold the WAL in: a store that is refused stays as it is.
            self._conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            # Plans must not depend on bound values: otherwise this build prepares a query again at every binding (3x its cost).
            self._conn.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            self._path, self._file = path, _identity(path)
        except apsw.Error as error:
            raise _typed(error) from error
        self._pages = 0
        self._execute: Callable[..., Any] = cast(Any, self._conn.cursor()).execute

    def configure(self) -> None:
        """Set the connection up for work."""
        self.rows("pragma journal_mode = wal")
        self.run("pragma synchronous = full")
        # The writer folds the WAL in by itself, after the waiters of a commit are awake.
        self._conn.set_wal_hook(self._grown)
        self.rows(f"pragma journal_size_limit = {WAL_KEPT_BYTES}")
        self.run("pragma temp_store = memory")
        # Otherwise whatever is moved or removed, and by any later purge, stays readable in the file.
        self.rows("pragma secure_delete = on")
        self._conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)

    def read_only(self) -> None:
        self.run("pragma query_only = on")

    def _grown(self, _: apsw.Connection, __: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    @property
    def full(self) -> bool:
        return self._pages >= FOLD_PAGES

    def fold(self) -> None:
        self._pages = 0
        self.rows("pragma wal_checkpoint(passive)")

    def rows(self, sql: str, /, *params: Value) -> list[Row]:
        try:
            return self._execute(sql, params).fetchall()
        except _REFUSALS as error:
            raise _typed(error) from error

    def row(self, sql: str, /, *params: Value) -> Row | None:
        rows = self.rows(sql, *params)
        return rows[0] if rows else None

    def run(self, sql: str, /, *params: Value) -> int:
        try:
            self._execute(sql, params)
        except _REFUSALS as error:
            raise _typed(error) from error
        return self._conn.changes()

    def fill(self, table: str, column: str, row: int, pieces: Sequence[bytes]) -> None:
        self.run(f"update {table} set {column} = zeroblob(?) where id = ?", sum(map(len, pieces)), row)  # noqa: S608  # names of our own
        try:
            with self._conn.blob_open("main", table, column, row, True) as blob:  # noqa: FBT003  # positional only
                write = cast("Callable[[bytes], int]", cast(Any, blob).write)
                for piece in pieces:
                    write(piece)
        except apsw.Error as error:
            raise _typed(error) from error

    def begin(self) -> None:
        # An unlinked file takes writes gladly, while another process may already have made a new store in its place.
        if _identity(self._path) != self._file:
            raise DbError(f"{self._path} was moved or replaced; nothing was written")
        self.run("begin immediate")

    def begin_read(self) -> None:
        self.run("begin")

    def commit(self) -> None:
        try:
            self._execute("commit")
        except apsw.Error as error:
            lost = not self._conn.in_transaction
            if self.rollback() and (not lost or isinstance(error, apsw.FullError)):
                raise _typed(error) from error
            raise CommitUnknown(f"the fate of the commit is not known ({type(error).__name__}: {error})") from error

    def rollback(self) -> bool:
        try:
            if self._conn.in_transaction:
                self._execute("rollback")
        except apsw.Error:
            return False
        return not self._conn.in_transaction

    def savepoint(self) -> None:
        self.run("savepoint unit")

    def undo(self) -> bool:
        if not self._conn.in_transaction:
            return False
        self.run("rollback to unit")
        self.run("release unit")
        return True

    def release(self) -> None:
        self.run("release unit")

    def bury(self) -> None:
        self.begin()
        row = self.row("pragma user_version")
        assert row is not None
        self.run(f"pragma user_version = {(row[0] + 1) & 0x7FFFFFFF}")
        self.commit()

    def script(self, sql: str) -> None:
        self.run(sql)

    def tables(self) -> set[str]:
        return {name for (name,) in self.rows("select name from sqlite_schema where type = 'table'")}

    def abandon(self) -> None:
        self._conn.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._conn.close(force=True)

    def close(self) -> None:
        try:
            self._conn.close(force=True)
        except apsw.Error as error:
            raise _typed(error) from error
