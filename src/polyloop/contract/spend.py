"""Money: grants, and a ledger of charges folded into a balance. Integer micro-units only.

An order (one paid operation) is reserved before its effect and ends settled or refunded; `uncertain` keeps the
reservation until the truth is known. The balance is a fold over charges, so it can always be told again from the rows.
Seed: S1.4, S1.50, S1.58.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from .problem import problem

MICRO: Final = 1_000_000
#: The largest single amount: sums of many such still fit the 64 bits of a store.
MOST_CREDITS: Final = 1_000_000_000
ChargeKind = Literal["reserve", "uncertain", "settle", "refund"]
#: What may follow what within one order; an order not yet seen is "".
MOVES: Final[dict[str, frozenset[str]]] = {
    "": frozenset({"reserve"}), "reserve": frozenset({"uncertain", "settle", "refund"}), "uncertain": frozenset({"settle", "refund"}),
    "settle": frozenset(), "refund": frozenset(),
}  # fmt: skip


class Quote(Struct, frozen=True, rename="camel"):
    """What an operation will cost at most, and of what size it is. `seconds`, `width`, `height` 0 = does not apply."""

    amount_micro: int
    mode: str = ""
    model: str = ""
    tier: str = ""
    seconds: float = 0
    width: int = 0
    height: int = 0


class Grant(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a person allowed without asking again. Empty tuples and 0 = no such limit; `credits_micro` always limits."""

    id: str
    credits_micro: int
    tasks: int = 0
    modes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    max_seconds: float = 0
    max_width: int = 0
    max_height: int = 0
    until: int = 0


class Charge(Struct, frozen=True, rename="camel"):
    """One row: `source` = the grant or approval it draws on."""

    order: str
    source: str
    kind: ChargeKind
    amount_micro: int


class Order(Struct, frozen=True):
    """One paid thing: who pays, for what (`id`, unique within the tenant), who is paid, at most how much; None = not known."""

    tenant: str
    session: str
    id: str
    source: str
    most_micro: int | None


class Purse(Protocol):
    """The accounts of tenants and sessions, under their caps. Whoever spends does it here, so that a cap holds for all together.

    Every verb runs in the transaction `tx` of the one who spends: the money and what it is for are one commit.
    """

    def reserve(self, tx: Any, order: Order, now_ms: int) -> tuple[str, str] | None:
        """Hold the most it may cost; None = held, or held already under this id. Else nothing is, and why: (`price_unknown` |
        `spend_limit`, a sentence).
        """
        ...

    def move(self, tx: Any, order: Order, kind: ChargeKind, amount_micro: int | None = None) -> bool:
        """Settle at an amount, refund, or mark `uncertain`, as MOVES allows; False = that is no move from where the order is."""
        ...


class Balance(Struct, frozen=True):
    """`held` is reserved or uncertain, `spent` settled; `tasks` are the orders not refunded."""

    held_micro: int
    spent_micro: int
    tasks: int


def micro(amount: int | str) -> int:
    """Exact micro-units of an amount in credits. Raises ValueError for more than six decimals, over MOST_CREDITS, and for what is no amount."""
    try:
        scaled = Decimal(amount) * MICRO
        fits = 0 <= scaled <= MOST_CREDITS * MICRO
    except (ArithmeticError, ValueError) as error:
        raise ValueError(f"not an amount: {amount}") from error
    if not fits or scaled != int(scaled):
        raise ValueError(f"not an amount: {amount}")
    return int(scaled)


def latest(charges: Iterable[Charge]) -> dict[str, Charge]:
    """The last charge of each order. Raises conflict for a move that is not legal; a repeated row counts once."""
    orders: dict[str, Charge] = {}
    for charge in charges:
        last = orders.get(charge.order)
        if charge == last:
            continue
        was = last.kind if last else ""
        if charge.kind not in MOVES[was] or charge.amount_micro < 0:
            raise problem("conflict", f"order {charge.order} ({was or 'not reserved'}) cannot take {charge.kind}", stage="spend")
        orders[charge.order] = charge
    return orders


def balance(charges: Iterable[Charge]) -> Balance:
    """Fold. Raises as `latest`."""
    last = [c for c in latest(charges).values() if c.kind != "refund"]
    spent = sum(c.amount_micro for c in last if c.kind == "settle")
    return Balance(sum(c.amount_micro for c in last) - spent, spent, len(last))


def vague(limits: Mapping[str, float]) -> str:
    """The limit that is no amount: below 0 or no finite number; "" = all are."""
    return next((name for name, limit in limits.items() if not 0 <= limit < math.inf), "")


def refused(grant: Grant, used: Balance, quote: Quote, now_ms: int) -> str:
    """Why this grant does not cover this quote: the limit's name, "" = it does. A model or a price tier suffices."""
    named = not (grant.models or grant.tiers) or quote.model in grant.models or quote.tier in grant.tiers
    limits = {
        "expired": bool(grant.until) and now_ms >= grant.until,
        "mode": bool(grant.modes) and quote.mode not in grant.modes,
        "model": not named,
        "seconds": bool(grant.max_seconds) and quote.seconds > grant.max_seconds,
        "size": bool(grant.max_width and quote.width > grant.max_width) or bool(grant.max_height and quote.height > grant.max_height),
        "tasks": bool(grant.tasks) and used.tasks >= grant.tasks,
        "credits": used.held_micro + used.spent_micro + quote.amount_micro > grant.credits_micro,
    }
    return next((name for name, hit in limits.items() if hit), "")
