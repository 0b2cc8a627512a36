"""`workspace_exec`: what a confined program can and cannot do; and skills, read from a folder."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from polyloop.app.request_file import load
from polyloop.app.wiring import ALLOW_UNCONFINED, request_for, rewire
from polyloop.contract.problem import ProblemError
from polyloop.kernel.seams import Action
from polyloop.toolbox.registry import Registry
from polyloop.workspace import Workspace
from polyloop.workspace.exec import CONFINED, Ran, Way, exec_tool, run_program
from polyloop.workspace.skills import Skills, skill_tools


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    (tmp_path / "ws/data").mkdir(parents=True)
    (tmp_path / "ws/data/given").write_text("given")
    (tmp_path / "secret").write_text("secret")
    return Workspace(tmp_path / "ws", read_only=("data",))


def sh(ws: Workspace, script: str, timeout_s: float = 20, ways: Sequence[Way] = CONFINED) -> Ran:
    return asyncio.run(run_program(ws, ["sh", "-c", script], timeout_s, ways))


in_both_ways = pytest.mark.parametrize(
    "way", [pytest.param("namespaces", marks=pytest.mark.needs("confinement")), pytest.param("bubblewrap", marks=pytest.mark.needs("bubblewrap"))]
)


@in_both_ways
def test_it_works_in_the_workspace(ws: Workspace, way: Way) -> None:
    ran = sh(ws, "cat data/given; mkdir o; echo hi > o/f; echo bad >&2; exit 3", ways=[way])
    assert (ran.exit_code, ran.stdout, ran.stderr) == (3, "given", "bad\n")
    assert (Path(ws.folder) / "o/f").read_text() == "hi\n"


@in_both_ways
@pytest.mark.parametrize(
    "script",
    [
        "echo x > data/given", "rm -rf data/given", "echo x > data/new", "mv data other", "cat ../secret", "ls ..", "cat /etc/passwd", "ls /",
        "echo x > ../out", "echo x > /tmp/out", "ln -s ../secret l && cat l", "cat /proc/1/environ", "kill -9 -1",
        "python3 -c \"import socket; socket.create_connection(('127.0.0.1', 9), 1)\"",
    ],
)  # fmt: skip
def test_what_it_cannot_do(ws: Workspace, script: str, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under bubblewrap there is a scratch folder where the rest of the system would be: what is written there is gone."""
    monkeypatch.setenv("A_KEY", "secret")
    ran = sh(ws, script, ways=[way])
    assert (way == "bubblewrap" or ran.exit_code != 0, "secret" in ran.stdout, "root:" in ran.stdout) == (True, False, False)
    assert (Path(ws.folder) / "data/given").read_text() == "given"
    assert sorted(p.name for p in Path(ws.folder).parent.iterdir()) == ["secret", "ws"]


@in_both_ways
def test_the_log_of_writes_can_be_neither_seen_nor_forged(ws: Workspace, way: Way) -> None:
    ws.write_atomic("a", b"1", key="k1")
    hidden = Path(ws.folder) / ".polyloop-workspace"
    before = {p.name: p.read_bytes() for p in hidden.iterdir()}
    assert sh(ws, "ls .polyloop-workspace; echo forged > .polyloop-workspace/writes.jsonl", ways=[way]).stdout == ""
    assert {p.name: p.read_bytes() for p in hidden.iterdir()} == before


@in_both_ways
def test_nothing_outlives_it(ws: Workspace, way: Way) -> None:
    sh(ws, "setsid sleep 987.5 & echo started", ways=[way])
    with pytest.raises(ProblemError) as caught:
        sh(ws, "setsid sleep 987.5 & sleep 50", 0.5, [way])
    assert (caught.value.problem.kind, caught.value.problem.execution_started) == ("task_failed", True)
    until = time.monotonic() + 60
    while b"sleep\x00987.5" in b"".join(_cmdlines()):
        assert time.monotonic() < until
        time.sleep(0.01)


