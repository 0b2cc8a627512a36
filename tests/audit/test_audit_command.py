"""`polyloop audit`, from outside."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import docx
import pytest

from polyloop.audit.checks import RULES
from polyloop.audit.flow import TOOLS
from tests.outside import command

SAMPLE = Path(__file__).parents[2] / "src/polyloop/audit/sample/notice.md"
FIXTURES = Path(__file__).parents[1] / "formats" / "fixtures"
CLEAN = Path(__file__).parent / "clean"


def polyloop(folder: Path, *words: object) -> tuple[int, Any]:
    done = command(folder, *words, "--tenant", "acme", "--store", "runs.db")
    return done.code, done.said


def audit(folder: Path, *words: object) -> tuple[int, Any]:
    return polyloop(folder, "audit", *words, "--json")


def log(folder: Path, run: str) -> list[dict[str, Any]]:
    done = command(folder, "log", run, "--jsonl", "--tenant", "acme", "--store", "runs.db")
    return [json.loads(line) for line in done.out.splitlines()]


def plain(report: dict[str, Any]) -> str:
    """Without ids."""
    return json.dumps(report, ensure_ascii=False, sort_keys=True).replace(report["flow"], "FLOW")


def test_the_sample_is_audited_and_the_same_command_tells_it_again(tmp_path: Path) -> None:
    code, report = audit(tmp_path, SAMPLE)
    folder = tmp_path / "audit-notice"
    assert (code, report["schema"], report["status"], len(report["points"][0]["findings"])) == (0, "polyloop.audit.v1", "completed", 9)
    assert json.loads((folder / "report.json").read_bytes()) == report
    source = SAMPLE.read_text()
    quotes = [f["evidence"]["quote"] for f in report["points"][0]["findings"]]
    assert all(quote in source for quote in quotes)
    word = "\n".join(p.text for p in docx.Document(str(folder / "report.docx")).paragraphs)
    page = (folder / "report.html").read_text()
    assert all(quote in word for quote in quotes)
    assert page.count("<blockquote>") >= len(quotes)
    before = {path.name: path.read_bytes() for path in folder.glob("report.*")}
    assert audit(tmp_path, SAMPLE) == (0, report)
    assert {path.name: path.read_bytes() for path in folder.glob("report.*")} == before


def test_S2_4_S2_11_S2_12_S2_47_the_tools_and_the_tenant_of_the_three_runs(tmp_path: Path) -> None:
    _, report = audit(tmp_path, SAMPLE)
    assert [run.removeprefix(report["flow"]) for run in report["runs"]] == [".p1/plan/1", ".p1/execute/1", ".p1/summarize/1"]
    budgets = []
    for run, phase in zip(report["runs"], TOOLS, strict=True):
        start = log(tmp_path, run)[0]
        assert [tool["name"] for tool in start["tools"]] == list(TOOLS[phase])
        assert start["binding"] == {"gateway.cache_namespace": "acme", "gateway.tenant_id": "acme"}
        budgets.append(start["budget"]["max_valid_steps"])
        assert polyloop(tmp_path, "verify", run)[0] == 0
    assert budgets == [50, 50, 16]


def test_points_are_a_batch(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text((CLEAN / "policy.md").read_text())
    code, report = audit(tmp_path, SAMPLE, "b.md", "--out", "out", "--lang", "en")
    assert (code, [(p["pointId"], p["file"], p["state"], len(p["findings"])) for p in report["points"]]) == (
        0, [("p1", "notice.md", "completed", 9), ("p2", "b.md", "completed", 0)],
    )  # fmt: skip
    code, report = audit(tmp_path, "exclude", "out", "p1")
    assert (code, report["status"], [(p["state"], len(p["findings"])) for p in report["points"]]) == (
        3,
        "partial",
        [("excluded", 0), ("completed", 0)],
    )
    assert audit(tmp_path, "retry", "out", "p2")[0] == 2
    assert audit(tmp_path, "retry", "out", "p3")[0] == 2
    code, report = audit(tmp_path, "retry", "out", "p1")
    assert (code, [len(p["findings"]) for p in report["points"]]) == (0, [9, 0])
    assert len(report["runs"]) == 6


def test_other_inputs_or_another_model_in_the_same_folder_are_a_conflict(tmp_path: Path) -> None:
    (tmp_path / "notice.md").write_text((CLEAN / "notice.md").read_text())
    (tmp_path / "x.jsonl").write_text('{"text": "x"}')
    assert audit(tmp_path, SAMPLE, "--out", "out")[0] == 0
    before = (tmp_path / "out/report.json").read_bytes()
    for words in (("notice.md",), (SAMPLE, "notice.md"), (SAMPLE, "--model", "script:x.jsonl"), (SAMPLE, "--lang", "en")):
        code, told = audit(tmp_path, *words, "--out", "out")
        assert (code, told["error"]["kind"]) == ((2, "validation") if len(words) == 2 and "notice.md" in words else (7, "conflict"))
    assert (tmp_path / "out/report.json").read_bytes() == before


@pytest.mark.parametrize("model", ["script:none.jsonl", "rules:none", "none:x", ""])
def test_a_model_that_is_not_there_is_refused_before_anything_is_made(tmp_path: Path, model: str) -> None:
    code, told = audit(tmp_path, SAMPLE, "--model", model or "x")
    assert (code, told["error"]["kind"]) == (2, "validation")
    assert not (tmp_path / "audit-notice").exists()


def test_a_file_in_the_way_that_is_not_ours_is_kept(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/report.html").write_text("mine")
    code, told = audit(tmp_path, SAMPLE, "--out", "out")
    assert (code, told["error"]["kind"], told["error"]["details"]["file"]) == (7, "conflict", "report.html")
    assert [p.name for p in (tmp_path / "out").glob("report.*")] == ["report.html"]
    assert not (tmp_path / "out/points").exists(), "it is refused before anything is worked on"
    (tmp_path / "out/report.html").unlink()
    assert audit(tmp_path, SAMPLE, "--out", "out")[0] == 0
    (tmp_path / "out/report.md").write_text("edited by a person")
    assert audit(tmp_path, SAMPLE, "--out", "out")[0] == 7
    assert (tmp_path / "out/report.md").read_text() == "edited by a person"


@pytest.mark.parametrize(
    ("name", "data", "code", "kind"),
    [
        ("a.md", b"", 2, "validation"),
        ("a.docx", b"PK\x03\x04 cut off", 2, "type_mismatch"),
        ("a.pdf", b"no pdf", 2, "type_mismatch"),
        ("a.xyz", b"x", 2, "type_mismatch"),
        ("none.md", None, 2, "not_found"),
        ("nowhere.md", "link", 2, "not_found"),
        ("folder.md", "folder", 2, "type_mismatch"),
        ("fifo.md", "fifo", 2, "type_mismatch"),
    ],
)
def test_what_cannot_be_read_is_a_typed_error_and_leaves_nothing(tmp_path: Path, name: str, data: bytes | str | None, code: int, kind: str) -> None:
    make = {"link": lambda p: p.symlink_to("none"), "folder": Path.mkdir, "fifo": os.mkfifo}
    if isinstance(data, bytes):
        (tmp_path / name).write_bytes(data)
    elif data is not None:
        make[data](tmp_path / name)
    began = time.monotonic()
    found, told = audit(tmp_path, SAMPLE, name, "--out", "out")
    assert (found, told["error"]["kind"], name in told["error"]["message"]) == (code, kind, True)
    assert not (tmp_path / "out").exists()
    assert time.monotonic() - began < 30, "nothing is waited for"


def test_a_word_that_is_no_text_is_a_typed_error(tmp_path: Path) -> None:
    name = os.fsdecode(b"bad\xff.md")
    (tmp_path / name).write_text("x")
    for words in ((name,), (SAMPLE, "--out", name)):
        code, told = audit(tmp_path, *words)
        assert (code, told["error"]["kind"]) == (2, "validation")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_document_changed_since_is_named_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A notice\n\nOne.\n")
    assert audit(tmp_path, "a.md", "--lang", "en")[0] == 0
    (tmp_path / "a.md").write_text("# A notice\n\nTwo.\n")
    code, told = audit(tmp_path, "a.md", "--lang", "en")
    assert (code, [field["path"] for field in told["error"]["details"]["fields"]]) == (7, ["inputs[0].sha256"])
    assert "--out" in told["error"]["message"]
    assert audit(tmp_path, "a.md", "--out", "second", "--lang", "en")[0] == 0


def test_a_folder_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    code, told = audit(tmp_path, SAMPLE, "--out", "out")
    assert (code, "error" in told) == (2, True)


def test_gb18030_text_is_audited(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes((CLEAN / "report.txt").read_text().encode("gb18030"))
    assert audit(tmp_path, "a.txt")[1]["points"][0]["findings"] == []


@pytest.mark.parametrize("name", ["pandoc-notice.docx", "chromium-notice.pdf"])
def test_every_quote_is_found_by_a_reader_that_is_not_ours(tmp_path: Path, name: str) -> None:
    code, report = audit(tmp_path, FIXTURES / name)
    foreign = (FIXTURES / f"{name}.txt").read_text()
    findings = report["points"][0]["findings"]
    assert (code, len(findings) > 5) == (0, True)
    assert all(f["evidence"]["quote"] in foreign for f in findings)
    assert {f["rule"] for f in findings} <= {rule.name for rule in RULES}
