"""Imports and exports: what they answer while open and when they have ended, who may take them over, what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from polyloop.db import Database, DbError, tasks
from polyloop.db.tasks import NEVER
from polyloop.documents import limits
from polyloop.documents import tasks as t
from polyloop.documents.worker import Held, Lost, Worker
from polyloop.kernel.seams import Action, Deferred, Outcome, Pending
from polyloop.toolbox.bridge import citable, document_tools
from tests.documents.office import Office

MD = "# Title\n\nText with **bold**.\n\n- one\n- two\n"


@pytest.fixture
def desk(db: Database, tmp_path: Path) -> Office:
    (tmp_path / "a.md").write_text(MD)
    return Office(db, folder=tmp_path)


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    return tmp_path


def worker(office: Office) -> Worker:
    return office.runtime.worker()


def row(office: Office, task_id: str) -> tasks.Task:
    return office.db.look(t.get, office.tenant, task_id)


def test_S0_18_an_import_has_a_receipt_of_its_own(desk: Office) -> None:
    told = desk.do("import", {"file": "a.md"})
    assert {name: told[name] for name in ("success", "documentName", "documentType", "warnings")} == {
        "success": True, "documentName": "a", "documentType": "document", "warnings": [],
    }  # fmt: skip
    assert told["documentUrl"] == f"doc://{desk.tenant}/{told['nodeId']}"
    assert not {"status", "steps", "state"} & told.keys()
    assert desk.text(told["nodeId"]) == MD
    again = desk.do("import_get", {"taskId": told["taskId"]})
    assert again == {name: value for name, value in told.items() if name != "operationId"}
    assert desk.db.look(lambda tx: tx.rows("select * from doc_upload where tenant = ?", desk.tenant)) == [], "the file is not kept"


@pytest.mark.parametrize("format_", ["markdown", "docx", "html", "pdf"])
def test_S0_22_an_export_is_done_when_its_task_is(desk: Office, ws: Path, format_: str) -> None:
    node_id = desk.do("import", {"file": "a.md"})["nodeId"]
    told = desk.do("export", {"nodeId": node_id, "format": format_, "output": f"out/deep/a.{format_}"})
    assert [(s["name"], s["status"]) for s in told["steps"]] == [("submit", "success"), ("finish", "success"), ("verify", "success")]
    assert (told["verification"]["method"], told["target"]["nodeId"]) == ("terminal_state", node_id)
    landed = (ws / f"out/deep/a.{format_}").read_bytes()
    assert told["data"]["bytes"] == len(landed)
    assert [p.name for p in (ws / "out/deep").iterdir()] == [f"a.{format_}"]
    if format_ == "markdown":
        assert landed == MD.encode()


def test_S0_24_an_open_task_is_told_as_open_and_another_worker_ends_it(desk: Office, ws: Path) -> None:
    ticket, code = desk.call("import", {"file": "a.md"}, wait_s=0)
    assert code == 10
    assert ticket == {"contractVersion": "task.v1", "taskId": ticket["taskId"], "kind": "import", "state": "INIT", "complete": False}
    assert desk.call("import_get", {"taskId": ticket["taskId"]}) == (ticket, 10)
    (ws / "a.md").write_text("changed meanwhile")
    other = Office(desk.db, desk.tenant)
    assert worker(other).all() == 1
    ended, code = desk.call("import_get", {"taskId": ticket["taskId"]})
    assert (ended["success"], code) == (True, 0)
    assert desk.text(ended["nodeId"]) == MD, "as the file was when it was submitted"
    submit, code = desk.call("export_submit", {"nodeId": ended["nodeId"], "format": "markdown", "output": "b.md"})
    assert (submit["state"], code) == ("INIT", 10)
    assert not (ws / "b.md").exists()
    desk.do("update", {"nodeId": ended["nodeId"], "command": "append", "content": "later\n"})
    assert worker(other).all() == 1
    got, code = desk.call("export_get", {"taskId": submit["taskId"]})
    assert (got["state"], got["complete"], code) == ("SUCCESS", True, 0)
    assert (ws / "b.md").read_text() == MD, "at the revision it was submitted for"
    pending, code = desk.call("export", {"nodeId": ended["nodeId"], "format": "markdown", "output": "c.md"}, wait_s=0)
    assert (code, pending["error"]["kind"], pending["error"]["details"]["data"]["state"]) == (3, "partial_success", "INIT")
    assert [s["status"] for s in pending["error"]["details"]["steps"]] == ["success", "not_started", "not_started"]
    worker(other).all()
    settled = desk.do("reconcile", {"operationId": pending["error"]["details"]["data"]["operationId"]})
    assert (settled["status"], settled["data"]["output"]) == ("success", "c.md")


def test_the_same_key_never_begins_a_second_task(desk: Office) -> None:
    args = {"file": "a.md", "operationKey": "k"}
    first, second = desk.do("import", args), desk.do("import", args)
    assert first["taskId"] == second["taskId"]
    assert len(desk.documents()) == 1
    submit = {"nodeId": first["nodeId"], "format": "markdown", "output": "x.md", "operationKey": "e"}
    assert desk.call("export_submit", submit)[0]["state"] == "INIT"
    worker(desk).all()
    assert desk.call("export_submit", submit)[0]["state"] == "SUCCESS", "the same task, as it stands now"


REFUSED = [
    ("../x.md", "permission_denied"), ("/etc/x.md", "permission_denied"), ("a/../../x.md", "permission_denied"), ("C:x.md", "permission_denied"),
    ("a\\b.md", "validation"), ("x\0.md", "validation"), ("", "validation"), ("a//b.md", "validation"), ("./b.md", "validation"),
    ("n" * 300 + ".md", "validation"), (".polyloop-tmp-x", "validation"), (".polyloop/runs.db", "permission_denied"),
    ("link/x.md", "permission_denied"), ("linked.md", "permission_denied"), ("a.md", "conflict"), ("dir", "type_mismatch"),
    ("a.md/x.md", "type_mismatch"), ("e\u0301\ud800.md", "validation"),
]  # fmt: skip


@pytest.mark.parametrize(("output", "kind"), REFUSED, ids=[f"{n}-{k}" for n, (_, k) in enumerate(REFUSED)])
def test_S0_42_S0_44_where_an_export_may_not_stand(desk: Office, ws: Path, output: str, kind: str) -> None:
    node_id = desk.new("N", MD)
    (ws / "dir").mkdir()
    (ws / "link").symlink_to(ws.parent)
    (ws / "linked.md").symlink_to(ws / "a.md")
    before = sorted(p.name for p in ws.rglob("*"))
    desk.refused(kind, "export", {"nodeId": node_id, "format": "markdown", "output": output})
    desk.refused(kind, "export_submit", {"nodeId": node_id, "format": "markdown", "output": output})
    assert sorted(p.name for p in ws.rglob("*")) == before
    assert (ws / "a.md").read_text() == MD


@pytest.mark.parametrize(
    ("format_", "output"), [("markdown", "a.pdf"), ("pdf", "a.MD"), ("docx", "a.html"), ("html", "a.docx"), ("markdown", "a.png"), ("pdf", "a.exe")]
)  # fmt: skip
def test_a_name_of_another_format_is_refused(desk: Office, format_: str, output: str) -> None:
    """Whoever opens such a file is told that it is damaged."""
    node_id = desk.new()
    for op in ("export", "export_submit"):
        error = desk.refused("validation", op, {"nodeId": node_id, "format": format_, "output": output})
        assert error["details"]["field"] == "output"


@pytest.mark.parametrize(
    ("format_", "output"), [("markdown", "a"), ("markdown", "b.txt"), ("markdown", "c.Markdown"), ("html", "d.HTM"), ("html", "e.v1.2")]
)  # fmt: skip
def test_a_name_of_the_format_or_of_none_is_taken(desk: Office, format_: str, output: str) -> None:
    assert desk.do("export", {"nodeId": desk.new(), "format": format_, "output": output})["ok"]


def test_a_task_tells_its_stages_to_who_waits(desk: Office) -> None:
    seen: list[str] = []
    desk.runtime.watch = lambda task: seen.append(t.stage_of(task))
    desk.do("import", {"file": "a.md"})
    assert [stage for n, stage in enumerate(seen) if stage != (seen[n - 1] if n else "")] == ["INIT", "PROCESSING", "WRITING", "SUCCESS"]


def test_S0_44_a_second_export_is_refused_and_overwrite_is_a_choice(desk: Office, ws: Path) -> None:
    node_id = desk.new("N", "new\n")
    args = {"nodeId": node_id, "format": "markdown", "output": "a.md"}
    desk.refused("conflict", "export", args)
    asked, code = desk.call("export", {**args, "overwrite": True})
    assert (code, asked["error"]["kind"]) == (5, "confirmation_required"), "an agent's word is not the person's choice"
    assert (ws / "a.md").read_text() == MD
    told, code = desk.call("export", {**args, "overwrite": True}, person=True)
    assert (told["status"], (ws / "a.md").read_text(), code) == ("success", "new\n", 0)
    assert desk.call("export", {**args, "overwrite": True, "output": "new.md"})[1] == 0, "nothing is written over"


def test_what_an_import_refuses_before_there_is_a_task(desk: Office, ws: Path) -> None:
    (ws / "x.xyz").write_bytes(b"x")
    (ws / "x.docx").write_bytes(b"no archive")
    (ws / "big.md").write_bytes(b"x" * (20 << 20) + b"x")
    (ws / "empty.md").write_bytes(b"")
    for file, kind in (
        ("x.xyz", "type_mismatch"), ("x.docx", "type_mismatch"), ("big.md", "validation"), ("empty.md", "validation"), ("no.md", "not_found"),
        ("../a.md", "permission_denied"), ("/a.md", "permission_denied"),
    ):  # fmt: skip
        desk.refused(kind, "import", {"file": file})
    desk.refused("not_found", "import", {"file": "a.md", "containerId": "nowhere"})
    assert desk.db.look(tasks.newest, desk.tenant, t.KINDS, 9) == []
    without = Office(desk.db, desk.tenant)
    without.refused("capability_unavailable", "import", {"file": "a.md"})


def test_a_file_that_turns_out_unreadable_fails_its_task_by_name(desk: Office, ws: Path) -> None:
    (ws / "x.docx").write_bytes(b"PK\x03\x04 and no more")
    (ws / "blank.md").write_text("\n \n")
    for file, kind, reason in (("x.docx", "type_mismatch", "corrupt"), ("blank.md", "validation", "empty")):
        told, code = desk.call("import", {"file": file})
        assert (told["error"]["kind"], told["error"]["details"]["reason"], told["error"]["details"]["state"], code) == (kind, reason, "FAILED", 2)
        ticket, code = desk.call("import_get", {"taskId": told["error"]["details"]["taskId"]})
        assert (ticket["state"], ticket["complete"], ticket["error"]["kind"], code) == ("FAILED", False, kind, 2)
    assert desk.documents() == []


def test_characters_that_cannot_be_printed_are_named_before_there_is_a_task(desk: Office, ws: Path) -> None:
    node_id = desk.new("N", "good 好 \U0001f600 bad \u0e01\n")
    for op in ("export", "export_submit"):
        error = desk.refused("validation", op, {"nodeId": node_id, "format": "pdf", "output": "n.pdf"})
        assert error["details"]["characters"] == ["U+1F600 \U0001f600", "U+0E01 \u0e01"]
    assert not (ws / "n.pdf").exists()
    assert desk.db.look(tasks.newest, desk.tenant, t.KINDS, 9) == []
    assert desk.do("export", {"nodeId": node_id, "format": "html", "output": "n.html"})["ok"]


def test_a_file_that_is_asked_to_be_kept_is_kept_as_it_is(desk: Office, ws: Path) -> None:
    (ws / "x.bin").write_bytes(b"\xff\xfe\x01 anything")
    told = desk.do("import", {"file": "x.bin", "asUpload": True})
    assert (told["success"], told["documentType"], told["fallback"], told["converted"]) == (True, "file", "upload", False)
    desk.do("media_download", {"nodeId": told["nodeId"], "resourceId": told["resourceId"], "output": "back.bin"})
    assert (ws / "back.bin").read_bytes() == (ws / "x.bin").read_bytes()
    (ws / "wrong.docx").write_bytes(b"no archive")
    desk.refused("type_mismatch", "import", {"file": "wrong.docx", "asUpload": True})


def test_cancel_stops_what_has_not_begun_to_write(desk: Office) -> None:
    task_id = desk.call("import", {"file": "a.md"}, wait_s=0)[0]["taskId"]
    desk.refused("permission_denied", "task_cancel", {"taskId": task_id}, mode="read_only", approved_by="")
    done = desk.do("task_cancel", {"taskId": task_id})
    assert (done["data"]["state"], done["status"], done["verification"]["method"]) == ("CANCELLED", "success", "readback")
    desk.do("task_cancel", {"taskId": task_id})
    assert worker(desk).all() == 0
    assert desk.call("import_get", {"taskId": task_id})[0]["state"] == "CANCELLED"
    desk.refused("not_found", "task_cancel", {"taskId": "t_none"})
    desk.refused("not_found", "import_get", {"taskId": "t_none"})
    Office(desk.db).refused("not_found", "export_get", {"taskId": task_id})
    ended = desk.do("import", {"file": "a.md"})["taskId"]
    desk.refused("conflict", "task_cancel", {"taskId": ended})


def begun(office: Office) -> Held:
    """A worker that has taken the next task and is about to go on."""
    w = worker(office)
    task = office.db.write_sync(tasks.take, office.tenant, t.KINDS, office.clock.now_ms(), office.clock.now_ms() + 1000)
    assert task
    return Held(w, task)


def test_S0_8_a_worker_that_was_cancelled_or_taken_over_changes_nothing(desk: Office) -> None:
    task_id = desk.call("import", {"file": "a.md"}, wait_s=0)[0]["taskId"]
    first = begun(desk)
    first.note(state="PROCESSING")
    assert desk.call("import_get", {"taskId": task_id})[0]["state"] == "PROCESSING"
    desk.do("task_cancel", {"taskId": task_id})
    with pytest.raises(Lost):
        first.carry_out()
    assert desk.documents() == []
    task_id = desk.call("import", {"file": "a.md"}, wait_s=0)[0]["taskId"]
    slow = begun(desk)
    desk.clock.advance(2)
    assert worker(desk).all() == 1
    with pytest.raises(Lost):
        slow.carry_out()
    assert len(desk.documents()) == 1
    assert row(desk, task_id).state == "SUCCESS"


def test_what_has_begun_to_write_cannot_be_cancelled(desk: Office) -> None:
    task_id = desk.call("import", {"file": "a.md"}, wait_s=0)[0]["taskId"]
    held = begun(desk)
    held.begin()
    desk.refused("conflict", "task_cancel", {"taskId": task_id})
    held.carry_out()
    assert row(desk, task_id).state == "SUCCESS"


def test_a_task_nobody_begins_expires_and_one_that_kills_its_workers_is_given_up(desk: Office) -> None:
    task_id = desk.call("import", {"file": "a.md"}, wait_s=0)[0]["taskId"]
    desk.clock.advance(limits.TASK_TTL_MS / 1000 + 1)
    worker(desk).all()
    assert row(desk, task_id).state == "EXPIRED"
    task_id = desk.call("import", {"file": "a.md"}, wait_s=0)[0]["taskId"]
    for _ in range(limits.TASK_ATTEMPTS):
        begun(desk)
        desk.clock.advance(2)
    worker(desk).all()
    ticket, code = desk.call("import_get", {"taskId": task_id})
    assert (ticket["state"], ticket["error"]["kind"], code) == ("FAILED", "task_failed", 1)
    assert desk.documents() == []


def test_a_store_that_fails_leaves_the_task_for_later(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    task_id = desk.call("import", {"file": "a.md"}, wait_s=0)[0]["taskId"]
    with monkeypatch.context() as patch:
        patch.setattr("polyloop.documents.worker._read", lambda *_: (_ for _ in ()).throw(DbError("gone")))
        with pytest.raises(DbError):
            worker(desk).one()
    assert row(desk, task_id).state == "PROCESSING"
    desk.clock.advance(60)
    assert worker(desk).all() == 1
    assert row(desk, task_id).state == "SUCCESS"
    assert row(desk, task_id).due == NEVER


def test_an_export_whose_file_was_there_first_loses(desk: Office, ws: Path) -> None:
    node_id = desk.new("N", "x\n")
    task_id = desk.call("export_submit", {"nodeId": node_id, "format": "markdown", "output": "o.md"})[0]["taskId"]
    (ws / "o.md").write_text("somebody else's")
    worker(desk).all()
    ticket, code = desk.call("export_get", {"taskId": task_id})
    assert (ticket["state"], ticket["error"]["kind"], code) == ("FAILED", "conflict", 7)
    assert (ws / "o.md").read_text() == "somebody else's"


def test_a_file_that_does_not_say_what_was_written_is_never_published(desk: Office, ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node_id = desk.new("N", MD)
    for wrong in (b"# Title\n", MD.encode() + b"more\n", b"\xff\xfe"):
        with monkeypatch.context() as patch:
            patch.setattr("polyloop.documents.worker.write", lambda *_, data=wrong: data)
            told, code = desk.call("export", {"nodeId": node_id, "format": "markdown", "output": "o.md"})
        assert code == 3
        assert told["error"]["details"]["steps"][1]["status"] == "failed"
        assert sorted(p.name for p in ws.iterdir()) == ["a.md"]


def test_over_a_transport_the_work_is_done_here_and_the_document_made_there(db: Database, ws: Path) -> None:
    (ws / "a.md").write_text(MD)
    far = Office(db, faulty=True, folder=ws)
    assert far.do("import", {"file": "a.md"})["success"]
    far.transport.faults = ["lose_reply"]
    told, code = far.call("import", {"file": "a.md", "title": "B"}, wait_s=0)
    assert (told["state"], code) == ("INIT", 10)
    far.worker_until_open(told["taskId"])
    assert [title for title, _ in far.documents()] == ["a", "B"], "the lost reply was asked about, not sent again"
    assert far.transport.sent == 2


# --- in a run --------------------------------------------------------------------------------------------------------


def act(office: Office, name: str, args: dict[str, Any], key: str) -> Outcome | Deferred:
    tool = document_tools(lambda _: office.runtime)[f"doc_{name}"]
    return asyncio.run(tool.run(Action(f"doc_{name}", args, key, 0, "run", office.tenant)))


def settle(office: Office, name: str, key: str) -> Any:
    tool = document_tools(lambda _: office.runtime)[f"doc_{name}"]
    assert tool.settle
    return asyncio.run(tool.settle(Action(f"doc_{name}", {}, key, 0, "run", office.tenant), None, False))  # type: ignore[misc,arg-type]  # a coroutine


def test_S0_24_a_run_waits_for_its_task_and_may_not_submit_before(desk: Office) -> None:
    made = act(desk, "import", {"file": "a.md"}, "1")
    assert isinstance(made, Outcome)
    assert (made.status, made.evidence[0].type, made.evidence[0].complete) == ("ok", "receipt", True)
    node_id = desk.documents() and desk.do("resolve", {"title": "a"})["target"]["nodeId"]
    begun_ = act(desk, "export_submit", {"nodeId": node_id, "format": "markdown", "output": "b.md"}, "2")
    assert isinstance(begun_, Deferred)
    assert (begun_.awaited, begun_.dispatched) == ("task", True)

    def against(**submission: Any) -> list[tuple[str, str]]:
        found = asyncio.run(citable(desk.runtime, "run"))
        return [(r.issue, r.ref) for r in found.check("run", {"summary": "s", **submission})]

    asked = act(desk, "export_get", {"taskId": begun_.token}, "3")
    assert isinstance(asked, Outcome)
    assert (asked.status, asked.evidence[0].settled, asked.evidence[0].complete) == ("ok", False, False)
    assert settle(desk, "export_submit", "2") == Pending(begun_.token)
    assert against() == [("unsettled", begun_.token)]
    assert against(unsettled=[begun_.token], claims=[{"text": "exported", "evidence": [begun_.token]}]) == [("unsupported", begun_.token)]
    worker(desk).all()
    done = settle(desk, "export_submit", "2")
    assert isinstance(done, Outcome)
    assert (done.status, done.evidence[0].complete) == ("ok", True)
    assert against(claims=[{"text": "exported", "evidence": [begun_.token]}]) == []


def test_tasks_survive_as_plain_json(desk: Office) -> None:
    task_id = desk.call("import", {"file": "a.md"}, wait_s=0)[0]["taskId"]
    body = t.body_of(row(desk, task_id))
    assert msgspec.json.decode(t.text_of(body), type=t.Body) == body
