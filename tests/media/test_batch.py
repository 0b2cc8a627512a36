"""A batch plan run by a person: one approval over the list, so many at a time, a result for each row."""

from __future__ import annotations

from typing import Any

import pytest

from polyloop.media import limits, tasks
from polyloop.media.provider import Found, Job
from tests.media.room import Clock, picture, played, room

pytestmark = pytest.mark.needs("media")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "POLL_MS", 1)
    with room(tmp_path) as found:
        found.grant("1")
        reference(found)
        yield found


def reference(here) -> None:
    here.call("generate_media", picture("ref", "a coat"))
    here.worker.all()


def _table(here, prompts: list[str], concurrency: int = 1) -> None:
    here.board("canvas_list_node_types")
    state = here.board("canvas_get_state")["snapshotHash"]
    here.board("canvas_apply_ops", {"snapshotHash": state, "ops": [{"type": "add_node", "id": "t", "nodeType": "batch-table", "title": "coats"}]})

    def edit(**more):
        hash_ = here.board("canvas_read_batch_table", {"nodeId": "t", "offset": 0})["snapshotHash"]
        here.board("canvas_edit_batch_table", {"snapshotHash": hash_, "nodeId": "t", **more})

    edit(action="set_operation", operation="creative")
    edit(action="set_concurrency", concurrency=concurrency)
    for prompt in prompts:
        edit(action="append", patch={"enabled": True, "prompt": prompt, "inputNodeIds": ["ref"]})


RUN = {"nodeId": "t", "logicalModelId": "studio-image", "size": "512x512"}


def test_one_approval_with_the_whole_price_and_a_result_for_every_row(here):
    _table(here, ["in red", "in blue", "in green"])
    told, code = here.call("batch_run", RUN)
    plan = told["error"]["details"]["plan"]
    assert (code, plan["resolved"]["credits"], len(plan["resolved"]["rows"])) == (5, "3", 3)
    before = here.count("task")
    done, code = here.call("batch_run", RUN, approved_by="person")
    assert (code, len(done["data"]["taskIds"])) == (0, 3)
    assert here.count("task") - before == 3
    most, moves = 0, 0
    while here.worker.one() is not None or moves < 40:
        moves += 1
        live = here.db.look(lambda tx: [b for t in tasks.tasks.live(tx, "local", tasks.KINDS) if (b := tasks.body_of(t)).submission])
        most = max(most, len(live))
        if moves > 200:
            break
    assert most == 1
    states = [here.call("task_get", {"taskId": t})[0] for t in done["data"]["taskIds"]]
    assert [(t["complete"], t["billing"]["state"], t["billing"]["credits"]) for t in states] == [(True, "settled", "1")] * 3
    rows = here.board("canvas_read_batch_table", {"nodeId": "t", "offset": 0})["batchTable"]["rows"]
    assert [row["outputNodeId"] for row in rows] == [t["nodeId"] for t in states]
    spent = [amount for _, kind, amount in here.charges() if kind == "settle"]
    assert sum(spent) == 4_000_000


def test_a_row_that_cannot_be_run_stops_the_whole_plan_before_anything_is_paid(here):
    _table(here, ["in red", " "])
    before = (here.count("task"), here.count("spend_charge"))
    told, code = here.call("batch_run", RUN, approved_by="person")
    assert (code, told["error"]["details"]["problems"][0]["field"]) == (2, "rows[1].prompt")
    assert (here.count("task"), here.count("spend_charge")) == before
    assert here.call("batch_run", {**RUN, "nodeId": "ref"}, approved_by="person")[0]["error"]["details"]["issue"] == "not_batch"


def _hold(here) -> tuple[Any, ...]:
    """What a second payment would change."""
    rows = here.board("canvas_read_batch_table", {"nodeId": "t", "offset": 0})["batchTable"]["rows"]
    return here.count("task"), here.charges(), [row.get("outputNodeId", "") for row in rows]


