"""What a call costs: reserved before it is sent, settled by what the source reported.

Theory of operation. A call asked again after a crash finds its charge and is not charged twice. A failed call whose work the source
may have done stays held (`uncertain`), and each further attempt after such a one is held beside it, so no cap is passed by answers
that were lost. Unreported usage leaves what was reserved held.
"""

from __future__ import annotations

from msgspec.structs import replace

from polyloop.contract.spend import ChargeKind, Order, Purse
from polyloop.db import Database, DbError, Tx
from polyloop.kernel.records import Usage
from polyloop.kernel.seams import Clock, ModelCallFailed

from .faults import Fault


class Ledger:
    """The charges of model calls, in a store of their own transactions."""

    def __init__(self, db: Database, purse: Purse) -> None:
        self._db, self._purse = db, purse

    async def reserve(self, order: Order, now_ms: int) -> None:
        """Raises ModelCallFailed, nothing sent: `price_unknown` under a cap, `spend_limit` when a cap would be passed."""
        refused = await self._db.write(self._purse.reserve, order, now_ms)
        if refused:
            raise ModelCallFailed(refused[0], sent=False, message=refused[1])

    async def settle(self, order: Order, amount_micro: int | None, usage: Usage | None, attempts: int) -> None:
        """The call was answered by `order.source`. Without a known amount what was reserved stays held."""
        await self._db.write(self._move, order, "uncertain" if amount_micro is None else "settle", amount_micro, usage, attempts)

    async def give_up(self, order: Order, attempts: int, *, charged: bool) -> None:
        """The call failed; `charged` = the source may have done the work all the same."""
        await self._db.write(self._move, order, "uncertain" if charged else "refund", None, None, attempts)

    def _move(self, tx: Tx, order: Order, kind: ChargeKind, amount_micro: int | None, usage: Usage | None, attempts: int) -> None:
        if self._purse.move(tx, order, kind, amount_micro):
            said, made = (usage.input, usage.output) if usage else (None, None)
            tx.run(
                "update gateway_charge set input = ?, output = ?, attempts = ? where tenant = ? and call_id = ?",
                said, made, attempts, order.tenant, order.id,
            )  # fmt: skip


class Bill:
    """The money of one call: its charge, and a further one for every attempt after one that may have done the work.

    `ledger` None = nothing is counted. `uncertain` = the last attempt may have cost.
    """

    def __init__(self, ledger: Ledger | None, order: Order, clock: Clock) -> None:
        self._ledger, self._order, self._clock = ledger, order, clock
        self._id, self._charges, self.uncertain = order.id, 1, False

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
            self._order = replace(self._order, id=f"{self._id}/{self._charges}")
            await self.reserve()
        except DbError as error:
            return Fault("store_failed", sent=False, next="no", message=str(error))
        except ModelCallFailed as refused:
            return Fault(refused.code, sent=False, next="no", message=refused.message)
        return None

    async def settle(self, source: str, amount_micro: int | None, usage: Usage | None, attempts: int) -> None:
        """Raises DbError."""
        if self._ledger is not None:
            await self._ledger.settle(replace(self._order, source=source), amount_micro, usage, attempts)

    async def give_up(self, attempts: int) -> None:
        """Raises DbError."""
        if self._ledger is not None:
            await self._ledger.give_up(self._order, attempts, charged=self.uncertain)
