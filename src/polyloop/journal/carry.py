"""Carrying a call out on a store: who calls, what a failed store proves, and the answers the pipeline is told.

Theory of operation. The pipeline is sans-IO. In process a call is one transaction; when its COMMIT fails, the pipeline is told the
same answers again with the failure in place of the last one, and makes the receipt of what is then known. Seed: S0.9, S0.38-S0.40.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..contract import leaf
from ..contract.leaf import Call, Operation
from ..contract.ledger import Entry
from ..contract.operation import Answer, drive, operate
from ..contract.problem import FieldProblem, Problem, ProblemError, bad_arguments, is_object, problem
from ..contract.session import Cleared, Fact, Missed, Mode, Session
from ..contract.task import Ticket
from ..db import CommitUnknown, Database, DbError, Tx
from . import operations

_KEY_CHARS: Final = 200
Told = tuple[leaf.Command, Any]


class Caller(Struct, frozen=True, kw_only=True):
    """Who calls and how. `session` "" = one that does not last; `key` = a run's intent key; `approved_by` = says yes with the call;
    `owner` = whose things it may reach, where a subject has owners; `within` = what the surface bound the call to (a canvas); `person` =
    the arguments are a person's own words; `wait_s` = how long to work and wait for a task, None = to its end, 0 = leave it
    to workers; `user` = who of the tenant, "" = whoever owns it.
    """

    mode: Mode = "auto"
    session: str = ""
    key: str = ""
    plan_id: str = ""
    approved_by: str = ""
    dry_run: bool = False
    owner: str = "local"
    within: str = ""
    person: bool = False
    wait_s: float | None = None
    user: str = ""


class Answers(Protocol):
    """Whoever answers the commands of one call. `atomic` = all of it is one transaction."""

    @property
    def atomic(self) -> bool: ...
    def answer(self, command: leaf.Command) -> Any: ...


def is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _KEY_CHARS and value.isprintable()


def check_session(caller: Caller) -> None:
    """Raises validation for a session that cannot be named so."""
    if caller.session and not is_name(caller.session):
        raise bad_arguments([FieldProblem("session", "invalid_value", "a text of 1 to 200 printable characters")])


def parted(op: Operation, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The leaf's own arguments, and what stands beside them in a write: `operationKey`, `continues`."""
    names = ("operationKey", "continues") if op.effect != "read" and is_object(arguments) else ()
    beside = {name: arguments[name] for name in names if name in arguments}
    wrong = [FieldProblem(n, "wrong_type", "a text of 1 to 200 characters") for n, v in beside.items() if not is_name(v)]
    if wrong:
        raise bad_arguments(wrong)
    return {name: value for name, value in arguments.items() if name not in beside} if beside else arguments, beside


def answer_of(entry: Entry) -> Answer:
    """An operation as it stands: its receipt, or the ticket of one that is running."""
    if entry.receipt is not None:
        return entry.receipt
    return Ticket(task_id=entry.operation_id, kind="operation", state="running", complete=False)


def lost(error: DbError) -> Problem:
    """What a failed store proves: nothing happened, unless its COMMIT may have gone through."""
    if isinstance(error, CommitUnknown):
        return Problem("commit_unknown", str(error), stage="commit", execution_started=None)
    return Problem("local_io", str(error), stage="store", execution_started=False)


@contextmanager
def typed(operation: str) -> Generator[None]:
    """Raises what a failed store proves as the one typed error."""
    try:
        yield
    except DbError as error:
        why = lost(error)
        raise problem(why.kind, why.message, operation=operation, stage=why.stage, execution_started=why.execution_started) from error


def answering(desk: Answers, answers: list[Told] | None) -> Callable[[leaf.Command], Any]:
    """The desk's answers with their faults named: a broken reply proves nothing, a journal that fails over a transport says so.

    Inside one transaction a failed store is no answer: all of it is undone. `answers`: where to keep what the pipeline was told.
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


def after_failure(process: Generator[leaf.Command, Any, Answer], answers: list[Told], why: Problem, operation: str) -> Answer:
    """The call once more in mind: the same answers, and at the end the failed commit."""
    if not answers or not isinstance(answers[-1][0], leaf.Settle):
        return Problem(why.kind, why.message, operation=operation, stage=why.stage, execution_started=why.execution_started)
    told = iter([value for _, value in answers[:-1]])
    return drive(process, lambda command: why if isinstance(command, leaf.Settle) else next(told))


def asked(
    own: dict[str, Any],
    beside: Mapping[str, str],
    caller: Caller,
    *,
    operation_id: str,
    now_ms: int,
    within: str = "",
    continues: Entry | None = None,
) -> Call:
    """The call that a caller makes with what `parted` gave. A key said with it counts before the run's own; a plan alone has none."""
    return Call(
        operation_id=operation_id, arguments=own, now_ms=now_ms, within=within, plan_id=caller.plan_id, approved_by=caller.approved_by,
        key="" if caller.dry_run else beside.get("operationKey") or caller.key, continues=continues, dry_run=caller.dry_run,
    )  # fmt: skip


def apart(session: str, under: str) -> str:
    """The name under which a session keeps what it knows of one thing alone. No session can be named so: see `is_name`."""
    return f"{session}\x1f{under}" if under else session


class Carried(Struct, frozen=True, kw_only=True):
    """One call of an atomic subject. `desk` answers its commands inside a transaction; `under` = what of a session is kept apart
    (what was read of one canvas says nothing of another).
    """

    db: Database
    tenant: str
    op: Operation
    call: Call
    caller: Caller
    desk: Callable[[Tx, Session], Answers]
    under: str = ""

    async def answer(self) -> Answer:
        """All of it in one commit, or the receipt of what a failed one proves. Reads never touch the writer, but for what a session has read."""
        answers: list[Told] = []
        known: list[Fact] = []

        def work(tx: Tx) -> Answer:
            answers.clear()
            known[:] = self._known(tx)
            session = self._session(known)
            answer = drive(operate(self.op, self.call, session, atomic=True), answering(self.desk(tx, session), answers))
            self._keep(session, None if reads else tx)
            return answer

        reads = self.op.effect == "read" or self.call.dry_run
        try:
            return await (self.db.read(work) if reads else self.db.write(work))
        except DbError as error:
            session = self._session(known)
            answer = after_failure(operate(self.op, self.call, session, atomic=True), answers, lost(error), self.op.name)
            with suppress(DbError):  # the store is failing; a hash that has moved on still refuses a blind write
                await self.db.write(self._note, session.fresh)
            return answer

    def _session(self, known: Iterable[Fact]) -> Session:
        return Session(self.caller.mode, known, lasting=self.caller.session != "")

    def _known(self, tx: Tx) -> list[Fact]:
        name = self.caller.session
        return [fact for kept in dict.fromkeys([name, self._apart]) for fact in operations.facts(tx, self.tenant, kept)] if name else []

    def _keep(self, session: Session, tx: Tx | None) -> None:
        if self.caller.session and session.fresh:
            if tx is None:
                self.db.write_sync(self._note, session.fresh)
            else:
                self._note(tx, session.fresh)

    def _note(self, tx: Tx, fresh: Iterable[Fact]) -> None:
        """Failures of arguments count for the whole session."""
        if self.caller.session:
            for fact in fresh:
                operations.add_facts(tx, self.tenant, self.caller.session if isinstance(fact, Missed | Cleared) else self._apart, [fact])

    @property
    def _apart(self) -> str:
        return apart(self.caller.session, self.under)
