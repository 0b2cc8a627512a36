"""`openai:` against a server that misbehaves: every fault has a name and an end; what providers really send is read as it is."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx2
import pytest

from polyloop.contract.problem import ProblemError
from polyloop.gateway import wire
from polyloop.gateway.faults import SourceError
from polyloop.gateway.openai import base_url, decoded, encoded, retry_after
from polyloop.gateway.settings import Retry, Settings, SourceSettings
from polyloop.kernel.native_tools import NativeTools
from polyloop.kernel.objects import Agent, ToolSpec
from polyloop.kernel.records import Part, ToolCall, Usage
from polyloop.kernel.seams import Act, Message, ModelCallFailed, ModelRequest, Reject, Reply
from polyloop.testing import Toolset
from polyloop.testing.fake_openai import FakeOpenAI, Fault, calls, said, unpaired
from tests.gateway.desk import chat, gateway, office, request, started, until

ONCE = Settings(retry=Retry(attempts=1, deadline_s=20))

FAULTS = {
    "drop": (Fault("drop"), "connection_lost", True),
    "half": (Fault("half"), "connection_lost", True),
    "malformed": (Fault("malformed"), "invalid_response", True),
    "wrong_type": (Fault("wrong_type"), "invalid_response", True),
    "compressed": (Fault("compressed"), "invalid_response", True),
    "huge": (Fault("huge", size=4 << 20), "invalid_response", True),
    "error in a good answer": ({"error": {"message": "overloaded"}}, "invalid_response", True),
    "no choices": ({"choices": []}, "invalid_response", True),
    "not an object": ({"choices": [{"message": None}]}, "invalid_response", True),
    **{str(n): (Fault("status", n), code, True) for n, code in [
        (400, "bad_request"), (401, "authentication_required"), (403, "permission_denied"), (404, "not_found"), (408, "timeout"),
        (418, "invalid_response"), (422, "bad_request"), (429, "rate_limited"), (500, "server_error"), (503, "server_error"),
        (302, "invalid_response")]},
}  # fmt: skip


@pytest.mark.parametrize(("fault", "code", "sent"), FAULTS.values(), ids=FAULTS)
def test_every_fault_of_a_server_has_a_name(fault, code, sent):
    async def one() -> None:
        at = office(settings=ONCE)
        at.wire = wire.Wire(answer_bytes=1 << 20)
        try:
            await chat(gateway(f"openai:m@{server.url}", at))
        finally:
            await at.aclose()

    with FakeOpenAI([fault]) as server, pytest.raises(ModelCallFailed) as failed:
        asyncio.run(one())
    assert (failed.value.code, failed.value.sent, len(server.seen)) == (code, sent, 1)


@pytest.mark.parametrize(("status", "charged"), [(201, True), (202, True), (204, True), (302, False), (400, False), (429, False), (500, False)])
def test_only_an_error_says_that_nothing_was_done(status, charged):
    with pytest.raises(SourceError) as no:
        decoded(wire.Answer(status, {}, b"{}"), "m")
    assert no.value.fault.charged is charged


@pytest.mark.parametrize("kind", ["silent", "half_open"])
def test_a_server_that_hangs_ends_by_the_deadline_and_its_socket_is_closed(kind):
    async def one() -> float:
        at, began = office(settings=Settings(retry=Retry(attempts=3, deadline_s=0.3))), time.monotonic()
        with pytest.raises(ModelCallFailed) as failed:
            await chat(gateway(f"openai:m@{server.url}", at))
        assert (failed.value.code, failed.value.sent) == ("timeout", True)
        took = time.monotonic() - began
        await until(lambda: server.open == 0)
        await at.aclose()
        return took

    with FakeOpenAI([Fault(kind)]) as server:
        assert 0.3 <= asyncio.run(one()) < 30  # the server never ends


def test_S2_22_S2_23_a_cancel_in_mid_call_closes_the_socket():
    async def one() -> None:
        at = office(settings=ONCE)
        call = asyncio.ensure_future(chat(gateway(f"openai:m@{server.url}", at)))
        await until(lambda: bool(server.seen))
        assert server.open == 1
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: server.open == 0)
        await at.aclose()

    with FakeOpenAI([Fault("silent")]) as server:
        asyncio.run(one())


def test_nobody_listening_means_nothing_was_sent():
    with FakeOpenAI([said("x")]) as gone:
        url = gone.url

    async def one() -> None:
        await chat(gateway(f"openai:m@{url}", office(settings=ONCE)))

    with pytest.raises(ModelCallFailed) as failed:
        asyncio.run(one())
    assert (failed.value.code, failed.value.sent) == ("connect_failed", False)


def subclasses(kind: type) -> list[type]:
    return [kind, *(s for sub in kind.__subclasses__() for s in subclasses(sub))]


def test_R98_every_exception_of_the_transport_is_classified():
    kinds = [*subclasses(httpx2.RequestError), httpx2.InvalidURL]
    assert len(kinds) >= 18
    for kind in kinds:
        assert kind.__name__ in wire.TRANSPORT, f"{kind.__name__} is judged only as a {kind.__mro__[1].__name__}"
        assert wire.classify(kind("boom")) is not None
    assert wire.classify(ValueError("somebody else's")) is None


# --- what is sent --------------------------------------------------------------------------------------------------


def body_of(*messages: Message, tools: Any = None, settings: SourceSettings | None = None, **params: Any) -> dict[str, Any]:
    return json.loads(encoded("m", ModelRequest("c", messages, params, {}, 1, tools), settings or SourceSettings()))


def test_params_go_along_and_may_not_replace_what_is_ours():
    assert body_of(Message("user", (Part(text="hi"),)), temperature=0.5, max_tokens=7) == {
        "model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.5, "max_tokens": 7,
    }  # fmt: skip
    for name in ("model", "messages", "tools", "stream", "n"):
        with pytest.raises(SourceError) as refused:
            encoded("m", ModelRequest("c", (), {name: 1}, {}, 1), SourceSettings())
        assert (refused.value.fault.code, refused.value.fault.sent) == ("bad_request", False)


def test_images_go_only_to_models_declared_to_see_them():
    seen = Message("user", (Part(text="what is this"), Part(type="image", text="data:image/png;base64,AA==", mime="image/png")))
    with pytest.raises(SourceError, match="vision"):
        body_of(seen)
    told = body_of(seen, settings=SourceSettings(vision=True))["messages"][0]["content"]
    assert told == [{"type": "text", "text": "what is this"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    for part in (Part(type="image", blob="ab" * 32, mime="image/png"), Part(type="file", blob="ab" * 32)):
        with pytest.raises(SourceError, match="cannot be sent"):
            body_of(Message("user", (part,)), settings=SourceSettings(vision=True))


def test_a_model_without_tools_is_refused_before_sending():
    with pytest.raises(SourceError) as refused:
        body_of(tools=(), settings=SourceSettings(tools=False))
    assert (refused.value.fault.code, refused.value.fault.sent) == ("capability_unavailable", False)


def test_a_lone_surrogate_travels_as_its_escape():
    assert body_of(Message("user", (Part(text="a\ud800b"),)))["messages"][0]["content"] == "a\ud800b"


@pytest.mark.parametrize(
    ("url", "goes_to"),
    [
        ("http://h:1", "http://h:1/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        ("https://h/openai/v2", "https://h/openai/v2/chat/completions"),
        ("https://h/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://u:p@h/v1", None),
        ("https://h/v1?key=1", None),
        ("https:///v1", None),
        ("http://[h/v1", None),
        ("http://h:65536/v1", None),
        ("http://h:x/v1", None),
    ],
)
def test_where_calls_go(url, goes_to):
    if goes_to is None:
        with pytest.raises(ProblemError):
            base_url("m", url, "/chat/completions")
    else:
        assert base_url("m", url, "/chat/completions") == goes_to


def test_a_key_goes_only_where_it_was_named_for_and_never_in_clear_over_a_network():
    environ = {"OPENAI_API_KEY": "k1", "MINE": "k2"}
    named = {"openai:m@http://far.example/v1": SourceSettings(key_env="MINE"), "openai:m@http://127.0.0.1:9/v1": SourceSettings(key_env="MINE")}
    at = office(settings=Settings(sources=named), environ=environ)
    keys = {url: at.key(f"openai:m@{url}", url) for url in (
        "https://api.openai.com/v1", "http://api.openai.com/v1", "https://api.openai.com.evil.example/v1", "http://far.example/v1",
        "http://127.0.0.1:9/v1")}  # fmt: skip
    assert list(keys.values()) == ["k1", "", "", "", "k2"]


@pytest.mark.parametrize("key", ["sk-hidden\r", "sk-hidden ", "sk-hidden\nx: y", "sk-hiddené"])
def test_a_key_no_header_can_hold_is_refused_before_the_transport_says_it_aloud(key):
    with pytest.raises(ProblemError, match="OPENAI_API_KEY") as refused:
        gateway("openai:m@https://api.openai.com/v1", office(environ={"OPENAI_API_KEY": key}))
    assert "hidden" not in str(refused.value)


# --- what providers send: shapes of four of them, made for these tests -----------------------------------------------

LOOK = ToolSpec(
    "look", "Look.", {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}, "read", "rerun", "async"
)


def wrapped(message: dict[str, Any], finish: str | None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}], **more}


def called(arguments: Any, call_id: Any = "call_9", **more: Any) -> dict[str, Any]:
    return {"content": None, "tool_calls": [{"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}, **more}]}


SHAPES = {
    "A: arguments as text": (
        wrapped(called('{"n": 1}'), "tool_calls", usage={"prompt_tokens": 3, "completion_tokens": 4}),
        Reply("", "", (ToolCall("call_9", "look", '{"n": 1}'),), (), "tool_calls", Usage(3, 4), "m"), "act",
    ),
    "B: arguments as an object, no id, reasoning beside": (
        wrapped({**called({"n": 1}, None, index=0), "content": "", "reasoning_content": "let me see"}, "tool_calls", usage=None),
        Reply("", "let me see", (ToolCall("call_1", "look", '{"n":1}'),), (), "tool_calls", None, "m"), "act",
    ),
    "C: content as pieces, an empty id, the model's own end": (
        wrapped({**called('{"n": 1}', ""), "content": [{"type": "text", "text": "I "}, {"type": "odd"}, {"type": "text", "text": "look"}]}, "stop"),
        Reply("I look", "", (ToolCall("call_1", "look", '{"n": 1}'),), (), "stop", None, "m"), "act",
    ),
    "D: one function call of the old form": (
        wrapped({"content": None, "function_call": {"name": "look", "arguments": '{"n": 1}'}}, "function_call"),
        Reply("", "", (ToolCall("call_1", "look", '{"n": 1}'),), (), "function_call", None, "m"), "act",
    ),
    "A: cut in the middle of the arguments, and it says so": (
        wrapped(called('{"n": '), "length"), Reply("", "", (ToolCall("call_9", "look", '{"n": '),), (), "length", None, "m"), "truncated",
    ),
    "B: cut in the middle of the arguments, and it does not say so": (
        wrapped(called('{"n": 1'), "tool_calls"),
        Reply("", "", (ToolCall("call_9", "look", '{"n": 1'),), (), "tool_calls", None, "m"), "truncated",
    ),
    "C: arguments cut to nothing": (
        wrapped(called(""), "tool_calls"), Reply("", "", (ToolCall("call_9", "look", ""),), (), "tool_calls", None, "m"), "args_missing",
    ),
    "D: no arguments at all": (
        wrapped(called(None), "tool_calls"), Reply("", "", (ToolCall("call_9", "look", ""),), (), "tool_calls", None, "m"), "args_missing",
    ),
    "A: a refusal in a field of its own": (
        wrapped({"content": None, "refusal": "I cannot help."}, "stop"), Reply("I cannot help.", "", (), (), "refusal", None, "m"), "truncated",
    ),
    "B: no reason to finish": (wrapped({"content": "hi"}, None), Reply("hi", "", (), (), "unknown", None, "m"), "finish"),
}  # fmt: skip


@pytest.mark.parametrize(("body", "reply", "then"), SHAPES.values(), ids=SHAPES)
def test_S2_50_replies_of_providers_are_read_as_they_are(body, reply, then):
    got = decoded(wire.Answer(200, {}, json.dumps(body).encode()), "m")
    assert got == reply
    decided = NativeTools().interpret(got, Toolset(LOOK))[0]
    assert (decided.code if isinstance(decided, Reject) else type(decided).__name__.lower()) == then
    assert not isinstance(decided, Act) or decided.args == {"n": 1}


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices": [{"message": {"content": "x", "n": NaN}}]}',
        b"[" * 100_000,
        b'{"choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}}]}}]}",
        b'{"choices": [{"message": {"tool_calls": [{"function": {"name": "f", "arguments": {"n": 1e999}}}]}}]}',
        b"\xff\xfe",
        b"",
        b"null",
    ],
)
def test_a_body_that_is_hostile_is_no_answer(body):
    with pytest.raises(SourceError) as no:
        decoded(wire.Answer(200, {}, body), "m")
    assert no.value.fault.code == "invalid_response"


ODD = ({"prompt_tokens": -1}, {"prompt_tokens": True}, {"prompt_tokens": "7"}, {"prompt_tokens": 1.5}, {"prompt_tokens": 10**30}, {}, [], None)


@pytest.mark.parametrize("usage", ODD, ids=str)
def test_a_report_of_tokens_that_is_none_is_unknown(usage):
    body = wrapped({"content": "x"}, "stop", usage=usage)
    assert decoded(wire.Answer(200, {}, json.dumps(body).encode()), "m").usage is None


NOW, SOON, PAST, FAR = (f"Wed, 21 Oct {when} GMT" for when in ("2026 07:28:00", "2026 07:28:30", "2020 07:28:30", "2099 07:28:30"))
WAITS = {
    "seconds": ("3", 3), "half": ("0.5", 0.5), "by the server's own clock": (SOON, 30), "a date gone by": (PAST, 0), "far away": (FAR, 600),
    "for ever": ("inf", 600), "no number": ("nan", 0), "backwards": ("-5", 0), "no date": ("soon", 0), "a date without a zone": (SOON[:-4], 0),
    "a year without end": (SOON.replace("2026", "9" * 20), 0), "a zone without end": (f"{SOON[:-4]} +{'9' * 20}", 0),
}  # fmt: skip


@pytest.mark.parametrize(("said_", "seconds"), WAITS.values(), ids=WAITS)
def test_how_long_a_server_asks_to_wait(said_, seconds):
    assert retry_after({"retry-after": said_, "date": NOW}) == seconds
    assert retry_after({"retry-after": SOON}) == 0


@pytest.mark.parametrize("call", [None, {"id": "c"}, {"id": "c", "function": {}}, {"id": "c", "function": {"name": 3}}])
def test_a_call_that_names_no_function_is_no_answer(call):
    with pytest.raises(SourceError, match="function"):
        decoded(wire.Answer(200, {}, json.dumps(wrapped({"tool_calls": [call]}, "tool_calls")).encode()), "m")


def test_the_fake_knows_the_pairing_rule():
    call = {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}
    a, b = ({"role": "tool", "tool_call_id": i} for i in "ab")
    assert [bool(unpaired(m)) for m in ([call, a, b], [call, b, a], [call, a], [call, a, {"role": "user"}], [a], [call, a, a])] == [
        False, False, True, True, True, True,
    ]  # fmt: skip


async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"


def test_S2_50_native_calls_travel_with_their_results_paired(tmp_path):
    answers = [
        calls(("c1", "look", '{"n": 1}'), ("c2", "look", '{"n": 2}'), ("c3", "nope", "{}")),
        calls(("c4", "look", '{"n": ')),
        calls(("c5", "submit", '{"summary": "s"}')),
    ]
    with FakeOpenAI(answers) as server:
        asked = request("r1", agent=Agent("a", protocol="native-tools/1"))
        result = asyncio.run(started(tmp_path, "local", f"openai:m@{server.url}", asked, [look]))
    assert (result.reason, result.completed_by, server.broken) == ("completed", "completion_tool", [])
    assert [t["function"]["name"] for t in server.seen[0]["tools"]] == ["submit", "look"]
    assert [m.get("tool_call_id") for m in server.seen[2]["messages"]] == [None, None, "c1", "c2", "c3", None, "c4"]
    assert "truncated" in server.seen[2]["messages"][-1]["content"]


@pytest.mark.parametrize("kind", ["silent", "half_open"])
def test_S2_22_a_run_cancelled_in_mid_call_ends_at_once_and_leaves_no_socket(tmp_path, kind):
    async def one() -> float:
        run = asyncio.ensure_future(started(tmp_path, "local", f"openai:m@{server.url}", request("r1")))
        await until(lambda: bool(server.seen))
        began = time.monotonic()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return time.monotonic() - began

    with FakeOpenAI([Fault(kind)]) as server:
        assert asyncio.run(one()) < 30  # the server never ends
        asyncio.run(until(lambda: server.open == 0))
        result = asyncio.run(started(tmp_path, "local", f"openai:m@{server.url}", request("r1")))
        assert (result.reason, len(server.seen)) == ("cancelled", 1)
