"""A chat-completions server on loopback that keeps what it was asked and misbehaves on demand.

    with FakeOpenAI([said("one"), Fault("status", 503), calls(("c1", "look", '{"n": 1}'))]) as server:
        model = f"openai:small@{server.url}"

It runs in a thread of its own, so it serves other processes as well. Each request takes the next answer; the last one stays. An
answer may also be a function of the request's JSON. `seen` holds the bodies in order, `broken` every breach of the rule that each
tool call is followed by exactly one result; `open` counts connections that are still there.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, cast

from msgspec import Struct

FaultKind = Literal["silent", "half_open", "drop", "status", "half", "malformed", "huge", "wrong_type", "compressed"]
Body = dict[str, Any]


class Fault(Struct, frozen=True):
    """What goes wrong. `status` = the HTTP number of kind `status`; `retry_after` = its header; `size` = bytes of kind `huge`."""

    kind: FaultKind
    status: int = 500
    retry_after: str = ""
    size: int = 64 << 20


Answer = Body | Fault
Script = Sequence[Answer | Callable[[Body], Answer]]


def said(text: str, finish: str = "stop", usage: tuple[int, int] | None = (10, 5)) -> Body:
    """A reply of text."""
    return _completion({"role": "assistant", "content": text}, finish, usage)


def calls(*made: tuple[str, str, str], text: str = "") -> Body:
    """A reply of tool calls, each (id, name, arguments as text)."""
    listed = [{"id": i, "type": "function", "function": {"name": name, "arguments": args}} for i, name, args in made]
    return _completion({"role": "assistant", "content": text or None, "tool_calls": listed}, "tool_calls", (10, 5))


def _completion(message: Body, finish: str, usage: tuple[int, int] | None) -> Body:
    told = {} if usage is None else {"usage": {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "fake", "choices": [choice], **told}


class FakeOpenAI:
    """Use as a context manager, from threads and event loops alike."""

    def __init__(self, answers: Script) -> None:
        self.answers = answers
        self.seen: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.broken: list[str] = []
        self.open = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="fake-openai", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]:
            task.cancel()
        await asyncio.sleep(0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while await self._answered(reader, writer):
                pass
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            return  # the caller is gone, or the server stops
        finally:
            self.open -= 1
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve one request; False = no more on this connection."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))))
        script = self.answers[min(len(self.seen), len(self.answers) - 1)]
        self.seen.append(body)
        self.headers.append(headers)
        if breach := unpaired(body.get("messages", [])):
            self.broken.append(breach)
            return await _send(writer, 400, {"error": {"message": breach}})
        answer = script(body) if callable(script) else script
        if body.get("stream") and (answer == Fault("half") or not isinstance(answer, Fault)):
            return await _stream(writer, answer)
        if isinstance(answer, Fault):
            return await _misbehave(reader, writer, answer)
        return await _send(writer, 200, answer)


async def _send(writer: asyncio.StreamWriter, status: int, body: Body, *more: str) -> bool:
    data = json.dumps(body).encode()
    writer.write(_head(status, len(data), "application/json", *more) + data)
    await writer.drain()
    return True


async def _stream(writer: asyncio.StreamWriter, answer: Answer) -> bool:
    """The answer in pieces of three characters; of fault `half` a stream that breaks off, though the connection does not."""
    cut = isinstance(answer, Fault)
    whole = said("you should not see this whole") if isinstance(answer, Fault) else answer
    events = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in _told(whole)]
    sent = events[: len(events) // 2] if cut else [*events, b"data: [DONE]\n\n"]
    writer.write(_head(200, sum(map(len, sent)), "text/event-stream"))
    for event in sent:
        writer.write(event)
        await writer.drain()
    return True


def _told(whole: Body) -> list[Body]:
    choice = whole["choices"][0]
    text: str = choice["message"].get("content") or ""
    deltas: list[Body] = [{"role": "assistant", "content": ""}, *({"content": text[n : n + 3]} for n in range(0, len(text), 3))]
    for number, call in enumerate(choice["message"].get("tool_calls") or []):
        args: str = call["function"]["arguments"]
        deltas.append({"tool_calls": [{**call, "index": number, "function": {"name": call["function"]["name"], "arguments": ""}}]})
        deltas += [{"tool_calls": [{"index": number, "function": {"arguments": args[n : n + 3]}}]} for n in range(0, len(args), 3)]
    events: list[Body] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    return [*events, {"choices": [], "usage": whole.get("usage")}]


def _head(status: int, size: int, kind: str, *more: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {size}", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _misbehave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault) -> bool:
    """Always ends the connection, but for an error status. The silent ones wait until the caller has gone."""
    good = json.dumps(said("you should not see this")).encode()
    if fault.kind == "status":
        more = [f"retry-after: {fault.retry_after}"] if fault.retry_after else []
        return await _send(writer, fault.status, {"error": {"message": "no luck today", "type": "fake"}}, *more)
    if fault.kind == "half":
        writer.write(_head(200, len(good), "application/json") + good[: len(good) // 2])
    elif fault.kind == "half_open":
        writer.write(_head(200, len(good), "application/json") + good[:10])
    elif fault.kind == "malformed":
        writer.write(_head(200, len(good) - 3, "application/json") + good[:-3])
    elif fault.kind == "wrong_type":
        writer.write(_head(200, 24, "text/html") + b"<html>bad gateway</html>")
    elif fault.kind == "compressed":
        writer.write(_head(200, 4, "application/json", "content-encoding: gzip") + b"\x1f\x8b\x08\x00")
    elif fault.kind == "huge":
        writer.write(_head(200, fault.size, "application/json"))
        for _ in range(fault.size >> 20):
            writer.write(b" " * (1 << 20))
            await writer.drain()
    if fault.kind != "drop":
        await writer.drain()
    if fault.kind in ("silent", "half_open"):
        await reader.read()
    return False


def unpaired(messages: Sequence[Body]) -> str:
    """The provider's rule: after a message with tool calls come its results, one for each id, before anything else. "" = kept."""
    owed: list[str] = []
    for number, message in enumerate(messages):
        if message["role"] == "tool":
            if message.get("tool_call_id") not in owed:
                return f"message {number}: a result without its call ({message.get('tool_call_id')})"
            owed.remove(cast(str, message["tool_call_id"]))
            continue
        if owed:
            return f"message {number}: calls without results before it ({', '.join(owed)})"
        owed = [c["id"] for c in cast("list[Body]", message.get("tool_calls") or [])]
        if len(set(owed)) < len(owed):
            return f"message {number}: two calls of one id ({', '.join(owed)})"
    return f"calls without results at the end ({', '.join(owed)})" if owed else ""
