"""The journal of one tenant as a subject's runtime and the people around it use it: what was done, what waits, what was read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..contract.approval import Approval, Decision, at, decide
from ..contract.ledger import Entry
from ..contract.problem import ProblemError, problem
from ..contract.session import Read
from ..contract.task import Ticket
from . import operations
from .carry import typed
from .operations import Recorded

if TYPE_CHECKING:
    from ..db import Database, Tx


class Book:
    """Safe to use from any task of any loop."""

    #: Names of this subject's operations begin with it; "" = every subject's.
    prefix = ""

    def __init__(self, db: Database, tenant: str, now_ms: Callable[[], int]) -> None:
        self.db, self.tenant, self._now_ms = db, tenant, now_ms

    async def entries(self, session: str) -> list[Entry]:
        """Every write of a session, oldest first."""
        with typed("journal"):
            return await self.db.read(operations.of_session, self.tenant, session)

    async def note(self, session: str, *facts: Read) -> None:
        """Keep what a session has read beside what the operations note themselves."""
        with typed("journal"):
            await self.db.write(operations.add_facts, self.tenant, session, facts)

    async def readings(self, session: str, mark: str) -> list[Read]:
        """What was noted of a session under a mark."""
        with typed("journal"):
            return [f for f in await self.db.read(operations.facts, self.tenant, session) if isinstance(f, Read) and f.mark == mark]

    async def approvals(self) -> list[Approval]:
        """All of this tenant, as they stand now."""
        with typed("approvals"):
            return [at(a, self._now_ms()) for a in await self.db.read(operations.approvals, self.tenant)]

    async def decide(self, plan_id: str, decision: Decision, *, by: str, reason: str = "") -> Approval:
        """A person's word. Executes nothing. Raises not_found, conflict."""

        def work(tx: Tx) -> Approval:
            found = operations.find_approval(tx, self.tenant, plan_id)
            if found is None:
                raise problem("not_found", f"there is no approval {plan_id!r}", operation="approvals", stage="resolve")
            decided = decide(found, decision, by=by, now_ms=self._now_ms(), reason=reason)
            operations.keep_approval(tx, self.tenant, decided)
            return decided

        with typed("approvals"):
            return await self.db.write(work)

    async def recorded(self, operation_id: str) -> Recorded:
        """One operation of this subject. Raises not_found."""
        with typed(f"{self.prefix}operation_get"):
            found = await self.db.read(operations.by_id, self.tenant, operation_id)
        if found is None or not found.entry.operation.startswith(self.prefix):
            raise no_operation(operation_id)
        return found

    async def continued(self, beside: Mapping[str, str]) -> Entry | None:
        """The operation that a call goes on with. Raises not_found."""
        return (await self.recorded(beside["continues"])).entry if "continues" in beside else None

    async def task(self, task_id: str) -> Ticket:
        """A task an operation of this subject began. Raises not_found."""
        raise problem("not_found", f"there is no task {task_id}", stage="resolve", details={"taskId": task_id})


def no_operation(operation_id: str) -> ProblemError:
    return problem("not_found", f"there is no operation {operation_id}", stage="resolve", details={"operationId": operation_id})
