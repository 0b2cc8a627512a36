"""The interpreter `native-tools/1`: a provider's own tool calls, one decision each, in the order of the reply. Pure.

Arguments are strict JSON and nothing else: what cannot be read is refused, never taken for `{}` (S2.50). A reply with one call id
twice is refused whole: its results could not be paired. Text without calls is the final answer, unless a tool of the run completes it;
where the run asks for a result of some schema, that text must be JSON that fits, or the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from .json_repair import Refused
from .json_text import CUT_SHORT, listed, strict
from .objects import Json
from .records import ToolCall, canonical, sha256, text_bytes
from .seams import Act, Decided, Finish, Reject, Reply, Tools

NO_CALL: Final = "No tool call. Call one of the tools."
CUT: Final = "The reply was cut off. Send complete, shorter calls."
TWICE: Final = "Two calls have the same id. Give every call an id of its own."


class NativeTools:
    """Implements `kernel.seams.Interpreter`. Raises nothing, whatever the reply says."""

    name = "native-tools/1"

    def __init__(self, problems: Callable[[Json], Sequence[dict[str, Json]]] | None = None) -> None:
        """`problems` = all that is wrong with a final answer, each `{path, issue}`; None = any text will do."""
        self._problems = problems

    def interpret(self, reply: Reply, tools: Tools) -> tuple[Decided, ...]:
        """One Act or Reject per call; without calls one Finish or Reject."""
        ids = [call.id for call in reply.tool_calls]
        if reply.finish_reason in CUT_SHORT:
            return _all(reply, Refused("truncated", CUT))
        if len(set(ids)) < len(ids):
            return _all(reply, Refused("multiple_actions", TWICE))
        if reply.tool_calls:
            return tuple(_decided(call, tools) for call in reply.tool_calls)
        completing = any(spec.completes for spec in tools.specs.values())
        if completing or not reply.text.strip():
            return _all(reply, Refused("no_action", NO_CALL))
        wrong = self._refused(reply.text)
        return (Finish(reply.text),) if wrong is None else _all(reply, wrong)

    def _refused(self, answer: str) -> Refused | None:
        if self._problems is None:
            return None
        try:
            problems = self._problems(strict(answer))
        except Refused as no:
            return Refused("args_invalid", f"The final answer must be one JSON value and nothing else. {no.message}")
        return Refused("args_invalid", listed(problems, "Final answer")) if problems else None


def _all(reply: Reply, no: Refused) -> tuple[Decided, ...]:
    """The same refusal for every call of the reply, or for the reply itself."""
    if not reply.tool_calls:
        return (Reject(no.code, no.message, "", sha256(text_bytes(reply.text))),)
    return tuple(Reject(no.code, no.message, call.name, cast(str, call.arguments)) for call in reply.tool_calls)


def _decided(call: ToolCall, tools: Tools) -> Decided:
    try:
        return _act(call, tools)
    except Refused as no:
        return Reject(no.code, no.message, call.name, canonical([call.name, no.told if no.told is not None else call.arguments]).decode())


def _act(call: ToolCall, tools: Tools) -> Act:
    text = cast(str, call.arguments)
    if call.name not in tools.specs:
        raise Refused("unknown_tool", f"There is no such tool. Tools: {', '.join(tools.specs)}.")
    if not text.strip():
        raise Refused("args_missing", f"The call of {call.name} has no arguments. Give {{}} if there are none.")
    try:
        args = strict(text)
    except Refused as no:
        code = "truncated" if no.code == "not_json" and _open(text) else no.code
        raise Refused(code, CUT if code == "truncated" else no.message) from None
    if not isinstance(args, dict):
        raise Refused("args_invalid", "Arguments must be a JSON object.", told=args)
    if problems := tools.problems(call.name, cast(Json, args)):
        raise Refused("args_invalid", listed(problems), told=args)
    return Act(call.name, args)


def _open(text: str) -> bool:
    """True when the text ends inside a string, an object or a list: it was cut."""
    depth, inside, escaped = 0, False, False
    for c in text:
        if inside:
            inside, escaped = (escaped or c != '"'), (c == "\\" and not escaped)
        elif c == '"':
            inside = True
        elif c in "{[":
            depth += 1
        elif c in "}]":
            depth -= 1
    return inside or depth > 0
