"""`DocRuntime`: every operation on documents for one tenant, through the contract's pipeline.

Theory of operation. In process a call is one transaction: intent, content, write log, read-back and receipt are one commit. The
pipeline is sans-IO, so when that COMMIT fails it is told the same answers again, with the failure in place of the last one, and
makes the receipt of what is then known. Over a transport the journal is written before and after every request, in a thread of
its own, because each may take its time or be lost. Reads never touch the writer. Seed: S0.6-S0.15, S0.38-S0.40.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..contract import leaf
from ..contract.approval import Approval, Decision, at, decide
from ..contract.leaf import Call, Operation, taking_back
from ..contract.ledger import Entry
from ..contract.operation import Answer, drive, operate, reconcile
from ..contract.paging import Seal
from ..contract.problem import FieldProblem, Problem, ProblemError, as_wire, bad_arguments, problem
from ..contract.session import Mode, Read, Session
from ..contract.task import Ticket
from ..db import CommitUnknown, Database, DbError, Tx
from ..files.threads import in_thread
from ..ids import salt
from . import journal, service
from .desk import Desk, Reach
from .journal import Memo, Recorded
from .leaves import AFTERWARDS, OPERATIONS, READ
from .plan import Asked
from .requests import Transport

_KEY_CHARS: Final = 200
_Told = tuple[leaf.Command, Any]


class Caller(Struct, frozen=True, kw_only=True):
    """Who calls and how. `session` "" = one that does not last; `key` = a run's intent key; `approved_by` = says yes with the call."""

    mode: Mode = "auto"
    session: str = ""
    key: str = ""
    plan_id: str = ""
    approved_by: str = ""
    dry_run: bool = False


