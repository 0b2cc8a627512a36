"""The fault table (`faults.jsonl`): what happens on the way -> status, kind, exit, writes the service saw, documents afterwards."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from polyloop.contract.problem import Problem, ProblemError, as_wire
from polyloop.contract.receipt import Receipt
from polyloop.db import Database
from polyloop.documents import requests as ask
from polyloop.testing.documents import DELIVERIES, FAULTS
from tests.documents.office import YES, Office

ROWS = [json.loads(line) for line in Path(__file__).with_name("faults.jsonl").read_text().splitlines()]
ARGS: dict[str, tuple[str, dict[str, Any]]] = {
    "create": ("create", {"title": "N", "content": "new\n"}),
    "append": ("update", {"title": "D", "command": "append", "content": "two\n"}),
    "overwrite": ("update", {"title": "D", "command": "overwrite", "content": "three\n", "expectedRevision": 1}),
    "str_replace": ("update", {"title": "D", "command": "str_replace", "old": "o", "new": "no"}),
    "rename": ("rename", {"title": "E"}),
    "copy": ("copy", {"title": "C"}),
    "delete": ("delete", {"title": "D"}),
    "version_save": ("version_save", {"title": "D", "label": "v"}),
    "checkpoint_update": ("checkpoint_update", {"title": "D", "mode": "append", "content": "two\n"}),
}
NINE = ["contractVersion", "ok", "status", "complete", "operation", "steps", "data", "warnings", "compensation"]


def holds(value: Any, *names: str) -> bool:
    if isinstance(value, dict):
        return any(k in names or holds(v, *names) for k, v in value.items())
    return isinstance(value, list) and any(holds(v, *names) for v in value)


def start(db: Database, op: str, faults: list[str], **more: Any) -> tuple[Office, str, dict[str, Any]]:
    """An office with one document D, whose next writes meet these faults."""
    node_id = Office(db, (office := Office(db, faulty=True, **more)).tenant).new()
    office.transport.faults = list(faults)
    name, args = ARGS[op]
    return office, name, {**args, **({"nodeId": node_id} if name in ("rename", "copy") else {})}


@pytest.mark.parametrize("row", ROWS, ids=[f"{r['op']}-{'+'.join(f or 'ok' for f in r['faults'])}" for r in ROWS])
def test_S0_9_S0_12_S0_15_S0_39_fault(db: Database, row: dict[str, Any]) -> None:
    office, op, args = start(db, row["op"], row["faults"])
    receipt = office.receipt(op, {**args, "operationKey": "k"})
    told, code = office.call("operation_get", {"operationId": receipt.data["operationId"]})
    problem = None if receipt.ok else receipt.problem()

    assert (receipt.status, problem and problem.kind, problem.exit_code if problem else 0) == (row["status"], row["kind"], row["exit"])
    assert office.transport.seen == row["seen"]
    assert office.documents() == row["documents"]
    assert office.waits == row.get("waits", [])
    assert (code, told["data"]["receipt"]) == (0, as_wire(receipt))
    assert list(as_wire(receipt))[:9] == NINE
    assert not holds([as_wire(receipt), problem and problem.as_json()], "suggestedAction", "nextCommand")
    assert all(as_wire(receipt)["target"][name] for name in ("nodeId", "resourceType", "canonicalUrl", "container"))
    if "reconciled" not in row:
        return
    entry = asyncio.run(office.runtime.reconcile(receipt.data["operationId"]))
    assert entry.receipt
    assert entry.receipt.status == row["reconciled"]
    assert office.transport.seen == row["seen"], "reconciling sends nothing"
    assert all(isinstance(said, Problem) and said.execution_started is False for said in office.transport.deliver())
    assert office.documents() == row["documents"], "what was declared absent cannot arrive any more"


def test_the_table_meets_every_fault() -> None:
    assert {fault for row in ROWS for fault in row["faults"]} - {""} == {*FAULTS, *DELIVERIES}


@pytest.mark.parametrize("op", ARGS)
@pytest.mark.parametrize("fault", ["", "lose_reply", "502", "403", "429_after_2", "refuse_connect"])
def test_S0_8_S0_11_the_same_key_again(db: Database, op: str, fault: str) -> None:
    """Success, partial and failed after start send nothing again; what did not begin is begun once."""
    office, name, args = start(db, op, [fault, fault])
    keyed = {**args, "operationKey": "k"}
    first = office.receipt(name, keyed)
    before, documents = office.transport.seen, office.documents()
    office.transport.faults = []
    again = office.receipt(name, keyed)
    if first.ok or (first.status == "failed" and first.execution_started):
        assert (again, office.transport.seen, office.documents()) == (first, before, documents)
        assert json.dumps(as_wire(again)) == json.dumps(as_wire(first)), "byte for byte"
    elif first.status == "unknown" and fault == "lose_reply":
        assert (office.transport.seen, office.documents()) == (before, documents)
        assert again.status == ("success" if op != "checkpoint_update" else "partial_success")
    else:
        assert again.ok
        assert again.data["operationId"] == first.data["operationId"]
        done = next(row for row in ROWS if row["op"] == op)["documents"]
        assert office.documents() == done
    assert office.receipt(name, keyed) == again
    told, _ = office.call(name, {**keyed, "dry": 1})
    assert told["error"]["kind"] == "validation"
    other = office.call(name, {**keyed, **({"title": "other"} if "title" in args else {"label": "x"})})
    assert other[1] != 0


@pytest.mark.parametrize(("stop", "status"), [("stopped", "unknown"), ("lying", "unknown"), ("mute", "unknown"), ("", "success")])
def test_S0_10_reconcile_believes_only_what_is_proved(db: Database, stop: str, status: str) -> None:
    office, name, args = start(db, "append", ["lose_reply"])
    receipt = office.receipt(name, args)

    def on_read(request: ask.Request, reply: ask.Reply) -> Any:
        if stop == "stopped" and isinstance(request, ask.Find | ask.Facts):
            raise ProblemError(Problem("capability_unavailable", "the service is down"))
        if stop == "lying" and isinstance(request, ask.Find):
            return {"reply": {"nodeId": "n_other", "revision": 2, "before": 1}}
        return {} if stop == "mute" and isinstance(request, ask.Find) else reply

    office.transport.on_read = on_read
    told, code = office.call("reconcile", {"operationId": receipt.data["operationId"]})
    assert (told if code == 0 else told["error"]["details"])["status"] == status
    assert office.documents() == [["D", "one\n\ntwo\n"]]
    office.transport.on_read = lambda _, reply: reply
    assert office.do("reconcile", {"operationId": receipt.data["operationId"]})["status"] == "success", "asked again when it can tell"


@pytest.mark.parametrize("chunks", [2, 3, 4])
def test_S0_7_S0_8_a_write_of_many_parts_failed_at_every_step(db: Database, chunks: int) -> None:
    paragraphs = [f"part {n}\n" for n in range(chunks)]
    content = "\n".join(paragraphs)
    for op in ("create", "update"):
        for k in range(chunks):
            for fault in ("403", "lose_reply", "502"):
                _failed_at(db, op, content, paragraphs, k, fault)


def _failed_at(db: Database, op: str, content: str, paragraphs: list[str], k: int, fault: str) -> None:
    office, _, _ = start(db, "append", [*[""] * k, fault], chunk_chars=10)
    args = {"title": "N", "content": content} if op == "create" else {"title": "D", "command": "append", "content": content}
    receipt = office.receipt(op, args)
    names = [f"write_{n + 1}" for n in range(len(paragraphs))]
    failed = {"403": "failed", "lose_reply": "unknown", "502": "unknown"}[fault]
    assert [(s.name, s.status) for s in receipt.steps] == [
        *((n, "success") for n in names[:k]), (names[k], failed), *((n, "not_started") for n in names[k + 1 :]), ("verify", "not_started"),
    ]  # fmt: skip
    assert receipt.status == ("partial_success" if k else failed)
    assert receipt.compensation.available == (k > 0)
    assert office.transport.sent == k + 1
    if k == 0:
        return
    told = office.do("compensate", {"operationId": receipt.data["operationId"]}) if fault == "403" else None
    if told is not None:
        assert office.documents() == [["D", "one\n"]], "taken back whole"
        return
    if fault == "lose_reply":
        return
    on = office.receipt(op, {**args, "continues": receipt.data["operationId"]})
    assert on.ok
    assert [s.name for s in on.steps] == [*names[k:], "verify"], "begins at the first step that was no success"
    wanted = content if op == "create" else "one\n\n" + content
    assert office.documents()[-1][1] == wanted
    changed = {**args, "content": content + "\nmore\n", "continues": receipt.data["operationId"]}
    assert office.refused("validation", op, changed)["details"]["field"] == "continues"


def test_S0_6_S0_23_what_is_read_back_must_be_what_was_meant(db: Database) -> None:
    def spoil(sql: str, *values: Any) -> Any:
        def on_read(request: ask.Request, reply: ask.Reply) -> ask.Reply:
            if isinstance(request, ask.Facts):
                db.write_sync(lambda tx: tx.run(sql, *values))
                return office.transport._serve(request, "")
            return reply

        return on_read

    spoilt = {
        "body changed": "update doc_block set body = '{\"type\":\"paragraph\"}' where tenant = ? and since_rev = 2",
        "row lost": "delete from doc_block where tenant = ? and since_rev = 2",
        "doubled": "insert into doc_block select tenant, node, id || 'x', since_rev, until_rev, pos || '8', body, hash from doc_block"
        " where tenant = ? and since_rev = 2",
        "hash changed": "update doc_revision set hash = '0' where tenant = ? and rev = 2",
    }  # fmt: skip
    for name, sql in spoilt.items():
        office, op, args = start(db, "append", [])
        office.transport.on_read = spoil(sql, office.tenant)
        receipt = office.receipt(op, args)
        assert (receipt.status, receipt.steps[-1].status) == ("partial_success", "failed"), name
        assert receipt.problem().execution_started is True
        assert receipt.problem().retryable is False


def test_a_concurrent_append_is_no_mismatch(db: Database) -> None:
    office, op, args = start(db, "append", [])
    other = Office(db, office.tenant)
    own = office.transport._serve

    def between(request: ask.Request, step_id: str) -> ask.Reply:
        reply = own(request, step_id)
        if isinstance(request, ask.Edit):
            other.do("update", {"title": "D", "command": "append", "content": "three\n"})
        return reply

    office.transport._serve = between  # type: ignore[method-assign]  # somebody else writes right after us
    receipt = office.receipt(op, args)
    assert receipt.ok
    assert office.documents() == [["D", "one\n\ntwo\n\nthree\n"]]
    office.refused("revision_conflict", "compensate", {"operationId": receipt.data["operationId"]})


def test_S0_38_no_write_is_sent_for_what_is_refused_before(db: Database) -> None:
    office, _, _ = start(db, "append", [])
    for caller, kind in (({"mode": "read_only"}, "permission_denied"), ({"mode": "request_approval", "approved_by": ""}, "confirmation_required")):
        office.refused(kind, "create", {"title": "N"}, **caller)
    office.refused("validation", "create", {"title": ""})
    office.refused("validation", "update", {"title": "D", "command": "append"})
    office.refused("confirmation_required", "delete", {"title": "D"}, approved_by="")
    assert (office.transport.sent, office.transport.seen) == (0, 0)
    assert YES
    assert isinstance(office.receipt("delete", {"title": "D"}), Receipt)
