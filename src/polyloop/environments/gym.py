"""Gymnasium's environments (and whatever has their `reset` and `step`). The library itself is not needed here."""

from __future__ import annotations

import asyncio
from typing import Any

from ..contract.problem import problem
from ..kernel.objects import Json
from .adapter import Stepped


class Gym:
    """An environment with `reset(seed=)` and `step(action) -> (observation, reward, terminated, truncated, info)`.

    The seed makes it the same after every reset: that is what lets a resumed run be brought back to where it was.
    """

    durable = False

    def __init__(self, environment: Any, seed: int = 0) -> None:
        self._environment, self._seed = environment, seed

    async def reset(self) -> Json:
        observation, _ = await asyncio.to_thread(self._environment.reset, seed=self._seed)
        return plain(observation)

    async def step(self, action: Json) -> Stepped:
        observation, reward, terminated, truncated, _ = await asyncio.to_thread(self._environment.step, action)
        return Stepped(plain(observation), bool(terminated) or bool(truncated), float(reward))


def plain(value: Any) -> Json:
    """An observation as plain JSON data. Raises ProblemError (invalid_response) for what is none."""
    if hasattr(value, "tolist"):  # numbers and arrays of numpy
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]  # pyright: ignore[reportUnknownVariableType]  # foreign data
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # foreign data
    raise problem("invalid_response", f"an observation of type {type(value).__name__} is no plain data", operation="environment")
