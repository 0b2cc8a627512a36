"""`DocRuntime`: every operation on documents for one tenant, through the contract's pipeline.

Theory of operation. In process a call is one transaction: intent, content, write log, read-back and receipt are one commit. The
pipeline is sans-IO, so when that COMMIT fails it is told the same answers again, with the failure in place of the last one, and
makes the receipt of what is then known. Over a transport the journal is written before and after every request, in a thread of
its own, because each may take its time or be lost. Reads never touch the writer. Seed: S0.6-S0.15, S0.38-S0.40.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ..contract.leaf import Call, Operation, taking_back
from ..contract.ledger import Entry
from ..contract.operation import Answer, drive, operate, reconcile
from ..contract.paging import Seal
from ..contract.problem import FieldProblem, Problem, ProblemError, as_wire, bad_arguments, problem
from ..contract.receipt import Receipt
from ..contract.session import Session
from ..contract.task import Ticket
from ..db import Database, DbError, Tx
from ..db.tasks import Task, of_session
from ..files.folder import Folder
from ..files.threads import in_thread
from ..ids import salt
from ..journal import operations
from ..journal.book import Book, no_operation
from ..journal.carry import Caller, Told, after_failure, answer_of, answering, asked, check_session, is_name, lost, parted, typed
from ..journal.operations import Recorded
from . import access, content, limits, service, tasks
from . import requests as ask
from .desk import Desk, Reach
from .leaves import AFTERWARDS, ASIDE, LANDED, OPERATIONS, READ, TASK_GETS, TASKED
from .memo import Memo, mark_of, memo_of
from .plan import Asked
from .requests import Transport
from .service import Here
from .worker import Means, Worker


class DocRuntime(Book):
    """Safe to use from any task of any loop. `transport` None = the service in this very store, atomically; `folder` = where
    files are read and landed; `lease_ms` = after which silence a worker's task may be taken over.
    """

    prefix = "doc."

    def __init__(
        self, db: Database, tenant: str, now_ms: Callable[[], int], new_id: Callable[[], str], transport: Transport | None = None,
        wait: Callable[[float], object] | None = None, *, folder: Folder | None = None, lease_ms: int = limits.LEASE_MS,
    ) -> None:  # fmt: skip
        super().__init__(db, tenant, now_ms)
        self._new_id, self._transport, self._folder, self._lease_ms = new_id, transport, folder, lease_ms
        self._wait: Callable[[float], object] = wait or threading.Event().wait
        self._secret = b""
        #: Told of every step of a task that a call works on or waits for.
        self.watch: Callable[[Task], object] = lambda _: None

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller | None = None) -> Answer:
        """Run one operation. Returns a receipt, a reading, a ticket (still running elsewhere) or the Problem that stopped it."""
        caller = caller or Caller()
        try:
            check_session(caller)
            self._check_user(caller)
            if name in ASIDE:
                return await self._afterwards(name, arguments, caller)
            if name not in OPERATIONS:
                raise problem("not_found", f"there is no operation {name}", stage="arguments", details={"operation": name})
            op = OPERATIONS[name]
            own, beside = parted(op, arguments)
            earlier = await self._seen(beside["continues"], caller) if "continues" in beside else None
            call = asked(
                own, beside, caller, operation_id=self._new_id(), now_ms=self._now_ms(), continues=earlier.entry if earlier else None
            )  # fmt: skip
            if caller.user and call.key:  # a key is its caller's own: another's under the same key is not answered with theirs
                call = replace(call, key=f"{caller.user}\n{call.key}")
            answer = await self._operate(op, call, caller, memo_of(earlier.memo) if earlier else None)
            return await self._as_task(name, answer) if name in TASKED else answer
        except ProblemError as stop:
            return stop.problem

    async def reconcile(self, operation_id: str) -> Entry:
        """What became of an operation; only asks, sends nothing. Raises not_found."""
        recorded = await self.recorded(operation_id)
        return await self._settled(recorded)

    async def settle(self, key: str) -> Entry | None:
        """What became of the operation of a key; None = it never began here."""
        with typed("doc.reconcile"):
            recorded: Recorded | None = await self.db.read(operations.by_key, self.tenant, key)
        return None if recorded is None else await self._settled(recorded)

    async def task(self, task_id: str, user: str = "") -> Ticket:
        """How a task stands. Raises not_found, permission_denied."""
        with typed("doc.task"):
            return tasks.ticket_of(await self.db.read(access.admit_task, self.tenant, user, task_id))

    async def tasks(self, session: str) -> list[Ticket]:
        """Every task of a session, oldest first."""
        with typed("doc.task"):
            return [tasks.ticket_of(task) for task in await self.db.read(of_session, self.tenant, session) if task.kind in tasks.KINDS]

    def worker(self) -> Worker:
        """One that carries out the tasks of this tenant; for a thread without a running loop."""
        send = (self._transport or Here(self.db, self.tenant)).ask
        return Worker(self.db, self.tenant, Means(self._carried, send, self._now_ms, self._wait, self._lease_ms, self.watch))

    def _carried(self, op: str, arguments: dict[str, Any], key: str, folder: Folder | None, user: str) -> Answer:
        """An operation for a worker, with files of its own."""
        own = DocRuntime(self.db, self.tenant, self._now_ms, self._new_id, self._transport, self._wait, folder=folder, lease_ms=self._lease_ms)
        return asyncio.run(own.call(op, arguments, Caller(key=key, user=user)))

    # --- carrying out ------------------------------------------------------------------------------------------------

    async def _operate(self, op: Operation, call: Call, caller: Caller, earlier: Memo | None) -> Answer:
        seal = Seal(await self._signing(), call.now_ms)
        if self._transport is not None or op.name.removeprefix("doc.") in TASKED | LANDED:
            across = self._across(self._transport or Here(self.db, self.tenant, caller.user))
            with typed(op.name):
                return await in_thread(lambda: self._drive(across, op, call, caller, earlier, seal), lambda: None)
        answers: list[Told] = []
        mark = earlier.mark if earlier else mark_of(call.operation_id)
        ahead = await in_thread(lambda: content.ahead(call.arguments, mark), lambda: None) if content.is_long(call.arguments) else None

        def work(tx: Tx) -> Answer:
            return self._drive(self._within(tx, caller.user), op, call, caller, earlier, seal, answers, ahead)

        try:
            return await (self.db.read(work) if op.effect == "read" or caller.dry_run else self.db.write(work))
        except DbError as error:
            return after_failure(operate(op, call, Session(caller.mode), atomic=True), answers, lost(error), op.name)

    def _drive(
        self, reach: Reach, op: Operation, call: Call, caller: Caller, earlier: Memo | None, seal: Seal, answers: list[Told] | None = None,
        ahead: content.Read | None = None,
    ) -> Answer:  # fmt: skip
        """One call to its end. `answers`: where to keep what the pipeline was told; `ahead`: its content, read already."""
        chunk = self._transport.chunk_chars if self._transport else 0
        asked = Asked(
            op=op, call=call, tenant=self.tenant, ask=lambda r: reach.send(r, ""), chunk_chars=chunk, earlier=earlier, folder=self._folder,
            person=caller.person, session=caller.session, user=caller.user, ahead=ahead,
        )  # fmt: skip
        known = reach.run(operations.facts, self.tenant, caller.session) if caller.session else ()
        session = Session(caller.mode, known, lasting=caller.session != "")

        def finish(task_id: str) -> Ticket:
            return tasks.ticket_of(self.worker().finish(task_id, caller.wait_s))

        desk = Desk(self.tenant, reach, session=caller.session, seal=seal, wait=self._wait, asked=asked, finish=finish)
        process = operate(op, call, session, atomic=reach.atomic)
        answer = drive(process, answering(desk, answers))
        if caller.session and session.fresh:
            reads_here = reach.atomic and (op.effect == "read" or caller.dry_run)  # inside a transaction that only reads
            (self.db.write_sync if reads_here else reach.run)(operations.add_facts, self.tenant, caller.session, session.fresh)
        return answer

    def _within(self, tx: Tx, user: str = "") -> Reach:
        """Everything in this transaction."""

        def run(fn: Callable[..., Any], *args: Any) -> Any:
            return fn(tx, *args)

        return Reach(lambda request, step_id: service.serve(tx, self.tenant, request, step_id, user), run, atomic=True)

    def _across(self, transport: Transport) -> Reach:
        """Each request on its way, each entry of the journal a commit of its own."""

        def run(fn: Callable[..., Any], *args: Any) -> Any:
            return self.db.write_sync(lambda tx: fn(tx, *args))

        return Reach(transport.ask, run)

    async def _settled(self, recorded: Recorded) -> Entry:
        op = OPERATIONS[recorded.entry.operation.removeprefix("doc.")]

        def work(reach: Reach) -> Entry:
            return drive(reconcile(op, recorded.entry), answering(Desk(self.tenant, reach, memo=memo_of(recorded.memo)), None))

        if self._transport is not None:
            across = self._across(self._transport)
            return await in_thread(lambda: work(across), lambda: None)
        with typed("doc.reconcile"):
            return await self.db.write(lambda tx: work(self._within(tx)))

    async def _afterwards(self, name: str, arguments: dict[str, Any], caller: Caller) -> Answer:
        if name in TASK_GETS:
            if wrong := TASK_GETS[name].problems(arguments):
                raise bad_arguments(wrong)
            return _imported(await self.task(arguments["taskId"], caller.user))
        key = arguments.get("operationKey") if name == "compensate" else None
        own = {n: v for n, v in arguments.items() if not (key and n == "operationKey")}
        if wrong := AFTERWARDS[name].problems(own):
            raise bad_arguments(wrong)
        recorded = await self._seen(own["operationId"], caller)
        if name == "reconcile":
            return answer_of(recorded.entry if caller.dry_run else await self._settled(recorded))
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

    async def _as_task(self, name: str, answer: Answer) -> Answer:
        """The answer of an operation that began a task, by how the task stands now. An import has a receipt of its own (S0.18)."""
        if isinstance(answer, Ticket):
            return await self.task(answer.task_id)
        if name != "import" or not isinstance(answer, Receipt) or "taskId" not in answer.data:
            return answer
        ended = await self.task(answer.data["taskId"])
        if not ended.terminal:
            return ended
        if not ended.complete:
            why = ended.error or Problem("task_failed", f"the import ended {ended.state}", execution_started=None)
            details = {**why.details, "taskId": ended.task_id, "state": ended.state, "operationId": answer.data["operationId"]}
            return replace(why, operation="doc.import", details=details)
        return {**_receipt_of_import(ended), "operationId": answer.data["operationId"]} if answer.ok else answer

    def _check_user(self, caller: Caller) -> None:
        """Raises validation, and capability_unavailable where somebody else says who calls."""
        if caller.user and not is_name(caller.user):
            raise bad_arguments([FieldProblem("user", "invalid_value", "a text of 1 to 200 printable characters")])
        if caller.user and self._transport is not None:
            raise problem("capability_unavailable", "who calls is for the service to know, at the other end", stage="session")

    async def _seen(self, operation_id: str, caller: Caller) -> Recorded:
        """An operation. Raises not_found, in the same words, for one that never was and one about what the caller may not read."""
        recorded = await self.recorded(operation_id)
        if caller.user:
            with typed("doc.operation_get"):
                hidden = await self.db.read(self._hidden, recorded.entry, caller.user)
            if hidden:
                raise no_operation(operation_id)
        return recorded

    def _hidden(self, tx: Tx, entry: Entry, user: str) -> bool:
        try:
            if entry.operation.removeprefix("doc.") in TASKED:
                access.admit_task(tx, self.tenant, user, tasks.id_of(self.tenant, entry.operation_id))
            else:
                access.admit(tx, self.tenant, user, ask.Describe(node=entry.target.get("nodeId", ask.ROOT)))
        except ProblemError:
            return True
        return False

    # --- small parts -------------------------------------------------------------------------------------------------

    async def _signing(self) -> bytes:
        if not self._secret:
            with typed("doc.open"):
                found = await self.db.read(lambda tx: tx.row("select secret from op_secret where tenant = ?", operations.EVERYBODY))
                self._secret = found[0].encode() if found else await self.db.write(operations.secret, salt())
        return self._secret


def _imported(found: Ticket) -> Answer:
    return _receipt_of_import(found) if found.complete and found.kind == "import" else found


def _receipt_of_import(found: Ticket) -> dict[str, Any]:
    """The import's own receipt: no status, no steps (S0.18)."""
    result = found.result or {}
    return {"success": True, "taskId": found.task_id, **{n: v for n, v in result.items() if n != "target"}, "target": result["target"]}
