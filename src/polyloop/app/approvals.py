"""Approvals of runs, read from the runs themselves: a deferral is the question, a signal its answer.

The same decision twice is a no-op, the opposite one a conflict; a decision is consumed once, by the run (S1.49).
"""

from __future__ import annotations

from msgspec import Struct

from polyloop.contract.problem import problem
from polyloop.kernel import records as r
from polyloop.kernel.objects import Json
from polyloop.kernel.seams import Sealed, Signal

from .runs import UNREADABLE, Runs

PERSON = "cli"


class Approval(Struct, frozen=True):
    """One question. `until` = epoch ms, 0 = open; state: pending, approved, denied, expired, withdrawn."""

    id: str
    run_id: str
    call: int
    prompt: Json
    until: int
    state: str


async def approvals(runs: Runs) -> list[Approval]:
    """All that are pending, newest run first."""
    found: list[Approval] = []
    after, more = "", True
    while more:
        page, more = await runs.list(after)
        for listed in page:
            if listed.state == "waiting":
                found += [a for a in await _of_run(runs, listed.run_id) if a.state == "pending"]
        after = page[-1].run_id if page else ""
    return found


async def approval(runs: Runs, approval_id: str) -> Approval:
    """One, pending or decided. Raises ProblemError(not_found)."""
    after, more = "", True
    while more:
        page, more = await runs.list(after)
        for listed in page:
            if listed.state == UNREADABLE:
                continue
            for a in await _of_run(runs, listed.run_id):
                if a.id == approval_id:
                    return a
        after = page[-1].run_id if page else ""
    raise problem("not_found", f"there is no approval {approval_id!r}", operation="approvals", stage="resolve")


async def decide(runs: Runs, approval_id: str, decision: str, reason: str) -> Approval:
    """Decide. Raises ProblemError: not_found, conflict for a decision against an earlier one or after the wait ended."""
    found = await approval(runs, approval_id)
    if found.state == decision:
        return found
    if found.state == "pending" and 0 < found.until < runs.clock.now_ms():
        found = Approval(found.id, found.run_id, found.call, found.prompt, found.until, "expired")
    if found.state != "pending":
        raise problem("conflict", f"approval {approval_id} is already {found.state}", operation="approvals", stage="precondition")
    await runs.resolve(found.run_id, approval_id, decision, PERSON, {"reason": reason} if reason else None)
    decided = await approval(runs, approval_id)
    if decided.state != decision:  # somebody was first, or the wait ended meanwhile
        raise problem("conflict", f"approval {approval_id} is already {decided.state}", operation="approvals", stage="precondition")
    return decided


async def _of_run(runs: Runs, run_id: str) -> list[Approval]:
    read = await runs.read(run_id)
    signals = await runs.log.signals(runs.stream(run_id), 0)
    return [_approval(run_id, d, read.sealed, signals) for s in read.sealed if (d := _asked(s)) is not None]


def _asked(sealed: Sealed) -> r.ActionDeferred | None:
    if sealed.kind != "action_deferred" or sealed.body is None:
        return None
    record = r.decode(sealed.kind, sealed.body)
    return record if isinstance(record, r.ActionDeferred) and record.awaited == "approval" else None


def _approval(run_id: str, asked: r.ActionDeferred, sealed: tuple[Sealed, ...], signals: list[Signal]) -> Approval:
    """The first signal counts; the run's own record of it counts before that."""
    state = next((s.decision for s in signals if s.kind == "resolve" and s.token == asked.token), "pending")
    for s in sealed:
        record = r.decode(s.kind, s.body) if s.kind == "action_resolved" and s.body is not None else None
        if isinstance(record, r.ActionResolved) and record.token == asked.token:
            state = record.decision
    return Approval(asked.token, run_id, asked.call, asked.prompt, asked.until, state)
