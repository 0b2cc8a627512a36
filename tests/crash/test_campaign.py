"""S2.27, S2.28, R59, R62, R63: whatever moment a process dies at, the run ends as it would have, and no effect happens twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SOAK = os.environ.get("POLYLOOP_SOAK") == "1"


def told(*words: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "tests.crash.campaign", *words], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
    assert done.stdout, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_S2_28_killed_runs_end_as_unkilled_ones_and_no_effect_happens_twice() -> None:
    random_kills, each = (300, 30) if SOAK else (8, 1)
    found = told("--random", str(random_kills), "--each", str(each))
    assert found["problems"] == []
    assert found["kills"]["random"] >= random_kills
    tails = {"model_intent", "model_result", "action_intent", "action_result", "step", "action_deferred", "action_resolved"}
    assert {k.partition(":")[2] for k, n in found["kills"].items() if n >= each and k.startswith("emit")} == tails
