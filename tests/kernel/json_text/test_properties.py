"""What holds for every reply: no half is run, nothing raises, strict is strict, damage never runs as something else."""

from __future__ import annotations

import json
import os
import random
import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from polyloop.kernel.seams import Act, Reject
from tests.kernel.json_text.narrow import TABLE, Narrow, action, judge, output_of, reply
from tests.kernel.json_text.spoken import SNIPPETS, WRAPS, Spoken, same, spoken

SOAK = bool(os.environ.get("POLYLOOP_SOAK"))
CODES = {"not_json", "no_action", "multiple_actions", "truncated", "duplicate_keys", "bad_escape", "too_large"}
CODES |= {"args_missing", "args_invalid", "unknown_tool"}
SHAPES = {"args_text", "flattened", "alias"}
CUTS = {"bom", "think", "fence", "prose", "wrapper", "duplicate"}


def times(usual: int, soak: int = 10):
    return settings(max_examples=usual * (soak if SOAK else 1), suppress_health_check=list(HealthCheck))


@times(400)
@given(spoken())
def test_a_generated_reply_runs_as_it_was_meant(said: Spoken):
    act = action(said.text)
    assert (act.tool, " ".join(act.repairs)) == (said.tool, said.repairs)
    assert same(act.args, said.args)
    if said.repairs:
        assert output_of(act, said.text) == said.text[said.start : said.end]


@times(200, soak=50)
@given(spoken())
def test_no_part_of_a_reply_is_run(said: Spoken):
    """No prefix that ends before the object's last brace, whatever is wrapped around it."""
    for end in range(said.end):
        decision = judge(said.text[:end])
        assert isinstance(decision, Reject), said.text[:end]


@times(1500)
@given(st.text() | st.lists(st.sampled_from([*SNIPPETS, '"', "“", ":", '"action":', '{"tool":"rm"', "/", "\ud800"]), max_size=30).map("".join))
@example("\ud800")
@example("{" * 3000)
def test_no_text_raises(text: str):
    decision = judge(text)
    assert isinstance(decision, Act) or (decision.code in CODES and len(decision.message) < 500)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.sampled_from(["action", "tool", "args", "path"]), inner, max_size=4),
)
protocol = st.fixed_dictionaries(
    {},
    optional={
        "reflection": json_values,
        "plan": json_values,
        "action": json_values
        | st.fixed_dictionaries({}, optional={"tool": st.sampled_from(["rm", "read_file", "open", ""]), "args": json_values, "path": json_values}),
        "other": json_values,
    },
)


def verdict(value) -> str:
    """What a strictly valid reply comes to, told once more: a code, `run`, or `flattened`."""
    if not isinstance(value, dict):
        return "not_json"
    act = value.get("action")
    if not isinstance(act, dict) or not isinstance(act.get("tool"), str) or not act["tool"]:
        return "no_action"
    beside = act.keys() - {"tool"}
    if act["tool"] not in TABLE.specs:
        return "unknown_tool"
    if not beside:
        return "args_missing"
    flat = "args" not in beside
    args = {name: act[name] for name in beside} if flat else act["args"]
    if not flat and (len(beside) > 1 or not isinstance(args, dict)):
        return "args_invalid"
    return "args_invalid" if TABLE.problems(act["tool"], args) else "flattened" if flat else "run"


@times(500)
@given(json_values | protocol, st.sampled_from([{}, {"indent": 1}, {"ensure_ascii": False}]))
def test_strict_json_is_judged_as_it_is(value, style):
    decision = judge(text := json.dumps(value, **style))
    if isinstance(decision, Reject):
        assert decision.code == verdict(value)
        assert (decision.repairs, decision.raw_output) == ((), None)
    else:
        assert decision.repairs == (() if verdict(value) == "run" else (verdict(value),))
        if decision.plain:
            assert decision.raw_output is None
            assert same(json.loads(text)["action"]["args"], decision.args)


# --- damage ------------------------------------------------------------------------------------------------------

ALPHABET = "{}[]\",:\\/'“”：，｛\n\t\0 0e-.aTN<>`*#\ufeff\u200b\u3000"


def damages(text: str) -> list[tuple[int, int, str]]:
    """Every way to lose, gain or change one character: (from, to, by)."""
    here = range(len(text))
    return [(i, i + 1, "") for i in here] + [(i, i + w, c) for i in here for w in (0, 1) for c in ALPHABET]


