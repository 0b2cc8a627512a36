"""Carrying tasks out: one move of one task at a time, under a lease; whoever takes a task over goes on where its row says it is.

Theory of operation. `intended` is durable before a provider is called and its answer right after, so a submission is made at most once: a
worker that finds `intended` asks the provider by our own id and never submits again; where no provider can tell, the task is unknown and its
money uncertain until somebody can. A result counts after every frame was decoded. What a provider refused or failed, and a file that is not
what was asked for, is refunded; a provider that cannot be asked, or does not give out its file, is asked less and less often, and the task
is unknown in the end. What fails in a way nobody has foreseen ends or parks its own task and no other. Seed: S1.5, S1.36, S1.37, S1.80-S1.82, S1.90.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import Problem, ProblemError
from ..db import Database, DbError, tasks
from ..db.tasks import Task
from . import limits, store
from . import tasks as t
from .outcome import Lost, Outcomes
from .picture import libraries
from .provider import Found, Job, Provider, refused
from .seam import Rooms
from .tasks import Body

#: Channel of what is done on this machine: nobody is asked.
LOCAL: Final = "local"


class Means(Struct, frozen=True, kw_only=True):
    """What a worker needs of its surroundings. `providers` by channel, or why there is none; `lease_ms` = longest
    time one word to a provider may take.
    """

    rooms: Rooms
    providers: Mapping[str, Provider | Problem]
    now_ms: Callable[[], int]
    pause: Callable[[float], object]
    lease_ms: int = limits.LEASE_MS


class Worker:
    """One worker of one tenant; blocks. Any number of them may run, in any number of processes."""

    def __init__(self, db: Database, means: Means) -> None:
        self.db, self.tenant, self.means = db, means.rooms.tenant, means

    @property
    def _out(self) -> Outcomes:
        return Outcomes(self.db, self.means.rooms, self.means.now_ms)

    def one(self, task_id: str = "") -> Task | None:
        """Make the next move of the task that has been due longest, or of the one named; None = nothing is due. Raises DbError."""
        now = self.means.now_ms()
        task = self.db.write_sync(tasks.take, self.tenant, t.KINDS, now, now + self.means.lease_ms, task_id)
        if task is None:
            return None
        try:
            self._move(task, t.body_of(task))
        except Lost:
            return task
        except DbError:
            raise
        except Exception as error:
            self._broken(task, error)
        return task

    def all(self, stop: Callable[[], bool] = lambda: False, *, watch: bool = False) -> int:
        """Work until nothing is due soon (`watch`: until stopped); unknown tasks are not waited for. Returns how many moves were made."""
        moves = 0
        while not stop():
            if self.one() is not None:
                moves += 1
                continue
            due = self.db.look(tasks.next_due, self.tenant, t.KINDS)
            if not watch and due - self.means.now_ms() > limits.ASK_AGAIN_MS // 2:
                break
            self.means.pause(limits.POLL_MS / 1000)
        return moves

    def finish(self, task_id: str, wait_s: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Move this task on until it has ended, is unknown, `wait_s` is over, or stopped."""
        until = self.means.now_ms() + wait_s * 1000
        while not stop():
            task = self.db.look(tasks.find, self.tenant, task_id)
            if task is None or t.ended(task) or task.state == "unknown" or self.means.now_ms() >= until:
                return
            if self.one(task_id) is None:
                self.means.pause(limits.POLL_MS / 2000)

    # --- one move ----------------------------------------------------------------------------------------------------

    def _move(self, task: Task, body: Body) -> None:
        if body.spec.channel == LOCAL:
            self._layers(task, body)
            return
        provider = self.means.providers.get(body.spec.channel)
        if body.submission == "" and body.maker and body.maker != self.means.rooms.catalog.makers.get(body.spec.channel, {}):
            self._absent(task, body, "is another one here than was approved")
        elif provider is None or isinstance(provider, Problem):
            self._absent(task, body, f"cannot be used here: {provider.message}" if provider else "is not set up here")
        elif body.submission == "":
            self._submit(task, body, provider)
        elif body.job is None:
            self._seek(task, body, provider)
        else:
            self._ask(task, body, body.job, provider)

    def _absent(self, task: Task, body: Body, what: str) -> None:
        """A provider that is not set up here may be elsewhere: for a day."""
        now = self.means.now_ms()
        why = _since(body, Problem("capability_unavailable", f"the provider {body.spec.channel!r} {what}", stage="submit"))
        silent = body.silent or now
        if now - silent <= limits.UNKNOWN_MS and task.state != "unknown":
            self._out.kept(task, replace(body, silent=silent, error=why), now + limits.ASK_AGAIN_MS)
        else:
            self._given_up(task, body, why)

    def _submit(self, task: Task, body: Body, provider: Provider) -> None:
        try:
            work = self.db.look(t.work_of, task, body)
        except ProblemError as stop:
            self._out.ended(task, body, "failed", stop.problem)
            return
        body = replace(body, submission="intended", silent=0, error=None)
        task = self._out.kept(task, body, self.means.now_ms() + self.means.lease_ms, "running")
        try:
            job = provider.submit(work)
        except ProblemError as stop:
            if stop.problem.execution_started is False:
                self._out.ended(task, replace(body, submission="refused"), "failed", stop.problem)
            else:
                self._out.unknown(task, replace(body, submission="unknown"), stop.problem)
            return
        self._accepted(task, body, job, provider)

    def _accepted(self, task: Task, body: Body, job: Job, provider: Provider) -> None:
        """Addresses are kept, so that a result can be asked for again; bytes that came with the answer are there once and are kept at once."""
        body = _answered(replace(body, submission="accepted", job=replace(job, outputs=tuple(o for o in job.outputs if not o.data))))
        if any(output.data for output in job.outputs):
            self._result(task, body, Found("succeeded", job.outputs), provider)
        else:
            self._out.kept(task, body, self.means.now_ms(), "running")

    def _seek(self, task: Task, body: Body, provider: Provider) -> None:
        """A submission whose answer nobody has. Only asks."""
        why = Problem("commit_unknown", "it is not known whether the provider has taken it", stage="submit", execution_started=None)
        try:
            job = provider.find(task.id)
        except ProblemError as stop:
            job, why = None, _since(body, stop.problem)
        if job is None:
            self._out.unknown(task, replace(body, submission="unknown"), why)
        else:
            self._accepted(task, body, job, provider)

    def _ask(self, task: Task, body: Body, job: Job, provider: Provider) -> None:
        if not body.cancelled and self.db.look(store.to_be_cancelled, self.tenant, task.id):
            job, body = self._stop(body, job, provider)
            self._out.renew(task, self.means.lease_ms)
        try:
            found = provider.poll(job)
        except ProblemError as stop:
            self._missed(task, body, stop.problem)
            return
        match found.state:
            case "succeeded":
                self._result(task, body, found, provider)
            case "failed" | "cancelled":
                state = "cancelled" if job.stopped else found.state
                self._out.ended(task, body, state, _said(found.error or f"the provider says it {found.state}"))
            case "unknown":
                why = Problem("commit_unknown", "the provider knows nothing of it", stage="provider", execution_started=None)
                self._out.unknown(task, body, why)
            case _:
                self._out.kept(task, _answered(body), self.means.now_ms() + limits.POLL_MS, "running")

    def _stop(self, body: Body, job: Job, provider: Provider) -> tuple[Job, Body]:
        """Asked for once: a refusal is an answer, for what had ended already is polled all the same; a lost one is asked for again."""
        try:
            provider.cancel(job)
        except ProblemError as stop:
            return job, replace(body, cancelled=refused(stop.problem))
        job = replace(job, stopped=True)
        return job, replace(body, cancelled=True, job=job)

    def _result(self, task: Task, body: Body, found: Found, provider: Provider) -> None:
        output = found.outputs[0]
        if not output.data:
            self._out.renew(task, self.means.lease_ms)
        try:
            data = provider.fetch(output, limits.RESULT_BYTES)
        except ProblemError as stop:
            why = replace(stop.problem, details=stop.problem.details | {"reason": "not_fetched"})
            if why.kind == "validation":  # it is more than a result may be, and stays so
                self._out.ended(task, body, "failed", replace(why, kind="task_failed"))
            else:
                self._missed(task, body, why)
            return
        try:
            with libraries():
                from .verify import accepted
            facts = accepted(data, t.shape_of(task, body))
        except ProblemError as stop:
            self._out.ended(task, body, "failed", stop.problem)
            return
        self._out.succeeded(task, _answered(body), [(data, facts)])

    def _layers(self, task: Task, body: Body) -> None:
        """Taking a picture apart, here: may be begun again as often as it takes, nothing is kept before the end."""
        task = self._out.kept(task, body, self.means.now_ms() + self.means.lease_ms, "running")
        try:
            with libraries():
                from .layers import taken_apart
            data = self.db.look(store.asset_bytes, self.tenant, body.spec.references[0])
            parts = taken_apart(data, body.spec.method, body.spec.points)
        except ProblemError as stop:
            self._out.ended(task, body, "failed", stop.problem)
            return
        names = t.numbered(body.node, len(parts))
        layers = tuple({"nodeId": name, "name": layer.name, "coverage": layer.coverage} for name, (layer, _, _) in zip(names, parts, strict=True))
        self._out.succeeded(task, body, [(file, facts) for _, file, facts in parts], layers)

    # --- when it is not told -----------------------------------------------------------------------------------------

    def _missed(self, task: Task, body: Body, why: Problem) -> None:
        """Not told now: asked again, less and less often. Refused too often or silent too long = unknown, whatever is running there."""
        now, why = self.means.now_ms(), _since(body, why)
        body = replace(body, misses=body.misses + 1, silent=body.silent or now, error=why)
        over = (refused(why) and body.misses >= limits.REFUSALS) or now - body.silent > limits.SILENT_MS
        if over or task.state == "unknown":
            self._out.unknown(task, body, why)
        else:
            self._out.kept(task, body, now + min(limits.POLL_MS << body.misses, limits.ASK_AGAIN_MS))

    def _given_up(self, task: Task, body: Body, why: Problem) -> None:
        """What nobody was asked for has failed and is refunded; of what somebody was, nothing is known."""
        if body.submission in ("", "refused"):
            self._out.ended(task, body, "failed", why)
        else:
            self._out.unknown(task, body, why)

    def _broken(self, task: Task, error: Exception) -> None:
        """A failure nobody has foreseen, told on its task; if not even that can be written, the task waits and says why."""
        why = error.problem if isinstance(error, ProblemError) else Problem("task_failed", f"{type(error).__name__}: {error}"[:300], stage="worker")
        now = self.db.look(tasks.find, self.tenant, task.id)
        if now is None or now.attempt != task.attempt:
            return
        body = t.body_of(now)
        try:
            self._given_up(now, body, replace(why, execution_started=None if body.submission else False))
        except Lost:
            return
        except ProblemError as stop:
            self._out.kept(now, replace(body, error=stop.problem), self.means.now_ms() + limits.ASK_AGAIN_MS)


def _since(body: Body, why: Problem) -> Problem:
    """That a later word was not sent proves nothing of a submission that was (S0.39)."""
    begun = body.submission not in ("", "refused")
    return replace(why, execution_started=None) if begun and why.execution_started is False else why


def _answered(body: Body) -> Body:
    return replace(body, silent=0, misses=0, error=None)


def _said(text: str) -> Problem:
    return Problem("task_failed", text, stage="provider", execution_started=True)
