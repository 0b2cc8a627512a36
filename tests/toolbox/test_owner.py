"""Settling, and what the owner of workers owes to whoever comes after it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polyloop.app.holding import end_groups
from polyloop.kernel.records import Part
from polyloop.kernel.seams import NotStarted, Outcome, Pending, Unknown
from polyloop.toolbox.actions import ToolActions
from polyloop.toolbox.worker import WorkerPool, started
from tests.toolbox.bench import ALL, action, alive, appear, pids, run, text

# --- settling ----------------------------------------------------------------------------------------------------

SETTLED = [
    ("none", Unknown()), ("not", NotStarted()), ("pending", Pending("t2")), ("unknown", Unknown()), ("odd", Unknown()), ("raise", Unknown()),
    ("done", Outcome("ok", (Part(text='{"done":"tok","fence":true}'),))),
]  # fmt: skip


@pytest.mark.parametrize("tool", ["charge", "async_probed", "thread_probed"])
def test_S2_28_settle_asks_by_key_and_never_dispatches(tool: str) -> None:
    async def body(actions: ToolActions) -> None:
        for key, told in SETTLED:
            assert await actions.settle(action(tool, key=key), "tok", fence=True) == told
        if tool == "charge":
            assert await actions.settle(action(tool, key="die"), None) == Unknown()
        assert await actions.settle(action("plain"), None) == Unknown()
        assert await actions.settle(action("nothing"), None) == Unknown()

    run(body)


# --- the owner ---------------------------------------------------------------------------------------------------


def test_the_group_is_known_before_the_first_call() -> None:
    """S2.24: whoever takes over must know what to kill before anything can happen."""
    seen: list[tuple[tuple[int, int], ...]] = []

    async def main() -> None:
        async def changed() -> None:
            seen.append(pool.groups())
            await asyncio.sleep(0)

        pool = WorkerPool(on_groups_changed=changed)
        actions = ToolActions(ALL, workers=pool)
        where = text(await actions.execute(action("where")))
        assert seen == [pool.groups()]
        assert where.startswith(f"[{seen[0][0][0]},")
        assert os.getpgid(seen[0][0][0]) == seen[0][0][0]
        await pool.aclose()
        assert seen[-1] == ()

    asyncio.run(main())


def test_if_the_group_cannot_be_recorded_nothing_is_called(tmp_path: Path) -> None:
    async def main() -> None:
        async def changed() -> None:
            raise RuntimeError("the store is gone")

        pool = WorkerPool(on_groups_changed=changed)
        with pytest.raises(RuntimeError, match="the store is gone"):
            await ToolActions(ALL, workers=pool).execute(action("append", path=str(tmp_path / "f"), line="x"))
        assert pool.groups() == ()
        assert not (tmp_path / "f").exists()
        await pool.aclose()

    asyncio.run(main())


OWNER = """
import asyncio, json, sys
from polyloop.toolbox.actions import ToolActions
from polyloop.toolbox.worker import WorkerPool
from polyloop.toolbox.registry import Registry
from polyloop.kernel.seams import Action
from tests.toolbox import zoo

async def main():
    async def tell():
        print(json.dumps(pool.groups()), flush=True)

    pool = WorkerPool(on_groups_changed=tell)
    await ToolActions(Registry([zoo.hang]), workers=pool).execute(Action("hang", {"folder": sys.argv[1], "tree": sys.argv[2]}, "k", 0, "r", "local"))

asyncio.run(main())
"""


@pytest.mark.parametrize("tree", ["group", "away"])
def test_S2_23_when_the_owner_is_killed_its_tools_die_with_it(tmp_path: Path, tree: str) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path), tree])
    until = time.monotonic() + 30
    while len(list(tmp_path.iterdir())) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    owner.kill()
    owner.wait()
    while any(alive(pid) for pid in pids(tmp_path)):
        assert time.monotonic() < until
        time.sleep(0.005)


def test_S2_24_a_takeover_waits_for_what_has_left_the_group_too(tmp_path: Path) -> None:
    """The keeper hangs when its owner dies: nothing would end what a tool has sent away."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path), "away"], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    groups = json.loads(owner.stdout.readline())
    until = time.monotonic() + 30
    while len(pids(tmp_path)) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    (_, (keeper, _)) = groups
    os.kill(keeper, signal.SIGSTOP)
    owner.kill()
    owner.communicate()
    assert any(alive(pid) for pid in pids(tmp_path))
    end_groups(groups)
    assert not any(alive(pid) for pid in [keeper, *pids(tmp_path)])


def test_S2_24_a_takeover_ends_groups_whose_leader_is_gone_or_does_not_heed(tmp_path: Path) -> None:
    deaf = """if True:
        import os, pathlib, signal, sys
        signal.signal(15, signal.SIG_IGN)
        leader = os.fork()
        pathlib.Path(sys.argv[1], f"x-{os.getpid()}").touch()
        if leader and sys.argv[2] == "gone":
            os._exit(0)
        signal.pause()
    """
    left = [subprocess.Popen([sys.executable, "-c", deaf, str(tmp_path), how], start_new_session=True) for how in ("gone", "deaf")]
    groups = [(process.pid, started(process.pid) or 0) for process in left]
    until = time.monotonic() + 30
    while len(pids(tmp_path)) < 4:
        assert time.monotonic() < until
        time.sleep(0.01)
    end_groups([*groups, (os.getpgid(0), 1)])  # the last number was given anew
    assert not any(alive(pid) for pid in pids(tmp_path))
    for process in left:
        process.wait(5)


def test_a_takeover_that_kills_the_group_gets_the_strays_too(tmp_path: Path) -> None:
    async def body(actions: ToolActions) -> None:
        task = asyncio.ensure_future(actions.execute(action("hang", folder=str(tmp_path), tree="away")))
        await appear(tmp_path, 2)
        os.killpg(actions.groups()[0][0], signal.SIGKILL)
        outcome = await task
        assert (outcome.status, outcome.code) == ("unknown", "worker_died")
        assert not any(alive(pid) for pid in pids(tmp_path))

    run(body)


def test_an_idle_worker_that_died_is_replaced_without_a_word() -> None:
    async def body(actions: ToolActions) -> None:
        await actions.execute(action("plain", text="warm"))
        os.kill(actions.groups()[0][0], signal.SIGKILL)
        await asyncio.sleep(1)  # its keeper must have seen it, on a slow machine too
        assert text(await actions.execute(action("plain", text="again"))) == "again"

    run(body)


def test_a_takeover_never_ends_its_own_group_even_without_its_leader() -> None:
    orphan = """if True:
        import os
        from polyloop.app.holding import end_groups
        if os.fork():
            os._exit(0)
        while os.getppid() == os.getpgid(0):
            pass
        end_groups([(os.getpgid(0), 1)])
        print("alive", flush=True)
    """
    done = subprocess.run([sys.executable, "-c", orphan], start_new_session=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "alive\n", done.stderr
