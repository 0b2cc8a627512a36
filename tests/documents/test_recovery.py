"""What an interrupted call leaves, and who finishes it; handed cases of other people's failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from polyloop.db import CommitUnknown, Database, DbError
from polyloop.documents import requests as ask
from polyloop.documents.pages import page_of
from polyloop.journal import operations as journal
from tests.documents.office import Office

APPEND = {"title": "D", "command": "append", "content": "two\n", "operationKey": "k"}


class Gone(BaseException):
    """The process ends here."""


@pytest.fixture
def office(db: Database) -> Office:
    made = Office(db, faulty=True)
    made.new()
    return made


def interrupted(office: Office, *, done: bool) -> None:
    """The process dies on its way to the service, or on the way back."""
    send = office.transport.ask

    def dying(request: ask.Request, step_id: str = "") -> ask.Reply:
        if isinstance(request, ask.Write):
            if done:
                send(request, step_id)
            raise Gone
        return send(request, step_id)

    office.transport.ask = dying  # type: ignore[method-assign]  # it dies once
    with pytest.raises(Gone):
        office.answer("update", APPEND)
    office.transport.ask = send  # type: ignore[method-assign]  # and is well again


@pytest.mark.parametrize(("done", "settled"), [(True, "success"), (False, "retryable")])
def test_S0_10_an_intent_without_a_result_is_running_until_it_is_asked_about(office: Office, done: bool, settled: str) -> None:
    interrupted(office, done=done)
    told, code = office.call("update", APPEND)
    assert (told["contractVersion"], told["state"], code) == ("task.v1", "running", 10)
    operation_id = told["taskId"]
    assert office.do("operation_get", {"operationId": operation_id})["data"]["state"] == "running"
    office.refused("conflict", "compensate", {"operationId": operation_id})
    told, code = office.call("reconcile", {"operationId": operation_id})
    assert (told if done else told["error"]["details"])["status"] == settled
    assert office.receipt("update", APPEND).ok
    assert office.documents() == [["D", "one\n\ntwo\n"]], "once, whoever asks again"


@pytest.mark.parametrize("fault", [DbError("disk full"), CommitUnknown("lost")])
@pytest.mark.parametrize("verb", ["intend", "settle"])
def test_a_journal_that_fails_beside_a_request(office: Office, monkeypatch: pytest.MonkeyPatch, verb: str, fault: DbError) -> None:
    def failing(*args: Any) -> Any:
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr(journal, verb, failing)
        told, code = office.call("update", APPEND)
    sent = office.transport.sent - 1
    assert code != 0
    if verb == "intend":
        assert (sent, told["error"]["kind"]) == (0, "commit_unknown" if isinstance(fault, CommitUnknown) else "local_io")
    else:
        assert (sent, told["error"]["kind"], code) == (1, "commit_unknown", 4), "the service has it, whatever became of our note"
    again = asyncio.run(office.runtime.settle("k"))
    assert (again is None) == (verb == "intend")
    assert office.receipt("update", APPEND).ok
    assert office.documents() == [["D", "one\n\ntwo\n"]]


def test_blocks_that_changed_since_they_were_read_stop_the_write(office: Office) -> None:
    """Without a revision: what the command was about must still be as it was when it was planned."""
    node_id = office.do("resolve", {"title": "D"})["target"]["nodeId"]
    other, send = Office(office.db, office.tenant), office.transport.ask

    def between(request: ask.Request, step_id: str = "") -> ask.Reply:
        if isinstance(request, ask.Edit):
            other.do("update", {"nodeId": node_id, "command": "str_replace", "old": "one", "new": "none"})
        return send(request, step_id)

    office.transport.ask = between  # type: ignore[method-assign]  # somebody is faster
    receipt = office.receipt("update", {"nodeId": node_id, "command": "str_replace", "old": "one", "new": "two"})
    assert (receipt.status, receipt.problem().kind, receipt.problem().exit_code) == ("failed", "revision_conflict", 7)
    assert office.documents() == [["D", "none\n"]]


def test_a_text_in_a_table_is_replaced_in_its_cell(office: Office) -> None:
    node_id = office.new("T", "| a | b |\n|---|---|\n| **c** d | e |\n")
    office.do("update", {"nodeId": node_id, "command": "str_replace", "old": "c d", "new": "x"})
    assert office.text(node_id) == "| a | b |\n|---|---|\n| **x** | e |\n"


def test_limits_are_named(office: Office) -> None:
    for content, form in (("x" * 2_000_001, "markdown"), ([{"type": "divider"}] * 100_001, "blocks"), (["x"], "markdown")):
        told = office.refused("validation", "create", {"title": "x", "content": content, "format": form})
        assert told["details"]["field"] == "content"
    node_id = office.do("resolve", {"title": "D"})["target"]["nodeId"]
    block = office.blocks(node_id)[0]["blockId"]
    office.do("update", {"nodeId": node_id, "command": "append", "content": "two"})
    end = office.blocks(node_id)[1]["blockId"]
    office.refused("validation", "fetch", {"nodeId": node_id, "scope": "range", "startBlockId": end, "endBlockId": block})
    office.refused("validation", "update", {"nodeId": node_id, "command": "move", "blockId": block, "afterBlockId": block, "force": True})
    for command in ("insert_after", "replace"):
        args = {"nodeId": node_id, "command": command, "blockId": block, "content": " ", "force": True}
        assert office.refused("validation", "update", args)["details"]["issue"] == "empty"


def test_a_service_that_refuses_says_what_and_changes_nothing(office: Office) -> None:
    """The service keeps its own rules, whoever asks it."""
    node_id = office.do("resolve", {"title": "D"})["target"]["nodeId"]
    folder = office.do("create_folder", {"title": "F"})["target"]["nodeId"]
    before = office.everything()
    for request, kind in (
        (ask.Edit(node=folder, blocks=()), "type_mismatch"), (ask.Create(node="n_x", title="t", container=node_id), "type_mismatch"),
        (ask.Copy(node=node_id, source=node_id, title="t"), "conflict"), (ask.Edit(node=node_id, remove=("b_none",)), "not_found"),
        (ask.Edit(node=node_id, was={office.blocks(node_id)[0]["blockId"]: "0"}), "revision_conflict"), (ask.Purge(node=node_id), "not_found"),
        (ask.Put(node=folder, container=folder), "validation"), (ask.Facts(node=node_id, revision=9), "not_found"),
    ):  # fmt: skip
        with pytest.raises(Exception, match=kind):
            office.transport.ask(request, "step" if isinstance(request, ask.Write) else "")
    assert office.everything() == before


# --- handed cases: what other people's tools did, and must not happen here -------------------------------------------


def test_handed_duplicate_effect_15(office: Office) -> None:
    """A failed update makes no second document."""
    told, _ = office.call("update", {"title": "D", "command": "overwrite", "content": "x", "expectedRevision": 7}, approved_by="ann")
    assert told["error"]["kind"] == "revision_conflict"
    assert office.documents() == [["D", "one\n"]]


def test_handed_pagination_03_an_endless_listing_is_asked_twice_at_most(office: Office) -> None:
    asked = 0

    def endless(request: ask.Request, reply: ask.Reply) -> ask.Reply:
        nonlocal asked
        asked += isinstance(request, ask.Nodes)
        return {**reply, "next": "", "hasMore": True} if isinstance(request, ask.Nodes) else reply

    office.transport.on_read = endless
    assert office.call("list", {})[0]["error"]["details"]["reason"] == "missing_cursor"
    assert asked <= 2


def test_handed_pagination_05_what_was_cut_is_not_kept_as_the_whole(office: Office) -> None:
    for n in range(4):
        office.new(f"n{n}", "")
    cut = office.do("list", {"limit": 2, "maxPages": 2})
    assert (cut["truncated"], cut["stopReason"], cut["complete"], cut["count"]) == (True, "max_pages", False, 4)
    assert office.do("list", {"limit": 2})["count"] == 5


def test_handed_pagination_09_a_page_size_over_the_limit_is_refused_before_sending(office: Office) -> None:
    office.transport.on_read = lambda *_: pytest.fail("it was sent")
    office.call("list", {"limit": 201})


def test_handed_pagination_10_nothing_of_the_page_is_dropped(office: Office) -> None:
    for n in range(3):
        office.new(f"n{n}", "")
    page = office.do("list", {"limit": 1, "all": False})
    assert (page["hasMore"], page["complete"], bool(page["continuation"])) == (True, False, True)
    assert page_of({"items": [], "next": "z", "hasMore": True}).next == "z"


def test_handed_stale_write_02_an_append_that_is_not_in_the_body_is_no_success(office: Office) -> None:
    office.transport.on_read = lambda request, reply: {**reply, "bodies": "0"} if isinstance(request, ask.Facts) else reply
    assert office.receipt("update", APPEND).status == "partial_success"


def test_handed_unknown_commit_08_a_batch_that_fails_in_the_middle(db: Database) -> None:
    office = Office(db, faulty=True, chunk_chars=10, faults=["", "", "403"])
    receipt = office.receipt("create", {"title": "N", "content": "\n".join(f"part {n}\n" for n in range(5))})
    assert [s.status for s in receipt.steps] == ["success", "success", "failed", "not_started", "not_started", "not_started"]
    assert receipt.problem().details["failures"][0]["kind"] == "permission_denied"
    assert receipt.compensation.available


def test_handed_unknown_commit_11_a_read_back_that_fails_says_that_it_had_begun(office: Office) -> None:
    def failing(request: ask.Request, reply: ask.Reply) -> ask.Reply:
        if isinstance(request, ask.Facts):
            raise TypeError("timeout")
        return reply

    office.transport.on_read = failing
    told, _ = office.call("update", APPEND)
    assert (told["error"]["executionStarted"], told["error"]["retryable"]) == (True, False)
