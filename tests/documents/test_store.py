"""The store beneath: positions, hashes, commits that fail, queries that stay small, what the reference says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyloop.contract.problem import as_wire
from polyloop.contract.receipt import Receipt
from polyloop.db import CommitUnknown, Database, DbError
from polyloop.db.sqlite import SqliteSession
from polyloop.documents import requests as ask
from polyloop.documents import store
from polyloop.documents.leaves import AFTERWARDS, OPERATIONS, PURPOSE
from polyloop.documents.positions import between, numbered, spread
from polyloop.documents.service import serve
from tests.documents.office import Office

REFERENCE = Path(__file__).parents[2] / "docs/reference/documents.json"
SCHEMAS = REFERENCE.parent / "schemas"


@given(st.lists(st.integers(0, 100), max_size=60))
def test_there_is_always_room_between(where: list[int]) -> None:
    row = [numbered(1), numbered(16), numbered(17)]
    for n in where:
        at = n % (len(row) + 1)
        low, high = row[at - 1] if at else "", row[at] if at < len(row) else ""
        if not high:
            continue  # after the last one positions are numbered
        new = spread(low, high, 1 + n % 3)
        assert all(not p.endswith("0") for p in new)
        row[at:at] = new
        assert row == sorted(set(row))


def test_positions_by_hand() -> None:
    assert between("", "0000000001") == "00000000008"
    assert between("0000000001", "0000000002") == "00000000018"
    assert spread("", "8", 0) == []
    assert between("f", "") == "f8"


EDIT = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)), st.tuples(st.just("insert_before"), st.integers(0, 30)),
    st.tuples(st.just("insert_after"), st.integers(0, 30)), st.tuples(st.just("replace"), st.integers(0, 30)),
    st.tuples(st.just("delete"), st.integers(0, 30)), st.tuples(st.just("move"), st.integers(0, 900)),
    st.tuples(st.just("copy"), st.integers(0, 900)),
    st.tuples(st.just("overwrite"), st.integers(0, 3)), st.tuples(st.just("version_revert"), st.integers(0, 30)),
)  # fmt: skip


@settings(max_examples=400 if os.environ.get("POLYLOOP_SOAK") else 30)
@given(st.lists(EDIT, max_size=12))
def test_any_row_of_edits_does_what_a_list_does(db: Database, edits: list[tuple[str, int]]) -> None:
    office = Office(db)
    node_id = office.new("D", "p0\n\np1\n")
    model, revisions = ["p0", "p1"], [["p0", "p1"]]
    for no, (command, n) in enumerate(edits, 1):
        ids = [b["blockId"] for b in office.blocks(node_id)]
        args: dict[str, Any] = {"nodeId": node_id, "expectedRevision": len(revisions)}
        new = [f"q{no}-{k}" for k in range(n if command in ("append", "overwrite") else 1)]
        at, to = (n % len(ids), n // 30 % len(ids)) if ids else (0, 0)
        if command == "version_revert":
            back = n % len(revisions)
            office.do(command, {**args, "revision": back + 1})
            model = list(revisions[back])
            revisions.append(list(model))
            continue
        if (not ids and command not in ("append", "overwrite")) or (command == "move" and at == to):
            continue
        args |= {"command": command, "content": "\n\n".join(new)} if new and command not in ("delete", "move", "copy") else {"command": command}
        if command == "overwrite":
            args["content"] = "\n\n".join(new)
        if command not in ("append", "overwrite"):
            args["blockId"] = ids[at]
        if command in ("move", "copy"):
            args["afterBlockId"] = ids[to]
        office.do("update", args)
        model = changed(model, command, at, to, new)
        revisions.append(list(model))
        assert office.text(node_id, format="text").split("\n") == (model or [""])
    for revision, wanted in enumerate(revisions, 1):
        assert office.text(node_id, format="text", revision=revision).split("\n") == (wanted or [""])
        rows = db.look(store.rows_at, office.tenant, node_id, revision)
        assert store.summed(store.EMPTY, rows, ()) == db.look(store.revision_of, office.tenant, node_id, revision)[1]


def changed(model: list[str], command: str, at: int, to: int, new: list[str]) -> list[str]:
    match command:
        case "append":
            return [*model, *new]
        case "overwrite":
            return list(new)
        case "insert_before":
            return [*model[:at], *new, *model[at:]]
        case "insert_after":
            return [*model[: at + 1], *new, *model[at + 1 :]]
        case "replace":
            return [*model[:at], *new, *model[at + 1 :]]
        case "delete":
            return [*model[:at], *model[at + 1 :]]
        case "copy":
            return [*model[: to + 1], model[at], *model[to + 1 :]]
        case _:
            rest = [*model[:at], *model[at + 1 :]]
            where = to + 1 if to < at else to
            return [*rest[:where], model[at], *rest[where:]]


class Watched:
    """A transaction that remembers what it was asked."""

    def __init__(self, tx: Any) -> None:
        self.tx, self.asked = tx, list[tuple[str, tuple[Any, ...]]]()

    dialect = "sqlite"

    def __getattr__(self, verb: str) -> Any:
        def carry(sql: str, *values: Any) -> Any:
            self.asked.append((sql, values))
            return getattr(self.tx, verb)(sql, *values)

        return carry


def test_an_append_touches_no_row_but_its_own(db: Database) -> None:
    office = Office(db)
    node_id = office.new("D", "word\n\n" * 2000)
    plans: list[str] = []

    def work(tx: Any) -> None:
        watched: Any = Watched(tx)
        reply = serve(watched, office.tenant, ask.Edit(node=node_id, blocks=('{"type":"paragraph"}',)), "step")
        serve(watched, office.tenant, ask.Facts(node=node_id, revision=reply["revision"]))
        serve(watched, office.tenant, ask.Nodes(cursor="1", limit=3))
        for sql, values in watched.asked:
            plans.extend(row[3] for row in tx.rows(f"explain query plan {sql}", *values))

    db.write_sync(work)
    blocks = {plan for plan in plans if "doc_block" in plan}
    assert not [plan for plan in plans if plan.startswith("SCAN") and "CONSTANT" not in plan]
    assert {plan.split("INDEX ")[1].split(" ")[0] for plan in blocks} == {"doc_block_order", "doc_block_since", "doc_block_until"}


def test_one_block_or_item_of_many_is_found_by_its_own_name(db: Database) -> None:
    """Not by going through all that stand: then what is done to every block costs the square of their number."""
    office = Office(db)
    node_id = office.new("D", "word\n\n" * 3)
    first, second, third = (block["blockId"] for block in office.blocks(node_id))
    asked: list[tuple[str, tuple[Any, ...]]] = []

    def work(tx: Any) -> list[str]:
        watched: Any = Watched(tx)
        edit = ask.Edit(node=node_id, remove=(first,), change={second: '{"type":"paragraph"}'}, anchor=third)
        serve(watched, office.tenant, edit, "step")
        serve(watched, office.tenant, ask.Attach(node=node_id, kind="access", item="u", mark="READER", body='{"role":"READER"}'), "grant")
        serve(watched, office.tenant, ask.Describe(node=node_id), "", "u")
        asked.extend((sql, values) for sql, values in watched.asked if " id = ?" in sql and ("doc_block" in sql or "doc_item" in sql))
        return [row[3] for sql, values in asked for row in tx.rows(f"explain query plan {sql}", *values) if row[3].startswith("SEARCH")]

    plans = db.write_sync(work)
    assert len(plans) >= 6
    assert [plan for plan in plans if "autoindex" not in plan] == []


@pytest.mark.parametrize(("fault", "after", "status", "kind"), [
    (CommitUnknown("lost"), False, "unknown", "commit_unknown"), (CommitUnknown("lost"), True, "unknown", "commit_unknown"),
    (DbError("the disk is full"), False, "failed", "local_io"),
])  # fmt: skip
def test_S0_39_a_commit_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: DbError, after: bool, status: str, kind: str) -> None:
    """Nothing was written, or it cannot be told; asked again by its key it is there once."""
    db = Database.open(tmp_path / "s.db", store.SCHEMAS)
    office = Office(db)
    node_id = office.new()
    whole, failed = SqliteSession.commit, []

    def commit(self: SqliteSession) -> None:
        if failed:
            return whole(self)
        failed.append(self)
        (whole if after else SqliteSession.rollback)(self)
        raise fault

    args = {"nodeId": node_id, "command": "append", "content": "two\n", "operationKey": "k"}
    with monkeypatch.context() as patched:
        patched.setattr(SqliteSession, "commit", commit)
        receipt = office.receipt("update", args)
    assert receipt.status == status
    assert receipt.problem().kind == kind
    assert receipt.problem().execution_started is (status == "unknown")
    assert office.text(node_id) == ("one\n\ntwo\n" if after else "one\n")
    assert office.receipt("update", args).ok
    assert office.text(node_id) == "one\n\ntwo\n"
    db.close()


def test_a_read_of_a_store_that_fails_is_a_typed_error(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "s.db", store.SCHEMAS)
    office = Office(db)
    office.new()
    db.close()
    for op, args in (("list", {}), ("create", {"title": "x"}), ("operation_get", {"operationId": "x"}), ("reconcile", {"operationId": "x"})):
        told, code = office.call(op, args)
        assert (told["error"]["kind"], code, told["error"]["executionStarted"]) == ("local_io", 1, False)


def reference() -> str:
    """What docs/reference/documents.json must be."""
    told = {
        name: {
            "purpose": PURPOSE[name], "effect": op.effect, "contract": op.contract, "verify": op.verify, "confirm": op.confirm,
            "steps": [s.name for s in op.steps], "arguments": op.arguments.raw,
        }
        for name, op in OPERATIONS.items()
    }  # fmt: skip
    told |= {name: {"purpose": PURPOSE[name], "arguments": shape.raw} for name, shape in AFTERWARDS.items()}
    return json.dumps(told, indent=1) + "\n"


def test_S0_1_the_reference_is_what_the_leaves_say() -> None:
    """`POLYLOOP_WRITE=1 pytest tests/documents/test_store.py` writes it anew."""
    if os.environ.get("POLYLOOP_WRITE"):
        REFERENCE.write_text(reference())
    assert REFERENCE.read_text() == reference()
    assert all(op.verify != "none" for op in OPERATIONS.values() if op.effect == "write")


def test_S0_16_S0_17_every_receipt_keeps_the_published_schema(office: Office) -> None:
    node_id = office.new()
    schema = jsonschema_rs.Draft202012Validator(json.loads((SCHEMAS / "operation.v1.json").read_text()))
    for op, args in (
        ("create", {"title": "x"}), ("update", {"nodeId": node_id, "command": "append", "content": "x"}),
        ("rename", {"nodeId": node_id, "title": "y"}),
        ("version_save", {"nodeId": node_id}), ("delete", {"nodeId": node_id}), ("restore", {"nodeId": node_id, "expectedRevision": 9}),
    ):  # fmt: skip
        answer = office.answer(op, args, approved_by="ann")
        if isinstance(answer, Receipt):
            schema.validate(json.loads(json.dumps(as_wire(answer))))
