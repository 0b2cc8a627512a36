"""What calls cost, per tenant and session: reserved before they are sent, settled by what the source reported.

Theory of operation. One row per call id; its moves are those of every charge (`contract.spend.MOVES`). A call asked again after
a crash finds its row and is not charged twice. Accounts hold the sum of what is held and spent, so a cap is one look however
long the ledger is; row and account change in one transaction. An unknown price or unreported usage is null, never zero: it is
shown as unknown and refused under a cap. A failed call whose work the source may have done stays held (`uncertain`).

Seed: R98; caps are refused before sending, so no kernel budget is used.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from polyloop.contract.spend import MOVES
from polyloop.db import Database, DbError, Tx
from polyloop.kernel.records import Usage
from polyloop.kernel.seams import Clock, ModelCallFailed

from .faults import Fault


class Order(Struct, frozen=True):
    """Who pays for which call, and at most how much; None = not known. `caps` = (session or "" for the tenant, micro-credits)."""

    tenant: str
    session: str
    call_id: str
    source: str
    most_micro: int | None
    caps: tuple[tuple[str, int], ...] = ()


class Used(Struct, frozen=True):
    """A tenant's calls of one session and source. `unknown` of the calls have no known price."""

    session: str
    source: str
    calls: int
    input: int
    output: int
    held_micro: int
    spent_micro: int
    unknown: int


class Ledger:
    """The charges of a store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def reserve(self, order: Order, at: int) -> None:
        """Raises ModelCallFailed, nothing sent: `price_unknown` under a cap, `spend_limit` when a cap would be passed."""
        refused = await self._db.write(_reserve, order, at)
        if refused:
            raise ModelCallFailed(refused[0], sent=False, message=refused[1])

    async def settle(self, order: Order, source: str, amount_micro: int | None, usage: Usage | None, attempts: int) -> None:
        """The call was answered. Without a known amount what was reserved stays held."""
        kind = "settle" if amount_micro is not None else "uncertain"
        await self._db.write(_move, order, kind, source, amount_micro, usage, attempts)

    async def give_up(self, order: Order, attempts: int, *, charged: bool) -> None:
        """The call failed; `charged` = the source may have done the work all the same."""
        await self._db.write(_move, order, "uncertain" if charged else "refund", order.source, None, None, attempts)


class Bill:
    """The money of one call: its charge, and a further one for every attempt after one that may have done the work.

    `ledger` None = nothing is counted. `uncertain` = the last attempt may have cost.
    """

    def __init__(self, ledger: Ledger | None, order: Order, clock: Clock) -> None:
        self._ledger, self._order, self._clock = ledger, order, clock
        self._call_id, self._charges, self.uncertain = order.call_id, 1, False

    async def reserve(self) -> None:
        """Raises ModelCallFailed, nothing sent: as `Ledger.reserve`, and `store_failed`."""
        if self._ledger is None:
            return
        try:
            await self._ledger.reserve(self._order, self._clock.now_ms())
        except DbError as error:
            raise ModelCallFailed("store_failed", sent=False, message=str(error)) from error

    async def another(self, attempts: int) -> Fault | None:
        """Before each attempt: why it may not be made, None = it may. What the last one may have cost stays held beside it."""
        if not self.uncertain or self._ledger is None:
            return None
        try:
            await self.give_up(attempts)
            self._charges, self.uncertain = self._charges + 1, False
            self._order = replace(self._order, call_id=f"{self._call_id}/{self._charges}")
            await self.reserve()
        except DbError as error:
            return Fault("store_failed", sent=False, next="no", message=str(error))
        except ModelCallFailed as refused:
            return Fault(refused.code, sent=False, next="no", message=refused.message)
        return None

    async def settle(self, source: str, amount_micro: int | None, usage: Usage | None, attempts: int) -> None:
        """Raises DbError."""
        if self._ledger is not None:
            await self._ledger.settle(self._order, source, amount_micro, usage, attempts)

    async def give_up(self, attempts: int) -> None:
        """Raises DbError."""
        if self._ledger is not None:
            await self._ledger.give_up(self._order, attempts, charged=self.uncertain)


def _reserve(tx: Tx, order: Order, at: int) -> tuple[str, str] | None:
    row = tx.row("select kind from gateway_charge where tenant = ? and call_id = ?", order.tenant, order.call_id)
    if row is not None and row[0] != "refund":
        return None  # asked again: its charge stands
    if order.caps and order.most_micro is None:
        return "price_unknown", f"{order.source} has no price in gateway.toml, and a cap is set"
    for session, cap in order.caps:
        used = _used(tx, order.tenant, session)
        if used + (order.most_micro or 0) > cap:
            whose = f"session {session}" if session else f"tenant {order.tenant}"
            return "spend_limit", f"{whose} has used {used} of {cap} micro-credits; this call may take {order.most_micro}"
    tx.run(
        "insert into gateway_charge values (?, ?, ?, ?, 'reserve', ?, null, null, 0, ?) on conflict (tenant, call_id)"
        " do update set kind = 'reserve', amount_micro = excluded.amount_micro, source = excluded.source, at = excluded.at",
        order.tenant, order.call_id, order.session, order.source, order.most_micro, at,
    )  # fmt: skip
    _add(tx, order, order.most_micro or 0)
    return None


def _move(tx: Tx, order: Order, kind: str, source: str, amount: int | None, usage: Usage | None, attempts: int) -> None:
    row = tx.row("select kind, amount_micro from gateway_charge where tenant = ? and call_id = ?", order.tenant, order.call_id)
    if row is None or kind not in MOVES[row[0]]:
        return
    before: int | None = row[1]
    after = {"settle": amount, "refund": 0, "uncertain": before}[kind]
    said, made = (usage.input, usage.output) if usage else (None, None)
    tx.run(
        "update gateway_charge set kind = ?, source = ?, amount_micro = ?, input = ?, output = ?, attempts = ? where tenant = ? and call_id = ?",
        kind, source, after, said, made, attempts, order.tenant, order.call_id,
    )  # fmt: skip
    _add(tx, order, (after or 0) - (before or 0))


def _add(tx: Tx, order: Order, amount: int) -> None:
    for session in dict.fromkeys(("", order.session)):
        tx.run(
            "insert into gateway_account values (?, ?, ?) on conflict (tenant, session)"
            " do update set used_micro = gateway_account.used_micro + excluded.used_micro",
            order.tenant, session, amount,
        )  # fmt: skip


def _used(tx: Tx, tenant: str, session: str) -> int:
    row = tx.row("select used_micro from gateway_account where tenant = ? and session = ?", tenant, session)
    return row[0] if row else 0


def usage(tx: Tx, tenant: str) -> list[Used]:
    """A tenant's calls by session and source. A refunded call was none."""
    rows = tx.rows(
        "select session, source, count(*), coalesce(sum(input), 0), coalesce(sum(output), 0),"
        " coalesce(sum(case when kind <> 'settle' then amount_micro end), 0), coalesce(sum(case when kind = 'settle' then amount_micro end), 0),"
        " sum(case when amount_micro is null then 1 else 0 end)"
        " from gateway_charge where tenant = ? and kind <> 'refund' group by session, source order by session, source",
        tenant,
    )
    return [Used(*row) for row in rows]
