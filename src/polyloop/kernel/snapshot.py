"""The parameter snapshot: made from a request, compared field by field on resume (R59-R61, S2.49)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from . import records as r
from .objects import Agent, DefinitionSnapshot, Json, Request, Segment, ToolSnapshot, ToolSpec
from .records import RunStarted, Text, canonical, sha256, text_bytes

#: Version of the kernel's own rules (what fold and decide mean); part of every snapshot.
PROTOCOL: Final = 1
#: The only fields whose change a person may accept: what the model reads about a tool, and its limits.
ACCEPTABLE: Final = ("description", "timeout_s", "result_limit")
#: Largest number in a budget: as milliseconds since the epoch it still is a time that a store can hold.
LARGEST: Final = 1 << 52
SLOTS: Final = ("", "history", "tools", "notice")
#: What of a long history the model is shown: all of it, the last k replies and what was said to them, or n characters of each observation.
OVERFLOW: Final = re.compile(r"none|window\([1-9][0-9]{0,5}\)|cap_observation\([1-9][0-9]{3,6}\)")
SECRET_WORDS: Final = ("password", "passwd", "secret", "api_key", "apikey", "access_key", "private_key", "credential", "bearer")


class BadRequest(ValueError):
    """A request that cannot start a run; `path` names the field."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path, self.message = path, message


def snapshot(request: Request, specs: Mapping[str, ToolSpec], hold: Callable[[str], Text]) -> RunStarted:
    """What the log will say about this run's settings. `hold` keeps a long text as a blob. Raises BadRequest."""
    _check(request)
    started = RunStarted(
        definition=DefinitionSnapshot(request.agent.id, request.agent.version, request.agent.protocol),
        protocol=PROTOCOL,
        budget=request.budget,
        tools=tuple(tool_snapshot(t) for t in specs.values()),
        binding=dict(request.binding),
        params=dict(request.params),
        assembly=dict(request.assembly),
        segments=tuple(_segment(s, hold) for s in request.segments),
        overflow=request.overflow,
        result_schema=request.result_schema,
        root=request.root,
        parent=request.parent,
        origin=request.origin,
        history=hold(request.history),
    )
    # Through the codec once, so that what is offered later compares equal to what is read back (0 and 0.0, tuples and lists).
    return cast(RunStarted, r.decode("run_started", canonical(started)))


def is_name(run_id: str) -> bool:
    """Whether a store can hold a run of this id: not empty, no NUL, no halves of characters."""
    return bool(run_id) and not any(c == "\0" or "\ud800" <= c <= "\udfff" for c in run_id)


def tool_snapshot(t: ToolSpec) -> ToolSnapshot:
    """The same fields; of the two that are long, their digests."""
    fields: dict[str, Any] = {name: getattr(t, name) for name in ToolSnapshot.__struct_fields__}
    fields |= {"description": sha256(text_bytes(t.description))[:32], "schema": sha256(canonical(t.schema))[:32]}
    return ToolSnapshot(**fields)


def _segment(s: Segment, hold: Callable[[str], Text]) -> r.SegmentRecord:
    parts = (r.Part(text=hold(s.text)),) if s.text else ()
    return r.SegmentRecord(s.name, s.role, sha256(text_bytes(s.text)), parts, s.slot)


def _check(request: Request) -> None:
    budget = request.budget
    for name in ("max_valid_steps", "max_iterations"):
        if getattr(budget, name) < 1:
            raise BadRequest(f"budget.{name}", "must be at least 1")
    for name in budget.__struct_fields__:
        if not 0 <= getattr(budget, name) <= LARGEST:
            raise BadRequest(f"budget.{name}", f"must be a number from 0 to {LARGEST}")
    for field in ("binding", "assembly"):
        for key, value in cast(dict[object, object], getattr(request, field)).items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise BadRequest(f"{field}.{key}", "must map strings to strings")
            if field == "binding" and any(word in key.lower() for word in SECRET_WORDS):
                raise BadRequest(f"binding.{key}", "looks like a secret; bindings are logged")
    if not is_json(request.params) or not is_json(request.result_schema):
        raise BadRequest("params", "must be plain JSON: string keys, finite numbers")
    if not OVERFLOW.fullmatch(request.overflow):
        raise BadRequest("overflow", "must be none, window(k), k = replies shown, or cap_observation(n), n = characters of each, at least 1000")
    _check_segments(request.segments)