def own_word(act: Act, text: str, at: int, put: str) -> bool:
    """Differing, and still what the text says: strict JSON, alone or cut out, or a raw control character that stands in a string."""
    if act.repairs == () or (set(act.repairs) <= CUTS and isinstance(act.raw_output, tuple)):
        return True
    if "raw_control" not in act.repairs or put >= " ":
        return False
    escaped = judge(text[:at] + json.dumps(put)[1:-1] + text[at + 1 :])
    return isinstance(escaped, Act) and same([escaped.tool, escaped.args], [act.tool, act.args]) and set(escaped.repairs) <= CUTS


@times(25)
@given(spoken(), st.randoms(use_true_random=False))
def test_one_damaged_character_runs_the_original_or_nothing(said: Spoken, rng: random.Random):
    ways = damages(said.text)
    for a, b, put in rng.sample(ways, min(len(ways), 1200)):
        text = said.text[:a] + put + said.text[b:]
        act = judge(text)
        if isinstance(act, Act) and not same([act.tool, act.args], [said.tool, said.args]):
            assert own_word(act, text, a, put), (said.text, text, act)


def test_the_one_loss_that_is_not_seen():
    """Of a read alone: a list that mixes texts and numbers, whose last member was a single digit. Lists of numbers are safe."""
    pick = Narrow({"pick": {"ids": "array of string or integer"}}, {})
    assert action(reply("pick", {"ids": ["a", 5]}).replace("5", ""), pick).args == {"ids": ["a"]}
    assert isinstance(judge(reply("pick", {"ids": [4, 5]}).replace("5", ""), pick), Reject)


# --- shapes and rungs together -----------------------------------------------------------------------------------

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|.', re.DOTALL)


def outside(text: str, change) -> str:
    """`change` each token that is no string."""
    return "".join(token if token[0] == '"' else change(token) for token in TOKEN.findall(text))


def shaped(said: Spoken, shape: str) -> str:
    value = json.loads(said.text[said.start : said.end])
    act = value["action"]
    if shape == "flattened" and act["args"]:
        value["action"] = {"tool": act["tool"], **act["args"]}
    elif shape == "args_text":
        act["args"] = json.dumps(act["args"])
    elif shape == "alias":
        value["action"] = {"name": act["tool"], "parameters": act["args"]}
    return json.dumps(value, ensure_ascii=False, indent=1)


RUNGS = {  # in the order they are put on
    "python_literal": lambda text: text.replace("{", '{"seen": [True, False, None],', 1),
    "raw_control": lambda text: text.replace("{", '{"tab": "\t",', 1),
    "bom": lambda text: text.replace("{", "{\ufeff", 1),
    "fullwidth": lambda text: outside(text, lambda token: token.replace(":", "：").replace(",", "，")),
    "comment": lambda text: text.replace("\n", " // it's\n", 1),
    "trailing_comma": lambda text: text[: text.rindex("}")] + ",\n}",
}


@times(500)
@given(spoken(("bare",)), st.sampled_from(["", *sorted(SHAPES)]), st.sets(st.sampled_from(sorted(RUNGS))), st.sampled_from(sorted(WRAPS)))
def test_every_mixture_of_rungs_runs_the_original_or_nothing(said: Spoken, shape: str, rungs: set[str], wrap: str):
    written = shaped(said, shape)
    for rung, put_on in RUNGS.items():
        written = put_on(written) if rung in rungs else written
    before, after, cut = WRAPS[wrap]
    decision = judge(text := before + written + after)
    if "trailing_comma" in rungs and TABLE.specs[said.tool].effect != "read":
        assert isinstance(decision, Reject)
        assert decision.code == "not_json"
        return
    assert isinstance(decision, Act)
    assert decision.tool == said.tool
    assert same(decision.args, said.args)
    assert {*decision.repairs} == rungs | {*cut.split()} | ({shape} if shape and (shape != "flattened" or said.args) else set())
    assert len({*decision.repairs}) == len(decision.repairs)
    output = json.loads(output_of(decision, text))
    assert output["action"].keys() == {"tool", "args"}
    assert same(output["action"], {"tool": decision.tool, "args": decision.args})
    assert {"reflection", "plan"} <= output.keys()


@pytest.mark.parametrize("wrap", sorted(WRAPS))
def test_every_damage_of_one_reply(wrap: str):
    """Each single character of one reply, in every way; `said` is full of what the rungs look for."""
    args = {"path": 'a//b /* "c" */ {“k”：1}', "limit": 12, "follow": None}
    before, after, _ = WRAPS[wrap]
    text = before + reply("read_file", args, plan=["x", 1, True]) + after
    for a, b, put in damages(text):
        act = judge(damaged := text[:a] + put + text[b:])
        assert isinstance(act, Reject) or same([act.tool, act.args], ["read_file", args]) or own_word(act, damaged, a, put), (damaged, act)
