"""What a call's return or exception means: one Outcome, its observation capped, nothing lost unsaid. Pure.

Theory of operation. A returned value is shown as it is when it is text or plain JSON data (dataclasses, tuples, dates and
the like are written as JSON). Bytes that are not UTF-8 are kept exactly, as base64, after a marked readable view. An
exception is the tool's own word that it did not do what was asked: `error`. `unknown` is for those that cannot tell: a
commit_unknown problem, a worker that died, a value that breaks its own declaration.

A value that cannot be shown (`unserialisable`): the call itself did return. A read is nothing but its value: `error`. A
write or pay has happened: `ok`, and the observation says that its value is lost, so that nobody repeats the effect (S0.19).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec.structs import replace

from ..contract.problem import ProblemError
from ..kernel.objects import ToolSpec
from ..kernel.records import Part, text_bytes
from ..kernel.seams import Deferred, NotStarted, Outcome, Pending, Settled, Unknown
from ..kernel.snapshot import is_json
from .context import ToolFailed

#: Characters of an exception's own text that are kept.
TEXT_LIMIT: Final = 4000
#: Characters of a text that are looked at together.
_PIECE: Final = 1 << 18
BYTES_MIME: Final = "application/octet-stream;base64"
_DATA_TYPES: Final = (Outcome, Deferred, NotStarted, Pending, Unknown)
TYPES: Final[dict[str, type[Settled | Deferred]]] = {t.__name__: t for t in _DATA_TYPES}


def returned(value: object, spec: ToolSpec) -> Outcome | Deferred:
    """The outcome of a call that came back with `value`; an Outcome or Deferred of its own passes, checked and capped."""
    if type(value) is Deferred:  # by type: isinstance would ask a foreign object what it is
        return _typed(value, spec) if spec.defers else _broken(spec, "undeclared_deferral", "It waits, but is not declared to (defers).")
    if type(value) is Outcome:
        return _typed(value, spec)
    parts = _parts(value, spec.result_limit)
    if parts is not None:
        return Outcome("ok", capped(parts, spec.result_limit))
    text = f"[The call returned, but its value cannot be shown: {type(value).__name__} is not text, bytes or plain JSON data.]"
    return Outcome("error" if spec.effect == "read" else "ok", capped((Part(text=text),), spec.result_limit), code="unserialisable")


def settled(value: object, spec: ToolSpec) -> Settled:
    """What a tool's settle function said: plain data = it succeeded, None or anything unusable = Unknown."""
    if value is None or type(value) is Deferred:
        return Unknown()
    if type(value) in (NotStarted, Pending, Unknown):
        return cast(Settled, value)
    outcome = returned(value, spec)
    return Unknown() if isinstance(outcome, Deferred) or outcome.code == "unserialisable" else outcome


def raised(error: BaseException, spec: ToolSpec) -> Outcome:
    """The outcome of a call that raised: any exception, also those that usually end a program."""
    status, code = "error", "tool_raised"
    if isinstance(error, ProblemError):
        status = "unknown" if error.problem.kind == "commit_unknown" else "error"
        code, text = error.problem.kind, _problem_text(error)
    elif isinstance(error, ToolFailed):
        code, text = "tool_failed", _words(error) or "It failed."
    else:
        text = f"{type(error).__name__}: {_words(error)}".removesuffix(": ")
    return Outcome(status, capped((Part(text=text),), spec.result_limit), code=code)


def lost(spec: ToolSpec, how: str, printed: str = "") -> Outcome:
    """The worker died in the middle of the call: a write may have happened."""
    return with_printed(_broken(spec, "worker_died", f"The tool's process ended in the middle of the call ({how})."), spec, printed)


def with_printed(outcome: Outcome, spec: ToolSpec, printed: str) -> Outcome:
    """Add what the tool printed, as a part of its own."""
    if not printed:
        return outcome
    return replace(outcome, observation=capped((*outcome.observation, Part(text=f"\n[printed]\n{printed}")), spec.result_limit))


def capped(parts: Sequence[Part], limit: int) -> tuple[Part, ...]:
    """Text parts cut to `limit` UTF-8 bytes in all, at character boundaries, each cut marked with what was cut."""
    out: list[Part] = []
    for part in parts:
        text = part.text if isinstance(part.text, str) else ""
        size = sum(map(len, _pieces(text)))
        shown = _cut(part, text, size, limit) if part.type == "text" and size > limit else part
        limit -= min(size, limit)
        out.append(shown)
    return tuple(out)


