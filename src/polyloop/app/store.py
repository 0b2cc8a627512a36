"""Opening the store a command or a program names."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from polyloop.contract.problem import problem
from polyloop.db.birth import locate
from polyloop.stores.memory import MemoryLog
from polyloop.stores.sqlite import open_log

from .runs import Runs, typed

#: Characters of a tenant's or run's name.
NAME_CHARS: Final = 200


def check_place(store: str, tenant: str) -> None:
    """Raises ProblemError: validation for a tenant that is none, capability_unavailable for a kind of store there is not."""
    if not tenant or len(tenant) > NAME_CHARS or not tenant.isprintable():
        raise problem("validation", f"a tenant is 1 to {NAME_CHARS} printable characters, not {tenant!r}", stage="arguments")
    if "://" in store:
        raise problem("capability_unavailable", f"no store of this kind in this build: {store.partition('://')[0]}://", stage="open")


@asynccontextmanager
async def open_runs(store: str, tenant: str, *, dedicated: bool = False) -> AsyncGenerator[Runs]:
    """The runs of a tenant in a store: a path, or `sqlite:PATH`. Raises ProblemError (validation, corrupt_store, ...).

    `dedicated`: the running loop lives for these runs alone and may wait for the disk itself; that saves two thread switches a commit.
    """
    check_place(store, tenant)
    with typed("open"):
        log = open_log(store)
    if dedicated:
        log.dedicate()
    try:
        yield Runs(log, tenant)
    finally:
        await log.close()


@asynccontextmanager
async def read_runs(store: str, tenant: str) -> AsyncGenerator[Runs]:
    """As `open_runs`, for those who only look: a store that is not there is an empty one, and is not made."""
    if "://" in store or locate(store).exists():
        async with open_runs(store, tenant) as runs:
            yield runs
    else:
        yield Runs(MemoryLog(), tenant)
