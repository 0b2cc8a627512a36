"""Replies shown as they come: the same reply is decided on, whoever watches, and a stream that broke off is none."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from typer.testing import CliRunner

from polyloop.cli.main import app
from polyloop.gateway.faults import SourceError
from polyloop.gateway.openai import decoded
from polyloop.gateway.settings import Price, Retry, Settings, SourceSettings
from polyloop.gateway.stream import Piece, Tap, folded
from polyloop.gateway.wire import Answer
from polyloop.kernel.seams import ModelCallFailed, Reply
from polyloop.testing.fake_openai import FakeOpenAI, Fault, _told, calls, said
from tests.gateway.desk import chat, gateway, office

EVENTS = {"content-type": "text/event-stream; charset=utf-8"}


def watched(answers: list[Any], display: Any, **settings: Any) -> tuple[Reply, list[dict[str, Any]]]:
    async def call() -> Reply:
        at = office(settings=Settings(sources={name: SourceSettings(**settings)}, retry=Retry(attempts=2, first_wait_s=0)), display=display)
        try:
            return await chat(gateway(name, at), call_id="c1")
        finally:
            await at.aclose()

    with FakeOpenAI(answers) as server:
        name = f"openai:m@{server.url}"
        return asyncio.run(call()), server.seen


REPLIES = {
    "text": said("你好, a reply in pieces 🙂"),
    "nothing": said(""),
    "cut by its limit": said("so far", "length"),
    "no report of tokens": said("x", usage=None),
    "calls": calls(("c1", "look", '{"n": 1}'), ("c2", "look", '{"path": "你"}'), text="I look"),
    "a call without arguments": calls(("c1", "look", "")),
}


@pytest.mark.parametrize("answer", REPLIES.values(), ids=REPLIES)
def test_the_same_reply_comes_of_a_stream(answer):
    shown: list[Piece] = []
    streamed, [asked] = watched([answer], shown.append)
    plain, [asked_plainly] = watched([answer], None)
    assert streamed == replace(plain, served_by=streamed.served_by)
    assert "".join(p.text for p in shown) == plain.text
    assert [p.first for p in shown] == [n == 0 for n in range(len(shown))]
    assert (asked["stream"], asked["stream_options"], "stream" in asked_plainly) == (True, {"include_usage": True}, False)


def test_a_stream_that_broke_off_is_asked_for_again_and_what_was_shown_is_void():
    shown: list[Piece] = []
    reply, seen = watched([Fault("half"), said("whole")], shown.append)
    assert (reply.text, reply.attempts, len(seen)) == ("whole", 2, 2)
    begins = [n for n, p in enumerate(shown) if p.first]
    assert len(begins) == 2
    assert "".join(p.text for p in shown[begins[1] :]) == "whole"


def test_a_display_that_fails_costs_no_call(caplog):
    def broken(piece: Piece) -> None:
        raise OSError("no terminal")

    reply, _ = watched([said("all of it")], broken)
    assert reply.text == "all of it"
    assert [r.message for r in caplog.records] == ["a display failed and shows no more of this call: OSError: no terminal"]


def test_a_source_that_cannot_stream_is_not_asked_to():
    shown: list[Piece] = []
    reply, [asked] = watched([said("x")], shown.append, stream=False, price=Price(call=0))
    assert (reply.text, shown, "stream" in asked) == ("x", [], False)


def body_of(answer: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(e, ensure_ascii=False).encode() + b"\r\n\r\n" for e in _told(answer)) + b"data: [DONE]\r\n\r\n"


@given(st.text(max_size=40), st.data())
def test_whatever_the_cuts_between_bytes_the_text_shown_is_the_text_that_counts(text, data):
    body = body_of(said(text))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    shown: list[str] = []
    tap = Tap(lambda piece: shown.append(piece.text), "c1", "m")
    for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True):
        tap(body[start:end])
    assert "".join(shown) == text == folded(body)["choices"][0]["message"].get("content", "")


def test_what_a_server_says_beside_its_data_is_no_damage():
    beside = b": waiting\r\n\r\nevent: ping\r\ndata:\r\n\r\n"
    assert folded(beside + body_of(said("whole")))["choices"][0]["message"]["content"] == "whole"


def test_nothing_is_shown_after_a_damaged_piece():
    shown: list[str] = []
    tap = Tap(lambda piece: shown.append(piece.text), "c1", "m")
    for text in (b'{"choices": [{"delta": {"content": "a"}}]}', b'{"cho', b'{"choices": [{"delta": {"content": "b"}}]}'):
        tap(b"data: " + text + b"\n\n")
    assert shown == ["a"]


@given(st.integers(0, 2000))
def test_no_part_of_a_stream_passes_for_the_whole(size):
    body = body_of(calls(("c1", "pay", '{"amount": 1000}')))
    end = body.index(b'"finish_reason": "tool_calls"')
    with pytest.raises(SourceError, match=r"broke off|no JSON"):
        folded(body[: min(size, end)])


HOSTILE = {
    "an error in the middle": (b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: {"error": {"message": "overloaded"}}\n\n', "overloaded"),
    "nothing": (b"", "broke off"),
    "no stream at all": (b"<html>", "broke off"),
    "a damaged piece between good ones": (
        (
            b'data: {"choices": [{"delta": {"content": "pay "}}]}\n\ndata: {"choices": [{"del\n\n'
            b'data: {"choices": [{"delta": {"content": "all"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
        ),
        "no JSON",
    ),
    "a piece of a call that is none": (b'data: {"choices": [{"delta": {"tool_calls": [7]}}]}\n\n', "piece of a tool call"),
    "a call without a name": (b'data: {"choices": [{"delta": {"tool_calls": [{"index": 0}]}, "finish_reason": "tool_calls"}]}\n\n', "name"),
    "choices that are none": (b'data: {"choices": 3}\n\ndata: {"choices": [3]}\n\ndata: [1]\n\ndata: {"choices": [{"delta": 4}]}\n\n', "broke off"),
}


@pytest.mark.parametrize(("body", "why"), HOSTILE.values(), ids=HOSTILE)
def test_a_stream_that_is_hostile_is_no_answer(body, why):
    with pytest.raises(SourceError, match=why) as no:
        decoded(Answer(200, EVENTS, body), "m")
    assert no.value.fault.code == "invalid_response"


def test_streaming_is_ours_to_ask_for():
    async def call() -> None:
        at = office()
        await chat(gateway("openai:m@http://127.0.0.1:1/v1", at), params={"stream_options": {}})

    with pytest.raises(ModelCallFailed, match="stream_options"):
        asyncio.run(call())


def test_the_command_shows_the_text_beside_and_prints_what_counts(tmp_path):
    with FakeOpenAI([said("你好\n\x1b[2Jthere")]) as server:
        words = ["gateway", "chat", f"openai:m@{server.url}", "hi", "--stream", "--json", "--store", str(tmp_path / "runs.db")]
        done = CliRunner().invoke(app, words, env={"POLYLOOP_HOME": str(tmp_path)})
    assert json.loads(done.stdout)["text"] == "你好\n\x1b[2Jthere"
    assert done.stderr == "\n你好\n\\u001b[2Jthere"
