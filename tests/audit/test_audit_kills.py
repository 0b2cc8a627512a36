"""SIGKILL in all three phases, the same command again: the report is that of an audit nobody disturbed.

Some kills meet a write that has landed and was not answered; others come at a moment of chance. `POLYLOOP_SOAK=1` makes
them many and prints how many fell into each phase.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests import outside
from tests.audit.test_audit_command import SAMPLE, audit, log, plain, polyloop

SOAK = bool(os.environ.get("POLYLOOP_SOAK"))
WAITS = ("plan.json", "findings/amounts.json", "output.json")
EXECUTED = ("structure", "dates", "amounts", "marks", "wording")
SLOW = 30.0


def started(folder: Path, path: str, pause_s: float) -> subprocess.Popen[bytes]:
    place = [str(folder / "out"), str(folder / "runs.db"), "acme", "zh", "rules:audit"]
    return outside.start("-m", "polyloop.cli.slow_audit", path, pause_s, SAMPLE, *place, cwd=folder)


def killed_at(folder: Path, path: str) -> int:
    """Kill an audit in the middle of the write of `path`; its wait status."""
    worker = started(folder, path, SLOW)
    until = time.monotonic() + 90
    while not (folder / "out/points/p1" / path).exists():
        assert worker.poll() is None
        assert time.monotonic() < until
        time.sleep(0.005)
    worker.kill()
    return worker.wait()


def killed_after(folder: Path, delay_s: float) -> int:
    """Kill an audit some time after it came to its folder; its wait status (0 = it was done before)."""
    worker = started(folder, "*", 0.05)
    until = time.monotonic() + delay_s
    while time.monotonic() < until and worker.poll() is None:
        time.sleep(0.005)
    worker.kill()
    return worker.wait()


def phase_of(folder: Path) -> str:
    """The phase whose run is open."""
    [flow] = {json.loads((folder / "out/.audit/audit.json").read_bytes())["flow"]}
    code, told = polyloop(folder, "phases", "show", f"{flow}.p1")
    records = [told] if isinstance(told, dict) else [json.loads(line) for line in told.splitlines()]
    open_ = [record["phase"] for record in records if code == 0 and record["kind"] == "phase_started"]
    ended = [record["phase"] for record in records if code == 0 and record["kind"] == "phase_ended"]
    return next(iter([phase for phase in open_ if phase not in ended]), "between")


def whole(folder: Path) -> dict[str, Any]:
    (folder / "whole").mkdir()
    return audit(folder / "whole", SAMPLE, "--out", "out")[1]


def test_S2_27_killed_in_the_middle_of_a_write_of_each_phase_the_report_is_the_same(tmp_path: Path) -> None:
    expected = whole(tmp_path)
    for path in WAITS:
        assert killed_at(tmp_path, path) == -9
    code, report = audit(tmp_path, SAMPLE, "--out", "out")
    assert (code, plain(report)) == (0, plain(expected))
    for run, path in zip(report["runs"], WAITS, strict=True):
        records = log(tmp_path, run)
        [intent] = [r for r in records if r["kind"] == "action_intent" and r["tool"] == "workspace_write" and r["args"]["path"] == path]
        assert [r["of"] for r in records if r["kind"] == "replay"] == [intent["seq"]]
        assert polyloop(tmp_path, "verify", run)[0] == 0
    written = (tmp_path / "out/points/p1/.polyloop-workspace/writes.jsonl").read_text()
    assert all(len(re.findall(rf'"path": "{path}".*"state": "done"', written)) == 1 for path in WAITS)


def test_kills_in_every_phase_and_at_moments_of_chance(tmp_path: Path) -> None:
    expected, kills, chance = whole(tmp_path), Counter[str](), random.Random(7)
    for number in range(9 if SOAK else 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        for path in (WAITS[0], *(f"findings/{group}.json" for group in sorted(chance.sample(EXECUTED, 2), key=EXECUTED.index)), WAITS[2]):
            if SOAK and killed_after(folder, chance.uniform(0.3, 0.9)) == -9 and (folder / "out/.audit/audit.json").exists():
                kills[phase_of(folder)] += 1
            if not (folder / "out/points/p1" / path).exists():
                assert killed_at(folder, path) == -9
                kills[phase_of(folder)] += 1
        code, report = audit(folder, SAMPLE, "--out", "out")
        assert (code, plain(report)) == (0, plain(expected))
        assert all(polyloop(folder, "verify", run)[0] == 0 for run in report["runs"])
    print(f"kills: {dict(kills)}, {kills.total()} in all")
    assert all(kills[phase] >= (8 if SOAK else 1) for phase in ("plan", "execute", "summarize"))
