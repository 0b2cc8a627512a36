"""Commands of approvals: what waits for a person's yes or no."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from polyloop.app.approvals import Approval, approval, approvals, decide
from polyloop.app.documents import open_documents
from polyloop.app.place import SERVERS
from polyloop.app.plans import decide_plan, plan, plans
from polyloop.app.store import read_runs
from polyloop.kernel.records import canonical
from polyloop.toolbox.bridge import PLAN
from polyloop.words.catalog import say

from .frame import Place, carry_out, placed

app: Final = typer.Typer(no_args_is_help=True, help="Approvals: what waits for a person's yes or no.")
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Approval id.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Kept in the log.")]


def _json(a: Approval) -> dict[str, Any]:
    return {"id": a.id, "runId": a.run_id, "call": a.call, "prompt": a.prompt, "until": a.until or None, "state": a.state}


def _print(place: Place, a: Approval) -> None:
    if place.as_json:
        place.print_json(_json(a))
    else:
        sys.stdout.write(f"{a.id}  {a.run_id}  {a.state}\n{canonical(a.prompt).decode()}\n")


@app.command("list")
@placed
def list_(place: Place) -> None:
    """Everything that waits for approval."""

    async def work() -> list[Approval]:
        of_runs: list[Approval] = []
        if not place.store.startswith(SERVERS):  # where no runs can be
            async with read_runs(place.store, place.tenant) as runs:
                of_runs = await approvals(runs)
        return [*of_runs, *await plans(place.store, place.tenant, of_runs)]

    found = carry_out(place, work)
    if place.as_json:
        place.print_json({"approvals": [_json(a) for a in found]})
    else:
        lines = [f"{a.id}  {a.run_id}  {canonical(a.prompt).decode()}" for a in found] or [say("approval.none", place.lang)]
        sys.stdout.write("\n".join(lines) + "\n")


@app.command()
@placed
def show(
    place: Place,
    approval_id: IdArgument,
) -> None:
    """One approval: exactly what would be done."""

    async def work() -> Approval:
        if approval_id.startswith(PLAN):
            with open_documents(place.store, place.tenant) as documents:
                return await plan(documents, approval_id)
        async with read_runs(place.store, place.tenant) as runs:
            return await approval(runs, approval_id)

    _print(place, carry_out(place, work))


@app.command()
@placed
def approve(
    place: Place,
    approval_id: IdArgument,
) -> None:
    """Allow exactly this action, once. It is carried out when the run goes on."""
    _decide(place, approval_id, "approved", "")


@app.command()
@placed
def reject(
    place: Place,
    approval_id: IdArgument,
    reason: ReasonOption = "",
) -> None:
    """Refuse this action. The model is told."""
    _decide(place, approval_id, "denied", reason)


def _decide(place: Place, approval_id: str, decision: str, reason: str) -> None:
    async def work() -> Approval:
        if approval_id.startswith(PLAN):
            with open_documents(place.store, place.tenant) as documents:
                return await decide_plan(documents, approval_id, decision, reason)
        async with read_runs(place.store, place.tenant) as runs:
            return await decide(runs, approval_id, decision, reason)

    decided = carry_out(place, work)
    if place.as_json:
        place.print_json(_json(decided))
    else:
        sys.stdout.write(say(f"approval.{decision}", place.lang) + "\n")