class DocRuntime:
    """Safe to use from any task of any loop. `transport` None = the service in this very store, atomically."""

    def __init__(
        self, db: Database, tenant: str, now_ms: Callable[[], int], new_id: Callable[[], str], transport: Transport | None = None,
        wait: Callable[[float], object] | None = None,
    ) -> None:  # fmt: skip
        self.db, self.tenant, self._now_ms, self._new_id, self._transport = db, tenant, now_ms, new_id, transport
        self._wait: Callable[[float], object] = wait or threading.Event().wait
        self._secret = b""

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller | None = None) -> Answer:
        """Run one operation. Returns a receipt, a reading, a ticket (still running elsewhere) or the Problem that stopped it."""
        caller = caller or Caller()
        try:
            if caller.session and not _is_name(caller.session):
                raise bad_arguments([FieldProblem("session", "invalid_value", "a text of 1 to 200 printable characters")])
            if name in AFTERWARDS:
                return await self._afterwards(name, arguments, caller)
            if name not in OPERATIONS:
                raise problem("not_found", f"there is no operation {name}", stage="arguments", details={"operation": name})
            op = OPERATIONS[name]
            own, beside = _parted(op, arguments)
            earlier = await self._recorded(beside["continues"]) if "continues" in beside else None
            key = "" if caller.dry_run else beside.get("operationKey") or caller.key
            call = Call(
                operation_id=self._new_id(), arguments=own, now_ms=self._now_ms(), key=key, plan_id=caller.plan_id,
                approved_by=caller.approved_by, continues=earlier.entry if earlier else None, dry_run=caller.dry_run,
            )  # fmt: skip
            return await self._operate(op, call, caller, earlier.memo if earlier else None)
        except ProblemError as stop:
            return stop.problem

    async def reconcile(self, operation_id: str) -> Entry:
        """What became of an operation; only asks, sends nothing. Raises not_found."""
        recorded = await self._recorded(operation_id)
        return await self._settled(recorded)

    async def settle(self, key: str) -> Entry | None:
        """What became of the operation of a key; None = it never began here."""
        with _typed("doc.reconcile"):
            recorded: Recorded | None = await self.db.read(journal.by_key, self.tenant, key)
        return None if recorded is None else await self._settled(recorded)

    async def entries(self, session: str) -> list[Entry]:
        """Every write of a session, oldest first."""
        return await self.db.read(journal.of_session, self.tenant, session)

    async def note(self, session: str, *facts: Read) -> None:
        """Keep what a session has read beside what the operations note themselves."""
        await self.db.write(journal.add_facts, self.tenant, session, facts)

    async def readings(self, session: str, mark: str) -> list[Read]:
        """What was noted of a session under a mark."""
        return [f for f in await self.db.read(journal.facts, self.tenant, session) if isinstance(f, Read) and f.mark == mark]

    async def approvals(self) -> list[Approval]:
        """All of this tenant, as they stand now."""
        with _typed("approvals"):
            return [at(a, self._now_ms()) for a in await self.db.read(journal.approvals, self.tenant)]

    async def decide(self, plan_id: str, decision: Decision, *, by: str, reason: str = "") -> Approval:
        """A person's word. Executes nothing. Raises not_found, conflict."""

        def work(tx: Tx) -> Approval:
            found = journal.find_approval(tx, self.tenant, plan_id)
            if found is None:
                raise problem("not_found", f"there is no approval {plan_id!r}", operation="approvals", stage="resolve")
            decided = decide(found, decision, by=by, now_ms=self._now_ms(), reason=reason)
            journal.keep_approval(tx, self.tenant, decided)
            return decided

        with _typed("approvals"):
            return await self.db.write(work)

    # --- carrying out ------------------------------------------------------------------------------------------------

    async def _operate(self, op: Operation, call: Call, caller: Caller, earlier: Memo | None) -> Answer:
        seal = Seal(await self._signing(), call.now_ms)
        if self._transport is not None:
            across = self._across(self._transport)
            return await in_thread(lambda: self._drive(across, op, call, caller, earlier, seal), lambda: None)
        answers: list[_Told] = []

        def work(tx: Tx) -> Answer:
            return self._drive(self._within(tx), op, call, caller, earlier, seal, answers)

        try:
            return await (self.db.read(work) if op.effect == "read" or caller.dry_run else self.db.write(work))
        except DbError as error:
            return _after_failure(operate(op, call, Session(caller.mode), atomic=True), answers, lost(error), op.name)

    def _drive(
        self, reach: Reach, op: Operation, call: Call, caller: Caller, earlier: Memo | None, seal: Seal, answers: list[_Told] | None = None
    ) -> Answer:
        """One call to its end. `answers`: where to keep what the pipeline was told."""
        chunk = self._transport.chunk_chars if self._transport else 0
        asked = Asked(op=op, call=call, tenant=self.tenant, ask=lambda r: reach.send(r, ""), chunk_chars=chunk, earlier=earlier)
        known = reach.run(journal.facts, self.tenant, caller.session) if caller.session else ()
        session = Session(caller.mode, known, lasting=caller.session != "")
        desk = Desk(self.tenant, reach, session=caller.session, seal=seal, wait=self._wait, asked=asked)
        process = operate(op, call, session, atomic=reach.atomic)
        answer = drive(process, _answering(desk, answers))
        if caller.session and session.fresh:
            reads_here = reach.atomic and (op.effect == "read" or caller.dry_run)  # inside a transaction that only reads
            (self.db.write_sync if reads_here else reach.run)(journal.add_facts, self.tenant, caller.session, session.fresh)
        return answer

    def _within(self, tx: Tx) -> Reach:
        """Everything in this transaction."""

        def run(fn: Callable[..., Any], *args: Any) -> Any:
            return fn(tx, *args)

        return Reach(lambda request, step_id: service.serve(tx, self.tenant, request, step_id), run, atomic=True)

    def _across(self, transport: Transport) -> Reach:
        """Each request on its way, each entry of the journal a commit of its own."""

        def run(fn: Callable[..., Any], *args: Any) -> Any:
            return self.db.write_sync(lambda tx: fn(tx, *args))

        return Reach(transport.ask, run)

    async def _settled(self, recorded: Recorded) -> Entry:
        op = OPERATIONS[recorded.entry.operation.removeprefix("doc.")]

        def work(reach: Reach) -> Entry:
            return drive(reconcile(op, recorded.entry), _answering(Desk(self.tenant, reach, memo=recorded.memo), None))

        if self._transport is not None:
            across = self._across(self._transport)
            return await in_thread(lambda: work(across), lambda: None)
        with _typed("doc.reconcile"):
            return await self.db.write(lambda tx: work(self._within(tx)))

    async def _afterwards(self, name: str, arguments: dict[str, Any], caller: Caller) -> Answer:
        key = arguments.get("operationKey") if name == "compensate" else None
        own = {n: v for n, v in arguments.items() if not (key and n == "operationKey")}
        if wrong := AFTERWARDS[name].problems(own):
            raise bad_arguments(wrong)
        recorded = await self._recorded(own["operationId"])
        if name == "reconcile":
            return _answer_of(recorded.entry if caller.dry_run else await self._settled(recorded))
        receipt = recorded.entry.receipt
        if name == "operation_get":
            data = {
                "operationId": recorded.entry.operation_id, "operation": recorded.entry.operation, "attempt": recorded.entry.attempt,
                "state": "settled" if receipt else "running", "receipt": as_wire(receipt) if receipt else None,
            }  # fmt: skip
            frame = {"contractVersion": READ, "operation": "doc.operation_get", "status": "success", "complete": True}
            return {**frame, "target": recorded.entry.target, "data": data}
        if receipt is None or not receipt.compensation.available:
            why = receipt.compensation.reason if receipt else "it is not settled yet; reconcile it first"
            raise problem("conflict", why or "there is nothing that could be taken back", operation="doc.compensate", stage="compensation")
        op = OPERATIONS[str(receipt.compensation.operation).removeprefix("doc.")]
        arguments = {**taking_back(op, receipt.compensation), **({"operationKey": key} if key else {})}
        return await self.call(op.name.removeprefix("doc."), arguments, caller)

    # --- small parts -------------------------------------------------------------------------------------------------

    async def _recorded(self, operation_id: str) -> Recorded:
        with _typed("doc.operation_get"):
            found = await self.db.read(journal.by_id, self.tenant, operation_id)
        if found is None:
            raise problem("not_found", f"there is no operation {operation_id}", stage="resolve", details={"operationId": operation_id})
        return found

    async def _signing(self) -> bytes:
        if not self._secret:
            with _typed("doc.open"):
                found = await self.db.read(lambda tx: tx.row("select secret from doc_secret where tenant = ?", self.tenant))
                self._secret = found[0].encode() if found else await self.db.write(journal.secret, self.tenant, salt())
        return self._secret


