"""Seed 002, need three: the tool protocol is JSON, and it bears what is really seen. Nothing it bears is silent."""

from __future__ import annotations

import json

import pytest

from polyloop.kernel.seams import Reject
from tests.kernel.json_text.narrow import action, judge, output_of, refusal

SAID = {"reflection": {"done": "读了目录"}, "plan": ["读附件"], "action": {"tool": "read_file", "args": {"path": "附件.md", "limit": 3}}}
TEXT = json.dumps(SAID, ensure_ascii=False)
FLAT = json.dumps({**SAID, "action": {"tool": "read_file", "path": "附件.md", "limit": 3}}, ensure_ascii=False)
FENCED = f"```json\n{TEXT}\n```"


def test_S2_14_a_reply_is_json_with_reflection_plan_and_action():
    act = action(TEXT)
    assert (act.tool, act.args) == ("read_file", {"path": "附件.md", "limit": 3})
    assert json.loads(output_of(act, TEXT)) == SAID
    assert refusal("我先看一下目录。").code == "not_json"
    assert refusal(json.dumps({"reflection": "r", "plan": "p"})).code == "no_action"


@pytest.mark.parametrize("text", [FENCED, f"```\n{TEXT}\n```\n", f"~~~\n{TEXT}\n~~~"])
def test_S2_15_a_whole_reply_in_a_fence_is_run(text):
    act = action(text)
    assert (act.tool, act.args) == (SAID["action"]["tool"], SAID["action"]["args"])
    assert act.repairs


def test_S2_15_arguments_flat_beside_the_tool_are_collected():
    act = action(FLAT)
    assert (act.args, act.repairs) == ({"path": "附件.md", "limit": 3}, ("flattened",))
    assert json.loads(output_of(act, FLAT)) == SAID


@pytest.mark.parametrize("tool", ["read_file", "rm"])  # rm needs no argument at all: still they are missing, not empty
def test_S2_16_missing_args_stays_an_error(tool):
    no = refusal(json.dumps({**SAID, "action": {"tool": tool}}))
    assert (no.code, no.tool) == ("args_missing", tool)


@pytest.mark.parametrize(
    "action_said",
    [
        {"tool": "read_file", "arg": {"path": "a"}},  # a misspelt `args` is no argument
        {"tool": "read_file", "path": "a", "colour": "red"},
        {"tool": "read_file", "args": {}, "path": "a"},  # where args is given nothing is collected
        {"tool": "read_file", "args": None},
        {"tool": "read_file", "args": ""},
    ],
)
def test_S2_16_nothing_is_collected_on_a_guess(action_said):
    no = refusal(json.dumps({**SAID, "action": action_said}))
    assert no.code == "args_invalid"


@pytest.mark.parametrize("text", [FENCED, FLAT, f"好的：\n{TEXT}", TEXT.replace("，", ","), TEXT[:-1] + ",}", TEXT.replace('": ', '"：')])
def test_S2_21_no_repair_is_silent(text):
    """What was judged differs from the reply exactly when repairs are named, and is strict JSON of the same meaning."""
    act = action(text)
    judged = output_of(act, text)
    assert json.loads(judged) == SAID
    assert (act.raw_output is None) == (judged == text) == (act.repairs == ()) == act.plain


def test_S2_21_text_inside_strings_is_never_touched():
    path = "“条款”：，True None // [1,] ```json {…} </think>"
    text = json.dumps({**SAID, "action": {"tool": "read_file", "args": {"path": path}}}, ensure_ascii=False)
    for said in (text, f"```json\n{text}\n```", text.replace('": ', '"：')):
        assert action(said).args == {"path": path}


def test_S2_21_what_cannot_be_read_is_refused_with_its_reason_not_completed():
    for end in range(len(TEXT)):
        decision = judge(TEXT[:end])
        assert isinstance(decision, Reject)
        assert decision.message
