"""A batch plan run by a person: one approval over the list, so many at a time, a result for each row."""

from __future__ import annotations

import pytest

from polyloop.media import limits
from tests.media.room import picture, room

pytestmark = pytest.mark.needs("media")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "POLL_MS", 1)
    with room(tmp_path) as found:
        found.grant("1")
        found.call("generate_media", picture("ref", "a coat"))
        found.worker.all()
        yield found


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
    from polyloop.media import tasks

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


def test_a_plan_that_has_changed_since_the_approval_is_not_run(here):
    _table(here, ["in red"])
    plan = here.call("batch_run", RUN)[0]["error"]["details"]["planId"]
    here.decide(plan)
    hash_ = here.board("canvas_read_batch_table", {"nodeId": "t", "offset": 0})["snapshotHash"]
    here.board("canvas_edit_batch_table", {"snapshotHash": hash_, "nodeId": "t", "action": "set_global_prompt", "globalPrompt": "on the moon"})
    before = here.count("task")
    told, code = here.call("batch_run", RUN, plan_id=plan)
    assert (code, told["error"]["details"]["planId"] != plan, here.count("task")) == (5, True, before)
