"""What a write did. A receipt is derived from recorded steps and their proof; nobody writes a status.

Theory of operation. Steps run in order; each leaves one `StepRecord`, and a `Problem` (`stage` = the step's name) when
it did not succeed. `status_of` reads them by the table of contract.md, first match wins. A receipt carries everything
its status was derived from and checks itself whenever it is made or read back: one that contradicts its own steps
cannot exist. It cannot be constructed by hand; `derive` builds it and only the pipeline (`operation`) calls that.

Seed: S0.6-S0.17, S0.20-S0.25, S0.38-S0.40.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, StructMeta, UnsetType

from .problem import STRAIGHT, Kind, Problem, as_wire
from .snapshot import State

Status = Literal["success", "partial_success", "unknown", "retryable", "failed"]
StepStatus = Literal["success", "failed", "unknown", "not_started"]
Proof = Literal["matched", "mismatched", "missing", "not_required"]
Method = Literal["transport", "readback", "terminal_state"]
Verify = Literal["readback", "terminal_state", "none"]

#: Which proof outweighs which (S0.21). Transport alone is never enough.
RANK: Final[dict[str, int]] = {"transport": 0, "readback": 1, "terminal_state": 2}
#: Kinds that say nothing about execution, whatever else the answer claims.
MUTE: Final = frozenset({"commit_unknown", "invalid_response", "partial_success", "corrupt_store"})
#: Kinds of the way there, not of the service: only an explicit "not started" settles them.
WAY: Final = frozenset({"rate_limited", "local_io"})
KIND_BY_STATUS: Final[dict[str, Kind]] = {"partial_success": "partial_success", "unknown": "commit_unknown"}
#: What to do next, as codes; the words for people stand elsewhere.
ACTIONS: Final[dict[str, tuple[str, ...]]] = {
    "partial_success": ("inspect_steps", "continue"), "unknown": ("read_back", "reconcile"), "retryable": ("repeat",), "failed": (),
}  # fmt: skip


class StepRecord(Struct, frozen=True, rename="camel"):
    """How one step ended. `effect` = it may change something."""

    name: str
    status: StepStatus
    effect: bool = False


class Verification(Struct, frozen=True, rename="camel"):
    """A proof: what the operation should have left and what was found, as two tokens (hashes, states). Made by `compared`."""

    method: Method
    matched: bool
    expected: str
    observed: str
    at_revision: State | None = None

    def __post_init__(self) -> None:
        if self.matched != (self.expected == self.observed != ""):
            raise ValueError("a verification must say what its tokens say")


def compared(method: Method, expected: str, observed: str, at_revision: State | None = None) -> Verification:
    """Matched when both tokens are equal and not empty."""
    return Verification(method, expected == observed != "", expected, observed, at_revision)


class Compensation(Struct, frozen=True, rename="camel"):
    """How to take a write back: another operation, refused once the target is no longer at `expected`.

    Raises ValueError when it is said to be available and could not be executed.
    """

    available: bool = False
    reason: str = ""
    operation: str | UnsetType = UNSET
    arguments: dict[str, Any] | UnsetType = UNSET
    expected: State | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.available and UNSET in (self.operation, self.arguments, self.expected):
            raise ValueError("a compensation names its operation, its arguments and the state it may be applied to")


def step_status(told: Problem, *, effect: bool) -> StepStatus:
    """What a failed answer proves about its step (S0.38, S0.39)."""
    if told.kind in STRAIGHT:
        return "failed"
    if told.kind not in MUTE and told.execution_started is False:
        return "not_started"
    return "unknown" if effect and told.kind in MUTE | WAY else "failed"


def proof_of(verify: Verify, offered: Sequence[Verification]) -> tuple[Proof, Verification | None]:
    """The strongest proof offered, if it ranks as high as demanded. One mismatch outweighs every match (S0.23)."""
    if verify == "none":
        return "not_required", None
    wrong = next((v for v in offered if not v.matched), None)
    if wrong:
        return "mismatched", wrong
    best = max(offered, key=lambda v: RANK[v.method], default=None)
    return ("matched", best) if best and RANK[best.method] >= RANK[verify] else ("missing", None)


def status_of(steps: Sequence[StepRecord], proof: Proof, failures: Sequence[Problem] = ()) -> Status:
    """The table of contract.md; the first row that matches wins."""
    first = next((s for s in steps if s.status != "success"), None)
    effects = {s.status for s in steps if s.effect}
    if first is None and proof in ("matched", "not_required"):
        return "success"
    if "success" in effects:
        return "partial_success"
    if "unknown" in effects:
        return "unknown"
    if first and first.status == "not_started" and any(f.stage == first.name and f.execution_started is False and f.retryable for f in failures):
        return "retryable"
    return "failed"


class _Derived(StructMeta):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("receipts come out of the pipeline")


class Receipt(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, metaclass=_Derived):
    """Nine fields always; `target`, `failures`, `verification` only when they were produced (S0.16, S0.17).

    Read a stored one back with `msgspec.convert(wire, Receipt)`; raises msgspec.ValidationError when it contradicts itself.
    """

    contract_version: str
    ok: bool
    status: Status
    complete: bool
    operation: str
    steps: tuple[StepRecord, ...]
    data: dict[str, Any]
    warnings: tuple[str, ...]
    compensation: Compensation
    target: dict[str, Any] | UnsetType = UNSET
    failures: tuple[Problem, ...] | UnsetType = UNSET
    verification: Verification | UnsetType = UNSET

    def __post_init__(self) -> None:
        derived = status_of(self.steps, self._proof, self.failures or ())
        if (self.status, self.ok, self.complete) != (derived, derived == "success", derived == "success"):
            raise ValueError(f"the steps say {derived}, the receipt says {self.status}")

    @property
    def _proof(self) -> Proof:
        if not any(s.effect for s in self.steps):
            return "not_required"
        return "matched" if self.verification and self.verification.matched else "missing"

    @property
    def execution_started(self) -> bool:
        """False = proved that no effect of this operation began."""
        effects = {s.name: s.status for s in self.steps if s.effect}
        began = any(f.stage in effects and f.execution_started is not False for f in self.failures or ())
        return began or "success" in effects.values() or "unknown" in effects.values()

    def problem(self) -> Problem:
        """The one typed error of a non-success, told by the first step that is none; `details` is the receipt.

        `retryable` false = do not replay blindly (S0.40).
        """
        stage = next((s.name for s in self.steps if s.status != "success"), "verify")
        cause = next((f for f in self.failures or () if f.stage == stage), None)
        kind = KIND_BY_STATUS.get(self.status) or (cause.kind if cause else "task_failed")
        compensate = ("compensate",) if self.compensation.available else ()
        return Problem(
            kind, cause.message if cause else f"{stage} was not completed", operation=self.operation, stage=stage,
            execution_started=self.execution_started, retryable=self.status == "retryable",
            retry_after_seconds=cause.retry_after_seconds if cause else None,
            actions=(*ACTIONS[self.status], *compensate, *(cause.actions if cause else ())), details=as_wire(self),
        )  # fmt: skip


def derive(
    contract: str, operation: str, steps: Sequence[StepRecord], failures: Sequence[Problem], verify: Verify,
    proofs: Sequence[Verification], data: dict[str, Any], *, warnings: Sequence[str] = (),
    compensation: Compensation | None = None, target: dict[str, Any] | None = None,
) -> Receipt:  # fmt: skip
    """Build the receipt. A proof is demanded as soon as one step may change something; what is not known to be done is not taken back."""
    proof, verification = proof_of(verify if any(s.effect for s in steps) else "none", proofs)
    status = status_of(steps, proof, failures)
    undo = compensation if status in ("success", "partial_success") else None
    fields = {
        "contractVersion": contract, "ok": status == "success", "status": status, "complete": status == "success", "operation": operation,
        "steps": tuple(steps), "data": data, "warnings": tuple(warnings), "compensation": undo or Compensation(),
    }  # fmt: skip
    produced = {"target": target, "failures": tuple(failures), "verification": verification}
    return msgspec.convert(fields | {k: v for k, v in produced.items() if v}, Receipt)
