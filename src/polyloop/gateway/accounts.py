"""Charges and accounts in a store: what is held, what was spent, and by hand what became of a charge nobody could settle.

Theory of operation. One row per order id; its moves are those of every charge (`contract.spend.MOVES`). Accounts hold the sum of
what is held and spent, of a tenant and of each session, so a cap is one look however long the list is; row and account change in
the transaction of whoever spends. Model calls and media spend here alike: one cap holds for both. An unknown amount is null,
never zero: it is shown as unknown and refused under a cap.

Seed: R98, S1.58; caps are refused before sending, so no kernel budget is used.
"""

from __future__ import annotations

from typing import NoReturn

from msgspec import Struct

from polyloop.contract.problem import problem
from polyloop.contract.spend import MOVES, ChargeKind, Order
from polyloop.db import Tx

from .settings import Caps


class Used(Struct, frozen=True):
    """A tenant's orders of one session and source. `unknown` of them have no known price."""

    session: str
    source: str
    calls: int
    input: int
    output: int
    held_micro: int
    spent_micro: int
    unknown: int


class Charged(Struct, frozen=True, rename="camel"):
    """One order as it stands. `at` = when it was last asked for, milliseconds since the epoch."""

    call_id: str
    session: str
    source: str
    kind: ChargeKind
    amount_micro: int | None
    attempts: int
    at: int


class Accounts:
    """The purse (`contract.spend.Purse`) of a store."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps

    def reserve(self, tx: Tx, order: Order, now_ms: int) -> tuple[str, str] | None:
        """A refunded order may be held again; any other stands as it is, asked again."""
        found = charge(tx, order.tenant, order.id)
        if found is not None and found.kind != "refund":
            tx.run("update gateway_charge set at = ? where tenant = ? and call_id = ?", now_ms, order.tenant, order.id)
            return None
        caps = self._caps.of(order.tenant, order.session)
        if caps and order.most_micro is None:
            return "price_unknown", f"{order.source} has no price in gateway.toml, and a cap is set"
        for session, cap in caps:
            used = _used(tx, order.tenant, session)
            if used + (order.most_micro or 0) > cap:
                whose = f"session {session}" if session else f"tenant {order.tenant}"
                return "spend_limit", f"{whose} has used {used} of {cap} micro-credits; this may take {order.most_micro}"
        tx.run(
            "insert into gateway_charge values (?, ?, ?, ?, 'reserve', ?, null, null, 0, ?) on conflict (tenant, call_id) do update set"
            " kind = 'reserve', session = excluded.session, amount_micro = excluded.amount_micro, source = excluded.source, at = excluded.at",
            order.tenant, order.id, order.session, order.source, order.most_micro, now_ms,
        )  # fmt: skip
        _add(tx, order.tenant, order.session, order.most_micro or 0)
        return None

    def move(self, tx: Tx, order: Order, kind: ChargeKind, amount_micro: int | None = None) -> bool:
        """`settle` needs the amount."""
        found = charge(tx, order.tenant, order.id)
        if found is None or kind not in MOVES[found.kind]:
            return False
        after = {"settle": amount_micro, "refund": 0}.get(kind, found.amount_micro)
        tx.run(
            "update gateway_charge set kind = ?, source = ?, amount_micro = ? where tenant = ? and call_id = ?",
            kind, order.source, after, order.tenant, order.id,
        )  # fmt: skip
        _add(tx, order.tenant, found.session, (after or 0) - (found.amount_micro or 0))
        return True


def charge(tx: Tx, tenant: str, call_id: str) -> Charged | None:
    row = tx.row(f"{_CHARGE} and call_id = ?", tenant, call_id)
    return None if row is None else Charged(*row)


_CHARGE = "select call_id, session, source, kind, amount_micro, attempts, at from gateway_charge where tenant = ?"


def held(tx: Tx, tenant: str) -> list[Charged]:
    """What is reserved or uncertain, oldest first."""
    return [Charged(*row) for row in tx.rows(f"{_CHARGE} and kind in ('reserve', 'uncertain') order by at, call_id", tenant)]


def close(tx: Tx, tenant: str, call_id: str, amount_micro: int, quiet_since: int) -> Charged:
    """A person's word on a charge nobody could settle; 0 = nothing was spent. The same word twice is one.

    Raises ProblemError: not_found; conflict for one that ended otherwise, or was asked for after `quiet_since` and may be under way.
    """
    found = charge(tx, tenant, call_id)
    if found is None:
        return missing(call_id)
    kind: ChargeKind = "settle" if amount_micro else "refund"
    if (found.kind, found.amount_micro) == (kind, amount_micro):
        return found
    if kind not in MOVES[found.kind]:
        raise problem("conflict", f"charge {call_id} has ended: {found.kind}", operation="gateway", stage="precondition")
    if found.kind == "reserve" and found.at > quiet_since:
        raise problem("conflict", f"the call of charge {call_id} may still be under way", operation="gateway", stage="precondition")
    Accounts(Caps()).move(tx, Order(tenant, found.session, call_id, found.source, None), kind, amount_micro)
    return charge(tx, tenant, call_id) or found


def missing(call_id: str) -> NoReturn:
    raise problem("not_found", f"there is no charge {call_id!r}", operation="gateway", stage="resolve")


def usage(tx: Tx, tenant: str) -> list[Used]:
    """A tenant's orders by session and source. A refunded one was none."""
    rows = tx.rows(
        "select session, source, count(*), coalesce(sum(input), 0), coalesce(sum(output), 0),"
        " coalesce(sum(case when kind <> 'settle' then amount_micro end), 0), coalesce(sum(case when kind = 'settle' then amount_micro end), 0),"
        " sum(case when amount_micro is null then 1 else 0 end)"
        " from gateway_charge where tenant = ? and kind <> 'refund' group by session, source order by session, source",
        tenant,
    )
    return [Used(*row) for row in rows]


def _add(tx: Tx, tenant: str, owner: str, amount: int) -> None:
    for session in dict.fromkeys(("", owner)):
        tx.run(
            "insert into gateway_account values (?, ?, ?) on conflict (tenant, session)"
            " do update set used_micro = gateway_account.used_micro + excluded.used_micro",
            tenant, session, amount,
        )  # fmt: skip


def _used(tx: Tx, tenant: str, session: str) -> int:
    row = tx.row("select used_micro from gateway_account where tenant = ? and session = ?", tenant, session)
    return row[0] if row else 0
