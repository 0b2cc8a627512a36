"""What is left when a document was erased for good: that it was, and when, and none of its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyloop.db import Database, Tx
from polyloop.documents.store import SCHEMAS
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


def test_a_purge_leaves_no_word_in_the_index_nor_in_the_file(tmp_path: Path) -> None:
    """FTS5 holds words until parts of it are merged, and SQLite what it moves and removes in its pages, unless they are told not to."""
    db = Database.open(tmp_path / "s.db", SCHEMAS)
    office = Office(db)
    kept = office.new("kept", "".join(f"other words {n}\n\n" for n in range(40)))
    node = office.new("zqtitle", "".join(f"zqbody{n} other words\n\n" for n in range(40)))
    block = office.do("fetch", {"nodeId": node, "format": "blocks"})["data"]["blocks"][0]["blockId"]
    revision = office.do("rename", {"nodeId": node, "title": "zqrename"})["data"]["revision"]
    office.do("update", {"nodeId": node, "command": "replace", "blockId": block, "content": "zqlater", "expectedRevision": revision})
    office.do("comment_create", {"nodeId": node, "content": "zqcomment " * 900})
    office.do("update", {"nodeId": kept, "command": "append", "content": "other words again"})
    assert any(b"zq" in bytes(data) for (data,) in db.look(lambda tx: tx.rows("select block from doc_fts_data")))
    office.do("delete", {"nodeId": node})
    office.do("purge", {"nodeId": node})
    db.write_sync(lambda tx: tx.run("insert into doc_fts (doc_fts) values ('integrity-check')"))
    assert not any(b"zq" in bytes(data) for (data,) in db.look(lambda tx: tx.rows("select block from doc_fts_data")))
    assert office.do("search", {"query": "other words again"})["count"] == 1
    db.close()
    assert b"zq" not in (tmp_path / "s.db").read_bytes()
