"""A store made before all subjects shared one journal is brought up to date with everything it holds."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from polyloop.app import documents as wired
from polyloop.app.documents import open_documents
from polyloop.contract.problem import ProblemError
from polyloop.db import Database, DbError, Schema
from polyloop.documents.store import EMPTY, OPEN, SCHEMAS
from tests.documents.office import Office


def test_operations_of_an_older_store_move_into_the_journal(tmp_path: Path) -> None:
    documents = next(schema for schema in SCHEMAS if schema.component == "documents")
    old = Database.open(tmp_path / "s.db", [Schema("documents", documents.steps[:1])])

    def work(tx: object) -> None:
        for table, values in {
            "doc_operation": ("t", "op", "k", "s", "{}", '{"operation_id":"op","operation":"doc.create","request":"r"}'),
            "doc_approval": ("t", "plan-1", "r", 1, "{}"), "doc_fact": ("t", "s", 1, '{"type":"missed","operation":"doc.create"}'),
            "doc_secret": ("t", "secret"),
        }.items():  # fmt: skip
            tx.run(f"insert into {table} values ({', '.join('?' * len(values))})", *values)  # type: ignore[attr-defined]  # a Tx

    old.write_sync(work)
    old.close()
    db = Database.open(tmp_path / "s.db", SCHEMAS)
    office = Office(db, "t")
    assert office.do("operation_get", {"operationId": "op"})["data"]["state"] == "running"
    assert [db.look(lambda tx, t=t: tx.rows(f"select count(*) from {t}")) for t in ("op_approval", "op_fact", "op_secret")] == [[(1,)]] * 3
    assert db.look(lambda tx: tx.rows("select name from sqlite_schema where name in ('doc_operation', 'doc_fact')")) == []
    db.close()


def test_nodes_of_an_older_store_are_found_once_it_is_opened(tmp_path: Path) -> None:
    documents = next(schema for schema in SCHEMAS if schema.component == "documents")
    path = tmp_path / "s.db"
    old = Database.open(path, [s if s.component != "documents" else Schema("documents", documents.steps[:2]) for s in SCHEMAS])

    def work(tx: Any) -> None:
        tx.run("insert into doc_tenant values ('t', 2)")
        for n, title in enumerate(("旧文档", "，"), 1):
            tx.run("insert into doc_node values ('t', ?, 'document', 1, ?, 1, 1, ?)", f"n_{n}", EMPTY, n)
            tx.run("insert into doc_place values ('t', ?, ?, ?, ?, 'document', ?, 'root', 'live')", f"n_{n}", n, OPEN, n, title)
            body = '{"type":"paragraph","runs":[{"text":"里面的字"}]}'
            tx.run("insert into doc_block values ('t', ?, 'b', 1, ?, '1', ?, 'h')", f"n_{n}", OPEN, body)

    old.write_sync(work)
    old.close()
    for _ in range(2):
        with open_documents(str(path), "t") as opened:
            found = [asyncio.run(opened.call("search", {"query": query})) for query in ("旧文档", "里面")]
            assert [[i["nodeId"] for i in page["items"]] for page in found if isinstance(page, dict)] == [["n_1"], ["n_2", "n_1"]]


def test_tasks_of_an_older_store_are_known_by_their_nodes(tmp_path: Path) -> None:
    documents = next(schema for schema in SCHEMAS if schema.component == "documents")
    old = Database.open(tmp_path / "s.db", [s if s.component != "documents" else Schema("documents", documents.steps[:7]) for s in SCHEMAS])
    bodies = {
        "t_1": '{"work":{"type":"import","name":"a"},"expires":1,"result":{"nodeId":"n_1"}}',
        "t_2": '{"work":{"type":"import","name":"a"},"expires":1,"result":null}',
        "t_3": '{"work":{"type":"export","node":"n_3"},"expires":1,"result":null}',
    }  # fmt: skip

    def work(tx: Any) -> None:
        for no, (task, body) in enumerate(bodies.items()):
            kind = "doc.import" if "import" in body else "doc.export"
            tx.run("insert into task values ('t', ?, ?, 'INIT', '', 0, 0, ?, ?)", task, kind, no, body)

    old.write_sync(work)
    old.close()
    db = Database.open(tmp_path / "s.db", SCHEMAS)
    rows = db.look(lambda tx: tx.rows("select task, node from doc_task order by task"))
    assert rows == [("t_1", "n_1"), ("t_2", ""), ("t_3", "n_3")]
    db.close()


def test_a_purge_reaches_the_operation_of_an_import_of_an_older_store(tmp_path: Path) -> None:
    """Neither the task nor the operation says there that they are about the document."""
    (tmp_path / "zebra.md").write_text("words\n")
    db = Database.open(tmp_path / "s.db", SCHEMAS)
    office = Office(db, "t", folder=tmp_path)
    other = office.do("import", {"file": "zebra.md", "title": "other"})["operationId"]
    node = office.do("import", {"file": "zebra.md"})["nodeId"]
    db.write_sync(lambda tx: tx.run("update doc_task set operation = ''"))
    db.write_sync(lambda tx: tx.run("update op_entry set target = '' where entry like '%doc.import%'"))
    office.do("delete", {"nodeId": node})
    office.do("purge", {"nodeId": node})
    kept = db.look(lambda tx: tx.rows("select id from op_entry where entry like '%zebra%' or memo like '%zebra%'"))
    assert kept == [(other,)]
    db.close()


@pytest.mark.needs("postgres")
def test_a_task_of_an_older_store_may_say_a_NUL(url: str) -> None:
    documents = next(schema for schema in SCHEMAS if schema.component == "documents")
    old = Database.open(url, [s if s.component != "documents" else Schema("documents", documents.steps[:7]) for s in SCHEMAS])
    body = r'{"work":{"type":"export","node":"n_1","title":"\\u0000"},"result":null,"error":{"message":"a\u0000b"}}'
    old.write_sync(lambda tx: tx.run("insert into task values ('t', 't_1', 'doc.export', 'FAILED', '', 0, 0, 1, ?)", body))
    old.close()
    db = Database.open(url, SCHEMAS)
    assert db.look(lambda tx: tx.rows("select task, node from doc_task")) == [("t_1", "n_1")]
    db.close()


def test_a_store_that_cannot_be_brought_up_to_date_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: Any) -> bool:
        raise DbError("the disk is gone")

    monkeypatch.setattr(wired, "unindexed", failing)
    before = threading.active_count()
    with pytest.raises(ProblemError, match="local_io"), open_documents(str(tmp_path / "s.db"), "t"):
        pass
    assert threading.active_count() == before
