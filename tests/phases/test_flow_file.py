"""`polyloop phases run FLOW.toml`, from outside: a kill between and within phases, then the same command again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.outside import command

FLOW = """
id = "f"
tenant = "acme"
workspace = "ws"
model = "script:replies.jsonl"

[[phases]]
name = "plan"
request = "REQUEST.toml"
budget = {max_valid_steps = 5, max_iterations = 9}
tools = ["workspace_write", "submit"]
required = ["a.txt", {path = "a.txt", schema = {type = "integer"}}]
"""
REQUEST = """
overflow = "window:9"
completes = ["submit"]
[agent]
id = "writer"
[[segments]]
name = "task"
text = "write"
"""
REPLIES = "".join(
    json.dumps({"text": json.dumps({"action": {"tool": tool, "args": args}})}) + "\n"
    for tool, args in [("workspace_write", {"path": "a.txt", "text": "1"}), ("submit", {"summary": "x"})]
)


def polyloop(folder: Path, *words: str) -> tuple[int, Any]:
    done = command(folder, *words, "--tenant", "acme", "--store", "runs.db")
    return done.code, done.out or done.err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("FLOW.toml", FLOW), ("REQUEST.toml", REQUEST), ("replies.jsonl", REPLIES)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_flow_is_carried_out_and_then_told(folder: Path) -> None:
    for skipped in (False, True):
        code, out = polyloop(folder, "phases", "run", "FLOW.toml", "--json")
        told = json.loads(out)
        assert (code, told["schema"], told["state"], told["phases"][0]["skipped"]) == (0, "polyloop.phases.v1", "completed", skipped)
        assert told["phases"][0]["runId"] == "f/plan/1"
    code, out = polyloop(folder, "phases", "show", "f")
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["phase_started", "phase_ended"]
    assert polyloop(folder, "verify", "f/plan/1")[0] == 0
    assert json.loads(polyloop(folder, "log", "f/plan/1", "--jsonl")[1].splitlines()[0])["overflow"] == "window(9)"
    assert polyloop(folder, "phases", "show", "g")[0] == 2


@pytest.mark.parametrize(
    ("was", "now", "code", "says"),
    [
        ('tenant = "acme"', 'tenant = "other"', 2, "belongs to tenant"),
        ("required =", "requires =", 2, "requires"),
        ("max_valid_steps = 5", "max_valid_steps = 0", 2, "max_valid_steps"),
        ('"submit"]', '"nothing"]', 2, "nothing"),
        ('schema = {type = "integer"}', 'schema = {type = "string"}', 1, "a.txt: "),
        ('required = ["a.txt", ', 'required = ["b.txt", ', 1, "b.txt: 0 of 1"),
    ],
)
def test_what_is_wrong_is_told(folder: Path, was: str, now: str, code: int, says: str) -> None:
    assert was in FLOW
    (folder / "FLOW.toml").write_text(FLOW.replace(was, now))
    found, out = polyloop(folder, "phases", "run", "FLOW.toml", "--json")
    assert (found, says in out) == (code, True)


def test_a_request_that_says_what_the_flow_says_is_refused(folder: Path) -> None:
    (folder / "REQUEST.toml").write_text('tools = ["submit"]\n' + REQUEST)
    code, out = polyloop(folder, "phases", "run", "FLOW.toml", "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (2, "validation")
