"""An answer that comes in pieces, for people to watch. What counts is the whole: it is put together from the same bytes, once they are all there.

A stream that broke off is no answer, however much of it was seen.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

from msgspec import Struct

from polyloop.contract.problem import is_object

from .faults import SourceError, invalid
from .reading import parsed

_log: Final = logging.getLogger("polyloop.gateway")
#: Fields of a piece's message that are told in parts.
_TOLD: Final = ("content", "reasoning_content", "reasoning", "refusal")
DONE: Final = b"[DONE]"


class Piece(Struct, frozen=True):
    """Text of a reply under way. `first` of an attempt: what was shown of this call before is void."""

    call_id: str
    source: str
    text: str
    first: bool


Display = Callable[[Piece], None]


class Tap:
    """Shows the text in the bytes that pass. A display that fails is told of and left alone: it costs no call."""

    def __init__(self, display: Display, call_id: str, source: str) -> None:
        self._display: Display | None = display
        self._call_id, self._source, self._first = call_id, source, True
        self._rest = b""

    def __call__(self, data: bytes) -> None:
        if self._display is None:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            text = "".join(_text(delta) for event in events(lines) for delta in _deltas(event))
        except SourceError:  # the whole is refused once it is there, and this attempt's text is void
            self._display = None
            return
        if text:
            try:
                self._display(Piece(self._call_id, self._source, text, self._first))
                self._first = False
            except Exception as error:
                self._display = None
                _log.warning("a display failed and shows no more of this call: %s: %s", type(error).__name__, error)


def events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a stream's data lines. Raises SourceError(invalid_response) for a line that is damaged: a piece of the reply is lost."""
    for line in lines:
        name, _, data = line.strip().partition(b":")
        if name == b"data" and data.strip() not in (b"", DONE):
            try:
                value = parsed(data)
            except (ValueError, RecursionError) as error:
                raise invalid(f"a piece of the stream is no JSON: {error}"[:500]) from error
            if is_object(value):
                yield value


def _choices(event: dict[str, Any]) -> list[dict[str, Any]]:
    listed = event.get("choices")
    return [c for c in cast("list[Any]", listed) if is_object(c) and c.get("index", 0) == 0] if isinstance(listed, list) else []


def _deltas(event: dict[str, Any]) -> list[dict[str, Any]]:
    return [delta for c in _choices(event) if is_object(delta := c.get("delta"))]


def _text(delta: dict[str, Any]) -> str:
    return text if isinstance(text := delta.get("content"), str) else ""


def folded(body: bytes) -> dict[str, Any]:
    """The completion that a whole stream tells of. Raises SourceError(invalid_response) for one that broke off or is damaged."""
    told: dict[str, list[str]] = {name: [] for name in _TOLD}
    calls: dict[int, dict[str, Any]] = {}
    finish: object = None
    usage: object = None
    lines = body.split(b"\n")
    for event in events(lines):
        if event.get("error"):
            return event
        usage = event.get("usage") or usage
        finish = next((c["finish_reason"] for c in _choices(event) if c.get("finish_reason")), finish)
        for delta in _deltas(event):
            for name in _TOLD:
                if isinstance(text := delta.get(name), str):
                    told[name].append(text)
            _add_calls(calls, delta.get("tool_calls"))
    if finish is None and not any(line.strip().removeprefix(b"data:").strip() == DONE for line in lines):
        raise invalid("the stream broke off")
    message = {**{name: "".join(parts) for name, parts in told.items() if parts}, "tool_calls": [calls[n] for n in sorted(calls)]}
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": usage}


def _add_calls(calls: dict[int, dict[str, Any]], deltas: object) -> None:
    """A call is told in parts by its index: its id and name once, its arguments piece by piece."""
    for delta in cast("list[Any]", deltas) if isinstance(deltas, list) else []:
        function = delta.get("function") if is_object(delta) else None
        if not is_object(delta) or not isinstance(number := delta.get("index", 0), int):
            raise invalid("a piece of a tool call that is none")
        call = calls.setdefault(number, {"id": None, "function": {"name": None, "arguments": ""}})
        call["id"] = delta.get("id") or call["id"]
        if is_object(function):
            call["function"]["name"] = function.get("name") or call["function"]["name"]
            call["function"]["arguments"] += part if isinstance(part := function.get("arguments"), str) else ""
