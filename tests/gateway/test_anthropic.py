"""`anthropic:`: what is sent, and what is read back, in the messages format."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.gateway.anthropic import Anthropic, decoded, encoded
from polyloop.gateway.faults import SourceError
from polyloop.gateway.settings import SourceSettings
from polyloop.gateway.sources import source
from polyloop.gateway.wire import Answer
from polyloop.kernel.objects import Agent
from polyloop.kernel.records import Part, ToolCall, Usage
from polyloop.kernel.seams import Message, ModelRequest, Reply
from polyloop.testing.fake_openai import FakeOpenAI
from tests.gateway.desk import request, started
from tests.gateway.test_openai import LOOK, look


def say(role: str, text: str, *calls: ToolCall, call_id: str = "") -> Message:
    return Message(role, (Part(text=text),), calls, call_id)


def body_of(*messages: Message, tools: Any = None, settings: SourceSettings | None = None, **params: Any) -> dict[str, Any]:
    return json.loads(encoded("m", ModelRequest("c", messages, params, {}, 1, tools), settings or SourceSettings()))


def test_two_speakers_and_all_results_of_a_reply_in_one_message():
    body = body_of(
        say("system", "be brief"), say("system", "be kind"), say("user", "go"),
        say("assistant", "", ToolCall("c1", "look", '{"n": 1}'), ToolCall("c2", "look", '{"n": '), ToolCall("c3", "look", '{"n": NaN}')),
        say("tool", "one", call_id="c1"), say("tool", "", call_id="c2"), say("system", "hurry"), tools=(LOOK,), max_tokens=9,
    )  # fmt: skip
    assert body == {
        "model": "m", "max_tokens": 9, "system": "be brief\n\nbe kind",
        "tools": [{"name": "look", "description": "Look.", "input_schema": LOOK.schema}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go"}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"n": 1}},
                {"type": "tool_use", "id": "c2", "name": "look", "input": {"unreadable_arguments": '{"n": '}},
                {"type": "tool_use", "id": "c3", "name": "look", "input": {"unreadable_arguments": '{"n": NaN}'}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "one"}]},
                {"type": "tool_result", "tool_use_id": "c2", "content": []},
                {"type": "text", "text": "hurry"}]},
        ],
    }  # fmt: skip


def test_a_limit_of_the_reply_is_always_sent():
    assert body_of(say("user", "x"), settings=SourceSettings(output_tokens=77))["max_tokens"] == 77


def test_images_are_sent_by_their_bytes_to_models_that_see():
    seen = Message("user", (Part(type="image", text="data:image/png;base64,AA==", mime="image/png"),))
    with pytest.raises(SourceError, match="vision"):
        body_of(seen)
    [block] = body_of(seen, settings=SourceSettings(vision=True))["messages"][0]["content"]
    assert block == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    with pytest.raises(SourceError, match="cannot be sent"):
        body_of(Message("user", (Part(type="image", blob="ab" * 32),)), settings=SourceSettings(vision=True))


def test_what_is_ours_cannot_be_set_and_tools_need_a_model_that_takes_them():
    for params, tools, settings in [({"system": "x"}, None, SourceSettings()), ({}, (), SourceSettings(tools=False))]:
        with pytest.raises(SourceError) as no:
            body_of(tools=tools, settings=settings, **params)
        assert no.value.fault.sent is False


SHAPES = {
    "text, thought and calls": (
        {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I "}, {"type": "text", "text": "look"},
                     {"type": "tool_use", "id": "c1", "name": "look", "input": {"n": 1}}, {"type": "odd"}],
         "stop_reason": "tool_use", "usage": {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 2}},
        Reply("I look", "hm", (ToolCall("c1", "look", '{"n":1}'),), (), "tool_use", Usage(12, 2), "m"),
    ),
    "cut": ({"content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}], "stop_reason": "max_tokens"},
            Reply("", "", (ToolCall("c1", "look", "{}"),), (), "max_tokens", None, "m")),
    "a call without input": ({"content": [{"type": "tool_use", "id": "c1", "name": "look"}], "stop_reason": None},
                             Reply("", "", (ToolCall("c1", "look", ""),), (), "unknown", None, "m")),
}  # fmt: skip


@pytest.mark.parametrize(("body", "reply"), SHAPES.values(), ids=SHAPES)
def test_replies_are_read_as_they_are(body, reply):
    assert decoded(Answer(200, {}, json.dumps(body).encode()), "m") == reply


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"input_tokens": 5, "cache_creation_input_tokens": None, "output_tokens": 2}, Usage(5, 2)),
        ({"input_tokens": 5, "cache_read_input_tokens": -5, "output_tokens": 2}, Usage(None, 2)),
        ({"input_tokens": True, "output_tokens": 10**30}, None),
        ({"cache_read_input_tokens": 7}, None),
        ([], None),
    ],
    ids=str,
)
def test_a_report_of_tokens_that_is_none_is_unknown(usage, told):
    body = {"content": [{"type": "text", "text": "x"}], "usage": usage}
    assert decoded(Answer(200, {}, json.dumps(body).encode()), "m").usage == told


@pytest.mark.parametrize("body", [{}, {"content": "x"}, {"content": [{"type": "tool_use", "name": "look"}]}])
def test_what_is_no_reply_is_told(body):
    with pytest.raises(SourceError) as no:
        decoded(Answer(200, {}, json.dumps(body).encode()), "m")
    assert no.value.fault.code == "invalid_response"


def test_where_it_goes_and_with_which_key():
    asked: list[str] = []
    Anthropic("anthropic:m", SourceSettings(), lambda url: asked.append(url) or "k")
    Anthropic("anthropic:m@http://127.0.0.1:1/x", SourceSettings(), lambda url: asked.append(url) or "k")
    assert asked == ["https://api.anthropic.com/v1/messages", "http://127.0.0.1:1/x/messages"]
    with pytest.raises(ProblemError):
        source("anthropic:m@http://u:p@h/v1", lambda _: b"")


def test_a_native_run_over_it(tmp_path):
    def used(call_id: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "tool_use", "id": call_id, "name": name, "input": given}], "stop_reason": "tool_use"}

    with FakeOpenAI([used("c1", "look", {"n": 1}), used("c2", "submit", {"summary": "s"})]) as server:
        asked = request("r1", agent=Agent("a", protocol="native-tools/1"))
        result = asyncio.run(started(tmp_path, "local", f"anthropic:m@{server.url}", asked, [look]))
        assert (result.reason, result.result, server.headers[0]["anthropic-version"]) == ("completed", {"summary": "s"}, "2023-06-01")
        assert server.seen[1]["messages"][-1]["content"][0]["tool_use_id"] == "c1"
