"""Permission modes in front of an executor (S1.48-S1.50): read_only refuses, request_approval waits, auto passes.

An approval stands for one exact action: its token is made from the action's key, its prompt shows tool and arguments, and the
resolution that lets it pass is durable in the run's log before the effect is dispatched.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

from polyloop.kernel.objects import Json, ToolSpec
from polyloop.kernel.seams import Action, Actions, Deferred, Outcome, Settled

Mode = Literal["read_only", "request_approval", "auto"]
MODES: Final[tuple[Mode, ...]] = ("read_only", "request_approval", "auto")


class Permitted:
    """Actions under a permission mode. Reads pass in every mode, and so do the `saying`: tools known to do no more than say that the run

    is done. That a tool completes the run is no such knowledge: what else it does is no less of a write.
    """

    def __init__(self, inner: Actions, specs: Mapping[str, ToolSpec], mode: Mode, saying: Collection[str] = ()) -> None:
        self._inner, self._specs, self._mode = inner, specs, mode
        self._saying = frozenset(saying)
        self.promises_completion = inner.promises_completion

    async def execute(self, action: Action) -> Outcome | Deferred:
        spec = self._specs[action.tool]
        if self._mode == "auto" or spec.effect == "read" or action.tool in self._saying or action.approved:
            return await self._inner.execute(action)
        if self._mode == "read_only":
            return Outcome("not_executed", code="denied")
        prompt: Json = {"tool": action.tool, "args": action.args, "effect": spec.effect}
        return Deferred(f"ap_{action.key}", "approval", prompt=prompt)

    async def settle(self, action: Action, token: str | None, fence: bool = False) -> Settled:  # noqa: FBT001, FBT002  # the seam's signature
        return await self._inner.settle(action, token, fence)
