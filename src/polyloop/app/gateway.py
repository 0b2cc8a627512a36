"""The gateway of one tenant in one store: its settings from gateway.toml, its cache and ledger beside the runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from polyloop.clock import SystemClock
from polyloop.contract.problem import KINDS, Kind, problem
from polyloop.contract.spend import micro
from polyloop.db import Damaged, Database, DbError, NewerSchema, Schema, Tx
from polyloop.db.birth import locate
from polyloop.gateway import accounts, script
from polyloop.gateway.accounts import Charged
from polyloop.gateway.cache import SCHEMA
from polyloop.gateway.office import Office
from polyloop.gateway.settings import Settings, parse
from polyloop.gateway.sources import seated, source
from polyloop.gateway.stream import Display
from polyloop.ids import uuid7
from polyloop.journal import spending
from polyloop.journal.operations import SCHEMA as JOURNAL
from polyloop.kernel import records as r
from polyloop.kernel.objects import Json
from polyloop.kernel.records import Part
from polyloop.kernel.seams import Message, ModelCallFailed, ModelRequest, Reply

from .place import check_place
from .request_file import read_bytes

T = TypeVar("T")
FILE: Final = "gateway.toml"
#: The kind of problem a failed call is; codes not named are `invalid_response`.
KIND_BY_CODE: Final[Mapping[str, Kind]] = {
    **{kind: kind for kind in KINDS},
    "binding_rejected": "validation", "bad_request": "validation", "spend_limit": "budget_exceeded", "price_unknown": "budget_exceeded",
    "quota_exceeded": "budget_exceeded", "store_failed": "local_io",
}  # fmt: skip


def settings() -> Settings:
    """From `gateway.toml` in POLYLOOP_HOME; without one, the defaults. Raises ProblemError(validation)."""
    path = Path(os.environ.get("POLYLOOP_HOME") or ".polyloop") / FILE
    return parse(str(path), read_bytes(path)) if path.exists() else Settings()


def office(store: str, tenant: str, display: Display | None = None) -> Office:
    """The office of a tenant's calls; a store of "" keeps and counts nothing. Raises ProblemError(validation)."""
    return Office(tenant, settings(), (lambda: Database.open(store, [SCHEMA])) if store else None, environ=os.environ, display=display)


async def ask(
    store: str, tenant: str, model: str, text: str, binding: Mapping[str, str], params: Mapping[str, Json], display: Display | None = None
) -> Reply:
    """One call outside any run, with the defences, cache and ledger of every call. Raises ProblemError by the call's code."""
    check_place(store, tenant)
    at = office(store, tenant, display)
    try:
        with _typed():
            named = seated(source(model, lambda name: read_bytes(Path(name))), at)
            request = ModelRequest(uuid7(), (Message("user", (Part(text=text),)),), params, binding, 1)
            return await named.call(request)
    except ModelCallFailed as failed:
        kind = KIND_BY_CODE.get(failed.code, "invalid_response")
        details = {"code": failed.code, "sent": failed.sent, **({"key": failed.key} if failed.key else {})}
        started = None if failed.sent else False
        raise problem(kind, failed.message or failed.code, operation="chat", stage="model", execution_started=started, details=details) from failed
    finally:
        await at.aclose()


async def recorded(store: str, tenant: str, run_id: str) -> bytes:
    """The replies of a run as a script file. Raises ProblemError(not_found, corrupt_store, ...)."""
    from .store import read_runs

    async with read_runs(store, tenant) as runs:
        read = await runs.read(run_id)
    records = [r.decode(s.kind, s.body or b"") for s in read.sealed if s.kind == "model_result"]
    return script.recorded((m for m in records if isinstance(m, r.ModelResult)), read.look)


def look(store: str, tenant: str, fn: Callable[[Tx, str], list[T]]) -> list[T]:
    """What a store has of a tenant; one that is not there has nothing, and is not made. Raises ProblemError (corrupt_store, ...)."""
    return _at(store, tenant, lambda db: db.look(fn, tenant)) or []


def change(store: str, tenant: str, fn: Callable[[Tx, str], T], schemas: Sequence[Schema] = (SCHEMA,)) -> T | None:
    """Carry out a change of what a store has of a tenant; None = there is no store. Raises as `look`."""
    return _at(store, tenant, lambda db: db.write_sync(fn, tenant), schemas)


def _at(store: str, tenant: str, work: Callable[[Database], T], schemas: Sequence[Schema] = (SCHEMA,)) -> T | None:
    check_place(store, tenant)
    if not locate(store).exists():
        return None
    with _typed():
        db = Database.open(store, schemas)
        try:
            return work(db)
        finally:
            db.close()


def close(store: str, tenant: str, call_id: str, spent: str) -> Charged:
    """What a held charge cost, by a person's word, in credits. Raises ProblemError: validation, not_found, conflict (as `accounts.close`, and
    for an order whose own rows say what became of it: the two would differ), and as `look`.
    """
    try:
        amount = micro(spent)
    except ValueError as error:
        raise problem("validation", f"--spent: {error}", operation="gateway", stage="arguments", details={"field": "spent"}) from error
    quiet_since = SystemClock().now_ms() - int(settings().retry.deadline_s * 1000)

    def word(tx: Tx, owner: str) -> Charged:
        if spending.charges(tx, owner, "order_id", call_id):
            why = f"charge {call_id} is that of a task of media: task_settle says what it has cost"
            raise problem("conflict", why, operation="gateway", stage="precondition", details={"reason": "of_a_task"})
        return accounts.close(tx, owner, call_id, amount, quiet_since)

    closed = change(store, tenant, word, (SCHEMA, JOURNAL))
    return closed or accounts.missing(call_id)


@contextmanager
def _typed() -> Generator[None]:
    try:
        yield
    except Damaged as error:
        raise problem("corrupt_store", str(error), operation="gateway", stage="open") from error
    except NewerSchema as error:
        raise problem("capability_unavailable", str(error), operation="gateway", stage="open") from error
    except DbError as error:
        raise problem("local_io", str(error), operation="gateway", stage="store") from error
