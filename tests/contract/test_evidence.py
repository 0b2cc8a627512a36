"""A submission stands when nothing unsettled is hidden and every claim has its evidence."""

from __future__ import annotations

from typing import Any

import pytest

from polyloop.contract.evidence import Evidence, Item

ITEMS = [
    Item(ref="op1", type="receipt", run="r1", status="success", complete=True),
    Item(ref="op2", type="receipt", run="r1", status="unknown", settled=False, complete=False),
    Item(ref="op3", type="receipt", run="r1", status="failed", complete=False),
    Item(ref="t1", type="ticket", run="r1", status="running", settled=False, complete=False),
    Item(ref="l1", type="list", run="r1", complete=True),
    Item(ref="l2", type="list", run="r1", complete=False),
    Item(ref="seq7", type="record", run="r1"),
    Item(ref="op9", type="receipt", run="r2", status="unknown", settled=False, complete=False),
]
OPEN = ["op2", "t1"]


def claim(*evidence: str, **more: Any) -> dict[str, Any]:
    return {"text": "done", "evidence": list(evidence), **more}


@pytest.mark.parametrize(
    ("submission", "against"),
    [
        ({"summary": "s", "unsettled": OPEN}, []),
        ({"summary": "s", "unsettled": ["op2"]}, [("unsettled", "t1", -1)]),
        ({"summary": "s"}, [("unsettled", "op2", -1), ("unsettled", "t1", -1)]),
        ({"summary": "s", "unsettled": [*OPEN, "op77"]}, [("unknown_ref", "op77", -1)]),
        ({"summary": "s", "unsettled": OPEN, "result": None, "claims": [claim("op1", "l1", "seq7")]}, []),
        ({"summary": "s", "unsettled": OPEN, "claims": [claim()]}, [("no_evidence", "", 0)]),
        ({"summary": "s", "unsettled": OPEN, "claims": [claim(unverified=True)]}, []),
        ({"summary": "s", "unsettled": OPEN, "claims": [claim("op1"), claim("op77")]}, [("unknown_ref", "op77", 1)]),
        ({"summary": "s", "unsettled": OPEN, "claims": [claim("op77", unverified=True)]}, [("unknown_ref", "op77", 0)]),
        ({"summary": "s", "unsettled": OPEN, "claims": [claim("op2", "op3", "t1")]}, [("unsupported", r, 0) for r in ("op2", "op3", "t1")]),
        ({"summary": "s", "unsettled": OPEN, "claims": [claim("op3", unverified=True)]}, []),
        ({"summary": "s", "unsettled": OPEN, "claims": [claim("l2", scope="all")]}, [("incomplete", "l2", 0)]),
        ({"summary": "s", "unsettled": OPEN, "claims": [claim("l2", scope="covered"), claim("l2"), claim("l1", scope="all")]}, []),
        ({}, [("invalid", "summary: required", -1)]),
        ({"summary": "s", "done": True}, [("invalid", "done: unknown_field", -1)]),
        ({"summary": "", "claims": [{"text": "t"}]}, [("invalid", "summary: empty", -1), ("invalid", "claims[0].evidence: required", -1)]),
    ],
)
def test_S0_32_S0_34_what_stands_against_a_submission(submission: dict[str, Any], against: list[tuple[str, str, int]]) -> None:
    assert sorted((r.issue, r.ref, r.claim) for r in Evidence(ITEMS).check("r1", submission)) == sorted(against)


def test_the_three_questions() -> None:
    evidence = Evidence(ITEMS)
    assert evidence.unsettled("r1") == OPEN
    assert evidence.unsettled("r2") == ["op9"]
    assert (evidence.has("op1"), evidence.has("op77")) == (True, False)
    assert [evidence.complete(r) for r in ("op1", "l2", "seq7", "op77")] == [True, False, None, None]


def test_the_last_word_on_a_reference_wins() -> None:
    settled = Item(ref="op2", type="receipt", run="r1", status="success", complete=True)
    assert Evidence([*ITEMS, settled]).unsettled("r1") == ["t1"]
