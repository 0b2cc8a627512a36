"""Tasks of media: what is kept of one, and how it is told. Status, write-back and billing are three things and never one word.

| the task | its node | its money |
|---|---|---|
| queued, running, unknown, succeeded, failed, cancelled | "", applied, not_applied(reason) | free, reserve, uncertain, settle, refund |

"Complete" is told only of a task that succeeded *and* whose file was read again just now, with the same hash (S1.36, S1.37).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from ..contract.problem import Problem, ProblemError, problem
from ..contract.spend import MICRO, Charge
from ..contract.task import Ticket, ticket
from ..db import Tx, tasks
from ..db.tasks import NEVER, Task
from ..journal import spending
from . import limits
from .provider import Job, Mode, Reference, Work
from .seam import Surface
from .store import add_to_batch, asset_bytes, find_asset, of_batch, tasks_of_canvas, to_be_cancelled

#: When a row of a batch is due that waits for others to end.
WAITING: Final = NEVER - 1
KINDS: Final = ("media.image", "media.video", "media.audio", "media.layers")


class Spec(Struct, frozen=True, kw_only=True):
    """The work, as it was approved. `references` = sha256 of the files given along; `method` and `points`: for taking a picture apart."""

    mode: Mode
    channel: str
    key: str
    prompt: str
    width: int = 0
    height: int = 0
    seconds: float = 0
    sound: bool = False
    quality: str = ""
    references: tuple[str, ...] = ()
    synthetic: bool = False
    method: str = ""
    points: tuple[tuple[float, float], ...] = ()


class Body(Struct, frozen=True, kw_only=True):
    """What is kept of a task beside its state. `submission`: "" (not yet), intended, accepted, refused, unknown. `results` = sha256 of
    the files, `layers` their names; `cancelled` = its provider has answered whether it stops. `silent` = since when nothing is told of it
    (epoch ms, 0 = all is told), `misses` = how often. `order` = the charge it was reserved under, "" = it is free. `maker` =
    who its channel was when it was approved: nobody else is sent it.
    """

    canvas: str
    owner: str
    node: str
    title: str
    operation: str
    spec: Spec
    at: int
    order: str = ""
    source: str = ""
    reserved: int = 0
    maker: Mapping[str, str] = {}
    submission: str = ""
    job: Job | None = None
    silent: int = 0
    misses: int = 0
    results: tuple[str, ...] = ()
    layers: tuple[dict[str, Any], ...] = ()
    writeback: str = ""
    reason: str = ""
    cancelled: bool = False
    batch: str = ""
    concurrency: int = 0
    error: Problem | None = None


class MediaTicket(Ticket, frozen=True, kw_only=True, rename="camel"):
    """A ticket, and where everything stands: `writeback{outcome, reason}`, `billing{state, credits, ...}`, `submission{outcome}`. Of a
    cancelled task, who wished it: `cancellationSource` person or provider.
    """

    node_id: str = ""
    title: str = ""
    synthetic: bool = False
    submission: dict[str, Any] = field(default_factory=dict[str, Any])
    writeback: dict[str, Any] = field(default_factory=dict[str, Any])
    billing: dict[str, Any] = field(default_factory=dict[str, Any])
    cancellation_source: Literal["person", "provider"] | UnsetType = UNSET


def body_of(task: Task) -> Body:
    return msgspec.json.decode(task.body, type=Body)


def text_of(body: Body) -> str:
    return msgspec.json.encode(body).decode()


def missing(task_id: str) -> ProblemError:
    """The same for what is not there and what is another's (S1.67)."""
    return problem("not_found", f"there is no task {task_id!r}", stage="resolve", details={"taskId": task_id})


def find(tx: Tx, tenant: str, owner: str, canvas: str, task_id: str) -> tuple[Task, Body]:
    """Raises not_found unless it is a task of this owner on this canvas."""
    task = tasks.find(tx, tenant, task_id) if known(tx, tenant, owner, canvas, task_id) else None
    if task is None:
        raise missing(task_id)
    return task, body_of(task)


