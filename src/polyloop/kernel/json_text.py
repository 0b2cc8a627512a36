"""The interpreter `json-text/1`: `{"reflection", "plan", "action": {"tool", "args"}}` as text. Pure; always one decision.

Theory of operation. Read: the strict parse of the whole reply; only when strict JSON refuses it, the one acting object among
what stands in the text (`json_repair`), strictly parsed again. Shape: the arguments are where they belong, or under a known
other name, or flat beside the tool. Registry: the tool exists, its own schema finds nothing wrong. Each stage may refuse;
nothing refused is run, nothing repaired is silent: `repairs` names every rung and `raw_output` is the text that was judged.

    raw_output   None: the reply is that text · (a, b): that span of it, the rest was cut off · else a text of its own,
                 a strict parse of which gives reflection, plan and action{tool, args} under their proper names

The rungs, the limits and the names accepted below are part of the version. A reply that was cut (by length or by a filter,
`CUT_SHORT`) is never run, even if it parses: R20.

Seed: S2.14-S2.16, S2.21; R12-R20.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

from jiter import from_json

from .json_repair import DEPTH_MAX, Piece, Refused, scan, surroundings
from .objects import Json, ToolSpec
from .records import canonical, sha256, text_bytes
from .seams import Act, Decided, Reject, Reply, Tools

TEXT_MAX_BYTES: Final = 1 << 20
#: Characters of a reply that a message may repeat.
ECHO_MAX: Final = 200
#: Problems of arguments that a message spells out.
PROBLEMS_MAX: Final = 8
#: Finish reasons of the providers that mean: this is not the whole reply.
CUT_SHORT: Final = frozenset(
    spelling
    for reason in ("length", "max_tokens", "max_output_tokens", "model_length", "incomplete", "content_filter", "safety", "refusal")
    for spelling in (reason, reason.upper())
)
#: The order in which repairs of the text are named; those of the shape follow.
LADDER: Final = (
    "bom", "think", "fence", "prose", "wrapper", "duplicate",
    "comment", "fullwidth", "python_literal", "raw_control", "trailing_comma",
)  # fmt: skip
TOOL_ALIASES: Final = ("name", "tool_name")
ARGS_ALIASES: Final = ("arguments", "parameters", "input")
NO_ACTION: Final = 'No action. Send {"reflection": ..., "plan": ..., "action": {"tool": "NAME", "args": {...}}}; action.tool names the tool.'


class Reading(NamedTuple):
    """A reply that could be read, and what it took."""

    value: Json
    raw_output: tuple[int, int] | str | None = None
    repairs: tuple[str, ...] = ()


class Call(NamedTuple):
    """What an object asks for: the tool, what stands beside its name, repairs."""

    tool: str
    rest: dict[str, Json]
    repairs: tuple[str, ...] = ()


class JsonText:
    """Implements `kernel.seams.Interpreter`. Raises nothing, whatever the reply says."""

    name = "json-text/1"

    def interpret(self, reply: Reply, tools: Tools) -> tuple[Decided, ...]:
        """One Act or Reject. A Reject's `subject`: canonical [tool, args] where told, else the sha256 of the reply."""
        reading = Reading(None)
        try:
            if reply.finish_reason in CUT_SHORT:
                raise Refused("truncated", "The reply was cut off. Send one complete, shorter object.")
            reading = _read(reply.text)
            return (_act(reading, tools),)
        except Refused as no:
            subject = canonical([no.tool, no.told]).decode() if no.tool else sha256(text_bytes(reply.text))
            return (Reject(no.code, no.message, no.tool, subject, reading.raw_output, reading.repairs),)


# --- strict ------------------------------------------------------------------------------------------------------


def strict(text: str) -> Json:
    """JSON as RFC 8259 has it, without duplicate keys, numbers beyond a float, or too much of it. Raises Refused."""
    data = text_bytes(text)
    if len(data) > TEXT_MAX_BYTES:
        raise Refused("too_large", f"More than {TEXT_MAX_BYTES} bytes. Send a shorter object.")
    try:
        value = from_json(data, catch_duplicate_keys=True, allow_inf_nan=False)
    except ValueError:
        value = _second_opinion(text)
    _bounded(value)
    return value


