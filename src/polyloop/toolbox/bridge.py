"""Operations of the contract as tools of a run: what an answer means for the run, and the tools `doc_*` and `canvas_*`.

Theory of operation. A tool is made from a leaf: its schema is the leaf's arguments, its key the intent's. The answer of the
pipeline becomes an outcome by one table (`outcome`); its business status stands in the receipt alone (S0.19). `settle` is
reconcile: it asks and never sends. A list that is too long for the model is asked again with fewer items, so that what it
sees is whole JSON that says it is not complete, with a continuation to the first item not shown (S0.27, S0.34).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from ..canvas.doings import AGENT
from ..canvas.seam import Doing
from ..contract.approval import Decision
from ..contract.evidence import Evidence as Citable
from ..contract.evidence import Item
from ..contract.ledger import Entry
from ..contract.operation import Answer, shown
from ..contract.problem import Problem, ProblemError
from ..contract.receipt import Receipt, Status
from ..contract.session import Read
from ..contract.task import Ticket
from ..documents.leaves import ASIDE, OPERATIONS, PURPOSE
from ..journal.carry import Caller
from ..kernel.objects import Json, ToolSpec
from ..kernel.records import Evidence, Part
from ..kernel.seams import Action, Deferred, NotStarted, Outcome, Pending, Settled, Unknown
from ..media.runtime import AGENT as MEDIA
from ..media.seam import Tool as MediaTool

if TYPE_CHECKING:  # loaded when a document is first asked for
    from ..documents.runtime import DocRuntime

#: What a receipt's status means for the run.
_BY_STATUS: Final[dict[Status, str]] = {"success": "ok", "partial_success": "error", "failed": "error", "retryable": "error", "unknown": "unknown"}
#: A receipt that leaves nothing open.
_SETTLED: Final = frozenset({"success", "failed", "retryable"})
#: Problems that stopped a call before any step: kind -> how it counts. Others are errors.
_BY_KIND: Final = {
    "validation": ("not_executed", "args_invalid"), "permission_denied": ("not_executed", "denied"), "commit_unknown": ("unknown", "commit_unknown"),
}  # fmt: skip
#: Bytes of JSON around what is shown.
_ROOM: Final = 200
#: Bytes of one answer about a canvas: a page of nodes, one of connections, and what frames them.
_CANVAS_BYTES: Final = 160_000
LIST_MARK: Final = "listed"
#: Operations of several steps: what one left undone, another may go on with (S0.8).
_IN_PARTS: Final = frozenset({"create", "update", "checkpoint_update"})
_CONTINUES: Final = {"type": "string", "maxLength": 200, "description": "operationId of a partial success of the same call: only the rest is done"}
#: What ids of plans begin with, and what a run's question about one puts before it.
PLAN: Final = "plan-"
ASKED: Final = "ap_"


def outcome(answer: Answer, ref: str = "") -> Outcome | Deferred:
    """The outcome of an answer. `ref` = how a reading is cited."""
    wire, _ = shown(answer)
    parts = (Part(text=json.dumps(wire, ensure_ascii=False)),)
    if isinstance(answer, Receipt):
        code = "" if answer.ok else answer.status if answer.status in ("partial_success", "unknown") else answer.problem().kind
        return Outcome(cast(Any, _BY_STATUS[answer.status]), parts, evidence=(_receipt_evidence(answer),), code=code)
    if isinstance(answer, Ticket):
        if not answer.terminal:
            return Deferred(answer.task_id, "task", dispatched=True, prompt=wire)
        return Outcome(
            "ok" if answer.complete else "error", parts, evidence=(_ticket_evidence(answer),), code="" if answer.complete else "task_failed"
        )
    if isinstance(answer, Problem):
        if answer.kind == "confirmation_required" and "planId" in answer.details:
            return Deferred(f"{ASKED}{answer.details['planId']}", "approval", answer.details["expiresAt"], prompt=answer.details["plan"])
        status, code = _BY_KIND.get(answer.kind, ("error", answer.kind))
        return Outcome(cast(Any, status), parts, code=code)
    if answer.get("success") is True and "operationId" in answer:  # the receipt of an import
        return Outcome("ok", parts, evidence=(Evidence(answer["operationId"], "receipt", "success", complete=True),))
    cited = (Evidence(ref, "list", complete=answer["complete"]),) if ref else ()
    return Outcome("ok", parts, evidence=cited)


def _receipt_evidence(receipt: Receipt) -> Evidence:
    return Evidence(receipt.data["operationId"], "receipt", receipt.status, receipt.status in _SETTLED, complete=receipt.ok)


def _ticket_evidence(answer: Ticket) -> Evidence:
    return Evidence(answer.task_id, "ticket", answer.state, answer.terminal, complete=answer.complete)


def settled(entry: Entry | None, task: Ticket | None = None) -> Settled:
    """What a reconciliation proved. None = it never began; `task` = the one it began."""
    if entry is None:
        return NotStarted()
    receipt = entry.receipt
    if task is not None and receipt is not None and receipt.status != "unknown":
        return cast(Outcome, outcome(task)) if task.terminal else Pending(task.task_id)
    if receipt is None:
        return Pending(entry.operation_id)
    if receipt.status == "unknown":
        return Unknown()
    if receipt.status in ("failed", "retryable") and not receipt.execution_started:
        return NotStarted()
    return cast(Outcome, outcome(receipt))


def items(run: str, entries: list[Entry], lists: list[Read], tickets: list[Ticket]) -> list[Item]:
    """What a run may cite: its receipts, its tasks and its lists. A partial success that was gone on with, to success, is settled.

    Where an operation began a task, the task tells what is still open, and whether it is done (S0.24).
    """
    earlier, gone_on = {e.operation_id: e.continues for e in entries}, set[str]()
    for e in entries:
        here = e.continues if e.receipt and e.receipt.ok else ""
        while here and here not in gone_on:  # it may have gone on by stages
            gone_on.add(here)
            here = earlier.get(here, "")
    out = [Item(ref=e.operation_id, type="receipt", run=run, status="running", settled=False, complete=False) for e in entries if e.receipt is None]
    begun = {t.task_id: t for t in tickets}
    for e in entries:
        if e.receipt is not None:
            task = begun.get(str(e.receipt.data.get("taskId")))
            done = e.receipt.status in _SETTLED or e.operation_id in gone_on or task is not None
            complete = e.receipt.ok if task is None else task.complete
            out.append(Item(ref=e.operation_id, type="receipt", run=run, status=e.receipt.status, settled=done, complete=complete))
    out += [Item(ref=t.task_id, type="ticket", run=run, status=t.state, settled=t.terminal, complete=t.complete) for t in tickets]
    return out + [Item(ref=read.id, type="list", run=run, complete=read.level == 1) for read in lists]


class Subject(Protocol):
    """What a subject's runtime offers its tools: documents, canvases."""

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller) -> Answer: ...
    async def settle(self, key: str) -> Entry | None: ...
    async def task(self, task_id: str) -> Ticket: ...
    async def note(self, session: str, *facts: Read) -> None: ...
    async def decide(self, plan_id: str, decision: Decision, *, by: str) -> Any: ...


