"""Runs with tools that do not behave, as a person at a terminal meets them: real processes, real signals, the log read afterwards.

Runs that wait for time wait side by side.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from polyloop.app.runs import Runs
from polyloop.app.store import read_runs
from polyloop.contract.problem import ProblemError
from polyloop.kernel.driver import GRACE_S
from polyloop.kernel.view import materialise
from tests.cli.conftest import Desk, act
from tests.edges import zoo

T = TypeVar("T")

#: What an end may take: the grace, and a second (kernel.md, Ownership). Only a soak has the machine to itself; the kernel's own tests count what is
#: waited for on any machine, and what hangs here hangs for ten minutes.
END_MS = GRACE_S * 1000 + (1000 if os.environ.get("POLYLOOP_SOAK") else 20_000)
#: Tool -> whether it goes on after its cancellation and is named for it.
KINDS = {"hang": False, "swallow": True, "tree": False, "thread": True, "probed": False}
TOOLS = ["submit", *(f"zoo:{name}" for name in (*KINDS, "nap", "held", "flood", "gives", "gives_here", "breaks", "breaks_here", "dies"))]


class Zoo(Desk):
    """A folder with the tools, and a mark by which every process of its runs is found."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.begun: list[subprocess.Popen[str]] = []

    def begin(self, run: str, script: list[dict[str, Any]], budget: str = "") -> subprocess.Popen[str]:
        lines = "".join(json.dumps(x) + "\n" for x in script)
        (self.folder / f"{run}.jsonl").write_text(lines)
        (self.folder / f"{run}.toml").write_text(
            f'run_id = "{run}"\nmodel = "script:{run}.jsonl"\ntools = {json.dumps(TOOLS)}\n[agent]\nid = "a"\n'
            f"[budget]\nmax_valid_steps = 99\nmax_iterations = 99\nmax_identical_rejections = 0\n{budget}\n"
        )
        (self.folder / "tmp").mkdir(exist_ok=True)
        return self.start("run", f"{run}.toml", "--json", ZOO=str(self.folder), TMPDIR=str(self.folder / "tmp"))

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        self.begun.append(super().start(*words, **env))
        return self.begun[-1]

    def wait(self, holds: Callable[[], Any], within_s: float = 60) -> None:
        until = time.monotonic() + within_s
        while not holds():
            assert time.monotonic() < until
            time.sleep(0.1)

    def processes(self) -> dict[int, str]:
        """All living processes that carry the mark in their environment or work in the folder: pid and command line."""
        mark, found = f"ZOO={self.folder}\0".encode(), dict[int, str]()
        for entry in Path("/proc").iterdir():
            try:
                if (
                    entry.name.isdigit()
                    and (mark in (entry / "environ").read_bytes() or (entry / "cwd").samefile(self.folder))
                    and "Z" not in (entry / "stat").read_text().rsplit(")", 1)[1][:3]
                ):
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # gone meanwhile
        return found

    def left(self) -> None:
        """Nothing is left of what has ended: no process, no temporary file."""
        self.wait(lambda: not self.processes())
        assert list((self.folder / "tmp").iterdir()) == []

    def read(self, look: Callable[[Runs], Coroutine[Any, Any, T]]) -> T:
        """A look at the store without a process of its own: those are slow to start."""

        async def work() -> T:
            async with read_runs(str(self.folder / ".polyloop" / "runs.db"), "local") as runs:
                return await look(runs)

        return asyncio.run(work())

    def records(self, run: str) -> list[dict[str, Any]]:
        try:
            found = self.read(lambda runs: runs.read(run))
        except ProblemError:
            return []  # not begun yet
        return list(materialise(found.sealed, found.look))

    def whole(self, run: str) -> bool:
        return self.read(lambda runs: runs.verify(run)).ok

    def of(self, run: str, kind: str) -> list[dict[str, Any]]:
        return [x for x in self.records(run) if x["kind"] == kind]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Zoo]:
    shutil.copy(zoo.__file__, tmp_path / "zoo.py")
    made = Zoo(tmp_path)
    yield made
    for pid in made.processes():  # only after a failure
        os.kill(pid, signal.SIGKILL)
    for process in made.begun:
        process.communicate()


def hanging(desk: Zoo, **more: Any) -> dict[str, subprocess.Popen[str]]:
    """One run per kind of tool, each in the middle of its first action."""
    running = {name: desk.begin(name, [act(name), act("submit", summary="s")], **more) for name in KINDS}
    for name in running:
        desk.wait(lambda name=name: desk.of(name, "action_intent"))
    desk.wait(lambda: sum("sleep" in line for line in desk.processes().values()) >= 2)
    return running


def test_S2_22_S2_23_a_cancel_ends_every_kind_of_tool_in_time_and_leaves_nothing(desk: Zoo) -> None:
    running = hanging(desk)
    cancels = [desk.start("cancel", name, "--json") for name in running]
    for name, process in running.items():
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, json.loads(out)["reason"]) == (130, "cancelled"), name
    for cancel in cancels:
        cancel.communicate(timeout=60)
    desk.left()
    for name, leaks in KINDS.items():
        records = desk.records(name)
        times = {x["kind"]: x["at"] for x in records}
        assert times["run_ended"] - times["cancel_requested"] <= END_MS, name
        (result,) = [x for x in records if x["kind"] == "action_result"]
        assert (result["status"], result["leaked"], result["interrupted"]) == ("unknown", leaks, True), name
        assert records[-1]["kind"] == "run_ended", name
        assert desk.whole(name), name