def _check_segments(segments: Sequence[Segment]) -> None:
    slots = [s.slot for s in segments if s.slot]
    for s in segments:
        if s.slot not in SLOTS or (s.slot and s.text):
            raise BadRequest(f"segments.{s.name}", "must hold text, or one of the slots history, tools, notice")
        if slots.count(s.slot) > 1:
            raise BadRequest(f"segments.{s.slot}", "at most one segment may hold this slot")


def is_json(value: Any) -> bool:
    """True when `value` is plain JSON data: string keys, finite numbers, no other types."""
    if value is None or isinstance(value, str | bool | int):
        return True
    if isinstance(value, float):
        return value - value == 0.0
    if isinstance(value, list):
        return _are_json(cast(list[Any], value))
    if isinstance(value, dict):
        parts = cast(dict[Any, Any], value)
        return all(isinstance(k, str) for k in parts) and _are_json(parts.values())
    return False


def _are_json(values: Collection[Any]) -> bool:
    """Most lists are long and of one kind: those are seen at a glance."""
    return set(map(type, values)) <= {str, int, bool, type(None)} or all(map(is_json, values))


def request_of(run_id: str, scope: str, start: RunStarted, look: Callable[[Text], str]) -> Request:
    """The request a logged run was started with, for a resume without one."""
    definition = start.definition
    return Request(
        run_id=run_id,
        agent=Agent(definition.id, definition.version, definition.interpreter),
        budget=start.budget,
        segments=tuple(Segment(s.name, s.role, "".join(look(p.text) for p in s.parts), cast(Any, s.slot)) for s in start.segments),
        binding=start.binding,
        params=start.params,
        assembly=start.assembly,
        scope=scope,
        overflow=start.overflow,
        result_schema=start.result_schema,
        parent=start.parent,
        root=start.root,
        origin=start.origin,
        history=look(start.history),
    )


def differences(logged: RunStarted, offered: RunStarted) -> list[dict[str, Json]]:
    """Every field that differs, as `{path, logged, offered}` (null = absent), in the order of the snapshot."""
    a, b = _flat(logged), _flat(offered)
    paths = list(dict.fromkeys([*a, *b]))
    return [{"path": p, "logged": a.get(p), "offered": b.get(p)} for p in paths if _text(a, p) != _text(b, p)]


def _text(fields: dict[str, Json], path: str) -> bytes | None:
    return canonical(fields[path]) if path in fields else None


def _flat(start: RunStarted) -> dict[str, Json]:
    """Leaves by path. Tools and segments go by name, so one more tool is one difference and not a shift of all."""
    flat: dict[str, Json] = {}
    for name in start.__struct_fields__:
        value = getattr(start, name)
        if name == "tools":
            for t in start.tools:
                for field, leaf in _leaves(t):
                    flat[f"tools.{t.name}.{field}"] = leaf
        elif name == "segments":
            for i, s in enumerate(start.segments):
                flat[f"segments.{i}.{s.name}"] = cast(Json, {"role": s.role, "slot": s.slot, "sha256": s.sha256})
        elif isinstance(value, dict):
            for key, leaf in cast(dict[str, Json], value).items():
                flat[f"{name}.{key}"] = leaf
        elif isinstance(value, msgspec.Struct):
            for field, leaf in _leaves(value):
                flat[f"{name}.{field}"] = leaf
        else:
            flat[name] = cast(Json, value)
    return flat


def _leaves(struct: msgspec.Struct) -> list[tuple[str, Json]]:
    return [(f, cast(Json, getattr(struct, f))) for f in struct.__struct_fields__]


def acceptable(path: str) -> bool:
    """True when a person may accept a difference at this path (kernel.md: identity never)."""
    head, _, rest = path.partition(".")
    return head == "tools" and rest.rpartition(".")[2] in ACCEPTABLE


def accept(start: RunStarted, fields: Sequence[dict[str, Json]]) -> RunStarted:
    """The snapshot with the accepted differences taken over; later resumes compare against this. Raises ValueError, KeyError."""
    tools = {t.name: t for t in start.tools}
    for field in fields:
        path = str(field["path"])
        if not acceptable(path):
            raise ValueError(f"{path} is not for a person to accept")
        name, _, leaf = path.partition(".")[2].rpartition(".")
        tools[name] = msgspec.convert({**msgspec.structs.asdict(tools[name]), leaf: field["offered"]}, ToolSnapshot)
    return replace(start, tools=tuple(tools[t.name] for t in start.tools))
