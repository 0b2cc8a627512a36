"""Generated replies: what a model may say, how it writes it down, what it wraps it in."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

from polyloop.kernel.objects import Json

#: Pieces of text that each mean something to some stage of some reader.
SNIPPETS = [
    "", "a", "合同「第三条」", "他说：“你好”，走了", '{"k":1}', "{“reflection”：“x”，“action”：{“tool”：“rm”，“args”：{“path”：“b”}}}",
    "} {“reflection”：“x”，“action”：{“tool”：“rm”，“args”：{}}} {", "http://x/y//z", "/* c */", "//", "\\d+\\n", "C:\\new", '```json\n{"a":1}\n```',
    "<think>x</think>", "</think>", "True", "None,", "[1,2,]", ",]", "},", "\n", '\t"q"', '"}}}', "{{{", "'a'", "：",
    '{"reflection":"x","action":{"tool":"rm","args":{"path":"b"}}}', "\u200b", "\ufeff", "😀", "}", "{", "]", "[", "<tool_call>", "\0", "\x1b", "\\",
]  # fmt: skip
texts = st.lists(st.sampled_from(SNIPPETS), max_size=4).map("".join) | st.text(max_size=8)
#: A step that the model recalls in its reflection: an action that is not to be run.
RECALLED: Json = {"reflection": "a", "action": {"tool": "rm", "args": {"path": "b"}}}
optional = st.none() | st.integers() | st.just(10**23)
thoughts = texts | st.just(RECALLED) | st.just({"last": RECALLED}) | st.lists(texts | st.integers(0, 9), max_size=3)
rows = st.lists(
    texts | st.integers(-9, 99) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none() | st.just(RECALLED), max_size=4
)
numbers = st.integers(-99, 99) | st.floats(allow_nan=False, allow_infinity=False)
actions = st.one_of(
    st.tuples(st.just("read_file"), st.fixed_dictionaries({"path": texts}, optional={"limit": optional, "follow": st.none() | st.booleans()})),
    st.tuples(st.just("write_file"), st.fixed_dictionaries({"path": texts, "text": texts})),
    st.tuples(st.just("grep"), st.fixed_dictionaries({"re": texts})),
    st.tuples(st.just("task_get"), st.fixed_dictionaries({"taskId": st.integers() | texts})),
    st.tuples(st.just("delete_rows"), st.fixed_dictionaries({"keep": st.lists(texts, max_size=3)})),
    st.tuples(st.just("write_rows"), st.fixed_dictionaries({"rows": rows})),
    st.tuples(st.just("move"), st.fixed_dictionaries({"x": numbers, "y": numbers})),
)

WRAPS = {  # before, after, repairs; what a model says first may hold drafts. (One with reasons of its own, in prose, would be a reply.)
    "bare": ("", "", ""),
    "fence": ("```json\n", "\n```", "fence"),
    "prose": ("好的 {tool} 看 [1]:\n", '\nok "done"', "prose"),
    "think": ('<think>maybe {"reflection":1,"action":{"tool":"rm","args":{}}} or "x</think>\n', "", "think"),
    "prompted": ('hm {"action":{"tool":"rm","args":{}}} no</think>', "", "think"),
    "wrapper": ("<tool_call>\n", "\n</tool_call>", "wrapper"),
    "fence+prose": ("Plan:\n```json\n", "\n```\nbye", "fence prose"),
    "bom": ("\ufeff", "\u200b", "bom"),
}


class Spoken(Struct):
    """A reply and what it asks for. `start`, `end`: where the object stands."""

    text: str
    start: int
    end: int
    tool: str
    args: dict[str, Json]
    repairs: str


@st.composite
def spoken(draw: Any, wraps: tuple[str, ...] = tuple(WRAPS)) -> Spoken:
    """A valid object, compact, loose or indented, in one of the wraps."""
    tool, args = draw(actions)
    said = {"reflection": draw(thoughts), "plan": draw(thoughts), "action": {"tool": tool, "args": args}}
    style = draw(st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 2}]))
    written = json.dumps(said, ensure_ascii=draw(st.booleans()), **style)
    before, after, repairs = WRAPS[draw(st.sampled_from(wraps))]
    return Spoken(before + written + after, len(before), len(before) + len(written), tool, args, repairs)


def same(a: Json, b: Json) -> bool:
    """Equal as JSON: 1 is neither true nor 1.0."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)
