"""Mistakes against the public names. A line that ends in names of errors must be refused under all of them, and no other line."""

import polyloop
from polyloop.kernel.seams import Action, Settled


class Blocking:
    def call(self, request: polyloop.ModelRequest) -> polyloop.Reply:
        return polyloop.Reply("")


class Half:
    promises_completion = True

    async def execute(self, action: Action) -> polyloop.Outcome:
        return polyloop.Outcome("fine")  # reportArgumentType


class Whole(Half):
    async def settle(self, action: Action, token: str | None, fence: bool = False) -> Settled:
        return None  # reportReturnType


model: polyloop.Model = Blocking()  # reportAssignmentType
actions: polyloop.Actions = Half()  # reportAssignmentType
budget = polyloop.Budget(max_valid_steps=1)  # reportCallIssue
agent = polyloop.Agent("a", budget=budget)  # reportCallIssue
segment = polyloop.Segment("x", slot="tool")  # reportArgumentType
request = polyloop.Request("r", agent, budget, segments=segment)  # reportArgumentType
request.run_id = "other"  # reportAttributeAccessIssue
print(polyloop.Runs)  # reportAttributeAccessIssue reportUnknownMemberType reportUnknownArgumentType


@polyloop.tool(effect="delete")  # reportArgumentType
def gone(path: str) -> str:
    return path


async def main() -> None:
    async with polyloop.open_store("runs.db") as store:
        await polyloop.run(request, store=store)  # reportCallIssue
        await polyloop.run(request, store="runs.db", model="script:x")  # reportArgumentType
        await polyloop.run(request, store=store, model="script:x", permission_mode="all")  # reportArgumentType
        done = await polyloop.run(request, store=store, model="script:x")
        print(done.status)  # reportAttributeAccessIssue reportUnknownMemberType reportUnknownArgumentType
    polyloop.run_sync(request, tools=[gone])  # reportCallIssue
    polyloop.run_sync(request, model="script:x", tool=[gone])  # reportCallIssue
