"""What tests of actions share: every animal of the zoo in one registry, and a loop that leaves nothing behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from polyloop.kernel.seams import Action
from polyloop.toolbox.actions import ToolActions
from polyloop.toolbox.registry import Registry
from tests.toolbox import zoo

ALL = Registry([
    zoo.shapes, zoo.plain, zoo.whoami, zoo.give, zoo.give_object, zoo.defer_undeclared, zoo.charge, zoo.throw, zoo.throw_async,
    zoo.throw_in_thread, zoo.die, zoo.die_reading, zoo.flood, zoo.chatter, zoo.hang, zoo.fork_and_return, zoo.where, zoo.read_stdin,
    zoo.append, zoo.wait_for_stop, zoo.slow_write, zoo.wait_forever, zoo.async_probed, zoo.thread_probed, zoo.garble,
])  # fmt: skip


def action(tool: str, key: str = "k", **args: Any) -> Action:
    return Action(tool, args, key, 0, "r", "local")


def run(body: Callable[[ToolActions], Awaitable[Any]], workdir: str | Path = ".", **more: Any) -> Any:
    """One event loop, one pool; afterwards nothing is left of either."""

    async def main() -> Any:
        actions = ToolActions(ALL, workdir, **more)
        try:
            return await body(actions)
        finally:
            groups = actions.groups()
            await actions.aclose()
            assert actions.groups() == ()
            assert not any(alive(pid) for pid, _ in groups)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(main())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def pids(folder: Path) -> list[int]:
    return [int(f.name.split("-")[1]) for f in folder.iterdir() if "-" in f.name]


def text(outcome: Any) -> str:
    return "".join(p.text for p in outcome.observation)


async def appear(folder: Path, count: int) -> None:
    until = time.monotonic() + 60
    while len(pids(folder)) < count:
        assert time.monotonic() < until
        await asyncio.sleep(0.01)
