"""The fault table: what happens on the way -> status, kind, exit code, requests seen, state afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyloop.contract.problem import as_wire
from tests.contract.toy import Desk, receipt_of

ROWS = [json.loads(line) for line in Path(__file__).with_name("faults.jsonl").read_text().splitlines()]


def holds(value: Any, *names: str) -> bool:
    if isinstance(value, dict):
        return any(k in names or holds(v, *names) for k, v in value.items())
    return isinstance(value, list) and any(holds(v, *names) for v in value)


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_fault(row: dict[str, Any]) -> None:
    faults = {k: row[k] for k in ("readback", "settle", "rollback") if k in row}
    desk = Desk(row["transport"], faults=row["faults"], **faults)
    args = {"name": "a", "value": {"append": "x", "put_thrice": "thrice"}.get(row["op"], "1")}
    receipt = receipt_of(desk.call(row["op"], args))

    told = receipt.problem() if receipt.status != "success" else None
    assert receipt.status == row["status"]
    assert (told and told.kind, told.exit_code if told else 0) == (row["kind"], row["exit"])
    assert desk.requests == row["requests"]
    assert desk.shelf.values == row["state"]
    assert desk.waits == row.get("waits", [])
    assert receipt.ok == receipt.complete == (receipt.status == "success")
    assert not holds(as_wire(receipt), "suggestedAction", "nextCommand")
    if told:
        assert told.details["status"] == receipt.status
        assert told.retryable == (receipt.status == "retryable")
        assert not holds(told.as_json(), "suggestedAction", "nextCommand")
    if "reconciled" in row:
        desk.readback = ""
        entry = desk.reconcile("op1")
        assert entry.receipt
        assert entry.receipt.status == row["reconciled"]
        assert desk.requests == row["requests"], "reconciling sends nothing"
        assert desk.shelf.values == row["state"]
        assert desk.reconcile("op1") == entry, "and is done once"
