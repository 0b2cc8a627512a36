"""Two at once in one process: of one run, and of one approval. One is first, the other is told so."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import polyloop
from polyloop.app.approvals import approvals, decide
from polyloop.contract.problem import ProblemError

from .conftest import act


def request(name: str) -> polyloop.Request:
    return polyloop.Request(name, polyloop.Agent("a"), polyloop.Budget(5, 9), (polyloop.Segment("t", text="x"),))


def lines(folder: Path) -> str:
    script = folder / "l.jsonl"
    script.write_text("".join(json.dumps(x) + "\n" for x in (act("pour", n=1), act("end", summary="s"))))
    return f"script:{script}"


@polyloop.tool(completes=True, kind="async")
async def end(summary: str) -> str:
    """End."""
    return "ok"


def test_a_second_drive_of_a_run_in_one_process_is_refused_and_a_cancel_reaches_the_first(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    poured: list[int] = []

    @polyloop.tool(effect="write", kind="async")
    async def pour(n: int) -> str:
        """Pour."""
        begun.set()
        await go_on.wait()
        poured.append(n)
        return "ok"

    async def story() -> None:
        async with polyloop.open_store(tmp_path / "s.db") as store:
            wiring = {"store": store, "model": lines(tmp_path), "tools": [pour, end]}
            first = asyncio.ensure_future(polyloop.run(request("r"), **wiring))
            await begun.wait()
            for second in (polyloop.run(request("r"), **wiring), polyloop.resume(request("r"), **wiring)):
                with pytest.raises(ProblemError, match="held by"):
                    await second
            go_on.set()
            assert ((await first).reason, poured) == ("completed", [1])
            begun.clear()
            go_on.clear()
            first = asyncio.ensure_future(polyloop.run(request("c"), **wiring))
            await begun.wait()
            await polyloop.cancel("c", **wiring)
            assert ((await first).reason, poured) == ("cancelled", [1])

    asyncio.run(story())


def test_S1_49_of_two_opposite_decisions_at_once_one_is_a_conflict(tmp_path: Path) -> None:
    poured: list[int] = []

    @polyloop.tool(effect="write", kind="async")
    async def pour(n: int) -> str:
        """Pour."""
        poured.append(n)
        return "ok"

    async def story() -> None:
        async with polyloop.open_store(tmp_path / "s.db") as store:
            wiring = {"store": store, "model": lines(tmp_path), "tools": [pour, end], "permission_mode": "request_approval"}
            for name in "abcdef":
                poured.clear()
                assert (await polyloop.run(request(name), **wiring)).state == "waiting"
                (asked,) = [a for a in await approvals(store) if a.run_id == name]
                said = await asyncio.gather(*(decide(store, asked.id, d, "") for d in ("approved", "denied")), return_exceptions=True)
                (won,) = [x.state for x in said if not isinstance(x, BaseException)]
                (lost,) = [x.problem.kind for x in said if isinstance(x, ProblemError)]
                await polyloop.run(request(name), **wiring)
                assert (lost, poured) == ("conflict", [1] * (won == "approved"))

    asyncio.run(story())