def known(tx: Tx, tenant: str, owner: str, canvas: str, task_id: str, session: str = "") -> bool:
    """Whether `find` finds it, and it is of this session, where one is said."""
    task = tasks.find(tx, tenant, task_id)
    body = body_of(task) if task and task.kind in KINDS and session in ("", task.session) else None
    return body is not None and (body.owner, body.canvas) == (owner, canvas)


def ended(task: Task) -> bool:
    return ticket(task.id, task.kind, task.state).terminal


def work_of(tx: Tx, task: Task, body: Body) -> Work:
    """What is asked of a provider. Raises as `asset_bytes`."""
    given = [(find_asset(tx, task.tenant, sha), asset_bytes(tx, task.tenant, sha)) for sha in body.spec.references]
    found = tuple(Reference(asset.mime, data) for asset, data in given if asset)
    if len(found) < len(given):
        raise problem("not_found", "a file that is to be given along is not kept here", stage="resolve")
    return replace(shape_of(task, body), references=found)


def shape_of(task: Task, body: Body) -> Work:
    """What the result must be: the work without what is given along."""
    spec = body.spec
    return Work(
        id=task.id, mode=spec.mode, model=spec.key, prompt=spec.prompt, width=spec.width, height=spec.height, seconds=spec.seconds,
        sound=spec.sound, quality=spec.quality,
    )  # fmt: skip


def told(tx: Tx, task: Task, body: Body, surface: Surface | None) -> MediaTicket:
    """A task as it stands, its file read again and its nodes looked for. A file that cannot be read is no result. `surface` None = its canvas

    is gone.
    """
    result, error = None, body.error
    if task.state == "succeeded":
        try:
            result = _result(tx, task, body)
        except ProblemError as stop:
            error = stop.problem
    made = MediaTicket(
        task_id=task.id, kind=task.kind, state=task.state, complete=result is not None, node_id=body.node, title=body.title,
        result=UNSET if result is None else result, synthetic=body.spec.synthetic, submission=_submission(body),
        writeback=_writeback(body, surface), billing=billing(tx, task.tenant, body), cancellation_source=_canceller(tx, task),
    )  # fmt: skip
    return made if error is None else replace(made, error=error)


def standing(tx: Tx, tenant: str, canvas: str, task_id: str, node_id: str) -> dict[str, Any]:
    """What an ended task has put on this node of its canvas, or would have; {} = nothing."""
    task = tasks.find(tx, tenant, task_id)
    if task is None or task.kind not in KINDS or not ended(task):
        return {}
    body = body_of(task)
    names = nodes_of(body)
    if body.canvas != canvas or node_id not in names:
        return {}
    found = find_asset(tx, tenant, body.results[names.index(node_id)]) if body.results else None
    return {"task": {"taskId": task.id, "status": task.state}, **({"asset": found.body} if found else {})}


def arrived(tx: Tx, tenant: str, canvas: str, task_id: str, node_id: str) -> None:
    """Its one file is on its node after all. (Layers are delivered together or not at all.)"""
    if standing(tx, tenant, canvas, task_id, node_id) and (task := tasks.find(tx, tenant, task_id)):
        body = body_of(task)
        if not body.layers:
            tasks.withdraw(tx, task._replace(body=text_of(replace(body, writeback="applied", reason=""))))


def nodes_of(body: Body) -> list[str]:
    """The nodes of its results, in their order."""
    return [layer["nodeId"] for layer in body.layers] or [body.node]


def numbered(first: str, count: int) -> list[str]:
    """The nodes of several results, named after that of the first."""
    return [first, *(f"{first[: limits.NODE_ID - len(tail)]}{tail}" for tail in (f"_{n}" for n in range(2, count + 1)))]


def layer_title(body: Body, layer: Mapping[str, Any]) -> str:
    return f"{body.title} · {layer['name']}"[: limits.TITLE]


def _result(tx: Tx, task: Task, body: Body) -> dict[str, Any]:
    found = [(find_asset(tx, task.tenant, sha), asset_bytes(tx, task.tenant, sha)) for sha in body.results]
    assets = [asset.body for asset, _ in found if asset]
    if not assets or len(assets) < len(body.results):
        raise problem("not_found", "the file of this result is not there", stage="read")
    if body.layers:
        layers = [{**layer, "asset": asset} for layer, asset in zip(body.layers, assets, strict=True)]
        return {"method": body.spec.method, "layers": layers, "nodeIds": [layer["nodeId"] for layer in body.layers]}
    return {"nodeId": body.node, "asset": assets[0]}


