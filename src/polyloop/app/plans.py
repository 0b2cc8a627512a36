"""Approvals of prepared plans (operations outside a run), told in the same words as those of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from polyloop.contract import approval as contract
from polyloop.contract.problem import as_wire, problem
from polyloop.toolbox.bridge import ASKED

from .approvals import PERSON, Approval
from .documents import read_documents

if TYPE_CHECKING:
    from polyloop.documents.runtime import DocRuntime

_STATES: Final = {"requested": "pending", "rejected": "denied", "superseded": "withdrawn", "cancelled": "withdrawn"}


def _told(found: contract.Approval) -> Approval:
    return Approval(found.id, "", 0, as_wire(found.plan), found.until, _STATES.get(found.state, found.state))


async def plans(store: str, tenant: str, of_runs: Sequence[Approval]) -> list[Approval]:
    """All that are pending in a store and no run asks about, oldest first. A store that is not there is an empty one, and is not made."""
    with read_documents(store, tenant) as documents:
        asked = {a.id.removeprefix(ASKED) for a in of_runs}
        return [told for a in await documents.approvals() if (told := _told(a)).state == "pending" and a.id not in asked]


async def plan(documents: DocRuntime, plan_id: str) -> Approval:
    """One, pending or decided. Raises ProblemError(not_found)."""
    for found in await documents.approvals():
        if found.id == plan_id:
            return _told(found)
    raise problem("not_found", f"there is no approval {plan_id!r}", operation="approvals", stage="resolve")


async def decide_plan(documents: DocRuntime, plan_id: str, decision: str, reason: str) -> Approval:
    """Decide; the same call made again consumes it. Raises ProblemError: not_found, conflict."""
    word = "approved" if decision == "approved" else "rejected"
    return _told(await documents.decide(plan_id, word, by=PERSON, reason=reason))