def _parted(op: Operation, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The leaf's own arguments, and what stands beside them in a write: `operationKey`, `continues`."""
    names = ("operationKey", "continues") if op.effect != "read" else ()
    beside = {name: arguments[name] for name in names if name in arguments}
    wrong = [FieldProblem(n, "wrong_type", "a text of 1 to 200 characters") for n, v in beside.items() if not _is_name(v)]
    if wrong:
        raise bad_arguments(wrong)
    return {name: value for name, value in arguments.items() if name not in beside}, beside


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _KEY_CHARS and value.isprintable()


def _answer_of(entry: Entry) -> Answer:
    if entry.receipt is not None:
        return entry.receipt
    return Ticket(task_id=entry.operation_id, kind="operation", state="running", complete=False)


def lost(error: DbError) -> Problem:
    """What a failed store proves: nothing happened, unless its COMMIT may have gone through."""
    if isinstance(error, CommitUnknown):
        return Problem("commit_unknown", str(error), stage="commit", execution_started=None)
    return Problem("local_io", str(error), stage="store", execution_started=False)


@contextmanager
def _typed(operation: str) -> Generator[None]:
    try:
        yield
    except DbError as error:
        why = lost(error)
        raise problem(why.kind, why.message, operation=operation, stage=why.stage, execution_started=why.execution_started) from error


def _answering(desk: Desk, answers: list[_Told] | None) -> Callable[[leaf.Command], Any]:
    """The desk's answers with their faults named: a broken reply proves nothing, a journal that fails over a transport says so.

    Inside one transaction a failed store is no answer: all of it is undone.
    """

    def told(command: leaf.Command) -> Any:
        try:
            value = desk.answer(command)
        except ProblemError as stop:
            value = stop.problem
        except (KeyError, TypeError, IndexError, msgspec.ValidationError) as error:
            if desk.atomic:
                raise
            value = Problem("invalid_response", f"the reply cannot be read: {type(error).__name__}", execution_started=None)
        except DbError as error:
            if desk.atomic:
                raise
            value = lost(error)
            if isinstance(command, leaf.Settle):  # the service has done what it has done
                value = replace(value, execution_started=None)
        if answers is not None:
            answers.append((command, value))
        return value

    return told


def _after_failure(process: Generator[leaf.Command, Any, Answer], answers: list[_Told], why: Problem, operation: str) -> Answer:
    """The call once more in mind: the same answers, and at the end the failed commit."""
    if not answers or not isinstance(answers[-1][0], leaf.Settle):
        return Problem(why.kind, why.message, operation=operation, stage=why.stage, execution_started=why.execution_started)
    told = iter([value for _, value in answers[:-1]])
    return drive(process, lambda command: why if isinstance(command, leaf.Settle) else next(told))
