"""`MediaRuntime`: every operation of media on the canvases of one tenant, through the contract's pipeline.

A call is one transaction. A wish that is a task already is answered with that task and nothing is asked of anybody (`wishes.existing`).
What a ticket says is read fresh from the task, whatever call it answers. Seed: S1.1, S1.4, S1.46-S1.50, S1.67.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ..contract.ledger import Entry
from ..contract.operation import Answer
from ..contract.problem import FieldProblem, ProblemError, bad_arguments, problem
from ..contract.session import Session
from ..contract.spend import Grant
from ..contract.task import Ticket
from ..db import Database, Tx
from ..db import tasks as rows
from ..files.threads import in_thread
from ..journal import operations, spending
from ..journal.book import Book
from ..journal.carry import Caller, Carried, answer_of, apart, asked, check_session, is_name, parted, typed
from . import looking, people, store, tasks, wishes
from .desk import Desk
from .leaves import TASK_GET
from .seam import Known, Rooms, Tool
from .tasks import MediaTicket

#: Every operation there is, by its tool name.
TOOLS: Final[Mapping[str, Tool]] = {
    tool.op.name.removeprefix("media."): tool for table in (wishes.TABLE, looking.TABLE, people.TABLE) for tool in table
}
#: What an agent may be given; those with `vision` only where its model sees pictures.
AGENT: Final[Mapping[str, Tool]] = {name: tool for name, tool in TOOLS.items() if not tool.people}


class MediaRuntime(Book):
    """Safe to use from any task of any loop."""

    prefix = "media."

    def __init__(
        self,
        db: Database,
        rooms: Rooms,
        now_ms: Callable[[], int],
        new_id: Callable[[], str],
        move: Callable[[str], object] | None = None,
        own: str = "",
    ) -> None:
        """`move` makes the next move of a task, blocking: whoever asks how a task stands brings it one step further, but for those who may

        only read. `own`: a session whose tasks alone are moved by looking, "" = all.
        """
        super().__init__(db, rooms.tenant, now_ms)
        self.rooms, self._new_id, self._move, self._own = rooms, new_id, move, own

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller | None = None) -> Answer:
        """Run one operation by its tool name. Returns a receipt, a ticket, a reading or the Problem that stopped it."""
        caller = caller or Caller()
        try:
            check_session(caller)
            tool = TOOLS.get(name)
            if tool is None:
                raise problem("not_found", f"there is no operation {name}", stage="arguments", details={"operation": name})
            if tool.op is TASK_GET and not TASK_GET.arguments.problems(arguments):
                await self._moved(arguments["taskId"], caller, self._own)
            own, beside = parted(tool.op, arguments)
            call = asked(
                own, beside, caller, operation_id=self._new_id(), now_ms=self._now_ms(), within=f"{caller.owner}/{caller.within}",
                continues=await self.continued(beside),
            )  # fmt: skip
            ready = None if tool.before is None or tool.op.arguments.problems(arguments) else await _prepared(tool.before, own)
            carried = Carried(
                db=self.db, tenant=self.tenant, op=tool.op, call=call, caller=caller, under=caller.within,
                desk=lambda tx, session: Desk(tx, self.rooms, tool, caller, session, ready),
            )  # fmt: skip
            return await self._fresh(await carried.answer(), caller)
        except Known as known:
            return answer_of(known.entry) if known.entry else await self.ticket(known.task_id, caller)
        except ProblemError as stop:
            return stop.problem

    async def _fresh(self, answer: Answer, caller: Caller) -> Answer:
        """A ticket as its task stands now; a reading that is a task is one."""
        if isinstance(answer, dict) and answer.get("contractVersion") == "task.v1":
            return msgspec.convert(answer, MediaTicket)
        return await self.ticket(answer.task_id, caller) if isinstance(answer, Ticket) and answer.kind in tasks.KINDS else answer

    async def ticket(self, task_id: str, caller: Caller) -> MediaTicket:
        """How a task stands. Raises not_found unless it is the caller's on this canvas."""

        def look(tx: Tx) -> MediaTicket:
            task, body = tasks.find(tx, self.tenant, caller.owner, caller.within, task_id)
            return self._told(tx, task, body)

        with typed("media.task_get"):
            return await self.db.read(look)

    def _told(self, tx: Tx, task: rows.Task, body: tasks.Body) -> MediaTicket:
        return tasks.told(tx, task, body, self.rooms.found(tx, body.owner, body.canvas))

    async def _moved(self, task_id: str, caller: Caller, session: str = "") -> None:
        """One move of a task that is the caller's, and of this session; what is not, is not touched. Raises ProblemError when it cannot be

        made, as `media.toml` or the store may have it; that a task is not there is said by whoever tells how it stands.
        """
        move = self._move
        if move is None or caller.mode == "read_only":
            return
        with typed("media.task_get"):
            if await self.db.read(tasks.known, self.tenant, caller.owner, caller.within, task_id, session):
                await in_thread(lambda: move(task_id), lambda: None)

    async def task(self, task_id: str) -> MediaTicket:
        """How a task of this tenant stands, one move further. Raises not_found."""

        def look(tx: Tx) -> tuple[str, str]:
            found = rows.find(tx, self.tenant, task_id)
            if found is None or found.kind not in tasks.KINDS:
                raise tasks.missing(task_id)
            body = tasks.body_of(found)
            return body.owner, body.canvas

        with typed("media.task"):
            owner, canvas = await self.db.read(look)
        caller = Caller(owner=owner, within=canvas)
        await self._moved(task_id, caller)
        return await self.ticket(task_id, caller)

    async def tasks(self, session: str) -> list[Ticket]:
        """Every task of a session, oldest first."""

        def look(tx: Tx) -> list[Ticket]:
            own = [found for found in rows.of_session(tx, self.tenant, session) if found.kind in tasks.KINDS]
            return [self._told(tx, found, tasks.body_of(found)) for found in own]

        with typed("media.task"):
            return await self.db.read(look)

    async def file(self, node_id: str, caller: Caller, transient: str = "") -> tuple[str, bytes]:
        """Media type and bytes of the file on a node, or of an annotation of this session. Raises not_found."""

        def look(tx: Tx) -> tuple[str, bytes]:
            if transient:
                facts = operations.facts(tx, self.tenant, apart(caller.session, caller.within))
                return "image/png", looking.transient_bytes(tx, self.tenant, Session("read_only", facts), transient, self._now_ms())
            seen = self.rooms.surface_of(tx, self.tenant, caller.owner, caller.within).seen(node_id)
            asset = store.find_asset(tx, self.tenant, store.sha_of(seen.asset)) if seen else None
            if asset is None:
                raise problem("not_found", f"there is no file on a node {node_id!r}", stage="resolve", details={"nodeId": node_id})
            return asset.mime, store.asset_bytes(tx, self.tenant, asset.sha256)

        with typed("media.file"):
            return await self.db.read(look)

    async def grant(self, scope: str, subject: str, grant: Grant, owner: str = Caller().owner) -> Grant:
        """A person's leave to spend. `scope` = canvas, session or run. Raises not_found for a canvas that is not the owner's, and validation
        for names that are none.
        """
        named = {"session": (subject,) if scope != "canvas" else (), "model": grant.models, "tier": grant.tiers}
        if wrong := [field for field, names in named.items() if not all(map(is_name, names))]:
            raise bad_arguments([FieldProblem(field, "invalid_value", "a text of 1 to 200 printable characters") for field in wrong])
        made = replace(grant, id=f"grant-{self._new_id()}")

        def work(tx: Tx) -> None:
            if scope == "canvas":
                self.rooms.surface_of(tx, self.tenant, owner, subject)
            spending.add_grant(tx, self.tenant, scope, subject, made, self._now_ms())

        with typed("spend.grant"):
            await self.db.write(work)
        return made

    async def settle(self, key: str) -> Entry | None:
        """What became of the operation of a key; None = it never was."""
        with typed("media.settle"):
            found = await self.db.read(operations.by_key, self.tenant, key)
        return found.entry if found else None


async def _prepared(before: Callable[[dict[str, Any]], Any], arguments: dict[str, Any]) -> Any:
    """What a call needs that takes long and no store: made before its transaction, while others may write. A Problem is its plan's to raise."""
    try:
        return await in_thread(lambda: before(arguments), lambda: None)
    except ProblemError as stop:
        return stop.problem
