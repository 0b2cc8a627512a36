"""A run under native-tools/1: the same records as under json-text/1, and every call answered (S2.50; kernel.md, A step)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from polyloop.kernel.native_tools import NativeTools
from polyloop.kernel.objects import Agent, Budget, Request, Segment
from polyloop.kernel.records import ToolCall
from polyloop.kernel.seams import Outcome, Reply
from polyloop.testing import said
from tests.kernel.desk import CLOSED, LOOK, SUBMIT, WRITE, Desk, act, tool

STRICT = tool("strict", schema={**CLOSED, "properties": {"path": {}}, "required": ["path"]})
TOOLS = (LOOK, WRITE, SUBMIT, STRICT)


def calls(*named: tuple[str, Any], text: str = "", **more: Any) -> Reply:
    made = tuple(ToolCall(f"c{i}", name, args if isinstance(args, str) else json.dumps(args)) for i, (name, args) in enumerate(named))
    return Reply(text, tool_calls=made, finish_reason="tool_calls", **more)


def native(lines: Any, deeds: Any = None, tools: Any = TOOLS, **budget: Any) -> Desk:
    request = Request("r1", Agent("a", protocol="native-tools/1"), Budget(20, 40, **budget), (Segment("task", text="Do it."),))
    return Desk(lines, deeds, tools=tools, request=request, interpreter=NativeTools())


SCRIPT: list[tuple[str, dict[str, Any]]] = [
    ("look", {"n": 1}), ("nope", {"path": "a"}), ("strict", {}), ("write", {"long": "x" * 3000}), ("look", {}), ("submit", {"summary": "s"}),
]  # fmt: skip
DEEDS = {"write": Outcome("error"), "look": said("seen")}


def test_S2_50_both_protocols_give_the_same_steps() -> None:
    """Identical in call, valid, tier, action, outcome, counters; so the protocol can be changed without changing what runs mean."""
    one = Desk([act(name, **args) for name, args in SCRIPT], DEEDS, tools=TOOLS)
    two = native([calls(pair) for pair in SCRIPT], DEEDS)
    results = [desk.start() for desk in (one, two)]
    same = ("call", "valid", "tier", "action", "outcome", "counters", "tool", "iteration", "repeated")
    assert [{k: s[k] for k in same} for s in one.steps()] == [{k: s[k] for k in same} for s in two.steps()]
    assert (results[0].reason, results[0].result, results[0].counters) == (results[1].reason, results[1].result, results[1].counters)
    assert one.log.kinds == two.log.kinds
    two.check()


def test_S2_50_the_tools_are_given_as_such() -> None:
    desk = native([calls(("submit", {}))])
    desk.start()
    assert [t.name for t in desk.model.seen[0].tools] == ["look", "write", "submit", "strict"]


def test_every_call_is_answered_in_the_history() -> None:
    """Also what was rejected, not executed or cut: providers refuse an unpaired call."""
    desk = native(
        [calls(("look", {}), ("nope", {}), ("strict", "{"), ("look", {}), text="thinking"), calls(("submit", {}))], max_tool_calls_per_iteration=3
    )
    desk.start()
    messages = list(desk.model.seen[1].messages)[1:]
    assert (messages[0].role, messages[0].text) == ("assistant", "thinking")
    asked = [c.id for c in messages[0].tool_calls]
    assert [m.call_id for m in messages[1:]] == asked == ["c0", "c1", "c2", "c3"]
    assert {m.role for m in messages[1:]} == {"tool"}
    assert [s["outcome"] for s in desk.steps()][:4] == ["ok", "unknown_tool", "truncated", "not_executed"]
    desk.check()


def test_a_reply_that_says_one_id_twice_is_refused_and_its_calls_are_told_apart() -> None:
    """Else no request of the run would be taken any more."""
    twice = Reply(tool_calls=tuple(ToolCall(name, "look", "{}") for name in ("c0", "c1", "c0", "c0", "c0_2")))
    desk = native([twice, calls(("submit", {}))])
    desk.start()
    assert [s["outcome"] for s in desk.steps()] == ["multiple_actions"] * 5 + ["ok"]
    asked, *answered = list(desk.model.seen[1].messages)[1:]
    ids = [c.id for c in asked.tool_calls]
    assert (ids[:3], [m.call_id for m in answered], len(set(ids))) == (["c0", "c1", "c0_2"], ids, 5)
    desk.check()


def test_long_arguments_of_a_refused_reply_are_cut_and_stay_json() -> None:
    desk = native([calls(("nope", {"a": "x" * 1_000_000}), ("strict", "{" + "\ud800" * 5000)), calls(("submit", {}))])
    desk.start()
    shown = [c.arguments for c in desk.model.seen[1].messages[1].tool_calls]
    assert all(list(json.loads(text)) == ["cut"] for text in shown)
    assert len(shown[0]) < 2100
    assert len(json.loads(shown[1])["cut"]) < 2100
    desk.check()


def test_a_broken_native_reply_is_shown_and_told() -> None:
    desk = native([calls(("strict", "no json"), ("nope", {"a": 1})), calls(("submit", {}))])
    desk.start()
    first, second, _ = desk.steps()
    assert (first["raw_output"], first["action"]) == ("no json", None)
    assert second["action"] == {"tool": "nope", "args": {"a": 1}}
    assert desk.told().count("[rejected:") == 2


@pytest.mark.parametrize("count", range(1, 12))
def test_a_native_run_is_resumed_at_every_record(count: int) -> None:
    lines = [
        calls(("look", {"long": "x" * 3000}), ("look", {"n": 2})),
        calls(("write", {"n": 3}), text="y" * 3000),
        calls(("submit", {"long": "z" * 3000})),
    ]
    whole = native(lines)
    ended = whole.start()
    desk = native(lines)
    desk.log = whole.log.upto(count)
    desk.actions.words = dict.fromkeys(("write", "submit"), said("landed"))
    again = desk.resume()
    assert (again.reason, again.result, again.counters.valid_steps) == (ended.reason, ended.result, ended.counters.valid_steps)
    assert [s["action"] for s in desk.steps()] == [s["action"] for s in whole.steps()]
    desk.check()


def test_a_final_answer_ends_a_run_without_a_completing_tool() -> None:
    desk = native([calls(("look", {})), Reply("The answer.")], tools=(LOOK,))
    ended = desk.start()
    assert (ended.reason, ended.completed_by, ended.result) == ("completed", "final_answer", "The answer.")
    last = desk.steps()[-1]
    assert (last["tier"], last["outcome"], last["valid"], last["tool"], last["raw_output"]) == ("G", "final_answer", False, "", "The answer.")
    assert desk.resume() == ended
