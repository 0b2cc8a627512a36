"""`polyloop demo`: what it says of the kill, the recovery and the proof is what is in the store."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.outside import Done, command

CLEAN = Path(__file__).parents[1] / "audit" / "clean"


def demo(folder: Path, *words: object) -> Done:
    return command(folder, "demo", *words)


def test_the_sample_then_a_document_of_ones_own(tmp_path: Path) -> None:
    facts = []
    for words in ((), (CLEAN / "policy.md",)):
        done = demo(tmp_path, *words, "--json")
        assert (done.code, done.err) == (0, "")
        told = json.loads(done.out)
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


def test_the_account_is_short_and_in_the_language_of_its_reader(tmp_path: Path) -> None:
    done = demo(tmp_path)
    assert (done.code, "一个文件，1 张回执" in done.out) == (0, True)
    assert len(done.out.splitlines()) < 30


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_text("no")
    os.mkfifo(tmp_path / "fifo.md")
    for words in (("a.docx",), ("none.md",), ("fifo.md",), ("--model", "script:none.jsonl")):
        assert demo(tmp_path, *words).code == 2
    assert not (tmp_path / "polyloop-demo").exists()


def test_the_model_of_the_environment_works_and_a_store_that_was_named_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is not there is told with what became of the run."""
    monkeypatch.setenv("POLYLOOP_MODEL", "openai:none@http://127.0.0.1:9")
    done = demo(tmp_path, "--store", "own.db", "--tenant", "acme", "--lang", "en")
    assert (done.code, "with the model openai:none@http://127.0.0.1:9" in done.out) == (1, True)
    assert "model_call_failed (connect_failed)" in done.err
    runs = command(tmp_path, "runs", "--store", "own.db", "--tenant", "acme", "--json").said["runs"]
    assert [run["reason"] for run in runs] == ["model_call_failed"] * 2
    assert not (tmp_path / "polyloop-demo/runs.db").exists()
