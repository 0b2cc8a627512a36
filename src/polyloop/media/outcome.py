"""What a move of a task leaves behind: kept, ended, unknown or done. Each is one commit, and only of the worker that has the task.

Theory of operation. Every write here first holds the task under the attempt it was taken with; whoever has lost it writes nothing, neither a
charge nor a node. Task state, write-back and bill change together. A row of a batch that ends, or of which nothing is known, lets the next
rows begin in the same commit. Seed: S1.5, S1.36, S1.37, S1.81, S1.90.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from ..contract.problem import Problem, ProblemError
from ..contract.task import move
from ..db import Database, Tx, tasks
from ..db.tasks import NEVER, Task
from ..journal import spending
from . import limits, store
from . import tasks as t
from .provider import Facts
from .seam import Placed, Rooms
from .tasks import Body

T = TypeVar("T")


class Lost(Exception):
    """Another has the task by now."""


class Outcomes:
    """Of the tasks of one tenant. Every method raises Lost, and then nothing of it is kept."""

    def __init__(self, db: Database, rooms: Rooms, now_ms: Callable[[], int]) -> None:
        self.db, self.tenant, self.rooms, self.now_ms = db, rooms.tenant, rooms, now_ms

    def renew(self, task: Task, lease_ms: int) -> None:
        """Hold it for another lease, before something that may take one."""
        self._written(task, lambda tx: tasks.renew(tx, task, self.now_ms() + lease_ms))

    def kept(self, task: Task, body: Body, due: int, state: str = "") -> Task:
        """It goes on at `due`; `state` "" = as it was."""
        after = task._replace(state=move(task.state, state or task.state), due=due, body=t.text_of(body))

        def done(tx: Tx) -> None:
            if after.state != task.state:
                self._shown(tx, task, body, after.state)
            tasks.keep(tx, after)

        self._written(task, done)
        return after

    def unknown(self, task: Task, body: Body, why: Problem) -> None:
        """Its money stays held; it is asked about now and then, for a day. Its cause stays the one it became unknown by: what asking again

        met since stands beside it, as `details.latest`.
        """
        now = self.now_ms()
        if task.state == "unknown" and (first := t.body_of(task).error):
            latest = {"kind": why.kind, "message": why.message}
            same = (why.kind, why.message) == (first.kind, first.message)
            why = first if same else replace(first, details=first.details | {"latest": latest})
        since = body.silent if task.state == "unknown" and body.silent else now
        kept = replace(body, error=why, silent=since)
        due = NEVER if now - since > limits.UNKNOWN_MS else now + limits.ASK_AGAIN_MS

        def done(tx: Tx) -> None:
            last = spending.charges(tx, self.tenant, "order_id", body.order)[-1].kind if body.order else ""
            if last == "reserve":
                self.rooms.charge(tx, t.charge(body, "uncertain"), task.session, now)
            if task.state != "unknown":
                self._shown(tx, task, body, "unknown")
            tasks.keep(tx, task._replace(state=move(task.state, "unknown"), due=due, body=t.text_of(kept)))
            t.next_of_batch(tx, self.tenant, body, now)

        self._written(task, done)

    def ended(self, task: Task, body: Body, state: str, why: Problem) -> None:
        """Failed or cancelled, and refunded; its node says so and stays."""

        def done(tx: Tx) -> None:
            over = self._delivered(tx, task, replace(body, error=why), {"task": _state(task, state)})
            self._closed(tx, task, over, state, "refund")

        self._written(task, done)

    def succeeded(self, task: Task, body: Body, files: Sequence[tuple[bytes, Facts]], layers: tuple[dict[str, Any], ...] = ()) -> None:
        """Its files are kept and on their nodes, and it is paid. `layers` name the nodes where there are several."""

        def done(tx: Tx) -> None:
            assets = [store.add_asset(tx, self.tenant, data, facts, synthetic=body.spec.synthetic) for data, facts in files]
            state = _state(task, "succeeded")
            rest = [
                Placed(id=layer["nodeId"], type="image", title=t.layer_title(body, layer), body={"asset": asset.body, "task": state})
                for layer, asset in zip(layers[1:], assets[1:], strict=True)
            ]
            over = replace(body, results=tuple(a.sha256 for a in assets), layers=layers, error=None)
            over = self._delivered(tx, task, over, {"asset": assets[0].body, "task": state}, rest)
            self._closed(tx, task, over, "succeeded", "settle")

        self._written(task, done)

    def _written(self, task: Task, work: Callable[[Tx], T]) -> T:
        def held(tx: Tx) -> T:
            if not tasks.renew(tx, task, task.due):
                raise Lost
            return work(tx)

        return self.db.write_sync(held)

    def _delivered(self, tx: Tx, task: Task, body: Body, content: dict[str, Any], rest: Sequence[Placed] = ()) -> Body:
        """Put on its nodes, all of it or nothing, or why not: that changes nothing of the task or its money."""
        at = self.now_ms()
        try:
            surface = self.rooms.surface_of(tx, self.tenant, body.owner, body.canvas)
            taken = any(surface.seen(node.id) for node in rest)
            where = "output_exists" if taken else surface.deliver(body.node, task.id, content, operation=body.operation, at=at)
            if rest and not where:
                surface.place(rest, actor="", operation=body.operation, at=at)
        except ProblemError as stop:
            where = "canvas_gone" if stop.problem.kind == "not_found" else stop.problem.kind
        return replace(body, writeback="not_applied" if where else "applied", reason=where)

    def _shown(self, tx: Tx, task: Task, body: Body, state: str) -> None:
        """Its node says how it stands; what it has come to is delivered at its end."""
        self._delivered(tx, task, body, {"task": _state(task, state)})

    def _closed(self, tx: Tx, task: Task, body: Body, state: str, bill: str) -> None:
        now = self.now_ms()
        if body.order:
            self.rooms.charge(tx, t.charge(body, bill), task.session, now)
        was = "running" if task.state == "queued" else task.state
        tasks.keep(tx, t.end_of(task, move(was, state), body))
        t.next_of_batch(tx, self.tenant, body, now)


def _state(task: Task, state: str) -> dict[str, Any]:
    return {"taskId": task.id, "status": state}
