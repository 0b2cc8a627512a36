"""The rows of money: grants a person gave, and charges against them or against one approval. Integer micro-units (contract.spend).

A charge is never changed: an order has one row for each move it made, so every balance can be told again. Rows are written in the
transaction of what they pay for. Seed: S1.4, S1.50, S1.58.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from ..contract.problem import problem
from ..contract.spend import Charge, ChargeKind, Grant, Order, Purse, latest, vague
from ..db import Tx

TABLES: Final = """
create table spend_grant (
  tenant text not null, id text not null, scope text not null, subject text not null, at bigint not null, body text not null,
  primary key (tenant, id));
create index spend_grant_subject on spend_grant (tenant, scope, subject);
create table spend_charge (
  tenant text not null, order_id text not null, no bigint not null, source text not null, kind text not null, amount bigint not null,
  at bigint not null, primary key (tenant, order_id, no));
create index spend_charge_source on spend_charge (tenant, source);
"""


def add_grant(tx: Tx, tenant: str, scope: str, subject: str, grant: Grant, at: int) -> None:
    """`scope` = canvas, session or run; `subject` = its id. Raises validation for a limit that is no amount."""
    if field := vague({name: value for name, value in msgspec.to_builtins(grant).items() if isinstance(value, int | float)}):
        raise problem("validation", f"{field}: not an amount", stage="arguments", details={"field": field, "issue": "range"})
    tx.run(
        "insert into spend_grant (tenant, id, scope, subject, at, body) values (?, ?, ?, ?, ?, ?)",
        tenant, grant.id, scope, subject, at, msgspec.json.encode(grant).decode(),
    )  # fmt: skip


def offered(tx: Tx, tenant: str, subjects: Sequence[tuple[str, str]]) -> list[tuple[Grant, list[Charge]]]:
    """The grants of these (scope, subject), the oldest first, each with what was charged to it."""
    found: list[tuple[int, Grant]] = []
    for scope, subject in subjects:
        rows = tx.rows("select at, body from spend_grant where tenant = ? and scope = ? and subject = ?", tenant, scope, subject)
        found += [(at, msgspec.json.decode(body, type=Grant)) for at, body in rows]
    found.sort(key=lambda pair: (pair[0], pair[1].id))
    return [(grant, charges(tx, tenant, "source", grant.id)) for _, grant in found]


def by_grant(tx: Tx, tenant: str, source: str) -> bool:
    """Whether a charge draws on a grant; else on an approval of its own."""
    return tx.row("select 1 from spend_grant where tenant = ? and id = ?", tenant, source) is not None


def charges(tx: Tx, tenant: str, column: str, value: str) -> list[Charge]:
    """By `source` or by `order_id`, in the order they were made within each order."""
    rows: list[tuple[Any, ...]] = tx.rows(
        f"select order_id, source, kind, amount from spend_charge where tenant = ? and {column} = ? order by order_id, no",  # noqa: S608  # a column of our own
        tenant, value,
    )  # fmt: skip
    return [Charge(order, source, cast("ChargeKind", kind), amount) for order, source, kind, amount in rows]


def charge(tx: Tx, tenant: str, made: Charge, at: int, purse: Purse | None = None, session: str = "") -> None:
    """One move of an order, also in the accounts (`purse`) whose caps hold for everything a tenant spends; the move it has already made is
    no new one. Raises ProblemError: conflict (not legal), budget_exceeded (a cap is reached; nothing was written).
    """
    before = charges(tx, tenant, "order_id", made.order)
    if before and before[-1] == made:
        return
    latest([*before, made])
    if purse is not None:
        order = Order(tenant, session, made.order, made.source, made.amount_micro)
        refused = purse.reserve(tx, order, at) if made.kind == "reserve" else None
        if refused:
            raise problem("budget_exceeded", refused[1], stage="spend", details={"reason": refused[0]})
        if made.kind != "reserve" and not purse.move(tx, order, made.kind, made.amount_micro):
            raise problem("conflict", f"the accounts have order {made.order} otherwise: it cannot take {made.kind}", stage="spend")
    tx.run(
        "insert into spend_charge (tenant, order_id, no, source, kind, amount, at) values (?, ?, ?, ?, ?, ?, ?)",
        tenant, made.order, len(before) + 1, made.source, made.kind, made.amount_micro, at,
    )  # fmt: skip
