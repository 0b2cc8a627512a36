"""`polyloop demo`: what it says of the kill, the recovery and the proof is what is in the store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CLEAN = Path(__file__).parents[1] / "audit" / "clean"


def demo(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "polyloop.cli.main", "demo", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_sample_then_a_document_of_ones_own(tmp_path: Path) -> None:
    facts = []
    for words in ((), (CLEAN / "policy.md",)):
        done = demo(tmp_path, *words, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        told = json.loads(done.stdout)
        assert (told["schema"], told["workerStatus"], told["tailAfterKill"], told["entries"]) == ("polyloop.demo.v1", -9, "action_intent", 1)
        assert [replay["policy"] for replay in told["replays"]] == ["probe"]
        assert told["result"]["reason"] == "completed"
        assert all(verdict["ok"] for verdict in told["verify"].values())
        assert (Path(told["dir"]) / "report.html").exists()
        facts.append(told)
    first, second = facts
    assert first["runId"] != second["runId"]
    assert {v["headHash"] for v in first["verify"].values()}.isdisjoint(v["headHash"] for v in second["verify"].values())
    assert (len(first["report"]["points"][0]["findings"]), len(second["report"]["points"][0]["findings"])) == (9, 0)


@pytest.mark.parametrize(("lang", "says"), [("zh", "一个文件，1 张回执"), ("en", "one file, 1 receipt")])
def test_the_account_is_short_and_in_either_language(tmp_path: Path, lang: str, says: str) -> None:
    done = demo(tmp_path, "--lang", lang)
    assert (done.returncode, says in done.stdout) == (0, True)
    assert len(done.stdout.splitlines()) < 30


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_text("no")
    assert demo(tmp_path, "a.docx").returncode == 2
    assert demo(tmp_path, "none.md").returncode == 2
    assert not (tmp_path / "polyloop-demo").exists()
