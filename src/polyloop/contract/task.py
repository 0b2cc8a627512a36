"""Work that outlives its call: the `task.v1` ticket and the machine its state moves in.

A ticket has no status and no steps; its id locates the work and proves nothing (S0.20, S0.24). Subjects keep their own
words for states (the documents' INIT..EXPIRED, the media's queued..cancelled); one table gives each its phase, and the
moves are between phases. A terminal state is never reopened. Seed: S0.22, S1.36, S1.37, S1.90.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from .problem import Problem, problem

Phase = Literal["waiting", "running", "unknown", "succeeded", "failed", "cancelled", "expired"]
PHASES: Final[dict[str, Phase]] = {
    "INIT": "waiting", "PROCESSING": "running", "SUCCESS": "succeeded", "FAILED": "failed", "CANCELLED": "cancelled", "EXPIRED": "expired",
    "queued": "waiting", **{phase: phase for phase in get_args(Phase) if phase != "waiting"},
}  # fmt: skip
TERMINAL: Final = frozenset[Phase]({"succeeded", "failed", "cancelled", "expired"})
#: `unknown` = the far side may or may not have taken it; it is settled by asking, never by submitting again.
MOVES: Final[dict[Phase, frozenset[Phase]]] = {
    "waiting": frozenset({"running", "failed", "cancelled", "expired"}),
    "running": frozenset({"waiting", "unknown", *TERMINAL}),
    "unknown": frozenset({"running", *TERMINAL}),
    "succeeded": frozenset(), "failed": frozenset(), "cancelled": frozenset(), "expired": frozenset(),
}  # fmt: skip
EXIT_PENDING: Final = 10


class Ticket(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """`complete` = the state is success *and* the result can be read. Made by `ticket`."""

    contract_version: Literal["task.v1"] = "task.v1"
    task_id: str
    kind: str
    state: str
    complete: bool
    result: dict[str, Any] | UnsetType = UNSET
    error: Problem | UnsetType = UNSET

    def __post_init__(self) -> None:
        if not self.task_id or self.complete != (PHASES.get(self.state) == "succeeded" and self.result is not UNSET):
            raise ValueError("a ticket needs an id, and is complete only with a success and its result")

    @property
    def phase(self) -> Phase:
        return PHASES.get(self.state, "unknown")

    @property
    def terminal(self) -> bool:
        return self.phase in TERMINAL

    @property
    def exit_code(self) -> int:
        if not self.terminal:
            return EXIT_PENDING
        return 0 if self.complete else self.error.exit_code if self.error else 1


def ticket(task_id: str, kind: str, state: str, *, result: dict[str, Any] | None = None, error: Problem | None = None) -> Ticket:
    """Raises ValueError for an empty id."""
    complete = PHASES.get(state) == "succeeded" and result is not None
    made = Ticket(task_id=task_id, kind=kind, state=state, complete=complete, result=UNSET if result is None else result)
    return made if error is None else replace(made, error=error)


def move(state: str, to: str) -> str:
    """The new state. Raises conflict for a move the machine does not know; staying where one is always allowed."""
    if state != to and PHASES.get(to, "") not in MOVES[PHASES.get(state, "unknown")]:
        raise problem("conflict", f"a task that is {state} cannot become {to}", stage="task", details={"state": state, "to": to})
    return to
