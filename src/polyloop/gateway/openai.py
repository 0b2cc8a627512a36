"""`openai:MODEL@URL`: chat completions of any server that speaks that format. Messages to body, answer to Reply; no state.

A reply is taken as it came: arguments stay the provider's own text (nothing where it sent nothing, never `{}`), a call without an
id gets one so that its result can be paired, unknown fields are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast
from urllib.parse import urlsplit

from polyloop.contract.problem import is_object, problem
from polyloop.kernel.objects import Json, ToolSpec
from polyloop.kernel.records import Part, ToolCall, Usage, canonical
from polyloop.kernel.seams import Message, ModelRequest, Reply

from .faults import Fault, SourceError, invalid, of_status, refused
from .reading import parsed
from .settings import MOST_TOKENS, SourceSettings
from .stream import Tap, folded
from .wire import Answer, Wire, classify

_NAME: Final = re.compile(r"(?P<model>.+?)@(?P<url>https?://.+)", re.DOTALL)
#: Fields of the body that parameters may not replace.
OWN: Final = frozenset({"model", "messages", "tools", "stream", "stream_options", "n"})
RETRY_AFTER_CAP_S: Final = 600.0


class OpenAI:
    """A source. `name` is the whole name in a request."""

    metered, cacheable = True, True

    def __init__(self, name: str, settings: SourceSettings, key_for: Callable[[str], str]) -> None:
        """Raises ProblemError(validation) for a name that is not MODEL@URL, or a URL with a secret, query or fragment in it."""
        found = _NAME.fullmatch(name.partition(":")[2])
        if found is None:
            raise unusable(name, "it is written openai:MODEL@URL")
        self.name, self._settings, self._model = name, settings, found["model"]
        self._url = base_url(name, found["url"], "/chat/completions")
        self._key = key_for(self._url)

    def classify(self, error: Exception) -> Fault | None:
        return classify(error)

    async def ask(self, request: ModelRequest, wire: Wire) -> Reply:
        seen = Tap(wire.display, request.call_id, self.name) if wire.display and self._settings.stream else None
        body = encoded(self._model, request, self._settings, streamed=seen is not None)
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        return decoded(await wire.post(self._url, headers, body, seen), self.name)


def unusable(name: str, why: str) -> Exception:
    return problem("validation", f"model {name!r}: {why}", operation="run", stage="arguments")


def base_url(name: str, url: str, verb: str) -> str:
    """The URL calls go to: the verb under the base, which is `/v1` where the name gives none. Raises ProblemError(validation)."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise unusable(name, str(error)) from error
    if not parts.hostname or parts.username or parts.password or parts.query or parts.fragment:
        raise unusable(name, "its URL has a host and a path, and no user, query or fragment")
    path = parts.path.rstrip("/") or "/v1"
    return f"{parts.scheme}://{parts.netloc}{path if path.endswith(verb) else path + verb}"


# --- what is sent ------------------------------------------------------------------------------------------------


def encoded(model: str, request: ModelRequest, settings: SourceSettings, *, streamed: bool = False) -> bytes:
    """The body. Raises SourceError for what this model cannot be given; nothing was sent."""
    if taken := OWN & request.params.keys():
        raise refused("bad_request", f"model_params may not set {', '.join(sorted(taken))}")
    if request.tools is not None and not settings.tools:
        raise refused("capability_unavailable", "this model takes no tools; use protocol json-text/1")
    body: dict[str, Any] = {**request.params, "model": model, "messages": [_message(m, vision=settings.vision) for m in request.messages]}
    if request.tools:
        body["tools"] = [_tool(t) for t in request.tools]
    if streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return canonical(body)


def _tool(spec: ToolSpec) -> Json:
    return {"type": "function", "function": {"name": spec.name, "description": spec.description, "parameters": spec.schema}}


