"""What a run is wired to: model, tools, executor, interpreter; made from a plan, or found again from a logged request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final, cast

from msgspec import Struct

from polyloop.contract.problem import problem
from polyloop.dialogue.ask import AskUser
from polyloop.dialogue.sub_run import SubRun
from polyloop.gateway.rules import Program
from polyloop.gateway.sources import source
from polyloop.ids import uuid7
from polyloop.kernel import records as r
from polyloop.kernel.json_text import JsonText
from polyloop.kernel.native_tools import NativeTools
from polyloop.kernel.objects import Json, Request, ToolSpec
from polyloop.kernel.seams import (
    Action,
    Actions,
    Deferred,
    Interpreter,
    Message,
    Model,
    ModelCallFailed,
    ModelRequest,
    Outcome,
    Reply,
    Settled,
    Sink,
    Tools,
    Unknown,
)  # fmt: skip
from polyloop.toolbox.actions import ToolActions
from polyloop.toolbox.bridge import OperationTool, canvas_tools, document_tools, media_tools
from polyloop.toolbox.permission import Mode, Permitted
from polyloop.toolbox.registry import Registry, Tool, bad_result, problems_of, usable
from polyloop.toolbox.submit import Submit
from polyloop.toolbox.worker import WorkerPool
from polyloop.workspace import Workspace, workspace_tools
from polyloop.workspace.exec import exec_tool
from polyloop.workspace.limits import ANSWER_BYTES
from polyloop.workspace.skills import Skills, skill_tools

from . import gateway
from .documents import Library
from .policies import matching, policy_ids, with_policies
from .request_file import Plan, read_bytes
from .skills import frozen, marks

INTERPRETERS: Final[Mapping[str, Callable[[], Interpreter]]] = {"json-text/1": JsonText, "native-tools/1": NativeTools}
#: What a request's assembly says when programs may be run though nothing can confine them.
ALLOW_UNCONFINED: Final = "allow_unconfined_exec"


def _audit(messages: Sequence[Message]) -> str:
    from polyloop.audit.rulebook import reply

    return reply(messages)


#: Models that are programs, by the name after `rules:`.
PROGRAMS: Final[Mapping[str, Program]] = {"audit": _audit}


class Wiring(Struct, frozen=True):
    """One run's seams but the store's. `actions` makes the executor over the workers that all runs of a process share."""

    model: Model
    interpreter: Interpreter
    tools: Tools
    actions: Callable[[WorkerPool], Actions]
    sinks: tuple[Sink, ...] = ()
    #: Held for as long as the run is driven, so that no other run has it.
    workspace: Workspace | None = None
    #: Where its document tools find their documents.
    library: Library | None = None


def interpreter(protocol: str) -> Interpreter:
    """The interpreter of a protocol. Raises ProblemError(validation)."""
    make = INTERPRETERS.get(protocol)
    if make is None:
        known = ", ".join(INTERPRETERS)
        raise problem("validation", f"no such protocol: {protocol!r}. Known: {known}", operation="run", stage="arguments")
    return make()


def judged(request: Request, tools: Registry) -> tuple[Interpreter, Registry]:
    """How replies are read, and against which tools. A result that the request gives a schema is held to it, however it comes.

    Raises ProblemError (validation): an unknown protocol, a schema that is none, a run in which nothing gives a result.
    """
    reads, schema = interpreter(request.agent.protocol), request.result_schema
    if schema is None:
        return reads, tools
    completing = any(spec.completes for spec in tools.specs.values())
    if not isinstance(schema, dict) or not (completing or isinstance(reads, NativeTools)):
        raise bad_result("it must be an object, for a run that ends with a tool or, under native-tools/1, with a final answer")
    if completing:
        return reads, tools.giving(schema)
    shape = usable(schema)
    return NativeTools(lambda answer: problems_of(shape, answer)), tools


def request_for(plan: Plan) -> Request:
    """The kernel's request for a plan, under the policies of its tools. What the wiring depends on stands in `assembly`, so that it is

    compared on resume.
    """
    assembly = {
        "base": str(plan.base),
        "model": plan.model,
        "tools": json.dumps(list(plan.tools), ensure_ascii=False),
        "completes": json.dumps(list(plan.completes), ensure_ascii=False),
        "permission_mode": plan.permission_mode,
    }
    if plan.workspace is not None:
        assembly["workspace"] = str(plan.base / plan.workspace)
    if plan.allow_unconfined_exec:
        assembly[ALLOW_UNCONFINED] = "true"
    if plan.canvas is not None:
        assembly["canvas"] = plan.canvas
    if plan.spend:
        assembly["spend"] = plan.spend
    if plan.sub_model is not None:
        assembly["sub_model"] = plan.sub_model
    if plan.lang is not None:
        assembly["lang"] = plan.lang
    assembly |= marks(plan.skills)
    request = Request(
        uuid7() if plan.run_id is None else plan.run_id, plan.agent, plan.budget, plan.segments, plan.binding, plan.params, assembly,
        result_schema=plan.result_schema, overflow=plan.overflow, parent=plan.parent,
    )  # fmt: skip
    return with_policies(request, policy_ids(matching(plan.tools, catalogue(None, Library(), canvas=plan.canvas or ""))))


def catalogue(
    workspace: Workspace | None,
    library: Library,
    skills: Skills | None = None,
    canvas: str = "",
    *,
    unconfined: bool = False,
    vision: bool = False,
) -> dict[str, Tool]:
    """Tools by name that a request may ask for: what this build ships. Those of a canvas are there for a run that names one."""
    asks, below = AskUser(library.thread, canvas=bool(canvas)), SubRun(lambda: library.below)
    tools: dict[str, Tool] = {"submit": Submit(), "ask_user": asks, "sub_run": below, **document_tools(library.of)}
    if canvas:
        tools |= {**canvas_tools(library.canvases, canvas), **media_tools(library.media, canvas, vision=vision)}
    if workspace is not None:
        tools |= {**workspace_tools(workspace), "workspace_exec": exec_tool(workspace, allow_unconfined=unconfined)}
    return tools if skills is None else tools | skill_tools(skills)


def unseen(model: str) -> frozenset[str]:
    """Names of the shipped tools that a model does not have because it sees no pictures."""
    if gateway.settings().of(model).vision:
        return frozenset()
    all_of, some = (media_tools(Library().media, "any", vision=vision).keys() for vision in (True, False))
    return frozenset(all_of - some)


def skills_of(assembly: Mapping[str, str]) -> Skills | None:
    """The skills a run names: those shipped for audits, a folder, or installed ones."""
    said = assembly.get("skills")
    return frozen(assembly) if said is None else Skills(str(files("polyloop.audit") / "skills") if said == "audit" else said)


def _resolved(names: Sequence[str], completes: Sequence[str], known: dict[str, Tool], library: Library, base: str) -> Registry:
    """The tools of a run. With operations on documents or a canvas among them, `submit` holds a submission against the run's receipts."""
    tools = Registry.resolve(names, known, base, completes)
    if any(isinstance(tools.find(name), OperationTool) for name in tools.specs):
        tools = Registry.resolve(names, {**known, "submit": Submit(evidence=library.evidence)}, base, completes)
    return tools