def test_S2_23_ctrl_c_twice_leaves_at_once_and_everything_goes_with_it(desk: Zoo) -> None:
    running = hanging(desk)
    for process in running.values():
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
    began = time.monotonic()
    for process in running.values():
        process.communicate(timeout=60)
        assert process.returncode == 130
    assert time.monotonic() - began < END_MS / 1000
    desk.left()
    for name in running:
        assert desk.records(name)[-1]["kind"] in ("action_intent", "model_intent"), name  # resumable, nothing invented


def test_S2_22_a_deadline_of_a_second_ends_what_blocks_for_ten_minutes(desk: Zoo) -> None:
    running = {name: desk.begin(name, [act(name), act("submit", summary="s")], budget="wall_clock_s = 1") for name in ("tree", "thread", "swallow")}
    for name, process in running.items():
        out, _ = process.communicate(timeout=60)
        told = json.loads(out)
        assert (process.returncode, told["reason"], told["detail"]) == (8, "budget_exhausted", "wall_clock"), name
        records = desk.records(name)
        assert records[-1]["at"] - records[0]["at"] <= 1000 + END_MS, name
    desk.left()


def test_S2_51_model_and_tool_each_have_their_time(desk: Zoo) -> None:
    slow = {"delay_s": 0.7}
    process = desk.begin("t", [act("nap", s=0.3) | slow, act("nope") | slow, act("submit", summary="s")])
    process.communicate(timeout=60)
    (step, unknown, _), (asked, *_) = desk.of("t", "step"), desk.of("t", "model_intent")
    told = step["timings"]
    assert (told["action"] >= 300, told["model"] >= 700) == (True, True)
    assert told["action"] + told["model"] <= step["at"] - asked["at"] + 5, "no time stands in both"
    assert (unknown["timings"]["action"], unknown["timings"]["model"] >= 700) == (None, True)


def test_whatever_a_tool_gives_or_raises_the_run_goes_on(desk: Zoo) -> None:
    """Both in a process of its own and in the run's own; what could not be told is told as such."""
    given = [act(name, what=what) for what in zoo.VALUES for name in ("gives", "gives_here")]
    raised = [act(name, number=number) for number in range(len(zoo.FAULTS)) for name in ("breaks", "breaks_here")]
    process = desk.begin("o", [*given, *raised, act("dies", how="exit"), act("dies", how="kill"), act("submit", summary="s")])
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert json.loads(out)["reason"] == "completed"
    steps = desk.of("o", "step")
    assert len(steps) == len(given) + len(raised) + 3
    assert {x["outcome"] for x in steps[: len(given)]} == {"ok"}
    assert {x["outcome"] for x in steps[len(given) : -3]} == {"error"}
    assert [x["outcome"] for x in steps[-3:]] == ["unknown", "unknown", "ok"]
    assert desk.whole("o")
    desk.left()


def test_a_hundred_megabytes_cost_the_run_less_than_three_times_their_cap(desk: Zoo) -> None:
    """The result limit of `flood` is 4 MiB: as it comes, as text, and on its way into the store."""
    process = desk.begin("f", [act("flood", mb=0), act("held", name="1"), act("flood", mb=100), act("held", name="2"), act("submit", summary="s")])

    def peak_mb(holds: int) -> float:
        desk.wait(lambda: len(desk.of("f", "action_intent")) == 2 * holds)
        peak = int(re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())[1]) / 1024
        (desk.folder / str(holds)).touch()
        return peak

    before = peak_mb(1)
    after = peak_mb(2)
    process.communicate(timeout=60)
    assert after - before < 3 * 4
    (part,) = desk.of("f", "action_result")[2]["observation"]
    assert part["full_size"] == 100 << 20
    assert len(part["text"]) <= 4 << 20


def test_a_store_that_is_held_by_another_delays_a_stop_and_spoils_nothing(desk: Zoo) -> None:
    """Ctrl-C in the middle of a commit: the batch lands or does not, and the run can be gone on with."""
    import sqlite3

    process = desk.begin("c", [act("nap", s=0.2) for _ in range(60)])
    desk.wait(lambda: desk.of("c", "step"))
    with sqlite3.connect(desk.folder / ".polyloop" / "runs.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        time.sleep(0.6)  # by now the run waits for its commit
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        other.execute("ROLLBACK")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(out)["state"]) == (130, "interrupted")
    assert desk.whole("c")
    assert desk.json("cancel", "c")[1]["reason"] == "cancelled"
    desk.left()


def test_S2_22_a_cancel_while_a_recovery_asks_a_silent_service(desk: Zoo) -> None:
    process = desk.begin("r", [act("probed"), act("submit", summary="s")])
    desk.wait(lambda: desk.of("r", "action_intent"))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = desk.start("resume", "r", "--json", ZOO=str(desk.folder))
    desk.wait(lambda: desk.of("r", "replay"))
    desk.call("cancel", "r")
    out, _ = again.communicate(timeout=60)
    assert (again.returncode, json.loads(out)["reason"]) == (130, "cancelled")
    records = desk.records("r")
    times = {x["kind"]: x["at"] for x in records}
    assert times["run_ended"] - times["cancel_requested"] <= END_MS
    assert [x["status"] for x in records if x["kind"] == "action_result"] == ["unknown"]
    desk.left()
