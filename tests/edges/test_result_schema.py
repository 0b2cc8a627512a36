"""A run that asks for a result of some schema: what is shown, what is checked, and what becomes of a submission that does not fit."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import polyloop
from polyloop.app.request_file import load
from polyloop.contract.problem import ProblemError
from polyloop.kernel.objects import ToolSpec
from polyloop.kernel.records import ToolCall
from polyloop.testing import ScriptedModel
from polyloop.toolbox.submit import Submit

SUM = {"type": "object", "properties": {"sum": {"$ref": "#/$defs/n"}}, "required": ["sum"], "$defs": {"n": {"type": "integer"}}}


@polyloop.tool(effect="read", kind="async")
async def look() -> str:
    """Look."""
    return "seen"


@polyloop.tool(effect="write", kind="async", completes=True)
async def hand_in(text: str) -> str:
    """Hand in."""
    return text


class Total(Struct):
    """What was added up."""

    sum: int
    of: int = 0


@polyloop.tool(effect="write", kind="async", completes=True)
async def book(result: Total) -> str:
    """Book it."""
    return f"{type(result).__name__} {result.sum}"


def submit(**args: Any) -> str:
    return json.dumps({"plan": "p", "action": {"tool": "submit", "args": args}})


def request(protocol: str, schema: Any, **more: Any) -> polyloop.Request:
    segments = (polyloop.Segment("task", text="Add up."), polyloop.Segment("tools", "system", slot="tools"))
    return polyloop.Request("r1", polyloop.Agent("a", "1", protocol), polyloop.Budget(5, 9), segments, result_schema=schema, **more)


def carried_out(asked: polyloop.Request, model: Any, tools: Any, store: Path, *, again: bool = True) -> polyloop.RunResult:
    async def work() -> polyloop.RunResult:
        async with polyloop.open_store(store / "runs.db") as opened:
            ended = await polyloop.run(asked, store=opened, model=model, tools=tools)
            assert not again or await polyloop.resume(asked, store=opened, model=model, tools=tools) == ended
            return ended

    return asyncio.run(work())


WRONG: list[dict[str, Any]] = [{"summary": "s"}, {"summary": "s", "result": 3}, {"summary": "s", "result": {"sum": "3"}}]


def test_S0_24_a_submission_that_does_not_fit_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    right = {"summary": "s", "result": {"sum": 3}}
    model = ScriptedModel([submit(**args) for args in [*WRONG, right]])
    ended = carried_out(request("json-text/1", SUM), model, [look, Submit()], tmp_path)
    assert (ended.reason, ended.result) == ("completed", right)
    assert (ended.counters.valid_steps, ended.counters.rejections_total) == (1, 3)
    assert "result.sum" in model.seen[-1].messages[-1].text


@pytest.mark.parametrize("protocol", ["json-text/1", "native-tools/1"])
def test_S2_13_what_the_model_is_shown_is_what_is_checked(protocol: str, tmp_path: Path) -> None:
    args = {"summary": "s", "result": {"sum": 3}}
    said = submit(**args) if protocol == "json-text/1" else polyloop.Reply(tool_calls=(ToolCall("c1", "submit", json.dumps(args)),))
    model = ScriptedModel([said])
    assert carried_out(request(protocol, SUM), model, [look, Submit()], tmp_path).reason == "completed"
    if protocol == "json-text/1":
        assert '"sum":{"$ref":"#/$defs/n"}' in model.seen[0].messages[1].text
    else:
        spec = {t.name: t for t in model.seen[0].tools or ()}["submit"]
        assert spec.schema["properties"]["result"] == {k: v for k, v in SUM.items() if k != "$defs"}
        assert (spec.schema["$defs"], spec.schema["required"]) == (SUM["$defs"], ["summary", "result"])


def test_every_tool_that_completes_is_held_to_it_beside_what_it_asks_itself(tmp_path: Path) -> None:
    """Too large for the run, too much for the tool, right for both; `submit` stands beside it."""
    schema = {"properties": {"sum": {"maximum": 3}}}
    lines = [
        json.dumps({"plan": "p", "action": {"tool": "book", "args": args}})
        for args in ({"result": {"sum": 4}}, {}, {"result": {"sum": 3, "x": 1}}, {"result": {"sum": 3}})
    ]
    ended = carried_out(request("json-text/1", schema), ScriptedModel(lines), [look, book, Submit()], tmp_path)
    assert (ended.reason, ended.result, ended.counters.rejections_total) == ("completed", {"result": {"sum": 3}}, 3)


def test_a_final_answer_is_held_to_it_too(tmp_path: Path) -> None:
    model = ScriptedModel([polyloop.Reply("three"), polyloop.Reply('{"sum": "3"}'), polyloop.Reply('{"sum": 3}')])
    ended = carried_out(request("native-tools/1", SUM), model, [look], tmp_path)
    assert (ended.completed_by, ended.result, ended.counters.rejections_total) == ("final_answer", {"sum": 3}, 2)
    assert "sum" in model.seen[-1].messages[-1].text


@pytest.mark.parametrize(
    ("protocol", "schema", "tools"),
    [
        ("json-text/1", SUM, [look]),  # nothing completes
        ("json-text/1", SUM, [look, hand_in]),  # it gives no result
        ("json-text/1", SUM, [look, Submit(), hand_in]),
        ("native-tools/1", SUM, [look, hand_in]),
        ("native-tools/1", [], [look]),
        ("native-tools/1", {"type": "no such type"}, [look]),
        ("json-text/1", {"type": "no such type"}, [look, Submit()]),
        ("json-text/1", {"$ref": "#/$defs/missing"}, [look, Submit()]),
    ],
)
def test_a_schema_that_nothing_can_be_held_to_starts_nothing(protocol: str, schema: Any, tools: Any, tmp_path: Path) -> None:
    model = ScriptedModel([])
    with pytest.raises(ProblemError) as refused:
        carried_out(request(protocol, schema), model, tools, tmp_path)
    assert (refused.value.problem.kind, refused.value.problem.details["field"]) == ("validation", "result_schema")
    assert not model.seen


def test_a_registry_without_the_schema_is_as_it_was() -> None:
    registry = polyloop.Registry([look, Submit()])
    held = registry.giving(SUM)
    assert registry.problems("submit", {"summary": "s"}) == []
    assert [p["path"] for p in held.problems("submit", {"summary": "s"})] == ["result"]
    assert held.problems("look", {}) == []
    assert isinstance(registry.specs["submit"], ToolSpec)
    assert "result" not in str(registry.specs["submit"].schema["required"])


FILE = 'model = "script:x"\n{overflow}\n[agent]\nid = "a"\n[budget]\nmax_valid_steps = 1\nmax_iterations = 1\n'


@pytest.mark.parametrize(
    ("line", "policy"),
    [
        ("", "none"),
        ('overflow = "none"', "none"),
        ('overflow = "window:20"', "window(20)"),
        ('overflow = "cap_observation:4000"', "cap_observation(4000)"),
    ],
)
def test_a_request_file_says_its_overflow_policy(line: str, policy: str, tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_text(FILE.format(overflow=line))
    assert load(tmp_path / "r.toml", {}).overflow == policy
