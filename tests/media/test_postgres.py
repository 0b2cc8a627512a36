"""Media over PostgreSQL: tables, leased workers, money, races and kills, so that no habit of SQLite creeps in."""

from __future__ import annotations

import itertools
import signal

import pytest
from msgspec.structs import replace

from polyloop.media import limits, tasks
from polyloop.media.worker import Worker
from tests.media.room import picture, room
from tests.media.test_batch import (  # noqa: F401  # run here too
    queued_rows,
    reference,
    states,
    test_a_cap_that_holds_the_batch_lets_it_run,
    test_a_row_of_which_nothing_is_known_or_that_is_cancelled_lets_the_next_begin,
    test_rows_that_wait_cost_no_moves,
)
from tests.media.test_complaints import (  # noqa: F401  # run here too
    test_comfyui_1977_a_cancel_stops_its_own_task_only,
    test_comfyui_mcp_panel_585_and_anything_llm_4536_the_same_wish_twenty_times_is_one_task,
)
from tests.media.test_deliveries import (  # noqa: F401  # run here too
    test_open_ai_canvas_609_a_result_without_a_node_is_recovered_as_a_new_one_free_of_charge,
    test_what_ends_while_a_node_is_deleted_is_told_when_it_comes_back,
)
from tests.media.test_generate import (  # noqa: F401  # run here too
    test_S1_36_a_file_that_cannot_be_read_again_is_no_result,
    test_S1_50_a_grant_for_ten_is_a_grant_for_ten,
    test_S1_58_approved_twice_is_once_and_a_later_rejection_is_a_conflict,
    test_S1_59_a_picture_is_complete_only_with_its_file_on_its_node,
    test_S1_67_what_is_another_s_and_what_is_not_there_look_the_same,
    test_S1_82_after_a_failure_the_same_intent_needs_a_person_whatever_the_model_or_grant,
    test_S1_87_a_stale_snapshot_makes_nothing,
    test_S1_90_a_cancelled_task_costs_nothing_and_keeps_its_node,
)
from tests.media.test_kills import SOAK, UNCERTAIN, fifty_for_ten, forked_together, outside, struck
from tests.media.test_limits import test_a_file_is_looked_at_before_the_store_is_held  # noqa: F401  # run here too
from tests.media.test_looking import test_S1_86_layers_are_new_nodes_and_the_source_stays  # noqa: F401  # run here too

pytestmark = pytest.mark.needs("postgres", "media")
TENANTS = itertools.count()


@pytest.fixture
def tenant() -> str:
    return f"t{next(TENANTS)}"


@pytest.fixture
def here(url, tenant, request):
    """As the module has it that a test comes from: only the tests of generating begin without a grant."""
    with room(url, tenant=tenant) as found:
        if request.function.__module__ != "tests.media.test_generate":
            found.grant()
        if request.function.__module__ == "tests.media.test_batch":
            reference(found)
        yield found


def test_S1_58_fifty_at_once_against_a_grant_for_ten_are_ten_on_a_server(url, tenant):
    fifty_for_ten(url, tenant)


def test_S1_81_a_kill_at_any_edge_on_a_server(url, tenant, tmp_path, monkeypatch):
    """One edge before the submission, one between it and its answer, one after; all of them in a soak."""
    from polyloop.testing.media_server import MediaServer

    monkeypatch.setattr(limits, "POLL_MS", 5)
    with MediaServer(tmp_path / "log") as server:
        for at in range(1, 40) if SOAK else (3, 7, 12):
            code, state = struck(url, outside("fal", server.url("fal")), at, server, f"{tenant}_{at}")
            assert (state == "unknown") == (at in UNCERTAIN["fal"]), at
            if code != -signal.SIGKILL:
                break


def test_S1_80_two_workers_on_a_server_carry_each_task_out_once(url, tenant, tmp_path, monkeypatch):
    from polyloop.testing.media_server import MediaServer
    from tests.media.test_kills import WISH

    monkeypatch.setattr(limits, "POLL_MS", 5)
    with MediaServer(tmp_path / "log") as server:
        found = outside("replicate", server.url("replicate"))
        with room(url, found, tenant=tenant) as here:
            here.grant("99")
            ids = [here.call("generate_media", {**WISH, "nodeId": f"n{n}", "prompt": f"w{n}"})[0]["taskId"] for n in range(6)]
            same = {"tenant": tenant, "canvas": here.canvas}

        def work() -> int:
            with room(url, found, **same) as mine:
                mine.worker.all()
            return 0

        assert forked_together([work, work]) == [0, 0]
        with room(url, found, **same) as here:
            here.worker.all()
            assert [here.call("task_get", {"taskId": i})[0]["complete"] for i in ids] == [True] * 6
            assert [kind for _, kind, _ in here.charges()] == ["reserve", "settle"] * 6
        assert len(server.submissions()) == 6


def test_rows_of_a_batch_are_under_way_as_the_plan_says_with_workers_in_many_processes(url, tenant):
    from polyloop.testing.media_provider import ScriptedProvider, red

    with room(url, tenant=tenant) as here:
        here.grant()
        reference(here)
        ids, same = queued_rows(here, 12, 5), {"tenant": tenant, "canvas": here.canvas}

    def work() -> int:
        with room(url, **same) as mine:
            most, provider = 0, ScriptedProvider(fetch=[red()])  # who fetches may not be who has submitted
            plain = provider.submit

            def counted(asked):
                nonlocal most
                most = max(most, states(mine, ids).count("running"))
                return plain(asked)

            provider.submit = counted
            worker = Worker(mine.db, replace(mine.worker.means, providers={"studio": provider}))
            while mine.db.look(tasks.tasks.next_due, tenant, tasks.KINDS) < tasks.WAITING:
                if worker.one() is None:
                    worker.means.pause(0.005)
            return most

    assert 1 <= max(forked_together([work] * 6)) <= 5
    with room(url, **same) as here:
        assert states(here, ids) == ["succeeded"] * 12


def test_S1_67_text_no_server_can_keep_is_a_wrong_argument(here):
    calls = [("task_get", {"taskId": "t\0"}), ("generate_media", picture("n\0")), ("generate_media", picture(prompt="a\0b")),
             ("generate_media", picture(title="a\0b")), ("generate_media", picture(snapshotHash="a\0b")), ("generate_media", picture(quality="a\0b")),
             ("upload", {"nodeId": "n", "title": "a\0b", "file": "AAAA"}),
             ("image_annotation_render", {"nodeId": "n", "annotations": [{"label": "a\0b", "x": 0, "y": 0}]})]  # fmt: skip
    for tool, args in calls:
        told, code = here.call(tool, args)
        assert (code, told["error"]["kind"], told["error"]["details"]["issue"]) == (2, "validation", "format"), (tool, told)
