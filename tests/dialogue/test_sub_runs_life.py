"""Sub-runs in time: whoever holds them, whenever they die, however they are stopped."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from polyloop.app.answers import answer
from polyloop.app.final import final_answer
from polyloop.app.request_file import load
from polyloop.app.runs import Runs
from polyloop.app.store import open_runs
from polyloop.app.wiring import request_for, rewire, wire
from polyloop.contract.problem import ProblemError
from polyloop.dialogue.sub_run import sub_run_id
from polyloop.kernel import records as r
from polyloop.testing.stores import MemoryStore
from polyloop.workspace import Workspace
from tests.dialogue.chain import DONE
from tests.dialogue.test_sub_runs import ASK, FOUND, LOOK, OTHER, READ, Family
from tests.outside import command

ROOT = Path(__file__).parents[2]
SLOW = ("slow", {"s": 60})
MODULE = """
import asyncio, pathlib, polyloop

@polyloop.tool(effect="read")
async def slow(s: int) -> str:
    pathlib.Path("begun").touch()
    if not pathlib.Path("quick").exists():
        await asyncio.sleep(s)
    return "late"
"""


@asynccontextmanager
async def kept(kind: str, folder: Path) -> AsyncGenerator[Runs]:
    """Runs in memory, or in a file."""
    if kind == "memory":
        runs = Runs(MemoryStore(), "local")
        async with runs.holding():
            yield runs
    else:
        async with open_runs(str(folder / "s.db"), "local", dedicated=True) as runs, runs.holding():
            yield runs


async def ended(runs: Runs, run: str, kind: type[r.Record]) -> list[Any]:
    return [x for s in (await runs.read(run)).sealed if s.body and isinstance(x := r.decode(s.kind, s.body), kind)]


async def child_of(runs: Runs) -> str:
    return next(sub_run_id(i.key) for i in await ended(runs, "top", r.ActionIntent) if i.tool == "sub_run")


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_sub_run_waits_and_goes_on_in_every_store(kind: str, tmp_path: Path) -> None:
    plan = load(Family(tmp_path).lay_top(LOOK, DONE, sub=(READ, ASK, FOUND)), {})

    async def main() -> None:
        async with kept(kind, tmp_path) as runs:
            waits = await runs.run(request_for(plan), wire(plan))
            child = await child_of(runs)
            assert (waits.state, waits.waiting and waits.waiting.token) == ("waiting", child)
            before = (await runs.head("top")).seq
            assert (await runs.run(request_for(plan), wire(plan))).state == "waiting"
            assert (await runs.head("top")).seq == before, "asking again writes nothing"
            await answer(runs, "top", {"choice": "left"})
            assert (await runs.run(request_for(plan), wire(plan))).reason == "completed"
            proofs = [e for one in await ended(runs, "top", r.ActionResult) for e in one.evidence]
            assert [(e.ref, e.status, e.valid_steps) for e in proofs if e.type == "run"] == [(child, "completed", 3)]
            assert [(await runs.verify(run)).ok for run in ("top", child)] == [True, True]

    asyncio.run(main())


def begun() -> bool:
    return Path("begun").exists()


def interrupted(folder: Path, cut: Callable[[Runs, asyncio.Task[Any]], Awaitable[None]]) -> tuple[Any, Any, list[Any]]:
    """What the run and its sub-run have become when they are interrupted in the middle of the sub-run's tool, and the proofs above."""
    family = Family(folder)
    (folder / "slowly.py").write_text(MODULE)
    path = family.lay_top(LOOK, DONE, sub=(SLOW, FOUND))
    path.write_text(path.read_text().replace('"workspace_*"', '"slowly:slow"'))

    async def main() -> tuple[Any, Any, list[Any]]:
        plan = load(path, {})
        async with kept("file", folder) as runs:
            task = asyncio.ensure_future(runs.run(request_for(plan), wire(plan)))
            while not begun():
                assert not task.done(), task.result()
                await asyncio.sleep(0.01)
            await cut(runs, task)
            await asyncio.wait({task})
            below = (await runs.read(await child_of(runs))).result
            return (await runs.read("top")).result, below, [e for one in await ended(runs, "top", r.ActionResult) for e in one.evidence]

    return asyncio.run(main())


