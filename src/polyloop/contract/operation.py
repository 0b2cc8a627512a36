"""The pipeline every operation runs through, as a sans-IO machine.

Theory of operation. `operate` yields commands (`leaf`), is sent their answers, and returns what the caller gets:

  Recall -> Prepare -> Grants -> FindApproval -> (KeepApproval) -> Intend -> Send... -> Conclude -> (RollBack) -> Settle

A driver answers a command that failed with a `Problem`. An atomic driver opens its transaction before Prepare, commits
in Settle, and answers Settle with a Problem if that COMMIT failed (`execution_started` False = rollback proved); a network
driver makes Intend and Settle durable each on its own. No status is written here: steps and proofs gather in a `trial.Trial`, the
only place that derives a receipt.

Seed: S0.5-S0.25, S0.38-S0.40, S1.3, S1.29, S1.38, S1.43, S1.47-S1.50.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from . import leaf
from .approval import PLAN_TTL_MS, Approval, Plan, at, decide, differences, turn
from .leaf import Call, Command, Conclusion, Operation, Prepared, Step
from .ledger import RECONCILED, Entry, on_repeat, reconciled, retry_wait
from .paging import Listing
from .problem import ErrorReply, FieldProblem, Problem, ProblemError, as_wire, bad_arguments, problem
from .receipt import Receipt, StepRecord, step_status
from .schema import whole
from .session import MAX_ATTEMPTS, Blocked, Cleared, Missed, Session, permission
from .snapshot import State, digest, require_current, wrong_kind
from .spend import Charge, Grant, balance, refused
from .task import Ticket, ticket
from .trial import Process, T, Trial, must

#: Published under docs/reference/schemas.
WIRE: Final[dict[str, type[Struct]]] = {"operation.v1": Receipt, "task.v1": Ticket, "list.v1": Listing, "error.v1": ErrorReply}
#: What fencing an absent step proves.
ABSENT: Final = Problem("task_failed", "it never began, and now it cannot", execution_started=False, retryable=True)

Answer = Receipt | Ticket | Problem | dict[str, Any]


def operate(op: Operation, call: Call, session: Session, *, atomic: bool = False) -> Process[Answer]:
    """Run one call. Returns a receipt (success or not), a ticket, a reading (dict), or the Problem that stopped it before any step."""
    try:
        return (yield from _Flow(op, call, session, atomic=atomic).run())
    except ProblemError as stop:
        return stop.problem if stop.problem.operation else replace(stop.problem, operation=op.name)


def drive(process: Process[T], answer: Callable[[Command], Any]) -> T:
    """Run a process to its end with a driver that answers at once. A ProblemError of the driver is its answer."""
    told: Any = None
    while True:
        try:
            command = process.send(told)
        except StopIteration as end:
            return end.value
        try:
            told = answer(command)
        except ProblemError as stop:
            told = stop.problem


def shown(answer: Answer) -> tuple[dict[str, Any], int]:
    """What every surface prints, and its exit code: a good receipt, a ticket or a reading as it is, else one `error`."""
    told = answer.problem() if isinstance(answer, Receipt) and not answer.ok else answer
    if isinstance(told, dict):
        return told, 0
    return as_wire(ErrorReply(told) if isinstance(told, Problem) else told), 0 if isinstance(told, Receipt) else told.exit_code


def reconcile(op: Operation, entry: Entry) -> Process[Entry]:
    """Ask what became of an operation, and settle what can be told. Never sends; a step found absent is fenced (S0.10, S0.11)."""
    old = entry.receipt
    if old and old.status not in RECONCILED:
        return entry
    trial = Trial(op, entry, conclusion=Conclusion(data=old.data if old else {}))
    failures = {f.stage: f for f in old.failures or ()} if old else {}
    for record in old.steps if old else entry.steps:
        if record.name == "verify" or not ((step := op.step(record.name)).effect or step.awaits or record.status != "not_started"):
            continue  # the proof speaks for it
        status, why = record.status, failures.get(record.name)
        if status == "unknown" or (step.awaits and status != "success"):
            answer = yield leaf.Find(entry.step_id(record.name), step, entry.target)
            if answer is None:
                status, why = "not_started", ABSENT if step.effect else None
            elif not isinstance(answer, Problem):
                status, why = trial.judge(step, answer)
                trial.replies[record.name] = answer
        trial.record(StepRecord(record.name, status, record.effect), why)
    yield from trial.conclude()
    settled = reconciled(entry, trial.receipt())
    settled = replace(settled, charge=trial.bill(settled.receipt)) if settled.receipt else settled
    if settled != entry:
        yield from must(leaf.Settle(settled))
    return settled


class _Flow:
    """One call on its way: first whether it may go on, then doing it."""

    def __init__(self, op: Operation, call: Call, session: Session, *, atomic: bool) -> None:
        self.op, self.call, self.session, self.atomic = op, call, session, atomic

    def run(self) -> Process[Answer]:
        op = self.op
        self.call = call = replace(self.call, arguments=self._arguments())
        begin = self._begin(call.continues)
        entry = Entry(operation_id=call.operation_id, operation=op.name, request=call.request(op.name), key=call.key)
        if op.effect != "read" and call.key and (known := (yield from must(leaf.Recall(call.key)))):
            answer, entry = yield from self._repeat(known, entry.request)
            if answer:
                return answer
        prepared = yield from self._prepare({})
        if permission(self.session.mode, op.effect, confirm=False, granted=True) == "deny":
            raise problem("permission_denied", f"{self.session.mode} allows no {op.effect}", stage="permission")
        if op.based_on:
            expected: State | None = call.arguments.get(op.based_on)
            self._refuse(wrong_kind(op.based_on, expected, prepared.current))
            require_current(op.based_on, expected, prepared.current, prepared.changed)
        if call.dry_run:
            plan = {"target": prepared.target, "resolved": prepared.resolved, "steps": [s.name for s in self._remaining(prepared, begin)]}
            return {"contractVersion": op.contract, "operation": op.name, "executed": False, "plan": plan}
        if op.effect == "read":
            return (yield from self._read(entry))
        prepared, approval, source = yield from self._leave(prepared, entry)
        steps = self._remaining(prepared, begin)
        entry = replace(
            entry,
            target=prepared.target,
            continues=call.continues.operation_id if call.continues else "",
            steps=tuple(StepRecord(s.name, "unknown" if s.effect else "not_started", s.effect) for s in steps),
            charge=Charge(entry.step_id("pay"), source, "reserve", prepared.quote.amount_micro) if op.effect == "pay" else None,
        )
        if taken := (yield from must(leaf.Intend(entry, approval))):
            answer, running = yield from self._repeat(taken, entry.request)
            return answer or _answer(op, running)
        return (yield from self._carry_out(entry, steps, prepared.target_id))

    # whether it may go on

    def _arguments(self) -> dict[str, Any]:
        op, arguments = self.op, self.call.arguments
        missed = self.session.attempts(op.name)
        if missed >= MAX_ATTEMPTS:
            details = {"reason": "attempts_exhausted", "attempt": missed, "maxAttempts": MAX_ATTEMPTS}
            raise problem("capability_unavailable", f"{op.name} is withdrawn after {missed} wrong calls", stage="session", details=details)
        self._refuse(op.arguments.problems(arguments) or self.session.unissued(op.handles, arguments))
        return whole(arguments)

    def _refuse(self, found: Sequence[FieldProblem], *, counted: bool = True) -> None:
        if found:
            raise self._refusal(found, counted=counted)

    def _refusal(self, found: Sequence[FieldProblem], *, counted: bool = True) -> ProblemError:
        if counted:
            self.session.note(Missed(self.op.name))
        return bad_arguments(found, attempt=self.session.attempts(self.op.name), maxAttempts=MAX_ATTEMPTS)

    def _begin(self, earlier: Entry | None) -> str:
        """The step to begin with, "" = the first: where the partial success this call goes on with was no success.

        That one may itself have gone on with another, so its steps are all there is to tell what need not be done again.
        """
        if earlier is None:
            return ""
        receipt = earlier.receipt
        if earlier.operation == self.op.name and receipt and receipt.status == "partial_success":
            return next(s.name for s in receipt.steps if s.status != "success")
        raise self._refusal([FieldProblem("continues", "invalid_value", "only a partial success of the same operation can be gone on with")])

    def _remaining(self, prepared: Prepared, begin: str) -> tuple[Step, ...]:
        """From the step named (S0.8); none of them if only the proof is missing."""
        steps = prepared.steps or self.op.steps
        return steps[next((n for n, s in enumerate(steps) if s.name == begin), len(steps) if begin else 0) :]

    def _repeat(self, known: Entry, request: str) -> Process[tuple[Answer | None, Entry]]:
        """The answer to a call whose key is taken; None = go on, with the next attempt of that operation."""
        repeat = on_repeat(known, request)
        if repeat == "other_arguments":
            raise self._refusal([FieldProblem("operationKey", repeat, "this key already stands for another request")], counted=False)
        if repeat == "reconcile":
            known = yield from reconcile(self.op, known)
            repeat = on_repeat(known, request)
        if repeat == "next_attempt":
            return None, known.next_attempt()
        return _answer(self.op, known), known

    def _prepare(self, settings: Mapping[str, Any]) -> Process[Prepared]:
        prepared: Prepared = yield from must(leaf.Prepare(self.call, settings))
        self._refuse(prepared.problems)
        if self.op.effect != "read":
            self._refuse(self.session.unread(prepared.needs, prepared.target_id), counted=False)
        return prepared

    def _leave(self, prepared: Prepared, entry: Entry) -> Process[tuple[Prepared, Approval | None, str]]:
        """Permission to go on: by the mode alone, by a grant, or by an approval of exactly this plan; and what pays."""
        op, source = self.op, ""
        if op.effect == "pay":
            offered: Sequence[tuple[Grant, Sequence[Charge]]] = yield from must(leaf.Grants(self.call))
            cover = (grant.id for grant, charges in offered if not refused(grant, balance(charges), prepared.quote, self.call.now_ms))
            source = next(cover, "")
        if permission(self.session.mode, op.effect, confirm=op.confirm or prepared.confirm, granted=source != "") == "allow":
            return prepared, None, source
        prepared, approval = yield from self._approved(prepared, entry)
        return prepared, approval, source or approval.id

    def _approved(self, prepared: Prepared, entry: Entry) -> Process[tuple[Prepared, Approval]]:
        """The consumed approval of this plan. Raises confirmation_required (naming the plan) or permission_denied (rejected)."""
        call = self.call
        found: Approval | None = yield from must(leaf.FindApproval(call.plan_id, entry.request))
        if call.plan_id and not found:
            raise problem("not_found", f"there is no plan {call.plan_id!r}", stage="approval", details={"planId": call.plan_id})
        if found and found.plan.arguments != entry.request:
            raise self._refusal([FieldProblem("plan", "other_arguments", "this plan is for another call")])
        settings = found.plan.settings if found else {}
        if settings:
            prepared = yield from self._prepare(settings)
        plan = Plan(
            operation=self.op.name, arguments=entry.request, target=prepared.target, resolved=prepared.resolved, snapshot=prepared.current,
            quote=prepared.quote if self.op.effect == "pay" else None, assets=prepared.assets, settings=settings,
        )  # fmt: skip
        standing, changed = at(found, call.now_ms) if found else None, ()
        usable = {"requested", "approved", "" if call.approved_by else "rejected"}
        if standing and standing.plan.hash != plan.hash:
            changed = differences(standing.plan, plan)
            if standing.state in ("requested", "approved"):
                yield from must(leaf.KeepApproval(turn(standing, "superseded")))
        if standing is None or changed or standing.state not in usable:
            identity = digest([entry.step_id("plan"), plan.hash])[:32]
            standing = Approval(id=f"plan-{identity}", plan=plan, until=call.now_ms + PLAN_TTL_MS)
            if not call.approved_by:
                yield from must(leaf.KeepApproval(standing))
        if call.approved_by:
            standing = decide(standing, "approved", by=call.approved_by, now_ms=call.now_ms)
        if standing.state == "rejected":
            raise problem("permission_denied", standing.reason or "a person refused it", stage="approval", details={"planId": standing.id})
        if standing.state == "requested":
            details = {"planId": standing.id, "expiresAt": standing.until, "plan": as_wire(plan), "changed": list(changed)}
            raise problem("confirmation_required", "a person must approve this plan", stage="approval", actions=("approve",), details=details)
        return prepared, turn(standing, "consumed")

    # doing it

    def _read(self, entry: Entry) -> Process[Answer]:
        """A plain read: its answer as it is, once it keeps its schema."""
        replies: dict[str, Any] = {}
        for step in self.op.steps:
            replies[step.name] = yield from must(leaf.Send(entry.step_id(step.name), step, self.call, dict(replies)))
        found: Conclusion = yield from must(leaf.Conclude(entry, replies, read_back=False))
        if self.op.output.problems(found.data):
            raise problem("invalid_response", "the answer does not keep its schema", stage="output", execution_started=True)
        self.session.note(Cleared(self.op.name), *found.facts)
        return found.data

    def _carry_out(self, entry: Entry, steps: Sequence[Step], target_id: str) -> Process[Answer]:
        first = entry.attempt
        while True:
            trial = yield from self._attempt(entry, steps)
            receipt = trial.receipt()
            wait = retry_wait(receipt, self.op.retry, entry.attempt - first)
            if wait is None:
                break
            yield leaf.Wait(wait)
            entry = entry.next_attempt()
            yield from must(leaf.Intend(entry))
        lost = yield leaf.Settle(replace(entry, receipt=receipt, charge=trial.bill(receipt)))
        if isinstance(lost, Problem):
            trial.unmake(step_status(lost, effect=True), lost)
            receipt = trial.receipt()
        if receipt.status == "success":
            self.session.note(Cleared(self.op.name), *trial.conclusion.facts)
        elif receipt.status == "unknown":
            self.session.note(Blocked(target_id, "an earlier write there is unknown"))
        return _answer(self.op, replace(entry, receipt=receipt))

    def _attempt(self, entry: Entry, steps: Sequence[Step]) -> Process[Trial]:
        trial = Trial(self.op, entry)
        for step in steps:
            if not trial.whole:
                trial.record(StepRecord(step.name, "not_started", step.effect))
                continue
            answer = yield leaf.Send(entry.step_id(step.name), step, self.call, dict(trial.replies))
            status, why = trial.judge(step, answer)
            trial.record(StepRecord(step.name, status, step.effect), why)
            trial.replies[step.name] = answer
        yield from trial.conclude()
        if self.atomic and trial.failures and not isinstance((yield leaf.RollBack()), Problem):
            cause = trial.failures[0]
            trial.unmake("not_started", replace(cause, message=f"rolled back: {cause.message}", execution_started=False))
        return trial


def _answer(op: Operation, entry: Entry) -> Answer:
    """What the caller gets for an operation as it stands; a running one is a ticket of its own."""
    receipt = entry.receipt
    if receipt is None:
        return ticket(entry.operation_id, "operation", "running")
    if op.answers == "receipt" or receipt.status != "success":
        return receipt
    data = receipt.data
    return ticket(data["taskId"], data["kind"], data["state"], result=data.get("result"))
