"""One attempt of an operation, as it fills: which step proved what, what was read back, and the receipt that follows from it.

`receipt.derive`, the only maker of receipts, is called in this module alone. Seed: S0.6-S0.12, S0.20-S0.23, S0.39.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from . import leaf
from .leaf import Command, Conclusion, Operation, Step
from .ledger import Entry
from .problem import Problem, ProblemError, is_object
from .receipt import Receipt, StepRecord, StepStatus, Verification, compared, derive, proof_of, step_status
from .spend import Charge
from .task import Ticket

T = TypeVar("T")
#: Yields commands, is sent their answers, returns T.
Process = Generator[Command, Any, T]


class Trial(Struct):
    """One attempt, as it fills."""

    op: Operation
    entry: Entry
    steps: list[StepRecord] = field(default_factory=list[StepRecord])
    failures: list[Problem] = field(default_factory=list[Problem])
    proofs: list[Verification] = field(default_factory=list[Verification])
    replies: dict[str, Any] = field(default_factory=dict[str, Any])
    conclusion: Conclusion = Conclusion()

    @property
    def whole(self) -> bool:
        return all(s.status == "success" for s in self.steps)

    def record(self, step: StepRecord, why: Problem | None = None) -> None:
        self.steps.append(step)
        if why:
            self.failures.append(replace(why, stage=step.name, operation=self.op.name))

    def judge(self, step: Step, answer: Any) -> tuple[StepStatus, Problem | None]:
        """What an answer proves. Only a reply that keeps its schema, and repeats what it must, confirms an effect."""
        if isinstance(answer, Problem):
            return step_status(answer, effect=step.effect), answer
        if isinstance(answer, Ticket):
            started = {told.get("taskId") for told in (*self.replies.values(), self.conclusion.data) if is_object(told)}
            if answer.task_id in started:
                return self._waited(answer)
        elif not (step.reply and step.reply.problems(answer)):
            named = answer if is_object(answer) else {}
            if all(named.get(name) == self.entry.target.get(name) for name in step.echo):
                return "success", None
        return "unknown" if step.effect else "failed", Problem("invalid_response", "the reply confirms nothing", execution_started=None)

    def _waited(self, found: Ticket) -> tuple[StepStatus, Problem | None]:
        if not found.terminal:
            return "not_started", None
        self.proofs.append(compared("terminal_state", "succeeded", found.phase))
        if found.complete:
            return "success", None
        return "failed", found.error or Problem("task_failed", f"the task ended {found.state}", execution_started=True)

    def conclude(self) -> Process[None]:
        """The read-back, and the step `verify` that tells of it."""
        wanted = self.whole
        found = yield leaf.Conclude(self.entry, self.replies, wanted)
        why = found if isinstance(found, Problem) else None
        if isinstance(found, Conclusion):
            self.conclusion = replace(found, data={**self.conclusion.data, **found.data})
            self.proofs += found.proofs
            if self.op.output.problems(found.data):
                why = Problem("invalid_response", "the result does not keep its schema", execution_started=True)
        if not why and proof_of(self.op.verify, self.proofs)[0] != "matched":
            why = Problem("invalid_response", "what was read back does not prove the write", execution_started=True)
        if wanted:
            self.record(StepRecord("verify", "failed" if why else "success"), why)
        else:
            self.record(StepRecord("verify", "not_started"))

    def unmake(self, status: StepStatus, why: Problem) -> None:
        """What was done, or may have been, was not, or cannot be told any more: by a rollback, by a commit that failed."""
        touched = [s.name for s in self.steps if s.effect and s.status in ("success", "unknown")]
        unmade: dict[str, StepStatus] = {**dict.fromkeys(touched, status), "verify": "not_started"}
        self.steps = [replace(s, status=unmade.get(s.name, s.status)) for s in self.steps]
        kept = [f for f in self.failures if f.stage not in unmade]
        self.failures = [*(replace(why, stage=name, operation=self.op.name) for name in touched), *kept]
        self.proofs, self.conclusion = [], Conclusion()

    def receipt(self) -> Receipt:
        end, op = self.conclusion, self.op
        return derive(
            op.contract, op.name, self.steps, self.failures, op.verify, self.proofs, {"operationId": self.entry.operation_id, **end.data},
            warnings=end.warnings, compensation=end.compensation, target=end.target or self.entry.target,
        )  # fmt: skip

    def bill(self, receipt: Receipt) -> Charge | None:
        """What becomes of the reservation. A ticket keeps it until its task ends."""
        charge = self.entry.charge
        if charge is None or (self.op.answers == "ticket" and receipt.status == "success"):
            return charge
        if receipt.status == "success":
            cost = self.conclusion.cost_micro
            if cost == 0:
                return replace(charge, kind="refund")  # charged under other orders, or not at all
            return replace(charge, kind="settle", amount_micro=charge.amount_micro if cost is None else cost)
        return replace(charge, kind="refund" if receipt.status in ("failed", "retryable") else "uncertain")


def must(command: Command) -> Process[Any]:
    """Its answer; a Problem is raised."""
    answer = yield command
    if isinstance(answer, Problem):
        raise ProblemError(answer)
    return answer
