"""The driver of the contract's pipeline for one call on a canvas: all of it inside one transaction.

A call based on a state that is not the present one is not planned at all: what would be wrong with it there says nothing about the
call. Seed: S1.42, S1.43, S1.87.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..contract import leaf
from ..contract.approval import Approval
from ..contract.leaf import Call, Conclusion, Prepared
from ..contract.ledger import Entry
from ..contract.receipt import Compensation, Verification, compared
from ..contract.session import Need, Read, Session
from ..contract.snapshot import digest
from ..db import Tx
from ..journal import operations
from ..journal.carry import Caller
from ..journal.operations import Recorded
from .board import Board, By, read_back, wanted
from .seam import GET_STATE, Asked, Deliveries, Doing, Done, Plan
from .store import Head, add_canvas, find_canvas

SAVEPOINT: Final = "canvas_steps"


class Desk:
    """Answers the commands of one call."""

    atomic = True

    def __init__(self, tx: Tx, tenant: str, doing: Doing, caller: Caller, session: Session, deliveries: Deliveries) -> None:
        self._tx, self._tenant, self._doing, self._caller, self._session = tx, tenant, doing, caller, session
        self._deliveries = deliveries
        self._asked: Asked | None = None
        self._plan, self._done, self._before = Plan(), Done(), ""

    def answer(self, command: leaf.Command) -> Any:
        return _ANSWERS[type(command)](self, command)

    @property
    def asked(self) -> Asked:
        assert self._asked is not None
        return self._asked

    def recall(self, command: leaf.Recall) -> Entry | None:
        return _entry(operations.by_key(self._tx, self._tenant, command.key))

    def prepare(self, command: leaf.Prepare) -> Prepared:
        call, doing = command.call, self._doing
        self._asked = asked = self._asking(call)
        self._before = asked.board.head.content
        about: dict[str, Any] = {"target": {"canvasId": asked.canvas_id}, "target_id": asked.canvas_id}
        if not doing.op.based_on:  # a read, or nothing that could have moved on
            self._plan = plan = doing.plan(asked)
            return Prepared(**about, problems=plan.problems, needs=plan.needs, resolved=plan.resolved)
        first = (Need(doing.op.based_on, GET_STATE, asked.canvas_id),)
        current, since = doing.base(asked)
        expected = call.arguments.get(doing.op.based_on)
        if expected is not None and expected != current:
            return Prepared(**about, current=current, changed=since(str(expected)), needs=first)
        self._plan = plan = doing.plan(asked)
        return Prepared(**about, current=current, problems=plan.problems, needs=(*first, *plan.needs), resolved=plan.resolved)

    def _asking(self, call: Call) -> Asked:
        if self._doing.makes:
            made = f"cv_{digest([self._tenant, call.operation_id])[:24]}"
            head = Head(id=made, owner=self._caller.owner, title=call.arguments.get("title", ""))
        else:
            head = find_canvas(self._tx, self._tenant, self._caller.owner, self._caller.within)
        return Asked(
            op=self._doing.op, args=call.arguments, board=Board(self._tx, self._tenant, head), session=self._session,
            mark=call.operation_id, now_ms=call.now_ms, owner=self._caller.owner, yes=call.approved_by != "",
            deliveries=self._deliveries,
        )  # fmt: skip

    def find_approval(self, command: leaf.FindApproval) -> Approval | None:
        return operations.find_approval(self._tx, self._tenant, command.plan_id, command.request)

    def keep_approval(self, command: leaf.KeepApproval) -> None:
        operations.keep_approval(self._tx, self._tenant, command.approval)

    def intend(self, command: leaf.Intend) -> Entry | None:
        taken = operations.intend(self._tx, self._tenant, Recorded(command.entry, "{}", self._caller.session))
        if taken is None and command.approval is not None:
            operations.keep_approval(self._tx, self._tenant, command.approval)
        self._tx.run(f"savepoint {SAVEPOINT}")
        return _entry(taken)

    def send_step(self, command: leaf.Send) -> Any:
        asked, plan = self.asked, self._plan
        if self._doing.read:
            self._done = self._doing.read(asked, plan)
            return self._done.data
        if self._doing.makes:
            add_canvas(self._tx, self._tenant, asked.board.head, asked.now_ms)
        actor = self._caller.session or self._caller.owner
        by = By(actor=actor, operation=command.step_id.partition("/")[0], at=asked.now_ms, kind=plan.kind, undoes=plan.undoes)
        head = asked.board.write(plan.changes, by)
        self._doing.also(asked, plan)
        self._done = self._doing.after(asked, plan)
        return {"canvasId": head.id, "snapshotHash": head.content}

    def conclude(self, command: leaf.Conclude) -> Conclusion:
        if self._doing.read:
            return Conclusion(data=self._done.data, facts=self._done.facts)
        asked, head, plan = self.asked, self.asked.board.head, self._plan
        hashes = {"snapshotHash": head.content, "beforeSnapshotHash": self._before, "mediaSnapshotHash": head.media}
        data = {"canvasId": head.id, **hashes, **plan.data, **self._done.data}
        based = self._doing.op.based_on != ""
        known = (Read(GET_STATE, head.id, 1, head.content),) if based or self._doing.makes else ()
        return Conclusion(
            data=data, proofs=(self._proof(),) if command.read_back else (), facts=(*known, *self._done.facts),
            warnings=(*plan.warnings, *(["no_change"] if based and not plan.changes else [])), compensation=_taken_back(asked, plan),
        )  # fmt: skip

    def _proof(self) -> Verification:
        """What the write should have left against what is stored now, asked again."""
        board, changes = self.asked.board, self._plan.changes
        stored = find_canvas(self._tx, self._tenant, self._caller.owner, board.head.id)
        should = [wanted(changes), board.head.content, board.head.media, board.head.content]
        return compared("readback", digest(should), digest([read_back(board, changes), *board.hashes_read_back(), stored.content]), stored.content)

    def roll_back(self, _: leaf.RollBack) -> None:
        self._tx.run(f"rollback to savepoint {SAVEPOINT}")

    def settle(self, command: leaf.Settle) -> None:
        operations.settle(self._tx, self._tenant, command.entry)


def _entry(found: Recorded | None) -> Entry | None:
    return found.entry if found else None


def _taken_back(asked: Asked, plan: Plan) -> Compensation:
    """By undoing it, as long as nothing else was done since."""
    if not plan.changes:
        return Compensation(reason="there is nothing that could be taken back")
    back = "canvas.redo" if plan.kind == "undo" else "canvas.undo"
    return Compensation(available=True, operation=back, arguments={}, expected=asked.board.head.content)


_ANSWERS: Final[dict[type, Callable[[Desk, Any], Any]]] = {
    leaf.Recall: Desk.recall, leaf.Prepare: Desk.prepare, leaf.FindApproval: Desk.find_approval, leaf.KeepApproval: Desk.keep_approval,
    leaf.Intend: Desk.intend, leaf.Send: Desk.send_step, leaf.Conclude: Desk.conclude, leaf.RollBack: Desk.roll_back, leaf.Settle: Desk.settle,
}  # fmt: skip
