"""One value for everything that can go wrong: what kind, at which stage, had it started, may it be repeated, what to do.

Seed: S0.36-S0.41. Exceptions only carry a `Problem`. Exit codes (interface.md) are derived here and nowhere else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any, Final, Literal, TypeGuard, cast, get_args

import msgspec
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
#: The one status without a kind of its own.
EXIT_RETRYABLE: Final = 11

#: Kinds that go straight to failed (S0.38).
STRAIGHT: Final = frozenset({"validation", "permission_denied", "authentication_required"})
#: Answers without a typed body that still are the service's own word. Any other code proves nothing.
KIND_BY_CODE: Final[dict[int, Kind]] = {
    400: "validation", 401: "authentication_required", 403: "permission_denied", 422: "validation", 429: "rate_limited",
}  # fmt: skip
#: Fields a foreign service may send and we never pass on (S0.41).
INVENTED: Final = frozenset({"suggestedAction", "nextCommand"})


class Problem(Struct, frozen=True, rename="camel"):
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
        """By status first, then by kind."""
        return EXIT_RETRYABLE if self.details.get("status") == "retryable" else EXIT_BY_KIND.get(self.kind, 1)

    def as_json(self) -> dict[str, Any]:
        """The wire form (camelCase) under the key `error`."""
        return as_wire(self)


class ErrorReply(Struct, frozen=True):
    """What is printed and answered for anything that is no success."""

    error: Problem


class ProblemError(Exception):
    """Carries a Problem through Python code."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.kind}: {problem.message}")
        self.problem = problem


def problem(kind: Kind, message: str, **more: Any) -> ProblemError:
    """Make the exception in one line: `raise problem("not_found", "...", operation="run")`."""
    return ProblemError(Problem(kind, message, **more))


#: Of one call; who sends a million wrong fields learns enough from the first.
PROBLEMS_MAX: Final = 100


class FieldProblem(Struct, frozen=True):
    """What is wrong with one argument. `field` is a path such as `ops[1].patch`; `issue` is from `schema.ISSUES` or named by a rule."""

    field: str
    issue: str
    message: str = ""


def bad_arguments(problems: Iterable[FieldProblem], **details: Any) -> ProblemError:
    """All problems at once, or the first PROBLEMS_MAX: `details{field, issue, problems, ...}`, where field and issue are those of the first."""
    found = [as_wire(p) for p in itertools.islice(problems, PROBLEMS_MAX)]
    text = "; ".join(f"{p['field'] or 'arguments'}: {p['message'] or p['issue']}" for p in found)
    more = {"field": found[0]["field"], "issue": found[0]["issue"], "problems": found, **details}
    return problem("validation", text, stage="arguments", details=more)


def refusal(code: int, body: object = None) -> Problem:
    """What a service's answer of an error code (HTTP numbers) says, for a transport to hand on.

    Only the service's own typed words `error{kind, executionStarted, retryable, retryAfterSeconds}` prove that execution
    had not begun (S0.39); a code alone never does.
    """
    error = body.get("error") if is_object(body) else None
    told: dict[str, Any] = error if is_object(error) else {}
    kind = told["kind"] if told.get("kind") in KINDS else KIND_BY_CODE.get(code, "invalid_response")
    started = told.get("executionStarted")
    if not isinstance(started, bool):
        started = False if kind in STRAIGHT else None
    wait, details, actions = told.get("retryAfterSeconds"), told.get("details"), told.get("actions")
    return Problem(
        kind,
        str(told.get("message") or f"the service answered {code}"),
        execution_started=started,
        retryable=told.get("retryable") is True and started is False,
        retry_after_seconds=wait if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait < float("inf") else None,
        actions=tuple(a for a in cast("list[Any]", actions) if isinstance(a, str)) if isinstance(actions, list) else (),
        details=_plain(details, INVENTED) if is_object(details) else {},
    )


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def as_wire(value: Struct) -> dict[str, Any]:
    """The camelCase JSON object of a wire type, as plain lists and dicts."""
    return _plain(msgspec.to_builtins(value))


def _plain(value: Any, drop: frozenset[str] = frozenset()) -> Any:
    if is_object(value):
        return {name: _plain(part, drop) for name, part in value.items() if name not in drop}
    return [_plain(part, drop) for part in cast("list[Any]", value)] if isinstance(value, list | tuple) else value
