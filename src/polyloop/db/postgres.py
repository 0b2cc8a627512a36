"""The PostgreSQL driver (psycopg 3), for whoever has outgrown one file.

Writers take one advisory lock for as long as their transaction lasts, so that a write sees what the one before it left, as on
SQLite, and no serialization failure has to be explained to anybody. A COMMIT whose answer is lost is unknown: its backend may
still be at work. It holds that lock until it is done, so `bury`, which takes the lock once, comes back when its fate is sealed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, cast

import psycopg

from .errors import Busy, CommitUnknown, ConstraintFailed, DbError
from .schema import Schema, migrate, pending
from .tx import Dialect, Row, Value

#: Any number, as long as everybody takes the same.
_WRITERS: Final = 0x706F6C79
_BUSY: Final = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
LOCK_TIMEOUT_MS: Final = 10_000


def _typed(error: psycopg.Error) -> DbError:
    kind: type[DbError] = ConstraintFailed if isinstance(error, psycopg.IntegrityError) else Busy if isinstance(error, _BUSY) else DbError
    return kind(f"{type(error).__name__}: {str(error).strip()}")


class PostgresSession:
    """One connection, used by one thread at a time."""

    dialect: ClassVar[Dialect] = "postgres"

    def __init__(self, url: str) -> None:
        try:
            self._conn: psycopg.Connection[Row] = psycopg.connect(url, autocommit=True)
        except psycopg.Error as error:
            raise _typed(error) from error
        self._execute: Any = self._conn.execute

    def configure(self) -> None:
        self.run(f"set lock_timeout = {LOCK_TIMEOUT_MS}")
        self.run("set synchronous_commit = on")

    def read_only(self) -> None:
        self.run("set default_transaction_read_only = on")

    def rows(self, sql: str, /, *params: Value) -> list[Row]:
        try:
            return self._execute(_dialect(sql), params or None).fetchall()
        except psycopg.Error as error:
            raise _typed(error) from error

    def row(self, sql: str, /, *params: Value) -> Row | None:
        rows = self.rows(sql, *params)
        return rows[0] if rows else None

    def run(self, sql: str, /, *params: Value) -> int:
        try:
            return cast(int, self._execute(_dialect(sql), params or None).rowcount)
        except psycopg.Error as error:
            raise _typed(error) from error

    def fill(self, table: str, column: str, row: int, pieces: Sequence[bytes]) -> None:
        self.run(f"update {table} set {column} = ? where id = ?", b"".join(pieces), row)  # noqa: S608  # names of our own

    def begin(self) -> None:
        self.run("begin")
        try:
            self.run(f"select pg_advisory_xact_lock({_WRITERS})")
        except DbError:
            self.rollback()
            raise

    def begin_read(self) -> None:
        self.run("begin isolation level repeatable read read only")

    def commit(self) -> None:
        if self._conn.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
            self.rollback()
            raise DbError("the transaction had failed; nothing was written")
        try:
            self._execute("commit")
        except psycopg.Error as error:
            if error.sqlstate is not None and not self._conn.broken:  # the server's own word that it did not
                raise _typed(error) from error
            raise CommitUnknown(f"the fate of the commit is not known ({type(error).__name__}: {error})") from error

    def rollback(self) -> bool:
        try:
            if self._conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self._execute("rollback")
        except psycopg.Error:
            return False
        return not self._conn.broken

    def savepoint(self) -> None:
        self.run("savepoint unit")

    def undo(self) -> bool:
        if self._conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            return False
        self.run("rollback to savepoint unit")
        self.run("release savepoint unit")
        return True

    def release(self) -> None:
        self.run("release savepoint unit")

    def bury(self) -> None:
        self.begin()
        self.commit()

    @property
    def full(self) -> bool:
        return False

    def fold(self) -> None:
        """The server keeps its own log."""

    def script(self, sql: str) -> None:
        self.run(sql)

    def tables(self) -> set[str]:
        return {name for (name,) in self.rows("select tablename from pg_tables where schemaname = current_schema()")}

    def abandon(self) -> None:
        self._conn.close()

    def close(self) -> None:
        self._conn.close()


def prepare_postgres(url: str, schemas: Sequence[Schema]) -> PostgresSession:
    """A connection to a store brought up to date. Raises Damaged, NewerSchema, DbError."""
    session = PostgresSession(url)
    try:
        session.configure()
        if pending(session, session.tables(), schemas):
            migrate(session, schemas)
    except BaseException:
        session.abandon()
        raise
    return session


def _dialect(sql: str) -> str:
    """Ours (`?`) as the server's."""
    return sql.replace("%", "%%").replace("?", "%s") if "?" in sql else sql
