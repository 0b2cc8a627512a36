"""A program against the public names, as its author would write it: the checker has nothing to say, and knows every type."""

import asyncio
from pathlib import Path
from typing import assert_type

import polyloop
from polyloop.kernel.objects import Json
from polyloop.kernel.seams import Action, Event, Settled, Unknown
from polyloop.kernel.verify import Verdict
from polyloop.testing import ManualClock, MemoryStore, ScriptedModel


@polyloop.tool(effect="read", kind="async")
async def look(path: str, context: polyloop.ToolContext) -> str:
    return path + context.key


@polyloop.tool(effect="write", replay="report_unknown")
def keep(text: str) -> dict[str, int]:
    return {"length": len(text)}


class Source:
    async def call(self, request: polyloop.ModelRequest) -> polyloop.Reply:
        if not request.messages:
            raise polyloop.ModelCallFailed("empty", sent=False)
        return polyloop.Reply(request.messages[-1].text)


class World:
    promises_completion = True

    async def execute(self, action: Action) -> polyloop.Outcome | polyloop.Deferred:
        return polyloop.Outcome("ok", completion="DONE", result=action.args)

    async def settle(self, action: Action, token: str | None, fence: bool = False) -> Settled:
        return Unknown()


def seen(event: Event) -> None:
    print(event.type, event.body)


model: polyloop.Model = Source()
scripted: polyloop.Model = ScriptedModel(["{}"])
actions: polyloop.Actions = World()
clock: polyloop.Clock = ManualClock()
log: polyloop.Log = MemoryStore()
tools: polyloop.Tools = polyloop.Registry([look, keep])
request = polyloop.Request("r1", polyloop.Agent("a"), polyloop.Budget(1, 2), (polyloop.Segment("task", text="Do."),), overflow="window(3)")
assert_type(keep("x"), dict[str, int])


async def main() -> None:
    async with polyloop.open_store(Path("runs.db"), tenant="acme") as store:
        result = await polyloop.run(request, store=store, model=model, tools=[look, keep], sinks=[seen], permission_mode="read_only")
        assert_type(result, polyloop.RunResult)
        assert_type(result.result, Json)
        assert_type(result.counters.valid_steps, int)
        assert_type(await polyloop.resume(request, store=store, model="script:x", accept=["tools.look.description"]), polyloop.RunResult)
        assert_type(await polyloop.cancel("r1", store=store, model=scripted), polyloop.RunResult)
        assert_type(await polyloop.fork("r1", 5, "r2", store=store, model=model, budget=polyloop.Budget(3, 3)), polyloop.RunResult)
        assert_type(await polyloop.verify("r1", store=store), Verdict)
        await polyloop.run(request, store=store, model=model, tools=polyloop.Registry([look]), actions=actions)
    assert_type(polyloop.run_sync(request, store="runs.db", model=model, tools=[keep]), polyloop.RunResult)


try:
    asyncio.run(main())
except polyloop.ProblemError as error:
    assert_type(error.problem, polyloop.Problem)
    kind: str = error.problem.kind
    print(kind)