def _second_opinion(text: str) -> Json:
    """The fast parser refuses some strict JSON (lone surrogates), and its words are its own: this one decides."""
    try:
        return cast(Json, json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number))
    except json.JSONDecodeError as wrong:
        code = "bad_escape" if wrong.msg.startswith("Invalid \\") else "not_json"
        near = wrong.doc[max(0, wrong.pos - 20) : wrong.pos + 20]
        raise Refused(code, f"Not JSON: {wrong.msg} near {near}") from None
    except RecursionError:
        raise Refused("too_large", f"Nested deeper than {DEPTH_MAX}.") from None
    except ValueError:
        raise Refused("too_large", "A number has too many digits.") from None


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise Refused("duplicate_keys", "A key stands twice in one object.")
    return value


def _no_number(word: str) -> Json:
    raise Refused("not_json", f"Not JSON: {word} is no number.")


def _bounded(value: Any) -> None:
    """Level by level: refuses a nesting that no later stage can follow and numbers that JSON cannot say again."""
    level: list[Any] = [[value]]
    for _ in range(DEPTH_MAX + 1):
        below: list[Any] = []
        for box in level:
            for item in box.values() if type(box) is dict else box:
                kind = type(item)
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is float and item - item != 0.0:
                    raise Refused("too_large", "A number is out of range.")
        if not below:
            return
        level = below
    raise Refused("too_large", f"Nested deeper than {DEPTH_MAX}.")


# --- read --------------------------------------------------------------------------------------------------------


def _read(text: str) -> Reading:
    try:
        return Reading(strict(text))
    except Refused as no:
        if no.code not in ("not_json", "bad_escape"):
            raise
    pieces, start, repairs = scan(text)
    said = [(piece, value) for piece in pieces if isinstance(value := strict(piece.text), dict)]
    acting = [(piece, value, call) for piece, value in said if (call := _called(value)) is not None]
    if not acting:
        raise Refused("no_action", NO_ACTION) if said else Refused("not_json", "No JSON object. " + NO_ACTION)
    if len({canonical(call[:2]) for _, _, call in acting}) > 1:
        raise Refused("multiple_actions", "More than one action. Send exactly one object.")
    piece, value, _ = next((a for a in acting if _explained(a[1])), acting[0])
    repairs |= surroundings(_gaps(text, start, [p for p, _, _ in acting])) | piece.repairs
    if len(acting) > 1:
        repairs.add("duplicate")
    if "prose" in repairs and not _explained(value):
        raise Refused("no_action", "An object inside other text is run only if it holds reflection or plan beside action.")
    raw_output = piece.text if piece.repairs else (piece.start, piece.end)
    return Reading(value, raw_output, tuple(name for name in LADDER if name in repairs))


def _explained(said: dict[str, Json]) -> bool:
    return not said.keys().isdisjoint(("reflection", "plan", "reflect"))


def _gaps(text: str, start: int, acting: list[Piece]) -> list[str]:
    """The texts before, between and after the objects. Raises Refused where an object is a member of something broken."""
    gaps: list[str] = []
    for piece in acting:
        gaps.append(text[start : piece.start])
        before = gaps[-1].rstrip()
        if before.endswith((":", "：")) and before[:-1].rstrip().endswith(('"', "”")):
            raise Refused("not_json", "The object is part of a broken one. Send one complete object.")
        start = piece.end
    return [*gaps, text[start:]]


# --- shape -------------------------------------------------------------------------------------------------------


def _called(said: dict[str, Json]) -> Call | None:
    """The tool an object names, None if it names none. Nothing inside `args` is promoted."""
    action = said.get("action")
    if not isinstance(action, dict):
        return None
    rest = dict(action)
    if "tool" in rest:
        tool, repairs = rest.pop("tool"), ()
    else:
        named = [alias for alias in TOOL_ALIASES if alias in rest]
        tool, repairs = rest.pop(named[0]) if len(named) == 1 else None, ("alias",)
    return Call(tool, rest, repairs) if isinstance(tool, str) and tool else None


