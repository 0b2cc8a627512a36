"""`CanvasRuntime`: every operation on the canvases of one tenant, through the contract's pipeline.

A call is bound to a canvas and its owner (`Caller.within`, `.owner`); both are part of the request, so a key or an approved plan
never serves another one. A call is one transaction: journal, items, hashes, history and receipt are one commit, so an operation that
stands in the journal stands there with its receipt. Seed: S1.1, S1.24, S1.42, S1.48-S1.50.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from ..contract.ledger import Entry
from ..contract.operation import Answer
from ..contract.problem import FieldProblem, ProblemError, bad_arguments, is_object, problem
from ..contract.session import Issued
from ..db import Database, Tx
from ..journal import operations
from ..journal.book import Book
from ..journal.carry import Caller, Carried, apart, asked, check_session, is_name, parted, typed
from .arranging import WISH, WISHES
from .desk import Desk
from .doings import DOINGS
from .seam import Deliveries, Doing
from .store import find_canvas, list_canvases, missing


class CanvasRuntime(Book):
    """Safe to use from any task of any loop. `doings` = the operations there are, by tool name; `deliveries` = what comes to nodes from others."""

    prefix = "canvas."

    def __init__(
        self, db: Database, tenant: str, now_ms: Callable[[], int], new_id: Callable[[], str], doings: Mapping[str, Doing] = DOINGS,
        deliveries: Deliveries | None = None,
    ) -> None:  # fmt: skip
        super().__init__(db, tenant, now_ms)
        self._new_id, self._doings, self._deliveries = new_id, doings, deliveries or Deliveries()

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller | None = None) -> Answer:
        """Run one operation by its tool name. Returns a receipt, a reading or the Problem that stopped it."""
        caller = caller or Caller()
        try:
            check_session(caller)
            doing = self._doings.get(name)
            if doing is None:
                raise problem("not_found", f"there is no operation {name}", stage="arguments", details={"operation": name})
            if caller.within and not is_name(caller.within):  # no store could be asked for it
                return replace(missing(caller.within).problem, operation=doing.op.name)
            own, beside = parted(doing.op, arguments)
            foretold = is_object(own) and own.get("dryRun") is True
            call = asked(
                own, beside, replace(caller, dry_run=caller.dry_run or foretold), operation_id=self._new_id(), now_ms=self._now_ms(),
                within=f"{caller.owner}/{caller.within}", continues=await self.continued(beside),
            )  # fmt: skip
            carried = Carried(
                db=self.db, tenant=self.tenant, op=doing.op, call=call, caller=caller, under=caller.within,
                desk=lambda tx, session: Desk(tx, self.tenant, doing, caller, session, self._deliveries),
            )  # fmt: skip
            answer = await carried.answer()
            return {**answer, **answer["plan"]["resolved"]} if foretold and isinstance(answer, dict) else answer
        except ProblemError as stop:
            return stop.problem

    async def settle(self, key: str) -> Entry | None:
        """What became of the operation of a key; None = it never was."""
        with typed("canvas.settle"):
            found = await self.db.read(operations.by_key, self.tenant, key)
        return found.entry if found else None

    async def wish(self, what: str, session: str, canvas_id: str, owner: str) -> None:
        """A person's word that a session may do on a canvas what it else does only in need (S1.60). Raises validation, not_found."""
        check_session(Caller(session=session))
        if what not in WISHES or not session:
            field = "session" if what in WISHES else "wish"
            raise bad_arguments([FieldProblem(field, "invalid_value", f"a session is needed, and one of: {', '.join(WISHES)}")])

        def keep(tx: Tx) -> None:
            find_canvas(tx, self.tenant, owner, canvas_id)
            operations.add_facts(tx, self.tenant, apart(session, canvas_id), [Issued(WISH, (what,))])

        with typed("canvas.wish"):
            await self.db.write(keep)

    async def canvases(self, owner: str) -> list[tuple[str, str]]:
        """Id and title of all canvases of an owner."""
        with typed("canvas.list"):
            return await self.db.read(list_canvases, self.tenant, owner)