def _canceller(tx: Tx, task: Task) -> Literal["person", "provider"] | UnsetType:
    return UNSET if task.state != "cancelled" else "person" if to_be_cancelled(tx, task.tenant, task.id) else "provider"


def _submission(body: Body) -> dict[str, Any]:
    job = {"providerRequestId": body.job.request_id} if body.job and body.job.request_id else {}
    return {"outcome": body.submission or "not_submitted", **job}


def gone(body: Body, surface: Surface | None) -> str:
    """Why what was put on nodes is not, or not all, there any more; "" = it is, or never was."""
    if body.writeback != "applied":
        return ""
    return "canvas_gone" if surface is None else "" if all(surface.seen(name) for name in nodes_of(body)) else "node_gone"


def _writeback(body: Body, surface: Surface | None) -> dict[str, Any]:
    lost = gone(body, surface)
    outcome, reason = ("not_applied", lost) if lost else (body.writeback or "pending", body.reason)
    return {"outcome": outcome, **({"reason": reason} if reason else {}), "nodeId": body.node}


def billing(tx: Tx, tenant: str, body: Body) -> dict[str, Any]:
    """What has become of the money: read from the charges themselves."""
    if not body.order:
        return {"state": "free", "credits": "0"}
    last = spending.charges(tx, tenant, "order_id", body.order)[-1]
    return {"state": STATES[last.kind], "orderId": body.order, "credits": credits_of(last.amount_micro), "source": last.source}


def charged(tx: Tx, tenant: str, scope: str, subject: str) -> list[Charge]:
    """What was charged for the tasks of a canvas or of a session, whoever allowed it, in the order they were begun."""
    found = (
        [tasks.find(tx, tenant, task) for task in tasks_of_canvas(tx, tenant, subject)]
        if scope == "canvas"
        else tasks.of_session(tx, tenant, subject)
    )
    own = [task for task in found if task and task.kind in KINDS]
    orders = dict.fromkeys(order for task in own if (order := body_of(task).order))
    return [charge for order in orders for charge in spending.charges(tx, tenant, "order_id", order)]


#: How the kinds of charges are told.
STATES: Final = {"reserve": "reserved", "uncertain": "uncertain", "settle": "settled", "refund": "refunded"}


def credits_of(amount_micro: int) -> str:
    """Exact: 1500000 -> "1.5"."""
    whole, part = divmod(amount_micro, MICRO)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".")


def charge(body: Body, kind: Any) -> Charge:
    return Charge(body.order, body.source, kind, body.reserved)


def add(tx: Tx, tenant: str, task_id: str, session: str, body: Body, place: int = 0) -> Task:
    """`place` in its batch, from 1: one over the number of rows that may be under way waits for another to end."""
    kind = "media.layers" if body.spec.method else f"media.{body.spec.mode}"
    due = WAITING if place > body.concurrency else body.at
    task = Task(tenant, task_id, kind, "queued", session, 0, due, text_of(body))
    tasks.add(tx, task)
    if body.batch:
        add_to_batch(tx, tenant, body.batch, place, task_id)
    return task


def next_of_batch(tx: Tx, tenant: str, body: Body, now: int) -> None:
    """Let the next rows of a batch begin, as many as its plan allows. A row of which nothing is known is not under way."""
    if body.batch:
        live = [(task, state, due) for task, state, due in of_batch(tx, tenant, body.batch) if due < NEVER]
        free = body.concurrency - sum(1 for _, state, due in live if due != WAITING and state != "unknown")
        for task in [task for task, _, due in live if due == WAITING]:
            if free <= 0:
                break
            free -= tasks.wake(tx, tenant, task, WAITING, now)


def end_of(task: Task, state: str, body: Body) -> Task:
    return task._replace(state=state, due=NEVER, body=text_of(body))
