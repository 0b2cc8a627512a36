"""Document tools in a run: what an answer means there, what survives a kill, what a submission may say."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app
from polyloop.contract.ledger import Entry
from polyloop.contract.receipt import Receipt
from polyloop.db import Database
from polyloop.documents.leaves import PURPOSE
from polyloop.documents.store import SCHEMAS
from polyloop.kernel.seams import Action, Deferred, NotStarted, Outcome, Pending, Unknown
from polyloop.toolbox.bridge import OperationTool, citable, document_tools, outcome, settled
from polyloop.toolbox.registry import Registry
from tests import outside
from tests.documents.office import Office

KILLED = Path(__file__).with_name("killed_run.py")
REQUEST = """
run_id = "r1"
model = "script:replies.jsonl"
tools = ["doc_*", "submit"]
completes = ["submit"]
permission_mode = "auto"
[agent]
id = "a"
version = "1"
protocol = "json-text/1"
[budget]
max_valid_steps = 20
max_iterations = 30
[[segments]]
name = "task"
role = "user"
text = "Write."
"""


def tool(office: Office, name: str) -> OperationTool:
    return document_tools(lambda _: office.runtime)[f"doc_{name}"]


def act(office: Office, name: str, args: dict[str, Any], key: str = "k", **more: Any) -> Outcome | Deferred:
    return asyncio.run(tool(office, name).run(Action(f"doc_{name}", args, key, 0, "run", office.tenant, **more)))


def text(given: Outcome | Deferred) -> Any:
    assert isinstance(given, Outcome)
    return json.loads(str(given.observation[0].text))


@pytest.fixture
def faulty(db: Database) -> Office:
    office = Office(db, faulty=True)
    office.new()
    return office


@pytest.mark.parametrize(
    ("fault", "status", "open_"),
    [("", "ok", False), ("lose_reply", "unknown", True), ("403", "error", False), ("429_after_2", "ok", False), ("refuse_connect", "error", False)],
)
def test_S0_19_what_a_status_means_in_a_run(faulty: Office, fault: str, status: str, open_: bool) -> None:
    faulty.transport.faults = [fault]
    given = act(faulty, "update", {"title": "D", "command": "append", "content": "x"})
    assert isinstance(given, Outcome)
    assert given.status == status
    assert given.evidence[0].settled != open_
    assert faulty.transport.sent == 2 + (fault == "429_after_2")


def test_problems_before_any_step(faulty: Office) -> None:
    for name, args, status, code in (
        ("update", {"title": "D", "command": "overwrite", "content": "x"}, "not_executed", "args_invalid"),
        ("fetch", {"title": "none"}, "error", "not_found"),
        ("update", {"title": "D", "command": "append", "content": "x", "expectedRevision": 9}, "error", "revision_conflict"),
    ):  # fmt: skip
        given = act(faulty, name, args)
        assert isinstance(given, Outcome)
        assert (given.status, given.code) == (status, code)
        assert text(given)["error"]["kind"] in (code, "validation")
    assert faulty.transport.sent == 1


def test_a_confirmed_operation_waits_for_its_plan_and_only_for_that(faulty: Office) -> None:
    args = {"title": "D"}
    asked = act(faulty, "delete", args)
    assert isinstance(asked, Deferred)
    assert (asked.awaited, asked.token.startswith("ap_plan-"), asked.dispatched) == ("approval", True, False)
    node_id = asked.prompt["target"]["nodeId"]  # type: ignore[index,call-overload]  # a plan is an object
    Office(faulty.db, faulty.tenant).do("rename", {"nodeId": node_id, "title": "E"})
    Office(faulty.db, faulty.tenant).do("rename", {"nodeId": node_id, "title": "D"})
    again = act(faulty, "delete", args, approved=True, token=asked.token)
    assert isinstance(again, Deferred), "it has moved on since: another plan, another question"
    assert again.token != asked.token
    done = act(faulty, "delete", args, approved=True, token=again.token)
    assert isinstance(done, Outcome)
    assert done.status == "ok"
    asked_by_mode = act(faulty, "create", {"title": "N"}, key="other", approved=True, token="ap_other")
    assert isinstance(asked_by_mode, Outcome)
    assert asked_by_mode.status == "ok"


def test_S0_10_settle_is_reconcile(faulty: Office) -> None:
    create = tool(faulty, "create")
    assert create.settle

    def settle(key: str) -> Any:
        return asyncio.run(create.settle(Action("doc_create", {}, key, 0, "run", faulty.tenant), None, True))  # type: ignore[misc,arg-type]  # a coroutine

    assert settle("never") == NotStarted()
    faulty.transport.faults = ["lose_reply", "lose_request"]
    for key, wanted in (("a", "ok"), ("b", "")):
        assert isinstance(given := act(faulty, "create", {"title": key}, key=key), Outcome)
        assert given.status == "unknown"
        found = settle(key)
        assert (found.status if isinstance(found, Outcome) else "") == wanted
    assert [title for title, _ in faulty.documents()] == ["D", "a"]
    assert tool(faulty, "fetch").settle is None
    faulty.transport.faults = ["lose_reply"]
    act(faulty, "create", {"title": "c"}, key="c")
    faulty.transport.on_read = lambda *_: {}
    assert settle("c") == Unknown()


def test_every_operation_is_a_tool_a_registry_takes(faulty: Office) -> None:
    registry = Registry(document_tools(lambda _: faulty.runtime).values())
    assert set(registry.specs) == {f"doc_{name}" for name in PURPOSE}
    assert registry.problems("doc_create", {"title": "x", "operationKey": "k"}), "the key is the run's own"
    assert registry.problems("doc_list", {}) == []


def entry_of(receipt: Receipt | None, **more: Any) -> Entry:
    return Entry(operation_id="o", operation="doc.create", request="r", receipt=receipt, **more)


def test_outcomes_of_entries(faulty: Office) -> None:
    assert settled(None) == NotStarted()
    assert settled(entry_of(None)) == Pending("o")
    faulty.transport.faults = ["", "403"]
    partial = faulty.receipt("checkpoint_update", {"title": "D", "mode": "append", "content": "x"})
    given = settled(entry_of(partial))
    assert isinstance(given, Outcome)
    assert (given.status, given.evidence[0].settled, given.evidence[0].complete) == ("error", False, False)
    ticket = outcome(asyncio.run(_running(faulty)))
    assert isinstance(ticket, Deferred)
    assert (ticket.awaited, ticket.dispatched) == ("task", True)


async def _running(office: Office) -> Any:
    from polyloop.contract.task import ticket

    return ticket("o", "operation", "running")


def test_S0_24_a_submission_names_what_is_open(faulty: Office) -> None:
    faulty.transport.faults = ["", "403", "lose_reply"]
    checkpoint = {"title": "D", "mode": "append", "content": "x"}
    partial = text(act(faulty, "checkpoint_update", checkpoint, key="1"))["error"]["details"]["data"]["operationId"]
    lost = text(act(faulty, "create", {"title": "N"}, key="2"))["error"]["details"]["data"]["operationId"]
    good = text(act(faulty, "create", {"title": "M"}, key="3"))["data"]["operationId"]

    def against(submission: dict[str, Any]) -> list[tuple[str, str]]:
        found = asyncio.run(citable(faulty.runtime, "run"))
        return [(r.issue, r.ref) for r in found.check("run", {"summary": "s", **submission})]

    assert against({}) == [("unsettled", partial), ("unsettled", lost)]
    assert against({"unsettled": [partial, lost]}) == []
    claim = {"unsettled": [partial, lost], "claims": [{"text": "made", "evidence": [good]}, {"text": "also", "evidence": [lost]}]}
    assert against(claim) == [("unsupported", lost)]
    faulty.do("reconcile", {"operationId": lost})
    assert against({}) == [("unsettled", partial)]
    assert faulty.receipt("checkpoint_update", {**checkpoint, "continues": partial}, session="run").ok
    assert against({}) == [], "gone on with, to success"


def test_S0_8_what_was_gone_on_with_by_stages_is_settled_by_the_last(db: Database) -> None:
    office = Office(db, faulty=True, faults=["", "403", "", "403"], chunk_chars=60)
    create = {"title": "N", "content": "\n\n".join(letter * 50 for letter in "abc")}
    first = text(act(office, "create", create, key="1"))["error"]["details"]["data"]["operationId"]
    second = office.receipt("create", {**create, "continues": first}, session="run")
    assert second.status == "partial_success"
    last = office.receipt("create", {**create, "continues": second.data["operationId"]}, session="run")
    assert last.ok
    assert [s.name for s in last.steps] == ["write_3", "verify"]
    assert office.documents()[0][1].count("a" * 50) == 1
    assert asyncio.run(citable(office.runtime, "run")).check("run", {"summary": "s"}) == []


# --- whole runs ------------------------------------------------------------------------------------------------------


def line(name: str, **args: Any) -> str:
    return json.dumps({"text": json.dumps({"action": {"tool": name, "args": args}})}) + "\n"


def lay(folder: Path, lines: Iterable[str]) -> tuple[Path, Path]:
    (folder / "r.toml").write_text(REQUEST)
    (folder / "replies.jsonl").write_text("".join(lines))
    return folder / "r.toml", folder / "s.db"


def polyloop(*words: object, stdin: str = "") -> tuple[int, Any]:
    """A command that ends by itself: in this process."""
    done = CliRunner().invoke(app, [*map(str, words), "--json"], input=stdin)
    return done.exit_code, json.loads(done.stdout)


def run(request: Path, store: Path) -> tuple[int, Any]:
    """`polyloop run` leaves its process for good, so it has one of its own."""
    done = outside.command(Path.cwd(), "run", request, "--store", store, "--json")
    return done.code, json.loads(done.out)


@pytest.mark.parametrize("when", ["before", "after"])
def test_S0_11_a_run_killed_beside_its_write_has_one_document(tmp_path: Path, when: str) -> None:
    request, store = lay(tmp_path, [line("doc_create", title="A", content="hi\n"), line("submit", summary="done")])
    killed = outside.run(KILLED, when, "doc_create", request, store, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    code, result = run(request, store)
    assert (code, result["reason"]) == (0, "completed")
    _, listed = polyloop("docs", "call", "list", "--args", "-", "--store", store, stdin="{}")
    assert [i["title"] for i in listed["items"]] == ["A"]
    db = Database.open(store, SCHEMAS)
    [(steps,)] = db.look(lambda tx: tx.rows("select count(*) from doc_write"))
    db.close()
    assert steps == 1
    assert (tmp_path / "killed").exists()


def test_a_run_asks_is_approved_and_its_submission_is_held_against_its_receipts(tmp_path: Path) -> None:
    claims = [{"text": "all of them", "evidence": ["list_nowhere"], "scope": "all"}]
    request, store = lay(
        tmp_path,
        [line("doc_create", title="A"), line("submit", summary="s", claims=claims), line("doc_delete", title="A"), line("submit", summary="s")],
    )
    code, waiting = run(request, store)
    assert (code, waiting["waiting"]["kind"]) == (5, "approval")
    _, asked = polyloop("approvals", "list", "--store", store)
    assert [a["id"] for a in asked["approvals"]] == [waiting["waiting"]["token"]], "one question, asked once"
    polyloop("approvals", "approve", waiting["waiting"]["token"], "--store", store)
    code, result = run(request, store)
    assert (code, result["reason"], result["counters"]["validSteps"]) == (0, "completed", 4)


def test_command_line(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    docs = ("docs", "call")
    code, made = polyloop(*docs, "create", "--args", "-", "--store", store, stdin='{"title": "A", "content": "one", "operationKey": "k"}')
    assert (code, made["status"]) == (0, "success")
    again = polyloop(*docs, "create", "--args", "-", "--store", store, stdin='{"title": "A", "content": "one", "operationKey": "k"}')
    assert again == (0, made)
    overwrite = json.dumps({"title": "A", "command": "overwrite", "content": "two", "expectedRevision": 1})
    code, asked = polyloop(*docs, "update", "--args", "-", "--store", store, stdin=overwrite)
    plan = asked["error"]["details"]["planId"]
    assert code == 5
    assert polyloop("approvals", "list", "--store", store)[1]["approvals"][0]["id"] == plan
    assert polyloop("approvals", "approve", plan, "--store", store)[1]["state"] == "approved"
    assert polyloop("approvals", "approve", plan, "--store", store)[0] == 0, "the same decision twice"
    assert polyloop("approvals", "reject", plan, "--store", store)[0] == 7
    assert polyloop(*docs, "update", "--args", "-", "--plan", plan, "--store", store, stdin=overwrite)[0] == 0
    assert polyloop("approvals", "show", plan, "--store", store)[1]["state"] == "consumed"
    assert polyloop("approvals", "approve", "plan-none", "--store", store)[0] == 2
    for args, mode, wanted in (
        ("{", "auto", 2),
        ("[]", "auto", 2),
        ('{"title":"a","title":"b"}', "auto", 2),
        ('{"a": NaN}', "auto", 2),
        ("{}", "odd", 2),
    ):
        assert polyloop(*docs, "list", "--args", "-", "--mode", mode, "--store", store, stdin=args)[0] == wanted
    title = '{"title": "B"}'
    assert polyloop(*docs, "create", "--args", "-", "--mode", "read_only", "--store", store, stdin=title)[0] == 6
    assert polyloop(*docs, "create", "--args", "-", "--mode", "request_approval", "--yes", "--store", store, stdin=title)[0] == 0
    assert polyloop(*docs, "create", "--args", "-", "--dry-run", "--store", store, stdin=title)[1]["executed"] is False
    assert {o["name"] for o in polyloop("docs", "ops")[1]["operations"]} == set(PURPOSE)
    assert polyloop("docs", "schema", "list")[1]["additionalProperties"] is False
    assert polyloop("docs", "schema", "nothing")[0] == 2
