"""Tests that failed beside others, run again alone: what fails alone is a fault, what passes three times alone is unsteady.

`python tools/again.py` after a failed run of pytest. An unsteady test is named in the output, where it asks to be repaired, but does
not stop what others have built. More than a few failures are no chance: they stand as they are. Standard library only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

MANY = 5
TIMES = 3


def passes(root: Path, test: str) -> bool:
    return subprocess.run([sys.executable, "-m", "pytest", "-q", test], cwd=root, check=False).returncode == 0


def main(root: Path, alone: Callable[[Path, str], bool] = passes) -> int:
    """The exit code: 0 only if there were failures, few of them, and each passes alone each time."""
    kept = root / ".pytest_cache/v/cache/lastfailed"
    failed = sorted(json.loads(kept.read_text())) if kept.exists() else []
    if not 0 < len(failed) <= MANY:
        print(f"{len(failed)} failed tests are kept: not run again")
        return 1
    for test in failed:
        print(f"again, alone: {test}", flush=True)
        if not all(alone(root, test) for _ in range(TIMES)):
            return 1
        print(f"UNSTEADY: {test}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
