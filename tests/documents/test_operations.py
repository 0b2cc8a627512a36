"""Every operation from outside: what it answers, what stands afterwards, what it refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from polyloop.db import Database
from polyloop.documents.leaves import AFTERWARDS, ASIDE, OPERATIONS, PURPOSE, TAKES_AWAY
from tests.documents.office import YES, Office

BASE = "# Head\n\nfirst *one*\n\n- a\n  - b\n\nlast\n"


@pytest.fixture
def book(office: Office) -> tuple[Office, str, list[str]]:
    """A document of BASE and the ids of its blocks: Head, first, a, b, last."""
    node_id = office.new("B", BASE)
    return office, node_id, [b["blockId"] for b in office.blocks(node_id)]


#: command, its arguments (numbers are blocks of BASE), and the text afterwards.
EDITS: list[tuple[str, dict[str, Any], str]] = [
    ("append", {"content": "new\n"}, BASE + "\nnew\n"),
    ("append", {"content": "- x\n- y\n"}, BASE + "\n- x\n- y\n"),
    ("append", {"content": "# not a head", "format": "text"}, BASE + "\n\\# not a head\n"),
    ("append", {"content": [{"type": "code", "runs": [{"text": "a|b"}], "info": "py"}], "format": "blocks"}, BASE + "\n```py\na|b\n```\n"),
    ("overwrite", {"content": "all\n"}, "all\n"),
    ("overwrite", {"content": ""}, ""),
    ("insert_before", {"blockId": 0, "content": "zero\n"}, "zero\n\n" + BASE),
    ("insert_before", {"blockId": 4, "content": "x\n\ny\n"}, BASE.replace("last", "x\n\ny\n\nlast")),
    ("insert_after", {"blockId": 0, "content": "x\n"}, BASE.replace("# Head\n\n", "# Head\n\nx\n\n")),
    ("insert_after", {"afterBlockId": 1, "content": "x\n"}, BASE.replace("*one*\n\n", "*one*\n\nx\n\n")),
    ("insert_after", {"blockId": 2, "content": "x\n"}, BASE.replace("  - b\n\n", "  - b\n\nx\n\n")),
    ("insert_after", {"blockId": 4, "content": "x\n"}, BASE + "\nx\n"),
    ("replace", {"blockId": 1, "content": "other\n"}, BASE.replace("first *one*", "other")),
    ("replace", {"blockId": 2, "content": "list gone\n"}, BASE.replace("- a\n  - b\n", "list gone\n")),
    ("delete", {"blockId": 1}, BASE.replace("first *one*\n\n", "")),
    ("delete", {"blockId": 2}, BASE.replace("- a\n  - b\n\n", "")),
    ("copy", {"blockId": 1, "afterBlockId": 4}, BASE + "\nfirst *one*\n"),
    ("copy", {"blockId": 2, "afterBlockId": 0}, BASE.replace("# Head\n\n", "# Head\n\n- a\n  - b\n\n")),
    ("move", {"blockId": 1, "afterBlockId": 4}, BASE.replace("first *one*\n\n", "") + "\nfirst *one*\n"),
    ("move", {"blockId": 4, "afterBlockId": 0}, "# Head\n\nlast\n\nfirst *one*\n\n- a\n  - b\n"),
    ("str_replace", {"old": "one", "new": "two"}, BASE.replace("one", "two")),
    ("str_replace", {"old": "st o", "new": "st and o"}, BASE.replace("first *one*", "first and o*ne*")),
    ("str_replace", {"old": "last", "new": ""}, BASE.replace("last\n", "")),
    ("str_replace", {"old": "a", "new": "z", "blockId": 2}, BASE.replace("- a", "- z")),
]  # fmt: skip


def ids(args: dict[str, Any], blocks: list[str]) -> dict[str, Any]:
    return {name: blocks[value] if isinstance(value, int) else value for name, value in args.items()}


@pytest.mark.parametrize(("command", "args", "after"), EDITS, ids=[f"{n}-{c}" for n, (c, _, _) in enumerate(EDITS)])
def test_update(book: tuple[Office, str, list[str]], command: str, args: dict[str, Any], after: str) -> None:
    office, node_id, blocks = book
    receipt = office.do("update", {"nodeId": node_id, "command": command, "expectedRevision": 1, **ids(args, blocks)})
    assert office.text(node_id).rstrip("\n") == after.rstrip("\n")
    assert office.text(node_id, revision=1) == BASE, "earlier revisions stay"
    assert receipt["data"]["revision"] == 2
    assert receipt["verification"]["atRevision"] == 2
    kept = [b["blockId"] for b in office.blocks(node_id) if b["blockId"] in blocks]
    if command == "move":
        assert sorted(kept) == sorted(blocks), "moved blocks keep their ids"
    back = office.do("compensate", {"operationId": receipt["data"]["operationId"]})
    assert back["data"]["revision"] == 3
    assert office.text(node_id) == BASE
    office.refused("revision_conflict", "compensate", {"operationId": receipt["data"]["operationId"]})


@pytest.mark.parametrize(("command", "args", "after"), EDITS[:1] + EDITS[4:], ids=lambda v: v if isinstance(v, str) and len(v) < 20 else "")
def test_a_stale_write_changes_nothing_and_is_told_which_blocks_differ(
    book: tuple[Office, str, list[str]], command: str, args: dict[str, Any], after: str
) -> None:
    office, node_id, blocks = book
    office.do("update", {"nodeId": node_id, "command": "replace", "blockId": blocks[4], "content": "their end\n", "expectedRevision": 1})
    new = next(b["blockId"] for b in office.blocks(node_id) if b["blockId"] not in blocks)
    stale = {"nodeId": node_id, "command": command, "expectedRevision": 1, **ids(args, blocks)}
    told, code = office.call("update", stale, **YES)
    if told["error"]["kind"] == "not_found":  # the block it names is the one that went
        return
    assert (told["error"]["kind"], code) == ("revision_conflict", 7)
    details = office.refused("revision_conflict", "update", stale)["details"]
    assert (details["expected"], details["current"]) == (1, 2)
    assert details["changed"] == {"added": [new], "updated": [], "removed": [blocks[4]]}


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("rename", {"title": "X"}), ("move", {"containerId": "root"}), ("delete", {}), ("version_save", {}), ("copy", {}),
        ("version_revert", {"revision": 1}), ("checkpoint_update", {"mode": "append", "content": "x"}),
    ],
)  # fmt: skip
def test_every_other_mutation_refuses_a_stale_revision(book: tuple[Office, str, list[str]], op: str, args: dict[str, Any]) -> None:
    office, node_id, _ = book
    office.do("rename", {"nodeId": node_id, "title": "theirs"})
    office.refused("revision_conflict", op, {"nodeId": node_id, "expectedRevision": 1, **args})


@pytest.mark.parametrize("command", sorted(TAKES_AWAY))
def test_what_takes_away_names_its_base_and_asks_a_person(book: tuple[Office, str, list[str]], command: str) -> None:
    office, node_id, blocks = book
    args = next(ids(a, blocks) for c, a, _ in EDITS if c == command)
    told = office.refused("validation", "update", {"nodeId": node_id, "command": command, **args})
    assert told["details"]["field"] == "expectedRevision"
    forced = {"nodeId": node_id, "command": command, "force": True, **args}
    asked = office.refused("confirmation_required", "update", forced, approved_by="")
    assert asked["details"]["planId"].startswith("plan-")
    office.do("update", forced)


def test_S0_5_titles_with_no_or_many_matches_stop_every_write(office: Office) -> None:
    first = office.new("twin", "1\n")
    second = office.new("twin", "2\n")
    for title, kind, count in (("none", "not_found", 0), ("twin", "ambiguous", 2)):
        for op, args in (
            ("update", {"command": "append", "content": "x"}), ("delete", {}), ("version_save", {}), ("move", {"containerId": "root"}),
            ("checkpoint_update", {"mode": "append", "content": "x"}), ("fetch", {}), ("inspect", {}), ("resolve", {}),
        ):  # fmt: skip
            details = office.refused(kind, op, {"title": title, **args})["details"]
            assert (details["count"], len(details["candidates"])) == (count, count)
    assert [c["nodeId"] for c in office.refused("ambiguous", "resolve", {"title": "twin"})["details"]["candidates"]] == [first, second]


def test_S0_3_S0_4_a_rename_keeps_the_url_and_ids_are_looked_at(book: tuple[Office, str, list[str]], db: Database) -> None:
    office, node_id, _ = book
    folder = office.do("create_folder", {"title": "F"})["target"]
    before = office.do("inspect", {"nodeId": node_id})["target"]
    after = office.do("rename", {"nodeId": node_id, "title": "New"})["target"]
    assert before == after
    assert before["canonicalUrl"] == f"doc://{office.tenant}/{node_id}"
    assert office.do("resolve", {"url": before["canonicalUrl"]})["target"] == before
    assert office.do("resolve", {"title": "New"})["data"]["matchedBy"] == "exact_title"
    stranger = Office(db)
    for op in ("inspect", "fetch", "resolve"):
        stranger.refused("not_found", op, {"nodeId": node_id})
        stranger.refused("not_found", op, {"url": before["canonicalUrl"]})
    office.refused("not_found", "fetch", {"url": "https://elsewhere/x"})
    office.refused("type_mismatch", "update", {"nodeId": folder["nodeId"], "command": "append", "content": "x"})
    office.refused("type_mismatch", "fetch", {"nodeId": folder["nodeId"]})
    office.refused("type_mismatch", "create", {"title": "x", "containerId": node_id})
    office.refused("not_found", "create", {"title": "x", "containerId": "n_none"})


def test_str_replace_counts_and_keeps_marks(book: tuple[Office, str, list[str]]) -> None:
    office, node_id, blocks = book
    base = {"nodeId": node_id, "command": "str_replace"}
    told = office.refused("ambiguous", "update", {**base, "old": "a", "new": "z"})["details"]
    assert (told["count"], told["candidates"]) == (3, [blocks[0], blocks[2], blocks[4]])
    office.do("update", {"nodeId": node_id, "command": "append", "content": "aaa\n"})
    assert office.refused("ambiguous", "update", {**base, "old": "aa", "new": ""})["details"]["count"] == 2, "overlaps count"
    office.refused("not_found", "update", {**base, "old": "nowhere", "new": "z"})
    office.refused("validation", "update", {**base, "old": "a"})
    told = office.do("update", {**base, "old": "one", "new": "one"})
    assert told["warnings"] == ["no_change"]


def test_overwriting_from_markdown_loses_no_block_unasked(office: Office) -> None:
    table = {"type": "table", "table": {"rows": [[{"runs": [{"text": "m"}], "colspan": 2}], [{}, {}]], "header_rows": 1}}
    node_id = office.do("create", {"title": "T", "format": "blocks", "content": [table, {"type": "paragraph", "runs": [{"text": "p"}]}]})["data"][
        "nodeId"
    ]
    block = office.blocks(node_id)[0]["blockId"]
    for args in ({"command": "overwrite"}, {"command": "replace", "blockId": block}):
        base = {"nodeId": node_id, "content": "x\n", "expectedRevision": 1, **args}
        told = office.refused("validation", "update", base)["details"]
        assert (told["field"], told["issue"], block in told["problems"][0]["message"]) == ("allowBlockLoss", "block_loss", True)
    office.do("update", {"nodeId": node_id, "content": "x\n", "expectedRevision": 1, "command": "overwrite", "allowBlockLoss": True})


@pytest.mark.parametrize(
    ("args", "content"),
    [
        ({"scope": "outline"}, "# Head\n\n## Sub\n\n# Next\n"),
        ({"scope": "section", "startBlockId": 0}, "# Head\n\none\n\n## Sub\n\ntwo\n\n"),
        ({"scope": "range", "startBlockId": 1, "endBlockId": 3}, "one\n\n## Sub\n\ntwo\n\n"),
        ({"scope": "keyword", "keyword": "TWO|three"}, "two\n\nthree\n"),
        ({"scope": "tags", "tags": ["heading"]}, "# Head\n\n## Sub\n\n# Next\n"),
        ({"startBlockId": 3}, "two\n\n# Next\n\nthree\n"),
        ({"scope": "outline", "startBlockId": 2, "endBlockId": 2}, "## Sub\n"),
        ({"scope": "keyword", "keyword": "TWO|three", "startBlockId": 4}, "three\n"),
        ({"scope": "tags", "tags": ["heading"], "endBlockId": 2}, "# Head\n\n## Sub\n"),
        ({"format": "text"}, "Head\none\nSub\ntwo\nNext\nthree"),
    ],
)  # fmt: skip
def test_fetch_scopes(office: Office, args: dict[str, Any], content: str) -> None:
    node_id = office.new("S", "# Head\n\none\n\n## Sub\n\ntwo\n\n# Next\n\nthree\n")
    blocks = [b["blockId"] for b in office.blocks(node_id)]
    assert office.text(node_id, **ids(args, blocks)).rstrip("\n") == content.rstrip("\n")


def test_fetch_refuses_what_is_not_there(office: Office) -> None:
    node_id = office.new()
    block = office.blocks(node_id)[0]["blockId"]
    for args, kind in (
        ({"revision": 9}, "not_found"), ({"scope": "section"}, "validation"), ({"scope": "section", "startBlockId": "b_x"}, "not_found"),
        ({"scope": "section", "startBlockId": block}, "type_mismatch"), ({"scope": "keyword"}, "validation"), ({"scope": "all"}, "validation"),
        ({"url": "doc://x/y"}, "validation"), ({"depth": 1}, "validation"),
    ):  # fmt: skip
        office.refused(kind, "fetch", {"nodeId": node_id, **args})


def test_versions(office: Office) -> None:
    node_id = office.new("V", "one\n")
    office.do("version_save", {"nodeId": node_id, "label": "first"})
    office.do("update", {"nodeId": node_id, "command": "append", "content": "two\n"})
    told = office.do("checkpoint_update", {"nodeId": node_id, "mode": "overwrite", "content": "three\n", "expectedRevision": 2})
    assert [s["name"] for s in told["steps"]] == ["checkpoint", "write", "verify"]
    assert told["data"]["version"] == 2
    listed = office.do("version_list", {"nodeId": node_id})
    assert [(v["version"], v["revision"], v["label"]) for v in listed["items"]] == [(1, 1, "first"), (2, 2, "checkpoint")]
    assert listed["complete"] is True
    diff = office.do("version_diff", {"nodeId": node_id, "from": 1, "to": 2})["data"]
    assert diff["counts"] == {"same": 1, "added": 1, "removed": 0, "changed": 0, "moved": 0}
    office.refused("validation", "version_revert", {"nodeId": node_id, "version": 1})
    office.refused("not_found", "version_revert", {"nodeId": node_id, "version": 7, "force": True})
    office.refused("validation", "version_revert", {"nodeId": node_id, "version": 1, "revision": 1, "force": True})
    office.do("version_revert", {"nodeId": node_id, "version": 1, "expectedRevision": 3})
    assert office.text(node_id) == "one\n"


def test_the_way_of_a_node(office: Office) -> None:
    folder = office.do("create_folder", {"title": "F"})["data"]["nodeId"]
    inner = office.do("create_folder", {"title": "G", "containerId": folder})["data"]["nodeId"]
    node_id = office.new("N", "one\n", containerId=inner)
    assert [i["title"] for i in office.do("list", {"containerId": inner})["items"]] == ["N"]
    office.refused("validation", "move", {"nodeId": folder, "containerId": inner})
    office.refused("conflict", "delete", {"nodeId": inner})
    moved = office.do("move", {"nodeId": node_id, "containerId": folder})
    assert moved["target"]["container"] == {"kind": "folder", "id": folder}
    copy = office.do("copy", {"nodeId": node_id, "containerId": "root", "title": "Copy"})["data"]["nodeId"]
    assert office.text(copy) == "one\n"
    deleted = office.do("delete", {"nodeId": node_id})
    for op in ("fetch", "delete", "version_save"):
        office.refused("not_found", op, {"nodeId": node_id})
    office.refused("not_found", "resolve", {"title": "N"})
    office.refused("not_found", "purge", {"nodeId": copy})
    office.do("compensate", {"operationId": deleted["data"]["operationId"]})
    assert office.text(node_id) == "one\n"
    office.do("delete", {"nodeId": node_id})
    gone = office.do("purge", {"nodeId": node_id})
    assert gone["compensation"]["available"] is False
    office.refused("conflict", "compensate", {"operationId": gone["data"]["operationId"]})
    office.refused("not_found", "restore", {"nodeId": node_id})
    assert office.db.look(lambda tx: tx.rows("select body from doc_block where tenant = ? and node = ?", office.tenant, node_id)) == []


def test_S0_1_arguments_are_closed(office: Office) -> None:
    node_id = office.new()
    target = {"nodeId": node_id}
    for op, args, field, issue in (
        ("create", {"title": "x", "flag": True}, "flag", "unknown_field"), ("create", {}, "title", "required"),
        ("create", {"title": None}, "title", "null"), ("create", {"title": ""}, "title", "empty"), ("create", {"title": 5}, "title", "wrong_type"),
        ("fetch", {}, "nodeId|url|title", "exactly_one"), ("fetch", {**target, "title": "D"}, "nodeId|url|title", "exactly_one"),
        ("update", {**target, "command": "append"}, "content", "required"), ("update", {**target, "command": "x"}, "command", "invalid_value"),
        ("update", {**target, "command": "insert_after", "content": "x"}, "blockId|afterBlockId", "exactly_one"),
        ("update", {**target, "command": "append", "content": " \n"}, "content", "empty"),
        ("create", {"title": "x", "content": [{"type": "nope"}], "format": "blocks"}, "content", "invalid_value"),
        ("create", {"title": "x", "content": [{"type": "paragraph", "color": 1}], "format": "blocks"}, "content.color", "unknown_field"),
        ("create", {"title": "x", "content": [{"type": "paragraph", "source": "# x"}], "format": "blocks"}, "content.source", "unknown_field"),
        ("create", {"title": "x", "operationKey": 5}, "operationKey", "wrong_type"),
        ("fetch", {**target, "operationKey": "k"}, "operationKey", "unknown_field"),
        ("create", {"title": "x", "content": '[{"type": "code", "runs": [{"text": "\\ud800"}]}]', "format": "blocks"}, "content", "invalid_value"),
        *(("create", {"title": "x", "content": "a\0b", "format": form}, "content", "invalid_value") for form in ("markdown", "text")),
        *(("create", {"title": title}, "title", "format") for title in (" ", "a\0b", "a\nb", "a\x7f")),
        ("rename", {**target, "title": "x", "expectedRevision": 2**63}, "expectedRevision", "out_of_range"),
        ("fetch", {**target, "revision": 10**30}, "revision", "out_of_range"),
        ("version_revert", {**target, "version": 10**30, "force": True}, "version", "out_of_range"),
        ("version_diff", {**target, "from": 2**63, "to": 1}, "from", "out_of_range"),
        ("list", {"limit": 201}, "limit", "out_of_range"), ("operation_get", {}, "operationId", "required"),
    ):  # fmt: skip
        details = office.refused("validation", op, args)["details"]
        assert (details["field"], details["issue"]) == (field, issue), op
    for op in ("nothing", "doc.create", ""):
        office.refused("not_found", op, {})
    for op in AFTERWARDS:
        office.refused("not_found", op, {"operationId": "none"})
    assert PURPOSE.keys() == OPERATIONS.keys() | ASIDE.keys()


def test_S0_27_nothing_is_proved_of_a_folder_that_is_not_there(office: Office) -> None:
    folder = office.do("create_folder", {"title": "F"})["data"]["nodeId"]
    assert office.do("list", {"containerId": folder})["complete"]
    assert office.do("list", {"containerId": "root"})["count"] == 1
    office.refused("not_found", "list", {"containerId": "nowhere"})
    office.refused("type_mismatch", "list", {"containerId": office.new()})
    office.do("delete", {"nodeId": folder})
    office.refused("not_found", "list", {"containerId": folder})


def test_a_dry_run_shows_the_plan_and_does_nothing(office: Office) -> None:
    node_id = office.new()
    before = office.everything()
    told, code = office.call("update", {"nodeId": node_id, "command": "append", "content": "x"}, dry_run=True)
    assert (code, told["executed"], told["plan"]["steps"]) == (0, False, ["write"])
    assert office.everything() == before


def test_a_dry_run_of_a_reconciliation_asks_and_fences_nothing(db: Database) -> None:
    office = Office(db, faulty=True, faults=["lose_reply"])
    operation = office.receipt("create", {"title": "N"}).data["operationId"]
    told, code = office.call("reconcile", {"operationId": operation}, dry_run=True)
    assert (told["error"]["kind"], code) == ("commit_unknown", 4)
    assert office.do("reconcile", {"operationId": operation})["status"] == "success"


def test_a_write_that_changes_nothing_says_so(office: Office) -> None:
    node_id = office.new("N", "one\n\n**two**\n")
    first, second = (b["blockId"] for b in office.blocks(node_id))
    for args in (
        {"command": "move", "blockId": second, "afterBlockId": first}, {"command": "replace", "blockId": second, "content": "**two**\n"},
        {"command": "overwrite", "content": "one\n\n**two**\n"},
    ):  # fmt: skip
        told = office.do("update", {"nodeId": node_id, "force": True, **args})
        assert (told["status"], told["warnings"]) == ("success", ["no_change"]), args
        assert office.text(node_id).split() == ["one", "**two**"]
    assert office.do("update", {"nodeId": node_id, "force": True, "command": "overwrite", "content": "one\n\ntwo\n"})["warnings"] == []
    empty = {"nodeId": office.new("E", ""), "command": "overwrite", "force": True}
    assert [office.do("update", {**empty, "content": text})["warnings"] for text in ("", "one\n")] == [["no_change"], []]


def test_an_approval_is_for_one_plan_and_used_once(office: Office) -> None:
    node_id = office.new()
    call = {"nodeId": node_id, "command": "overwrite", "content": "x\n", "expectedRevision": 1}
    plan = office.refused("confirmation_required", "update", call, approved_by="")["details"]["planId"]
    asyncio.run(office.runtime.decide(plan, "approved", by="ann"))
    office.refused("validation", "update", {**call, "content": "y\n"}, approved_by="", plan_id=plan)
    office.refused("not_found", "update", call, approved_by="", plan_id="plan-none")
    assert [a.id for a in asyncio.run(office.runtime.approvals())] == [plan], "no other question is put to a person"
    office.do("update", call, approved_by="")
    assert office.text(node_id) == "x\n"
    office.refused("revision_conflict", "update", call, approved_by="")


def test_S0_25_an_atomic_write_is_one_commit(office: Office) -> None:
    node_id = office.new()
    office.do("update", {"nodeId": node_id, "command": "append", "content": "two\n"})
    before = office.db.commits
    office.do("update", {"nodeId": node_id, "command": "append", "content": "three\n", "operationKey": "k"})
    assert office.db.commits == before + 1


def test_a_session_keeps_what_it_has_seen(office: Office) -> None:
    node_id = office.new()
    for _ in range(3):
        office.call("update", {"nodeId": node_id, "command": "append"}, session="s")
    told, _ = office.call("update", {"nodeId": node_id, "command": "append", "content": "x"}, session="s")
    assert told["error"]["kind"] == "capability_unavailable"
    office.do("update", {"nodeId": node_id, "command": "append", "content": "x"}, session="other")
    for name in ("a\nb", "x" * 201, "\ud800"):
        assert office.refused("validation", "list", {}, session=name)["details"]["field"] == "session"


def test_after_an_unknown_write_the_session_reads_first(db: Database) -> None:
    office = Office(db, faulty=True)
    node_id = office.new()
    office.transport.faults = ["lose_reply"]
    args = {"nodeId": node_id, "command": "append", "content": "x"}
    assert office.receipt("update", args, session="s").status == "unknown"
    assert office.refused("validation", "update", args, session="s")["details"]["issue"] == "read_first"
    office.do("fetch", {"nodeId": node_id}, session="s")
    office.do("update", args, session="s")
