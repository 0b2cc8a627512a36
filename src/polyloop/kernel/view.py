"""Records for people and programs: every text in its place, derived fields filled in. Pure; used by events, `show`, `log`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from . import records as r
from .machine import State
from .objects import Json, RunResult, Waiting
from .records import BlobRef, Record, Sealed, Text

Look = Callable[[Text], str]


class Materialiser:
    """Feed records in order; each comes back as one flat object: header, fields, texts in full, derived fields filled in."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.reply: r.ModelResult | None = None

    def feed(self, s: Sealed) -> dict[str, Json]:
        head: dict[str, Json] = {"seq": s.seq, "kind": s.kind, "at": s.at, "fence": s.fence, "prev": s.prev, "hash": s.hash}
        if s.body is None:
            return {**head, "erased": True}
        record, look = r.decode(s.kind, s.body), self.look
        fields = {**fields_of(record, look), **_unknown_fields(s.body, record)}
        if isinstance(record, r.ModelResult):
            self.reply = record
        elif isinstance(record, r.ActionIntent):
            fields["args"] = _shown_args(record, self.reply, look)
        elif isinstance(record, r.Step) and self.reply is not None:
            fields |= step_fields(record, self.reply, look)
        return {**head, **fields}


def materialise(sealed: Iterable[Sealed], look: Look) -> Iterator[dict[str, Json]]:
    """One flat object per record of a whole log."""
    made = Materialiser(look)
    return (made.feed(s) for s in sealed)


def fields_of(record: Record, look: Look) -> dict[str, Json]:
    """A record's fields as plain data, all of them, blobs replaced by their texts."""
    return cast("dict[str, Json]", _full(record, look))


def _full(value: Any, look: Look) -> Any:
    """Only what the kernel wrote as a blob is looked up: a person's or a tool's data may look like anything."""
    if isinstance(value, BlobRef):
        return look(value)
    if isinstance(value, msgspec.Struct):
        return {name: _full(getattr(value, name), look) for name in value.__struct_fields__}
    if isinstance(value, tuple):
        return [_full(v, look) for v in cast("tuple[Any, ...]", value)]
    return value


def _unknown_fields(body: bytes, record: Record) -> dict[str, Json]:
    """Fields of a later minor version are kept and shown."""
    known = set(record.__struct_fields__)
    return {k: v for k, v in cast("dict[str, Json]", r.plain(body)).items() if k not in known}


def args_of(intent: r.ActionIntent, reply: r.ModelResult | None, look: Look) -> Json:
    """The arguments of an action: inline, its own text, or read back from the reply by a strict parse."""
    if intent.args is not None:
        return intent.args
    if intent.args_text:
        return cast(Json, json.loads(look(intent.args_text)))
    if reply is None:
        return None
    if reply.tool_calls:
        return cast(Json, json.loads(look(reply.tool_calls[intent.call].arguments)))
    return cast(Json, json.loads(look(reply.text))["action"]["args"])


def _shown_args(intent: r.ActionIntent, reply: r.ModelResult | None, look: Look) -> Json:
    """As `args_of`; null where the text that held them was erased or forged."""
    try:
        return args_of(intent, reply, look)
    except (ValueError, LookupError, TypeError):
        return None


def raw_output_of(step: r.Step, reply: r.ModelResult, look: Look) -> str:
    """The text that was judged: the reply, a span of it, or the repaired text (R40)."""
    raw = step.raw_output
    if raw is None:
        return look(reply.tool_calls[step.call].arguments) if step.call < len(reply.tool_calls) else look(reply.text)
    return look(reply.text)[raw[0] : raw[1]] if isinstance(raw, tuple) else look(raw)


def step_fields(step: r.Step, reply: r.ModelResult, look: Look) -> dict[str, Json]:
    """`raw_output`, `reflection`, `plan`, `action`, derived by a strict parse; null where the reply could not be read."""
    raw = raw_output_of(step, reply, look)
    fields: dict[str, Json] = {"raw_output": raw, "reflection": None, "plan": None, "action": None}
    try:
        said = json.loads(raw)
    except (ValueError, RecursionError):  # not interpretable: the rejection says so
        return fields
    if step.call < len(reply.tool_calls):
        fields["action"] = {"tool": step.tool, "args": said}
    elif isinstance(said, dict):
        said = cast("dict[str, Json]", said)
        fields |= {k: said.get(k) for k in ("reflection", "plan", "action")}
    return fields


def step_view(step: r.Step, state: State, look: Look) -> dict[str, Json]:
    """A whole step record, for its event; `state` is the one before the step is folded."""
    return {**fields_of(step, look), **step_fields(step, cast(r.ModelResult, state.reply), look)}


def result_value(ended: r.RunEnded, records: Sequence[Record], look: Look) -> Json:
    """The result an end record points at: the arguments of the completing call, or the final answer."""
    if ended.result_of is None:
        return ended.result
    record = records[ended.result_of]
    if isinstance(record, r.ActionIntent):
        reply = next((x for x in reversed(records[: ended.result_of]) if isinstance(x, r.ModelResult)), None)
        return _shown_args(record, reply, look)
    return answer_of(cast(r.RunStarted, records[0]), look(record.text)) if isinstance(record, r.ModelResult) else None


def answer_of(start: r.RunStarted, text: str) -> Json:
    """A final answer: its text, or the value it says where the run asked for one (result_schema)."""
    if start.result_schema is None:
        return text
    try:
        return cast(Json, json.loads(text))
    except ValueError:  # erased
        return text


def run_result(state: State, run_id: str, scope: str, head_hash: str, live: str, result: Json) -> RunResult:
    """What became of a run. `live` = the state to report when it has neither ended nor waits (running, interrupted)."""
    ended, call = state.ended, state.waiting
    plain = RunResult(run_id, scope, cast(Any, live), state.counters, last_seq=state.seq - 1, head_hash=head_hash)
    if ended is not None:
        return replace(
            plain, state="ended", reason=ended.reason, detail=ended.detail, completed_by=ended.completed_by, result=result, error=ended.error
        )
    if call is not None and call.deferred is not None:
        waiting = Waiting(call.deferred.awaited, call.deferred.token, call.deferred.until)
        return replace(plain, state="waiting", waiting=waiting)
    return plain
