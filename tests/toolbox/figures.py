"""Prints what calls cost here: `python -m tests.toolbox.figures`. Not a test: a machine's speed proves nothing."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from polyloop.toolbox.actions import ToolActions
from polyloop.toolbox.registry import Registry
from polyloop.workspace import Workspace, workspace_tools
from tests.toolbox import bench, zoo


async def median_ms(name: str, count: int, body: Callable[[int], Awaitable[object]]) -> None:
    times: list[float] = []
    for n in range(count):
        began = time.perf_counter()
        await body(n)
        times.append((time.perf_counter() - began) * 1000)
    times.sort()
    print(f"{name:44} {times[len(times) // 2]:8.3f} ms   p95 {times[int(len(times) * 0.95)]:8.3f} ms")


def memory_kb(pid: int) -> str:
    parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
    return " + ".join(Path(f"/proc/{p}/smaps_rollup").read_text().split("Pss:")[1].split()[0] for p in (pid, parent))


async def workers(folder: Path) -> None:
    async def first(_: int) -> None:
        actions = ToolActions(Registry([zoo.plain]))
        await actions.execute(bench.action("plain", text="x"))
        await actions.aclose()

    await median_ms("first call of a worker, and its end", 20, first)
    actions = ToolActions(bench.ALL)
    await median_ms("warm call, 200 bytes each way", 2000, lambda _: actions.execute(bench.action("plain", text="x" * 200)))
    await median_ms("warm call, 60 KB each way", 500, lambda _: actions.execute(bench.action("plain", text="x" * 60_000)))
    print(f"{'memory of runner and keeper (proportional)':44} {memory_kb(actions.groups()[0][0])} KB")

    async def cancelled(n: int) -> None:
        task = asyncio.ensure_future(actions.execute(bench.action("hang", folder=str(folder), tree="away")))
        await bench.appear(folder, 2 * (n + 1))
        began = time.perf_counter()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        ends.append((time.perf_counter() - began) * 1000)

    ends: list[float] = []
    await median_ms("call that hangs with two strays, cancelled", 20, cancelled)
    print(f"{'  of that, from cancel to everything dead':44} {sorted(ends)[10]:8.3f} ms")
    print("alive afterwards:", sum(bench.alive(pid) for pid in bench.pids(folder)), "of", len(bench.pids(folder)))
    await actions.aclose()


async def workspace(folder: Path) -> None:
    ws = Workspace(folder)
    actions = ToolActions(Registry(workspace_tools(ws).values()))
    act = bench.action
    await median_ms("workspace_write, 4 KB", 100, lambda n: actions.execute(act("workspace_write", f"k{n}", path=f"f{n}", text="x" * 4096)))
    await median_ms("workspace_read_lines, 4 KB (in the loop)", 500, lambda _: actions.execute(act("workspace_read_lines", path="f0")))
    await median_ms("workspace_exists (in the loop)", 500, lambda _: actions.execute(act("workspace_exists", path="f0")))
    await median_ms("workspace_list, 100 files (in a thread)", 200, lambda _: actions.execute(act("workspace_list")))
    (folder / "big").write_bytes(b"some line of text that is not it\n" * 500_000)
    await median_ms("workspace_grep, 16 MB in 101 files", 10, lambda _: actions.execute(act("workspace_grep", pattern="it[0-9]$")))
    ws.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        asyncio.run(workers(Path(one)))
        asyncio.run(workspace(Path(two)))
