"""The same operations, faults and service rules over PostgreSQL, so that no habit of SQLite creeps in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app
from polyloop.db import CommitUnknown, ConstraintFailed, Database, DbError, Tx
from polyloop.documents.store import SCHEMAS
from polyloop.testing.conformance.documents import DocumentsConformance, MakeTransport
from polyloop.testing.documents import FaultTransport
from tests.documents.office import Office
from tests.documents.test_access import test_roles_reach_down_and_the_highest_counts as test_roles  # noqa: F401
from tests.documents.test_crash import killed_and_asked_again
from tests.documents.test_depth import test_folders_stand_so_deep_and_no_deeper_and_roles_reach_all_the_way as test_depth  # noqa: F401
from tests.documents.test_faults import test_S0_9_S0_12_S0_15_S0_39_fault as test_fault  # noqa: F401  # run here too
from tests.documents.test_media import PNG
from tests.documents.test_operations import *  # noqa: F403  # run here too
from tests.documents.test_search import test_a_document_whose_numbers_are_used_up_is_found_and_written_as_before as test_numbers  # noqa: F401
from tests.documents.test_search import test_a_phrase_in_a_long_block_is_found_wherever_it_stands as test_phrases  # noqa: F401
from tests.documents.test_search import test_what_a_query_means as test_query  # noqa: F401
from tests.documents.test_search import test_what_changes_is_found_as_it_is as test_changes  # noqa: F401
from tests.documents.test_tasks import (  # noqa: F401  # run here too
    desk,
    test_cancel_stops_what_has_not_begun_to_write,
    test_S0_8_a_worker_that_was_cancelled_or_taken_over_changes_nothing,
    test_S0_18_an_import_has_a_receipt_of_its_own,
    test_S0_24_an_open_task_is_told_as_open_and_another_worker_ends_it,
    ws,
)

pytestmark = pytest.mark.needs("postgres")


@pytest.fixture(scope="module")
def db(url: str) -> Iterator[Database]:
    opened = Database.open(url, SCHEMAS)
    yield opened
    opened.close()


class TestService(DocumentsConformance):
    @pytest.fixture
    def make_transport(self, db: Database) -> MakeTransport:
        return lambda tenant: FaultTransport(db, tenant)


def test_a_store_is_opened_again_and_a_foreign_one_refused(url: str, db: Database) -> None:
    office = Office(db)
    node_id = office.new()
    again = Database.open(url, SCHEMAS)
    assert Office(again, office.tenant).text(node_id) == "one\n"
    again.close()
    for bad in (f"{url}_nowhere", "postgresql://127.0.0.1:1/x"):
        with pytest.raises(DbError):
            Database.open(bad, SCHEMAS)


def test_a_failing_piece_of_work_fails_alone(db: Database) -> None:
    insert = "insert into op_secret (tenant, secret) values (?, ?)"
    db.write_sync(lambda tx: tx.run(insert, "a", "100%"))
    with pytest.raises(ConstraintFailed):
        db.write_sync(lambda tx: tx.run(insert, "a", "2"))
    with pytest.raises(DbError, match="NUL"):
        db.write_sync(lambda tx: tx.run(insert, "b", "\0"))
    assert db.look(lambda tx: tx.rows("select secret from op_secret where tenant = ?", "a")) == [("100%",)]
    with pytest.raises(DbError, match="read-only"):
        db.look(lambda tx: tx.run(insert, "c", "3"))


def test_S0_9_a_commit_whose_server_went_away_is_unknown_and_the_store_goes_on(url: str, db: Database) -> None:
    office, other = Office(db), Database.open(url, SCHEMAS)
    node_id = office.new()

    def cut(tx: Tx) -> None:
        row = tx.row("select pg_backend_pid()")
        assert row
        tx.run("insert into op_secret (tenant, secret) values ('cut', 'x')")
        other.look(lambda mine: mine.rows("select pg_terminate_backend(?::int, 5000)", row[0]))

    with pytest.raises(CommitUnknown):
        db.write_sync(cut)
    other.close()
    assert office.text(node_id) == "one\n"
    assert db.look(lambda tx: tx.rows("select 1 from op_secret where tenant = 'cut'")) == []
    office.do("update", {"nodeId": node_id, "command": "append", "content": "two\n"})


def test_many_threads_append_to_one_document(db: Database) -> None:
    office = Office(db)
    node_id = office.new("D", "")
    with ThreadPoolExecutor(8) as pool:
        args = [{"nodeId": node_id, "command": "append", "content": f"line {n % 40}", "operationKey": f"k{n % 40}"} for n in range(80)]
        list(pool.map(lambda a: Office(db, office.tenant).do("update", a), args))
    lines = office.text(node_id, format="text").splitlines()
    assert sorted(lines) == sorted(f"line {n}" for n in range(40))


def test_S0_8_killed_at_any_moment_and_asked_again_on_a_server(url: str) -> None:
    killed_and_asked_again(url, "killed", 120 if os.environ.get("POLYLOOP_SOAK") else 4)


def test_commands_on_a_server(url: str) -> None:
    """Documents need no run log. What does is told so, and no password is repeated."""

    def polyloop(*words: str, args: object = None) -> tuple[int, dict[str, object]]:
        given = [*words, *(["--args", "-"] if args is not None else []), "--store", url, "--tenant", "cli", "--json"]
        done = CliRunner().invoke(app, given, input=json.dumps(args))
        return done.exit_code, json.loads(done.stdout)

    assert polyloop("docs", "call", "create", args={"title": "A", "content": "one\n"})[1]["status"] == "success"
    code, asked = polyloop("docs", "call", "delete", args={"title": "A"})
    assert code == 5
    plan = asked["error"]["details"]["planId"]  # type: ignore[index,call-overload]  # an error is an object
    assert [a["id"] for a in polyloop("approvals", "list")[1]["approvals"]] == [plan]  # type: ignore[attr-defined]  # as above
    assert polyloop("approvals", "approve", plan)[0] == 0
    assert polyloop("docs", "call", "delete", "--plan", plan, args={"title": "A"})[0] == 0
    code, told = polyloop("runs")
    assert (code, told["error"]["kind"]) == (1, "capability_unavailable")  # type: ignore[index,call-overload]  # as above
    for bad in ("postgresql://u:geheim@127.0.0.1:1/x", "mysql://u:geheim@h/x"):
        done = CliRunner().invoke(app, ["docs", "call", "list", "--args", "-", "--store", bad, "--json"], input="{}")
        assert json.loads(done.stdout)["error"]["kind"] in ("local_io", "capability_unavailable")
        assert "geheim" not in done.stdout


def test_no_id_holds_what_the_server_cannot_keep(db: Database) -> None:
    """On both kinds of store alike: it is the arguments that are wrong, not the store."""
    for op, args in (
        ("fetch", {"nodeId": "n\0"}), ("list", {"containerId": "\0"}), ("create", {"title": "x", "containerId": "a\0b"}),
        ("fetch", {"url": "doc://x/\0"}), ("update", {"nodeId": "n", "command": "delete", "blockId": "\0", "force": True}),
        ("operation_get", {"operationId": "\0"}), ("reconcile", {"operationId": "\0"}),
    ):  # fmt: skip
        assert Office(db).refused("validation", op, args)["details"]["issue"] == "format", op


def test_comments_roles_and_media_on_a_server(db: Database, tmp_path: Path) -> None:
    (tmp_path / "pixel.png").write_bytes(PNG)
    office = Office(db, folder=tmp_path)
    node = office.new("D", "one two three\n")
    comment = office.do("comment_create", {"nodeId": node, "content": "why?", "quote": "two"})["data"]["commentId"]
    office.do("update", {"nodeId": node, "command": "str_replace", "old": "one", "new": "1"})
    office.do("comment_reply", {"nodeId": node, "commentId": comment, "content": "so"})
    [told] = office.do("comment_list", {"nodeId": node})["items"]
    assert (told["anchor"]["state"], told["anchor"]["quote"], len(told["replies"])) == ("kept", "two", 1)
    resource = office.do("media_insert", {"nodeId": node, "file": "pixel.png"})["data"]["resourceId"]
    office.do("media_download", {"nodeId": node, "resourceId": resource, "output": "out.png"})
    assert (tmp_path / "out.png").read_bytes() == PNG
    office.do("access_grant", {"nodeId": node, "user": "u", "role": "READER"})
    assert office.do("search", {"query": "three"}, user="u")["count"] == 1
    office.do("delete", {"nodeId": node})
    office.do("purge", {"nodeId": node})
    for table in ("doc_item", "doc_blob", "doc_text"):
        assert db.look(lambda tx, t=table: tx.rows(f"select 1 from {t} where tenant = ?", office.tenant)) == []
