"""A call as a worker gets it, and the answer it gives back: plain JSON both ways, never pickled objects."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ..kernel.objects import Effect, Json, ToolSpec
from ..kernel.records import canonical
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


def decode_answer(body: bytes) -> Answer:
    """Raises ValueError for anything that is no answer."""
    answer = json.loads(body)
    return msgspec.convert(answer["body"], TYPES[answer["type"]])


def answer(body: bytes) -> bytes:
    """Carry out an encoded Call in this process. Whatever the tool does short of ending the process is an answer."""
    call = msgspec.convert(json.loads(body), Call)
    spec = ToolSpec(call.function.qualname, "", {}, call.effect, result_limit=call.result_limit, defers=call.defers)
    given = _executed(call, spec) if call.ask is None else _settled(call, call.ask, spec)
    return canonical({"type": type(given).__name__, "body": given})


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
