"""A store made before all subjects shared one journal is brought up to date with everything it holds."""

from __future__ import annotations

from pathlib import Path

from polyloop.db import Database, Schema
from polyloop.documents.store import SCHEMAS
from tests.documents.office import Office


def test_operations_of_an_older_store_move_into_the_journal(tmp_path: Path) -> None:
    documents = SCHEMAS[1]
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
