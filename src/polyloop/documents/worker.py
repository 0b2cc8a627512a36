"""Carrying tasks out. A worker holds one task at a time, under a lease that a thread of its own keeps alive while it works.

Theory of operation. Everything up to the one effect can be done again by whoever takes the task over. Then the task notes
`begun`, under its attempt, so that a worker that lost it stops here. The effect itself cannot come twice: a document is made
under the task's own key; a file is published by a landing whose temporary name was noted first, so that the next worker can
tell whether it got its name. The end is noted under the attempt again. Seed: S0.8, S0.22, S0.23, S0.43.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..contract.operation import Answer
from ..contract.problem import Problem, ProblemError, problem
from ..contract.receipt import Receipt
from ..contract.task import move
from ..db import Database, DbError, Tx, tasks
from ..db.tasks import NEVER, Task
from ..files.folder import Folder, folder_of
from ..files.landing import Landing, has_landed, over_of
from ..formats import kind_of, losses, same_text, write
from ..formats.apart import read_apart
from ..formats.blocks import Loss
from ..formats.encoding import decode
from ..formats.problems import unreadable
from . import content as c
from . import limits
from . import requests as ask
from . import store as s
from . import tasks as t
from .access import admit_work
from .exchange import telling
from .leaves import TARGETS

#: Kinds of what may be otherwise a little later: the way to the service, the disk.
PASSING: Final = frozenset({"commit_unknown", "capability_unavailable", "local_io", "rate_limited"})


class Lost(Exception):
    """Another has the task by now, or nobody shall: what this worker does with it must not be seen."""


class Means(Struct, frozen=True):
    """What a worker needs of its surroundings. `call(operation, arguments, key, folder, user)` carries one out; `send` reads from the service;
    `watch` is told of every step of the task that is worked on or waited for.
    """

    call: Callable[[str, dict[str, Any], str, Folder | None, str], Answer]
    send: Callable[[ask.Request], ask.Reply]
    now_ms: Callable[[], int]
    pause: Callable[[float], object]
    lease_ms: int = limits.LEASE_MS
    watch: Callable[[Task], object] = lambda _: None


class Worker:
    """One worker of one tenant; blocks. Safe in a thread of its own."""

    def __init__(self, db: Database, tenant: str, means: Means) -> None:
        self.db, self.tenant, self.means = db, tenant, means

    def one(self, task_id: str = "") -> Task | None:
        """Take the next task that is due, or the one named, and carry it out; None = nothing is due. Raises DbError."""
        now = self.means.now_ms()
        task = self.db.write_sync(tasks.take, self.tenant, t.KINDS, now, now + self.means.lease_ms, task_id)
        if task is None:
            return None
        held = Held(self, task)
        try:
            with held.beating():
                held.carry_out()
        except Lost:
            return self.db.look(t.get, self.tenant, task.id)
        return held.task

    def all(self, told: Callable[[Task], object] = lambda _: None, stop: Callable[[], bool] = lambda: False, *, watch: bool = False) -> int:
        """Work until every task has ended, those of other workers too (`watch`: until stopped). Returns how many were carried out."""
        done = 0
        while not stop():
            task = self.one()
            if task is not None:
                done += 1
                told(task)
            elif not watch and self.db.look(tasks.next_due, self.tenant, t.KINDS) == NEVER:
                break
            else:
                self.means.pause(limits.LOOK_S)
        return done

    def finish(self, task_id: str, wait_s: float | None) -> Task:
        """Carry this task out, or wait while another does; returns as it stands when it has ended or `wait_s` is over."""
        until = None if wait_s is None else self.means.now_ms() + wait_s * 1000
        while True:
            task = self.db.look(t.get, self.tenant, task_id)
            self.means.watch(task)
            if t.ended(task) or (until is not None and self.means.now_ms() >= until):
                return task
            if self.one(task_id) is None:
                self.means.pause(limits.LOOK_S)


class Held:
    """A task this worker has."""

    def __init__(self, worker: Worker, task: Task) -> None:
        self.worker, self.task = worker, task
        self.body: t.Body = t.body_of(task)
        self._stop = threading.Event()

    @contextmanager
    def beating(self) -> Generator[None]:
        """The lease kept alive; a lease that could not be renewed is found out at the next step."""
        thread = threading.Thread(target=self._beat, name="polyloop-task-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _beat(self) -> None:
        lease = self.worker.means.lease_ms
        while not self._stop.wait(lease / 3000):
            try:
                self.worker.db.write_sync(tasks.renew, self.task, self.worker.means.now_ms() + lease)
            except DbError:
                continue  # the next beat tries again

    def carry_out(self) -> None:
        """To its end, or to where the next worker goes on. Raises Lost, DbError."""
        if not self.body.begun and self.worker.means.now_ms() > self.body.expires:
            self._end("EXPIRED", replace(self.body, error=Problem("task_failed", "nobody began it in time", stage="task")))
            return
        if self.task.attempt > limits.TASK_ATTEMPTS:
            why = Problem("task_failed", f"given up after {self.task.attempt - 1} attempts", stage="task", execution_started=None)
            self._end("FAILED", replace(self.body, error=why))
            return
        self.note(state="PROCESSING")
        try:
            if not self.body.begun:
                self.worker.db.look(admit_work, self.task.tenant, self.body)
            result = _import(self, self.body.work) if isinstance(self.body.work, t.Import) else _export(self, self.body.work)
        except ProblemError as stop:
            self._fail(stop.problem)
        except (Lost, DbError):
            raise  # nothing is known against the task: the next worker goes on with it
        except Exception as fault:
            self._fail(Problem("task_failed", f"{type(fault).__name__}: {fault}"[:500], stage="task", execution_started=None))
        else:
            self._end("SUCCESS", replace(self.body, result=result))

    def _fail(self, why: Problem) -> None:
        """What passes, or is not known, is tried again a little later, until the attempts are used up; everything else is final."""
        passing = (why.kind in PASSING or why.execution_started is None) and why.details.get("reason") != "library_missing"
        if passing and self.task.attempt < limits.TASK_ATTEMPTS:
            pause = limits.RETRY_MS << (self.task.attempt - 1)
            self.note(due=self.worker.means.now_ms() + min(pause, self.worker.means.lease_ms))
        else:
            self._end("FAILED", replace(self.body, error=why))

    def begin(self, **work: Any) -> None:
        """From here on it cannot be cancelled. Raises Lost; not_found, permission_denied when its user may not have it done any more."""
        # What is made by an operation is asked about there, in its own transaction, and not again where it is done already.
        self.note(replace(self.body, begun=True, work=replace(self.body.work, **work)), admitted=isinstance(self.body.work, t.Export))

    def note(self, body: t.Body | None = None, *, state: str = "", due: int = 0, admitted: bool = False) -> None:
        """Raises Lost; and if it must be `admitted`, as `begin`."""
        body = body or self.body
        until = due or self.worker.means.now_ms() + self.worker.means.lease_ms
        task = self.task._replace(state=move(self.task.state, state or self.task.state), due=until, body=t.text_of(body))
        if not self.worker.db.write_sync(_kept, task, body if admitted else None):
            raise Lost
        self.task, self.body = task, body
        self.worker.means.watch(self.task)

    def _end(self, state: str, body: t.Body) -> None:
        if not self.worker.db.write_sync(t.end, self.task, state, body):
            raise Lost
        self.task = self.task._replace(state=state, due=NEVER, body=t.text_of(body))
        self.worker.means.watch(self.task)


def _kept(tx: Tx, task: Task, admitted: t.Body | None) -> bool:
    if admitted is not None:
        admit_work(tx, task.tenant, admitted)
    return tasks.keep(tx, task)


def _warnings(lost: Sequence[Loss]) -> tuple[str, ...]:
    return tuple(f"loss:{loss.code}" for loss in lost)


# --- in --------------------------------------------------------------------------------------------------------------


def _import(held: Held, work: t.Import) -> dict[str, Any]:
    data = held.worker.db.look(t.upload_of, held.task.tenant, held.task.id)
    arguments, lost = ({}, ()) if work.as_upload else _read(work, data)
    held.begin()
    made = _done(held, "create", {"title": work.title, "containerId": work.container, **arguments})
    target, warnings = made.target or {}, made.warnings
    told = {
        "nodeId": made.data["nodeId"], "documentUrl": target["canonicalUrl"], "documentName": work.title, "documentType": target["resourceType"],
        "target": target, "revision": made.data["revision"], "warnings": list(dict.fromkeys((*_warnings(lost), *warnings))),
        "losses": msgspec.to_builtins(lost), "source": {"name": work.name, "sha256": work.sha256},
    }  # fmt: skip
    if work.as_upload:  # kept as it is, inside a document of its own
        with TemporaryDirectory(prefix="polyloop-") as folder:
            (Path(folder) / work.name).write_bytes(data)
            try:
                put = _done(held, "media_insert", {"nodeId": told["nodeId"], "file": work.name}, folder_of(folder))
            except ProblemError as stop:  # the document is there, and empty: whoever is told of the failure is told which
                made_of = {"nodeId": told["nodeId"], "documentUrl": told["documentUrl"]}
                raise ProblemError(replace(stop.problem, details={**stop.problem.details, **made_of})) from stop
        told |= {
            "documentType": "file",
            "fallback": "upload",
            "converted": False,
            "resourceId": put.data["resourceId"],
            "revision": put.data["revision"],
        }
    return told


def _done(held: Held, op: str, arguments: dict[str, Any], folder: Folder | None = None) -> Receipt:
    """An operation under the task's own key: carried out once, whoever asks. Raises ProblemError."""
    answer = held.worker.means.call(op, arguments, f"task {held.task.id} {op}", folder, held.body.user)
    if not isinstance(answer, Receipt):
        raise ProblemError(answer) if isinstance(answer, Problem) else problem("commit_unknown", f"it is not known whether {op} was done", stage=op)
    if not answer.ok:
        raise ProblemError(answer.problem())
    return answer