class Gallery(Subject, Protocol):
    """A subject with pictures."""

    async def file(self, node_id: str, caller: Caller) -> tuple[str, bytes]:
        """Media type and bytes of the file on a node. Raises not_found."""
        ...


class OperationTool(Struct, frozen=True):
    """A handler for a registry. `of(tenant)` = the subject's things of a tenant; the run's id is its session there. `within` = what the
    run is bound to; `policy` = what a run that has it is told about its use.
    """

    name: str
    of: Callable[[str], Subject]
    spec: ToolSpec
    policy: str
    within: str = ""
    idempotent: bool = True

    async def run(self, action: Action) -> Outcome | Deferred:
        subject = self.of(action.scope)
        caller = Caller(session=action.run_id, key=action.key if self.spec.effect == "write" else "", within=self.within)
        if action.approved and action.token.startswith(ASKED + PLAN):
            plan_id = action.token.removeprefix(ASKED)
            await subject.decide(plan_id, "approved", by="run")
            caller = replace(caller, plan_id=plan_id)
        elif action.approved:
            caller = replace(caller, approved_by="run")
        answer = await self._fitting(subject, dict(action.args), caller)
        if isinstance(answer, Ticket) and self.spec.effect == "read":  # asked how it stands: that it is open is an answer
            return Outcome("ok", (Part(text=json.dumps(shown(answer)[0], ensure_ascii=False)),), evidence=(_ticket_evidence(answer),))
        if not isinstance(answer, dict) or "items" not in answer:
            return outcome(answer)
        ref = f"list_{action.key[:16]}"
        await subject.note(action.run_id, Read(LIST_MARK, ref, level=int(answer["complete"])))
        return outcome({**answer, "ref": ref}, ref)

    async def _fitting(self, subject: Subject, args: dict[str, Any], caller: Caller) -> Answer:
        """The answer, asked for again with less until the model can be shown all of it."""
        answer = await subject.call(self.name, args, caller)
        room = self.spec.result_limit - _ROOM
        while isinstance(answer, dict) and (size := len(json.dumps(answer, ensure_ascii=False).encode())) > room:
            if answer.get("count", 0) > 1:
                args = {**args, "maxItems": max(1, min(answer["count"] - 1, answer["count"] * room // size))}
            elif self.name == "fetch" and args.get("maxChars", size) > 1:
                args = {**args, "maxChars": max(1, min(args.get("maxChars", size) // 2, room * 2 // 3))}
            else:
                return Problem(
                    "invalid_response", f"{size} bytes in one piece, and only {room} can be shown", operation=self.spec.name, stage="output"
                )
            answer = await subject.call(self.name, args, caller)
        return answer

    @property
    def settle(self) -> Callable[[Action, str | None, bool], Awaitable[Settled]] | None:
        return self._settle if self.spec.effect == "write" else None

    async def _settle(self, action: Action, token: str | None, fence: bool) -> Settled:  # noqa: FBT001  # the seam's signature
        try:
            subject = self.of(action.scope)
            entry = await subject.settle(action.key)
            begun = entry.receipt.data.get("taskId") if entry and entry.receipt else None
            task = await subject.task(begun) if begun else None
            if task is not None and fence and token == task.task_id and not task.terminal:  # nobody waits for it any more, and it goes on
                return Outcome("unknown", (Part(text=json.dumps(shown(task)[0], ensure_ascii=False)),), evidence=(_ticket_evidence(task),))
            return settled(entry, task)
        except ProblemError:
            return Unknown()  # a service that cannot be asked


class LookingTool(OperationTool, frozen=True, kw_only=True):
    """A reading whose answer is followed by the picture itself, byte for byte, for a model that sees (S1.69)."""

    gallery: Callable[[str], Gallery]

    async def run(self, action: Action) -> Outcome | Deferred:
        told = await super().run(action)
        if not isinstance(told, Outcome) or told.status != "ok":
            return told
        mime, data = await self.gallery(action.scope).file(str(action.args["nodeId"]), Caller(session=action.run_id, within=self.within))
        picture = Part(type="image", text=f"data:{mime};base64,{base64.b64encode(data).decode()}", mime=mime)
        return replace(told, observation=(*told.observation, picture))


def document_tools(of: Callable[[str], Subject]) -> dict[str, OperationTool]:
    """The tools `doc_*`, one for each operation."""
    return {f"doc_{name}": OperationTool(name, of, _spec(name), "documents") for name in PURPOSE}


def canvas_tools(of: Callable[[str], Subject], canvas_id: str) -> dict[str, OperationTool]:
    """The tools `canvas_*` for the canvas a run is bound to: what an agent may do there, and nothing that is for people alone."""
    return {name: OperationTool(name, of, _canvas_spec(doing), "canvas", canvas_id) for name, doing in AGENT.items()}


def media_tools(of: Callable[[str], Gallery], canvas_id: str, *, vision: bool) -> dict[str, OperationTool]:
    """The tools of media for that canvas. Looking at a picture is there only for a model that sees."""
    made = {name: OperationTool(name, of, _media_spec(name, tool), "canvas", canvas_id) for name, tool in MEDIA.items() if not tool.vision}
    looks = {name: tool for name, tool in MEDIA.items() if tool.vision and vision}
    return made | {name: LookingTool(name, of, _media_spec(name, tool), "canvas", canvas_id, gallery=of) for name, tool in looks.items()}


def _media_spec(name: str, tool: MediaTool) -> ToolSpec:
    writes = tool.op.effect != "read"
    schema = cast("dict[str, Json]", tool.op.arguments.raw)
    return ToolSpec(name, tool.purpose, schema, "write" if writes else "read", "probe" if writes else "rerun", "async", defers=writes)


def _canvas_spec(doing: Doing) -> ToolSpec:
    writes = doing.op.effect != "read"
    schema = cast("dict[str, Json]", doing.op.arguments.raw)
    return ToolSpec(
        doing.tool, doing.purpose, schema, "write" if writes else "read", "probe" if writes else "rerun", "async", result_limit=_CANVAS_BYTES,
        defers=writes,
    )  # fmt: skip


def _spec(name: str) -> ToolSpec:
    op = OPERATIONS.get(name)
    schema = op.arguments.raw if op else ASIDE[name].raw
    if name in _IN_PARTS:
        schema = {**schema, "properties": {**schema["properties"], "continues": _CONTINUES}}
    writes = name == "compensate" or (op is not None and op.effect == "write")
    return ToolSpec(
        f"doc_{name}", PURPOSE[name], cast("dict[str, Json]", schema), "write" if writes else "read", "probe" if writes else "rerun", "async",
        defers=writes,
    )  # fmt: skip


async def citable(documents: DocRuntime, run: str, more: Iterable[Item] = (), tickets: Iterable[Ticket] = ()) -> Citable:
    """What a run may cite, from the journal's record of it; `tickets` = tasks of other subjects, `more` = what else there is."""
    entries, lists, own = await documents.entries(run), await documents.readings(run, LIST_MARK), await documents.tasks(run)
    return Citable([*items(run, entries, lists, [*own, *tickets]), *more])