def wire(plan: Plan, sinks: Sequence[Sink] = ()) -> Wiring:
    """Wire a plan. Raises ProblemError(validation) for an unknown model source, tool or protocol."""
    return rewire(request_for(plan), sinks)


def catalogue_specs() -> list[ToolSpec]:
    """The specs of all shipped tools, workspace tools included."""
    return list(Registry(catalogue(Workspace("."), Library(), Skills("."), "any").values()).specs.values())


def workspace_of(assembly: Mapping[str, str]) -> Workspace:
    """The workspace a run names, with its areas that are only read."""
    read_only = cast("list[str]", json.loads(assembly.get("workspace_read_only", "[]")))
    return Workspace(assembly["workspace"], read_only=read_only, answer_bytes=int(assembly.get("workspace_answer_bytes", ANSWER_BYTES)))


def rewire(request: Request, sinks: Sequence[Sink] = (), shared: Workspace | None = None) -> Wiring:
    """Wire a request from what it says of itself: its own assembly. The same for a new run and one found in a log.

    `shared`: its workspace, held by the caller from run to run.
    """
    assembly = request.assembly
    base = Path(assembly.get("base", "."))
    model = source(assembly.get("model", ""), lambda name: read_bytes(base / name), PROGRAMS)
    names, completes = (cast("list[str]", json.loads(assembly.get(key, "[]"))) for key in ("tools", "completes"))
    workspace = None if shared is not None or "workspace" not in assembly else workspace_of(assembly)
    own = shared or workspace
    library, canvas, sees = Library(own), assembly.get("canvas", ""), gateway.settings().of(assembly.get("model", "")).vision
    mode = cast(Mode, assembly.get("permission_mode", "auto"))
    library.run_id, library.spend, library.reads_only = request.run_id, assembly.get("spend", ""), mode == "read_only"
    known = catalogue(own, library, skills_of(assembly), canvas, unconfined=ALLOW_UNCONFINED in assembly, vision=sees)
    tools = _resolved(names, completes, known, library, str(base))
    reads, tools = judged(request, tools)
    return Wiring(model, reads, tools, executor(tools, mode), tuple(sinks), workspace, library)


def executor(tools: Registry, mode: Mode, own: Actions | None = None) -> Callable[[WorkerPool], Actions]:
    """The executor of a registry's tools, or a caller's own, under a permission mode. What the shipped `Submit` does is known: nothing."""
    saying = [name for name in tools.specs if isinstance(tools.find(name), Submit)]
    return lambda workers: Permitted(own or ToolActions(tools, workers=workers), tools.specs, mode, saying)


class LoggedTools:
    """The tools of a run as its log names them: enough to read its replies again, not to run anything."""

    def __init__(self, start: r.RunStarted) -> None:
        self.specs: Mapping[str, ToolSpec] = {
            t.name: ToolSpec(t.name, "", {"type": "object"}, t.effect, t.replay, t.kind, t.completes, t.timeout_s, t.result_limit)
            for t in start.tools
        }

    def problems(self, tool: str, args: Json) -> list[dict[str, Json]]:
        return []


class NoWorld:
    """Model and executor of a run that is only being ended: nothing is called; what was open cannot be told."""

    promises_completion = False

    async def call(self, request: ModelRequest) -> Reply:
        raise ModelCallFailed("no_model", sent=False)

    async def execute(self, action: Action) -> Outcome | Deferred:
        return Outcome("not_executed", code="withdrawn")

    async def settle(self, action: Action, token: str | None, fence: bool = False) -> Settled:  # noqa: FBT001, FBT002  # the seam's signature
        return Unknown()


def logged_wiring(start: r.RunStarted) -> Wiring:
    """Wiring for ending a run whose model or tools cannot be found any more."""
    world = NoWorld()
    return Wiring(world, interpreter(start.definition.interpreter), LoggedTools(start), lambda _: world)
