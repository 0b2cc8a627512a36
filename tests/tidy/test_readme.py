"""The examples of the readme do what the readme says, letter by letter."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def shell(script: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(["sh", "-ec", script], cwd=folder, env={**os.environ, "PATH": path}, stdout=subprocess.PIPE, text=True, check=True).stdout


def blocks() -> list[str]:
    return re.findall(r"^```\w*\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


def test_the_program_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(blocks()[4])
    first = shell("python notes.py", tmp_path)
    assert first.strip() in README.read_text()
    assert first.startswith("completed ")
    log = shell("polyloop log n1 --jsonl --store notes.db", tmp_path)
    assert shell("python notes.py", tmp_path) == first
    assert shell("polyloop log n1 --jsonl --store notes.db", tmp_path) == log


def test_the_first_run(tmp_path: Path) -> None:
    _, request, replies, commands, *_ = blocks()
    (tmp_path / "REQUEST.toml").write_text(request)
    (tmp_path / "replies.jsonl").write_text(replies)
    lines = shell(commands, tmp_path).splitlines()
    result = json.loads(lines[0])
    assert (result["reason"], result["completedBy"], result["counters"]["validSteps"]) == ("completed", "completion_tool", 2)
    kinds = [json.loads(line)["kind"] for line in lines[1:] if line.startswith("{")]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_ended"
    (tmp_path / "REQUEST.toml").write_text(request.replace("max_iterations = 20", "max_iterations = 21"))
    refused = shell("polyloop run REQUEST.toml --json || test $? = 7", tmp_path)
    assert [field["path"] for field in json.loads(refused)["error"]["details"]["fields"]] == ["budget.max_iterations"]