@pytest.mark.parametrize("ended", [False, True], ids=["alive", "done"])
def test_S1_81_a_plan_that_was_run_is_not_paid_for_again(here, ended):
    here.grant("100")
    _table(here, ["in red", "in blue", "in red"])  # two that are alike are two pictures
    plan = here.call("batch_run", RUN)[0]["error"]["details"]["planId"]
    here.decide(plan)
    first, code = here.call("batch_run", RUN, plan_id=plan)
    assert (code, len(set(first["data"]["taskIds"]))) == (0, 3)
    if ended:
        here.worker.all()
    before = _hold(here)
    for again in ({"plan_id": plan}, {"approved_by": "person"}, {}, {"approved_by": "person", "key": "k1"}):
        told, code = here.call("batch_run", RUN, **again)
        assert (code, told) == (0, first), again
    assert _hold(here) == before


def test_S1_81_of_a_plan_that_has_grown_the_new_row_alone_is_paid_for(here):
    here.grant("100")
    _table(here, ["in red", "in blue"])
    first = here.call("batch_run", RUN, approved_by="person")[0]["data"]
    here.call("task_cancel", {"taskId": first["taskIds"][1]})
    hash_ = here.board("canvas_read_batch_table", {"nodeId": "t", "offset": 0})["snapshotHash"]
    row = {"enabled": True, "prompt": "in green", "inputNodeIds": ["ref"]}
    here.board("canvas_edit_batch_table", {"snapshotHash": hash_, "nodeId": "t", "action": "append", "patch": row})
    tasks_before, _, outputs = _hold(here)
    told, code = here.call("batch_run", RUN)
    shown = told["error"]["details"]["plan"]["resolved"]
    assert (code, shown["credits"], [r["credits"] for r in shown["rows"]]) == (5, "2", ["0", "1", "1"])
    assert shown["rows"][0]["taskId"] == first["taskIds"][0]
    done, code = here.call("batch_run", RUN, approved_by="person")
    assert (code, [r["existing"] for r in done["data"]["rows"]]) == (0, [True, False, False])
    tasks_now, _, outputs_now = _hold(here)
    assert (tasks_now - tasks_before, outputs_now[0]) == (2, outputs[0])
    before = _hold(here)
    told, code = here.call("batch_run", RUN, approved_by="person")  # every row is known, of two operations
    assert (code, told["data"]["taskIds"], told["data"]["state"]) == (0, done["data"]["taskIds"], "existing")
    assert (_hold(here)[0], _hold(here)[2]) == (before[0], before[2])


def test_S1_58_a_used_approval_stands_for_what_was_done_with_it(here):
    """Also where that has failed: another yes is for another plan."""
    from polyloop.testing.media_provider import ScriptedProvider

    wish = {**picture("p9", "a hat"), "size": "2048x2048"}
    plan = here.call("generate_media", wish)[0]["error"]["details"]["planId"]
    here.decide(plan)
    first = here.call("generate_media", wish, plan_id=plan)[0]
    played(here, ScriptedProvider(poll=[Found("failed", error="no")])).all()
    told, _ = here.call("generate_media", wish, plan_id=plan)
    assert (told["taskId"], told["state"]) == (first["taskId"], "failed")


def test_a_plan_that_has_changed_since_the_approval_is_not_run(here):
    _table(here, ["in red"])
    plan = here.call("batch_run", RUN)[0]["error"]["details"]["planId"]
    here.decide(plan)
    hash_ = here.board("canvas_read_batch_table", {"nodeId": "t", "offset": 0})["snapshotHash"]
    here.board("canvas_edit_batch_table", {"snapshotHash": hash_, "nodeId": "t", "action": "set_global_prompt", "globalPrompt": "on the moon"})
    before = here.count("task")
    told, code = here.call("batch_run", RUN, plan_id=plan)
    assert (code, told["error"]["details"]["planId"] != plan, here.count("task")) == (5, True, before)


