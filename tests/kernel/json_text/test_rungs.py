"""Every rung at work, every rung held back, and what a decision says of itself."""

from __future__ import annotations

import json

import pytest

from polyloop.kernel.json_text import CUT_SHORT, TEXT_MAX_BYTES, JsonText
from polyloop.kernel.seams import Act
from tests.kernel.json_text.narrow import TABLE, Narrow, action, judge, output_of, refusal, reply

CLEAN = reply("read_file", {"path": "a.md"})
HEAD = '{"reflection":"r","plan":"p","action":'
DRAFT = reply("rm", {"path": "b"}).replace('"', "“", 1)  # no strict JSON
RM = {"path": "b"}


def acting(said: str) -> str:
    """A reply whose action is written as it stands."""
    return HEAD + said + "}"


RUN = [  # text, repairs, args of read_file, raw_output (None = the clean span or as is)
    ("whitespace around is no repair", f" \n{CLEAN}\t", "", None),
    ("bom behind", CLEAN + "\ufeff", "bom", None),
    ("bom before the reasoning", f"\ufeff <think>x</think>{CLEAN}", "bom think", None),
    ("zero width beside structure", CLEAN.replace('"plan"', '"plan"\u200b'), "bom", CLEAN.replace('"plan"', '"plan" ')),
    ("thinking", f"<thinking>{DRAFT}</thinking>\n{CLEAN}", "think", None),
    ("reasoning with loose brackets", f'<think>{{[" }} it\'s</think>{CLEAN}', "think", None),
    ("reasoning opened by the prompt", f"so I read it {DRAFT.replace('“', chr(34))}.\n</think>\n{CLEAN}", "think", None),
    ("fence of a language that never ends", f"```json\n{CLEAN}", "fence", None),
    ("fence with Windows lines", f"```json\r\n{CLEAN}\r\n```\r\n", "fence", None),
    ("fence in a wrapper", f"<tool_call>```\n{CLEAN}```</tool_call>", "fence wrapper", None),
    ("wrapper in a fence", f"```xml\n<json>{CLEAN}</json>\n```", "fence wrapper", None),
    ("fence of something else", f"```sh\nls -l\n```\n{CLEAN}", "prose", None),
    ("tag nobody knows", f"<call>{CLEAN}</call>", "prose", None),
    ("tag that is not closed", f"<tool_call>{CLEAN}", "prose", None),
    ("unknown blank", f"{CLEAN}\xa0", "prose", None),
    ("a NUL outside", f"\0{CLEAN}", "prose", None),
    ("objects of other kinds", f'data {{"id": 1}} and {{x}} [1] [{{"id": 2}}] {{}}: {CLEAN}', "prose", None),
    ("brackets in prose", f'[12:30] [“附件”] ["a"](b) [Tom\'s]: {CLEAN}', "prose", None),
    ("twice, once fenced", f"{CLEAN}\n```json\n{CLEAN}\n```", "fence duplicate", None),
    ("twice, once without its reasons", f'x {{"action":{{"tool":"read_file","args":{{"path":"a.md"}}}}}} {CLEAN}', "prose duplicate", None),
    ("line comment", CLEAN.replace('"plan"', '// it\'s why: {[\n"plan"'), "comment", CLEAN.replace('"plan"', ' \n"plan"')),
    ("block comments", CLEAN.replace(": ", "/* ** } */:", 1), "comment", CLEAN.replace(": ", " :", 1)),
    ("comment behind a trailing comma", CLEAN[:-1] + ", // last\n}", "comment trailing_comma", CLEAN[:-1] + "   \n}"),
    ("trailing comma on its own line", CLEAN[:-1] + " \n,\n}", "trailing_comma", CLEAN[:-1] + " \n \n}"),
    ("full-width trailing comma", CLEAN[:-1] + "，}", "trailing_comma", CLEAN[:-1] + " }"),
    ("trailing comma behind a literal", acting('{"tool":"read_file","args":{"path":"a.md","limit":null,},}'), "trailing_comma", ...),
    ("half full-width", CLEAN.replace(",", "，").replace(": ", "："), "fullwidth", CLEAN.replace(": ", ":")),
    ("curly strings with escapes", CLEAN.replace('"r"', '“\\\\ \\" \\u201d ：，”'), "fullwidth", CLEAN.replace('"r"', '"\\\\ \\" \\u201d ：，"')),
    ("literals", CLEAN.replace('"r"', "[True, False, None]"), "python_literal", CLEAN.replace('"r"', "[true, false, null]")),
    ("raw control behind an escaped backslash", CLEAN.replace('"r"', '"\\\\\n"'), "raw_control", CLEAN.replace('"r"', '"\\\\\\n"')),
    ("reflect", CLEAN.replace("reflection", "reflect"), "alias", ...),
    ("reflect beside reflection is no alias", '{"reflect":1,' + CLEAN[1:], "", None),
    ("other keys", '{"thought":{},' + CLEAN[1:], "", None),
    ("tool under another name", acting('{"name":"read_file","args":{"path":"a.md"}}'), "alias", ...),
    ("both under other names", acting('{"tool_name":"read_file","parameters":{"path":"a.md"}}'), "alias", ...),
    ("arguments as text under another name", acting('{"tool":"read_file","arguments":"{\\"path\\":\\"a.md\\"}"}'), "alias args_text", ...),
    ("all aliases are one repair", '{"reflect":"r","action":{"name":"read_file","input":{"path":"a.md"}}}', "alias", ...),
    ("flat, and the name too", '{"reflect":"r","plan":"p","action":{"name":"read_file","path":"a.md"}}', "alias flattened", ...),
    ("fenced, commented, flat", '```\n{"plan":1,/* c */"action":{"tool":"read_file","path":"a.md"}}\n```', "fence comment flattened", ...),
    ("prose and reflect", 'x {"reflect":"r","action":{"tool":"read_file","args":{"path":"a.md"}}}', "prose alias", ...),
]  # fmt: skip