def test_a_cancel_ends_both_and_says_so_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def cut(runs: Runs, task: asyncio.Task[Any]) -> None:
        await runs.cancel("top", "enough", "person", rewire)

    top, below, proofs = interrupted(tmp_path, cut)
    assert (top.reason, below.reason) == ("cancelled", "cancelled")
    assert [(e.ref, e.status, e.complete) for e in proofs] == [(below.run_id, "cancelled", False)]


def test_a_stop_ends_neither_and_both_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def cut(runs: Runs, task: asyncio.Task[Any]) -> None:
        runs.suspend()

    top, below, proofs = interrupted(tmp_path, cut)
    assert (top.state, below.state, proofs) == ("interrupted", "interrupted", [])
    (tmp_path / "quick").touch()
    chain = Family(tmp_path)
    told: str = chain.on(partial(final_answer, run_id="top", lang="zh"))
    assert told.startswith("# 还没有完成\n")
    assert "任务中断了，可以继续" in told
    assert chain.resume("top").reason == "completed"
    assert [(p.ref, p.status) for p in chain.proofs()] == [(below.run_id, "completed")]


def test_a_deadline_above_ends_the_one_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = Family.lay_top

    def limited(self: Family, *given: Any, **more: Any) -> Path:
        path = whole(self, *given, **more)
        path.write_text(path.read_text().replace("[budget]\n", "[budget]\nwall_clock_s = 1.5\n"))
        return path

    monkeypatch.setattr(Family, "lay_top", limited)

    async def cut(runs: Runs, task: asyncio.Task[Any]) -> None:
        await asyncio.wait({task})

    top, below, _ = interrupted(tmp_path, cut)
    assert (top.reason, top.detail) == ("budget_exhausted", "wall_clock")
    assert below.ended
    assert below.reason in ("cancelled", "budget_exhausted")


def test_killed_at_any_commit_of_either_it_is_settled_once(tmp_path: Path) -> None:
    step = "1" if os.environ.get("POLYLOOP_SOAK") == "1" else "5"
    words = [sys.executable, "-m", "tests.dialogue.kill_sub_runs", str(tmp_path), step]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert len(found) >= (20 if step == "1" else 5), found
    whole = {"starts": 1, "ends": ["completed", "completed"], "proofs": [[True, "completed", 3]], "asked": [1]}
    assert [one for one in found if {key: one[key] for key in whole} != whole] == []


def test_it_is_shown_watched_and_logged(tmp_path: Path) -> None:
    family = Family(tmp_path)
    family.begin(LOOK, DONE, sub=(READ, FOUND))
    (child,) = family.below()
    place = ("--store", family.store)
    shown = command(tmp_path, "show", "top", *place).out
    assert child in shown
    assert "4/20" in shown, "two steps of its own, two below"
    result = next(x for x in map(json.loads, command(tmp_path, "log", "top", "--jsonl", *place).out.splitlines()) if x["kind"] == "action_result")
    proof = {"ref": child, "type": "run", "status": "completed", "settled": True, "complete": True, "iterations": 2, "valid_steps": 2}
    assert [{**one, "working_ms": 0} for one in result["evidence"]] == [{**proof, "working_ms": 0}]
    assert child in command(tmp_path, "watch", "top", *place).out
    assert "root = top" in command(tmp_path, "show", child, *place).out
    last = json.loads(command(tmp_path, "watch", "top", "--json", *place).out.splitlines()[-1])
    assert last["finalAnswer"] == command(tmp_path, "show", "top", "--json", *place).said["finalAnswer"]
    assert last["finalAnswer"].startswith("# ")


