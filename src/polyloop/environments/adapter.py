"""An environment as the executor of a run: its own word ends the run, no submit tool is needed.

Theory of operation. `reset` happens before the first action of a process. An environment whose state dies with the process is
brought back by doing again what the log says was done, in order; one that keeps its state itself (`durable`) is not. A step that
was cut off is unknown to a durable environment and simply not done to any other, whose state before it is the one rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

from msgspec import Struct

from ..kernel.objects import Json, ToolSpec
from ..kernel.records import Part, canonical
from ..kernel.seams import Action, NotStarted, Outcome, Settled, Unknown

STEP: Final = "step"


class Stepped(Struct, frozen=True):
    """What a step led to. `over`: the question is decided; None = the environment cannot tell, which is a fault of it."""

    observation: Json
    over: bool | None = False
    reward: float = 0.0


class Environment(Protocol):
    """Something that can be begun anew and acted on. `durable`: its state outlives the process."""

    @property
    def durable(self) -> bool: ...
    async def reset(self) -> Json: ...
    async def step(self, action: Json) -> Stepped: ...


class StepTool(Struct, frozen=True):
    """The one tool of a run over an environment. The executor carries it out, not the registry."""

    spec: ToolSpec
    settle: Callable[..., Any] | None = None
    idempotent: bool = False

    async def run(self, action: Action) -> Outcome:
        raise AssertionError("a step is carried out by EnvironmentActions")


def step_tool(schema: dict[str, Json], about: str, *, durable: bool) -> StepTool:
    """A handler for a registry: `step{action}`, where `action` satisfies `schema`."""
    arguments: dict[str, Json] = {"type": "object", "properties": {"action": schema}, "required": ["action"], "additionalProperties": False}

    async def asked(action: Action, token: str | None, fence: bool) -> Settled:  # noqa: FBT001  # the seam's signature
        return Unknown() if durable else NotStarted()

    return StepTool(ToolSpec(STEP, about, arguments, "write", "report_unknown" if durable else "probe", "async"), None if durable else asked)


class EnvironmentActions:
    """Implements `kernel.seams.Actions` over an environment. `done`: actions of this run before this process (see `executed`)."""

    promises_completion = True

    def __init__(self, environment: Environment, done: Sequence[Json] = ()) -> None:
        self._environment, self._done = environment, tuple(done)
        self._began = False

    async def execute(self, action: Action) -> Outcome:
        """One step. What the environment raises is a fault of it (environment_fault), told by the kernel."""
        if not self._began:
            await self._begin()
        stepped = await self._environment.step(action.args["action"])
        told: Json = {"observation": stepped.observation, "reward": stepped.reward, "over": stepped.over}
        completion = "UNAVAILABLE" if stepped.over is None else "DONE" if stepped.over else "NOT_DONE"
        return Outcome("ok", (Part(text=canonical(told).decode()),), completion, result={"reward": stepped.reward} if stepped.over else None)

    async def settle(self, action: Action, token: str | None, fence: bool = False) -> Settled:  # noqa: FBT001, FBT002  # the seam's signature
        return Unknown() if self._environment.durable else NotStarted()

    async def _begin(self) -> None:
        if not self._environment.durable or not self._done:
            await self._environment.reset()
        if not self._environment.durable:
            for action in self._done:
                await self._environment.step(action)
        self._began = True


def executed(records: Iterable[Mapping[str, Json]]) -> list[Json]:
    """The actions that a run has done, in order, from its materialised records."""
    found: list[Json] = []
    for record in records:
        action = record.get("action")
        if record.get("kind") == "step" and record.get("outcome") == "ok" and isinstance(action, dict):
            found.append(cast("dict[str, Json]", action["args"])["action"])
    return found
