"""A person's yes, bound to one prepared plan: exact arguments, resolved parameters, snapshot, quote, assets.

Asking executes nothing. The same call made again consumes the approval, once; if anything of the plan has changed by
then the approval is superseded and nothing happens. Legal moves are data. Seed: S1.49, S1.58, S1.82.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from .problem import as_wire, problem
from .snapshot import State, digest
from .spend import Quote

Decision = Literal["approved", "rejected"]
ApprovalState = Literal["requested", "approved", "rejected", "expired", "superseded", "cancelled", "consumed"]
MOVES: Final[dict[ApprovalState, frozenset[ApprovalState]]] = {
    "requested": frozenset({"approved", "rejected", "expired", "superseded", "cancelled"}),
    "approved": frozenset({"consumed", "expired", "superseded", "cancelled"}),
    "rejected": frozenset(), "expired": frozenset(), "superseded": frozenset(), "cancelled": frozenset(), "consumed": frozenset(),
}  # fmt: skip
PLAN_TTL_MS: Final = 30 * 60 * 1000


class Plan(Struct, frozen=True, kw_only=True, rename="camel"):
    """What exactly would be done. `arguments` is their digest; `settings` = what the person changed in the offer."""

    operation: str
    arguments: str
    target: dict[str, Any] = field(default_factory=dict[str, Any])
    resolved: dict[str, Any] = field(default_factory=dict[str, Any])
    snapshot: State | None = None
    quote: Quote | None = None
    assets: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def hash(self) -> str:
        return digest(as_wire(self))


class Approval(Struct, frozen=True, kw_only=True, rename="camel"):
    """`until` = epoch ms. `by` decided it, `reason` is what they said."""

    id: str
    plan: Plan
    until: int
    state: ApprovalState = "requested"
    by: str = ""
    reason: str = ""


def at(approval: Approval, now_ms: int) -> Approval:
    """The approval as it stands now: an undecided or unused one has expired once its time is over."""
    return replace(approval, state="expired") if approval.state in ("requested", "approved") and now_ms >= approval.until else approval


def turn(approval: Approval, state: ApprovalState) -> Approval:
    """Raises conflict for a move that is not legal."""
    if state not in MOVES[approval.state]:
        raise problem("conflict", f"the approval is {approval.state} and cannot become {state}", stage="approval", details={"planId": approval.id})
    return replace(approval, state=state)


def decide(approval: Approval, decision: Decision, *, by: str, now_ms: int, reason: str = "", plan: Plan | None = None) -> Approval:
    """The same decision twice is a no-op, the opposite one a conflict. `plan` = the offer quoted again with the person's settings."""
    standing = at(approval, now_ms)
    if decision == ("approved" if standing.state == "consumed" else standing.state):
        return standing
    return replace(turn(standing, decision), by=by, reason=reason, plan=plan or approval.plan)


def differences(approved: Plan, now: Plan) -> tuple[str, ...]:
    """The fields in which two plans differ, as named on the wire."""
    one, other = as_wire(approved), as_wire(now)
    return tuple(name for name in one if one[name] != other[name])
