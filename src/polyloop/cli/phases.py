"""Commands of flows: `polyloop phases run FLOW.toml`, `polyloop phases show FLOW`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from polyloop.app.phases import carry_out as carry_out_flow
from polyloop.app.phases import flow_records, load_flow
from polyloop.app.runs import Runs
from polyloop.app.store import read_runs
from polyloop.phases import FlowResult, PhaseOutcome
from polyloop.words.catalog import say

from .frame import EXIT_BY_REASON, Place, carry_out, leave, placed, run_json
from .live import progress
from .runs import with_runs

app: Final = typer.Typer(no_args_is_help=True, help="Flows: phases of runs that leave files for one another.")


@app.command()
@placed
def run(
    place: Place,
    file: Annotated[Path, typer.Argument(metavar="FLOW.toml", help="The flow file.")],
) -> None:
    """Carry out a flow; the same command goes on with it, or tells what became of it."""

    async def work(runs: Runs) -> FlowResult:
        flow, workspace = load_flow(file, runs.scope)
        return await carry_out_flow(runs, flow, workspace, progress(place))

    result = carry_out(place, lambda: with_runs(place, work))
    code = exit_code(result)
    if place.as_json:
        place.print_json(flow_json(result, place.tenant))
    else:
        sys.stdout.write("\n".join(_line(place, phase) for phase in result.phases) + "\n")
    leave(code)


@app.command()
@placed
def show(
    place: Place,
    flow: Annotated[str, typer.Argument(metavar="FLOW", help="Id of the flow.")],
) -> None:
    """The flow's own log: attempts, recoveries, retries asked for."""

    async def work() -> list[dict[str, Any]]:
        async with read_runs(place.store, place.tenant) as runs:
            return await flow_records(runs, flow)

    for record in carry_out(place, work):
        place.print_json(record)


def flow_json(result: FlowResult, tenant: str) -> dict[str, Any]:
    """The wire form `polyloop.phases.v1`."""
    return {
        "schema": "polyloop.phases.v1", "flow": result.flow, "tenant": tenant, "state": result.state,
        "phases": [
            {
                "phase": p.phase, "state": p.state, "attempt": p.attempt, "runId": p.run, "reason": p.reason or None, "skipped": p.skipped,
                "recovered": p.recovered or None, "problems": list(p.problems), "outputs": p.outputs,
                "run": None if p.result is None else run_json(p.result),
            }
            for p in result.phases
        ],
    }  # fmt: skip


def exit_code(result: FlowResult) -> int:
    """0 completed, 130 interrupted, 5 waiting; a failed flow exits as the run that failed it would, 1 if that completed."""
    last = result.phases[-1]
    if result.state == "completed":
        return 0
    if result.state == "interrupted":
        return 5 if last.result is not None and last.result.state == "waiting" else 130
    return EXIT_BY_REASON.get(last.reason, 1) or 1


def _line(place: Place, p: PhaseOutcome) -> str:
    text = say(f"phase.{p.state}", place.lang, phase=p.phase, attempt=p.attempt, run=p.run)
    if p.recovered:
        text += say("phase.recovered", place.lang, recovery=p.recovered)
    return "\n".join([text, *(f"  - {wrong}" for wrong in p.problems)])
