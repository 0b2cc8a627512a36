"""How a store comes to be: found or made, checked before it is touched, brought up to date.

A new store is made under another name and appears complete or not at all. So a file that is there and empty was damaged, and
nothing unreadable is ever replaced by a fresh store.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from .errors import Damaged, DbError, NewerSchema
from .schema import Schema, migrate, pending
from .sqlite import Mode, SqliteSession

#: Shorter files are no database; SQLite would take the shortest for new ones and fill them.
SMALLEST_BYTES = 512


def locate(where: str | Path) -> Path:
    """The file of a store: a path, or `sqlite:PATH` (`sqlite:///srv/a.db` is /srv/a.db). Raises DbError for other schemes."""
    text = str(where)
    if text.startswith("sqlite:"):
        text = text.removeprefix("sqlite:").removeprefix("//")
    elif "://" in text:
        raise DbError(f"there is no driver for {text.partition(':')[0]}")
    if not text or "\0" in text:
        raise DbError("a store needs a path")
    return Path(text).absolute()


def prepare(path: Path, schemas: Sequence[Schema]) -> SqliteSession:
    """Make the store if it is not there; check and migrate it if it is; a connection to it. Raises Damaged, NewerSchema, DbError."""
    try:
        if not path.exists():
            _make(path, schemas)
        if path.stat().st_size < SMALLEST_BYTES:
            raise Damaged(f"{path} is empty or cut short: a store never is")
    except OSError as error:
        raise DbError(f"{path}: {error.strerror}") from error
    session = SqliteSession(path)
    try:
        todo = pending(session, session.tables(), schemas)
        session.configure()
        # A log left by a crash may hold what a failed sync never wrote out. Folded in now, it is on disk for certain.
        session.fold()
        if todo:
            migrate(session, schemas)
    except BaseException:
        session.abandon()
        raise
    return session


def prepare_to_read(path: Path, schemas: Sequence[Schema]) -> tuple[Mode, SqliteSession]:
    """A connection to a store that is only looked at, and how it was opened. Where the disk is full or cannot be written, it writes nothing.

    With no log beside it, or an empty one, all there is stands in the file: then that alone is read. Raises as `prepare`.
    """
    try:
        return "write", prepare(path, schemas)
    except (Damaged, NewerSchema):
        raise
    except DbError:
        log = Path(f"{path}-wal")
        modes: list[Mode] = ["read"] if log.exists() and log.stat().st_size else ["read", "still"]
        for mode in modes:
            with suppress(DbError):  # what is raised is why it cannot be opened as usual
                session = SqliteSession(path, mode)
                if not pending(session, session.tables(), schemas):
                    return mode, session
                session.abandon()
        raise


def _make(path: Path, schemas: Sequence[Schema]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)  # 0600
    os.close(fd)
    try:
        session = SqliteSession(Path(name))
        try:
            session.configure()
            migrate(session, schemas)
        finally:
            session.close()
        with suppress(FileExistsError):  # another process was first: theirs is as good
            os.link(name, path)
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(name + suffix).unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
