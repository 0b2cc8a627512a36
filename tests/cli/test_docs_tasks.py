"""Imports and exports from the command line: the worker elsewhere, tables for people, and a run that waits for its task."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app
from tests import outside

MD = "# 标题\n\n正文\n"
REQUEST = """
run_id = "r1"
model = "script:replies.jsonl"
tools = ["doc_*", "submit"]
completes = ["submit"]
workspace = "ws"
permission_mode = "auto"
[agent]
id = "a"
version = "1"
protocol = "native-tools/1"
[budget]
max_valid_steps = 20
max_iterations = 30
[[segments]]
name = "task"
role = "user"
text = "Export it."
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POLYLOOP_LANG", "en")
    (tmp_path / "a.md").write_text(MD)
    return tmp_path


def said(*words: str, given: dict[str, Any] | None = None) -> tuple[str, int]:
    told = CliRunner().invoke(app, ["docs", *words], input=json.dumps(given) if given is not None else None)
    return told.stdout, told.exit_code


def call(op: str, args: dict[str, Any], *words: str) -> tuple[dict[str, Any], int]:
    out, code = said("call", op, "--args", "-", "--json", *words, given=args)
    return json.loads(out), code


def test_S0_22_a_task_left_to_a_worker_is_ended_by_another_process(here: Path) -> None:
    ticket, code = call("import", {"file": "a.md"}, "--wait", "0")
    assert (code, ticket["state"], "status" in ticket) == (10, "INIT", False)
    env = {**os.environ, "POLYLOOP_LEASE_S": "1"}
    done = outside.run(*outside.POLYLOOP, "docs", "work", "--json", cwd=here, env=env, check=True, capture_output=True)
    assert [(t["taskId"], t["state"]) for t in json.loads(done.stdout)["tasks"]] == [(ticket["taskId"], "SUCCESS")]
    told, code = call("import_get", {"taskId": ticket["taskId"]})
    assert (code, told["success"], told["documentName"]) == (0, True, "a")
    submitted, code = call("export_submit", {"nodeId": told["nodeId"], "format": "pdf", "output": "out/a.pdf"})
    assert code == 10
    (here / "elsewhere").mkdir()
    out, code = said("work", "--store", str(here / ".polyloop/runs.db"))
    assert (code, submitted["taskId"] in out, "done" in out) == (0, True, True)
    assert (here / "out/a.pdf").read_bytes().startswith(b"%PDF-")
    assert said("work")[0] == "No task is waiting.\n"