def _pieces(text: str) -> Iterator[bytes]:
    """The UTF-8 bytes of a text, never all at once."""
    return (text_bytes(text[at : at + _PIECE]) for at in range(0, len(text), _PIECE))


def _cut(part: Part, text: str, size: int, limit: int) -> Part:
    data = text_bytes(text[: limit + 1])  # no character is shorter than a byte
    marker = f"\n[cut: only the beginning of {size} bytes is shown]"
    end = limit - len(marker) if limit > len(marker) else limit
    while end > 0 and data[end] & 0xC0 == 0x80:  # noqa: PLR2004  # inside a character
        end -= 1
    shown = data[:end].decode("utf-8", "surrogatepass") + (marker if limit > len(marker) else "")
    if part.full_size:  # what was cut before keeps telling of the whole
        return replace(part, text=shown)
    whole = hashlib.sha256()
    for piece in _pieces(text):
        whole.update(piece)
    return replace(part, text=shown, full_size=size, full_sha256=whole.hexdigest())


def _parts(value: object, limit: int) -> tuple[Part, ...] | None:
    try:
        if isinstance(value, bytes | bytearray | memoryview):
            return _byte_parts(bytes(cast(bytes, value)), limit)
        if isinstance(value, str):
            return (Part(text=value),)
        if not is_json(value):
            value = _listed(msgspec.to_builtins(value))
            if not is_json(value):
                return None
        return (Part(text=json.dumps(value, ensure_ascii=False, separators=(",", ":"))),)
    except Exception:
        return None  # whatever a foreign object does when it is looked at: it cannot be shown


def _listed(value: Any) -> Any:
    """Tuples are JSON arrays."""
    if isinstance(value, list | tuple):
        return [_listed(v) for v in cast("list[Any]", value)]
    return {k: _listed(v) for k, v in cast("dict[Any, Any]", value).items()} if isinstance(value, dict) else value


def _byte_parts(data: bytes, limit: int) -> tuple[Part, ...]:
    try:
        return (Part(text=data.decode()),)
    except UnicodeDecodeError:
        room = max(limit // 8, 3)  # base64 takes 4/3 of it, the readable view at most three times
        shown, whole = data[: room - room % 3], len(data)
    view = f"[{whole} bytes that are not UTF-8; a view, then the first {len(shown)} exactly, as base64]\n{shown.decode(errors='replace')}\n"
    exact = Part(text=base64.b64encode(shown).decode(), mime=BYTES_MIME)
    if len(shown) < whole:
        exact = replace(exact, full_size=whole, full_sha256=hashlib.sha256(data).hexdigest())
    return Part(text=view), exact


def _typed(value: Outcome | Deferred, spec: ToolSpec) -> Outcome | Deferred:
    """A polyloop value from a tool is checked like any foreign data."""
    try:
        value = msgspec.convert(msgspec.to_builtins(value), type(value))
        json.dumps(value.prompt if isinstance(value, Deferred) else value.result, allow_nan=False)
    except Exception as why:
        return _broken(spec, "unserialisable", f"It returned a broken {type(value).__name__}: {_words(why)}")
    if isinstance(value, Outcome) and not all(isinstance(part.text, str) for part in value.observation):
        return _broken(spec, "unserialisable", "It returned an Outcome with a text that is somewhere else.")
    return value if isinstance(value, Deferred) else replace(value, observation=capped(value.observation, spec.result_limit))


def _broken(spec: ToolSpec, code: str, text: str) -> Outcome:
    status = "error" if spec.effect == "read" else "unknown"
    more = "" if spec.effect == "read" else " What it was to change may have been changed: read it back."
    return Outcome(status, capped((Part(text=text + more),), spec.result_limit), code=code)


def _problem_text(error: ProblemError) -> str:
    try:
        return json.dumps({"error": error.problem.as_json()}, ensure_ascii=False)
    except Exception:  # its details are no plain data
        return f"{error.problem.kind}: {error.problem.message}"


def _words(error: BaseException) -> str:
    try:
        return str(error)[:TEXT_LIMIT]
    except Exception:
        return ""  # its own text is broken too; the type says what there is to say
