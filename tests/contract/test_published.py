"""The committed wire schemas are those of the code. `POLYLOOP_WRITE=1 pytest tests/contract/test_published.py` writes them anew."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from polyloop.contract.operation import WIRE, shown
from polyloop.contract.paging import Covered, Listing
from polyloop.contract.problem import Problem, as_wire
from polyloop.contract.receipt import Receipt
from polyloop.contract.schema import published
from polyloop.contract.task import Ticket, ticket
from tests.contract.toy import Desk

FOLDER = Path(__file__).parents[2] / "docs/reference/schemas"


@pytest.mark.parametrize("name", WIRE)
def test_committed_schemas_equal_the_generated(name: str) -> None:
    if os.environ.get("POLYLOOP_WRITE"):
        for each, wire in WIRE.items():
            (FOLDER / f"{each}.json").write_bytes(published(wire))
    path = FOLDER / f"{name}.json"
    assert path.read_bytes() == published(WIRE[name]) == published(WIRE[name])
    assert {p.stem for p in FOLDER.glob("*.json")} == set(WIRE)


def check(name: str, value: dict[str, Any]) -> None:
    jsonschema_rs.Draft202012Validator(json.loads((FOLDER / f"{name}.json").read_text())).validate(json.loads(json.dumps(value)))


def test_what_is_printed_keeps_its_schema_and_exit_code() -> None:
    good, code = shown(Desk().call("put"))
    check("operation.v1", good)
    assert (good["status"], code) == ("success", 0)
    for fault, exit_code in (("drop_reply", 4), ("403", 6), ("429_after_3600", 11)):
        bad, code = shown(Desk(faults=[fault]).call("put"))
        check("error.v1", bad)
        check("operation.v1", bad["error"]["details"])
        assert (bad.keys(), code) == ({"error"}, exit_code)
    wrong, code = shown(Desk().call("put", {}))
    check("error.v1", wrong)
    assert (wrong["error"]["kind"], code) == ("validation", 2)
    started, code = shown(Desk().call("order"))
    check("task.v1", started)
    assert code == 10
    assert shown(Desk().call("get", {"name": "a"})) == ({"name": "a", "value": "", "revision": 0}, 0)
    check("task.v1", as_wire(ticket("t", "k", "failed", error=Problem("task_failed", "x"))))
    listing = Listing(
        items=(1,), count=1, complete=False, has_more=True, truncated=True, stop_reason="max_items", continuation="x", covered=Covered(1, 1),
        requested={},
    )  # fmt: skip
    check("list.v1", as_wire(listing))


@pytest.mark.parametrize(
    ("name", "required"),
    [
        ("operation.v1", {"contractVersion", "ok", "status", "complete", "operation", "steps", "data", "warnings", "compensation"}),
        ("task.v1", {"taskId", "kind", "state", "complete"}),
        ("list.v1", {"items", "count", "complete", "hasMore", "truncated", "stopReason", "continuation", "covered", "requested"}),
    ],
)
def test_S0_16_S0_41_required_fields_and_nothing_invented(name: str, required: set[str]) -> None:
    schema = json.loads(published(WIRE[name]))
    top = schema["$defs"][{"operation.v1": Receipt, "task.v1": Ticket, "list.v1": Listing}[name].__name__]
    assert set(top["required"]) == required
    assert top["additionalProperties"] is False
    assert not {"suggestedAction", "nextCommand"} & top["properties"].keys()