def test_a_worker_that_was_killed_is_followed_by_another(here: Path) -> None:
    ticket, _ = call("import", {"file": "a.md"}, "--wait", "0")
    script = (
        "import os, signal\nimport polyloop.documents.worker as w\n"
        "real = w._read\nw._read = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        "import sys\nfrom polyloop.cli.main import main\nsys.argv[1:] = ['docs', 'work']\nmain()\n"
    )
    env = {**os.environ, "POLYLOOP_LEASE_S": "0.5"}
    killed = outside.run("-c", script, cwd=here, env=env, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert call("import_get", {"taskId": ticket["taskId"]})[0]["state"] == "PROCESSING"
    outside.run(*outside.POLYLOOP, "docs", "work", cwd=here, env=env, check=True, capture_output=True)
    assert call("import_get", {"taskId": ticket["taskId"]})[1] == 0
    listed, _ = call("list", {})
    assert listed["count"] == 1


def test_for_people_there_are_tables_and_sentences() -> None:
    out, code = said("call", "import", "--args", "-", given={"file": "a.md"})
    assert (code, out.splitlines()[0]) == (0, "doc.import: done.")
    assert said("call", "import", "--args", "-", "--wait", "0", given={"file": "a.md", "title": "长标题"})[0].split()[1:3] == ["waiting", "import"]
    said("work")
    lines = said("call", "list", "--args", "-", given={})[0].splitlines()
    assert [re.split(r" {2,}", line)[1:] for line in lines] == [["resourceType", "title"], ["document", "a"], ["document", "长标题"]]
    out, code = said("call", "export", "--args", "-", given={"title": "a", "format": "markdown", "output": "a.md"})
    assert (code, out.splitlines()[1]) == (7, "conflict: a.md exists already")
    (Path("s.csv")).write_text("a,b\n1\n")
    assert "rows of different lengths are kept as they are" in said("call", "import", "--args", "-", given={"file": "s.csv"})[0]


def test_where_files_are_is_said_once(here: Path) -> None:
    (here / "w").mkdir()
    (here / "w/b.md").write_text(MD)
    told, code = call("import", {"file": "b.md"}, "--workdir", "w")
    assert code == 0
    assert call("export", {"nodeId": told["nodeId"], "format": "html", "output": "c.html"}, "--workdir", "w")[1] == 0
    assert (here / "w/c.html").exists()
    assert call("import", {"file": "b.md"}, "--workdir", "w", "--dry-run")[0]["plan"]["resolved"]["file"] == "b.md"
    assert call("import", {"file": "b.md"}, "--dry-run")[1] == 2
    assert call("import", {"file": "../a.md"}, "--workdir", "w")[1] == 6
    assert call("import", {"file": "b.md"}, "--workdir", "none")[1] == 2


def test_the_store_is_no_file_of_the_folder(here: Path) -> None:
    told, code = call("import", {"file": "a.md"}, "--store", "mine.db")
    assert code == 0
    assert call("import", {"file": "mine.db", "asUpload": True}, "--store", "mine.db")[1] == 6
    before = (here / "mine.db").read_bytes()[:100]
    for output in ("mine.db", "MINE.DB", "mine.db-wal"):
        args = {"nodeId": told["nodeId"], "format": "markdown", "output": output, "overwrite": True}
        assert call("export", args, "--store", "mine.db")[1] == 6
    assert (here / "mine.db").read_bytes()[:100] == before


def polyloop(*words: str) -> tuple[dict[str, Any], int]:
    told = outside.run(*outside.POLYLOOP, *words, "--json", capture_output=True)
    return json.loads(told.stdout), told.returncode


def test_S0_24_a_run_waits_for_its_export_and_goes_on_when_it_has_ended(here: Path) -> None:
    node_id = call("import", {"file": "a.md"})[0]["nodeId"]
    export = json.dumps({"nodeId": node_id, "format": "docx", "output": "a.docx"})
    done = {"name": "submit", "arguments": '{"summary": "exported"}'}
    lines = [
        {"tool_calls": [{"id": "c1", "name": "doc_export_submit", "arguments": export}, {"id": "c2", **done}]},
        {"tool_calls": [{"id": "c3", **done}]},
    ]
    (here / "replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (here / "r.toml").write_text(REQUEST)
    told, code = polyloop("run", "r.toml")
    assert (code, told["state"], told["waiting"]["kind"]) == (10, "waiting", "task"), "and the submission of the same reply was not executed"
    assert polyloop("resume", "r1")[1] == 10
    assert not (here / "ws/a.docx").exists()
    assert said("work")[1] == 0
    assert (here / "ws/a.docx").exists(), "where the run has its files"
    told, code = polyloop("resume", "r1")
    assert (code, told["reason"]) == (0, "completed")


def test_a_terminal_is_told_how_far_it_has_come_and_nothing_else_is(here: Path) -> None:
    words = (*outside.POLYLOOP, "docs", "call", "import", "--args", "a.json")
    (here / "a.json").write_text('{"file": "a.md"}')
    ours, theirs = pty.openpty()
    done = outside.run(*words, cwd=here, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode().split()
    os.close(ours)
    assert shown == ["import", "waiting", "import", "running", "import", "writing", "import", "done"]
    assert done.stdout.startswith("doc.import: done.")
    for more in ((), ("--json",)):
        assert outside.run(*words, *more, cwd=here, capture_output=True, text=True, check=True).stderr == ""


def test_a_terminal_obeys_nothing_that_stands_in_a_document(here: Path) -> None:
    (here / "a.json").write_text(
        json.dumps({"title": "t", "format": "blocks", "content": [{"type": "paragraph", "runs": [{"text": "a\x9b2Jb\u202ec"}]}]})
    )
    outside.run(*outside.POLYLOOP, "docs", "call", "create", "--args", "a.json", cwd=here, capture_output=True, check=True)
    (here / "a.json").write_text('{"title": "t"}')
    words = (*outside.POLYLOOP, "docs", "call", "fetch", "--args", "a.json")
    ours, theirs = pty.openpty()
    outside.run(*words, cwd=here, stdout=theirs, stderr=subprocess.PIPE, check=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert "\x9b" not in shown
    assert "\u202e" not in shown
    assert "a\\u009b2Jb\\u202ec" in shown
    assert "\u202e" in outside.run(*words, cwd=here, capture_output=True, text=True, check=True).stdout, "a file keeps it"
