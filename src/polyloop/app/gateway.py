"""The gateway of one tenant in one store: its settings from gateway.toml, its cache and ledger beside the runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from polyloop.contract.problem import problem
from polyloop.db import Damaged, Database, DbError, NewerSchema
from polyloop.gateway.cache import SCHEMA
from polyloop.gateway.office import Office
from polyloop.gateway.settings import Settings, parse

from .request_file import read_bytes

FILE: Final = "gateway.toml"


def settings() -> Settings:
    """From `gateway.toml` in POLYLOOP_HOME; without one, the defaults. Raises ProblemError(validation)."""
    path = Path(os.environ.get("POLYLOOP_HOME") or ".polyloop") / FILE
    return parse(str(path), read_bytes(path)) if path.exists() else Settings()


def office(store: str, tenant: str) -> Office:
    """The office of a tenant's calls; a store of "" keeps and counts nothing. Raises ProblemError(validation)."""
    opened: Callable[[], Database] | None = (lambda: Database.open(store, [SCHEMA])) if store else None
    return Office(tenant, settings(), opened, environ=os.environ)


@contextmanager
def opened(store: str) -> Generator[Database]:
    """The store, for looking at what the gateway keeps, or erasing it. Raises ProblemError (corrupt_store, local_io, ...)."""
    try:
        db = Database.open(store, [SCHEMA])
    except Damaged as error:
        raise problem("corrupt_store", str(error), operation="gateway", stage="open") from error
    except NewerSchema as error:
        raise problem("capability_unavailable", str(error), operation="gateway", stage="open") from error
    except DbError as error:
        raise problem("local_io", str(error), operation="gateway", stage="open") from error
    try:
        yield db
    finally:
        db.close()
