"""A folder with a request, a script and tools, and the command line to work on it: everything from outside, in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import outside

TOOLS = '''
import asyncio, os, time
import polyloop

@polyloop.tool(effect="read", kind="async")
async def look(n: int) -> str:
    """Look."""
    return f"seen {n}"

@polyloop.tool(effect="read", kind="async")
async def sleep(s: float) -> str:
    """Sleep."""
    await asyncio.sleep(s)
    return "slept"

@polyloop.tool(effect="read", kind="async")
async def wait() -> str:
    """Wait until the test lets go."""
    while not os.path.exists("go"):
        await asyncio.sleep(0.02)
    return "went on"

@polyloop.tool(effect="write", replay="report_unknown", kind="async")
async def note(text: str) -> str:
    """Note."""
    with open("notes.txt", "a") as f:
        f.write(text + "\\n")
    return "noted"

@polyloop.tool(effect="write", replay="ask", kind="async")
async def slow_note(text: str, s: float) -> str:
    """Note, slowly."""
    with open("notes.txt", "a") as f:
        f.write(text + "\\n")
    await asyncio.sleep(s)
    return "noted"
'''

OFFERED = ["submit", *(f"mytools:{name}" for name in ("look", "sleep", "wait", "note", "slow_note"))]


def act(tool: str, **args: Any) -> dict[str, str]:
    return {"text": json.dumps({"reflection": "r", "plan": "p", "action": {"tool": tool, "args": args}})}


@dataclass
class Desk:
    """One working folder."""

    folder: Path

    def request(
        self, name: str = "r.toml", *, script: list[dict[str, Any]] | None = None, head: str = "", budget: str | None = None, tail: str = ""
    ) -> str:
        lines = script if script is not None else [act("look", n=1), act("submit", summary="done")]
        (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        steps = "max_valid_steps = 20\nmax_iterations = 40" if budget is None else budget
        (self.folder / name).write_text(
            f'model = "script:{name}.jsonl"\ntools = {json.dumps(OFFERED)}\n{head}\n'
            f'[agent]\nid = "a"\n[budget]\n{steps}\n[[segments]]\nname = "task"\ntext = "do it"\n{tail}\n'
        )
        return name

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return outside.start(*outside.POLYLOOP, *words, cwd=self.folder, env={**os.environ, "POLYLOOP_LANG": "en", **env}, **pipes)

    def call(self, *words: str, **env: str) -> tuple[int, str]:
        process = self.start(*words, **env)
        out, err = process.communicate(timeout=60)
        assert "Traceback" not in err, err
        return process.returncode, out

    def json(self, *words: str, **env: str) -> tuple[int, Any]:
        code, out = self.call(*words, "--json", **env)
        return code, json.loads(out)

    def records(self, run: str) -> list[dict[str, Any]]:
        _, out = self.call("log", run, "--jsonl")
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "mytools.py").write_text(TOOLS)
    return Desk(tmp_path)
