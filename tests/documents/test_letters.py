"""Hand-made letters to the service: what a user of the tenant can ask for by names and numbers that no list gave them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from polyloop.documents.http import respond
from tests.documents.office import Office


def letter(office: Office, user: str, request: dict[str, Any], step: str = "s/1/write") -> tuple[int, Any]:
    """What the service answers to a hand-made letter."""
    code, body = asyncio.run(respond(office.db, office.tenant, json.dumps({"request": request, "stepId": step}).encode(), user))
    return code, json.loads(body)


@pytest.mark.parametrize("verb", ["create", "copy"])
def test_nobody_makes_a_node_that_is_the_root(office: Office, verb: str) -> None:
    """What stood above it would be above everything, and so would every role there."""
    box, private = office.do("create_folder", {"title": "F"})["data"]["nodeId"], office.new("P", "private\n")
    inside = office.new("D", containerId=box)
    office.do("access_grant", {"nodeId": box, "user": "bob", "role": "MANAGER"})
    request = {"verb": verb, "node": "root", "title": "x", "container": box, **({"source": inside} if verb == "copy" else {"type": "folder"})}
    code, told = letter(office, "bob", request)
    assert (code, told["error"]["kind"]) == (409, "conflict")
    office.refused("not_found", "fetch", {"nodeId": private}, user="bob")


def test_what_has_left_a_users_folder_is_in_no_earlier_list_of_theirs(office: Office) -> None:
    """An earlier snapshot is asked for by its number: neither the title nor what is written there now is told."""
    box, other = (office.do("create_folder", {"title": title})["data"]["nodeId"] for title in "FG")
    node, stays = office.new("secret", "secret words\n", containerId=box), office.new("kept", "secret words\n", containerId=box)
    office.do("access_grant", {"nodeId": box, "user": "bob", "role": "READER"})
    asking: list[dict[str, Any]] = [{"verb": "nodes"}, {"verb": "nodes", "container": box}, {"verb": "search", "query": "secret"}]
    snapshot = letter(office, "bob", asking[0])[1]["snapshot"]

    def listed(request: dict[str, Any]) -> tuple[list[str], int]:
        told = letter(office, "bob", {**request, "snapshot": snapshot})[1]
        return sorted({item["nodeId"] for item in told["items"]} & {node, stays}), told["total"]

    before = [listed(request) for request in asking]
    assert [found for found, _ in before] == [sorted([node, stays])] * 3
    office.do("move", {"nodeId": node, "containerId": other})
    assert [listed(request) for request in asking] == [([stays], total - 1) for _, total in before]
    office.do("access_grant", {"nodeId": other, "user": "bob", "role": "READER"})
    assert [found for found, _ in map(listed, asking)] == [sorted([node, stays])] * 3


def test_who_may_not_list_roles_is_told_of_none_as_a_fact(office: Office) -> None:
    node = office.new()
    for user, role in (("bob", "READER"), ("ann", "MANAGER")):
        office.do("access_grant", {"nodeId": node, "user": user, "role": role})
    seq = office.db.look(lambda tx: tx.rows("select since_seq from doc_item where tenant = ? and id = 'ann'", office.tenant))[0][0]
    fact = {"verb": "facts", "node": node, "revision": 1}
    role = {**fact, "kind": "access", "item": "ann", "seq": seq}
    assert letter(office, "bob", role)[0] == 403
    assert letter(office, "ann", role)[1]["item"] == letter(office, "", role)[1]["item"] != ""
    assert letter(office, "bob", fact)[0] == 200
