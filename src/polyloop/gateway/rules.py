"""`rules:NAME`: a model that is a program, a pure function from messages to a reply in json-text/1. No network, no cost.

Its programs belong to the consumers above; whoever puts an application together hands them in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from polyloop.kernel.seams import Message, ModelCallFailed, ModelRequest, Reply

Program = Callable[[Sequence[Message]], str]


class RulesModel:
    """A `Model` over a program. What the program cannot answer is a failed call, as with any model."""

    def __init__(self, name: str, program: Program) -> None:
        self._name, self._program = name, program

    async def call(self, request: ModelRequest) -> Reply:
        try:
            text = await asyncio.to_thread(self._program, request.messages)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise ModelCallFailed("rules_failed", message=f"{type(error).__name__}: {error}") from error
        return Reply(text, served_by=self._name)
