"""The rows of the journal: operations with their receipts, approvals, sessions, signing secrets. One function a row, tenant in every key.

Documents, canvas and media write here in the transaction of what they do, so a run has one list of receipts and a person one
list of approvals, and a key stands for one operation whatever its subject. Seed: S0.9, S1.49.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..contract.approval import Approval
from ..contract.ledger import Entry
from ..contract.problem import as_wire
from ..contract.receipt import Compensation
from ..contract.session import Fact
from ..db import Schema, Tx
from .spending import TABLES as MONEY

#: One decoder for all: a long session is read at every call of it.
_fact: Final = msgspec.json.Decoder[Fact](Fact).decode

_TABLES: Final = """
create table op_entry (
  tenant text not null, id text not null, key text, session text not null, memo text not null, entry text not null,
  primary key (tenant, id), unique (tenant, key));
create index op_entry_session on op_entry (tenant, session);
create table op_approval (
  tenant text not null, id text not null, request text not null, no bigint not null, approval text not null, primary key (tenant, id));
create index op_approval_request on op_approval (tenant, request, no);
create table op_fact (tenant text not null, session text not null, no bigint not null, fact text not null, primary key (tenant, session, no));
create table op_secret (tenant text not null primary key, secret text not null);
"""
#: Operations by what they were about, so that erasing a thing reaches what was kept of it.
_BY_TARGET: Final = """
alter table op_entry add column target text not null default '';
create index op_entry_target on op_entry (tenant, target);
"""
SCHEMA: Final = Schema("journal", (_TABLES, _BY_TARGET, MONEY))


class Recorded(Struct, frozen=True):
    """One operation as it stands. `memo` = JSON of what its subject must know of it afterwards; `target` = the id of what it was about."""

    entry: Entry
    memo: str
    session: str
    target: str = ""


def _recorded(row: tuple[Any, ...] | None) -> Recorded | None:
    if row is None:
        return None
    entry, memo, session = row
    return Recorded(msgspec.json.decode(entry, type=Entry), memo, session)


def by_id(tx: Tx, tenant: str, operation_id: str) -> Recorded | None:
    return _recorded(tx.row("select entry, memo, session from op_entry where tenant = ? and id = ?", tenant, operation_id))


def by_key(tx: Tx, tenant: str, key: str) -> Recorded | None:
    return _recorded(tx.row("select entry, memo, session from op_entry where tenant = ? and key = ?", tenant, key))


def by_memo(tx: Tx, tenant: str, target: str, memo: str) -> Recorded | None:
    """The operation about a target of which this is kept."""
    return _recorded(tx.row("select entry, memo, session from op_entry where tenant = ? and target = ? and memo = ?", tenant, target, memo))


def of_session(tx: Tx, tenant: str, session: str) -> list[Entry]:
    """Every operation of a session, oldest first."""
    rows = tx.rows("select entry from op_entry where tenant = ? and session = ? order by id", tenant, session)
    return [msgspec.json.decode(entry, type=Entry) for (entry,) in rows]


def intend(tx: Tx, tenant: str, recorded: Recorded) -> Recorded | None:
    """The intent of an operation or of its next attempt; or the other operation that has its key."""
    entry = recorded.entry
    taken = by_key(tx, tenant, entry.key) if entry.key else None
    if taken is not None and taken.entry.operation_id != entry.operation_id:
        return taken
    tx.run(
        "insert into op_entry (tenant, id, key, session, memo, entry, target) values (?, ?, ?, ?, ?, ?, ?)"
        " on conflict (tenant, id) do update set memo = excluded.memo, entry = excluded.entry, target = excluded.target",
        tenant, entry.operation_id, entry.key or None, recorded.session, recorded.memo, _text(entry), recorded.target,
    )  # fmt: skip
    return None


def settle(tx: Tx, tenant: str, entry: Entry) -> None:
    tx.run("update op_entry set entry = ? where tenant = ? and id = ?", _text(entry), tenant, entry.operation_id)


def about(tx: Tx, tenant: str, operation_id: str, target: str) -> None:
    """What an operation was about, where that is known only afterwards."""
    tx.run("update op_entry set target = ? where tenant = ? and id = ?", target, tenant, operation_id)


def without_target(tx: Tx, tenant: str) -> list[str]:
    """The ids of operations of which it is not known what they were about."""
    return [op_id for (op_id,) in tx.rows("select id from op_entry where tenant = ? and target = ''", tenant)]


def forget(
    tx: Tx, tenant: str, target: str, memo_without: Callable[[str], str], reason: str, data_without: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """A thing was erased: no earlier operation on it can be taken back any more, and what would bring its words back is not kept.

    `memo_without`, `data_without` make of a memo, and of the data of a receipt, one without them.
    """
    for op_id, memo, text in tx.rows("select id, memo, entry from op_entry where tenant = ? and target = ?", tenant, target):
        entry = msgspec.json.decode(text)
        if entry.get("receipt"):
            entry["receipt"]["compensation"] = as_wire(Compensation(reason=reason))
            entry["receipt"]["data"] = data_without(entry["receipt"].get("data", {}))
        kept = msgspec.json.encode(entry).decode()
        tx.run("update op_entry set memo = ?, entry = ? where tenant = ? and id = ?", memo_without(memo), kept, tenant, op_id)


def find_approval(tx: Tx, tenant: str, plan_id: str, request: str = "") -> Approval | None:
    """By id where one is given, else the newest for this request."""
    column, value = ("id", plan_id) if plan_id else ("request", request)
    row = tx.row(f"select approval from op_approval where tenant = ? and {column} = ? order by no desc limit 1", tenant, value)  # noqa: S608  # a column of our own
    return msgspec.json.decode(row[0], type=Approval) if row else None


def keep_approval(tx: Tx, tenant: str, approval: Approval) -> None:
    tx.run(
        "insert into op_approval (tenant, id, request, no, approval)"
        " values (?, ?, ?, (select coalesce(max(no), 0) + 1 from op_approval where tenant = ?), ?)"
        " on conflict (tenant, id) do update set approval = excluded.approval",
        tenant, approval.id, approval.plan.arguments, tenant, _text(approval),
    )  # fmt: skip


def approvals(tx: Tx, tenant: str) -> list[Approval]:
    """All there are, oldest first."""
    rows = tx.rows("select approval from op_approval where tenant = ? order by no", tenant)
    return [msgspec.json.decode(text, type=Approval) for (text,) in rows]


def facts(tx: Tx, tenant: str, session: str) -> list[Fact]:
    rows = tx.rows("select fact from op_fact where tenant = ? and session = ? order by no", tenant, session)
    return [_fact(text) for (text,) in rows]


def add_facts(tx: Tx, tenant: str, session: str, fresh: Iterable[Fact]) -> None:
    for fact in fresh:
        tx.run(
            "insert into op_fact (tenant, session, no, fact)"
            " values (?, ?, (select coalesce(max(no), 0) + 1 from op_fact where tenant = ? and session = ?), ?)",
            tenant, session, tenant, session, _text(fact),
        )  # fmt: skip


#: The row of the store's own secret: no tenant has an empty name.
EVERYBODY: Final = ""


def secret(tx: Tx, fresh: str) -> bytes:
    """What the continuations of this store are signed with; `fresh` is kept if there is none yet.

    One secret for all tenants, so that a continuation of another is told as foreign and not as forged: it says itself whose it is.
    """
    tx.run("insert into op_secret (tenant, secret) values (?, ?) on conflict (tenant) do nothing", EVERYBODY, fresh)
    row = tx.row("select secret from op_secret where tenant = ?", EVERYBODY)
    assert row is not None
    return row[0].encode()


def _text(value: Struct) -> str:
    return msgspec.json.encode(value).decode()
