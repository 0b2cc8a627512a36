"""A program that embeds runs gets its result although a tool of it will not stop."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polyloop.app.loop import carried_out
from tests.edges import zoo

PROGRAM = """
import polyloop, zoo
from polyloop.testing import ScriptedModel

request = polyloop.Request("r1", polyloop.Agent("a"), polyloop.Budget(5, 5, wall_clock_s=0.5))
model = ScriptedModel(['{"action": {"tool": "swallow", "args": {}}}'])
print(polyloop.run_sync(request, store="runs.db", model=model, tools=[zoo.swallow]).reason, flush=True)
"""


def test_S2_23_a_tool_that_swallows_its_cancellation_holds_no_caller(tmp_path: Path) -> None:
    """The result comes, and the program ends by itself."""
    shutil.copy(zoo.__file__, tmp_path / "zoo.py")
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True)
    assert done.stdout == b"budget_exhausted\n"


def test_what_it_returns_and_raises_and_what_is_left_over() -> None:
    ended: list[str] = []

    async def left() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("tidied")

    async def work() -> int:
        asyncio.get_running_loop().call_soon(held.append, asyncio.ensure_future(left()))
        await asyncio.sleep(0.01)
        return 3

    async def fails() -> None:
        raise ValueError("no")

    held: list[asyncio.Task[None]] = []
    began = time.monotonic()
    assert carried_out(work()) == 3
    assert (ended, held[0].cancelled(), time.monotonic() - began < 30) == (["tidied"], True, True)
    with pytest.raises(ValueError, match="no"):
        carried_out(fails())
