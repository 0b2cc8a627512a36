"""What users of other canvases have complained of, each with the thread it stands in: it does not happen here.

Rows that concern the board alone (a stale tab, cut texts, missing arguments, a second tab): `tests/canvas/test_complaints.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys

import pytest
from msgspec.structs import replace

from polyloop.media import limits
from polyloop.media.provider import Found
from polyloop.media.worker import Worker
from tests.media.room import Clock, picture, played, room
from tests.media.test_kills import WISH, forked, outside
from tests.media.test_runs import FIRST, lay, line
from tests.outside import command

pytestmark = pytest.mark.needs("media")


@pytest.fixture
def here(tmp_path):
    with room(tmp_path) as found:
        found.grant()
        yield found


def _node_gone(here, node: str) -> None:
    here.db.write_sync(lambda tx: tx.run("delete from canvas_node where id = ?", node))


def test_open_ai_canvas_609_a_result_without_a_node_is_kept_and_told_apart_from_its_delivery(here):
    ticket, _ = here.call("generate_media", picture())
    _node_gone(here, "p1")
    here.worker.all()
    told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
    assert (told["state"], told["complete"], told["billing"]["state"]) == ("succeeded", True, "settled")
    assert told["writeback"] == {"outcome": "not_applied", "reason": "node_gone", "nodeId": "p1"}


def test_open_ai_canvas_58_a_second_result_never_covers_the_first(here):
    here.call("generate_media", picture("p1"))
    here.worker.all()
    first = here.node("p1")["asset"]["assetId"]
    here.call("generate_media", picture("p2", "another"))
    here.worker.all()
    assert here.node("p1")["asset"]["assetId"] == first
    assert here.node("p2")["asset"]["assetId"] != first


def test_open_ai_canvas_494_nothing_is_given_along_that_was_not_in_the_plan(here):
    here.call("generate_media", picture("p1"))
    here.worker.all()
    ticket, _ = here.call("generate_media", picture("p2", "again", referenceNodeIds=["p1"]))
    other, _ = here.call("generate_media", picture("p3", "again, alone"))
    from polyloop.media import tasks

    def given(task_id: str):
        return here.db.look(lambda tx: tasks.find(tx, "local", "local", here.canvas, task_id)[1].spec.references)

    assert given(ticket["taskId"]) == (here.node("p1")["asset"]["assetId"].removeprefix("sha256:"),)
    assert given(other["taskId"]) == ()


def test_open_ai_canvas_586_a_step_that_takes_longer_than_its_lease_is_not_submitted_again(tmp_path, monkeypatch):
    from polyloop.testing.media_server import MediaServer

    monkeypatch.setattr(limits, "POLL_MS", 5)
    with MediaServer(tmp_path / "log") as server, room(tmp_path, outside("replicate", server.url("replicate"))) as here:
        here.grant("9")
        ticket, _ = here.call("generate_media", WISH)
        clock = Clock()
        means = replace(here.worker.means, now_ms=clock, pause=clock.pause)
        first, second = Worker(here.db, means), Worker(here.db, means)
        provider, taken = means.providers["x"], []
        submit = provider.submit

        def late(work):
            clock.now += limits.LEASE_MS + 1
            taken.append(second.one())  # another worker takes the task while this one is still waiting for its answer
            return submit(work)

        provider.submit = late
        first.one()
        assert taken[0] is not None
        first.all()
        second.all()
        assert len(server.submissions()) == 1
        told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
        assert (told["state"], told["billing"]["state"]) == ("unknown", "uncertain")


def test_open_ai_canvas_135_whoever_leaves_cancels_nothing(tmp_path):
    with room(tmp_path) as here:
        here.grant()
        ticket, _ = here.call("generate_media", picture())
        canvas = here.canvas
    with room(tmp_path, canvas=canvas) as later:
        later.worker.all()
        assert later.call("task_get", {"taskId": ticket["taskId"]})[0]["complete"]


def test_open_ai_canvas_423_a_task_names_its_node_and_the_node_its_task(here):
    ticket, _ = here.call("generate_media", picture())
    assert here.node("p1")["generation"]["taskId"] == ticket["taskId"]
    assert here.call("task_get", {"taskId": ticket["taskId"]})[0]["nodeId"] == "p1"


def test_open_ai_canvas_359_node_and_task_are_made_together_or_not_at_all(here, monkeypatch):
    from polyloop.media import tasks

    def broken(*_):
        from polyloop.contract.problem import problem

        raise problem("local_io", "no room", execution_started=False)

    monkeypatch.setattr(tasks, "add", broken)
    assert here.call("generate_media", picture())[1] != 10
    assert (here.count("canvas_node"), here.count("task")) == (0, 0)
    assert [kind for _, kind, _ in here.charges()][-1:] in ([], ["refund"])


def test_infinite_canvas_71_a_result_is_kept_before_it_is_called_done(here):
    ticket, _ = here.call("generate_media", picture())
    here.worker.all()
    told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
    kept = here.db.look(lambda tx: tx.row("select count(*) from media_asset where sha256 = ?", told["result"]["asset"]["assetId"][7:]))
    assert kept == (1,)


def test_nomi_723_the_ticket_names_the_node_that_is_there(here):
    ticket, _ = here.call("generate_media", picture("made"))
    assert here.node(ticket["nodeId"])["id"] == "made"


def test_comfyui_mcp_2507_an_unknown_id_is_not_done(here):
    told, code = here.call("task_get", {"taskId": "task_nobody_knows"})
    assert (code, told["error"]["kind"]) == (2, "not_found")


def test_comfyui_mcp_panel_585_and_anything_llm_4536_the_same_wish_twenty_times_is_one_task(here):
    tickets = {here.call("generate_media", picture(f"n{n}"))[0]["taskId"] for n in range(20)}
    assert (len(tickets), here.count("task"), len(here.charges())) == (1, 1, 1)


def test_comfyui_mcp_panel_1213_and_comfyui_2566_tasks_outlive_every_process(tmp_path):
    from polyloop.testing.media_provider import ScriptedProvider

    with room(tmp_path) as here:
        here.grant()
        canvas, ids = here.canvas, [here.call("generate_media", picture(f"n{n}", f"w{n}"))[0]["taskId"] for n in range(3)]
        played(here, ScriptedProvider(poll=[Found("running")])).one(ids[0])  # one is at its provider already
    provider = ScriptedProvider()
    with room(tmp_path, canvas=canvas) as later:
        assert [later.call("task_get", {"taskId": i})[0]["state"] for i in ids] == ["running", "queued", "queued"]
        played(later, provider).all()
        assert [later.call("task_get", {"taskId": i})[0]["complete"] for i in ids] == [True] * 3
    assert [work.id for verb, work in provider.seen if verb == "submit"] == ids[1:]


def test_comfyui_1977_a_cancel_stops_its_own_task_only(here):
    one, two = (here.call("generate_media", picture(f"n{n}", f"w{n}"))[0]["taskId"] for n in range(2))
    here.call("task_cancel", {"taskId": one})
    here.worker.all()
    assert [here.call("task_get", {"taskId": i})[0]["state"] for i in (one, two)] == ["cancelled", "succeeded"]


def test_invokeai_8379_no_queued_task_is_dropped(here):
    ids = [here.call("generate_media", picture(f"n{n}", f"w{n}", size="512x512"))[0]["taskId"] for n in range(8)]
    here.worker.all()
    assert [here.call("task_get", {"taskId": i})[0]["complete"] for i in ids] == [True] * 8


def test_xagent_2513_and_lionagi_2393_a_request_of_unknown_outcome_is_never_sent_again(tmp_path, monkeypatch):
    from polyloop.testing.media_server import MediaServer

    monkeypatch.setattr(limits, "POLL_MS", 5)
    monkeypatch.setattr(limits, "ASK_AGAIN_MS", 1)
    with MediaServer(tmp_path / "log", ["drop_reply"]) as server, room(tmp_path, outside("fal", server.url("fal"))) as here:
        here.grant("9")
        here.call("generate_media", WISH)
        for _ in range(5):
            here.worker.one()
        assert len(server.submissions()) == 1


def test_agent_framework_7570_an_expired_question_is_not_put_again(tmp_path, monkeypatch):
    with room(tmp_path) as here:
        here.call("generate_media", picture())
        late = here.media._now_ms() + 31 * 60 * 1000
        monkeypatch.setattr(here.media, "_now_ms", lambda: late)
        assert [a.state for a in asyncio.run(here.media.approvals())] == ["expired"]


def test_cursor_talk_to_figma_70_a_failure_is_not_called_a_person_s_cancel(here):
    class Broken:
        synthetic = True

        def submit(self, work):
            from polyloop.contract.problem import problem

            raise problem("task_failed", f"process {os.getpid()} has no paint", execution_started=False)

    here.worker.means = replace(here.worker.means, providers={"studio": Broken()})
    ticket, _ = here.call("generate_media", picture())
    here.worker.all()
    told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
    assert (told["state"], "no paint" in told["error"]["message"]) == ("failed", True)


def test_infinite_canvas_202_a_prompt_node_is_used_again_and_never_copied(here):
    here.board("canvas_list_node_types")
    state = here.board("canvas_get_state")["snapshotHash"]
    here.board("canvas_apply_ops", {"snapshotHash": state, "ops": [{"type": "add_node", "id": "t", "nodeType": "text", "content": "a river"}]})
    for n in range(3):
        here.call("generate_media", picture(f"n{n}", f"a river, {n}", sourceNodeId="t"))
    found = here.board("canvas_get_state")
    assert [n["id"] for n in found["nodes"]] == ["t", "n0", "n1", "n2"]
    assert [(e["fromNodeId"], e["toNodeId"]) for e in found["connections"]] == [("t", f"n{n}") for n in range(3)]


def test_invokeai_4764_the_canvas_stays_open_when_all_that_waited_was_cancelled(here):
    ids = [here.call("generate_media", picture(f"n{n}", f"w{n}"))[0]["taskId"] for n in range(3)]
    assert [here.call("task_cancel", {"taskId": i})[1] for i in ids] == [0, 0, 0]
    assert here.worker.all() == 0
    state = here.board("canvas_get_state")["snapshotHash"]
    here.board("canvas_apply_ops", {"snapshotHash": state, "ops": [{"type": "update_node", "id": "n0", "patch": {"title": "still mine"}}]})
    ticket, _ = here.call("generate_media", picture("n9", "w9"))
    here.worker.all()
    assert here.call("task_get", {"taskId": ticket["taskId"]})[0]["complete"]


def test_open_design_1412_what_nobody_cancelled_is_not_told_as_a_person_s_doing(tmp_path, monkeypatch):
    """A provider that refuses, fails late, never answers or stops by itself, and a person who cancels: each in its own words."""
    from polyloop.testing.media_server import MediaServer

    monkeypatch.setattr(limits, "POLL_MS", 5)
    ends = {"refuse": "failed", "fail_late": "failed", "drop_reply": "unknown", "stopped": "cancelled", "stuck": "cancelled"}
    with MediaServer(tmp_path / "log", list(ends)) as server, room(tmp_path, outside("replicate", server.url("replicate"))) as here:
        here.grant("99")
        for n, (fault, state) in enumerate(ends.items()):
            task = here.call("generate_media", {**WISH, "nodeId": f"n{n}", "prompt": fault})[0]["taskId"]
            here.worker.one()
            if fault == "stuck":
                here.call("task_cancel", {"taskId": task})
            here.worker.all()
            told, _ = here.call("task_get", {"taskId": task})
            source = {"stopped": "provider", "stuck": "person"}.get(fault)
            assert (told["state"], told.get("cancellationSource")) == (state, source), fault


def test_curie_412_a_question_whose_time_is_over_strands_no_run(tmp_path):
    """The call was not carried out, the model is told so, and the run goes on; nothing was spent."""
    lay(tmp_path, spend="")
    (tmp_path / "replies.jsonl").write_text("".join([*FIRST, line("submit", summary="not made")]))
    waits = command(tmp_path, "run", "r.toml", "--store", "s.db", "--json").said
    assert waits["waiting"]["kind"] == "approval"

    def later(*words: str):
        """A command, half an hour and a minute from now."""
        out = tmp_path / "out"

        def work() -> int:
            from polyloop.cli.main import main
            from polyloop.clock import SystemClock

            now = SystemClock.now_ms
            SystemClock.now_ms = lambda self: now(self) + 31 * 60 * 1000
            os.chdir(tmp_path)
            sys.stdout, sys.argv = out.open("w"), ["polyloop", *words, "--store", "s.db", "--json"]
            with contextlib.suppress(SystemExit):
                main()
            return 0

        assert forked(work) == 0
        return json.loads(out.read_text())

    told = later("resume", "r1")
    assert (told["ended"], told["reason"]) == (True, "completed")
    assert "没有执行（等待批准的时间已过）" in told["finalAnswer"]
    assert "not_executed" in command(tmp_path, "log", "r1", "--jsonl", "--store", "s.db").out
    assert [a["state"] for a in later("approvals", "list")["approvals"] if a["state"] in ("pending", "requested")] == []
