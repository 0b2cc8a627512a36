"""What is left when a document was erased for good: that it was, and when, and none of its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyloop.db import Database, Tx
from polyloop.documents.tasks import get
from tests.documents.office import Office


@pytest.mark.parametrize("when", ["ended", "waiting", "at work"])
def test_a_purge_leaves_no_word_in_tasks_and_operations(db: Database, tmp_path: Path, when: str) -> None:
    """The title came in by a file's name; nothing that is kept of the import or an export still says it."""
    office = Office(db, folder=tmp_path)
    (tmp_path / "TOPSECRET.md").write_text("hello\n")
    node = office.do("import", {"file": "TOPSECRET.md"})["nodeId"]
    args = {"nodeId": node, "format": "markdown", "output": "x.md"}
    export = office.call("export_submit", args)[0]["taskId"]
    submitted = office.db.look(get, office.tenant, export)
    if when == "ended":
        office.runtime.worker().one(export)
    office.do("delete", {"nodeId": node})
    office.do("purge", {"nodeId": node})
    if when == "at work":  # its worker read it before the purge, and writes what it knows at the end
        office.db.write_sync(lambda tx: tx.run("update task set body = ? where id = ?", submitted.body, export))
    if when != "ended":
        office.runtime.worker().one(export)
    assert office.call("export_get", {"taskId": export})[0]["state"] == ("SUCCESS" if when == "ended" else "FAILED")

    def words(tx: Tx) -> list[str]:
        found: list[str] = []
        for (table,) in tx.rows("select name from sqlite_master where type = 'table' and sql not like '%virtual%'"):
            columns = [row[1] for row in tx.rows(f"pragma table_info({table})")]
            whose = f" tenant = '{office.tenant}' and" if "tenant" in columns else ""
            found += [f"{table}.{name}" for name in columns if tx.row(f"select 1 from {table} where{whose} cast({name} as text) like '%TOPSECRET%'")]
        return found

    assert office.db.look(words) == []
