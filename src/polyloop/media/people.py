"""What people alone do with media: bring a file onto the canvas, cancel a task, run a batch plan. No agent is ever given these."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..contract.leaf import Conclusion, Prepared
from ..contract.problem import FieldProblem, ProblemError, bad_arguments
from ..contract.receipt import Compensation, compared
from ..contract.session import Issued, Need, Read
from ..contract.snapshot import digest
from ..contract.spend import ChargeKind
from ..db import tasks as rows
from ..journal import spending
from . import store, tasks
from .leaves import BATCH_RUN, CANCEL, RECOVER, SETTLE, UPLOAD
from .picture import libraries
from .provider import Facts
from .seam import CANVAS_READ, NODE, Asked, Batch, BatchRow, Placed, Plan, Tool
from .tasks import Body
from .wishes import Draft, Given, chosen, idle, intent_of, maker_of, new_node, priced, spec_of, standing, wish_of

_STAYS: Final = Compensation(reason="the node is deleted by a person")


# --- a file ----------------------------------------------------------------------------------------------------------


class _File(Struct, frozen=True):
    """A file that was brought, and what it proved to be."""

    data: bytes
    facts: Facts


def _brought(arguments: dict[str, Any]) -> _File:
    """Decoded from end to end: before the transaction. Raises ProblemError (validation, type_mismatch)."""
    try:
        data = base64.b64decode(arguments["file"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad_arguments([FieldProblem("file", "format", "this is no base64")]) from error
    with libraries():
        from .verify import recognised
    return _File(data, recognised(data))


def _upload(asked: Asked) -> Plan:
    about: dict[str, Any] = {"target": {"canvasId": asked.canvas_id, "nodeId": asked.args["nodeId"]}, "target_id": asked.canvas_id}
    if problems := new_node(asked):
        return idle(Prepared(**about, problems=tuple(problems)))
    if not isinstance(asked.ready, _File):
        raise ProblemError(asked.ready)
    data, facts = asked.ready.data, asked.ready.facts
    about["resolved"] = msgspec.to_builtins(facts)

    def act(step_id: str) -> dict[str, Any]:
        asset = store.add_asset(asked.tx, asked.tenant, data, facts, synthetic=False)
        node = Placed(id=asked.args["nodeId"], type=asset.mode, title=asked.args["title"], body={"asset": asset.body})
        asked.surface.place([node], actor=asked.actor, operation=asked.call.operation_id, at=asked.call.now_ms)
        return {"nodeId": node.id, "snapshotHash": asked.surface.content_hash, "asset": asset.body}

    def end(reply: dict[str, Any]) -> Conclusion:
        seen = asked.surface.seen(reply["nodeId"])
        proof = compared("readback", digest(reply["asset"]), digest(seen.asset if seen else None))
        known = (Read(CANVAS_READ, asked.canvas_id, 1, asked.surface.content_hash), Issued(NODE, (reply["nodeId"],), asked.canvas_id))
        return Conclusion(data={"canvasId": asked.canvas_id, **reply}, proofs=(proof,), facts=known, compensation=_STAYS)

    return Plan(prepared=Prepared(**about), act=act, end=end)


# --- an end before its time ------------------------------------------------------------------------------------------


def _cancel(asked: Asked) -> Plan:
    """A task nobody has submitted ends at once and costs nothing; one that was is asked to end, and ends as its provider says."""
    task, body = tasks.find(asked.tx, asked.tenant, asked.caller.owner, asked.canvas_id, asked.args["taskId"])
    about: dict[str, Any] = {"target": {"canvasId": asked.canvas_id, "taskId": task.id}, "target_id": task.id}
    if tasks.ended(task):
        problem = FieldProblem("taskId", "ended", f"this task is {task.state}")
        return idle(Prepared(**about, problems=(problem,)))
    untouched = body.submission == ""

    def act(step_id: str) -> dict[str, Any]:
        store.ask_to_cancel(asked.tx, asked.tenant, task.id)
        if not untouched:
            return {"taskId": task.id, "state": task.state}
        where = asked.surface.deliver(
            body.node, task.id, {"task": {"taskId": task.id, "status": "cancelled"}}, operation=body.operation, at=asked.call.now_ms
        )  # fmt: skip
        over = replace(body, writeback="not_applied" if where else "applied", reason=where)
        if body.order:
            asked.rooms.charge(asked.tx, tasks.charge(body, "refund"), task.session, asked.call.now_ms)
        rows.withdraw(asked.tx, tasks.end_of(task, "cancelled", over))
        tasks.next_of_batch(asked.tx, asked.tenant, over, asked.call.now_ms)
        return {"taskId": task.id, "state": "cancelled"}

    def end(reply: dict[str, Any]) -> Conclusion:
        found = rows.find(asked.tx, asked.tenant, task.id)
        kept = [found.state if found else "", store.to_be_cancelled(asked.tx, asked.tenant, task.id)]
        proof = compared("readback", digest([reply["state"], True]), digest(kept))
        return Conclusion(data={"canvasId": asked.canvas_id, **reply}, proofs=(proof,), compensation=Compensation(reason="a cancelled task stays so"))

    return Plan(prepared=Prepared(**about), act=act, end=end)


def _settle(asked: Asked) -> Plan:
    """A task nobody can tell anything of, ended by a person's word: what the provider's bill says."""
    task, body = tasks.find(asked.tx, asked.tenant, asked.caller.owner, asked.canvas_id, asked.args["taskId"])
    about: dict[str, Any] = {"target": {"canvasId": asked.canvas_id, "taskId": task.id}, "target_id": task.id}
    if task.state != "unknown":
        return idle(Prepared(**about, problems=(FieldProblem("taskId", "not_unknown", f"this task is {task.state}"),)))
    kind: ChargeKind = "settle" if asked.args["as"] == "charged" else "refund"

    def act(step_id: str) -> dict[str, Any]:
        content = {"task": {"taskId": task.id, "status": "failed"}}
        where = asked.surface.deliver(body.node, task.id, content, operation=body.operation, at=asked.call.now_ms)
        if body.order:
            asked.rooms.charge(asked.tx, tasks.charge(body, kind), task.session, asked.call.now_ms)
        over = replace(body, writeback="not_applied" if where else "applied", reason=where)
        rows.withdraw(asked.tx, tasks.end_of(task, "failed", over))
        tasks.next_of_batch(asked.tx, asked.tenant, over, asked.call.now_ms)
        return {"taskId": task.id, "state": "failed"}

    def end(reply: dict[str, Any]) -> Conclusion:
        found = rows.find(asked.tx, asked.tenant, task.id)
        money = tasks.billing(asked.tx, asked.tenant, tasks.body_of(found)) if found else {}
        wanted = tasks.STATES[kind] if body.order else "free"
        proof = compared("readback", digest(["failed", wanted]), digest([found.state if found else "", money.get("state")]))
        return Conclusion(
            data={"canvasId": asked.canvas_id, **reply, "billing": money}, proofs=(proof,), compensation=Compensation(reason="it is a bill")
        )

    return Plan(prepared=Prepared(**about, resolved={"as": asked.args["as"]}), act=act, end=end)


# --- a result without a node -----------------------------------------------------------------------------------------


def _recover(asked: Asked) -> Plan:
    """What of a result is on no node any more, on new ones; it was paid for and costs nothing. (As a new node: nothing is written over.)"""
    task, body = tasks.find(asked.tx, asked.tenant, asked.caller.owner, asked.canvas_id, asked.args["taskId"])
    about: dict[str, Any] = {"target": {"canvasId": asked.canvas_id, "taskId": task.id}, "target_id": asked.canvas_id}
    assets = [store.find_asset(asked.tx, asked.tenant, sha) for sha in body.results]
    before = tasks.nodes_of(body)
    lost = [n for n, name in enumerate(before[: len(assets)]) if body.writeback != "applied" or not asked.surface.seen(name)]
    found = [asset for n in lost if (asset := assets[n])]
    names = tasks.numbered(asked.args["nodeId"], len(lost))
    problems = [FieldProblem("nodeId", "exists", "nothing is written over") for name in names if asked.surface.seen(name)][:1]
    if task.state != "succeeded" or len(found) < len(lost) or not assets:
        problems = [FieldProblem("taskId", "no_result", f"this task is {task.state}, and its files are not all there")]
    elif not lost:
        problems = [FieldProblem("taskId", "delivered", "its result is on the canvas")]
    if problems:
        return idle(Prepared(**about, problems=tuple(problems)))
    renamed = dict(zip([before[n] for n in lost], names, strict=True))
    layers = tuple({**layer, "nodeId": renamed.get(layer["nodeId"], layer["nodeId"])} for layer in body.layers)
    state = {"taskId": task.id, "status": task.state}
    titles = [tasks.layer_title(body, layers[n]) if layers else body.title for n in lost]
    placed = [
        Placed(id=name, type=asset.mode, title=title, body={"prompt": body.spec.prompt, "asset": asset.body, "task": state})
        for name, title, asset in zip(names, titles, found, strict=True)
    ]

    def act(step_id: str) -> dict[str, Any]:
        asked.surface.place(placed, actor=asked.actor, operation=asked.call.operation_id, at=asked.call.now_ms)
        over = replace(body, node=renamed.get(body.node, body.node), layers=layers, writeback="applied", reason="")
        rows.withdraw(asked.tx, task._replace(body=tasks.text_of(over)))
        return {"taskId": task.id, "nodeIds": names, "snapshotHash": asked.surface.content_hash}

    def end(reply: dict[str, Any]) -> Conclusion:
        there = [seen.asset if (seen := asked.surface.seen(name)) else None for name in reply["nodeIds"]]
        proof = compared("readback", digest([asset.body for asset in found]), digest(there))
        known = (Read(CANVAS_READ, asked.canvas_id, 1, asked.surface.content_hash), Issued(NODE, tuple(names), asked.canvas_id))
        return Conclusion(data={"canvasId": asked.canvas_id, **reply}, proofs=(proof,), facts=known, compensation=_STAYS)

    return Plan(prepared=Prepared(**about), act=act, end=end)


# --- a batch plan ----------------------------------------------------------------------------------------------------


def _batch(asked: Asked) -> Plan:
    """Every enabled row a task, under one approval of the whole list and its whole price; so many at a time as the plan says."""
    node = asked.node("nodeId", asked.args["nodeId"])
    found = asked.surface.batch(node.id)
    about: dict[str, Any] = {"target": {"canvasId": asked.canvas_id, "nodeId": node.id}, "target_id": asked.canvas_id}
    if found is None:
        return idle(Prepared(**about, problems=(FieldProblem("nodeId", "not_batch", "this node is no batch plan"),)))
    problems = [FieldProblem(*each) for each in found.problems]
    if not found.rows and not problems:
        problems.append(FieldProblem("nodeId", "no_rows", "no row of this plan is enabled"))
    drafts: list[Draft] = []
    for n, row in enumerate(found.rows):
        draft, wrong = _row_draft(asked, row.inputs, row.prompt)
        problems += [FieldProblem(f"rows[{n}].{p.field}", p.issue, p.message) for p in wrong]
        drafts += [draft] if draft else []
    if problems:
        return idle(Prepared(**about, problems=tuple(problems)))
    known = _standing(asked, found.rows, drafts)
    if len(known) == len(drafts) and len(of := {body.operation for _, body in known.values()}) == 1:
        return replace(idle(Prepared(**about)), repeats=of.pop())
    total = sum(d.quote.amount_micro for r, d in zip(found.rows, drafts, strict=True) if r.id not in known)
    quote = replace(drafts[0].quote, amount_micro=total)
    shown = {"rows": [_row_shown(r, d, known.get(r.id)) for r, d in zip(found.rows, drafts, strict=True)], "credits": tasks.credits_of(total),
             "concurrency": found.concurrency}  # fmt: skip
    files = tuple(sha for d in drafts for sha in d.refs.files)
    about |= {
        "resolved": shown,
        "quote": quote,
        "assets": (found.hash, *files),
        "confirm": True,
        "needs": (Need("nodeId", CANVAS_READ, asked.canvas_id),),
    }

    def act(step_id: str) -> dict[str, Any]:
        return _queue_all(asked, node.id, found, drafts, known, step_id)

    return Plan(prepared=Prepared(**about), act=act, end=lambda reply: _batch_end(asked, reply))


def _row_draft(asked: Asked, inputs: tuple[str, ...], prompt: str) -> tuple[Draft | None, list[FieldProblem]]:
    seen = [asked.node("inputNodeIds", node_id) for node_id in inputs]
    unready = [
        FieldProblem("inputNodeIds", "not_ready", f"{s.id} has no file")
        for s in seen
        if not store.kept(asked.tx, asked.tenant, store.sha_of(s.asset))
    ]
    refs = Given(nodes=tuple(seen), recipes=(), problems=())
    model, wrong = chosen(asked, "image", refs, splits=False, listed=False)
    if model is None or wrong or unready:
        return None, [*unready, *wrong]
    wish, quote, unable = priced(model, asked.args, prompt)
    if quote is None:
        return None, unable
    return Draft(model=model, spec=spec_of(model, wish, prompt, refs), quote=quote, refs=refs, sources=inputs, maker=maker_of(asked, model)), []


_Standing = dict[str, tuple[str, Body]]


def _standing(asked: Asked, plan: Sequence[BatchRow], drafts: Sequence[Draft]) -> _Standing:
    """By row, the task that is its wish already, alive or done: it is not paid for again. Each task stands for one row, first for the one

    whose result it is: rows that are alike are as many pictures.
    """
    out: _Standing = {}
    for own in (True, False):
        for row, draft in zip(plan, drafts, strict=True):
            taken = {task for task, _ in out.values()}
            free = (one for one in standing(asked, draft, _intent(draft)) if one[0] not in taken and (not own or one[1].node == row.output))
            if row.id not in out and (one := next(free, None)):
                out[row.id] = one
    return out


def _intent(draft: Draft) -> str:
    return intent_of("image", draft.spec.prompt, draft.refs.files)


def _row_shown(row: BatchRow, draft: Draft, known: tuple[str, Body] | None) -> dict[str, Any]:
    return {"rowId": row.id, **draft.resolved, **({"credits": "0", "taskId": known[0], "nodeId": known[1].node} if known else {})}


def _queue_all(asked: Asked, node_id: str, found: Batch, drafts: list[Draft], known: _Standing, step_id: str) -> dict[str, Any]:
    now, whole = asked.call.now_ms, f"{step_id.rpartition('/')[0]}/pay"
    last = spending.charges(asked.tx, asked.tenant, "order_id", whole)[-1]
    # Each row has a reservation of its own, settled or refunded by itself; that of the whole is given back first, for a cap counts both.
    asked.rooms.charge(asked.tx, replace(last, kind="refund"), asked.caller.session, now)
    ids = {row.id: f"task_{digest([asked.tenant, step_id, row.id])[:24]}" for row in found.rows} | {row: task for row, (task, _) in known.items()}
    made = {row.id: known[row.id][1].node if row.id in known else f"n_{digest([ids[row.id]])[:20]}" for row in found.rows}
    placed: list[Placed] = []
    for n, (row, draft) in enumerate(zip(found.rows, drafts, strict=True), 1):
        if row.id in known:
            continue
        order = replace(last, order=f"{whole}/{n}", amount_micro=draft.quote.amount_micro)
        asked.rooms.charge(asked.tx, order, asked.caller.session, now)
        body = tasks.Body(
            canvas=asked.canvas_id, owner=asked.caller.owner, node=made[row.id], title=f"{found.title} {n}"[:240],
            operation=asked.call.operation_id, spec=draft.spec, at=now, order=order.order, source=order.source, reserved=order.amount_micro,
            batch=step_id, concurrency=found.concurrency, maker=draft.maker,
        )  # fmt: skip
        placed.append(_queued_row(asked, ids[row.id], body, draft, len(placed) + 1))
    asked.surface.place(placed, actor=asked.actor, operation=asked.call.operation_id, at=now)
    asked.surface.outputs(node_id, made, actor=asked.actor, operation=asked.call.operation_id, at=now)
    told = [{"rowId": row.id, "taskId": ids[row.id], "nodeId": made[row.id], "existing": row.id in known} for row in found.rows]
    state = "queued" if placed else "existing"
    return {"nodeId": node_id, "taskIds": [row["taskId"] for row in told], "state": state, "rows": told, "snapshotHash": asked.surface.content_hash}


def _queued_row(asked: Asked, task_id: str, body: Body, draft: Draft, place: int) -> Placed:
    tasks.add(asked.tx, asked.tenant, task_id, asked.caller.session, body, place)
    store.note_intent(asked.tx, asked.tenant, asked.canvas_id, _intent(draft), wish_of(draft), task_id)
    state = {"taskId": task_id, "status": "queued"}
    return Placed(id=body.node, type="image", title=body.title, body={"prompt": draft.spec.prompt, "task": state}, sources=draft.sources)


def _batch_end(asked: Asked, reply: dict[str, Any]) -> Conclusion:
    """Read back: every task is stored, those made now as queued."""
    found = {row["taskId"]: rows.find(asked.tx, asked.tenant, row["taskId"]) for row in reply["rows"]}
    kept = [task is not None and (row["existing"] or task.state == "queued") for row in reply["rows"] for task in [found[row["taskId"]]]]
    proof = compared("readback", digest([True] * len(reply["taskIds"])), digest(kept))
    return Conclusion(
        data={"canvasId": asked.canvas_id, **reply}, proofs=(proof,), cost_micro=0, compensation=Compensation(reason="tasks are cancelled one by one")
    )


TABLE: Final[tuple[Tool, ...]] = (
    Tool(op=UPLOAD, purpose="Bring a picture, clip or sound onto the canvas as a new node.", plan=_upload, people=True, before=_brought),
    Tool(op=CANCEL, purpose="Cancel a task.", plan=_cancel, people=True),
    Tool(op=SETTLE, purpose="Say what a task nobody can tell anything of has cost; it ends.", plan=_settle, people=True),
    Tool(op=RECOVER, purpose="Put a result whose node is gone on a new one; it costs nothing.", plan=_recover, people=True),
    Tool(op=BATCH_RUN, purpose="Run a batch plan: one approval for all its rows.", plan=_batch, people=True),
)
