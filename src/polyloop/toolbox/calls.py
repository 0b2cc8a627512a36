"""A call as a worker gets it, and the answer it gives back: plain JSON both ways, never pickled objects.

An answer is one line of JSON and, after it, the texts of its observation as they are: a long text is neither escaped nor parsed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..kernel.objects import Effect, Json, ToolSpec
from ..kernel.records import Part, canonical, text_bytes
from ..kernel.seams import Deferred, Outcome, Settled
from .context import ToolContext
from .declare import declared
from .outcomes import TYPES, raised, returned, settled
from .references import FunctionRef, find
from .schema import Signature, arguments, signature_of

Answer: TypeAlias = Outcome | Deferred | Settled


class Ask(Struct, frozen=True):
    """A question for the tool's settle function."""

    token: str | None
    fence: bool


class Call(Struct, frozen=True):
    """One call of a function in another process, or of its settle function if there is something to `ask`."""

    function: FunctionRef
    effect: Effect
    result_limit: int
    defers: bool
    key: str
    run_id: str
    call: int
    args: dict[str, Json]
    ask: Ask | None = None


def decode_answer(body: bytearray) -> Answer:
    """Raises ValueError, TypeError or KeyError for anything that is no answer."""
    at = body.index(b"\n") + 1
    head = json.loads(body[:at])
    given = msgspec.convert(head["body"], TYPES[head["type"]])
    if not isinstance(given, Outcome):
        return given
    parts: list[Part] = []
    with memoryview(body) as texts:
        for part, size in zip(given.observation, head["sizes"], strict=True):
            parts.append(replace(part, text=str(texts[at : at + size], "utf-8", "surrogatepass")))
            at += size
    return replace(given, observation=tuple(parts))


def answer(body: bytes) -> bytes:
    """Carry out an encoded Call in this process. Whatever the tool does short of ending the process is an answer."""
    call = msgspec.convert(json.loads(body), Call)
    spec = ToolSpec(call.function.qualname, "", {}, call.effect, result_limit=call.result_limit, defers=call.defers)
    return encode_answer(_executed(call, spec) if call.ask is None else _settled(call, call.ask, spec))


def encode_answer(given: Answer) -> bytes:
    texts: list[bytes] = []
    if isinstance(given, Outcome):
        texts = [text_bytes(cast(str, part.text)) for part in given.observation]
        given = replace(given, observation=tuple(replace(part, text="") for part in given.observation))
    head = {"type": type(given).__name__, "body": given, "sizes": [len(text) for text in texts]}
    return b"".join((canonical(head), b"\n", *texts))


def _executed(call: Call, spec: ToolSpec) -> Answer:
    try:
        function, signature = _found(call.function)
    except BaseException as why:  # its module may do anything when imported, but the call has not begun
        return Outcome("error", raised(why, spec).observation, code="tool_unavailable")
    try:
        return returned(function(**arguments(signature, call.args, ToolContext(call.key, call.run_id, call.call))), spec)
    except BaseException as error:  # a tool may raise anything, SystemExit and KeyboardInterrupt too
        return raised(error, spec)


def _settled(call: Call, ask: Ask, spec: ToolSpec) -> Answer:
    try:
        settle = declared(find(call.function)).settle
        return settled(settle(call.key, ask.token, ask.fence) if settle else None, spec)
    except BaseException:  # a settle that fails is one that cannot tell
        return settled(None, spec)


@lru_cache(maxsize=256)
def _found(ref: FunctionRef) -> tuple[Callable[..., Any], Signature]:
    function = find(ref)
    return function, signature_of(function)
