"""What a subject declares, and what passes between it and the pipeline.

One `Operation` per leaf is the single source of what models see, what is checked, and what receipts say. Declarations
that could not keep the contract (a write without verification, an effect that nothing can confirm) do not exist: they
raise when they are made. Seed: S0.1, S0.20, S1.1, S1.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct, field

from .approval import Approval
from .ledger import Entry, Retry
from .problem import FieldProblem, problem
from .receipt import Compensation, Verification, Verify
from .schema import Shape
from .session import Effect, Fact, Need
from .snapshot import State, digest
from .spend import Quote

#: A reply confirms an effect only if its schema demands one of these: an id alone proves nothing (S0.20).
PROVING: Final = frozenset({"revision", "snapshotHash", "state"})


class Step(Struct, frozen=True):
    """One request. `reply` = schema of its answer; `echo` = fields in which it must name the prepared target; `awaits` = it
    waits for the ticket of a task started by an earlier step.

    Raises ValueError for an effect that nothing could confirm.
    """

    name: str
    effect: bool = False
    reply: Shape | None = None
    awaits: bool = False
    echo: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.effect and not (self.reply and PROVING & set(self.reply.raw.get("required", ()))):
            raise ValueError(f"step {self.name}: its reply schema must require one of {sorted(PROVING)}")


class Operation(Struct, frozen=True, kw_only=True):
    """A leaf schema: all that surfaces, checks and receipts of one operation come from. `based_on` names the argument
    that says which state it was based on; `handles` which arguments must have been issued, and as what kind.
    """

    name: str
    contract: str
    effect: Effect
    arguments: Shape
    output: Shape
    steps: tuple[Step, ...]
    answers: Literal["receipt", "ticket"] = "receipt"
    verify: Verify = "none"
    confirm: bool = False
    retry: Retry = "never"
    based_on: str = ""
    handles: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        writes = self.effect != "read"
        rules = {
            "every write declares how it is verified, a read never": writes == (self.verify != "none"),
            "a write has an effect step, a read none": writes == any(s.effect for s in self.steps),
            "pay is never retried": self.effect != "pay" or self.retry == "never",
        }
        for rule, held in rules.items():
            if not held:
                raise ValueError(f"{self.name}: {rule}")

    def step(self, name: str) -> Step:
        """The declaration behind a step; numbered parts (`write_2`) share one (`write`)."""
        known = {s.name: s for s in self.steps}
        return known.get(name) or known[name.rpartition("_")[0]]


def taking_back(op: Operation, undo: Compensation) -> dict[str, Any]:
    """The arguments that carry a compensation out: bound to its state, so that a target that moved on refuses it.

    Raises conflict when there is nothing to take back, or when `op` could not tell that the target moved on.
    """
    if undo.available and undo.operation == op.name and op.based_on:
        return {**(undo.arguments or {}), op.based_on: undo.expected}
    raise problem("conflict", undo.reason or "there is nothing that could be taken back", stage="compensation")


class Call(Struct, frozen=True, kw_only=True):
    """One call. `operation_id` is fresh and used if `key` is; `arguments` without what stands here beside them; `within` = what the
    surface bound it to (a canvas, its owner), as much a part of the request; `approved_by` = who says yes with the call (`--yes`),
    `plan_id` = which earlier yes is meant.
    """

    operation_id: str
    arguments: dict[str, Any]
    now_ms: int
    within: str = ""
    key: str = ""
    plan_id: str = ""
    approved_by: str = ""
    continues: Entry | None = None
    dry_run: bool = False

    def request(self, operation: str) -> str:
        """The digest of what is asked for: equal for a repeated call."""
        return digest([operation, self.arguments, *filter(None, [self.within])])


class Prepared(Struct, frozen=True, kw_only=True):
    """What a call means, found by reading only. `target` is its wire form, `target_id` what a session reads and blocks;
    `current` = its state now, `changed` = since the state named; `problems` and `needs` = what is wrong with the arguments by
    meaning; `steps` replaces the declared ones.
    """

    target: dict[str, Any] = field(default_factory=dict[str, Any])
    target_id: str = ""
    current: State | None = None
    changed: dict[str, Any] = field(default_factory=dict[str, Any])
    resolved: dict[str, Any] = field(default_factory=dict[str, Any])
    quote: Quote = Quote(0)
    assets: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    problems: tuple[FieldProblem, ...] = ()
    needs: tuple[Need, ...] = ()
    confirm: bool = False


class Conclusion(Struct, frozen=True, kw_only=True):
    """What the driver found after the steps. `target` replaces the prepared one where the operation made it; `facts` = what the
    response issues and what it counts as having read.
    """

    data: dict[str, Any] = field(default_factory=dict[str, Any])
    proofs: tuple[Verification, ...] = ()
    target: dict[str, Any] = field(default_factory=dict[str, Any])
    warnings: tuple[str, ...] = ()
    compensation: Compensation = Compensation()
    facts: tuple[Fact, ...] = ()
    cost_micro: int | None = None


# --- commands, and what each is answered with --------------------------------------------------------------------


class Recall(Struct, frozen=True):
    """-> Entry | None"""

    key: str


class Prepare(Struct, frozen=True):
    """-> Prepared. Reads only. `settings` = what a person changed in the offer."""

    call: Call
    settings: Mapping[str, Any]


class Grants(Struct, frozen=True):
    """-> Sequence[tuple[Grant, Sequence[Charge]]]: the grants this call may draw on, with their charges."""

    call: Call


class FindApproval(Struct, frozen=True):
    """-> Approval | None: by id where one is given, else the newest for this request."""

    plan_id: str
    request: str


class KeepApproval(Struct, frozen=True):
    """-> None. New, or superseded."""

    approval: Approval


class Intend(Struct, frozen=True):
    """-> None, or the Entry that already has this key. One commit: entry, its charge, the consumed approval."""

    entry: Entry
    approval: Approval | None = None


class Send(Struct, frozen=True):
    """-> the reply as it is, a Ticket (for a step that awaits one), or Problem. Sent once, under `step_id`.

    A lost or broken reply is `invalid_response` with `execution_started` None; a service's refusal is `problem.refusal`.
    """

    step_id: str
    step: Step
    call: Call
    replies: Mapping[str, Any]


class Find(Struct, frozen=True):
    """-> the reply that was given, None = proved absent and fenced, or Problem = cannot tell. Reads only, never sends.

    `target` = what its operation is about.
    """

    step_id: str
    step: Step
    target: Mapping[str, Any] = {}


class Conclude(Struct, frozen=True):
    """-> Conclusion. Reads only. `read_back` = all steps succeeded, the proof is wanted."""

    entry: Entry
    replies: Mapping[str, Any]
    read_back: bool


class RollBack(Struct, frozen=True):
    """-> None = all content written after Intend is undone; the intent stays."""


class Wait(Struct, frozen=True):
    """-> None"""

    seconds: float


class Settle(Struct, frozen=True):
    """-> None. The ledger's result: entry with its receipt, and its charge as it now stands."""

    entry: Entry


Command = Recall | Prepare | Grants | FindApproval | KeepApproval | Intend | Send | Find | Conclude | RollBack | Wait | Settle
