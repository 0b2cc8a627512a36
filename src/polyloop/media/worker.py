"""Carrying tasks out: one move of one task at a time, under a lease; whoever takes a task over goes on where its row says it is.

Theory of operation. `intended` is durable before a provider is called and its answer right after, so a submission is made at most once: a
worker that finds `intended` asks the provider by our own id and never submits again; where no provider can tell, the task is unknown and its
money uncertain until somebody can. Result, write-back and bill are one commit, after every frame was decoded. What a provider refused or
failed, and a file that is not what was asked for, is refunded. Losing a lease is no failure: nothing of a loser's move is kept.
Seed: S1.5, S1.36, S1.37, S1.80-S1.82, S1.90.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import Problem, ProblemError
from ..contract.task import move
from ..db import Database, Tx, tasks
from ..db.tasks import NEVER, Task
from ..journal import spending
from . import limits, store
from . import tasks as t
from .picture import libraries
from .provider import Found, Job, Provider, Work
from .seam import Placed, Rooms
from .tasks import Body

#: Channel of what is done on this machine: nobody is asked.
LOCAL: Final = "local"


class Means(Struct, frozen=True, kw_only=True):
    """What a worker needs of its surroundings. `providers` by channel; `lease_ms` = longest time one move may take."""

    rooms: Rooms
    providers: Mapping[str, Provider]
    now_ms: Callable[[], int]
    pause: Callable[[float], object]
    lease_ms: int = limits.LEASE_MS


class Lost(Exception):
    """Another has the task by now."""


class Worker:
    """One worker of one tenant; blocks. Any number of them may run, in any number of processes."""

    def __init__(self, db: Database, means: Means) -> None:
        self.db, self.tenant, self.means = db, means.rooms.tenant, means

    def one(self, task_id: str = "") -> Task | None:
        """Make the next move of the task that has been due longest, or of the one named; None = nothing is due. Raises DbError."""
        now = self.means.now_ms()
        task = self.db.write_sync(self._take, now, task_id)
        if task is None:
            return None
        try:
            self._move(task, t.body_of(task))
        except Lost:
            return task
        return task

    def all(self, stop: Callable[[], bool] = lambda: False, *, watch: bool = False) -> int:
        """Work until nothing waits any more (`watch`: until stopped); unknown tasks are not waited for. Returns how many moves were made."""
        moves = 0
        while not stop():
            if self.one() is not None:
                moves += 1
                continue
            due = self.db.look(tasks.next_due, self.tenant, t.KINDS)
            if not watch and (due == NEVER or due - self.means.now_ms() > limits.ASK_AGAIN_MS // 2):
                break
            self.means.pause(limits.POLL_MS / 1000)
        return moves

    def finish(self, task_id: str, wait_s: float) -> None:
        """Move this task on until it has ended, is unknown, or `wait_s` is over."""
        until = self.means.now_ms() + wait_s * 1000
        while True:
            task = self.db.look(tasks.find, self.tenant, task_id)
            if task is None or t.ended(task) or task.state == "unknown" or self.means.now_ms() >= until:
                return
            if self.one(task_id) is None:
                self.means.pause(limits.POLL_MS / 2000)

    def _take(self, tx: Tx, now: int, task_id: str) -> Task | None:
        """A batch has at most so many tasks under way as its plan says; one too many waits."""
        task = tasks.take(tx, self.tenant, t.KINDS, now, now + self.means.lease_ms, task_id)
        if task is None:
            return None
        body = t.body_of(task)
        if body.batch and not body.submission and t.under_way(tx, self.tenant, body.batch) >= body.concurrency:
            tasks.keep(tx, task._replace(due=now + limits.POLL_MS))
            return None
        return task

    # --- one move ----------------------------------------------------------------------------------------------------

    def _move(self, task: Task, body: Body) -> None:
        if body.spec.channel == LOCAL:
            self._layers(task, body)
            return
        provider = self.means.providers.get(body.spec.channel)
        if provider is None:
            self._later(task, body)  # a provider that is not set up here may be elsewhere
        elif body.submission == "":
            self._submit(task, body, provider)
        elif body.submission in ("intended", "unknown") and body.job is None:
            self._seek(task, body, provider)
        else:
            self._ask(task, body, provider)

    def _submit(self, task: Task, body: Body, provider: Provider) -> None:
        try:
            work = self.db.look(t.work_of, task, body)
        except ProblemError as stop:
            self._end(task, body, "failed", stop.problem)
            return
        body = replace(body, submission="intended")
        task = self._keep(task, body, state="running", due=self.means.now_ms() + self.means.lease_ms)
        try:
            job = provider.submit(work)
        except ProblemError as stop:
            if stop.problem.execution_started is False:
                self._end(task, replace(body, submission="refused"), "failed", stop.problem)
            else:
                self._unknown(task, replace(body, submission="unknown"), stop.problem)
            return
        self._accepted(task, body, job, provider)

    def _accepted(self, task: Task, body: Body, job: Job, provider: Provider) -> None:
        kept = Job(job.request_id, job.links)
        if not job.outputs:
            self._keep(task, replace(body, submission="accepted", job=kept), state="running", due=self.means.now_ms())
        else:  # the result came with the answer: it is there once and is kept at once
            self._result(task, replace(body, submission="accepted", job=kept), Found("succeeded", job.outputs), provider)

    def _seek(self, task: Task, body: Body, provider: Provider) -> None:
        """A submission whose answer nobody has. Only asks."""
        why = Problem("commit_unknown", "it is not known whether the provider has taken it", stage="submit", execution_started=None)
        try:
            job = provider.find(task.id)
        except ProblemError as stop:
            job, why = None, stop.problem
        if job is None:
            self._unknown(task, replace(body, submission="unknown"), why)
        else:
            self._accepted(task, body, job, provider)

    def _ask(self, task: Task, body: Body, provider: Provider) -> None:
        job = body.job
        assert job is not None
        try:
            if not body.cancelled and self.db.look(store.to_be_cancelled, self.tenant, task.id):
                provider.cancel(job)
                body = replace(body, cancelled=True)
            found = provider.poll(job)
        except ProblemError:
            self._later(task, body)
            return
        match found.state:
            case "succeeded":
                self._result(task, body, found, provider)
            case "failed" | "cancelled":
                state = "cancelled" if body.cancelled else found.state
                self._end(task, body, state, _said(found.error or f"the provider says it {found.state}"))
            case "unknown" if body.cancelled:
                self._end(task, body, "cancelled", _said("it was cancelled"))
            case "unknown":
                self._unknown(task, body, Problem("commit_unknown", "the provider knows nothing of it", stage="provider", execution_started=None))
            case state:
                self._keep(task, body, state="running" if state == "running" or task.state == "unknown" else task.state, due=self._soon())

    def _result(self, task: Task, body: Body, found: Found, provider: Provider) -> None:
        work = _shape(task, body)
        try:
            data = provider.fetch(found.outputs[0], limits.RESULT_BYTES)
        except ProblemError as stop:
            if body.tries + 1 < limits.FETCHES and not found.outputs[0].data:
                self._keep(task, replace(body, tries=body.tries + 1), state="running", due=self._soon())
            else:
                self._end(task, body, "failed", replace(stop.problem, kind="task_failed", details={"reason": "not_fetched"}))
            return
        try:
            with libraries():
                from .verify import accepted
            facts = accepted(data, work)
        except ProblemError as stop:
            self._end(task, body, "failed", stop.problem)
            return

        def done(tx: Tx) -> None:
            asset = store.add_asset(tx, self.tenant, data, facts, synthetic=body.spec.synthetic)
            kept = self._delivered(tx, task, replace(body, results=(asset.sha256,)), {"asset": asset.body, "task": _state(task, "succeeded")})
            self._close(tx, task, kept, "succeeded", "settle")

        self.db.write_sync(done)

    # --- how it ends -------------------------------------------------------------------------------------------------

    def _end(self, task: Task, body: Body, state: str, why: Problem) -> None:
        """Failed or cancelled, and refunded; its node says so and stays."""

        def done(tx: Tx) -> None:
            kept = self._delivered(tx, task, replace(body, error=why), {"task": _state(task, state)})
            self._close(tx, task, kept, state, "refund")

        self.db.write_sync(done)

    def _unknown(self, task: Task, body: Body, why: Problem) -> None:
        """Its money stays held; it is asked about now and then, for a day."""
        over = self.means.now_ms() - body.at > limits.UNKNOWN_MS

        def done(tx: Tx) -> None:
            last = spending.charges(tx, self.tenant, "order_id", body.order)[-1].kind if body.order else ""
            if last == "reserve":
                self.means.rooms.charge(tx, t.charge(body, "uncertain"), task.session, self.means.now_ms())
            kept = replace(body, error=why)
            due = NEVER if over else self.means.now_ms() + limits.ASK_AGAIN_MS
            self._kept(tx, task._replace(state=move(task.state, "unknown"), due=due, body=t.text_of(kept)))

        self.db.write_sync(done)

    def _delivered(self, tx: Tx, task: Task, body: Body, content: Mapping[str, Any]) -> Body:
        """Put on its node, or why not: that changes nothing of the task or its money."""
        try:
            surface = self.means.rooms.surface_of(tx, self.tenant, body.owner, body.canvas)
            where = surface.deliver(body.node, task.id, content, operation=body.operation, at=self.means.now_ms())
        except ProblemError as stop:
            where = "canvas_gone" if stop.problem.kind == "not_found" else stop.problem.kind
        return replace(body, writeback="not_applied" if where else "applied", reason=where)

    def _close(self, tx: Tx, task: Task, body: Body, state: str, bill: str) -> None:
        if body.order:
            self.means.rooms.charge(tx, t.charge(body, bill), task.session, self.means.now_ms())
        kept = replace(body, error=None) if state == "succeeded" else body
        self._kept(tx, t.end_of(task, move(_live(task), state), kept))

    def _keep(self, task: Task, body: Body, *, state: str, due: int) -> Task:
        kept = task._replace(state=move(task.state, state), due=due, body=t.text_of(body))
        self.db.write_sync(self._kept, kept)
        return kept

    def _kept(self, tx: Tx, task: Task) -> None:
        """Raises Lost, and with it undoes all of the move."""
        if not tasks.keep(tx, task):
            raise Lost

    def _later(self, task: Task, body: Body) -> None:
        self._keep(task, body, state=task.state, due=self.means.now_ms() + limits.POLL_MS * 4)

    def _soon(self) -> int:
        return self.means.now_ms() + limits.POLL_MS

    # --- layers ------------------------------------------------------------------------------------------------------

    def _layers(self, task: Task, body: Body) -> None:
        """Taking a picture apart, here: may be begun again as often as it takes, nothing is kept before the end."""
        task = self._keep(task, body, state="running", due=self.means.now_ms() + self.means.lease_ms)
        try:
            with libraries():
                from .layers import split
                from .picture import opened, png
                from .verify import examined
            data = self.db.look(store.asset_bytes, self.tenant, body.spec.references[0])
            parts = [(layer, png(layer.image)) for layer in split(opened(data).image, body.spec.method, body.spec.points)]  # type: ignore[arg-type]  # one of its methods
            facts = [examined(file, "image") for _, file in parts]
        except ProblemError as stop:
            self._end(task, body, "failed", stop.problem)
            return

        def done(tx: Tx) -> None:
            assets = [store.add_asset(tx, self.tenant, file, fact, synthetic=False) for (_, file), fact in zip(parts, facts, strict=True)]
            names = [body.node, *(f"{body.node}_{n}" for n in range(2, len(parts) + 1))]
            layers = tuple({"nodeId": name, "name": layer.name, "coverage": layer.coverage} for name, (layer, _) in zip(names, parts, strict=True))
            kept = replace(body, results=tuple(a.sha256 for a in assets), layers=layers)
            kept = self._delivered(tx, task, kept, {"asset": assets[0].body, "task": _state(task, "succeeded")})
            if kept.writeback == "applied":
                self._rest(tx, task, kept, assets)
            self._close(tx, task, kept, "succeeded", "settle")

        self.db.write_sync(done)

    def _rest(self, tx: Tx, task: Task, body: Body, assets: list[store.Asset]) -> None:
        surface = self.means.rooms.surface_of(tx, self.tenant, body.owner, body.canvas)
        done = _state(task, "succeeded")
        nodes = [
            Placed(id=layer["nodeId"], type="image", title=f"{body.title} · {layer['name']}"[:240], body={"asset": asset.body, "task": done})
            for layer, asset in zip(body.layers[1:], assets[1:], strict=True)
        ]
        surface.place(nodes, actor="", operation=body.operation, at=self.means.now_ms())


def _said(text: str) -> Problem:
    return Problem("task_failed", text, stage="provider", execution_started=True)


def _live(task: Task) -> str:
    return "running" if task.state == "queued" else task.state


def _state(task: Task, state: str) -> dict[str, Any]:
    return {"taskId": task.id, "status": state}


def _shape(task: Task, body: Body) -> Work:
    """What the result must be: the work without what was given along."""
    spec = body.spec
    return Work(
        id=task.id, mode=spec.mode, model=spec.key, prompt=spec.prompt, width=spec.width, height=spec.height, seconds=spec.seconds, sound=spec.sound
    )
