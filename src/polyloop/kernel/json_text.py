"""The interpreter `json-text/1`: `{"reflection", "plan", "action": {"tool", "args"}}` as text. Pure; always one decision.

Theory of operation. Read: the strict parse of the whole reply; only when strict JSON refuses it, the one acting object among
what stands in the text (`json_repair`), strictly parsed again. Shape: the arguments are where they belong, under a known
other name, or flat beside the tool. Registry: the tool exists, its own schema finds nothing wrong. Nothing that a stage refuses
is run, and no repair is silent: `repairs` names each, `raw_output` is the text that was judged (None: the reply; (a, b): that
span of it; else a text of its own), whose strict parse gives reflection, plan and action{tool, args}. A reply that was cut
short, by length or by a filter, is never run, even if it parses (R20).

Seed: S2.14-S2.16, S2.21; R12-R20. Rungs, limits and the names below are part of the version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from jiter import from_json

from .json_repair import DEPTH_MAX, Piece, Refused, scan, surroundings
from .objects import Json, ToolSpec
from .records import canonical, sha256, text_bytes
from .seams import Act, Decided, Reject, Reply, Tools

TEXT_MAX_BYTES: Final = 1 << 20
#: Characters of a reply that a message may repeat, and problems of arguments it spells out.
ECHO_MAX: Final = 200
PROBLEMS_MAX: Final = 8
#: Finish reasons of the providers that mean: this is not the whole reply.
_CUTS = "length max_tokens max_output_tokens model_length incomplete content_filter safety refusal"
CUT_SHORT: Final = frozenset((*_CUTS.split(), *_CUTS.upper().split()))
#: The order in which repairs of the text are named; those of the shape follow.
LADDER: Final = ("bom", "think", "fence", "prose", "wrapper", "duplicate",
                 "comment", "fullwidth", "python_literal", "raw_control", "trailing_comma")  # fmt: skip
EXPLAINS: Final = frozenset(("reflection", "reflect", "plan"))
#: An object with one of these, but no action: where another one has an action, which was meant is not guessed.
PROTOCOL: Final = EXPLAINS | {"action", "tool", "args"}
#: What an object asks for: the tool, what stands beside its name, the repairs so far.
Call = tuple[str, dict[str, Json], tuple[str, ...]]
TOOL_ALIASES: Final = ("name", "tool_name")
ARGS_ALIASES: Final = ("arguments", "parameters", "input")
WANTED: Final = 'Send {"reflection": ..., "plan": ..., "action": {"tool": "NAME", "args": {...}}}.'


class Reading(NamedTuple):
    """A reply that could be read, and what it took."""

    value: Json
    raw_output: tuple[int, int] | str | None = None
    repairs: tuple[str, ...] = ()


class JsonText:
    """Implements `kernel.seams.Interpreter`. Raises nothing, whatever the reply says."""

    name = "json-text/1"

    def interpret(self, reply: Reply, tools: Tools) -> tuple[Decided, ...]:
        """One Act or Reject. A Reject's `subject`: canonical [tool, args] where told, else the sha256 of the reply."""
        reading = Reading(None)
        try:
            reading = _read(reply.text, reply.finish_reason)
            return (_act(reading, tools),)
        except Refused as no:
            subject = canonical([no.tool, no.told]).decode() if no.tool else sha256(text_bytes(reply.text))
            return (Reject(no.code, no.message, no.tool[:ECHO_MAX], subject, reading.raw_output, reading.repairs),)


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
        return cast(Json, json.loads(text, object_pairs_hook=_unique))
    except json.JSONDecodeError as wrong:
        code = "bad_escape" if wrong.msg.startswith("Invalid \\") else "not_json"
        raise Refused(code, f"Not JSON: {wrong.msg} near {wrong.doc[max(0, wrong.pos - 20) : wrong.pos + 20]}") from None
    except (RecursionError, ValueError):
        raise Refused("too_large", f"Nested deeper than {DEPTH_MAX}, or a number of too many digits.") from None


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise Refused("duplicate_keys", "A key stands twice in one object.")
    return value


def _bounded(value: Json) -> None:
    """Level by level: refuses a nesting that no later stage can follow and numbers that JSON cannot say again."""
    level: list[Iterable[Any]] = [[value]]
    for _ in range(DEPTH_MAX + 1):
        below: list[Iterable[Any]] = []
        for box in level:
            for item in box:
                kind = item.__class__
                if kind is dict:
                    below.append(item.values())
                elif kind is list:
                    below.append(item)
                elif kind is float and item - item != 0.0:
                    raise Refused("not_json", "Not JSON: NaN, infinite or out of range.")
        if not below:
            return
        level = below
    raise Refused("too_large", f"Nested deeper than {DEPTH_MAX}.")


def _read(text: str, finish_reason: str) -> Reading:
    if finish_reason in CUT_SHORT:
        raise Refused("truncated", "The reply was cut off. Send one complete, shorter object.")
    try:
        return Reading(strict(text))
    except Refused as no:
        if no.code not in ("not_json", "bad_escape"):
            raise
    pieces, start, repairs = scan(text)
    said = [(piece, value) for piece in pieces if isinstance(value := strict(piece.text), dict)]
    acting = [(piece, value, call) for piece, value in said if (call := _called(value)) is not None]
    if not acting:
        raise Refused("no_action", f"No action that names a tool. {WANTED}") if said else Refused("not_json", f"No JSON object. {WANTED}")
    halves = sum(not PROTOCOL.isdisjoint(value) for _, value in said) > len(acting)
    if halves or len({canonical(call[:2]) for _, _, call in acting}) > 1:
        raise Refused("multiple_actions", "More than one object of the protocol. Send exactly one.")
    piece, value, _ = next((a for a in acting if not EXPLAINS.isdisjoint(a[1])), acting[0])
    repairs |= piece.repairs | surroundings(_gaps(text, start, [p for p, _, _ in acting]))
    if len(acting) > 1:
        repairs.add("duplicate")
    if "prose" in repairs and EXPLAINS.isdisjoint(value):
        raise Refused("no_action", "An object inside other text is run only if it holds reflection or plan beside action.")
    return Reading(value, piece.text if piece.repairs else (piece.start, piece.end), tuple(name for name in LADDER if name in repairs))


