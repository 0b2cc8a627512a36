"""This project's kernel, through its public Python surface. variants: none = the loop shares with others; d = dedicated."""

from .base import *

import asyncio
import json

import polyloop
from polyloop import Reply, open_store, run  # loads the runtime, so that it counts as import


class _Model:
    """The scripted model of the work; run ids are the meter's."""

    def __init__(self, meter):
        self.m = meter

    async def call(self, request):
        run = request.binding["run"]
        text, final = self.m.model(request.reply_no - 1, run)
        if final:
            text = json.dumps({"reflection": "", "plan": "", "action": {"tool": "finish", "args": {"text": text}}})
        return Reply(text=text)


class Peer(Base):
    def __init__(self, dir, sc, m, var):
        self.dir, self.sc, self.m, self.dedicated = dir, sc, m, var == "d"
        meter = m

        @polyloop.tool(effect="read", kind="async", result_limit=1 << 20)
        async def observe(i: int, token: str, run: polyloop.ToolContext) -> str:
            """Look at step i."""
            return meter.tool(i, run.run_id)

        @polyloop.tool(effect="read", kind="async", completes=True)
        async def finish(text: str) -> str:
            """The final result."""
            return text

        self.tools = polyloop.Registry([observe, finish])
        self.model = _Model(m)

    def request(self, run):
        n = self.sc.n + 2
        segments = (polyloop.Segment("task", text="observe until done"),)
        return polyloop.Request(run, polyloop.Agent("bench"), polyloop.Budget(n, n), segments, {"run": run})

    async def _one(self, store, name):
        result = await run(self.request(name), store=store, model=self.model, tools=self.tools)
        return json.dumps(result.result)

    async def run(self, name):
        async with open_store(os.path.join(self.dir, "k.db"), dedicated=self.dedicated) as store:
            return await self._one(store, name)

    resume = run

    async def run_many(self, runs):
        async with open_store(os.path.join(self.dir, "k.db"), dedicated=self.dedicated) as store:
            return await asyncio.gather(*(self._one(store, r) for r in runs))