def test_a_caller_is_told_that_a_person_is_needed_and_the_audit_file_has_both(tmp_path: Path) -> None:
    """Exit code 5, and not the 10 of work that goes on by itself."""
    family = Family(tmp_path)
    path = family.lay_top(LOOK, DONE, sub=(READ, ASK, FOUND))
    run = ("run", path, "--audit-to", "audit.jsonl", "--json", "--store", family.store)
    asked = command(tmp_path, *run)
    assert (asked.code, asked.said["waiting"]["kind"]) == (5, "run")
    assert "回答正在等待的问题" in asked.said["finalAnswer"]
    family.answer("top", {"choice": "left"})
    assert command(tmp_path, *run).code == 0
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    done = [(x["run"] == "top", x["payload"]["tool"]) for x in lines if x["type"] == "tool_call" and x["payload"].get("status") == "ok"]
    assert sorted(done) == [(False, "ask_user"), (False, "submit"), (False, "workspace_read_lines"), (True, "sub_run"), (True, "submit")]


def test_a_run_that_was_not_begun_from_here_is_not_taken_for_one(tmp_path: Path) -> None:
    """Its id can be worked out before it is begun: whoever has it then is not asked, driven or ended."""
    family = Family(tmp_path)
    family.begin(LOOK, DONE, sub=(FOUND,), run="probe")
    (child,) = family.below("probe")
    (tmp_path / "twin").mkdir()
    other = Family(tmp_path / "twin")
    other.run(other.lay(child, DONE, tools='"submit"'))
    ended = other.begin(LOOK, DONE, sub=(FOUND,), run="probe")
    assert ended.reason == "completed"
    assert [told["error"]["kind"] for told in other.heard("probe") if "error" in told] == ["conflict"]
    assert other.proofs("probe") == []


def test_a_run_that_has_ended_is_told_as_it_ended_while_another_has_its_workspace(tmp_path: Path) -> None:
    family = Family(tmp_path)
    one = family.lay("r1", DONE, head='workspace = "ws"')
    assert family.run(one).reason == "completed"

    async def busy(runs: Runs) -> list[Any]:
        other = Workspace(str(tmp_path / "ws"))
        other.hold()
        try:
            asked, plan = await runs.request("r1"), load(one, {})
            return [
                await runs.cancel("r1", "", "person", rewire),
                await runs.resume(asked, rewire(asked)),
                await runs.run(request_for(plan), wire(plan)),
                await runs.abandon("r1", "person"),
            ]
        finally:
            other.close()

    assert [told.reason for told in family.on(busy)] == ["completed"] * 4


def test_what_a_run_not_begun_from_here_asks_is_no_question_of_the_one_above(tmp_path: Path) -> None:
    """Neither shown, nor answered, nor counted, nor taken for its wait."""
    family = Family(tmp_path)
    family.begin(LOOK, DONE, sub=(FOUND,), run="probe")
    (child,) = family.below("probe")
    (tmp_path / "twin").mkdir()
    other = Family(tmp_path / "twin")
    assert other.run(other.lay(child, ASK, DONE)).state == "waiting"
    assert other.begin(LOOK, ASK, DONE, sub=(FOUND,), run="probe").state == "waiting"
    assert other.asked("probe") == [1]
    own = other.answer("probe", {"choice": "left"})["questionId"]
    theirs = next(str(one.token) for one in other.records(child) if isinstance(one, r.ActionDeferred))
    assert own != theirs
    with pytest.raises(ProblemError, match="not_found"):
        other.answer("probe", {"choice": "left", "questionId": theirs})
    assert other.resume("probe").reason == "completed"
    assert other.result(child).state == "waiting"
    assert other.run(other.lay("next", OTHER, DONE, parent="probe")).state == "waiting"
    assert other.asked("next") == [1], "a foreign question that waits is none of the task before"
