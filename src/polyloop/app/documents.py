"""The documents of one tenant in one store, wired: `open_documents` for commands and programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from polyloop.clock import SystemClock
from polyloop.contract.evidence import Evidence
from polyloop.contract.problem import problem
from polyloop.contract.task import Ticket
from polyloop.db import Damaged, Database, DbError, NewerSchema
from polyloop.db.birth import locate
from polyloop.documents.store import SCHEMAS, catch_up, unindexed
from polyloop.documents.tasks import ticket_of
from polyloop.files.folder import Folder, folder_of
from polyloop.files.threads import in_thread
from polyloop.ids import uuid7
from polyloop.kernel.seams import Log
from polyloop.toolbox.bridge import citable

from .evidence import cited_records
from .holding import lease_s
from .place import check_place

if TYPE_CHECKING:  # most runs touch no document
    from polyloop.documents.runtime import DocRuntime
    from polyloop.workspace import Workspace


def _opened(store: str) -> Database:
    """Raises ProblemError (corrupt_store, capability_unavailable, local_io)."""
    try:
        return _indexed(Database.open(store, SCHEMAS))
    except ImportError as error:
        why = "a store on a PostgreSQL server needs the extra: polyloop[postgres]"
        raise problem("capability_unavailable", why, operation="documents", stage="open") from error
    except Damaged as error:
        raise problem("corrupt_store", str(error), operation="documents", stage="open") from error
    except NewerSchema as error:
        raise problem("capability_unavailable", str(error), operation="documents", stage="open") from error
    except DbError as error:
        raise problem("local_io", str(error), operation="documents", stage="open") from error


def _indexed(db: Database) -> Database:
    """With everything in it that was made before there was an index."""
    while db.look(unindexed):
        db.write_sync(catch_up)
    return db


def _runtime(db: Database, tenant: str, folder: Folder | None) -> DocRuntime:
    from polyloop.documents.runtime import DocRuntime

    return DocRuntime(db, tenant, SystemClock().now_ms, uuid7, folder=folder, lease_ms=round(lease_s() * 1000))


@contextmanager
def open_documents(store: str, tenant: str, workdir: str = ".") -> Generator[DocRuntime]:
    """The documents of a tenant, in a store that may hold runs too, or in a database on a PostgreSQL server; files are those of `workdir`.

    Raises ProblemError (validation, corrupt_store, local_io, capability_unavailable, ...).
    """
    check_place(store, tenant, servers=True)
    db = _opened(store)
    try:
        yield _runtime(db, tenant, folder_of(workdir, store=_file(store)))
    finally:
        db.close()


@contextmanager
def read_documents(store: str, tenant: str) -> Generator[DocRuntime]:
    """As `open_documents`, for those who only look: a store that is not there is an empty one, and is not made."""
    check_place(store, tenant, servers=True)
    if "://" in store or locate(store).exists():
        with open_documents(store, tenant) as documents:
            yield documents
    else:
        with TemporaryDirectory(prefix="polyloop-") as nowhere, open_documents(str(Path(nowhere) / "empty.db"), tenant) as documents:
            yield documents


def _file(store: str) -> str:
    return "" if "://" in store else str(locate(store))


async def work_tasks(documents: DocRuntime, told: Callable[[Ticket], object], *, watch: bool) -> int:
    """Carry out imports and exports until none is left (`watch`: until stopped); `told` of each. Returns how many."""
    stopped = threading.Event()
    worker = documents.worker()
    return await in_thread(lambda: worker.all(lambda task: told(ticket_of(task)), stopped.is_set, watch=watch), stopped.set)


class Library:
    """The documents for the tools of one run: opened when first asked for, in the store the run lives in. Files are those of its workspace."""

    def __init__(self, workspace: Workspace | None = None) -> None:
        self.store = ""
        self.log: Log | None = None
        self._workspace = workspace
        self._db: Database | None = None

    def of(self, tenant: str) -> DocRuntime:
        """Raises ProblemError: capability_unavailable where runs are kept in memory, and as `open_documents`."""
        if not self.store:
            raise problem("capability_unavailable", "documents need a store", operation="documents", stage="open")
        if self._db is None:
            self._db = _opened(self.store)
        w = self._workspace
        return _runtime(self._db, tenant, folder_of(w.folder, read_only=tuple(w.read_only), store=_file(self.store)) if w else None)

    async def evidence(self, tenant: str, run: str, refs: Sequence[str]) -> Evidence:
        """What a run may cite: its receipts and lists, and of what it does cite the records of logs."""
        records = await cited_records(self.log, tenant, refs) if self.log is not None else []
        return await citable(self.of(tenant), run, records)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
