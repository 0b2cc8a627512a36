"""The tool by which an agent says that it is done. It changes nothing outside: the log holds its arguments (S2.18).

Where a run has evidence, a submission that names nothing of what is still open, or cites what does not exist or does not
support it, is answered with an error, and the run goes on (S0.24, S0.32).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from ..contract.evidence import Evidence, cited
from ..contract.problem import as_wire
from ..kernel.objects import Json, ToolSpec
from ..kernel.records import Part
from ..kernel.seams import Action, Outcome

_REFS: Final[dict[str, Json]] = {"type": "array", "items": {"type": "string"}}
_CLAIM: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "evidence": {**_REFS, "description": "references of receipts, lists or log records that support the claim"},
        "scope": {"enum": ["all", "covered"], "description": "all = the claim is about everything there is"},
        "unverified": {"type": "boolean", "description": "true = nothing supports it; it will be shown as unverified"},
    },
    "required": ["text", "evidence"],
    "additionalProperties": False,
}
SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "summary": {"type": "string", "description": "what was done, in a few sentences"},
        "result": {"description": "the result itself, any JSON"},
        "claims": {"type": "array", "items": _CLAIM},
        "unsettled": {**_REFS, "description": "references of operations whose outcome is still open"},
    },
    "required": ["summary"],
    "additionalProperties": False,
}


class Submit(Struct, frozen=True):
    """`submit{summary, result?, claims?, unsettled?}`: completes the run. A handler for a registry."""

    spec: ToolSpec = ToolSpec("submit", "Say that the task is done. The run ends.", SCHEMA, "write", "rerun", "async", completes=True)
    settle: Callable[..., Any] | None = None
    #: It has no effect outside the log.
    idempotent: bool = True
    #: The evidence of a run, by tenant, run id and what the submission cites.
    evidence: Callable[[str, str, Sequence[str]], Awaitable[Evidence]] | None = None

    async def run(self, action: Action) -> Outcome:
        if self.evidence is None:
            return Outcome("ok", (Part(text="Submitted."),))
        known = await self.evidence(action.scope, action.run_id, cited(action.args))
        if against := known.check(action.run_id, action.args):
            told = {"error": {"kind": "validation", "message": "the submission cannot stand", "details": {"refusals": [as_wire(r) for r in against]}}}
            return Outcome("error", (Part(text=json.dumps(told, ensure_ascii=False)),), code="unsupported")
        return Outcome("ok", (Part(text="Submitted."),))
