"""The documents and canvases of one tenant in one store, wired: for commands, programs and the tools of runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from polyloop.canvas.store import SCHEMAS as CANVAS_SCHEMAS
from polyloop.clock import SystemClock
from polyloop.contract.evidence import Evidence
from polyloop.contract.problem import problem
from polyloop.contract.task import Ticket
from polyloop.db import Damaged, Database, DbError, NewerSchema
from polyloop.db.birth import locate
from polyloop.dialogue.sub_run import House
from polyloop.dialogue.thread import Thread
from polyloop.documents.store import SCHEMAS, catch_up, unindexed
from polyloop.documents.tasks import ticket_of
from polyloop.files.folder import Folder, folder_of
from polyloop.files.threads import in_thread
from polyloop.gateway.cache import SCHEMA as ACCOUNTS
from polyloop.ids import uuid7
from polyloop.kernel.seams import Log
from polyloop.media.store import SCHEMAS as MEDIA_SCHEMAS
from polyloop.toolbox.bridge import citable

from .evidence import cited_records
from .holding import lease_s
from .place import check_place
from .rounds import thread_of

if TYPE_CHECKING:  # most runs touch no document and no canvas
    from polyloop.canvas.runtime import CanvasRuntime
    from polyloop.documents.runtime import DocRuntime
    from polyloop.media.runtime import MediaRuntime
    from polyloop.workspace import Workspace


#: Tables of everything that is no run: each schema once, the journal first.
_SCHEMAS: Final = tuple({schema.component: schema for schema in (*SCHEMAS, *CANVAS_SCHEMAS, *MEDIA_SCHEMAS, ACCOUNTS)}.values())


def _opened(store: str) -> Database:
    """Raises ProblemError (corrupt_store, capability_unavailable, local_io)."""
    try:
        db = Database.open(store, _SCHEMAS)
        try:
            return _indexed(db)
        except BaseException:
            db.close()  # nobody else has it
            raise
    except ImportError as error:
        why = "a store on a PostgreSQL server needs the extra: polyloop[postgres]"
        raise problem("capability_unavailable", why, operation="open", stage="open") from error
    except Damaged as error:
        raise problem("corrupt_store", str(error), operation="open", stage="open") from error
    except NewerSchema as error:
        raise problem("capability_unavailable", str(error), operation="open", stage="open") from error
    except DbError as error:
        raise problem("local_io", str(error), operation="open", stage="open") from error


def _indexed(db: Database) -> Database:
    """With everything in it that was made before there was an index."""
    while db.look(unindexed):
        db.write_sync(catch_up)
    return db


def _runtime(db: Database, tenant: str, folder: Folder | None) -> DocRuntime:
    from polyloop.documents.runtime import DocRuntime

    return DocRuntime(db, tenant, SystemClock().now_ms, uuid7, folder=folder, lease_ms=round(lease_s() * 1000))


def canvases_of(db: Database, tenant: str) -> CanvasRuntime:
    """The canvases of a tenant."""
    from polyloop.canvas.runtime import CanvasRuntime

    from .media import DELIVERIES

    return CanvasRuntime(db, tenant, SystemClock().now_ms, uuid7, deliveries=DELIVERIES)


@contextmanager
def open_database(store: str, tenant: str) -> Generator[Database]:
    """A store that may hold runs too, or a database on a PostgreSQL server.

    Raises ProblemError (validation, corrupt_store, local_io, capability_unavailable, ...).
    """
    check_place(store, tenant, servers=True)
    db = _opened(store)
    try:
        yield db
    finally:
        db.close()


@contextmanager
def read_database(store: str, tenant: str) -> Generator[Database]:
    """As `open_database`, for those who only look: a store that is not there is an empty one, and is not made."""
    check_place(store, tenant, servers=True)
    if "://" in store or locate(store).exists():
        with open_database(store, tenant) as db:
            yield db
    else:
        with TemporaryDirectory(prefix="polyloop-") as nowhere, open_database(str(Path(nowhere) / "empty.db"), tenant) as db:
            yield db


@contextmanager
def open_documents(store: str, tenant: str, workdir: str = ".") -> Generator[DocRuntime]:
    """The documents of a tenant; files are those of `workdir`. Raises as `open_database`."""
    with open_database(store, tenant) as db:
        yield _runtime(db, tenant, folder_of(workdir, store=_file(store)))


@contextmanager
def read_documents(store: str, tenant: str, workdir: str = ".") -> Generator[DocRuntime]:
    """As `open_documents`, for those who only look."""
    with read_database(store, tenant) as db:
        yield _runtime(db, tenant, folder_of(workdir, store=_file(store)))


def _file(store: str) -> str:
    return "" if "://" in store else str(locate(store))


async def work_tasks(documents: DocRuntime, told: Callable[[Ticket], object], *, watch: bool) -> int:
    """Carry out imports and exports until none is left (`watch`: until stopped); `told` of each. Returns how many."""
    stopped = threading.Event()
    worker = documents.worker()
    return await in_thread(lambda: worker.all(lambda task: told(ticket_of(task)), stopped.is_set, watch=watch), stopped.set)


class Library:
    """The documents and canvases for the tools of one run: opened when first asked for, in the store the run lives in.

    Files are those of its workspace.
    """

    def __init__(self, workspace: Workspace | None = None) -> None:
        self.store = ""
        self.log: Log | None = None
        self.workspace = workspace
        #: Where a run that has one of these begins runs below it.
        self.below: House | None = None
        self._db: Database | None = None
        #: The run and what it was given to spend, as its request says it; "" = nothing.
        self.run_id = self.spend = ""
        #: Whether the run may only read: then nothing moves by its looking.
        self.reads_only = False
        self._granted: set[str] = set()

    def of(self, tenant: str) -> DocRuntime:
        """Raises ProblemError: capability_unavailable where runs are kept in memory, and as `open_documents`."""
        db, w = self._opened(), self.workspace
        return _runtime(db, tenant, folder_of(w.folder, read_only=tuple(w.read_only), store=_file(self.store)) if w else None)

    def canvases(self, tenant: str) -> CanvasRuntime:
        """Raises as `of`."""
        return canvases_of(self._opened(), tenant)

    def media(self, tenant: str) -> MediaRuntime:
        """Media on canvases, with what the run was given to spend. Raises as `of`."""
        from .media import granted, media_of

        db = self._opened()
        if self.spend and not self.reads_only and tenant not in self._granted:
            db.write_sync(granted, tenant, self.run_id, self.spend)
            self._granted.add(tenant)
        return media_of(db, tenant, moves=not self.reads_only, session=self.run_id)

    def _opened(self) -> Database:
        if not self.store:
            raise problem("capability_unavailable", "documents and canvases need a store", operation="open", stage="open")
        if self._db is None:
            self._db = _opened(self.store)
        return self._db

    async def evidence(self, tenant: str, run: str, refs: Sequence[str]) -> Evidence:
        """What a run may cite: its receipts and lists, and of what it does cite the records of logs."""
        records = await cited_records(self.log, tenant, refs) if self.log is not None else []
        return await citable(self.of(tenant), run, records, await self.media(tenant).tasks(run))

    async def thread(self, tenant: str, run: str) -> Thread:
        """What was asked in a run and the tasks before it."""
        return Thread() if self.log is None else await thread_of(self.log, tenant, run)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
