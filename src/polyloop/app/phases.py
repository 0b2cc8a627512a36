"""Flows of phases over the runs of a store: FLOW.toml read and checked, the phases' runs wired and driven (S2.3, S2.4)."""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from polyloop.contract.problem import ProblemError, problem
from polyloop.ids import salt
from polyloop.kernel.objects import Budget, Request, RunResult
from polyloop.kernel.seams import Sink
from polyloop.phases import Flow, FlowLog, FlowResult, Noted, Phase, Required, flow_stream, run_flow, sealed_lines, text_prompt
from polyloop.workspace import Workspace

from .request_file import load, read_bytes, refuse
from .runs import Runs, typed
from .wiring import request_for, rewire, workspace_of

#: Folders of a flow's workspace that tools may read and not write: what it was given, and earlier attempts.
READ_ONLY: Final = ("data", "attempts")
#: Budget fields that the request file's own rules merge.
_FILLED: Final = {"max_valid_steps": "max_steps", "max_iterations": "max_iterations"}


class PhaseTable(Struct, forbid_unknown_fields=True):
    """`[[phases]]`. What it says fills in what the request file leaves out."""

    name: str
    request: str
    budget: dict[str, Any] = field(default_factory=dict[str, Any])
    tools: tuple[str, ...] = ()
    required: tuple[Required | str, ...] = ()
    attempts: int = 1
    retry_exhausted: bool = False


class FlowFile(Struct, forbid_unknown_fields=True):
    id: str
    workspace: str
    phases: tuple[PhaseTable, ...]
    tenant: str | None = None
    model: str | None = None


class RunDrive:
    """Implements `phases.Drive`: runs of one store, all in one workspace that is held meanwhile."""

    def __init__(self, runs: Runs, workspace: Workspace, sinks: Sequence[Sink] = ()) -> None:
        self._runs, self._workspace, self._sinks = runs, workspace, sinks

    @property
    def stopped(self) -> bool:
        return self._runs.suspended

    async def logged(self, run_id: str) -> Request | None:
        try:
            return await self._runs.request(run_id)
        except ProblemError as error:
            if error.problem.kind == "not_found":
                return None
            raise

    async def go(self, request: Request) -> RunResult:
        return await self._runs.run(request, rewire(request, self._sinks, self._workspace))


@asynccontextmanager
async def flow_log(runs: Runs, flow: str, noted: Noted | None = None) -> AsyncGenerator[FlowLog]:
    """A flow, taken. Raises ProblemError (owned_elsewhere)."""
    log = FlowLog(runs.log, flow_stream(runs.scope, flow), runs.clock, salt, runs.holder, noted)
    with typed("phases"):
        await log.open()
    try:
        yield log
    finally:
        await log.close()


async def carry_out(runs: Runs, flow: Flow, workspace: Workspace, sinks: Sequence[Sink] = (), noted: Noted | None = None) -> FlowResult:
    """A flow as far as it goes, in a workspace that nobody else may have meanwhile. Raises ProblemError."""
    async with flow_log(runs, flow.id, noted) as log:
        workspace.hold()
        try:
            with typed("phases"):
                return await run_flow(flow, workspace, log, RunDrive(runs, workspace, sinks))
        finally:
            workspace.close()


def load_flow(path: Path, scope: str) -> tuple[Flow, Workspace]:
    """A flow file and the workspace it names. Raises ProblemError (validation)."""
    try:
        file = msgspec.convert(tomllib.loads(read_bytes(path).decode()), FlowFile)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise refuse(f"{path}: {error}") from error
    if file.tenant not in (None, scope):
        raise refuse(f"{path} belongs to tenant {file.tenant!r}, not to {scope!r}", field="tenant")
    base = path.resolve().parent
    places = {"workspace": str(base / file.workspace), "workspace_read_only": json.dumps(READ_ONLY)}
    return Flow(file.id, scope, tuple(_phase(path, file, table, base, places) for table in file.phases)), workspace_of(places)


def _phase(path: Path, file: FlowFile, table: PhaseTable, base: Path, places: dict[str, str]) -> Phase:
    given = {_FILLED[name]: value for name, value in table.budget.items() if name in _FILLED}
    plan = load(base / table.request, {**given, "model": file.model})
    for name, value in (("run_id", plan.run_id), ("workspace", plan.workspace), ("fork_of", plan.fork_of)):
        if value is not None:
            raise refuse(f"{table.request}: {name} is not the request's to say in a flow ({path})", field=name)
    if table.tools and plan.tools:
        raise refuse(f"{table.request} names its tools; {path} cannot name them again", field="tools")
    rest = {name: value for name, value in table.budget.items() if name not in _FILLED}
    try:
        budget = msgspec.convert({**msgspec.to_builtins(plan.budget), **rest}, Budget)
    except msgspec.ValidationError as error:
        raise refuse(f"{path}: budget of phase {table.name}: {error}", field="budget") from error
    request = request_for(replace(plan, tools=plan.tools or table.tools, budget=budget))
    return Phase(
        table.name, request.agent, request.budget, text_prompt(*request.segments), {**request.assembly, **places},
        tuple(Required(one) if isinstance(one, str) else one for one in table.required), table.attempts,
        retry_exhausted=table.retry_exhausted, params=request.params, binding=request.binding, result_schema=request.result_schema,
        overflow=request.overflow,
    )  # fmt: skip


async def flow_records(runs: Runs, flow: str) -> list[dict[str, Any]]:
    """The flow's own log, one flat object per record. Raises ProblemError (not_found)."""
    with typed("phases"):
        stream = flow_stream(runs.scope, flow)
        head = await runs.log.head(stream)
        if head is None or not head.seq:
            raise problem("not_found", f"there is no flow {flow}", operation="phases", stage="resolve")
        return sealed_lines((await runs.log.load(stream)).records)
