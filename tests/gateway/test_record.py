"""A conversation with a server, recorded into a script: said again without the server, it makes the same steps."""

from __future__ import annotations

import asyncio
from typing import Any

from polyloop.app.gateway import recorded
from polyloop.app.store import open_runs
from polyloop.gateway.script import Line, parse
from polyloop.kernel.objects import Agent
from polyloop.kernel.records import CallError, ModelResult, ToolCall, Usage, plain
from polyloop.testing.fake_openai import FakeOpenAI, calls, said
from tests.gateway.desk import DONE, request, started
from tests.gateway.test_openai import look

NATIVE = [
    calls(("c1", "look", '{"n": 1}'), ("c2", "look", '{"n": '), text="看看"),
    calls(("c3", "nope", "{}")),
    said("no call"),
    calls(("c4", "submit", '{"summary": "' + "长" * 2000 + '"}')),
]
TEXT = [said("not json"), said('```json\n{"action": {"tool": "look", "n": 2}}\n```'), said("cut", "length"), said(DONE)]


def steps(folder: Any, run_id: str) -> list[tuple[Any, ...]]:
    async def read() -> list[Any]:
        async with open_runs(str(folder / "runs.db"), "local") as runs:
            return [plain(s.body or b"") for s in (await runs.read(run_id)).sealed if s.kind == "step"]

    return [tuple(s.get(k) for k in ("call", "valid", "tier", "tool", "outcome", "repairs", "rejection", "counters")) for s in asyncio.run(read())]


def twice(folder: Any, protocol: str, answers: list[Any]) -> None:
    with FakeOpenAI(answers) as server:
        agent = Agent("a", protocol=protocol)
        first = asyncio.run(started(folder, "local", f"openai:m@{server.url}", request("r1", agent=agent), [look]))
    script = asyncio.run(recorded(str(folder / "runs.db"), "local", "r1"))
    (folder / "s.jsonl").write_bytes(script)
    again = asyncio.run(started(folder, "local", f"script:{folder / 's.jsonl'}", request("r2", agent=agent), [look]))
    assert first.reason == again.reason == "completed"
    assert (again.result, again.counters, steps(folder, "r2")) == (first.result, first.counters, steps(folder, "r1"))
    assert len(parse("s", script)) == len(answers)


def test_a_native_conversation_is_said_again(tmp_path):
    twice(tmp_path, "native-tools/1", NATIVE)


def test_a_conversation_in_text_is_said_again(tmp_path):
    twice(tmp_path, "json-text/1", TEXT)


def test_only_the_last_failure_is_a_line():
    from polyloop.gateway.script import recorded as script_of

    one = ModelResult("a\ud800", "why", (ToolCall("c", "look", "{}"),), finish_reason="stop", usage=Usage(1))
    failed = [ModelResult(error=CallError(code)) for code in ("interrupted", "timeout")]
    lines = parse("s", script_of([failed[0], one, one, failed[1]], str))
    assert [line.error and line.error.code for line in lines] == [None, None, "timeout"]
    assert lines[0] == Line("a\ud800", lines[0].tool_calls, usage=Usage(1), reasoning="why")
