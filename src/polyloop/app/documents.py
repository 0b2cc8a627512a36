"""The documents of one tenant in one store, wired: `open_documents` for commands and programs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from polyloop.clock import SystemClock
from polyloop.contract.evidence import Evidence
from polyloop.contract.problem import problem
from polyloop.db import Damaged, Database, DbError, NewerSchema
from polyloop.documents.store import SCHEMAS
from polyloop.ids import uuid7
from polyloop.toolbox.bridge import citable

from .place import check_place

if TYPE_CHECKING:  # most runs touch no document
    from polyloop.documents.runtime import DocRuntime


def _opened(store: str) -> Database:
    """Raises ProblemError (corrupt_store, capability_unavailable, local_io)."""
    try:
        return Database.open(store, SCHEMAS)
    except Damaged as error:
        raise problem("corrupt_store", str(error), operation="documents", stage="open") from error
    except NewerSchema as error:
        raise problem("capability_unavailable", str(error), operation="documents", stage="open") from error
    except DbError as error:
        raise problem("local_io", str(error), operation="documents", stage="open") from error


def _runtime(db: Database, tenant: str) -> DocRuntime:
    from polyloop.documents.runtime import DocRuntime

    return DocRuntime(db, tenant, SystemClock().now_ms, uuid7)


@contextmanager
def open_documents(store: str, tenant: str) -> Generator[DocRuntime]:
    """The documents of a tenant, in a store that may hold runs too. Raises ProblemError (validation, corrupt_store, local_io, ...)."""
    check_place(store, tenant)
    db = _opened(store)
    try:
        yield _runtime(db, tenant)
    finally:
        db.close()


class Library:
    """The documents for the tools of one run: opened when first asked for, in the store the run lives in."""

    def __init__(self) -> None:
        self.store = ""
        self._db: Database | None = None

    def of(self, tenant: str) -> DocRuntime:
        """Raises ProblemError: capability_unavailable where runs are kept in memory, and as `open_documents`."""
        if not self.store:
            raise problem("capability_unavailable", "documents need a store", operation="documents", stage="open")
        if self._db is None:
            self._db = _opened(self.store)
        return _runtime(self._db, tenant)

    async def evidence(self, tenant: str, run: str) -> Evidence:
        """What a run may cite."""
        return await citable(self.of(tenant), run)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
