"""The report among the documents: one, whatever was killed or taken away in between, and never over a person's words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polyloop.app.audit_documents import write_report
from polyloop.contract.problem import ProblemError
from polyloop.db import Database
from polyloop.documents.store import SCHEMAS
from polyloop.formats.blocks import Block, Document, Run
from tests.documents.office import Office


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    db = Database.open(tmp_path / "s.db", SCHEMAS)
    yield Office(db)
    db.close()


class Audit:
    """One audit of one document of the service."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.about = office.do("create", {"title": "about", "content": "x\n"})["target"]["canonicalUrl"]

    def write(self, text: str, last: dict[str, Any], flow: str = "f1") -> dict[str, Any]:
        report = Document((Block("paragraph", (Run(text),)),), title="Report")
        return asyncio.run(write_report(self.office.runtime, flow, report, [self.about], last))

    def reports(self) -> list[list[str]]:
        return [each for each in self.office.documents() if each[0] == "Report"]


def test_a_run_that_was_killed_before_it_noted_its_report_makes_no_second_one(office: Office) -> None:
    """Although its inputs, and so the report, have changed since; and so for one brought up to date."""
    audit = Audit(office)
    lost = audit.write("first", {})
    noted = audit.write("second", {})
    assert (noted["nodeId"], noted["revision"]) == (lost["nodeId"], 2)
    audit.write("third", noted)
    assert audit.write("fourth", noted)["revision"] == 4
    assert audit.reports() == [["Report", "fourth\n"]]
    audit.write("other", {}, flow="f2")
    assert len(audit.reports()) == 2, "another audit has its own"


@pytest.mark.parametrize("purged", [True, False])
@pytest.mark.parametrize("text", ["first", "changed"])
def test_a_report_that_was_taken_away_is_made_anew(office: Office, purged: bool, text: str) -> None:
    audit = Audit(office)
    last = audit.write("first", {})
    for op in ("delete", *(["purge"] if purged else [])):
        office.do(op, {"nodeId": last["nodeId"]})
    again = audit.write(text, last)
    assert again["nodeId"] != last["nodeId"]
    assert audit.reports() == [["Report", f"{text}\n"]]
    assert audit.write(text, again) == again
    assert audit.write("later", again)["nodeId"] == again["nodeId"]


def test_a_person_s_change_to_a_report_is_never_written_over(office: Office) -> None:
    audit = Audit(office)
    last = audit.write("first", {})
    office.do("update", {"nodeId": last["nodeId"], "command": "append", "content": "a note\n"})
    assert audit.write("first", last) == last
    for noted in (last, {}):
        with pytest.raises(ProblemError, match="revision_conflict"):
            audit.write("second", noted)
    assert audit.reports() == [["Report", "first\n\na note\n"]]
