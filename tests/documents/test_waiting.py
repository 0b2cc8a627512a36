"""Nobody waits for what takes long and needs no store: contents, pictures, reads; and what passes is tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from polyloop.db import Database, Tx
from polyloop.documents import content, limits
from polyloop.documents import requests as ask
from polyloop.documents.service import Here, serve
from polyloop.documents.tasks import get
from tests.documents.office import YES, Office
from tests.documents.test_media import PNG

PATIENCE_S = 60


@contextmanager
def busy(db: Database) -> Iterator[None]:
    """The writer is held by somebody."""
    held, done = threading.Event(), threading.Event()

    def work(_: Tx) -> None:
        held.set()
        done.wait(PATIENCE_S)

    thread = threading.Thread(target=lambda: db.write_sync(work), daemon=True)
    thread.start()
    assert held.wait(PATIENCE_S)
    try:
        yield
    finally:
        done.set()
        thread.join(PATIENCE_S)


def ended(work: Callable[[], Any]) -> Any:
    """What it returns, in a thread of its own that need not wait for anybody."""
    out: list[Any] = []
    thread = threading.Thread(target=lambda: out.append(work()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S / 2)
    assert out, "it waits for the writer"
    return out[0]


def test_reads_of_a_task_or_a_landing_never_wait_for_the_writer(db: Database, tmp_path: Path) -> None:
    office = Office(db, folder=tmp_path)
    (tmp_path / "a.png").write_bytes(PNG)
    node = office.new()
    media = office.do("media_insert", {"nodeId": node, "file": "a.png"})["data"]["resourceId"]
    asks: list[ask.Request] = [
        ask.Describe(node=node), ask.Content(node=node), ask.Nodes(), ask.Search(query="one"), ask.Versions(node=node),
        ask.Attached(node=node, kind="media"), ask.Blob(node=node, item=media), ask.Facts(node=node, revision=1),
    ]  # fmt: skip
    assert {type(request) for request in asks} == set(ask.READING) == set(ask.Read.__args__) - {ask.Find}
    here = Here(db, office.tenant)
    with busy(db):
        for request in asks:
            assert ended(lambda r=request: here.ask(r))


def test_a_picture_is_made_small_outside_the_transaction(db: Database, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    office = Office(db, folder=tmp_path)
    (tmp_path / "a.png").write_bytes(PNG)
    node = office.new()
    small = ask.Blob(node=node, item=office.do("media_insert", {"nodeId": node, "file": "a.png"})["data"]["resourceId"], small=True)
    assert db.look(lambda tx: serve(tx, office.tenant, small))["data"] == PNG, "as it was put in"
    assert Here(db, office.tenant).ask(small)["data"] != PNG


@pytest.mark.parametrize(
    ("form", "given"),
    [
        ("markdown", "# 标题\n\n" + "长文 *words*\n\n" * 400), ("text", "line\n" * 2_000),
        ("blocks", [{"type": "paragraph", "runs": [{"text": f"p{n}"}]} for n in range(300)]),
    ],
)  # fmt: skip
def test_a_long_content_is_read_before_the_writer_is_asked_for(office: Office, monkeypatch: pytest.MonkeyPatch, form: str, given: Any) -> None:
    """Once, in no thread that others wait for; and it is written as a short one is."""
    threads: list[threading.Thread] = []
    real = content._read

    def read(content_: object, form_: str) -> Any:
        threads.append(threading.current_thread())
        return real(content_, form_)

    monkeypatch.setattr(content, "_read", read)
    node = office.do("create", {"title": "N", "content": given, "format": form})["data"]["nodeId"]
    office.do("update", {"nodeId": node, "command": "append", "content": given, "format": form})
    assert len(threads) == 2
    writer: threading.Thread = office.db.write_sync(lambda _: threading.current_thread())
    assert writer not in threads
    threads.clear()
    office.do("update", {"nodeId": node, "command": "append", "content": "short", "format": "text"})
    assert len(threads) == 1


@pytest.mark.parametrize(
    ("form", "given"),
    [("markdown", "a\0" * 4_000), ("text", "x" * (limits.CONTENT_CHARS + 1)), ("blocks", [{"type": "none"}] * 200), ("blocks", [1] * 200)],
)
def test_what_is_wrong_with_a_long_content_is_said_in_its_turn(office: Office, form: str, given: Any) -> None:
    args = {"content": given, "format": form}
    office.refused("validation", "create", {"title": "N", **args})
    office.refused("not_found", "update", {"nodeId": "n_none", "command": "overwrite", "expectedRevision": 1, **args})


# --- what passes -----------------------------------------------------------------------------------------------------


def worked(office: Office, task: str, rounds: int) -> tuple[str, int]:
    """State and attempts after workers have looked so often, each a while later."""
    for _ in range(rounds):
        office.runtime.worker().one(task)
        office.clock.advance(60)
    found = office.db.look(get, office.tenant, task)
    return found.state, found.attempt


@pytest.mark.parametrize("fault", ["refuse_connect", "429_after_2", "lose_request"])
def test_a_fault_that_passes_ends_no_task(db: Database, tmp_path: Path, fault: str) -> None:
    office = Office(db, folder=tmp_path, faulty=True, faults=[fault] * 3)
    (tmp_path / "a.md").write_text("text\n")
    task = office.do_later("import", {"file": "a.md"})
    office.runtime.worker().one(task)
    waiting = office.call("import_get", {"taskId": task})
    assert (waiting[0]["state"], waiting[1]) == ("PROCESSING", 10)
    assert office.runtime.worker().one(task) is None, "not at once"
    assert worked(office, task, limits.TASK_ATTEMPTS)[0] == "SUCCESS"
    assert [title for title, _ in office.documents()] == ["a"]


def test_a_fault_that_stays_is_told_when_the_attempts_are_used_up(db: Database, tmp_path: Path) -> None:
    office = Office(db, folder=tmp_path, faulty=True, faults=["refuse_connect"] * 99)
    (tmp_path / "a.md").write_text("text\n")
    task = office.do_later("import", {"file": "a.md"})
    assert worked(office, task, limits.TASK_ATTEMPTS + 2) == ("FAILED", limits.TASK_ATTEMPTS)
    assert office.call("import_get", {"taskId": task})[0]["error"]["kind"] == "capability_unavailable"


def test_what_is_final_is_told_at_once(db: Database, tmp_path: Path) -> None:
    office = Office(db, folder=tmp_path, faulty=True, faults=["403"])
    (tmp_path / "a.md").write_text("text\n")
    assert worked(office, office.do_later("import", {"file": "a.md"}), 2) == ("FAILED", 1)


def test_a_document_that_stays_behind_is_named(db: Database, tmp_path: Path) -> None:
    """Its file was refused after it was made."""
    office = Office(db, folder=tmp_path, faulty=True, faults=["", "403"])
    (tmp_path / "a.png").write_bytes(PNG)
    told, code = office.call("import", {"file": "a.png", "asUpload": True}, **YES)
    assert code == 6
    made = told["error"]["details"]["nodeId"]
    assert [item["nodeId"] for item in office.do("list", {})["items"]] == [made]
    about = office.db.look(lambda tx: tx.rows("select node from doc_task where tenant = ?", office.tenant))
    assert about == [(made,)], "a purge of it reaches its task"


# --- what is swept ---------------------------------------------------------------------------------------------------


def test_a_purge_sweeps_the_bytes_of_its_node_and_asks_after_no_others(db: Database, tmp_path: Path) -> None:
    office = Office(db, folder=tmp_path)
    for name, data in (("a.txt", "shared"), ("b.txt", "own"), ("c.txt", "other")):
        (tmp_path / name).write_text(data)
    gone, stays = office.new("gone"), office.new("stays")
    for node, name in ((gone, "a.txt"), (gone, "b.txt"), (stays, "a.txt"), (stays, "c.txt")):
        office.do("media_insert", {"nodeId": node, "file": name})
    office.db.write_sync(lambda tx: tx.run("insert into doc_blob (tenant, sha256, data) values (?, 'unasked', ?)", office.tenant, b"x"))
    office.do("delete", {"nodeId": gone})
    office.do("purge", {"nodeId": gone})
    kept = office.db.look(lambda tx: tx.rows("select data from doc_blob where tenant = ? order by data", office.tenant))
    assert [bytes(data) for (data,) in kept] == [b"other", b"shared", b"x"]
    plan = office.db.look(
        lambda tx: tx.rows(
            "explain query plan select 1 from doc_item where tenant = ? and kind = 'media' and mark = ? and until_seq = ?", "t", "m", 1
        )
    )
    assert "doc_item_mark" in str(plan)
