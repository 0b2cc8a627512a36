"""The driver of the contract's pipeline for one call of media: all of it inside one transaction, money included.

The reservation is written with the intent, before anything is made; if what follows is undone, so is the node and the task, and the order is
refunded. Seed: S1.4, S1.46, S1.49, S1.50.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from ..contract import leaf
from ..contract.approval import Approval, turn
from ..contract.leaf import Conclusion, Prepared
from ..contract.ledger import Entry
from ..contract.problem import is_object, problem
from ..contract.session import Session
from ..contract.spend import Charge, Grant
from ..db import Tx
from ..journal import operations, spending
from ..journal.carry import Caller
from ..journal.operations import Recorded
from .seam import Asked, Known, Plan, Rooms, Tool

SAVEPOINT: Final = "media_steps"


class Desk:
    """Answers the commands of one call. Raises Known out of the transaction when the call stands for a task there is."""

    atomic = True

    def __init__(self, tx: Tx, rooms: Rooms, tool: Tool, caller: Caller, session: Session, ready: Any = None) -> None:
        """`ready` = what the tool has made before this transaction."""
        self._tx, self._rooms, self._tool, self._caller, self._session = tx, rooms, tool, caller, session
        self._ready = ready
        self._plan: Plan | None = None
        self._now = 0

    def answer(self, command: leaf.Command) -> Any:
        return _ANSWERS[type(command)](self, command)

    @property
    def plan(self) -> Plan:
        assert self._plan is not None
        return self._plan

    def asked(self, call: leaf.Call) -> Asked:
        """Raises not_found for a canvas that is not the caller's."""
        rooms, caller = self._rooms, self._caller
        return Asked(
            op=self._tool.op, tx=self._tx, tenant=rooms.tenant, caller=caller, call=call, session=self._session, rooms=rooms,
            surface=rooms.surface_of(self._tx, rooms.tenant, caller.owner, caller.within), ready=self._ready,
        )  # fmt: skip

    def recall(self, command: leaf.Recall) -> Entry | None:
        return _entry(operations.by_key(self._tx, self._rooms.tenant, command.key))

    def prepare(self, command: leaf.Prepare) -> Prepared:
        self._now = command.call.now_ms
        self._used(command.call)
        self._plan = self._tool.plan(self.asked(command.call))
        if self._plan.known:
            raise Known(self._plan.known)
        if self._plan.repeats and (done := operations.by_id(self._tx, self._rooms.tenant, self._plan.repeats)):
            raise _known(done.entry)
        return self._plan.prepared

    def _used(self, call: leaf.Call) -> None:
        """A yes that was used stands for what was done with it, and asks nobody anew. Raises Known, and conflict where that is not kept."""
        tx, tenant, canvas = self._tx, self._rooms.tenant, self._caller.within
        found = operations.find_approval(tx, tenant, call.plan_id) if call.plan_id and not call.dry_run else None
        if found is None or found.state != "consumed" or found.plan.arguments != call.request(self._tool.op.name):
            return
        if done := operations.by_memo(tx, tenant, canvas, _memo(found)):
            raise _known(done.entry)
        raise problem("conflict", "this approval was used", stage="approval", details={"planId": found.id})

    def grants(self, _: leaf.Grants) -> Sequence[tuple[Grant, Sequence[Charge]]]:
        caller = self._caller
        subjects = [("canvas", caller.within), *([("session", caller.session), ("run", caller.session)] if caller.session else [])]
        return spending.offered(self._tx, self._rooms.tenant, subjects)

    def find_approval(self, command: leaf.FindApproval) -> Approval | None:
        return operations.find_approval(self._tx, self._rooms.tenant, command.plan_id, command.request)

    def keep_approval(self, command: leaf.KeepApproval) -> None:
        operations.keep_approval(self._tx, self._rooms.tenant, command.approval)

    def intend(self, command: leaf.Intend) -> Entry | None:
        self._pay(command.entry)  # first, so that a cap that is reached leaves nothing written
        taken = operations.intend(
            self._tx, self._rooms.tenant, Recorded(command.entry, _memo(command.approval), self._caller.session, self._caller.within)
        )
        if taken is None:
            self._close_question(command.entry.request, command.approval)
        self._tx.run(f"savepoint {SAVEPOINT}")
        return _entry(taken)

    def send_step(self, command: leaf.Send) -> Any:
        return self.plan.act(command.step_id)

    def conclude(self, command: leaf.Conclude) -> Conclusion:
        reply = next(iter(command.replies.values()), None)
        return self.plan.end(reply) if is_object(reply) else Conclusion()

    def roll_back(self, _: leaf.RollBack) -> None:
        self._tx.run(f"rollback to savepoint {SAVEPOINT}")

    def settle(self, command: leaf.Settle) -> None:
        operations.settle(self._tx, self._rooms.tenant, command.entry)
        self._pay(command.entry)

    def _close_question(self, request: str, approval: Approval | None) -> None:
        """The approval this call has used; without one, the question that was open about it is not put any more."""
        tx, tenant = self._tx, self._rooms.tenant
        found = approval or operations.find_approval(tx, tenant, "", request)
        if approval is None and found is not None:
            found = turn(found, "superseded") if found.state in ("requested", "approved") else None
        if found is not None:
            operations.keep_approval(tx, tenant, found)

    def _pay(self, entry: Entry) -> None:
        if entry.charge is not None:
            self._rooms.charge(self._tx, entry.charge, self._caller.session, self._now)


def _known(entry: Entry) -> Known:
    """What an operation has done: its task where it made one, else its receipt."""
    made = entry.receipt.data.get("taskId", "") if entry.receipt and entry.receipt.ok else ""
    return Known(made, None if made else entry)


def _memo(approval: Approval | None) -> str:
    """What is kept of an operation beside its receipt: the plan it was approved as."""
    return msgspec.json.encode({"plan": approval.id} if approval else {}).decode()


def _entry(found: Recorded | None) -> Entry | None:
    return found.entry if found else None


_ANSWERS: Final[dict[type, Callable[[Desk, Any], Any]]] = {
    leaf.Recall: Desk.recall, leaf.Prepare: Desk.prepare, leaf.Grants: Desk.grants, leaf.FindApproval: Desk.find_approval,
    leaf.KeepApproval: Desk.keep_approval, leaf.Intend: Desk.intend, leaf.Send: Desk.send_step, leaf.Conclude: Desk.conclude,
    leaf.RollBack: Desk.roll_back, leaf.Settle: Desk.settle,
}  # fmt: skip
