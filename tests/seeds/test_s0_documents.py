"""Seed S0 (document runtime contracts), clause by clause, answered by the document runtime itself.

Beside tests/documents, whose tests carry clause ids too. Not here: S0.18 (import), S0.42-S0.44 (landing), which other rooms keep.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app
from polyloop.contract.problem import KINDS, Problem
from polyloop.db import Database
from polyloop.documents import requests as ask
from polyloop.documents.leaves import OPERATIONS
from polyloop.documents.store import SCHEMAS
from tests.documents.office import Office

NINE = ("validation", "not_found", "ambiguous", "type_mismatch", "revision_conflict", "confirmation_required", "permission_denied",
        "partial_success", "commit_unknown")  # fmt: skip


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    opened = Database.open(tmp_path_factory.mktemp("seeds") / "store.db", SCHEMAS)
    yield opened
    opened.close()


@pytest.fixture
def office(db: Database) -> Office:
    return Office(db)


def lost(db: Database, *faults: str) -> Office:
    office = Office(db, faulty=True)
    office.new()
    office.transport.faults = list(faults)
    return office


APPEND = {"title": "D", "command": "append", "content": "x\n"}


def test_S0_2_what_is_shown_to_people_is_not_what_programs_read(tmp_path: Path) -> None:
    """The status stands in JSON fields; the words for people change with the language, the JSON does not."""
    store = str(tmp_path / "s.db")
    for lang in ("zh", "en"):
        done = CliRunner().invoke(app, ["docs", "call", "list", "--args", "-", "--json", "--store", store, "--lang", lang], input="{}")
        assert json.loads(done.stdout)["complete"] is True
    shown = {
        lang: CliRunner().invoke(app, ["docs", "call", "create", "--args", "-", "--store", store, "--lang", lang], input='{"title": "x"}').stdout
        for lang in ("zh", "en")
    }
    assert shown["zh"].splitlines()[0] != shown["en"].splitlines()[0]


def test_S0_4_a_title_is_no_identity(office: Office) -> None:
    one, other = office.new("same"), office.new("same")
    assert one != other
    office.refused("not_found", "fetch", {"nodeId": "same"})
    office.do("rename", {"nodeId": one, "title": "another"})
    assert office.do("resolve", {"title": "same"})["target"]["nodeId"] == other


def test_S0_7_a_partial_success_says_what_was_done_and_how_to_take_it_back(db: Database) -> None:
    office = lost(db, "", "403")
    told, code = office.call("checkpoint_update", {"title": "D", "mode": "append", "content": "x\n"})
    details = told["error"]["details"]
    assert (code, told["error"]["kind"], details["status"]) == (3, "partial_success", "partial_success")
    assert [s["status"] for s in details["steps"]] == ["success", "failed", "not_started"]
    assert details["compensation"]["available"] is False
    assert "inspect_steps" in told["error"]["actions"]


def test_S0_13_the_one_retry_waits_as_told(db: Database) -> None:
    office = lost(db, *["429_after_2"] * 5)
    told, code = office.call("update", APPEND)
    assert (code, office.waits, office.transport.seen) == (11, [2], 3)
    assert (told["error"]["retryable"], told["error"]["retryAfterSeconds"]) == (True, 2)


def test_S0_14_a_failure_says_what_to_decide_by(office: Office) -> None:
    error = office.refused("type_mismatch", "update", {"nodeId": office.do("create_folder", {"title": "F"})["data"]["nodeId"], **_no_title(APPEND)})
    assert {"retryable", "actions", "details", "stage", "executionStarted"} <= error.keys()
    assert error["details"]["resourceType"] == "folder"


def _no_title(args: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if name != "title"}


@pytest.mark.parametrize("fault", ["empty_object", "text_ok", "id_only", "other_node"])
def test_S0_15_S0_20_a_good_transport_and_an_id_are_no_success(db: Database, fault: str) -> None:
    office = lost(db, fault)
    assert office.receipt("update", APPEND).status == "unknown"
    assert office.receipt("create", {"title": "N"}).ok, "the next one is whole"


def test_S0_21_S0_23_success_needs_the_read_back(db: Database) -> None:
    office = lost(db)
    office.transport.on_read = lambda request, reply: {} if isinstance(request, ask.Facts) else reply
    receipt = office.receipt("update", APPEND)
    assert (receipt.status, receipt.steps[-1].name, receipt.steps[-1].status) == ("partial_success", "verify", "failed")


def test_S0_25_what_was_proved_is_not_read_twice(db: Database) -> None:
    office, asked = lost(db), list[str]()
    office.transport.on_read = lambda request, reply: (asked.append(type(request).__name__), reply)[1]
    assert office.receipt("update", {**APPEND, "operationKey": "k"}).ok
    assert asked.count("Facts") == 1
    assert office.receipt("update", {**APPEND, "operationKey": "k"}).ok
    assert asked.count("Facts") == 1, "nor when it is asked again"


def test_S0_36_the_nine_kinds_are_reached_from_outside(db: Database) -> None:
    office = Office(db)
    folder = office.do("create_folder", {"title": "twin"})["data"]["nodeId"]
    node_id = office.new("twin")
    target = {"nodeId": node_id, "command": "append", "content": "x"}
    reached = {
        office.refused("validation", "create", {})["kind"], office.refused("not_found", "fetch", {"title": "none"})["kind"],
        office.refused("ambiguous", "fetch", {"title": "twin"})["kind"], office.refused("type_mismatch", "fetch", {"nodeId": folder})["kind"],
        office.refused("revision_conflict", "update", {**target, "expectedRevision": 9})["kind"],
        office.refused("confirmation_required", "delete", {"nodeId": node_id}, approved_by="")["kind"],
        office.refused("permission_denied", "update", target, mode="read_only")["kind"],
        lost(db, "", "502").call("checkpoint_update", {"title": "D", "mode": "append", "content": "x"})[0]["error"]["kind"],
        lost(db, "504").call("update", APPEND)[0]["error"]["kind"],
    }  # fmt: skip
    assert reached == set(NINE) < set(KINDS)


def test_S0_37_S0_40_an_error_tells_its_stage_and_whether_a_blind_replay_is_safe(db: Database) -> None:
    told, _ = lost(db, "lose_reply").call("update", APPEND)
    error = told["error"]
    assert (error["stage"], error["executionStarted"], error["retryable"]) == ("write", True, False)
    assert error["actions"][:2] == ["read_back", "reconcile"]


def test_S0_41_nothing_is_invented(db: Database) -> None:
    office = lost(db)
    office.transport.on_read = lambda request, reply: (
        {**reply, "suggestedAction": "x", "nextCommand": "y"} if isinstance(request, ask.Describe) else reply
    )
    told, _ = office.call("update", {**APPEND, "expectedRevision": 9})
    assert "suggestedAction" not in json.dumps(told)
    assert "nextCommand" not in json.dumps(told)
    fields = {name for op in OPERATIONS.values() for name in op.arguments.raw["properties"]}
    assert not {"suggestedAction", "nextCommand"} & (fields | set(Problem.__struct_fields__))