def _cmdlines() -> list[bytes]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            found.append((entry / "cmdline").read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.needs("confinement")
def test_what_prints_without_end_is_cut_and_stopped(ws: Workspace) -> None:
    ran = sh(ws, "head -c 200000 /dev/zero | tr '\\0' x")
    assert (len(ran.stdout), ran.truncated) == (24_000, True)
    with pytest.raises(ProblemError):
        sh(ws, "yes", 0.5)


@pytest.mark.needs("confinement")
def test_a_program_that_is_not_there_and_a_word_with_a_nul(ws: Workspace) -> None:
    assert asyncio.run(run_program(ws, ["no-such-program"])).exit_code == 127
    with pytest.raises(ProblemError):
        asyncio.run(run_program(ws, ["a\x00b"]))


def test_no_glob_matches_it(tmp_path: Path) -> None:
    tool = exec_tool(Workspace(tmp_path))
    with pytest.raises(ProblemError):
        Registry.resolve(["workspace_*"], {"workspace_exec": tool})
    assert list(Registry.resolve(["workspace_exec"], {"workspace_exec": tool}).specs) == ["workspace_exec"]


def test_a_system_that_cannot_confine_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that leaves out the word `confined` has run nothing."""
    fake = tmp_path / "confine.py"
    fake.write_text("import sys; sys.exit('namespaces: Operation not permitted')")
    monkeypatch.setattr("polyloop.workspace.exec._SCRIPT", fake)
    with pytest.raises(ProblemError) as caught:
        asyncio.run(run_program(Workspace(tmp_path / "ws"), ["touch", "x"]))
    assert not (tmp_path / "ws/x").exists()
    assert (caught.value.problem.kind, "Operation not permitted" in caught.value.problem.message) == ("capability_unavailable", True)


def test_only_a_request_that_says_so_has_a_program_run_without_confinement(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "secret")
    with pytest.raises(ProblemError) as caught:
        asyncio.run(run_program(ws, ["true"], ways=()))
    assert "allow_unconfined_exec" in caught.value.problem.message
    ran = sh(ws, "env; pwd; exit 3", ways=["none"])
    assert (ran.exit_code, ran.unconfined, "secret" in ran.stdout, ran.stdout.endswith(f"{Path(ws.folder).resolve()}\n")) == (3, True, False, True)
    with pytest.raises(ProblemError) as late:
        sh(ws, "sleep 985.5 & sleep 985.5", 0.5, ["none"])
    assert (late.value.problem.kind, b"sleep\x00985.5" in b"".join(_cmdlines())) == ("task_failed", False)


@pytest.mark.parametrize(("said", "logged", "bounds"), [("", {}, True), ("allow_unconfined_exec = true", {ALLOW_UNCONFINED: "true"}, False)])
def test_what_the_request_allows_is_logged_and_told_the_model(tmp_path: Path, said: str, logged: dict[str, str], bounds: bool) -> None:
    (tmp_path / "s.jsonl").write_text("")
    head = f'model = "script:s.jsonl"\ntools = ["workspace_exec"]\nworkspace = "ws"\n{said}\n'
    (tmp_path / "r.toml").write_text(head + '[agent]\nid = "a"\n[budget]\nmax_valid_steps = 1\nmax_iterations = 1\n')
    request = request_for(load(tmp_path / "r.toml", {}))
    assert {name: value for name, value in request.assembly.items() if name == ALLOW_UNCONFINED} == logged
    assert ("no network" in rewire(request).tools.specs["workspace_exec"].description) is bounds


# --- skills --------------------------------------------------------------------------------------------------------


def call(skills: Skills, tool: str, **args: Any) -> Any:
    return asyncio.run(skill_tools(skills)[tool].run(Action(tool, args, "k", 0, "r", "s")))


def test_skills_are_found_and_read(tmp_path: Path) -> None:
    for name, text in (("dates", "# dates\nHow to check dates."), ("sums", "# sums\nHow to add."), ("empty", None)):
        (tmp_path / name).mkdir()
        (tmp_path / name / ("SKILL.md" if text else "x.md")).write_text(text or "x")
    (tmp_path / "dates/more.md").write_text("more")
    skills = Skills(str(tmp_path))
    found = call(skills, "skill_search", query="check Dates add")["skills"]
    assert [(s["skill"], s["files"]) for s in found] == [("dates", ["SKILL.md", "more.md"]), ("sums", ["SKILL.md"])]
    assert [s["skill"] for s in call(skills, "skill_search", query="")["skills"]] == ["dates", "sums"]
    assert call(skills, "skill_read_file", skill="dates", path="more.md") == "more"
    assert call(Skills(str(tmp_path / "none")), "skill_search", query="x") == {"skills": []}


@pytest.mark.parametrize(("skill", "path"), [("..", "secret"), ("dates", "../../secret"), ("dates", "link"), ("/etc", "passwd"), ("no", "SKILL.md")])
def test_nothing_outside_the_skills_is_read(tmp_path: Path, skill: str, path: str) -> None:
    (tmp_path / "skills/dates").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "skills/dates/link").symlink_to(tmp_path / "secret")
    with pytest.raises(ProblemError):
        call(Skills(str(tmp_path / "skills")), "skill_read_file", skill=skill, path=path)


@pytest.mark.needs("confinement")
def test_the_processes_of_a_killed_owner_are_gone(ws: Workspace) -> None:
    script = (
        "import asyncio, sys\nfrom polyloop.workspace import Workspace\nfrom polyloop.workspace.exec import run_program\n"
        "asyncio.run(run_program(Workspace(sys.argv[1]), ['sh', '-c', 'echo > up; setsid sleep 986.5 & sleep 986.5'], 100))\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", script, ws.folder + "-other"])
    until = time.monotonic() + 30
    while not Path(ws.folder + "-other/up").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    owner.kill()
    owner.wait()
    while b"sleep\x00986.5" in b"".join(_cmdlines()):
        assert time.monotonic() < until
        time.sleep(0.01)
