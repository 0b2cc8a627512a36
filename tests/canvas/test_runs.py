"""Canvas tools in runs, and the command line: what an agent is given, what it may do, what survives a kill."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyloop.canvas.doings import AGENT, DOINGS
from polyloop.canvas.model import EMPTY
from polyloop.cli.main import app
from polyloop.dialogue.policy import policy
from polyloop.media.runtime import TOOLS
from tests import outside
from tests.canvas.easel import node

KILLED = Path(__file__).parents[1] / "documents" / "killed_run.py"
REQUEST = """
run_id = "r1"
model = "script:replies.jsonl"
tools = ["canvas_*", "submit"]
completes = ["submit"]
permission_mode = "{mode}"
canvas = "{canvas}"
[agent]
id = "a"
[budget]
max_valid_steps = 20
max_iterations = 30
[[segments]]
name = "task"
text = "Draw."
"""


def line(name: str, **args: Any) -> str:
    return json.dumps({"text": json.dumps({"action": {"tool": name, "args": args}})}) + "\n"


READ = [line("canvas_get_state"), line("canvas_list_node_types")]
WRITE = line("canvas_apply_ops", snapshotHash=EMPTY[0], ops=[node("a", content="hello")])
SUBMIT = line("submit", summary="done")


def polyloop(*words: object, stdin: str = "") -> tuple[int, Any]:
    """A command that ends by itself: in this process."""
    done = CliRunner().invoke(app, [*map(str, words), "--json"], input=stdin)
    return done.exit_code, json.loads(done.stdout)


def run(folder: Path) -> tuple[int, Any]:
    """`polyloop run` leaves its process for good, so it has one of its own."""
    done = outside.command(Path.cwd(), "run", folder / "r.toml", "--store", folder / "s.db", "--json")
    return done.code, json.loads(done.out)


def lay(folder: Path, lines: Iterable[str], mode: str = "auto") -> str:
    """A request for a new canvas, whose id is told."""
    canvas = polyloop("canvas", "new", "--title", "T", "--store", folder / "s.db")[1]["canvasId"]
    (folder / "r.toml").write_text(REQUEST.format(canvas=canvas, mode=mode))
    (folder / "replies.jsonl").write_text("".join(lines))
    return canvas


def ids(folder: Path, canvas: str) -> list[str]:
    return [
        n["id"]
        for n in polyloop("canvas", "call", "canvas_get_state", "--canvas", canvas, "--args", "-", "--store", folder / "s.db", stdin="{}")[1]["nodes"]
    ]


def test_an_agent_reads_writes_and_is_given_the_rules(tmp_path: Path) -> None:
    canvas = lay(tmp_path, [WRITE, *READ, WRITE, SUBMIT])
    code, result = run(tmp_path)
    assert (code, result["reason"]) == (0, "completed")
    assert ids(tmp_path, canvas) == ["a"], "the first was refused: nothing had been read"
    log = CliRunner().invoke(app, ["log", "r1", "--jsonl", "--store", str(tmp_path / "s.db")])
    start = next(r for r in map(json.loads, log.stdout.splitlines()) if r["kind"] == "run_started")
    assert start["assembly"]["policy.canvas"] == policy("canvas").mark
    assert start["assembly"]["canvas"] == canvas
    assert {t["name"] for t in start["tools"]} == {*AGENT, "submit"}


def test_S1_48_read_only_writes_nothing(tmp_path: Path) -> None:
    canvas = lay(tmp_path, [*READ, WRITE, SUBMIT], "read_only")
    assert run(tmp_path)[0] == 0
    assert ids(tmp_path, canvas) == []


def test_S1_49_request_approval_waits(tmp_path: Path) -> None:
    canvas = lay(tmp_path, [*READ, WRITE, SUBMIT], "request_approval")
    code, waiting = run(tmp_path)
    assert (code, waiting["waiting"]["kind"], ids(tmp_path, canvas)) == (5, "approval", [])
    polyloop("approvals", "approve", waiting["waiting"]["token"], "--store", tmp_path / "s.db")
    assert (run(tmp_path)[0], ids(tmp_path, canvas)) == (0, ["a"])


@pytest.mark.parametrize("when", ["before", "after"])
def test_S1_42_a_run_killed_beside_its_write_has_one_node(tmp_path: Path, when: str) -> None:
    canvas = lay(tmp_path, [*READ, WRITE, SUBMIT])
    killed = outside.run(KILLED, when, "canvas_apply_ops", tmp_path / "r.toml", tmp_path / "s.db", capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    code, result = run(tmp_path)
    assert (code, result["reason"], ids(tmp_path, canvas)) == (0, "completed", ["a"])


def test_without_a_canvas_there_are_no_tools_for_one(tmp_path: Path) -> None:
    lay(tmp_path, [SUBMIT])
    request = (tmp_path / "r.toml").read_text()
    (tmp_path / "r.toml").write_text("\n".join(part for part in request.splitlines() if not part.startswith("canvas =")))
    code, told = run(tmp_path)
    assert (code, told["error"]["kind"]) == (2, "validation")


def test_what_is_for_people_is_no_tool() -> None:
    assert {name for name, doing in DOINGS.items() if doing.people} == set(DOINGS) - set(AGENT)
    assert "canvas_new" not in AGENT


def test_command_line(tmp_path: Path) -> None:
    store = ("--store", tmp_path / "s.db")
    code, made = polyloop("canvas", "new", "--title", "T", *store)
    assert (code, made["snapshotHash"], made["receipt"]["status"]) == (0, EMPTY[0], "success")
    canvas = made["canvasId"]
    call = ("canvas", "call", "canvas_apply_ops", "--canvas", canvas, "--args", "-", *store)
    args = json.dumps({"snapshotHash": EMPTY[0], "ops": [node("a")]})
    assert polyloop(*call, "--mode", "read_only", stdin=args)[0] == 6
    code, asked = polyloop(*call, "--mode", "request_approval", stdin=args)
    plan = asked["error"]["details"]["planId"]
    assert (code, polyloop("approvals", "list", *store)[1]["approvals"][0]["id"]) == (5, plan)
    assert polyloop(*call, "--dry-run", stdin=args)[1]["executed"] is False
    polyloop("approvals", "approve", plan, *store)
    assert polyloop(*call, "--mode", "request_approval", "--plan", plan, stdin=args)[0] == 0
    assert polyloop(*call, stdin=args)[0] == 7, "stale"
    assert polyloop(*call, "--session", "s", stdin=args)[1]["error"]["details"]["issue"] == "read_first"
    assert polyloop(*call, "--owner", "bob", stdin=args)[1]["error"]["kind"] == "not_found"
    assert polyloop(*call, "--mode", "odd", stdin=args)[0] == 2
    assert polyloop(*call, stdin="[]")[0] == 2
    assert polyloop("canvas", "call", "canvas_none", "--canvas", canvas, "--args", "-", *store, stdin="{}")[0] == 2
    assert polyloop("canvas", "list", *store)[1] == {"canvases": [{"canvasId": canvas, "title": "T"}]}
    assert polyloop("canvas", "list", "--owner", "bob", *store)[1] == {"canvases": []}
    assert [t["name"] for t in polyloop("canvas", "tools")[1]["tools"]] == [*DOINGS, *TOOLS]
    assert polyloop("canvas", "schema", "canvas_apply_ops")[1]["additionalProperties"] is False
    assert polyloop("canvas", "schema", "none")[0] == 2
    for words in (
        ["canvas", "new", "--title", "P"],
        ["canvas", "list"],
        ["canvas", "tools"],
        ["canvas", "call", "canvas_get_state", "--canvas", "none"],
    ):
        told = CliRunner().invoke(app, [*words, *(["--args", "-"] if "call" in words else []), *map(str, store), "--lang", "en"], input="{}")
        assert told.stdout
        assert told.exit_code == (2 if "call" in words else 0)


def test_what_is_written_on_a_canvas_cannot_steer_a_terminal(tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "s.db")]
    title = "a\x1b[2J\x9b31m\u202eb\nc"
    for words in (["canvas", "new", "--title", title], ["canvas", "list"]):
        done = CliRunner().invoke(app, [*words, *store])
        assert done.exit_code == 0
        assert "2J" in done.stdout
        assert [c for c in done.stdout if not (c.isprintable() or c == "\n")] == []
