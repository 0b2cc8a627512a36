"""Steps of a service: who is told what became of one, and who fences it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.documents import requests as ask
from polyloop.documents.http import respond
from polyloop.documents.service import serve
from tests.documents.office import Office


def test_a_step_is_told_and_fenced_by_who_may_write_where_it_is_about_alone(office: Office) -> None:
    """Readers know the steps of revisions, so they can name the next attempt. What they may not know is not there, byte for byte."""
    node, own = office.new("D", "x\n"), office.new("mine", "x\n")
    for place, user, role in ((node, "reader", "READER"), (node, "editor", "EDITOR"), (own, "reader", "MANAGER"), (own, "nobody", "EDITOR")):
        office.do("access_grant", {"nodeId": place, "user": user, "role": role})

    def put(step: str, user: str = "", where: str = node) -> int:
        return post({"verb": "put", "node": where, "title": step}, step, user)[0]

    def post(request: dict[str, Any], step: str = "", user: str = "") -> tuple[int, bytes]:
        return asyncio.run(respond(office.db, office.tenant, json.dumps({"request": request, "stepId": step}).encode(), user))

    def find(step: str, user: str, **more: str) -> tuple[int, bytes]:
        return post({"verb": "find", "step_id": step, **more}, "", user)

    assert put("op/1/write") == 200
    office.do("access_grant", {"nodeId": node, "user": "gone", "role": "EDITOR"})
    assert put("op/g/write", "gone") == 200
    office.do("access_revoke", {"nodeId": node, "user": "gone"})
    for user in ("nobody", "reader", "gone"):
        for more in ({}, {"node": node}, {"node": "n_none"}, {"node": "n_none", "container": "root"}, {"node": node, "container": own}):
            told = {find(step, user, **more) for step in ("op/1/write", "op/2/write")}
            assert len(told) == 1, (user, more)
            assert json.loads(told.pop()[1])["error"]["kind"] == "not_found"
    for user in ("nobody", "reader"):  # they fence what they may write themselves, and learn of nothing else
        assert {find(step, user, node=own) for step in ("op/1/write", "op/2/write")} == {(200, b'{"reply":null}')}
        assert put("op/2/write", user, own) == 409
    assert put("op/2/write") == 200
    assert json.loads(find("op/g/write", "gone", node=node)[1])["reply"]["nodeId"] == node, "what they made themselves"
    assert json.loads(find("op/1/write", "editor", node=node)[1])["reply"]["nodeId"] == node
    assert find("op/3/write", "editor", node=node) == (200, b'{"reply":null}')
    assert find("op/3/write", "reader", node=own) == (200, b'{"reply":null}'), "which lifts no fence elsewhere"
    assert put("op/3/write") == 409
    assert find("op/4/write", "") == (200, b'{"reply":null}')
    assert put("op/4/write") == 409


def test_what_was_to_be_made_in_a_folder_is_fenced_by_who_may_make_it_there(office: Office) -> None:
    box = office.do("create_folder", {"title": "F"})["data"]["nodeId"]
    for user, role in (("editor", "EDITOR"), ("reader", "READER")):
        office.do("access_grant", {"nodeId": box, "user": user, "role": role})
    asked = ask.Find(step_id="op/1/write", node="n_new", container=box)
    with pytest.raises(ProblemError, match="no such step"):
        office.db.write_sync(serve, office.tenant, asked, "", "reader")
    assert office.db.write_sync(serve, office.tenant, asked, "", "editor") == {"reply": None}
    with pytest.raises(ProblemError, match="declared absent"):
        office.db.write_sync(serve, office.tenant, ask.Create(node="n_new", title="T", container=box), "op/1/write", "editor")