def _message(m: Message, *, vision: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"role": m.role, "content": _content(m.parts, vision=vision)}
    if m.tool_calls:
        told["content"] = told["content"] or None
        told["tool_calls"] = [{"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in m.tool_calls]
    if m.call_id:
        told["tool_call_id"] = m.call_id
    return told


def _content(parts: Sequence[Part], *, vision: bool) -> Any:
    if all(p.type == "text" for p in parts):
        return "".join(cast(str, p.text) for p in parts)
    return [_piece(p, vision=vision) for p in parts]


def _piece(part: Part, *, vision: bool) -> dict[str, Any]:
    """An image is sent where its text is a data URL: a stored blob is for its owner to read."""
    if part.type == "text":
        return {"type": "text", "text": part.text}
    if not vision:
        raise refused("capability_unavailable", "this model is not declared to see images (vision = true in gateway.toml)")
    if part.type != "image" or not isinstance(part.text, str) or not part.text.startswith("data:image/"):
        raise refused("capability_unavailable", f"a part of type {part.type} cannot be sent to this model")
    return {"type": "image_url", "image_url": {"url": part.text}}


# --- what comes back ---------------------------------------------------------------------------------------------


def decoded(answer: Answer, name: str) -> Reply:
    """The reply. Raises SourceError: an error status, or an answer that is none."""
    body = opened(answer)
    choices = body.get("choices")
    choice = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if is_object(choice) else None
    if not is_object(choice) or not is_object(message):
        raise invalid("the answer has no choice with a message")
    text = joined(message.get("content"))
    said_no = message.get("refusal")
    finish = choice.get("finish_reason")
    if not text and isinstance(said_no, str) and said_no:
        text, finish = said_no, "refusal"
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    calls = _calls(message)
    return Reply(
        text, reasoning if isinstance(reasoning, str) else "", calls, (), finish if isinstance(finish, str) else "unknown",
        usage_of(body.get("usage"), "prompt_tokens", "completion_tokens"), served_by=name,
    )  # fmt: skip


def opened(answer: Answer) -> dict[str, Any]:
    """The JSON object of a good answer. Raises SourceError."""
    good, streamed = answer.status == 200, answer.headers.get("content-type", "").startswith("text/event-stream")  # noqa: PLR2004
    value = folded(answer.body) if good and streamed else _parsed(answer.body)
    if not good:
        raise _error(answer, value)
    if not is_object(value):
        kind = answer.headers.get("content-type", "nothing")
        raise invalid(f"the answer is no JSON object ({len(answer.body)} bytes of {kind[:80]})")
    if value.get("error"):
        raise invalid(f"an error in a good answer: {told_error(value)}")
    return value


def _parsed(body: bytes) -> object:
    try:
        return parsed(body)
    except (ValueError, RecursionError):
        return None


def told_error(value: object) -> str:
    """The provider's own words, cut: they are for people."""
    error = value.get("error") if is_object(value) else None
    words = error.get("message") if is_object(error) else error
    return str(words)[:500] if words else "no reason given"


def _error(answer: Answer, value: object) -> Exception:
    return SourceError(of_status(answer.status, told_error(value), retry_after(answer.headers)))


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds the server asks to wait, in seconds or as a date by its own clock; 0 = it does not say."""
    said = headers.get("retry-after", "0")
    try:
        seconds = float(said)
    except ValueError:
        seconds = _seconds_until(said, headers.get("date", ""))
    return min(seconds, RETRY_AFTER_CAP_S) if seconds > 0 else 0.0


def _seconds_until(date: str, now: str) -> float:
    try:
        return (parsedate_to_datetime(date) - parsedate_to_datetime(now)).total_seconds()
    except (ValueError, TypeError, OverflowError):  # no date, one with and one without a zone, a year without end
        return 0.0


def joined(content: object) -> str:
    """Content as text: a string, or the text pieces of a list."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    pieces = [p.get("text") for p in cast("list[Any]", content) if is_object(p)]
    return "".join(p for p in pieces if isinstance(p, str))


def _calls(message: dict[str, Any]) -> tuple[ToolCall, ...]:
    listed = message.get("tool_calls")
    found: list[Any] = cast("list[Any]", listed) if isinstance(listed, list) else []
    if not found and is_object(old := message.get("function_call")):
        found = [{"function": old}]
    return tuple(_call(number, c) for number, c in enumerate(found, 1))


def _call(number: int, call: object) -> ToolCall:
    function = call.get("function") if is_object(call) else None
    if not is_object(call) or not is_object(function) or not isinstance(function.get("name"), str):
        raise invalid("a tool call without a function's name")
    given = call.get("id")
    call_id = given if isinstance(given, str) and given else f"call_{number}"
    return ToolCall(call_id, cast(str, function["name"]), arguments(function.get("arguments")))


def arguments(value: object) -> str:
    """The provider's own text. Where it sent an object, that object as text; where it sent nothing, nothing."""
    if isinstance(value, str):
        return value
    try:
        return "" if value is None else canonical(value).decode()
    except (ValueError, RecursionError) as error:
        raise invalid(f"arguments that cannot be written down: {error}") from error


def usage_of(value: object, said: str, made: str) -> Usage | None:
    if not is_object(value):
        return None
    counts = [tokens(value.get(k)) for k in (said, made)]
    return None if counts == [None, None] else Usage(*counts)


def tokens(value: object) -> int | None:
    """A number of tokens; None = it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None
