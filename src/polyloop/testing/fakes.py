"""Fakes that are products: seams played from a script, for the tests of PolyLoop and of those who build on it.

Each fake keeps what it was asked, in order, so that a test reads as a timeline: what was given, what was seen. None of
them knows the kernel's inner life; they stand behind the same protocols as the real thing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from polyloop.kernel.objects import Json, ToolSpec
from polyloop.kernel.records import Part
from polyloop.kernel.seams import Action, Deferred, ModelCallFailed, ModelRequest, Outcome, Reply, Settled, Unknown

#: What a model says: a text, a whole reply, a fault to raise, or a function of the request giving one of them (awaited if it must be).
Line = str | Reply | BaseException | Callable[[ModelRequest], Any]
#: What a tool does: an outcome, a fault to raise, or a function of the action giving one of them (awaited if it must be).
Deed = Outcome | Deferred | BaseException | Callable[[Action], Any]
#: What the service answers about a key.
Word = Settled | BaseException | Callable[[Action], Any]


async def _played(script: Any, given: object) -> Any:
    """A script's value: functions are called, awaitables awaited, faults raised."""
    value = script(given) if callable(script) else script
    if inspect.isawaitable(value):
        value = await value
    if isinstance(value, BaseException):
        raise value
    return value


class ScriptedModel:
    """Gives line k as the k-th reply of the run, counted over resumes; past the end fails with `script_exhausted`.

    `seen` holds the requests in order. A single function in place of the list answers every call.
    """

    def __init__(self, lines: Sequence[Line] | Callable[[ModelRequest], Any]) -> None:
        self.lines = lines
        self.seen: list[ModelRequest] = []

    async def call(self, request: ModelRequest) -> Reply:
        self.seen.append(request)
        reply = await _played(self._line(request.reply_no), request)
        return Reply(text=reply) if isinstance(reply, str) else cast(Reply, reply)

    def _line(self, number: int) -> Line:
        if callable(self.lines):
            return self.lines
        return self.lines[number - 1] if number <= len(self.lines) else ModelCallFailed("script_exhausted", sent=False)


class ScriptedActions:
    """Plays a deed per tool; tools without one answer ok with their own name.

    `done` and `asked` hold the dispatched and the settled actions in order. `words` answers `settle` per tool; without a
    word the service knows an action's outcome if it was dispatched here and cannot tell otherwise.
    """

    def __init__(self, deeds: Mapping[str, Deed] | None = None, words: Mapping[str, Word] | None = None, *, promises: bool = False) -> None:
        self.deeds = dict(deeds or {})
        self.words = dict(words or {})
        self.promises_completion = promises
        self.done: list[Action] = []
        self.asked: list[tuple[Action, str | None, bool]] = []
        self.outcomes: dict[str, Outcome] = {}

    async def execute(self, action: Action) -> Outcome | Deferred:
        self.done.append(action)
        outcome = cast(Outcome | Deferred, await _played(self.deeds.get(action.tool, said(action.tool)), action))
        if isinstance(outcome, Outcome):
            self.outcomes[action.key] = outcome
        return outcome

    async def settle(self, action: Action, token: str | None, fence: bool = False) -> Settled:  # noqa: FBT001, FBT002  # the seam's signature
        self.asked.append((action, token, fence))
        known: Settled = self.outcomes.get(action.key, Unknown())
        return cast(Settled, await _played(self.words.get(action.tool, known), action))

    def calls(self, tool: str) -> int:
        """How often a tool was dispatched."""
        return sum(1 for action in self.done if action.tool == tool)


class Toolset:
    """One run's tools. Arguments are checked for the names a schema declares and requires, and no deeper."""

    def __init__(self, *specs: ToolSpec) -> None:
        self.specs: Mapping[str, ToolSpec] = {spec.name: spec for spec in specs}

    def problems(self, tool: str, args: Json) -> Sequence[dict[str, Json]]:
        spec, given = self.specs[tool], cast(dict[str, Json], args)
        required = cast(list[str], spec.schema.get("required", []))
        missing: list[dict[str, Json]] = [{"path": name, "issue": "is missing"} for name in required if name not in given]
        closed = spec.schema.get("additionalProperties") is False
        surplus: list[dict[str, Json]] = [{"path": name, "issue": "is not declared"} for name in given if closed and name not in spec.parameters]
        return missing + surplus


def said(text: str, **more: Any) -> Outcome:
    """An action that went well and says `text`; `more` = other fields of the outcome."""
    return Outcome("ok", (Part(text=text),), **more)
