"""The two case tables: 60 literal replies with their verdicts, and the cases handed down from public bug reports."""

from __future__ import annotations

import json
import re

import pytest

from polyloop.kernel.seams import Act, Reject
from tests.kernel.json_text.narrow import HANDED, REPLIES, Narrow, judge, refusal, reply

#: Repairs of those replies that run with any.
REPAIRS = {
    "fence-json": "fence", "fence-bare": "fence", "fence+prose": "fence prose", "prose-around": "prose", "prose-with-braces": "prose",
    "think-block": "think", "xml-wrapper": "wrapper", "bom+zwsp": "bom", "trailing-commas": "trailing_comma", "py-literals": "python_literal",
    "unescaped-newline": "raw_control", "cjk-fullwidth-delims": "fullwidth", "js-comments": "comment", "url-in-string": "trailing_comma",
    "flat-args": "flattened", "args-as-string": "args_text", "bigint-id": "trailing_comma", "reason-then-think-list": "think",
    "json-then-reasoning": "prose", "alias-arguments": "alias", "identical-twice": "duplicate",
}  # fmt: skip


@pytest.mark.parametrize("case", REPLIES[1:], ids=lambda case: case["id"])
def test_reply_gets_its_verdict(case):
    decision = judge(case["reply"], finish_reason=case.get("finish_reason", "stop"))
    if case["expect"] == "reject":
        assert isinstance(decision, Reject)
        assert decision.code == case.get("code", decision.code)
    else:  # "either" allows a refusal too; this interpreter runs them all
        assert isinstance(decision, Act)
        assert {"tool": decision.tool, "args": decision.args} == case["action"]
        assert decision.repairs == tuple(REPAIRS.get(case["id"], "").split())


def test_reply_table_is_whole():
    assert len(REPLIES) == 1 + 60
    assert set(REPAIRS) < {case["id"] for case in REPLIES[1:] if case["expect"] != "reject"}


HAND = Narrow(
    {
        "read_lines": {"path": "string, required", "start": "integer"},
        "write_file": {"path": "string, required", "text": "string, required"},
        "list_files": {"dir": "string, required"},
        "exists": {"path": "string, required"},
        "set_flag": {"on": "boolean, required", "note": "string or null"},
        "append_doc": {"node": "string, required", "text": "string, required"},
        "list_node_types": {},
        "delete_all": {},
        "run_steps": {"steps": "array of string, required"},
        "create_storyboard": {"rows": "array of object, required"},
        "submit": {"summary": "string"},
    },
    {"write_file": "write", "append_doc": "write", "delete_all": "write", "submit": "write", "create_storyboard": "write", "set_flag": "write"},
)
PROSE_WRITE = {"path": "out/n.md", "text": "see\n```py\nprint(1)\n```\nend"}
#: case -> (tool, args, repairs), or the code and what the message says.
VERDICTS = {
    "01": ("read_lines", {"path": "in/a.txt"}, "fence"),
    "03": ("write_file", PROSE_WRITE, ""),
    "05": ("list_files", {"dir": "."}, "prose"),
    "07": ("read_lines", {"path": "in/a.txt"}, "args_text"),
    "09": ("not_json", "bracket is closed that was never opened"),
    "10": ("not_json", "bracket"),
    "11": ("not_json", "double quotes"),
    "14": ("no_action", "names a tool"),
    "15": ("multiple_actions", "More than one"),
    "17": ("args_invalid", "Not declared by exists: args.path"),
    "18": ("read_lines", {"path": "in/a.txt", "start": 1}, "flattened"),
    "19": ("args_missing", "no args"),
    "20": ("args_invalid", "args must be a JSON object"),
    "21": ("no_action", "names a tool"),
    "22": ("unknown_tool", ", ".join(HAND.specs)),
    "23": ("no_action", "names a tool"),
    "24": ("no_action", "names a tool"),
    "25": ("exists", {"path": "a"}, "think"),
    "26": ("append_doc", {"node": "n1", "text": "hi"}, "think"),
    "29": ("write_file", {"path": "out/t.txt", "text": "write <think>this</think> as is"}, ""),
    "30": ("no_action", "only if it holds reflection or plan"),
    "31": ("truncated", "Send one complete object"),
    "32": ("truncated", "cut off"),
    "35": ("write_file", {"path": "out/empty.log", "text": ""}, ""),
    "36": ("args_invalid", "rows[0]: "),
    "42": ("write_file", {"path": "out/a", "text": "l1\nl2"}, "raw_control"),
}
BY_NUMBER = {case["id"].rpartition("-")[2]: case["minimal_input"] for case in HANDED}


@pytest.mark.parametrize("number", VERDICTS)
def test_handed_case(number):
    given, verdict = BY_NUMBER[number], VERDICTS[number]
    text, finish = (given["reply"], given["finish"]) if isinstance(given, dict) else (given, "stop")
    decision = judge(text, HAND, finish)
    if isinstance(decision, Act):
        assert (decision.tool, decision.args, " ".join(decision.repairs)) == verdict
    else:
        assert (decision.code, verdict[1] in decision.message) == (verdict[0], True), decision.message
    assert decision == judge(text, HAND, finish)  # the same on every run


def test_handed_06_fenced_and_bare_lead_to_the_same_call():
    bare, fenced = (judge(text, HAND) for text in BY_NUMBER["06"]["replies"])
    assert isinstance(bare, Act)
    assert isinstance(fenced, Act)
    assert (bare.tool, bare.args) == (fenced.tool, fenced.args) == ("exists", {"path": "a"})
    assert (bare.repairs, fenced.repairs) == ((), ("fence",))


@pytest.mark.parametrize("value", BY_NUMBER["08"]["args_values"])
def test_handed_08_arguments_that_are_no_object(value):
    for args in (json.loads(value), value):
        no = refusal(reply("exists", args), HAND)
        assert (no.code, no.message) == ("args_invalid", "args must be a JSON object.")


def test_handed_09_speaks_of_no_position_and_21_repeats_as_the_same():
    assert not re.search(r"line|column|\d", refusal(BY_NUMBER["09"], HAND).message)
    assert refusal(BY_NUMBER["21"], HAND).subject == refusal(BY_NUMBER["21"], HAND).subject


def test_handed_table_is_whole():
    assert set(BY_NUMBER) == set(VERDICTS) | {"06", "08"}
