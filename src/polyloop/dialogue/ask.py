"""The tool `ask_user`: a question that waits, durably, until a person answers it; or the reason why nobody is asked.

Its answer settles creative decisions only. It stands in for no check: what was refused, needs approval or was built on an old
state is not put to a person, but answered with what to do instead (S1.11, S1.12, S1.23).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from msgspec import Struct

from ..contract.problem import FieldProblem, Problem, as_wire, bad_arguments
from ..kernel.objects import ToolSpec
from ..kernel.records import Part
from ..kernel.seams import Action, Deferred, NotStarted, Outcome
from .questions import SHAPE, Told, plan, prompt, read, told
from .thread import ASK_USER, Thread

#: After these problems of another tool a question changes nothing; this does.
INSTEAD: Final[dict[str, str]] = {
    "confirmation_required": "the call waits for a person's approval: go on with what does not depend on it, or stop and say so",
    "permission_denied": "it is not allowed: say what cannot be done, and go on with what can",
    "budget_exceeded": "the budget does not cover it: say so, and go on with what it covers",
    "capability_unavailable": "this is not available here: use what is, or say what is missing",
    "revision_conflict": "the state has moved on: read it again, then decide anew",
    "validation": "correct the fields that the error names",
}
_SPEC: Final = ToolSpec(
    ASK_USER, "Ask the person one thing that changes the work and that nothing read so far answers: 2-4 options, or one form of 3-6 fields.",
    SHAPE.raw, "read", "probe", "async", defers=True,
)  # fmt: skip


class AskUser(Struct, frozen=True):
    """A handler for a registry. `thread(scope, run)` = what the logs say; `canvas` = the run works on one, which is read before asking."""

    thread: Callable[[str, str], Awaitable[Thread]] | None = None
    canvas: bool = True
    spec: ToolSpec = _SPEC
    idempotent: bool = True

    async def run(self, action: Action) -> Outcome | Deferred:
        question = read(action.args)
        if isinstance(question, list):
            return _refused(bad_arguments(question).problem, "not_executed", "args_invalid")
        if self.thread is None:
            return _refused(Problem("capability_unavailable", "there is nobody to ask here", operation=ASK_USER), "error", "capability_unavailable")
        thread = await self.thread(action.scope, action.run_id)
        if self.canvas and not thread.read:
            return _refused(bad_arguments([FieldProblem("", "read_first", "read the canvas first")]).problem, "not_executed", "args_invalid")
        if thread.failed in INSTEAD:
            details = {"field": "", "issue": "not_a_question", "after": thread.failed}
            refused = Problem("conflict", INSTEAD[thread.failed], operation=ASK_USER, stage="precondition", details=details)
            return _refused(refused, "error", "not_a_question")
        planned = plan(question, thread.asked)
        if isinstance(planned, Told):
            return Outcome("ok", (_part(told(planned, len(thread.asked))),))
        token = f"ask_{action.key[:24]}"
        return Deferred(token, "answer", prompt=prompt(planned, token))

    async def settle(self, action: Action, token: str | None, fence: bool) -> NotStarted:  # noqa: FBT001  # the seam's signature
        """A question that is not in the log was never put to anybody."""
        return NotStarted()


def _refused(why: Problem, status: Any, code: str) -> Outcome:
    return Outcome(status, (_part({"error": as_wire(why)}),), code=code)


def _part(wire: dict[str, Any]) -> Part:
    return Part(text=json.dumps(wire, ensure_ascii=False))
