"""Roles: the whole matrix of operations and roles, what is inherited, and that what is not yours is not there."""

from __future__ import annotations

import asyncio
import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app
from polyloop.contract.problem import ProblemError
from polyloop.db import Database
from polyloop.db.tasks import take
from polyloop.documents import requests as ask
from polyloop.documents.access import NEEDS, ROLES
from polyloop.documents.leaves import ASIDE, OPERATIONS
from polyloop.documents.requests import Local, Request
from polyloop.documents.service import serve
from polyloop.documents.tasks import KINDS, body_of, get
from polyloop.documents.worker import Held
from tests.documents.office import YES, Office
from tests.documents.test_media import PNG

#: Operation -> the least role that may do it, on a document in a folder (or on the folder, for what makes something in it).
LEAST: dict[str, str] = {
    "create": "EDITOR", "create_folder": "EDITOR", "fetch": "READER", "list": "READER", "search": "READER", "inspect": "READER",
    "resolve": "READER", "update": "EDITOR", "checkpoint_update": "EDITOR", "version_save": "EDITOR", "version_list": "READER",
    "version_revert": "EDITOR", "version_diff": "READER", "copy": "EDITOR", "move": "MANAGER", "rename": "EDITOR", "delete": "MANAGER",
    "restore": "MANAGER", "purge": "MANAGER", "comment_create": "READER", "comment_list": "READER", "comment_reply": "READER",
    "comment_resolve": "EDITOR", "comment_delete": "EDITOR", "access_list": "MANAGER", "access_grant": "MANAGER", "access_change": "MANAGER",
    "access_revoke": "MANAGER",
    "media_insert": "EDITOR", "media_list": "READER", "media_download": "DOWNLOADER", "media_preview": "READER",
    "import": "EDITOR", "export": "DOWNLOADER", "export_submit": "DOWNLOADER", "task_cancel": "DOWNLOADER",
    "import_get": "EDITOR", "export_get": "DOWNLOADER",
}  # fmt: skip
#: Operations on one node that put something into another place: the least roles on each.
BETWEEN = {"copy": ("DOWNLOADER", "EDITOR"), "move": ("MANAGER", "EDITOR"), "restore": ("MANAGER", "EDITOR")}


class Place:
    """A folder with a document in it, a trashed one, a comment, and what each operation is called with."""

    def __init__(self, office: Office, folder: Path) -> None:
        self.office = office
        self.box = office.do("create_folder", {"title": "F"})["data"]["nodeId"]
        self.node = office.new("D", "one\n", containerId=self.box)
        office.do("version_save", {"nodeId": self.node})
        office.do("version_save", {"nodeId": self.node})
        self.gone = office.new("G", "x\n", containerId=self.box)
        office.do("delete", {"nodeId": self.gone})
        self.comment = office.do("comment_create", {"nodeId": self.node, "content": "c"})["data"]["commentId"]
        office.do("access_grant", {"nodeId": self.node, "user": "other", "role": "READER"})
        (folder / "in.md").write_text("file\n")
        (folder / "in.png").write_bytes(PNG)
        self.tasks = {
            "import_get": office.do_later("import", {"file": "in.md", "containerId": self.box}),
            "export_get": office.do_later("export_submit", {"nodeId": self.node, "format": "markdown", "output": "later.md"}),
        }
        self.tasks["task_cancel"] = self.tasks["export_get"]
        self.media = office.do("media_insert", {"nodeId": self.node, "file": "in.png"})["data"]["resourceId"]

    def args(self, op: str) -> dict[str, Any]:
        if op in self.tasks:
            return {"taskId": self.tasks[op]}
        node, comment = {"nodeId": self.node}, {"nodeId": self.node, "commentId": self.comment}
        return {
            "create": {"title": "N", "containerId": self.box}, "create_folder": {"title": "N", "containerId": self.box},
            "list": {"containerId": self.box}, "search": {"query": "one"}, "update": {**node, "command": "append", "content": "x"},
            "checkpoint_update": {**node, "mode": "append", "content": "x"}, "version_revert": {**node, "revision": 1, "force": True},
            "version_diff": {**node, "from": 1, "to": 2}, "copy": {**node, "title": "C"}, "move": {**node, "containerId": self.box},
            "rename": {**node, "title": "R"}, "restore": {"nodeId": self.gone}, "purge": {"nodeId": self.gone},
            "comment_create": {**node, "content": "c"}, "comment_reply": {**comment, "content": "r"}, "comment_resolve": comment,
            "comment_delete": comment, "access_grant": {**node, "user": "new", "role": "READER"},
            "access_change": {**node, "user": "other", "role": "EDITOR"}, "access_revoke": {**node, "user": "other"},
            "media_insert": {**node, "file": "in.md"}, "media_download": {**node, "resourceId": self.media, "output": "out.md"},
            "media_preview": {**node, "resourceId": self.media, "output": "out.md"},
            "import": {"file": "in.md", "containerId": self.box},
            "export": {**node, "format": "markdown", "output": "out.md"}, "export_submit": {**node, "format": "markdown", "output": "out.md"},
        }.get(op, node)  # fmt: skip


