"""`script:FILE.jsonl`: a model that says what a file says; for tests, demonstrations and replays.

The k-th reply of a run takes line k, counted from the log over resumes. Past the end: `script_exhausted`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from polyloop.contract.problem import problem
from polyloop.kernel.objects import Json
from polyloop.kernel.records import ModelResult, Text, ToolCall, Usage, canonical
from polyloop.kernel.seams import ModelCallFailed, ModelRequest, Reply

from .reading import parsed

LONGEST_DELAY_S: Final = 86400.0


class CallLine(Struct, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    name: str
    arguments: str


class ErrorLine(Struct, forbid_unknown_fields=True, omit_defaults=True):
    code: str
    sent: bool = True


class Line(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One line of a script (interface.md, Script lines)."""

    text: str = ""
    tool_calls: tuple[CallLine, ...] = ()
    error: ErrorLine | None = None
    finish_reason: str = "stop"
    usage: Usage | None = None
    reasoning: str = ""
    delay_s: Annotated[float, Meta(ge=0, le=LONGEST_DELAY_S)] = 0.0
    items: tuple[Any, ...] = ()


def parse(name: str, data: bytes) -> tuple[Line, ...]:
    """The lines of a script. Raises ProblemError(validation) naming file and line."""
    lines: list[Line] = []
    for number, raw in enumerate(data.splitlines(), 1):
        if not raw.strip():
            continue
        try:
            lines.append(msgspec.convert(parsed(raw), Line))
        except (ValueError, RecursionError) as error:
            raise problem("validation", f"{name}, line {number}: {error}", operation="script", stage="arguments") from error
    return tuple(lines)


def recorded(results: Iterable[ModelResult], look: Callable[[Text], str]) -> bytes:
    """A script that says again what a run's model said: one line a reply, and how the last call failed, if it did."""
    lines: list[Line] = []
    failed: list[Line] = []
    for result in results:
        failed = []
        if result.error is not None:
            failed = [Line(error=ErrorLine(result.error.code, result.error.sent))]
            continue
        calls = tuple(CallLine(c.id, c.name, look(c.arguments)) for c in result.tool_calls)
        lines.append(Line(look(result.text), calls, None, result.finish_reason, result.usage, look(result.reasoning), items=result.items))
    return b"".join(canonical(line) + b"\n" for line in (*lines, *failed))


class ScriptModel:
    """A `Model` over script lines."""

    def __init__(self, lines: Sequence[Line], name: str = "script") -> None:
        self._lines, self._name = lines, name

    async def call(self, request: ModelRequest) -> Reply:
        if request.reply_no > len(self._lines):
            raise ModelCallFailed("script_exhausted", sent=False, message=f"the script has {len(self._lines)} lines")
        line = self._lines[request.reply_no - 1]
        if line.delay_s:
            await asyncio.sleep(line.delay_s)
        if line.error is not None:
            raise ModelCallFailed(line.error.code, sent=line.error.sent)
        calls = tuple(ToolCall(c.id, c.name, c.arguments) for c in line.tool_calls)
        items: tuple[Json, ...] = line.items
        return Reply(line.text, line.reasoning, calls, items, line.finish_reason, line.usage, served_by=self._name)
