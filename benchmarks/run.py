"""`make bench`: the kernel beside the bare loop of two SQLite commits a step, in one run, interleaved; losses first.

python benchmarks/run.py [--quick] [--json FILE]. Scratch: $BENCH_TMP (on the disk under test), else a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).parent / "harness"
#: One run has its loop to itself, as at the command line and in `run_sync`; many runs share theirs.
OURS, SHARED, FLOOR = "kernel:d", "kernel", "floorsql:c2"
Line = dict[str, Any]


def measure(spec: str, scratch: str) -> Line:
    """One harness run in a process of its own: its JSON line."""
    out = Path(scratch) / "line.jsonl"
    out.unlink(missing_ok=True)
    env = {**os.environ, "BENCH_TMP": scratch}
    subprocess.run([sys.executable, "run.py", str(out), spec], cwd=HARNESS, env=env, check=True, stdout=subprocess.DEVNULL)
    line: Line = json.loads(out.read_text())
    if "err" in line or not line.get("ok"):
        raise SystemExit(f"{spec} failed: {line.get('err', line)}")
    return line


def interleaved(specs: dict[str, str], repeats: int, scratch: str) -> dict[str, list[Line]]:
    """Every spec once per round, so that a noisy minute hits them all."""
    lines: dict[str, list[Line]] = {name: [] for name in specs}
    for _ in range(repeats):
        for name, spec in specs.items():
            lines[name].append(measure(f"{spec}/1/120", scratch))
    return lines


def median(lines: list[Line], key: str) -> float:
    return statistics.median(float(x[key]) for x in lines)


def import_ratio(repeats: int) -> float:
    """Import of the package over asyncio and the dependencies alone, CPU time of fresh processes, medians."""
    code = "import time; import asyncio, msgspec, jiter, apsw{}; print(time.process_time())"
    times: dict[str, list[float]] = {"": [], ", polyloop": []}
    for _ in range(repeats):
        for extra, found in times.items():
            done = subprocess.run([sys.executable, "-c", code.format(extra)], capture_output=True, text=True, check=True)
            found.append(float(done.stdout))
    return statistics.median(times[", polyloop"]) / statistics.median(times[""])


def figures(scratch: str, *, quick: bool) -> list[tuple[str, float, str, float]]:
    """(what, value, '<=' or '>=', goal)."""
    repeats, long = (3, 1000) if quick else (5, 5000)
    one = interleaved({x: f"{x}/1000/4096/1/run" for x in (OURS, FLOOR, SHARED)}, repeats, scratch)
    many = interleaved({"100": f"{SHARED}/50/4096/100/run", "1000": f"{SHARED}/20/4096/1000/run"}, 1 if quick else 3, scratch)
    grown = interleaved({"50": f"{OURS}/50/4096/1/run", "long": f"{OURS}/{long}/4096/1/run"}, 1 if quick else 3, scratch)
    resumed = interleaved({"long": f"{OURS}/{long}/4096/1/resume"}, 1 if quick else 3, scratch)["long"]
    rate, floor = median(one[OURS], "steps_s"), median(one[FLOOR], "steps_s")
    payload = one[OURS][0]["payload_step"]
    first, last = median(grown["long"], "first_q_ms"), median(grown["long"], "last_q_ms")
    return [
        ("one run, share of the floor's steps/s", rate / floor, ">=", 0.60),
        ("one run, CPU per step over the floor's", median(one[OURS], "cpu_ms_step") / median(one[FLOOR], "cpu_ms_step"), "<=", 1.8),
        ("one run in a shared loop, share of the floor's steps/s", median(one[SHARED], "steps_s") / floor, ">=", 0.60),
        ("one run, syncs per step", median(one[OURS], "fsyncs_step"), "<=", 2.1),
        ("100 runs, syncs per step", median(many["100"], "fsyncs_step"), "<=", 0.1),
        ("100 runs over one run, steps/s", median(many["100"], "steps_s") / rate, ">=", 3.0),
        ("1,000 runs over one run, steps/s", median(many["1000"], "steps_s") / rate, ">=", 3.0),
        (f"step time, last quarter over first, n={long}", last / first, "<=", 1.15),
        (f"CPU per step, n={long} over n=1000", median(grown["long"], "cpu_ms_step") / median(one[OURS], "cpu_ms_step"), "<=", 1.10),
        ("disk over payload, closed, 4 KB", median(one[OURS], "disk_bytes") / (payload * 1000), "<=", 1.30),
        (f"resume of {long} steps to the next call, ms", median(resumed, "to_first_call_s") * 1000, "<=", 250),
        ("import over asyncio and dependencies", import_ratio(7), "<=", 1.35),
        ("completed calls repeated after SIGKILL", float(sum(x["repeated_calls"] for x in resumed)), "<=", 0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer repeats, n=1000")
    parser.add_argument("--json", help="also write the figures to this file")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="polyloop-bench-", dir=os.environ.get("BENCH_TMP")) as scratch:
        found = figures(scratch, quick=asked.quick)
    met = {what: value <= goal if sense == "<=" else value >= goal for what, value, sense, goal in found}
    for what, value, sense, goal in sorted(found, key=lambda x: met[x[0]]):
        sys.stdout.write(f"{'met   ' if met[what] else 'MISSED'}  {what:<78} {value:>9.3f}  goal {sense} {goal:g}\n")
    if asked.json:
        rows = [{"what": w, "value": v, "goal": f"{s} {g:g}", "met": met[w]} for w, v, s, g in found]
        Path(asked.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
