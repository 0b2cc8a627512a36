"""`anthropic:MODEL` (or `anthropic:MODEL@URL`): the messages format. Messages to body, answer to Reply; no state.

The format knows two speakers: what a system says at the start stands apart, later it speaks as the user; results of tools are the
user's, all of one reply in one message, as the provider demands. Arguments travel as objects; text that was none is sent as it was,
under a name that says so, and never as `{}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from polyloop.contract.problem import is_object
from polyloop.kernel.records import Part, ToolCall, Usage, canonical
from polyloop.kernel.seams import Message, ModelRequest, Reply

from .faults import Fault, invalid, refused
from .openai import arguments, base_url, opened, tokens, unusable, usage_of
from .reading import parsed
from .settings import SourceSettings
from .wire import Answer, Wire, classify

URL: Final = "https://api.anthropic.com"
VERSION: Final = "2023-06-01"
OWN: Final = frozenset({"model", "messages", "tools", "stream", "system"})
_NAME: Final = re.compile(r"(?P<model>.+?)(@(?P<url>https?://.+))?", re.DOTALL)
_DATA: Final = re.compile(r"data:(image/[\w.+-]+);base64,(.*)", re.DOTALL)
_CACHED: Final = ("cache_creation_input_tokens", "cache_read_input_tokens")


class Anthropic:
    """A source. `name` is the whole name in a request."""

    metered, cacheable = True, True

    def __init__(self, name: str, settings: SourceSettings, key_for: Callable[[str], str]) -> None:
        """Raises ProblemError(validation) for a URL with a secret, query or fragment in it."""
        found = _NAME.fullmatch(name.partition(":")[2])
        if found is None:
            raise unusable(name, "it is written anthropic:MODEL or anthropic:MODEL@URL")
        self.name, self._settings, self._model = name, settings, found["model"]
        self._url = base_url(name, found["url"] or URL, "/messages")
        self._key = key_for(self._url)

    def classify(self, error: Exception) -> Fault | None:
        return classify(error)

    async def ask(self, request: ModelRequest, wire: Wire) -> Reply:
        body = encoded(self._model, request, self._settings)
        headers = {"anthropic-version": VERSION, **({"x-api-key": self._key} if self._key else {})}
        return decoded(await wire.post(self._url, headers, body), self.name)


def encoded(model: str, request: ModelRequest, settings: SourceSettings) -> bytes:
    """The body. Raises SourceError for what this model cannot be given; nothing was sent."""
    if taken := OWN & request.params.keys():
        raise refused("bad_request", f"model_params may not set {', '.join(sorted(taken))}")
    if request.tools is not None and not settings.tools:
        raise refused("capability_unavailable", "this model takes no tools; use protocol json-text/1")
    messages = list(request.messages)
    first = next((n for n, m in enumerate(messages) if m.role != "system"), len(messages))
    body: dict[str, Any] = {"max_tokens": settings.output_tokens, **request.params, "model": model}
    if system := "\n\n".join(m.text for m in messages[:first]):
        body["system"] = system
    body["messages"] = _merged(messages[first:], vision=settings.vision)
    if request.tools:
        body["tools"] = [{"name": t.name, "description": t.description, "input_schema": t.schema} for t in request.tools]
    return canonical(body)


def _merged(messages: Sequence[Message], *, vision: bool) -> list[dict[str, Any]]:
    """Neighbours of one speaker are one message."""
    out: list[dict[str, Any]] = []
    for m in messages:
        role = "assistant" if m.role == "assistant" else "user"
        pieces = _pieces(m, vision=vision)
        if out and out[-1]["role"] == role:
            out[-1]["content"] += pieces
        else:
            out.append({"role": role, "content": pieces})
    return out


def _pieces(m: Message, *, vision: bool) -> list[dict[str, Any]]:
    said = [_piece(p, vision=vision) for p in m.parts if p.type != "text" or p.text]
    if m.call_id:
        return [{"type": "tool_result", "tool_use_id": m.call_id, "content": said}]
    return said + [{"type": "tool_use", "id": c.id, "name": c.name, "input": _given(cast(str, c.arguments))} for c in m.tool_calls]


def _given(text: str) -> dict[str, Any]:
    try:
        value = parsed(text)
    except (ValueError, RecursionError):
        value = None
    return value if is_object(value) else {"unreadable_arguments": text}


def _piece(part: Part, *, vision: bool) -> dict[str, Any]:
    if part.type == "text":
        return {"type": "text", "text": part.text}
    if not vision:
        raise refused("capability_unavailable", "this model is not declared to see images (vision = true in gateway.toml)")
    found = _DATA.fullmatch(part.text) if part.type == "image" and isinstance(part.text, str) else None
    if found is None:
        raise refused("capability_unavailable", f"a part of type {part.type} cannot be sent to this model")
    return {"type": "image", "source": {"type": "base64", "media_type": found[1], "data": found[2]}}


def decoded(answer: Answer, name: str) -> Reply:
    """The reply. Raises SourceError: an error status, or an answer that is none."""
    body = opened(answer)
    content = body.get("content")
    if not isinstance(content, list):
        raise invalid("the answer has no content")
    blocks = [b for b in cast("list[Any]", content) if is_object(b)]
    finish = body.get("stop_reason")
    return Reply(
        _texts(blocks, "text"), _texts(blocks, "thinking"), tuple(_call(b) for b in blocks if b.get("type") == "tool_use"), (),
        finish if isinstance(finish, str) else "unknown", _usage(body.get("usage")), served_by=name,
    )  # fmt: skip


def _usage(value: object) -> Usage | None:
    """What a provider read from and wrote to its own cache was said as well; one part that is no number makes the sum unknown."""
    if not is_object(value):
        return None
    parts = [tokens(n) for n in (value.get("input_tokens"), *(value.get(k) or 0 for k in _CACHED))]
    said = None if None in parts else sum(n or 0 for n in parts)
    return usage_of({"said": said, "made": value.get("output_tokens")}, "said", "made")


def _texts(blocks: Sequence[dict[str, Any]], kind: str) -> str:
    return "".join(text for b in blocks if b.get("type") == kind and isinstance(text := b.get(kind), str))


def _call(block: dict[str, Any]) -> ToolCall:
    call_id, name = block.get("id"), block.get("name")
    if not isinstance(call_id, str) or not isinstance(name, str):
        raise invalid("a tool call without an id or a name")
    return ToolCall(call_id, name, arguments(block.get("input")))
