"""Imports and exports as tasks: what each is to do, how far it has come, how it ended; all in one row that any worker can go on with.

Before its one effect (the document made, the file published) a task notes `begun`; until then it can be cancelled, and after
that whoever takes it over first finds out whether the effect is there. Seed: S0.18, S0.20, S0.22, S0.24.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import Problem, ProblemError, problem
from ..contract.snapshot import digest
from ..contract.task import PHASES, TERMINAL, Ticket, move, ticket
from ..db import Tx, tasks
from ..db.tasks import NEVER, Task
from ..files.folder import Folder
from ..journal import operations
from . import requests as ask
from . import store

KINDS: Final = ("doc.import", "doc.export")


class Import(Struct, frozen=True, kw_only=True, tag="import"):
    """Make a document of a file. Its bytes are kept in `doc_upload` until the task has ended; `name` is what it was called."""

    name: str
    sha256: str
    title: str
    container: str
    as_upload: bool = False


class Export(Struct, frozen=True, kw_only=True, tag="export"):
    """Land a document, as it stood at `revision`, as a file in `folder`. `temporary`, `sha256` = the landing that was begun."""

    node: str
    revision: int
    title: str
    format: str
    folder: Folder
    output: str
    overwrite: bool = False
    temporary: str = ""
    sha256: str = ""
    bytes: int = 0


class Body(Struct, frozen=True, kw_only=True):
    """`begun` = the effect may have taken place; `expires`: when nobody need begin any more (epoch ms); `user` = on whose behalf."""

    work: Import | Export
    expires: int
    user: str = ""
    begun: bool = False
    result: dict[str, Any] | None = None
    error: Problem | None = None

    @property
    def as_submitted(self) -> Body:
        """Without what has become of it."""
        plain = self.work if isinstance(self.work, Import) else replace(self.work, temporary="", sha256="", bytes=0)
        return Body(work=plain, expires=self.expires, user=self.user)


def body_of(task: Task) -> Body:
    return msgspec.json.decode(task.body, type=Body)


def work_of(body: str) -> Import | Export:
    """What a submitted task is to do."""
    return msgspec.json.decode(body, type=Body).work


def text_of(body: Body) -> str:
    return msgspec.json.encode(body).decode()


def kind_of(work: Import | Export) -> str:
    return "doc.import" if isinstance(work, Import) else "doc.export"


def id_of(tenant: str, operation_id: str) -> str:
    """The task an operation begins: the same for every attempt of it."""
    return f"t_{digest([tenant, operation_id])[:24]}"


def ended(task: Task) -> bool:
    return PHASES[task.state] in TERMINAL


def ticket_of(task: Task) -> Ticket:
    body = body_of(task)
    return ticket(task.id, task.kind.removeprefix("doc."), task.state, result=body.result, error=body.error)


def stage_of(task: Task) -> str:
    """How far it has come: its state, and while it is worked on whether the writing has begun."""
    return "WRITING" if task.state == "PROCESSING" and body_of(task).begun else task.state


def get(tx: Tx, tenant: str, task_id: str) -> Task:
    """Raises not_found."""
    found = tasks.find(tx, tenant, task_id)
    if found is None or found.kind not in KINDS:
        raise missing(task_id)
    return found


def missing(task_id: str) -> ProblemError:
    return problem("not_found", f"there is no task {task_id}", stage="resolve", details={"taskId": task_id})


def told(task: Task) -> ask.Reply:
    """A task as the service's reply."""
    return {"taskId": task.id, "kind": task.kind.removeprefix("doc."), "state": task.state}


def submit(tx: Tx, tenant: str, r: ask.Submit, step_id: str) -> ask.Reply:
    """Keep a new task. The same one submitted again is there already."""
    found = tasks.find(tx, tenant, r.task)
    if found is None:
        found = Task(tenant, r.task, r.kind, "INIT", r.session, 0, r.due, r.body)
        tasks.add(tx, found)
        work = work_of(r.body)
        node = work.node if isinstance(work, Export) else ""
        operation = step_id.partition("/")[0]
        tx.run("insert into doc_task (tenant, task, node, operation) values (?, ?, ?, ?)", tenant, r.task, node, operation)
    return told(found)


