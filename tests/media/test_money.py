"""Grants and accounts from the outside: what is no limit, whose grant is shown, and that two books never differ."""

from __future__ import annotations

import pytest

from polyloop.app.media import SCHEMAS, granted
from polyloop.app.request_file import SpendTable
from polyloop.db import Database
from polyloop.gateway import accounts
from tests.media.room import Clock, picture, played, room

pytestmark = pytest.mark.needs("media")


@pytest.mark.parametrize("seconds", ["inf", "nan", "-inf"])
def test_a_limit_that_is_none_is_refused_and_the_canvas_goes_on(cli, seconds):
    canvas = cli("canvas", "new", "--title", "t")[0]["canvasId"]
    told, code = cli("spend", "grant", "--canvas", canvas, "--credits", "2", f"--max-seconds={seconds}")
    assert code == 2, told
    with pytest.raises(ValueError, match="max_seconds"):
        SpendTable(credits=2, max_seconds=float(seconds))
    nothing = {"held": "0", "spent": "0", "tasksUsed": 0}
    assert cli("spend", "show", "--canvas", canvas) == ({"grants": [], "approved": nothing, "total": nothing}, 0)


def test_a_grant_for_a_canvas_that_is_not_there_is_not_given(cli):
    told, code = cli("spend", "grant", "--canvas", "nope", "--credits", "2")
    assert (code, told["error"]["kind"]) == (2, "not_found")


def test_what_a_run_was_given_is_shown_under_its_id(cli, tmp_path):
    cli("canvas", "new", "--title", "t")
    cli("spend", "grant", "--session", "r1", "--credits", "3")
    db = Database.open(str(next(tmp_path.rglob("*.db"))), SCHEMAS)
    db.write_sync(granted, "local", "r1", '{"credits":2}')
    db.close()
    shown, code = cli("spend", "show", "--session", "r1")
    assert (code, sorted(g["credits"] for g in shown["grants"])) == (0, ["2", "3"])


def test_what_a_task_has_cost_is_not_said_at_the_gateway(cli, tmp_path):
    canvas = cli("canvas", "new", "--title", "t")[0]["canvasId"]
    cli("spend", "grant", "--canvas", canvas, "--credits", "2")
    ticket, _ = cli("canvas", "call", "generate_media", "--canvas", canvas, "--args", "-", given=picture())
    [held] = cli("gateway", "held")[0]["held"]
    told, code = cli("gateway", "settle", held["callId"], "--spent", "7")
    assert (code, told["error"]["kind"], held["amount"]) == (7, "conflict", "1")
    assert cli("gateway", "held")[0]["held"] == [held]
    cli("canvas", "work")
    done, code = cli("canvas", "call", "task_get", "--canvas", canvas, "--args", "-", given={"taskId": ticket["taskId"]})
    assert (code, done["billing"]["state"]) == (0, "settled")


def test_accounts_that_say_otherwise_stop_the_charge_and_no_other_task(tmp_path):
    from polyloop.testing.media_provider import ScriptedProvider

    with room(tmp_path) as here:
        here.grant()
        first, _ = here.call("generate_media", picture("a", "one"))
        here.db.write_sync(accounts.close, "local", first["billing"]["orderId"], 7_000_000, 2**53)  # as an older version let it happen
        second, _ = here.call("generate_media", picture("b", "two"))
        played(here, ScriptedProvider(), Clock()).all()
        told, _ = here.call("task_get", {"taskId": first["taskId"]})
        assert (told["state"], told["billing"]["state"], told["error"]["kind"]) == ("running", "reserved", "conflict")
        assert here.call("task_get", {"taskId": second["taskId"]})[0]["complete"] is True
        kept = here.db.look(accounts.charge, "local", first["billing"]["orderId"])
        assert kept is not None
        assert kept.amount_micro == 7_000_000


def used(held: str, spent: str, tasks: int) -> dict[str, object]:
    return {"held": held, "spent": spent, "tasksUsed": tasks}


def test_what_was_paid_by_approval_is_shown_and_the_canvas_has_a_sum(cli):
    canvas, other = (cli("canvas", "new", "--title", t)[0]["canvasId"] for t in "ab")

    def wish(node: str, *more: str, on: str = canvas):
        return cli("canvas", "call", "generate_media", "--canvas", on, "--args", "-", *more, given=picture(node, f"wish {node}"))

    wish("p1", "--yes")
    cli("spend", "grant", "--canvas", canvas, "--credits", "1")
    wish("p2")
    wish("p3", "--yes")
    wish("q1", "--yes", on=other)
    shown, _ = cli("spend", "show", "--canvas", canvas)
    assert (shown["approved"], shown["total"], shown["grants"][0]["held"]) == (used("2", "0", 2), used("3", "0", 3), "1")
    cli("canvas", "work")
    shown, _ = cli("spend", "show", "--canvas", canvas)
    assert (shown["approved"], shown["total"], shown["grants"][0]["spent"]) == (used("0", "2", 2), used("0", "3", 3), "1")
    assert cli("spend", "show", "--canvas", other)[0]["total"] == used("0", "1", 1)
    everything, _ = cli("spend", "show", "--session", "nobody")
    assert everything["total"] == used("0", "0", 0)


def test_what_was_refunded_is_in_no_sum_and_a_session_has_its_own(tmp_path):
    from polyloop.app.media import spent

    with room(tmp_path) as here:
        here.grant("5")
        one, two = (here.call("generate_media", picture(node, node))[0]["taskId"] for node in ("a", "b"))
        here.call("task_cancel", {"taskId": one})
        found = spent(here.db, here.tenant, ("canvas", here.canvas), "local")
        assert (found.total.held_micro, found.total.tasks, found.approved.tasks) == (1_000_000, 1, 0)
        here.db.write_sync(lambda tx: tx.run("update task set session = 's1' where id = ?", two))
        assert spent(here.db, here.tenant, ("session", "s1"), "local").total == found.total
        assert spent(here.db, here.tenant, ("session", "s2"), "local").total.tasks == 0
