"""A narrow registry for these tests: tools from one line of the case table, checked by a full JSON Schema validator."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs

from polyloop.kernel.json_text import JsonText
from polyloop.kernel.objects import Json, ToolSpec
from polyloop.kernel.seams import Act, Reject, Reply

CASES = Path(__file__).parents[2] / "cases"
REPLIES = [json.loads(line) for line in (CASES / "replies.jsonl").read_text().splitlines()]
HANDED = [case for line in (CASES / "handed.jsonl").read_text().splitlines() if (case := json.loads(line))["area"] == "protocol"]


def schema(words: Mapping[str, str]) -> dict[str, Any]:
    """From the table's words: `{"path": "string, required"}`, with `or` and `array of`; closed."""
    properties, required = {}, []
    for name, said in words.items():
        kinds = said.removesuffix(", required")
        if kinds != said:
            required.append(name)
        head, _, items = kinds.partition(" of ")
        properties[name] = {"type": head.split(" or ")} | ({"items": {"type": items.split(" or ")}} if items else {})
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


class Narrow:
    """Implements `kernel.seams.Tools`."""

    def __init__(self, tools: Mapping[str, Mapping[str, str]], effects: Mapping[str, str]) -> None:
        self.specs = {name: ToolSpec(name, "", schema(words), effect=effects.get(name, "read")) for name, words in tools.items()}
        self._validators = {name: jsonschema_rs.Draft202012Validator(spec.schema) for name, spec in self.specs.items()}

    def problems(self, tool: str, args: Json) -> list[dict[str, Json]]:
        try:
            return [{"path": _path(e.instance_path), "issue": e.message} for e in self._validators[tool].iter_errors(args)]
        except UnicodeEncodeError:  # the validator knows UTF-8 only: a lone surrogate is checked as another character
            return self.problems(tool, json.loads(re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(args, ensure_ascii=False))))


def _path(steps: list[str | int]) -> str:
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps).lstrip(".")


TABLE = Narrow(REPLIES[0]["tools"], REPLIES[0]["effects"])


def judge(text: str, tools: Narrow = TABLE, finish_reason: str = "stop") -> Act | Reject:
    """The one decision."""
    (decision,) = JsonText().interpret(Reply(text, finish_reason=finish_reason), tools)
    assert isinstance(decision, Act | Reject)
    return decision


def refusal(text: str, tools: Narrow = TABLE, finish_reason: str = "stop") -> Reject:
    decision = judge(text, tools, finish_reason)
    assert isinstance(decision, Reject), decision
    return decision


def action(text: str, tools: Narrow = TABLE) -> Act:
    decision = judge(text, tools)
    assert isinstance(decision, Act), decision
    return decision


def reply(tool: str, args: Json, **more: Json) -> str:
    """A clean reply."""
    return json.dumps({"reflection": "r", "plan": "p", "action": {"tool": tool, "args": args}} | more, ensure_ascii=False)


def output_of(decision: Act | Reject, text: str) -> str:
    """The text that was judged, as a reader of the log finds it."""
    raw = decision.raw_output
    return text if raw is None else raw if isinstance(raw, str) else text[slice(*raw)]
