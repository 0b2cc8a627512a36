"""Runs over environments: the environment ends them, and a resumed run finds it where it was."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from polyloop.app.api import open_store, run
from polyloop.contract.problem import ProblemError
from polyloop.environments import CommandTask, EnvironmentActions, Gym, Stepped, executed, step_tool
from polyloop.environments.command import ACTION
from polyloop.kernel.objects import Agent, Budget, Json, Request
from polyloop.kernel.seams import ModelRequest, Reply
from polyloop.kernel.view import materialise
from polyloop.toolbox.registry import Registry
from polyloop.workspace import Workspace

INTEGER: dict[str, Json] = {"type": "integer"}


class Player:
    """A model that plays these actions, one a reply."""

    def __init__(self, *actions: Json) -> None:
        self.actions = actions

    async def call(self, request: ModelRequest) -> Reply:
        action = self.actions[(request.reply_no - 1) % len(self.actions)]
        return Reply(json.dumps({"action": {"tool": "step", "args": {"action": action}}}))


class Fixed:
    """An environment that always says the same of whether it is over."""

    durable = False

    def __init__(self, over: bool | None) -> None:
        self.over = over

    async def reset(self) -> Json:
        return None

    async def step(self, action: Json) -> Stepped:
        return Stepped("x", self.over)


def play(folder: Path, environment: Any, *actions: Json, schema: dict[str, Json] = INTEGER, steps: int = 20) -> Any:
    """Play a run to its end, or further if it has begun; its result and what it did."""

    async def work() -> Any:
        async with open_store(folder / "runs.db") as store:
            environment.store = store
            try:
                done = executed(materialise((found := await store.read("r")).sealed, found.look))
            except ProblemError:
                done = []
            tools = Registry([step_tool(schema, "act", durable=environment.durable)])
            request = Request("r", Agent("player"), Budget(steps, 2 * steps))
            result = await run(request, store=store, model=Player(*actions), tools=tools, actions=EnvironmentActions(environment, done))
            found = await store.read("r")
            return result, executed(materialise(found.sealed, found.look))

    return asyncio.run(work())


@pytest.mark.parametrize(("over", "reason"), [(False, "budget_exhausted"), (True, "completed"), (None, "environment_fault")])
def test_S2_3_S2_8_S2_38_the_environments_own_word(tmp_path: Path, over: bool | None, reason: str) -> None:
    result, _ = play(tmp_path, Fixed(over), 1, steps=3)
    assert (result.reason, result.counters.valid_steps) == (reason, 3 if over is False else 1)
    assert result.completed_by in ("", "environment")


#: name -> (options, a way to its end)
GAMES = {
    "FrozenLake-v1": ({"is_slippery": False}, [1, 1, 2, 1, 2, 2]),
    "CliffWalking-v1": ({}, [0, *[1] * 11, 2]),
    "Blackjack-v1": ({}, [0]),
}


@pytest.mark.parametrize("name", GAMES)
def test_toy_text_games_end_their_runs(tmp_path: Path, name: str) -> None:
    options, way = GAMES[name]
    result, done = play(tmp_path, Gym(gymnasium.make(name, **options)), *way)
    assert (result.reason, done) == ("completed", way)
    if name == "FrozenLake-v1":
        assert result.counters.valid_steps == 6


def test_a_game_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    """Another process brings its environment back from the log."""
    options, way = GAMES["FrozenLake-v1"]

    class Stops(Gym):
        """Its process is told to stop in the middle of the fourth step."""

        steps, store = 0, None

        async def step(self, action: Json) -> Stepped:
            self.steps += 1
            if self.steps > 3:
                self.store.suspend()
                await asyncio.sleep(30)
            return await super().step(action)

    result, done = play(tmp_path, Stops(gymnasium.make("FrozenLake-v1", **options)), *way)
    assert (result.state, done) == ("interrupted", way[:3])
    result, done = play(tmp_path, Gym(gymnasium.make("FrozenLake-v1", **options)), *way)
    assert (result.reason, done) == ("completed", way)


@pytest.mark.needs("confinement")
def test_a_command_line_task_is_done_when_its_checker_says_so(tmp_path: Path) -> None:
    task = CommandTask(Workspace(tmp_path / "ws"), ["sh", "-c", 'test "$(cat out.txt 2>/dev/null)" = 42'])
    actions = [{"argv": ["sh", "-c", f"echo {n} > out.txt"]} for n in (41, 42, 43)]
    result, done = play(tmp_path, task, *actions, schema=ACTION)
    assert (result.reason, done) == ("completed", actions[:2])
    assert (tmp_path / "ws/out.txt").read_text() == "42\n"


@pytest.mark.needs("confinement")
def test_a_checker_that_cannot_tell_is_a_fault_of_the_environment(tmp_path: Path) -> None:
    result, _ = play(tmp_path, CommandTask(Workspace(tmp_path / "ws"), ["no-such-program"]), {"argv": ["true"]}, schema=ACTION)
    assert result.reason == "environment_fault"