def _arguments(call: Call, spec: ToolSpec) -> tuple[dict[str, Json], tuple[str, ...]]:
    """The arguments and the repairs of their shape. Raises Refused args_missing, args_invalid."""
    rest, repairs = call.rest, call.repairs
    if "args" not in rest:
        aliases = [alias for alias in ARGS_ALIASES if alias in rest and alias not in spec.parameters]
        if not aliases:
            return _flat(call, spec), (*repairs, "flattened")
        rest, repairs = {**rest, "args": rest[aliases[0]]}, ("alias",)
        del rest[aliases[0]]
    args = rest["args"]
    if len(rest) > 1:
        raise Refused("args_invalid", f"Put every argument inside args, nothing beside it: {_echo(rest.keys() - {'args'})}.", call.tool, call.rest)
    if isinstance(args, str):
        args, repairs = _decoded(args), (*repairs, "args_text")
    if not isinstance(args, dict):
        raise Refused("args_invalid", "args must be a JSON object.", call.tool, rest["args"])
    return args, repairs


def _decoded(args: str) -> Json:
    try:
        value = strict(args)
        _bounded([[value]])  # as deep as it will stand in the object
    except Refused:
        return None
    return value


def _flat(call: Call, spec: ToolSpec) -> dict[str, Json]:
    """Arguments beside the tool are collected only if there are any and all of them are declared (S2.15, S2.16)."""
    if not call.rest:
        raise Refused("args_missing", f"action names {call.tool} but has no args. Give args, {{}} if there are none.", call.tool, {})
    undeclared = call.rest.keys() - spec.parameters
    if undeclared:
        raise Refused("args_invalid", f"Not declared by {call.tool}: {_echo(undeclared)}.", call.tool, call.rest)
    return call.rest


# --- registry ----------------------------------------------------------------------------------------------------


def _act(reading: Reading, tools: Tools) -> Act:
    said, raw_output, repairs = reading
    if not isinstance(said, dict):
        raise Refused("not_json", "Not one JSON object. " + NO_ACTION)
    call = _called(said)
    if call is None:
        raise Refused("no_action", NO_ACTION)
    spec = tools.specs.get(call.tool)
    if spec is None:
        raise Refused("unknown_tool", f"No tool is called {_echo([call.tool])}. Tools: {', '.join(tools.specs)}.", call.tool, _told(call))
    if "trailing_comma" in repairs and spec.effect != "read":
        raise Refused("not_json", f"Not JSON: trailing comma, and {call.tool} is no read. Send strict JSON.", call.tool, _told(call))
    args, shape = _arguments(call, spec)
    if problems := tools.problems(call.tool, args):
        raise Refused("args_invalid", listed(problems), call.tool, args)
    if "reflect" in said and "reflection" not in said and "alias" not in shape:
        shape = ("alias", *shape)
    if not shape:
        return Act(call.tool, args, raw_output, repairs, not repairs)
    return Act(call.tool, args, _normal(said, call.tool, args), (*repairs, *shape), plain=False)


def _told(call: Call) -> Json:
    return call.rest["args"] if call.rest.keys() == {"args"} else call.rest


def _normal(said: dict[str, Json], tool: str, args: dict[str, Json]) -> str:
    sources = {"reflection": "reflection" if "reflection" in said else "reflect", "plan": "plan"}
    whole: dict[str, Json] = {key: said[source] for key, source in sources.items() if source in said}
    return json.dumps({**whole, "action": {"tool": tool, "args": args}}, ensure_ascii=False, separators=(",", ":"))


def _echo(words: Iterable[str]) -> str:
    """The reply's own words, shortened in the middle."""
    return _shortened(", ".join(sorted(words)), ECHO_MAX // 2)


def _shortened(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room // 2]}...{text[-(room // 2) :]}"


def listed(problems: Sequence[dict[str, Json]]) -> str:
    """The problems, each shortened where together they might repeat too much of the reply."""
    lines = [f"{problem.get('path') or 'args'}: {problem.get('issue')}" for problem in problems[:PROBLEMS_MAX]]
    room = ECHO_MAX if sum(map(len, lines)) <= ECHO_MAX else ECHO_MAX // len(lines)
    more = f" (and {len(problems) - PROBLEMS_MAX} more)" if len(problems) > PROBLEMS_MAX else ""
    return f"Arguments refused. {'; '.join(_shortened(line, room) for line in lines)}{more}"
