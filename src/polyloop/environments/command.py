"""A task at a command line: steps are programs run in a workspace, a checker program says when it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec

from ..contract.problem import ProblemError
from ..kernel.objects import Json
from ..workspace import Workspace
from ..workspace.exec import run_program
from .adapter import Stepped

#: What an action of such a task looks like.
ACTION: Final[dict[str, Json]] = {
    "type": "object", "required": ["argv"], "additionalProperties": False,
    "properties": {"argv": {"type": "array", "minItems": 1, "items": {"type": "string"}}},
}  # fmt: skip
#: The checker says by its exit code: done, not yet. Anything else: it cannot tell.
_OVER: Final[Mapping[int, bool]] = {0: True, 1: False}


class CommandTask:
    """Programs and checker run confined in the workspace, which keeps the state: it outlives the process."""

    durable = True

    def __init__(self, workspace: Workspace, checker: Sequence[str], timeout_s: float = 60) -> None:
        self._workspace, self._checker, self._timeout_s = workspace, list(checker), timeout_s

    async def reset(self) -> Json:
        self._workspace.hold()
        return None

    async def step(self, action: Json) -> Stepped:
        argv = cast("list[str]", cast("dict[str, Json]", action)["argv"])
        try:
            observation = cast(Json, msgspec.to_builtins(await run_program(self._workspace, argv, self._timeout_s)))
        except ProblemError as error:
            if error.problem.kind != "task_failed":
                raise
            observation = error.problem.message
        try:
            checked = await run_program(self._workspace, self._checker, self._timeout_s)
        except ProblemError as error:
            if error.problem.kind != "task_failed":
                raise
            return Stepped(observation, None)
        over = _OVER.get(checked.exit_code)
        return Stepped(observation, over, 1.0 if over else 0.0)
