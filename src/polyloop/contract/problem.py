"""One value for everything that can go wrong: what kind, at which stage, had it started, may it be repeated, what to do.

Seed: S0.36-S0.41. Exceptions only carry a `Problem`. Exit codes (interface.md) are derived from the kind here and nowhere else.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from msgspec import Struct, field

Kind = Literal[
    "validation", "not_found", "ambiguous", "type_mismatch", "revision_conflict", "confirmation_required", "permission_denied",
    "partial_success", "commit_unknown", "authentication_required", "rate_limited", "task_failed", "budget_exceeded", "pagination",
    "local_io", "capability_unavailable", "invalid_response", "corrupt_store", "parameter_drift", "conflict", "owned_elsewhere",
]  # fmt: skip
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

#: Exit codes by kind; kinds not named exit 1 (interface.md).
EXIT_BY_KIND: Final[dict[str, int]] = {
    "validation": 2, "type_mismatch": 2, "not_found": 2, "ambiguous": 2,
    "partial_success": 3, "pagination": 3, "commit_unknown": 4, "confirmation_required": 5,
    "permission_denied": 6, "authentication_required": 6,
    "revision_conflict": 7, "conflict": 7, "parameter_drift": 7, "owned_elsewhere": 7, "budget_exceeded": 8,
}  # fmt: skip


class Problem(Struct, frozen=True):
    """A typed error. `execution_started` None = not known; `retryable` says whether an automatic replay is safe (S0.40)."""

    kind: Kind
    message: str
    operation: str = ""
    stage: str = ""
    execution_started: bool | None = False
    retryable: bool = False
    retry_after_seconds: float | None = None
    actions: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def exit_code(self) -> int:
        return EXIT_BY_KIND.get(self.kind, 1)

    def as_json(self) -> dict[str, Any]:
        """The wire form (camelCase) under the key `error`."""
        out: dict[str, Any] = {
            "kind": self.kind, "message": self.message, "operation": self.operation, "stage": self.stage,
            "executionStarted": self.execution_started, "retryable": self.retryable, "actions": list(self.actions), "details": self.details,
        }  # fmt: skip
        if self.retry_after_seconds is not None:
            out["retryAfterSeconds"] = self.retry_after_seconds
        return out


class ProblemError(Exception):
    """Carries a Problem through Python code."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.kind}: {problem.message}")
        self.problem = problem


def problem(kind: Kind, message: str, **more: Any) -> ProblemError:
    """Make the exception in one line: `raise problem("not_found", "...", operation="run")`."""
    return ProblemError(Problem(kind, message, **more))
