"""A process that paints on a canvas and may be killed: `python painter.py STORE TENANT CANVAS NAME CALLS OPS`.

Each call reads the state and adds OPS nodes named NAME-call-number. Prints `begin N` before a call, `done N` after its receipt,
`lost N` where somebody was first, or too many were there at once; then it reads again and tries the same once more.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from polyloop.canvas.runtime import CanvasRuntime
from polyloop.canvas.store import SCHEMAS
from polyloop.contract.problem import Problem
from polyloop.contract.receipt import Receipt
from polyloop.db import Database
from polyloop.ids import uuid7
from polyloop.journal.carry import Caller


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def paint(store: str, tenant: str, canvas: str, name: str, calls: int, count: int) -> None:
    db = Database.open(store, SCHEMAS)
    runtime, caller = CanvasRuntime(db, tenant, lambda: 0, uuid7), Caller(within=canvas, session=name)
    await runtime.call("canvas_list_node_types", {}, caller)
    for n in range(calls):
        ops = [{"type": "add_node", "id": f"{name}-{n}-{i}", "nodeType": "text", "x": i * 400, "y": n * 300} for i in range(count)]
        while True:
            state: Any = await runtime.call("canvas_get_state", {}, caller)
            if isinstance(state, Problem):  # too many at once
                assert state.kind == "local_io", state
                continue
            say("begin", n)
            answer = await runtime.call("canvas_apply_ops", {"snapshotHash": state["snapshotHash"], "ops": ops}, caller)
            if isinstance(answer, Receipt) and answer.ok:
                say("done", n)
                break
            assert isinstance(answer, Problem), answer
            assert answer.kind in ("revision_conflict", "local_io"), answer
            say("lost", n)
    db.close()


if __name__ == "__main__":
    asyncio.run(paint(*sys.argv[1:5], *map(int, sys.argv[5:])))  # type: ignore[arg-type]  # as the line above says