def _gaps(text: str, start: int, acting: list[Piece]) -> Iterator[str]:
    """The texts before, between and after the objects. Raises Refused where an object is a member of something broken."""
    for piece in acting:
        before, after = text[start : piece.start].rstrip(), text[piece.end :].lstrip()
        named = before.endswith((":", "：")) and before[:-1].rstrip().endswith(('"', "”"))
        if named or (after.startswith((",", "，")) and after[1:].lstrip().startswith(('"', "“"))):
            raise Refused("not_json", "The object is part of a broken one. Send one complete object.")
        yield text[start : piece.start]
        start = piece.end
    yield text[start:]


def _called(said: dict[str, Json]) -> Call | None:
    """The tool an object names, None if it names none. Nothing inside `args` is promoted."""
    action = said.get("action")
    if not isinstance(action, dict):
        return None
    names = ["tool"] if "tool" in action else [alias for alias in TOOL_ALIASES if alias in action]
    tool = action[names[0]] if len(names) == 1 else None
    if not isinstance(tool, str) or not tool:
        return None
    return tool, {key: value for key, value in action.items() if key != names[0]}, () if names[0] == "tool" else ("alias",)


def _arguments(call: Call, spec: ToolSpec) -> tuple[dict[str, Json], tuple[str, ...]]:
    """The arguments and the repairs of the shape. Raises Refused args_missing, args_invalid (S2.15, S2.16)."""
    tool, rest, repairs = call
    if not rest:
        raise Refused("args_missing", "The action has no args. Give args, {} if there are none.", tool, {})
    if "args" not in rest:
        aliases = [alias for alias in ARGS_ALIASES if alias in rest and alias not in spec.parameters]
        if not aliases:
            if undeclared := rest.keys() - spec.parameters:
                raise Refused("args_invalid", f"Not declared by {tool}: {_echo(undeclared)}.", tool, rest)
            return rest, (*repairs, "flattened")
        rest, repairs = {"args" if key == aliases[0] else key: value for key, value in rest.items()}, ("alias",)
    if len(rest) > 1:
        raise Refused("args_invalid", f"Put every argument inside args, none beside it: {_echo(rest.keys() - {'args'})}.", tool, rest)
    args = rest["args"]
    if isinstance(args, str):
        args, repairs = _decoded(args), (*repairs, "args_text")
    if not isinstance(args, dict):
        raise Refused("args_invalid", "args must be a JSON object.", tool, rest["args"])
    return args, repairs


def _decoded(args: str) -> Json:
    try:
        value = strict(args)
        _bounded([[value]])  # as deep as it will stand in the object
    except Refused:
        return None
    return value


def _act(reading: Reading, tools: Tools) -> Act:
    said, raw_output, repairs = reading
    if not isinstance(said, dict):
        raise Refused("not_json", f"Not one JSON object. {WANTED}")
    call = _called(said)
    if call is None:
        raise Refused("no_action", f"No action that names a tool. {WANTED}")
    tool, rest, _ = call
    told = rest.get("args", rest) if len(rest) == 1 else rest
    spec = tools.specs.get(tool)
    if spec is None:
        raise Refused("unknown_tool", f"No tool is called {_echo([tool])}. Tools: {', '.join(tools.specs)}.", tool, told)
    if "trailing_comma" in repairs and spec.effect != "read":
        raise Refused("not_json", f"Not JSON: a trailing comma, and {tool} is no read. Send strict JSON.", tool, told)
    args, shape = _arguments(call, spec)
    if problems := tools.problems(tool, args):
        raise Refused("args_invalid", listed(problems), tool, args)
    aliased = "reflect" in said and "reflection" not in said
    if not shape and not aliased:
        return Act(tool, args, raw_output, repairs, not repairs)
    if aliased and "alias" not in shape:
        shape = ("alias", *shape)
    sources = {"reflection": "reflect" if aliased else "reflection", "plan": "plan"}
    whole: dict[str, Json] = {key: said[source] for key, source in sources.items() if source in said}
    text = json.dumps({**whole, "action": {"tool": tool, "args": args}}, ensure_ascii=False, separators=(",", ":"))
    return Act(tool, args, text, (*repairs, *shape), plain=False)


def _echo(words: Iterable[str], room: int = ECHO_MAX // 2) -> str:
    """The reply's own words, shortened in the middle."""
    text = ", ".join(sorted(words))
    return text if len(text) <= room else f"{text[: room // 2]}...{text[-(room // 2) :]}"


def listed(problems: Sequence[dict[str, Json]], what: str = "Arguments") -> str:
    """The problems, each shortened where together they might repeat too much of the reply."""
    lines = [f"{problem.get('path') or 'args'}: {problem.get('issue')}" for problem in problems[:PROBLEMS_MAX]]
    room = ECHO_MAX if sum(map(len, lines)) <= ECHO_MAX else ECHO_MAX // len(lines)
    more = f" (and {len(problems) - PROBLEMS_MAX} more)" if len(problems) > PROBLEMS_MAX else ""
    return f"{what} refused. {'; '.join(_echo([line], room) for line in lines)}{more}"