def _read(work: t.Import, data: bytes) -> tuple[dict[str, Any], tuple[Loss, ...]]:
    """The content to be written, and what of the file it cannot say. Markdown is written as it is, so that its bytes come back."""
    if kind_of(work.name, data) == "md":
        text, encoding = decode(work.name, data)
        if not text.strip("\ufeff \t\r\n"):
            raise unreadable(work.name, "empty", "it holds no text")
        return {"content": text, "format": "markdown"}, () if encoding == "utf-8" else (Loss("encoding", detail=encoding),)
    document = read_apart(work.name, data)
    blocks = [msgspec.to_builtins(block.edited(span=None, order=-1)) for block in document.blocks]
    return {"content": blocks, "format": "blocks"}, document.losses


# --- out -------------------------------------------------------------------------------------------------------------


def _export(held: Held, work: t.Export) -> dict[str, Any]:
    target = TARGETS[work.format]
    content = held.worker.means.send(ask.Content(node=work.node, revision=work.revision))
    document = c.document_of(content["blocks"], work.title, target)
    lost = losses(document, target)
    with telling("landing"), work.folder.opened() as root:
        if work.temporary and (landed := has_landed(root, work.output, work.temporary, work.sha256)) is not False:
            if landed is None and (work.overwrite or root.stat(work.output) is not None):
                raise problem("commit_unknown", f"it cannot be told whether {work.output} was written", stage="landing", execution_started=None)
            if landed:
                return _landed(held, work, lost)
        work.folder.check(work.output, write=True)
        root.sweep_beside(work.output)
        data = write(document, target)
        over = over_of(work.output, replace=work.overwrite)
        with Landing(root, work.output, data, over, lambda file: same_text(document, target, file.read())) as landing:
            held.begin(temporary=landing.temporary, sha256=landing.sha256, bytes=landing.size)
            landing.publish()
    assert isinstance(held.body.work, t.Export)
    return _landed(held, held.body.work, lost)


def _landed(held: Held, work: t.Export, lost: Sequence[Loss]) -> dict[str, Any]:
    return {
        "nodeId": work.node, "revision": work.revision, "format": work.format, "output": work.output, "sha256": work.sha256, "bytes": work.bytes,
        "url": s.url_of(held.task.tenant, work.node), "warnings": list(_warnings(lost)), "losses": msgspec.to_builtins(tuple(lost)),
    }  # fmt: skip