@pytest.mark.parametrize(("text", "repairs", "raw"), [row[1:] for row in RUN], ids=[row[0] for row in RUN])
def test_what_runs(text, repairs, raw):
    act = action(text)
    assert (act.tool, {"path": "a.md", **act.args}["path"]) == ("read_file", "a.md")
    assert act.repairs == tuple(repairs.split())
    assert act.plain == (not repairs)
    output = json.loads(output_of(act, text))
    assert output["action"] == {"tool": act.tool, "args": act.args}
    if raw is None:
        assert act.raw_output is None if act.plain else isinstance(act.raw_output, tuple)
    elif raw is not ...:
        assert act.raw_output == raw


def test_a_declared_parameter_is_no_alias():
    asks = Narrow({"ask": {"input": "string", "name": "string"}}, {})
    act = action(acting('{"tool":"ask","input":"{}","name":"n"}'), asks)
    assert (act.args, act.repairs) == ({"input": "{}", "name": "n"}, ("flattened",))


REFUSED = [
    ("only blanks", " \n", "not_json"),
    ("a text", '"{}"', "not_json"),
    ("a list of one", f"[{CLEAN}]", "not_json"),
    ("a list of one, then prose", f"[{CLEAN}] done", "not_json"),
    ("a list that lost its end", f"[{CLEAN}", "truncated"),
    ("a list that lost its start", f"{CLEAN}]", "not_json"),
    ("a closing bracket too many", CLEAN + "}", "not_json"),
    ("quoted as text", json.dumps(CLEAN) + "x", "truncated"),
    ("a member of a broken object", f'"reflection":{CLEAN},"plan":1', "not_json"),
    ("a member of a broken curly object", f"“reflection”：{CLEAN}", "not_json"),
    ("followed by members of a broken object", f'{CLEAN}, "plan": 1', "not_json"),
    ("empty object", "{}", "no_action"),
    ("placeholder", "{tool}", "not_json"),
    ("action is a text", '{"reflection":"r","action":"read_file"}', "no_action"),
    ("tool is no text", acting('{"tool":7,"args":{}}'), "no_action"),
    ("tool is empty", acting('{"tool":"","args":{}}'), "no_action"),
    ("two names for the tool", acting('{"name":"rm","tool_name":"rm","args":{}}'), "no_action"),
    ("at the top", '{"tool":"read_file","args":{"path":"a.md"}}', "no_action"),
    ("only a draft", f"<think>{CLEAN}</think>", "not_json"),
    ("reasoning that never ends", f"<think>{CLEAN}", "truncated"),
    ("reasoning ended by another tag", f"<think>{CLEAN}</thinking>", "truncated"),
    ("a draft in later reasoning", f"ok <think>{CLEAN}</think>", "not_json"),
    ("two reasonings", f"<think>a</think>{CLEAN}<think>b</think>", "not_json"),
    ("reasoning ended twice", f"a</think>{CLEAN}</think>", "not_json"),
    ("reasoning quoted its own end", f'<think>"</think>" {CLEAN} no</think>{CLEAN}', "not_json"),
    ("an action and half of one", f'{CLEAN} {{"reflection":"r","acton":{{}}}}', "multiple_actions"),
    ("an action and one in single quotes", f"{CLEAN} {{'action':{{'tool':'rm'}}}}", "not_json"),
    ("an action and one without quotes", f"{CLEAN} {{action:{{tool:rm}}}}", "not_json"),
    ("1 is not 1.0", reply("move", {"x": 1}) + reply("move", {"x": 1.0}), "multiple_actions"),
    ("an action, then half a draft", CLEAN + HEAD, "truncated"),
    ("hidden behind a line comment", HEAD + '// {"tool":"rm"}}', "truncated"),
    ("comment that never ends", HEAD + "/* ", "truncated"),
    ("comment with a quote", CLEAN.replace('"plan"', '// "force": 1\n"plan"'), "not_json"),
    ("block comment with a quote", CLEAN.replace('"plan"', '/* " */"plan"'), "not_json"),
    ("curly string that never ends", '{"reflection":“r', "truncated"),
    ("quote inside a curly string", CLEAN.replace('"r"', '“他说"好"”'), "not_json"),
    ("curly inside a curly string", CLEAN.replace('"r"', "“他说“好”了”"), "not_json"),
    ("string ended by the other quote", CLEAN.replace('"r"', '"r”'), "truncated"),
    ("escaped newline", CLEAN.replace('"r"', '"\\\n"'), "bad_escape"),
    ("half an escape", CLEAN.replace('"r"', '"\\u12"'), "bad_escape"),
    ("literals glued to words", CLEAN.replace('"r"', "NoneTrue"), "not_json"),
    ("comment between digits glues nothing", reply("read_file", {"path": "a", "limit": 12}).replace("12", "1/**/2"), "not_json"),
    ("zero width between digits", reply("read_file", {"path": "a", "limit": 12}).replace("12", "1\u200b2"), "not_json"),
    ("zero width for a sign", reply("move", {"x": -3}).replace("-3", "\u200b3"), "not_json"),
    ("zero width for a member", reply("write_rows", {"rows": [1]}).replace("1", "\ufeff"), "not_json"),
    ("thousands", reply("write_rows", {"rows": [1000]}).replace("1000", "1，000"), "not_json"),
    ("full-width comma for a point", reply("write_rows", {"rows": [1.5]}).replace(".", "，"), "not_json"),
    ("full-width brackets", CLEAN.replace("{", "｛").replace("}", "｝"), "not_json"),
    ("comma for a digit", reply("read_file", {"path": "a", "limit": 12}).replace("2", ","), "not_json"),
    ("comma without a value", acting('{"tool":"read_file","args":{,}}'), "not_json"),
    ("two commas", CLEAN.replace('"p"', '["a",,]'), "not_json"),
    ("trailing comma on pay", acting('{"tool":"generate_media","args":{"nodeId":"n",}}'), "not_json"),
    ("trailing comma, unknown tool", acting('{"tool":"open","args":{"nodeId":"n",}}'), "unknown_tool"),
    ("NaN in the reflection", CLEAN.replace('"r"', "NaN"), "not_json"),
    ("beyond a float", reply("move", {}).replace("{}", '{"x":1e999}'), "not_json"),
    ("beyond a float, in a list with an action", f"[1e999, {CLEAN}]", "not_json"),
    ("twice in the arguments", reply("read_file", {}).replace("{}", '{"path":"a","\\u0070ath":"b"}'), "duplicate_keys"),
    ("twice, fenced", f'```\n{CLEAN[:-1]}, "plan":1}}\n```', "duplicate_keys"),
    ("twice, with a lone surrogate", '{"a":"\\ud800","b":1,"b":2}', "duplicate_keys"),
    ("a number too long", CLEAN.replace('"r"', "1" * 5000), "too_large"),
    ("deep, and damaged", CLEAN.replace('"r"', "[" * 64 + "]" * 64) + ".", "too_large"),
    ("deeper than the parser goes", '{"plan":' * 3000, "too_large"),
    ("too many placeholders", "{x}" * 1001 + CLEAN, "too_large"),
    ("too many objects", '{"x":1}' * 65 + CLEAN, "too_large"),
    ("too much", reply("write_file", {"text": "文" * 350_000}), "too_large"),
    ("both args and another name", acting('{"tool":"read_file","args":{"path":"a"},"input":{}}'), "args_invalid"),
    ("two other names", acting('{"tool":"read_file","arguments":{"path":"a"},"input":{}}'), "args_invalid"),
    ("text of arguments with duplicates", acting('{"tool":"rm","args":"{\\"path\\":1,\\"path\\":2}"}'), "args_invalid"),
    ("text of arguments cut off", acting('{"tool":"rm","args":"{\\"path\\":1"}'), "args_invalid"),
    ("text of arguments too deep where it stands", acting(f'{{"tool":"write_rows","args":"{{\\"rows\\":{"[" * 62}{"]" * 62}}}"}}'), "args_invalid"),
    ("no args, though none is needed", reply("rm", {}).replace(', "args": {}', ""), "args_missing"),
    ("no args, no such tool", acting('{"tool":"open"}'), "unknown_tool"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_does_not_run(text, code):
    assert refusal(text).code == code


def test_the_limits_are_reached_and_no_more():
    filling = "文" * ((TEXT_MAX_BYTES - len(reply("write_file", {"text": ""}).encode())) // 3)
    assert action(reply("write_file", {"text": filling})).plain
    nested = reply("write_rows", {"rows": []}).replace("[]", "[" * 61 + "]" * 61)  # 61 lists in three objects
    assert action(nested).plain
    assert refusal(nested.replace("[]", "[[]]")).code == "too_large"
    assert action(nested + ".").repairs == ("prose",)
    assert action("{x}" * 900 + CLEAN).repairs == ("prose",)


@pytest.mark.parametrize("reason", sorted(CUT_SHORT))
def test_a_reply_that_was_cut_is_never_run(reason):
    no = refusal(CLEAN, finish_reason=reason)
    assert (no.code, no.raw_output, no.repairs) == ("truncated", None, ())


@pytest.mark.parametrize("reason", ["stop", "", "tool_calls", "end_turn", "STOP"])
def test_other_endings_are_endings(reason):
    assert isinstance(judge(CLEAN, finish_reason=reason), Act)


def test_what_the_stall_guard_compares():
    first, other = (reply("open", {"b": 1, "a": "\ud800"}), reply("open", {"a": "\ud800", "b": 1}, reflection="other"))
    assert refusal(first).subject == refusal(other).subject == '["open",{"a":"\\ud800","b":1}]'
    assert refusal(reply("read_file", {"path": 7})).subject == '["read_file",{"path":7}]'
    assert refusal(acting('{"tool":"read_file"}')).subject == '["read_file",{}]'
    assert refusal(acting('{"tool":"read_file","args":null}')).subject == '["read_file",null]'
    assert refusal(acting('{"tool":"read_file","arguments":7}')).subject == '["read_file",7]'
    assert refusal(acting('{"tool":"read_file","args":"7"}')).subject == '["read_file","7"]'
    assert refusal(acting('{"tool":"open","path":"a"}')).subject == '["open",{"path":"a"}]'
    assert len(refusal("\ud800").subject) == 64
    assert refusal("a").subject == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    assert [refusal(text).tool for text in (first, "a", acting('{"tool":"rm"}'))] == ["open", "", "rm"]


def test_a_refused_reply_says_what_was_judged():
    text = f"```json\n{reply('read_file', {'path': 7})}\n```"
    no = refusal(text)
    assert (no.repairs, output_of(no, text)) == (("fence",), reply("read_file", {"path": 7}))
    comma = reply("rm", {"path": "a"})[:-1] + ",}"
    assert (refusal(comma).repairs, refusal(comma).raw_output) == (("trailing_comma",), comma[:-2] + " }")
    assert refusal(reply("read_file", {"path": 7})).raw_output is None


LONG = "x" * 5000
LOUD = [
    reply(LONG, {}), acting(f'{{"tool":"rm","{LONG}":1}}'), acting(f'{{"tool":"rm","args":{{}},"{LONG}":1}}'), reply("read_file", {LONG: 1}),
    reply("read_file", {"path": "a", "follow": LONG}), reply("delete_rows", {"keep": [{LONG: 1}] * 50}), '{"a":"\\x' + LONG, LONG,
    reply("read_file", {f"{LONG}{i}": 1 for i in range(9)}), acting('{"tool":"rm",' + ",".join(f'"{i}{LONG}":1' for i in range(9)) + "}"),
]  # fmt: skip


@pytest.mark.parametrize("text", LOUD, ids=range(len(LOUD)))
def test_a_message_repeats_little_of_the_reply(text):
    no = refusal(text)
    assert no.message.count("x") <= 200 + 5  # five in our own words
    assert len(no.message) < 500
    assert len(no.tool) <= 200


def test_all_problems_are_told_with_their_paths():
    message = refusal(reply("read_file", {"follow": 1, "limit": "x", "colour": 1})).message
    assert all(word in message for word in ("follow: 1 is not", 'limit: "x" is not', "colour", '"path" is a required'))
    many = refusal(reply("delete_rows", {"keep": list(range(30))})).message
    assert "keep[7]: 7" in many
    assert many.endswith("(and 22 more)")


def test_an_unknown_tool_is_answered_with_those_there_are():
    assert refusal(reply("open", {})).message == "No tool is called open. Tools: " + ", ".join(TABLE.specs) + "."


def test_it_is_named_by_its_version():
    assert JsonText.name == JsonText().name == "json-text/1"


# What would take minutes if any stage were worse than linear; each is a reply of the greatest size.
PARTS = [
    "{", "[", '"', "\\", "//", "/*", "<think>", "</think>", "{}", "{{}}", '{"":0}', "“", "[{", "```", "\0", "\ufeff", " ", "<json>", "\n",
    '{"a":"\\', "{x}", ",", "{,", "'",
]  # fmt: skip
INNER = [
    '"",', "1,", "[],", "{},", ",", "/", "/* */", "//\n", "/**/,", "True ", "，", "：", "“a”", '"\n"', '"\\', "\ufeff", "\ufeff,", "/*,", "“",
    "[1,],", "T", " ",
]  # fmt: skip


def filled(part: str, before: str = "", after: str = "") -> str:
    return before + part * ((TEXT_MAX_BYTES - 20) // len(part.encode())) + after


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", PARTS, ids=ascii)
def test_hostile_text_takes_linear_time(part):
    assert refusal(filled(part)).code in {"not_json", "truncated", "too_large", "no_action"}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", INNER, ids=ascii)
def test_hostile_text_in_an_object_takes_linear_time(part):
    for after in ("", "]}"):
        assert refusal(filled(part, '{"a":[', after)).code in {"not_json", "truncated", "no_action", "bad_escape", "too_large"}
