"""The documents of one tenant in one store, wired: `open_documents` for commands and programs."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from polyloop.clock import SystemClock
from polyloop.contract.problem import problem
from polyloop.db import Damaged, Database, DbError, NewerSchema
from polyloop.documents.runtime import DocRuntime
from polyloop.documents.store import SCHEMA
from polyloop.ids import uuid7

from .store import check_place


@contextmanager
def open_documents(store: str, tenant: str) -> Generator[DocRuntime]:
    """The documents of a tenant, in a store that may hold runs too. Raises ProblemError (validation, corrupt_store, local_io, ...)."""
    check_place(store, tenant)
    try:
        db = Database.open(store, [SCHEMA])
    except Damaged as error:
        raise problem("corrupt_store", str(error), operation="documents", stage="open") from error
    except NewerSchema as error:
        raise problem("capability_unavailable", str(error), operation="documents", stage="open") from error
    except DbError as error:
        raise problem("local_io", str(error), operation="documents", stage="open") from error
    try:
        yield DocRuntime(db, tenant, SystemClock().now_ms, uuid7)
    finally:
        db.close()