def queued_rows(here, rows: int, concurrency: int) -> list[str]:
    _table(here, [f"in colour {n}" for n in range(rows)], concurrency)
    done, code = here.call("batch_run", RUN, approved_by="person")
    assert code == 0
    return done["data"]["taskIds"]


def states(here, ids: list[str]) -> list[str]:
    return [here.db.look(tasks.tasks.find, here.tenant, task_id).state for task_id in ids]


@pytest.mark.parametrize(("rows", "concurrency"), [(6, 1), (12, 5), (12, 10)])
def test_so_many_rows_are_under_way_as_the_plan_says_however_many_workers_there_are(here, rows, concurrency):
    from polyloop.testing.media_provider import DONE, ScriptedProvider

    ids = queued_rows(here, rows, concurrency)
    polled: dict[str, int] = {}

    def third(job):
        polled[job.request_id] = polled.get(job.request_id, 0) + 1
        return DONE if polled[job.request_id] > 2 else Found("running")

    provider, clock = ScriptedProvider(poll=[third]), Clock()
    workers, most = [played(here, provider, clock) for _ in range(3)], 0
    for _ in range(40 * rows):
        taken = [(w, w.db.write_sync(tasks.tasks.take, here.tenant, tasks.KINDS, clock.now, clock.now + 1000)) for w in workers]
        for worker, task in taken:  # all have taken before any submits
            if task is not None:
                worker._move(task, tasks.body_of(task))
        most = max(most, states(here, ids).count("running"))
        clock.now += limits.POLL_MS
        if set(states(here, ids)) == {"succeeded"}:
            break
    assert set(states(here, ids)) == {"succeeded"}
    assert most == concurrency
    assert provider.count("submit") == rows


def test_rows_that_wait_cost_no_moves(here):
    from polyloop.testing.media_provider import ScriptedProvider

    ids = queued_rows(here, 20, 1)
    clock = Clock()
    start = clock.now
    assert played(here, ScriptedProvider(), clock).all() == 2 * len(ids)
    assert (set(states(here, ids)), clock.now) == ({"succeeded"}, start)


def test_a_row_of_which_nothing_is_known_or_that_is_cancelled_lets_the_next_begin(here):
    from polyloop.testing.media_provider import LOST, ScriptedProvider

    ids = queued_rows(here, 4, 1)
    assert here.call("task_cancel", {"taskId": ids[2]})[1] == 0  # it waits, and frees nobody's place
    assert here.call("task_cancel", {"taskId": ids[0]})[1] == 0
    provider = ScriptedProvider(submit=[LOST, lambda work: Job(work.id)])
    played(here, provider).all()
    assert states(here, ids) == ["cancelled", "unknown", "cancelled", "succeeded"]


def test_a_cap_that_holds_the_batch_lets_it_run(here):
    from msgspec.structs import replace

    from polyloop.gateway.accounts import Accounts
    from polyloop.gateway.settings import Caps

    _table(here, ["in red", "in blue", "in green"])
    for cap, code in (("3", 8), ("4", 0)):  # the reference has cost 1
        here.media.rooms = replace(here.media.rooms, purse=Accounts(Caps(tenant=cap)))
        assert here.call("batch_run", RUN, approved_by="person")[1] == code


def test_a_row_that_was_woken_and_taken_is_not_woken_again(here):
    """Two that end at once may both mean to wake the same one."""
    ids, now = queued_rows(here, 2, 1), Clock().now
    assert here.db.write_sync(tasks.tasks.wake, here.tenant, ids[1], tasks.WAITING, now) is True
    taken = here.db.write_sync(tasks.tasks.take, here.tenant, tasks.KINDS, now, now + 1000, ids[1])
    assert here.db.write_sync(tasks.tasks.wake, here.tenant, ids[1], tasks.WAITING, now) is False
    assert here.db.look(tasks.tasks.find, here.tenant, ids[1]) == taken
