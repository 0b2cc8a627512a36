"""Lists prove what they cover: under concurrent changes, at every boundary, and against every way a chain can break."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyloop.contract.problem import Problem, ProblemError
from polyloop.db import Database
from polyloop.documents import requests as ask
from polyloop.documents.store import EMPTY, OPEN
from polyloop.kernel.seams import Action, Outcome
from polyloop.toolbox.bridge import citable, document_tools
from tests.documents.office import Office

DETAILS = {"contractVersion", "status", "complete", "reason", "page", "nextCursor", "count", "items"}
MANY = 100_000


def fill(db: Database, tenant: str, count: int) -> None:
    """`count` documents, as if made one after the other."""
    numbers = "with recursive n(x) as (select 1 union all select x + 1 from n where x < ?)"

    def work(tx: Any) -> None:
        tx.run("insert into doc_tenant values (?, ?)", tenant, count)
        tx.run(f"{numbers} insert into doc_node select ?, 'n_' || x, 'document', 1, '{EMPTY}', 0, 0, x from n", count, tenant)
        tx.run(f"{numbers} insert into doc_revision select ?, 'n_' || x, 1, x, 'made', '{EMPTY}', 0 from n", count, tenant)
        place = "select ?, 'n_' || x, x, ?, x, 'document', 'title ' || x, 'root', 'live' from n"
        tx.run(f"{numbers} insert into doc_place {place}", count, tenant, OPEN)

    db.write_sync(work)


def test_S0_26_S0_33_S0_35_a_list_of_100_000_under_concurrent_changes(db: Database) -> None:
    office = Office(db)
    fill(db, office.tenant, MANY)
    wanted = {f"n_{n}" for n in range(1, MANY + 1)}
    seen: list[str] = []
    args: dict[str, Any] = {"limit": 200}
    for turn in range(1, MANY):
        page = office.do("list", args)
        seen += [i["nodeId"] for i in page["items"]]
        assert page["covered"]["items"] == len(seen)
        assert page["complete"] == (page["continuation"] is None)
        if page["complete"]:
            break
        assert (page["hasMore"], page["truncated"], page["stopReason"]) == (True, True, "max_items")
        args["continuation"] = page["continuation"]
        if turn % 10 == 0:
            office.new(f"new {turn}")
            office.do("delete", {"nodeId": seen[turn]})
            office.do("delete", {"nodeId": f"n_{MANY - turn}"})
            office.do("rename", {"nodeId": f"n_{MANY // 2 + turn}", "title": f"renamed {turn}"})
    assert len(seen) == MANY
    assert set(seen) == wanted, "exactly what there was when the listing began"


CHANGE = st.sampled_from(["create", "delete", "rename", "move", "restore"])


@settings(max_examples=25)
@given(st.integers(0, 12), st.integers(1, 5), st.lists(st.lists(CHANGE, max_size=3), max_size=8))
def test_complete_means_equal_to_the_snapshot(db: Database, count: int, limit: int, between: list[list[str]]) -> None:
    office = Office(db)
    folder = office.do("create_folder", {"title": "F"})["data"]["nodeId"]
    nodes = [office.new(f"d{n}", "") for n in range(count)]
    wanted = [i["nodeId"] for i in office.do("list", {})["items"]]
    seen: list[str] = []
    args: dict[str, Any] = {"limit": limit, "all": False}
    changes = iter(between)
    while True:
        page = office.do("list", args)
        seen += [i["nodeId"] for i in page["items"]]
        if page["continuation"] is None:
            break
        assert page["complete"] is False
        args["continuation"] = page["continuation"]
        for n, change in enumerate(next(changes, [])):
            node = nodes[n % len(nodes)] if nodes else office.new("late")
            more = {"rename": {"title": "other"}, "move": {"containerId": folder}}.get(change, {})
            office.call(change, {"title": f"late {n}"} if change == "create" else {"nodeId": node, **more}, approved_by="ann")
    assert page["complete"] is True
    assert seen == wanted


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20, 21])
def test_S0_28_S0_34_covered_at_every_boundary(db: Database, count: int) -> None:
    office = Office(db)
    if count:
        fill(db, office.tenant, count)
    for args, bound in (
        ({"limit": 10, "maxPages": 1}, 10), ({"limit": 10, "maxPages": 2}, 20), ({"limit": 10, "maxItems": 10}, 10), ({"limit": 4, "maxItems": 9}, 9),
    ):  # fmt: skip
        page = office.do("list", args)
        shown = min(count, bound)
        assert (page["count"], page["covered"]["items"], page["complete"]) == (shown, shown, count <= bound)
        assert page["truncated"] == page["hasMore"] == (count > bound)
        assert page["stopReason"] == (None if count <= bound else "max_pages" if "maxPages" in args else "max_items")
        if page["continuation"]:
            rest = office.do("list", {"limit": 200, "continuation": page["continuation"]})
            assert [i["nodeId"] for i in page["items"] + rest["items"]] == [f"n_{n}" for n in range(1, count + 1)]
            assert rest["complete"] is True
    one = office.do("list", {"limit": 10, "all": False})
    assert (one["truncated"], one["stopReason"], one["hasMore"]) == (False, None, count > 10)


def broken(reason: str, at: int) -> Any:
    """What the service says of its `at`-th page, when that is the reason a chain breaks."""
    pages = 0

    def on_read(request: ask.Request, reply: ask.Reply) -> Any:
        nonlocal pages
        if not isinstance(request, ask.Nodes):
            return reply
        pages += 1
        if pages != at:
            return reply
        if reason == "page_failed":
            raise ProblemError(Problem("capability_unavailable", "busy", retryable=True))
        return {
            "missing_cursor": {**reply, "next": None, "hasMore": True}, "empty_cursor": {**reply, "next": ""},
            "stalled_cursor": {**reply, "next": request.cursor or "0", "hasMore": True}, "cyclic_cursor": {**reply, "next": "2", "hasMore": True},
            "page_size_exceeded": {**reply, "items": [*reply["items"], {"nodeId": "n_x"}]}, "snapshot_changed": {**reply, "snapshot": "99"},
            "count_mismatch": {**reply, "next": None, "hasMore": False, "total": 99}, "duplicate_item": {**reply, "items": [*reply["items"][:1] * 2]},
            "unreadable": ["not", "a", "page"],
        }[reason]  # fmt: skip

    return on_read


@pytest.mark.parametrize(
    ("said", "at", "reason", "count"),
    [
        ("page_failed", 3, "page_failed", 4), ("page_failed", 2, "page_failed", 2), ("missing_cursor", 2, "missing_cursor", 4),
        ("empty_cursor", 1, "missing_cursor", 2), ("stalled_cursor", 3, "stalled_cursor", 4), ("cyclic_cursor", 3, "cyclic_cursor", 4),
        ("page_size_exceeded", 2, "page_size_exceeded", 2), ("snapshot_changed", 2, "snapshot_changed", 2),
        ("count_mismatch", 2, "count_mismatch", 4), ("duplicate_item", 2, "duplicate_item", 2), ("unreadable", 2, "page_failed", 2),
    ],
)  # fmt: skip
def test_S0_29_S0_30_S0_31_a_broken_chain_is_a_typed_error_with_what_was_read(db: Database, said: str, at: int, reason: str, count: int) -> None:
    office = Office(db, faulty=True)
    fill(db, office.tenant, 7)
    office.transport.on_read = broken(said, at)
    told, code = office.call("list", {"limit": 2})
    error = told["error"]
    assert (error["kind"], code, error["stage"]) == ("pagination", 3, "pagination")
    details = error["details"]
    assert details.keys() == DETAILS
    assert (details["status"], details["complete"], details["reason"], details["page"], details["count"]) == (
        "partial_success",
        False,
        reason,
        at,
        count,
    )
    assert [i["nodeId"] for i in details["items"]] == [f"n_{n}" for n in range(1, count + 1)]
    assert "failures" not in details
    if details["nextCursor"]:
        office.transport.on_read = lambda _, reply: reply
        assert office.do("list", {"limit": 2, "continuation": details["nextCursor"]})["complete"] is True


def test_a_continuation_serves_only_its_own_question(db: Database) -> None:
    office = Office(db)
    fill(db, office.tenant, 5)
    token = office.do("list", {"limit": 2, "all": False})["continuation"]
    stranger = Office(db)
    again = Office(db, office.tenant)
    flipped = token[:-3] + ("A" if token[-3] != "A" else "B") + token[-2:]
    for who, args, reasons in (
        (office, {"continuation": flipped}, {"tampered_cursor"}), (office, {"continuation": "bogus"}, {"tampered_cursor"}),
        (office, {"continuation": token, "containerId": "root"}, {"changed_query"}),
        (stranger, {"continuation": token}, {"foreign_cursor"}),
    ):  # fmt: skip
        details = who.refused("validation", "list", args)["details"]
        assert details.keys() == DETAILS
        assert details["reason"] in reasons
        assert details["items"] == []
    assert again.do("list", {"continuation": token})["complete"] is True
    office.clock.advance(3601)
    told, _ = office.call("list", {"continuation": token})
    assert (told["error"]["kind"], told["error"]["details"]["reason"]) == ("pagination", "expired_cursor")


@pytest.mark.parametrize("said", ["page_failed", "missing_cursor", "stalled_cursor", "count_mismatch", "unreadable"])
def test_S0_5_a_title_that_cannot_be_proved_stops_the_write(db: Database, said: str) -> None:
    office = Office(db, faulty=True)
    office.new("one")
    office.transport.on_read = broken(said, 1)
    told, code = office.call("update", {"title": "one", "command": "append", "content": "x"})
    assert code != 0
    assert told["error"]["kind"] in ("pagination", "capability_unavailable", "invalid_response")
    assert office.transport.sent == 1, "only the making of it"


def test_what_the_service_does_not_count_is_not_complete(db: Database) -> None:
    office = Office(db, faulty=True)
    office.new("one")
    office.transport.on_read = lambda request, reply: {**reply, "total": None} if isinstance(request, ask.Nodes) else reply
    assert office.do("list", {})["complete"] is False
    error = office.refused("pagination", "delete", {"title": "one"})
    assert error["details"].keys() == DETAILS
    assert error["details"]["reason"] == "unproved"


def run_tool(office: Office, name: str, args: dict[str, Any], cap: int, key: str = "k") -> Outcome:
    import asyncio

    from msgspec.structs import replace

    tool = document_tools(lambda _: office.runtime)[name]
    small = replace(tool, spec=replace(tool.spec, result_limit=cap))
    outcome = asyncio.run(small.run(Action(name, args, key * 16, 0, "run", office.tenant)))
    assert isinstance(outcome, Outcome)
    return outcome


def test_S0_27_S0_32_a_cap_keeps_the_json_whole_and_the_list_unfinished(db: Database) -> None:
    import asyncio

    office = Office(db)
    fill(db, office.tenant, 5000)
    outcome = run_tool(office, "doc_list", {}, 4096)
    text = outcome.observation[0].text
    assert isinstance(text, str)
    assert len(text.encode()) <= 4096
    page = json.loads(text)
    assert (page["complete"], page["hasMore"], page["truncated"], page["stopReason"]) == (False, True, True, "max_items")
    more = office.do("list", {"continuation": page["continuation"], "maxItems": 1})
    assert more["items"][0]["nodeId"] == f"n_{page['count'] + 1}", "the first item not shown"
    claim = {"summary": "s", "claims": [{"text": "these are all", "evidence": [page["ref"]], "scope": "all"}]}
    evidence = asyncio.run(citable(office.runtime, "run"))
    assert [(r.issue, r.ref) for r in evidence.check("run", claim)] == [("incomplete", page["ref"])]
    claim["claims"][0]["scope"] = "covered"  # type: ignore[index]  # a literal of this test
    assert evidence.check("run", claim) == []


def test_a_long_document_is_cut_at_a_block_and_goes_on_there(db: Database) -> None:
    office = Office(db)
    node_id = office.new("long", "\n".join(f"paragraph {n} {'x' * 50}\n" for n in range(200)))
    args: dict[str, Any] = {"nodeId": node_id}
    read: list[str] = []
    while True:
        text = run_tool(office, "doc_fetch", args, 4096).observation[0].text
        assert isinstance(text, str)
        assert len(text.encode()) <= 4096
        told = json.loads(text)
        read.append(told["data"]["content"].strip("\n"))
        if told["complete"]:
            break
        args = {"nodeId": node_id, "scope": "range", "startBlockId": told["data"]["nextBlockId"]}
    assert "\n\n".join(read) == office.text(node_id).strip("\n")
    assert len(read) > 3
