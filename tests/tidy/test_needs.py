"""A missing component skips with a counted reason, or fails where POLYLOOP_REQUIRE names it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
SAMPLE = """
import pytest
@pytest.mark.needs("no-such-command")
@pytest.mark.parametrize("n", [1, 2])
def test_missing(n): pass
@pytest.mark.needs("sh")
def test_there(): pass
"""


@pytest.mark.parametrize(
    ("require", "reason", "outcome"),
    [
        ("", ": needs no-such-command", "1 passed, 2 skipped"),
        ("sh", ": needs no-such-command", "1 passed, 2 skipped"),
        ("sh,no-such-command", "needs no-such-command, which POLYLOOP_REQUIRE names", "1 passed, 2 errors"),
    ],
)
def test_missing_component(tmp_path: Path, require: str, reason: str, outcome: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_sample.py").write_text(SAMPLE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = needs(*components)\n")
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, env={**os.environ, "POLYLOOP_REQUIRE": require}, capture_output=True, text=True, check=False)
    assert reason in run.stdout
    assert ("SKIPPED [2]" in run.stdout) == ("skipped" in outcome)
    assert outcome in run.stdout


def test_a_failure_is_told_when_it_happens(tmp_path: Path) -> None:
    """Before the next test has ended: here it kills the run."""
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_sample.py").write_text("def test_a(): assert 0\ndef test_b(): __import__('os')._exit(9)\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = needs(*components)\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.splitlines()[-1]) == (9, "FAILED test_sample.py::test_a (call)")
