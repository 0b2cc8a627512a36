"""Real workers, real kills: what becomes of calls, and that nothing is left of those that were cancelled."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path
from typing import Any

import pytest

from polyloop.kernel.seams import Deferred, Outcome
from polyloop.toolbox.actions import ToolActions
from polyloop.toolbox.worker import WorkerPool
from tests.toolbox import zoo
from tests.toolbox.bench import ALL, action, alive, appear, pids, run, text


def execute(tool: str, **args: Any) -> Any:
    return run(lambda actions: actions.execute(action(tool, **args)))


def test_arguments_and_context_reach_the_worker(tmp_path: Path) -> None:
    async def body(actions: ToolActions) -> None:
        shown = await actions.execute(action("shapes", point={"x": 1}, rows=[{"x": 2, "note": "\u4e2d\ud800"}], limit=10**30))
        assert '"point":"Point(x=1, y=0.5)"' in text(shown)
        assert "\u4e2d\ud800" in text(shown)
        assert text(await actions.execute(action("whoami", key="abc"))) == '["abc","r",0,false]'
        assert text(await actions.execute(action("where"))).endswith(f'"{tmp_path}"]')

    run(body, tmp_path)


def test_a_worker_is_warm_and_serves_one_call_at_a_time() -> None:
    async def in_turn(actions: ToolActions) -> list[str]:
        return [text(await actions.execute(action("where"))) for _ in range(3)]

    assert len(set(run(in_turn))) == 1

    async def at_once(actions: ToolActions) -> set[str]:
        return {text(o) for o in await asyncio.gather(*(actions.execute(action("where")) for _ in range(3)))}

    assert len(run(at_once)) == 3


def test_a_pool_never_holds_more_workers_than_its_size(tmp_path: Path) -> None:
    async def main() -> None:
        pool = WorkerPool(2)
        homes = [ToolActions(ALL, tmp_path / name, pool) for name in "abc"]
        for name in "abc":
            (tmp_path / name).mkdir()
        outcomes = await asyncio.gather(*(actions.execute(action("where")) for _ in range(4) for actions in homes))
        assert [o.status for o in outcomes if isinstance(o, Outcome)] == ["ok"] * 12
        assert len(pool.groups()) <= 2 * 2
        await homes[0].aclose()
        assert pool.groups() != (), "a shared pool belongs to whoever made it"
        await pool.aclose()
        assert pool.groups() == ()

    asyncio.run(main())


@pytest.mark.parametrize("how", ["exit", "kill", "segfault", "thread"])
def test_a_worker_that_dies_is_unknown_for_a_write_and_the_next_call_gets_a_fresh_one(how: str) -> None:
    async def body(actions: ToolActions) -> None:
        written, read = await actions.execute(action("die", how=how)), await actions.execute(action("die_reading", how=how))
        assert isinstance(written, Outcome)
        assert isinstance(read, Outcome)
        assert (written.status, read.status, written.code) == ("unknown", "error", "worker_died")
        assert {"exit": "exit code 3", "kill": "signal 9", "segfault": "signal 11", "thread": "exit code 4"}[how] in text(written)
        assert "so far" in text(written)
        assert text(await actions.execute(action("plain", text="next"))) == "next"

    run(body)


@pytest.mark.parametrize("what", ["garbage", "\x00" * 7 + "\x02{}", "\x00" * 8])
def test_a_worker_that_answers_nonsense_is_ended(what: str) -> None:
    async def body(actions: ToolActions) -> None:
        outcome = await actions.execute(action("garble", what=what))
        assert (outcome.status, outcome.code) == ("unknown", "worker_died")  # type: ignore[union-attr]  # an outcome
        assert actions.groups() == ()
        assert text(await actions.execute(action("plain", text="fresh"))) == "fresh"

    run(body)


@pytest.mark.parametrize("tool", ["throw", "throw_async", "throw_in_thread"])
def test_whatever_a_tool_raises_is_an_outcome(tool: str) -> None:
    """S2.22: also a cancellation nobody asked for, and exceptions that usually end a program."""

    async def body(actions: ToolActions) -> None:
        for name in zoo.EXCEPTIONS:
            outcome = await actions.execute(action(tool, name=name))
            assert isinstance(outcome, Outcome)
            assert outcome.status == ("unknown" if name == "unknown" else "error"), name
        assert len(actions.groups()) == (2 if tool == "throw" else 0), "none of them ended the worker"

    run(body)


def test_returns_of_every_kind() -> None:
    async def body(actions: ToolActions) -> None:
        statuses = {}
        for what in (
            "none",
            "text",
            "bytes",
            "raw",
            "tuple",
            "date",
            "point",
            "surrogate",
            "big",
            "outcome",
            "broken",
            "nan",
            "keys",
            "object",
            "deferred",
        ):
            outcome = await actions.execute(action("give", what=what))
            assert isinstance(outcome, Outcome)
            statuses[what] = (outcome.status, outcome.code)
        odd = {k: v for k, v in statuses.items() if v != ("ok", "")}
        gone = ("error", "unserialisable")
        assert odd == {
            "outcome": ("error", "mine"),
            "broken": gone,
            "nan": gone,
            "keys": gone,
            "object": gone,
            "deferred": ("error", "undeclared_deferral"),
        }
        assert (await actions.execute(action("give_object"))).status == "ok"  # type: ignore[union-attr]  # an outcome
        assert (await actions.execute(action("defer_undeclared"))).status == "unknown"  # type: ignore[union-attr]  # an outcome
        assert await actions.execute(action("charge", cents=5)) == Deferred("charge-5", "task", 7, dispatched=True)

    run(body)


@pytest.mark.parametrize("how", ["text", "bytes", "json"])
def test_a_huge_result_is_cut_in_the_worker(how: str) -> None:
    size = 100_000_000 if how == "text" else 20_000_000

    async def body(actions: ToolActions) -> None:
        await actions.execute(action("plain", text="warm"))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        outcome = await actions.execute(action("flood", size=size, how=how))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
        assert isinstance(outcome, Outcome)
        assert outcome.status == "ok"
        assert sum(len(p.text.encode()) for p in outcome.observation if isinstance(p.text, str)) <= 1000
        assert outcome.observation[-1].full_size >= size - 3
        assert grown < 2_000_000, "the owner never saw the whole"

    run(body)


def test_what_a_tool_prints_never_reaches_the_protocol_and_is_kept_short() -> None:
    quiet, loud, failed = (execute("chatter", size=size, fail=fail) for size, fail in ((1, False), (1_000_000, False), (10, True)))
    assert [p.text for p in quiet.observation] == ["value", "\n[printed]\nsaid \u4e2d\nx\nchild\n"]
    assert (loud.status, loud.observation[0].text) == ("ok", "value")
    assert len(text(loud)) < 5000
    assert text(loud).endswith("x\nchild\n")
    assert failed.status == "error"
    assert "last words" in text(failed)
    assert execute("read_stdin").observation[0].text == "''"


def test_a_tool_that_forks_answers_once() -> None:
    async def body(actions: ToolActions) -> list[str]:
        return [text(await actions.execute(action("fork_and_return"))) for _ in range(3)]

    assert run(body) == ["once"] * 3


def test_an_unknown_tool_and_a_missing_folder_are_outcomes(tmp_path: Path) -> None:
    assert execute("nothing").code == "unknown_tool"
    outcome = run(lambda actions: actions.execute(action("plain", text="x")), tmp_path / "gone")
    assert (outcome.status, outcome.code) == ("error", "tool_unavailable")


# --- cancelling --------------------------------------------------------------------------------------------------


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(30):  # what hangs here hangs for ten minutes
            await task


@pytest.mark.parametrize(("tree", "count"), [("none", 1), ("group", 2), ("away", 2), ("deaf", 1), ("fork", 2)])
def test_S2_22_cancelling_kills_the_whole_tree_before_it_returns(tmp_path: Path, tree: str, count: int) -> None:
    async def body(actions: ToolActions) -> None:
        task = asyncio.ensure_future(actions.execute(action("hang", folder=str(tmp_path), tree=tree)))
        await appear(tmp_path, count)
        await cancelled(task)
        assert [pid for pid in pids(tmp_path) if alive(pid)] == []
        assert actions.groups() == ()
        assert text(await actions.execute(action("plain", text="fresh"))) == "fresh"

    run(body)


def test_S2_23_cancelling_again_and_again_still_reaps_first(tmp_path: Path) -> None:
    async def body(actions: ToolActions) -> None:
        task = asyncio.ensure_future(actions.execute(action("hang", folder=str(tmp_path), tree="group")))
        await appear(tmp_path, 2)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        await cancelled(task)
        assert not any(alive(pid) for pid in pids(tmp_path))

    run(body)


def test_cancelling_at_any_moment_of_a_workers_life_leaves_nothing(tmp_path: Path) -> None:
    async def body(actions: ToolActions) -> None:
        for delay_ms in (0, 1, 2, 4, 8, 16, 32, 64, 100, 130):
            task = asyncio.ensure_future(actions.execute(action("hang", folder=str(tmp_path))))
            await asyncio.sleep(delay_ms / 1000)
            await cancelled(task)
            assert actions.groups() == ()
        assert not any(alive(pid) for pid in pids(tmp_path))

    run(body)


def test_a_killed_write_never_lands_late(tmp_path: Path) -> None:
    async def body(actions: ToolActions) -> None:
        await actions.execute(action("plain", text="warm"))
        task = asyncio.ensure_future(actions.execute(action("append", path=str(tmp_path / "f"), line="x", delay_s=0.3)))
        await asyncio.sleep(0.1)
        await cancelled(task)
        await asyncio.sleep(0.4)
        assert not (tmp_path / "f").exists()

    run(body)


def test_threads_are_asked_to_stop_and_waited_for(tmp_path: Path) -> None:
    async def body(actions: ToolActions) -> None:
        task = asyncio.ensure_future(actions.execute(action("wait_for_stop", folder=str(tmp_path))))
        await asyncio.sleep(0.05)
        await cancelled(task)
        assert (tmp_path / "stopped").exists()
        written = asyncio.ensure_future(actions.execute(action("slow_write", path=str(tmp_path / "w"))))
        await asyncio.sleep(0.05)
        await cancelled(written)
        assert (tmp_path / "w").read_text() == "whole", "it cannot be interrupted, so it was waited for"

    run(body)


def test_a_coroutine_is_cancelled_and_cleans_up(tmp_path: Path) -> None:
    async def body(actions: ToolActions) -> None:
        task = asyncio.ensure_future(actions.execute(action("wait_forever", folder=str(tmp_path))))
        await asyncio.sleep(0.01)
        await cancelled(task)
        assert (tmp_path / "cleaned").exists()

    run(body)
