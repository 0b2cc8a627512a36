"""What a run is wired to: model, tools, executor, interpreter; made from a plan, or found again from a logged request."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from polyloop.contract.problem import problem
from polyloop.gateway.sources import source
from polyloop.ids import uuid7
from polyloop.kernel import records as r
from polyloop.kernel.json_text import JsonText
from polyloop.kernel.objects import Json, Request, ToolSpec
from polyloop.kernel.seams import (
    Action, Actions, Deferred, Interpreter, Model, ModelCallFailed, ModelRequest, Outcome, Reply, Settled, Sink, Tools, Unknown,
)  # fmt: skip
from polyloop.toolbox.actions import ToolActions
from polyloop.toolbox.permission import Mode, Permitted
from polyloop.toolbox.registry import Registry
from polyloop.toolbox.submit import submit
from polyloop.workspace import Workspace, workspace_tools

from .request_file import Plan, read_bytes

INTERPRETERS: Final[Mapping[str, Callable[[], Interpreter]]] = {"json-text/1": JsonText}


class Wiring(Struct, frozen=True):
    """One run's seams but the store's. `close` ends its tool processes; `groups` lists them."""

    model: Model
    interpreter: Interpreter
    tools: Tools
    actions: Actions
    sinks: tuple[Sink, ...] = ()
    groups: Callable[[], Sequence[tuple[int, int]]] = lambda: ()
    close_all: Callable[[], Awaitable[None]] | None = None

    async def close(self) -> None:
        if self.close_all is not None:
            await self.close_all()


def interpreter(protocol: str) -> Interpreter:
    """The interpreter of a protocol. Raises ProblemError(validation)."""
    make = INTERPRETERS.get(protocol)
    if make is None:
        known = ", ".join(INTERPRETERS)
        raise problem("validation", f"no such protocol: {protocol!r}. Known: {known}", operation="run", stage="arguments")
    return make()


def request_for(plan: Plan) -> Request:
    """The kernel's request for a plan. What the wiring depends on stands in `assembly`, so that it is compared on resume."""
    assembly = {
        "base": str(plan.base),
        "model": plan.model,
        "tools": json.dumps(list(plan.tools), ensure_ascii=False),
        "completes": json.dumps(list(plan.completes), ensure_ascii=False),
        "permission_mode": plan.permission_mode,
    }
    if plan.workspace is not None:
        assembly["workspace"] = str(plan.base / plan.workspace)
    if plan.lang is not None:
        assembly["lang"] = plan.lang
    return Request(
        plan.run_id or uuid7(), plan.agent, plan.budget, plan.segments, plan.binding, plan.params, assembly, result_schema=plan.result_schema
    )