def keep_upload(tx: Tx, tenant: str, task_id: str, data: bytes) -> None:
    tx.run("insert into doc_upload (tenant, task, data) values (?, ?, ?) on conflict (tenant, task) do nothing", tenant, task_id, data)


def upload_of(tx: Tx, tenant: str, task_id: str) -> bytes:
    """Raises corrupt_store when the file of an import is gone."""
    row = tx.row("select data from doc_upload where tenant = ? and task = ?", tenant, task_id)
    if row is None:
        raise problem("corrupt_store", f"the file of task {task_id} is gone", stage="task", details={"taskId": task_id})
    return bytes(row[0])


def end(tx: Tx, task: Task, state: str, body: Body) -> bool:
    """Write the end under the worker's attempt; False = another has it by now. The file of an import is no longer needed."""
    kept = tasks.keep(tx, task._replace(state=move(task.state, state), due=NEVER, body=text_of(body)))
    if kept:
        _forget(tx, task)
        _about(tx, task, body)
    return kept


def _about(tx: Tx, task: Task, body: Body) -> None:
    """An import is from now on about what it made: a purge of that reaches the task and its operation."""
    row = tx.row("select node, operation from doc_task where tenant = ? and task = ?", task.tenant, task.id)
    if row is None:
        return
    node = row[0]
    made = body.result or (body.error.details if body.error and "documentUrl" in body.error.details else {})
    if not node and (node := made.get("nodeId", "")):
        tx.run("update doc_task set node = ? where tenant = ? and task = ?", node, task.tenant, task.id)
        operations.about(tx, task.tenant, row[1], node)
    found = store.find_node(tx, task.tenant, node) if node else None
    if found is not None and found.state == "purged":  # while the task was at work
        erase(tx, task.tenant, node)


def relate(tx: Tx, tenant: str, node: str) -> None:
    """Tasks about a node from before it was kept which operation began them: it is found by the task's id, which follows from its own."""
    old = {row[0] for row in tx.rows("select task from doc_task where tenant = ? and node = ? and operation = ''", tenant, node)}
    for operation in [op_id for op_id in operations.without_target(tx, tenant) if id_of(tenant, op_id) in old] if old else ():
        operations.about(tx, tenant, operation, node)


def erase(tx: Tx, tenant: str, node: str) -> None:
    """A node was purged: what tasks about it keep of its words goes; that they were, and how they ended, stays."""
    for task_id, text in tx.rows(
        "select t.id, t.body from doc_task d join task t on t.tenant = d.tenant and t.id = d.task where d.tenant = ? and d.node = ?", tenant, node
    ):
        body = msgspec.json.decode(text, type=Body)
        work = replace(body.work, title="") if isinstance(body.work, Export) else replace(body.work, title="", name="")
        error = replace(body.error, message="what it was about was purged", details={}) if body.error else None
        body = replace(body, work=work, result=without_words(body.result) if body.result else None, error=error)
        tx.run("update task set body = ? where tenant = ? and id = ?", text_of(body), tenant, task_id)


def without_words(data: dict[str, Any]) -> dict[str, Any]:
    """What a task or its operation says of a document, without titles, names and texts of it."""
    out: dict[str, Any] = {name: "" if name == "documentName" else value for name, value in data.items()}
    if "source" in out:
        out["source"] = {**out["source"], "name": ""}
    if "losses" in out:
        out["losses"] = [{name: value for name, value in loss.items() if name != "detail"} for loss in out["losses"]]
    return out


def cancel(tx: Tx, tenant: str, r: ask.Cancel, _: str) -> ask.Reply:
    """Raises conflict for a task that has ended, or has begun what cannot be taken back."""
    task = get(tx, tenant, r.task)
    body = body_of(task)
    if task.state == "CANCELLED":
        return told(task)
    if body.begun and not ended(task):
        raise problem("conflict", "it is being carried out and cannot be stopped any more", stage="task", details=told(task))
    done = task._replace(state=move(task.state, "CANCELLED"), due=NEVER, body=text_of(replace(body, result=None)))
    tasks.withdraw(tx, done)
    _forget(tx, done)
    return told(done)


def _forget(tx: Tx, task: Task) -> None:
    tx.run("delete from doc_upload where tenant = ? and task = ?", task.tenant, task.id)
