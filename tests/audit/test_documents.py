"""Audits of documents of the service: read as they stand, reported among them; a person's changes to the report are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.outside import command

NOTICE = "# 关于采购的通知\n\n一、总则。金额为壹佰元（200元）。。\n\n三、附则。2026年2月30日施行\n"


def polyloop(*words: str, given: dict[str, Any] | None = None) -> tuple[dict[str, Any], int]:
    text = json.dumps(given) if given is not None else ""
    told = command(Path.cwd(), *words, "--json", stdin=text)
    assert told.out, told.err
    return json.loads(told.out), told.code


def call(op: str, args: dict[str, Any]) -> dict[str, Any]:
    told, code = polyloop("docs", "call", op, "--args", "-", "--yes", given=args)
    assert code == 0, told
    return told


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_S0_3_a_document_is_audited_by_its_id_and_its_report_is_one(here: Path) -> None:
    folder = call("create_folder", {"title": "F"})["data"]["nodeId"]
    node = call("create", {"title": "通知", "content": NOTICE, "containerId": folder})["target"]
    report, code = polyloop("audit", node["nodeId"], "--out", "a")
    assert (code, report["status"]) == (0, "completed")
    assert report["inputs"][0]["file"] == node["canonicalUrl"]
    findings = report["points"][0]["findings"]
    assert {"amount_capitals", "date_validity"} <= {f["rule"] for f in findings}
    assert all(f["evidence"]["file"] == node["canonicalUrl"] for f in findings)
    made = report["document"]
    listed = call("list", {"containerId": folder})
    assert [i["nodeId"] for i in listed["items"]] == [node["nodeId"], made["nodeId"]], "beside the document it is about"
    assert "2026年2月30日" in call("fetch", {"nodeId": made["nodeId"]})["data"]["content"]
    assert call("fetch", {"nodeId": node["nodeId"]})["data"]["content"] == NOTICE, "the document itself is only read"
    again, code = polyloop("audit", node["canonicalUrl"], "--out", "a")
    assert (code, again["document"]) == (0, made), "the same audit goes on, and nothing is doubled"
    changed, code = polyloop("audit", "exclude", "a", "p1")
    assert (code, changed["document"]["nodeId"], changed["document"]["revision"] > made["revision"]) == (3, made["nodeId"], True)
    call("update", {"nodeId": made["nodeId"], "command": "append", "content": "a person's note\n"})
    stopped, code = polyloop("audit", "retry", "a", "p1")
    assert (code, stopped["error"]["kind"]) == (7, "revision_conflict")
    assert "a person's note" in call("fetch", {"nodeId": made["nodeId"]})["data"]["content"]


def test_a_document_that_changed_is_another_input_and_one_that_is_not_there_stops_it(here: Path) -> None:
    node = call("create", {"title": "通知", "content": NOTICE})["target"]
    (here / "b.md").write_text(NOTICE)
    report, code = polyloop("audit", node["nodeId"], "b.md")
    assert (code, [one["file"] for one in report["inputs"]]) == (0, ["b.md", node["canonicalUrl"]])
    assert (here / f"audit-{node['nodeId']}/report.docx").exists()
    call("update", {"nodeId": node["nodeId"], "command": "append", "content": "more\n"})
    stopped, code = polyloop("audit", node["nodeId"], "b.md")
    assert (code, stopped["error"]["kind"]) == (7, "conflict")
    stopped, code = polyloop("audit", "n_" + "0" * 24, "--out", "c")
    assert (code, stopped["error"]["kind"]) == (2, "not_found")
    empty = call("create", {"title": "E"})["target"]["nodeId"]
    stopped, code = polyloop("audit", empty, "--out", "d")
    assert (code, stopped["error"]["kind"]) == (2, "validation")
    assert not (here / "c").exists()
    assert not (here / "d").exists()
