"""What an adversary found at the edges of operations: each kind of it, not the one case."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app
from polyloop.contract.problem import ProblemError
from polyloop.contract.session import Read
from polyloop.db import Database
from polyloop.documents import store
from polyloop.documents.leaves import COMMANDS, MODES, OPERATIONS, SCOPES
from polyloop.testing.fake_openai import FakeOpenAI, said
from tests.documents.office import Office
from tests.documents.test_paging import fill
from tests.outside import command

#: A value for every field that some command takes.
FIELDS: dict[str, Any] = {
    "content": "x\n", "format": "text", "allowBlockLoss": True, "blockId": "b_1", "afterBlockId": "b_2", "old": "o", "new": "n",
    "startBlockId": "b_1", "endBlockId": "b_2", "keyword": "k", "tags": ["heading"],
}  # fmt: skip
TABLES = {"update": ("command", COMMANDS), "checkpoint_update": ("mode", MODES), "fetch": ("scope", SCOPES)}
TAKEN = [(op, name, value, told) for op, (name, table) in TABLES.items() for value, told in table.items()]


def parts(told: tuple[str, ...]) -> set[str]:
    return {part for field in told for part in field.rstrip("?").split("|")}


@pytest.mark.parametrize(("op", "name", "value", "told"), TAKEN, ids=[f"{op}-{value}" for op, _, value, _ in TAKEN])
def test_S0_1_a_field_of_another_command_is_a_mistake(op: str, name: str, value: str, told: tuple[str, ...]) -> None:
    shape = OPERATIONS[op].arguments
    needed = [field.split("|")[0] for field in told if "?" not in field]
    base: dict[str, Any] = {"nodeId": "n_1", name: value, **{field: FIELDS[field] for field in needed}}
    assert shape.problems(base) == []
    assert shape.problems(base | {f: FIELDS[f] for f in parts(told) if "|" not in "".join(told) or f in needed}) == []
    others = {part for table in TABLES[op][1].values() for part in parts(table)} - parts(told)
    for field in sorted(others):
        assert [(p.field, p.issue) for p in shape.problems({**base, field: FIELDS[field]})] == [(field, "exclusive")]
    for field in needed:
        assert shape.problems({n: v for n, v in base.items() if n != field})


def test_a_scope_that_is_not_named_is_the_whole(office: Office) -> None:
    node_id = office.new()
    for field in ("keyword", "tags"):
        told = office.refused("validation", "fetch", {"nodeId": node_id, field: FIELDS[field]})["details"]
        assert (told["field"], told["issue"]) == (field, "exclusive")
    told = office.refused("validation", "create", {"title": "x", "format": "text"})["details"]
    assert told["issue"] == "required"


def kept(office: Office) -> str:
    """Every text the store holds of this tenant, journal included."""
    tables = ("doc_node", "doc_place", "doc_block", "doc_version", "doc_write", "op_entry", "op_approval", "op_fact")
    return json.dumps([office.db.look(lambda tx, t=t: tx.rows(f"select * from {t} where tenant = ?", office.tenant)) for t in tables])


@pytest.mark.parametrize("faulty", [False, True])
def test_a_purge_leaves_no_title_no_label_and_no_text(db: Database, faulty: bool) -> None:
    office = Office(db, faulty=faulty)
    node_id = office.new("Geheim-A", "Geheim-B\n")
    other = office.new("Offen", "stays\n")
    office.do("rename", {"nodeId": other, "title": "Offener"})
    office.do("rename", {"nodeId": node_id, "title": "Geheim-C", "operationKey": "k"})
    office.do("version_save", {"nodeId": node_id, "label": "Geheim-D"})
    office.do("checkpoint_update", {"nodeId": node_id, "mode": "append", "content": "Geheim-E\n"})
    copy = office.do("copy", {"nodeId": node_id, "title": "Geheim-F"})["data"]["nodeId"]
    for each in (node_id, copy):
        office.do("delete", {"nodeId": each})
        office.do("purge", {"nodeId": each})
    assert "Geheim" not in kept(office)
    told = office.do("rename", {"nodeId": node_id, "title": "Geheim-C", "operationKey": "k"})
    assert told["compensation"] == {"available": False, "reason": "it was purged"}, "its receipt is still there, and sends nothing"
    assert "Offen" in kept(office), "what was not purged can still be taken back"


def test_what_stood_in_a_folder_that_was_purged_comes_back_elsewhere(office: Office) -> None:
    folder = office.do("create_folder", {"title": "F"})["data"]["nodeId"]
    node_id = office.new("N", "one\n", containerId=folder)
    office.do("delete", {"nodeId": node_id})
    office.do("delete", {"nodeId": folder})
    office.refused("not_found", "restore", {"nodeId": node_id})
    office.do("purge", {"nodeId": folder})
    office.refused("not_found", "restore", {"nodeId": node_id})
    office.refused("type_mismatch", "restore", {"nodeId": node_id, "containerId": office.new("no folder")})
    told = office.do("restore", {"nodeId": node_id, "containerId": "root"})
    assert told["target"]["container"] == {"kind": "root", "id": "root"}
    assert office.text(node_id) == "one\n"
    office.do("compensate", {"operationId": told["data"]["operationId"]})
    office.refused("not_found", "fetch", {"nodeId": node_id})


def test_what_changed_is_told_bounded(office: Office) -> None:
    node_id = office.new("D", "one\n")
    office.do("update", {"nodeId": node_id, "command": "append", "content": "\n\n".join(f"p{n}" for n in range(700))})
    office.do("update", {"nodeId": node_id, "command": "overwrite", "content": "x\n", "force": True})
    office.do("update", {"nodeId": node_id, "command": "append", "content": "\n\n".join(f"q{n}" for n in range(130))})
    details = office.refused("revision_conflict", "rename", {"nodeId": node_id, "title": "y", "expectedRevision": 1})["details"]
    changed = details["changed"]
    assert ({name: len(changed[name]) for name in ("added", "updated", "removed")}, changed["omitted"]) == (
        {"added": 50, "updated": 0, "removed": 1},
        {"added": 81},
    )
    assert len(json.dumps(details)) < 4000


def test_a_section_cut_short_is_gone_on_with_to_its_end_and_no_further(office: Office) -> None:
    node_id = office.new("S", "# A\n\n" + "\n\n".join(f"a{n} {'x' * 40}" for n in range(20)) + "\n\n# B\n\nb\n")
    head = office.blocks(node_id)[0]["blockId"]
    args: dict[str, Any] = {"nodeId": node_id, "scope": "section", "startBlockId": head}
    read: list[str] = []
    for _ in range(50):
        told = office.do("fetch", {**args, "maxChars": 200})
        read.append(told["data"]["content"].strip("\n"))
        if told["complete"]:
            break
        end = told["data"].get("endBlockId", args.get("endBlockId"))
        args = {"nodeId": node_id, "scope": "range", "startBlockId": told["data"]["nextBlockId"], "endBlockId": end}
    assert "\n\n".join(read) == office.text(node_id, scope="section", startBlockId=head).strip("\n")
    assert len(read) > 3


def test_no_text_that_is_written_holds_a_nul(office: Office) -> None:
    node_id = office.new("D", "one \\u0000\n")
    for args in (
        {"command": "str_replace", "old": "one", "new": "a\0b"}, {"command": "append", "content": "a\0b"},
        {"command": "append", "format": "blocks", "content": [{"type": "code", "runs": [{"text": "a\0b"}]}]},
        {"command": "append", "format": "blocks", "content": [{"type": "code", "info": "\0"}]},
    ):  # fmt: skip
        office.refused("validation", "update", {"nodeId": node_id, **args})
    literal = [{"type": "code", "runs": [{"text": "\\u0000"}]}]
    office.do("update", {"nodeId": node_id, "command": "append", "format": "blocks", "content": literal})
    office.do("update", {"nodeId": node_id, "command": "str_replace", "old": "one", "new": "a\n\tb"})


def test_reading_only_asks_what_became_of_an_operation_and_takes_nothing_back(db: Database) -> None:
    """Reconciling changes no document: it writes down what became of one, and keeps what was given up from coming late."""
    office = Office(db, faulty=True, faults=["lose_reply"])
    lost = office.receipt("create", {"title": "N"}).data["operationId"]
    assert office.do("reconcile", {"operationId": lost}, mode="read_only", approved_by="")["status"] == "success"
    office.refused("permission_denied", "compensate", {"operationId": lost}, mode="read_only", approved_by="")
    office.do("operation_get", {"operationId": lost}, mode="read_only")


def test_every_question_to_the_runtime_fails_typed(tmp_path: Path) -> None:
    db = Database.open(tmp_path / "s.db", store.SCHEMAS)
    runtime = Office(db).runtime
    db.close()
    for ask in (
        runtime.entries("s"), runtime.note("s", Read("m")), runtime.readings("s", "m"), runtime.approvals(), runtime.settle("k"),
        runtime.reconcile("o"), runtime.decide("p", "approved", by="x"),
    ):  # fmt: skip
        with pytest.raises(ProblemError, match="local_io"):
            asyncio.run(ask)


def test_looking_makes_no_store(tmp_path: Path) -> None:
    here = tmp_path / "new" / "s.db"
    for op, args, code in (
        ("list", {}, 0), ("fetch", {"title": "x"}, 2), ("operation_get", {"operationId": "x"}, 2), ("reconcile", {"operationId": "x"}, 2),
        ("nothing", {}, 2), ("version_list", {"nodeId": "n"}, 2),
    ):  # fmt: skip
        done = CliRunner().invoke(app, ["docs", "call", op, "--args", "-", "--store", str(here), "--json"], input=json.dumps(args))
        assert done.exit_code == code, done.stdout
    for words in (["docs", "call", "create", "--dry-run", "--args", "-"], ["approvals", "list"]):
        assert CliRunner().invoke(app, [*words, "--store", str(here), "--json"], input='{"title": "x"}').exit_code == 0
    assert not here.parent.exists()
    done = CliRunner().invoke(app, ["docs", "call", "list", "--args", "-", "--session", "s", "--store", str(here), "--json"], input="{}")
    assert (done.exit_code, here.exists()) == (0, True), "a session is made on first use, and lasts"


@pytest.mark.parametrize("text", ["$$x$$", "a\n\n$$\nx\n$$", "$$\nx$$", "$$x\ny$$\n", "> $$x$$"])
def test_an_untouched_formula_keeps_its_bytes(office: Office, text: str) -> None:
    node_id = office.new("D", text)
    office.do("update", {"nodeId": node_id, "command": "append", "content": "more\n"})
    assert office.text(node_id) == text.rstrip("\n") + "\n\nmore\n"


REQUEST = """
run_id = "r1"
tools = ["doc_list", "doc_create", "submit"]
completes = ["submit"]
[agent]
id = "a"
[budget]
max_valid_steps = 20
max_iterations = 30
[[segments]]
name = "task"
text = "List them all."
"""


def test_S0_24_S0_32_a_run_is_refused_its_claims_and_then_cites_what_there_is(tmp_path: Path) -> None:
    """From outside: 600 documents are more than one answer shows. The claim that these are all is refused; a record is citable."""
    path = tmp_path / "s.db"
    db = Database.open(path, store.SCHEMAS)
    fill(db, "local", 600)
    db.close()
    seen: list[Any] = []

    def act(tool: str, **args: Any) -> dict[str, Any]:
        return said(json.dumps({"action": {"tool": tool, "args": args}}))

    def claim(scope: str, *refs: str) -> dict[str, Any]:
        return act("submit", summary="s", claims=[{"text": "all", "evidence": list(refs), "scope": scope}])

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        said_last = body["messages"][-1]["content"]
        turn = len(seen)
        seen.append(said_last)
        if turn == 0:
            return act("doc_list")
        if turn == 1:
            page = json.loads(said_last[said_last.index("{") :])
            assert (page["complete"], page["hasMore"], page["truncated"]) == (False, True, True)
            seen.append(page["ref"])
            return claim("all", page["ref"])
        ref = next(s for s in seen if isinstance(s, str) and s.startswith("list_"))
        told = {3: ("covered", ref, "r1@9999"), 4: ("covered", ref, "other@0"), 5: ("covered", "r1@0", "r1@4", ref)}[turn]
        return claim(told[0], *told[1:])

    with FakeOpenAI([reply]) as server:
        (tmp_path / "r.toml").write_text(f'model = "openai:m@{server.url}"\n' + REQUEST)
        done = command(tmp_path, "run", tmp_path / "r.toml", "--store", path, "--json")
    assert json.loads(done.out)["reason"] == "completed", done
    refusals = [[(r["issue"], r["ref"][:5]) for r in json.loads(s[s.index("{") :])["error"]["details"]["refusals"]] for s in seen if "refusals" in s]
    assert refusals == [[("incomplete", "list_")], [("unknown_ref", "r1@99")], [("unknown_ref", "other")]]
    assert len(seen) == 6, "the last submission stood"
