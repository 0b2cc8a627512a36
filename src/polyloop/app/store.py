"""Opening the store a command or a program names."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from polyloop.db.birth import locate
from polyloop.stores.memory import MemoryLog
from polyloop.stores.sqlite import open_log

from .place import check_place
from .runs import Runs
from .typed import typed


@asynccontextmanager
async def open_runs(store: str, tenant: str, *, dedicated: bool = False, to_read: bool = False) -> AsyncGenerator[Runs]:
    """The runs of a tenant in a store: a path, or `sqlite:PATH`. Raises ProblemError (validation, corrupt_store, ...).

    `dedicated`: the running loop lives for these runs alone and may wait for the disk itself; that saves two thread switches a commit.
    `to_read`: nothing will be written.
    """
    check_place(store, tenant)
    with typed("open"):
        log = open_log(store, to_read=to_read)
    if dedicated:
        log.dedicate()
    try:
        yield Runs(log, tenant, store=store)
    finally:
        await log.close()


@asynccontextmanager
async def read_runs(store: str, tenant: str) -> AsyncGenerator[Runs]:
    """As `open_runs`, for those who only look: a store that is not there is an empty one, and is not made."""
    if "://" in store or locate(store).exists():
        async with open_runs(store, tenant, to_read=True) as runs:
            yield runs
    else:
        yield Runs(MemoryLog(), tenant)