def test_the_matrix_is_complete() -> None:
    assert LEAST.keys() | {"reconcile", "compensate", "operation_get"} == OPERATIONS.keys() | ASIDE.keys()
    assert set(NEEDS) == set((Request | Local).__args__), "every request says what it needs"


@pytest.mark.parametrize("op", sorted(LEAST))
def test_S0_38_every_operation_by_every_role(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    monkeypatch.chdir(tmp_path)
    for role in ("", *ROLES):
        office = Office(db, folder=tmp_path)
        place = Place(office, tmp_path)
        if role:
            office.do("access_grant", {"nodeId": place.box, "user": "u", "role": role})
        (tmp_path / "out.md").unlink(missing_ok=True)
        before = office.everything()
        told, code = office.call(op, place.args(op), user="u", **YES)
        allowed = bool(role) and ROLES.index(role) >= ROLES.index(LEAST[op])  # type: ignore[arg-type]  # a role of this loop
        if op == "search":
            assert (code, told["count"]) == (0, 1 if allowed else 0)
        elif allowed:
            missing = op == "media_preview" and code and told["error"]["kind"] == "capability_unavailable"  # without the library
            assert code in (0, 10) or missing, (role, told)
        else:
            assert told["error"]["kind"] == ("permission_denied" if role else "not_found"), (role, told)
            assert told["error"]["executionStarted"] is False
            assert office.everything() == before
            assert not (tmp_path / "out.md").exists()


def test_roles_reach_down_and_the_highest_counts(office: Office) -> None:
    outer = office.do("create_folder", {"title": "O"})["data"]["nodeId"]
    inner = office.do("create_folder", {"title": "I", "containerId": outer})["data"]["nodeId"]
    node, other = office.new("N", "text\n", containerId=inner), office.new("M", "text\n")
    office.do("access_grant", {"nodeId": outer, "user": "u", "role": "READER"})
    as_u = {"user": "u"}
    assert [i["nodeId"] for i in office.do("list", {}, **as_u)["items"]] == [outer, inner, node]
    assert [i["nodeId"] for i in office.do("search", {"query": "text"}, **as_u)["items"]] == [node]
    office.refused("permission_denied", "update", {"nodeId": node, "command": "append", "content": "x"}, **as_u)
    office.do("access_grant", {"nodeId": node, "user": "u", "role": "EDITOR"})
    office.do("update", {"nodeId": node, "command": "append", "content": "x"}, **as_u)
    office.do("move", {"nodeId": node, "containerId": "root"})
    office.do("update", {"nodeId": node, "command": "append", "content": "y"}, **as_u)
    office.do("access_revoke", {"nodeId": node, "user": "u"})
    office.refused("not_found", "fetch", {"nodeId": node}, **as_u)
    for target in ({"nodeId": other}, {"title": "M"}, {"url": f"doc://{office.tenant}/{other}"}):
        office.refused("not_found", "fetch", target, **as_u)
    office.refused("permission_denied", "create", {"title": "in the root"}, **as_u)


def test_what_is_not_yours_answers_like_what_never_was(office: Office, db: Database) -> None:
    """Byte for byte, to a user without a role and to another tenant."""
    node = office.new("Secret", "text\n")
    never = "n_" + "0" * (len(node) - 2)
    calls = [
        ("fetch", {}), ("inspect", {}), ("update", {"command": "append", "content": "x"}), ("delete", {}), ("comment_list", {}), ("access_list", {}),
        ("version_list", {}), ("rename", {"title": "x"}), ("comment_create", {"content": "c"}), ("purge", {}), ("restore", {}),
    ]  # fmt: skip
    for who, caller in ((office, {"user": "u"}), (Office(db), {})):
        for op, args in calls:
            answers = [json.dumps(who.call(op, {"nodeId": n, **args}, **YES, **caller)).replace(n, "ID") for n in (node, never)]
            assert answers[0] == answers[1], op
    listed = office.do("list", {}, user="u")
    assert (listed["count"], listed["complete"]) == (0, True)
    made = office.do("create", {"title": "Mine"})["data"]["operationId"]
    for op in ("operation_get", "reconcile", "compensate"):
        office.refused("not_found", op, {"operationId": made}, user="u")


@pytest.mark.parametrize("op", sorted(LEAST))
def test_every_operation_on_what_is_not_yours_answers_like_one_on_nothing(db: Database, tmp_path: Path, op: str) -> None:
    """Byte for byte, to a user without a role and to another tenant, for every id that is named."""
    office, other = Office(db, folder=tmp_path), Office(db, folder=tmp_path)
    place = Place(office, tmp_path)
    args = place.args(op)
    (tmp_path / "out.md").unlink(missing_ok=True)
    for name in ("nodeId", "containerId", "taskId"):
        if name not in args or args[name] == "root":
            continue
        never = args[name][:2] + "0" * (len(args[name]) - 2)
        for who, caller in ((office, {"user": "u"}), (other, {})):
            answers = [
                json.dumps(who.call(op, args | {name: given}, **YES, **caller)).replace(given, "ID").replace(who.last or "OWN", "OWN")
                for given in (args[name], never)
            ]  # fmt: skip
            assert answers[0] == answers[1]
            assert "not_found" in answers[0]
    assert not (tmp_path / "out.md").exists()


@pytest.mark.parametrize("made", ["create", "import", "export_submit"])
def test_the_operations_and_tasks_of_others_answer_like_none(db: Database, tmp_path: Path, made: str) -> None:
    """Byte for byte, whatever the operation; and nobody goes on with what another began, or is answered with it for its key."""
    office, other = Office(db, folder=tmp_path), Office(db)
    place = Place(office, tmp_path)
    args = place.args(made) | {"operationKey": "k"}
    told = office.call(made, args, wait_s=0)[0]
    told = told.get("error", {}).get("details") or told
    known = {"taskId": told.get("taskId") or "t_" + "1" * 24, "operationId": office.last}
    never = {"taskId": "t_" + "0" * 24, "operationId": "op-0" + "0" * (len(known["operationId"]) - 4)}
    for who, caller in ((office, {"user": "u"}), (other, {})):
        for op, name in (
            ("import_get", "taskId"), ("export_get", "taskId"), ("task_cancel", "taskId"), ("operation_get", "operationId"),
            ("reconcile", "operationId"), ("compensate", "operationId"),
        ):  # fmt: skip
            answers = [
                json.dumps(who.call(op, {name: ids[name]}, **YES, **caller)).replace(ids[name], "ID").replace(who.last or "OWN", "OWN")
                for ids in (known, never)
            ]
            assert answers[0] == answers[1], op
            assert "not_found" in answers[0]
        told = who.call("create", {"title": "N", "containerId": place.box, "continues": known["operationId"]}, **YES, **caller)[0]
        assert told["error"]["kind"] == "not_found"
        told = who.call(made, args, **YES, **caller)[0]
        assert told["error"]["kind"] in ("not_found", "capability_unavailable")


def test_a_key_is_its_callers_own(office: Office) -> None:
    box = office.do("create_folder", {"title": "F"})["data"]["nodeId"]
    args = {"title": "N", "containerId": box, "operationKey": "k"}
    for user in ("u", "v"):
        office.do("access_grant", {"nodeId": box, "user": user, "role": "EDITOR"})
    made = [office.do("create", args, user=user)["data"]["nodeId"] for user in ("", "u", "v", "u", "")]
    assert len(set(made)) == 3
    assert made[:2] == [made[4], made[3]]


@pytest.mark.parametrize("op", ["import", "export_submit"])
def test_a_role_that_went_before_the_work_was_done_stops_it(db: Database, tmp_path: Path, op: str) -> None:
    office = Office(db, folder=tmp_path)
    place = Place(office, tmp_path)
    office.do("access_grant", {"nodeId": place.box, "user": "u", "role": "EDITOR"})
    task = office.call(op, place.args(op), user="u", wait_s=0)[0]["taskId"]
    office.do("access_change", {"nodeId": place.box, "user": "u", "role": "READER"})
    office.refused("permission_denied", "import_get", {"taskId": task}, user="u")
    office.refused("permission_denied", "task_cancel", {"taskId": task}, user="u")
    found = office.do("list", {"containerId": place.box})["items"]
    office.worker_until_open(task)
    told = office.call("import_get", {"taskId": task})[0]
    assert (told["state"], told["error"]["kind"]) == ("FAILED", "permission_denied")
    assert office.do("list", {"containerId": place.box})["items"] == found
    assert not (tmp_path / "out.md").exists()


def test_a_task_of_a_user_is_done_as_that_user(db: Database, tmp_path: Path) -> None:
    office = Office(db, folder=tmp_path)
    place = Place(office, tmp_path)
    office.do("access_grant", {"nodeId": place.box, "user": "u", "role": "EDITOR"})
    for more in ({}, {"asUpload": True}):
        told = office.do("import", {**place.args("import"), **more}, user="u")
        assert told["success"]
        assert office.do("import_get", {"taskId": told["taskId"]}, user="u")["nodeId"] == told["nodeId"]
    assert office.do("export", place.args("export"), user="u")["data"]["state"] == "SUCCESS"


def test_a_copy_takes_the_role_that_may_have_the_files(office: Office) -> None:
    """Who may only read could otherwise copy a document and download from the copy."""
    box, node = office.do("create_folder", {"title": "F"})["data"]["nodeId"], office.new()
    office.do("access_grant", {"nodeId": box, "user": "u", "role": "EDITOR"})
    office.do("access_grant", {"nodeId": node, "user": "u", "role": "READER"})
    office.refused("permission_denied", "copy", {"nodeId": node, "containerId": box}, user="u")
    office.do("access_change", {"nodeId": node, "user": "u", "role": "DOWNLOADER"})
    office.do("copy", {"nodeId": node, "containerId": box}, user="u")


def test_grants_are_given_once_changed_and_taken_back(office: Office) -> None:
    node = office.new()
    told = office.do("access_grant", {"nodeId": node, "user": "u", "role": "READER"})
    assert (told["data"]["user"], told["verification"]["matched"]) == ("u", True)
    office.refused("conflict", "access_grant", {"nodeId": node, "user": "u", "role": "EDITOR"})
    office.refused("not_found", "access_change", {"nodeId": node, "user": "v", "role": "EDITOR"})
    office.refused("validation", "access_grant", {"nodeId": node, "user": "v", "role": "KING"})
    changed = office.do("access_change", {"nodeId": node, "user": "u", "role": "MANAGER"})
    assert office.do("access_list", {"nodeId": node})["items"] == [{"user": "u", "role": "MANAGER"}]
    office.do("compensate", {"operationId": changed["data"]["operationId"]})
    assert office.do("access_list", {"nodeId": node})["items"] == [{"user": "u", "role": "READER"}]
    office.do("compensate", {"operationId": told["data"]["operationId"]})
    assert office.do("access_list", {"nodeId": node})["items"] == []
    asked = office.refused("confirmation_required", "access_grant", {"nodeId": node, "user": "u", "role": "READER"}, approved_by="")
    assert asked["details"]["plan"]["resolved"]["role"] == "READER", "the person sees which role it is"


def test_who_takes_away_their_own_role_is_still_told_that_they_did(office: Office) -> None:
    node, other = office.new("mine", "x\n"), office.new("other", "x\n")
    for each in (node, other):
        office.do("access_grant", {"nodeId": each, "user": "u", "role": "MANAGER"})
    told = office.do("access_revoke", {"nodeId": node, "user": "u"}, user="u")
    assert told["verification"]["matched"] is True
    office.refused("not_found", "fetch", {"nodeId": node}, user="u")
    office.do("delete", {"nodeId": other}, user="u")
    office.do("purge", {"nodeId": other}, user="u")
    step = f"{told['data']['operationId']}/1/write"
    for request in (
        ask.Facts(node=node, revision=1),
        ask.Facts(node=other, revision=1, step=step),
        ask.Facts(node=node, revision=1, step="x/1/write"),
    ):
        with pytest.raises(ProblemError, match="not_found"):
            office.db.look(lambda tx, r=request: serve(tx, office.tenant, r, "", "u"))


def test_at_the_command_line(tmp_path: Path) -> None:
    def call(op: str, args: dict[str, Any], *more: str) -> tuple[int, Any]:
        words = ["docs", "call", op, "--args", "-", "--yes", "--store", str(tmp_path / "s.db"), "--json", *more]
        done = CliRunner().invoke(app, words, input=json.dumps(args))
        return done.exit_code, json.loads(done.stdout)

    node = call("create", {"title": "A", "content": "x\n"})[1]["data"]["nodeId"]
    assert call("fetch", {"nodeId": node}, "--as", "u")[0] == 2
    assert call("access_grant", {"nodeId": node, "user": "u", "role": "READER"})[0] == 0
    assert call("fetch", {"nodeId": node}, "--as", "u")[0] == 0
    assert call("rename", {"nodeId": node, "title": "B"}, "--as", "u")[0] == 6
    assert call("list", {}, "--as", "a\nb")[0] == 2


@pytest.mark.parametrize("op", sorted(BETWEEN))
def test_S0_38_every_role_here_by_every_role_there(office: Office, op: str) -> None:
    """What leads from one place to another needs a role on both: a copy is for whoever might take the files away."""
    for n, (here, there) in enumerate(product(("", *ROLES), repeat=2)):
        user, box = f"u{n}", office.do("create_folder", {"title": "B"})["data"]["nodeId"]
        node = office.new("S", "x\n")
        for place, role in ((node, here), (box, there)):
            if role:
                office.do("access_grant", {"nodeId": place, "user": user, "role": role})
        if op == "restore":
            office.do("delete", {"nodeId": node})
        least_here, least_there = BETWEEN[op]
        allowed = bool(here and there) and ROLES.index(here) >= ROLES.index(least_here) and ROLES.index(there) >= ROLES.index(least_there)  # type: ignore[arg-type]  # roles of this loop
        args = {"nodeId": node, "containerId": box, **({"title": "C"} if op == "copy" else {})}
        if allowed:
            office.do(op, args, user=user)
        else:
            office.refused("permission_denied" if here and there else "not_found", op, args, user=user)


def test_what_a_step_wrote_is_told_of_that_very_revision_alone(office: Office) -> None:
    """Who wrote once and has no role any more learns nothing of what others write."""
    node = office.new("mine", "x\n")
    office.do("access_grant", {"nodeId": node, "user": "u", "role": "EDITOR"})
    told = office.do("update", {"nodeId": node, "command": "append", "content": "y\n"}, user="u")
    saved = office.do("version_save", {"nodeId": node, "label": "theirs"}, user="u")
    office.do("access_revoke", {"nodeId": node, "user": "u"})
    revision = office.do("rename", {"nodeId": node, "title": "SECRET"})["data"]["revision"]
    version = office.do("version_save", {"nodeId": node, "label": "SECRET"})["data"]["version"]
    remark = office.do("comment_create", {"nodeId": node, "content": "SECRET"})["data"]["commentId"]
    edit, save = (f"{t['data']['operationId']}/1/write" for t in (told, saved))
    seq = office.db.look(lambda tx: tx.row("select since_seq from doc_item where tenant = ? and id = ?", office.tenant, remark))
    own = told["data"]["revision"]

    def facts(**more: Any) -> Any:
        return office.db.look(lambda tx: serve(tx, office.tenant, ask.Facts(node=node, **more), "", "u"))

    assert facts(revision=own, step=edit)["title"] == "mine"
    assert facts(revision=own, step=save, version=saved["data"]["version"])["label"] == "theirs"
    assert seq is not None
    wrong: list[dict[str, Any]] = [
        {"revision": revision, "step": edit}, {"revision": own, "step": edit, "version": version},
        {"revision": own, "step": save, "version": version},
        {"revision": own, "step": edit, "kind": "comment", "item": remark, "seq": seq[0]}, {"revision": own - 1, "step": edit},
    ]  # fmt: skip
    for more in wrong:
        with pytest.raises(ProblemError, match="not_found"):
            facts(**more)


def test_a_role_that_went_while_a_file_was_made_keeps_it_from_being_published(db: Database, tmp_path: Path) -> None:
    """It is asked about in the very transaction that notes the beginning."""
    office = Office(db, folder=tmp_path)
    node = office.new()
    office.do("access_grant", {"nodeId": node, "user": "u", "role": "DOWNLOADER"})
    task = office.call("export_submit", {"nodeId": node, "format": "markdown", "output": "out.md"}, user="u")[0]["taskId"]
    now = office.clock.now_ms()
    taken = db.write_sync(take, office.tenant, KINDS, now, now + 1000, task)
    assert taken is not None
    held = Held(office.runtime.worker(), taken)
    office.do("access_revoke", {"nodeId": node, "user": "u"})
    with pytest.raises(ProblemError, match="not_found"):
        held.begin(temporary=".x")
    assert not held.body.begun
    assert not body_of(db.look(get, office.tenant, task)).begun


def test_who_may_not_do_it_asks_no_person_and_takes_no_approval(office: Office) -> None:
    """Neither their own nor one that was given to another for the very same call."""
    node = office.new()
    for user, role in (("boss", "MANAGER"), ("reader", "READER")):
        office.do("access_grant", {"nodeId": node, "user": user, "role": role})
    asked = office.call("delete", {"nodeId": node}, user="boss", mode="request_approval")[0]["error"]
    assert asked["kind"] == "confirmation_required"
    asyncio.run(office.runtime.decide(asked["details"]["planId"], "approved", by="ann"))
    for more in ({}, {"plan_id": asked["details"]["planId"]}, {"dry_run": True}):
        told = office.call("delete", {"nodeId": node}, user="reader", mode="request_approval", **more)[0]["error"]
        assert (told["kind"], told["details"].get("planId")) == ("permission_denied", None)
    assert asyncio.run(office.runtime.approvals())[-1].state == "approved"
    assert office.call("delete", {"nodeId": node}, user="boss", mode="request_approval")[1] == 0
