"""Media on canvases, wired: what media ask of a canvas, the providers of `media.toml`, a runtime and a worker of one tenant."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from polyloop.canvas import table
from polyloop.canvas.board import Board, By
from polyloop.canvas.model import Draft, Edge, Node, Row
from polyloop.canvas.places import below, beside
from polyloop.canvas.registry import NODE_TYPES
from polyloop.canvas.seam import Deliveries
from polyloop.canvas.store import SCHEMAS as CANVAS
from polyloop.canvas.store import find_canvas
from polyloop.clock import SystemClock
from polyloop.contract.operation import Answer
from polyloop.contract.problem import Problem, ProblemError, problem
from polyloop.contract.snapshot import digest
from polyloop.contract.spend import Balance, Grant, balance, micro
from polyloop.contract.task import Ticket
from polyloop.db import Database, DbError, Tx, tasks
from polyloop.documents.exchange import telling
from polyloop.files.landing import Landing
from polyloop.files.root import Root
from polyloop.files.threads import in_thread
from polyloop.gateway.accounts import Accounts
from polyloop.gateway.cache import SCHEMA as MONEY
from polyloop.ids import uuid7
from polyloop.journal.carry import Caller, lost
from polyloop.journal.spending import add_grant, by_grant, offered
from polyloop.media import tasks as media_tasks
from polyloop.media.catalog import Catalog
from polyloop.media.limits import RESULT_BYTES
from polyloop.media.picture import libraries
from polyloop.media.seam import Batch, BatchRow, Placed, Rooms, Seen
from polyloop.media.settings import Named, Settings, parse
from polyloop.media.store import SCHEMAS as MEDIA
from polyloop.media.store import kept, sha_of

from . import gateway
from .request_file import SpendTable, read_bytes

if TYPE_CHECKING:
    from polyloop.media.provider import Provider, Work
    from polyloop.media.runtime import MediaRuntime
    from polyloop.media.worker import Worker

FILE: Final = "media.toml"
#: Everything a store with media holds.
SCHEMAS: Final = tuple({schema.component: schema for schema in (*CANVAS, *MEDIA, MONEY)}.values())


class CanvasSurface:
    """A canvas as media see it. Implements `media.seam.Surface`."""

    def __init__(self, board: Board) -> None:
        self._board = board

    @property
    def media_hash(self) -> str:
        return self._board.head.media

    @property
    def content_hash(self) -> str:
        return self._board.head.content

    def seen(self, node_id: str) -> Seen | None:
        node = self._board.node(node_id)
        if node is None:
            return None
        kind = NODE_TYPES.get(node.type)
        text, asset = str(node.body.get("content", "")), node.body.get("asset")
        return Seen(id=node.id, type=node.type, title=node.title, kind=kind.kind if kind else "", text=text, asset=asset, hash=node.hash)

    def changed_since(self, state: str) -> dict[str, Any]:
        return self._board.changed_since(state)

    def place(self, nodes: Sequence[Placed], *, actor: str, operation: str, at: int) -> None:
        draft = Draft(self._board)
        for made in nodes:
            if draft.node(made.id) is not None:
                raise problem("conflict", f"there is a node {made.id!r} already", stage="write", details={"reason": "output_exists"})
            kind = NODE_TYPES[made.type]
            linked = draft.node(made.sources[0]) if made.sources else None
            spot = beside(draft, linked, kind.width, kind.height) if linked else None
            x, y = spot or below(draft, kind.width, kind.height)
            draft.put(Node(id=made.id, type=made.type, title=made.title, x=x, y=y, width=kind.width, height=kind.height, body=dict(made.body)))
            for source in made.sources:
                draft.put(Edge(id=f"e_{digest([source, made.id])[:24]}", source=source, target=made.id))
        self._board.write(draft.changes(), By(actor=actor, operation=operation, at=at))

    def deliver(self, node_id: str, task_id: str, body: Mapping[str, Any], *, operation: str, at: int) -> str:
        node = self._board.node(node_id)
        if node is None:
            return "node_gone"
        if _task_of(node) != task_id:
            return "node_changed"
        if node.body.get("asset") and "asset" in body:
            return "output_exists"
        draft = Draft(self._board)
        draft.put(replace(node, body={**node.body, **body}))
        self._board.write(draft.changes(), By(operation=operation, at=at, kind="task"))
        return ""

    def batch(self, node_id: str) -> Batch | None:
        node = self._board.node(node_id)
        if node is None or node.type != table.TYPE:
            return None
        own, rows, problems = table.settings(node), list[BatchRow](), list[tuple[str, str, str]]()
        for n, row in enumerate(self._board.rows_of(node_id)):
            if not row.body["enabled"]:
                continue
            prompt = "\n".join(part for part in (own["globalPrompt"], row.body["prompt"]) if part.strip())
            inputs = tuple(row.body["inputNodeIds"])
            problems += [(p.field, p.issue, p.message) for p in table.unresolved(prompt, len(own["referenceColumns"]), f"rows[{n}].prompt")]
            if not prompt:
                problems.append((f"rows[{n}].prompt", "required", "this row has no prompt"))
            if len(inputs) < table.OPERATIONS[own["operation"]]:
                problems.append((f"rows[{n}].inputNodeIds", "item_count", f"{own['operation']} takes {table.OPERATIONS[own['operation']]}"))
            rows.append(BatchRow(id=row.id, prompt=prompt, inputs=inputs, output=str(row.body.get("outputNodeId") or "")))
        return Batch(title=node.title, hash=node.hash, concurrency=int(own["concurrency"]), rows=tuple(rows), problems=tuple(problems))

    def outputs(self, node_id: str, made: Mapping[str, str], *, actor: str, operation: str, at: int) -> None:
        draft = Draft(self._board)
        for row in draft.rows_of(node_id):
            if row.id in made:
                draft.put(Row(node=row.node, id=row.id, place=row.place, body={**row.body, "outputNodeId": made[row.id]}))
        self._board.write(draft.changes(), By(actor=actor, operation=operation, at=at))


def _task_of(node: Node) -> str:
    named: dict[str, Any] = node.body.get("task") or {}
    return str(named.get("taskId", ""))


def _ended_meanwhile(board: Board, node: Node) -> dict[str, Any]:
    return media_tasks.standing(board.tx, *board.key, _task_of(node), node.id)


def _come_back(board: Board, node: Node) -> None:
    media_tasks.arrived(board.tx, *board.key, _task_of(node), node.id)


def _kept(board: Board, node: Node) -> bool:
    return kept(board.tx, board.key[0], sha_of(node.body.get("asset")))


#: What tasks of media deliver to nodes.
DELIVERIES: Final = Deliveries(_ended_meanwhile, _come_back, _kept)


def surface_of(tx: Tx, tenant: str, owner: str, canvas_id: str) -> CanvasSurface:
    """Raises not_found unless it is there and the owner's."""
    return CanvasSurface(Board(tx, tenant, find_canvas(tx, tenant, owner, canvas_id)))


def settings() -> Settings:
    """From `media.toml` in POLYLOOP_HOME; without one, the embedded provider alone. Raises ProblemError(validation)."""
    path = Path(os.environ.get("POLYLOOP_HOME") or ".polyloop") / FILE
    return parse(str(path), read_bytes(path, operation="media")) if path.exists() else Settings()


def media_of(db: Database, tenant: str, found: Settings | None = None, *, moves: bool = False, session: str = "") -> MediaRuntime:
    """The media operations of a tenant in an open store (with the tables of canvas and media).

    `moves`: whoever asks how a task stands brings it one step further; `session`: by looking only those of this session, "" = all.
    """
    from polyloop.media.runtime import MediaRuntime

    own = found or settings()
    worker = cache(lambda: media_worker(db, tenant, own))  # made when it is needed, once: its providers read certificates

    def move(task_id: str) -> object:
        return worker().one(task_id)

    return MediaRuntime(db, _rooms(tenant, own.catalog), SystemClock().now_ms, uuid7, move if moves else None, session)


def _rooms(tenant: str, catalog: Catalog) -> Rooms:
    return Rooms(tenant=tenant, catalog=catalog, surface_of=surface_of, purse=Accounts(gateway.settings().caps))


def media_worker(db: Database, tenant: str, found: Settings | None = None, pause: Callable[[float], object] | None = None) -> Worker:
    """A worker for the tasks of a tenant. Keys of providers are read from the environment."""
    from polyloop.media.worker import Means, Worker

    own = found or settings()
    means = Means(
        rooms=_rooms(tenant, own.catalog), providers=_providers(db, tenant, own), now_ms=SystemClock().now_ms, pause=pause or threading.Event().wait
    )
    return Worker(db, means)


def _providers(db: Database, tenant: str, found: Settings) -> dict[str, Provider | Problem]:
    """By channel; one that cannot be made is the Problem that stops it, and stops its own tasks alone."""
    with libraries():
        from polyloop.media.hosted import hosted
        from polyloop.media.studio import Studio

    def work_of(task_id: str) -> Work:
        def look(tx: Tx) -> Work:
            task = tasks.find(tx, tenant, task_id)
            if task is None:
                raise media_tasks.missing(task_id)
            return media_tasks.work_of(tx, task, media_tasks.body_of(task))

        return db.look(look)

    def made(named: Named) -> Provider | Problem:
        try:
            return hosted(named.kind, named.url, os.environ.get(named.key_env, "") if named.key_env else "", named.graph or None)
        except ProblemError as stop:
            return stop.problem

    return {"studio": Studio(work_of), **{p.channel: made(p) for p in found.providers}}


async def answered(db: Database, tenant: str, tool: str, given: dict[str, Any], caller: Caller, wait_s: float = 0) -> Answer:
    """Carry out one operation of media; a task it begins is worked on here, `wait_s` at most. What stops that work is told on the task."""
    media = media_of(db, tenant, moves=True)
    answer = await media.call(tool, given, caller)
    if not isinstance(answer, Ticket) or answer.terminal or wait_s <= 0:
        return answer
    task_id, stopped = answer.task_id, threading.Event()
    try:
        worker = media_worker(db, tenant, pause=stopped.wait)
        await in_thread(lambda: worker.finish(task_id, wait_s, stopped.is_set), stopped.set)
        return await media.ticket(task_id, caller)
    except (ProblemError, DbError) as stop:
        return replace(answer, error=stop.problem if isinstance(stop, ProblemError) else lost(stop))


async def work_media(db: Database, tenant: str, *, watch: bool) -> int:
    """Carry out the media tasks of a tenant (`watch`: until stopped). Returns how many moves were made."""
    stopped = threading.Event()
    worker = media_worker(db, tenant, pause=stopped.wait)
    return await in_thread(lambda: worker.all(stopped.is_set, watch=watch), stopped.set)


def encoded(path: Path) -> str:
    """A file as an argument carries it, as large as a result may be. Raises ProblemError (validation)."""
    return base64.b64encode(read_bytes(path, RESULT_BYTES, "media.upload")).decode()


async def save_file(db: Database, tenant: str, out: str, node: str, transient: str, caller: Caller) -> dict[str, Any]:
    """Land the file of a node, or the picture of an annotation, as a new file. Raises ProblemError."""
    mime, data = await media_of(db, tenant).file(node, caller, transient)
    target = Path(out)
    with telling("landing"), Root(target.parent, make=True) as root, Landing(root, target.name, data) as landing:
        landed = landing.publish()
    return {"path": str(target), "mimeType": mime, "bytes": landed.bytes, "sha256": landed.sha256}


async def grant_spending(store: str, tenant: str, scope: tuple[str, str], grant: Grant, owner: str) -> Grant:
    """A person's leave to spend, on a canvas or in a session. Raises ProblemError: not_found for a canvas that is not there or not the owner's."""
    from .documents import open_database

    with open_database(store, tenant) as db:
        return await media_of(db, tenant).grant(*scope, grant, owner)


class Spent(Struct, frozen=True):
    """Of a canvas or session: its grants and what of each is used, what was `approved` by itself, and all that its tasks have cost."""

    grants: list[tuple[Grant, Balance]]
    approved: Balance
    total: Balance


def spent(db: Database, tenant: str, scope: tuple[str, str], owner: str) -> Spent:
    """What was spent on a canvas or in a session, at one snapshot. The session of a run has its grants too. Raises not_found for a canvas

    that is not the owner's.
    """
    scopes = [scope, ("run", scope[1])] if scope[0] == "session" else [scope]

    def look(tx: Tx) -> Spent:
        if scope[0] == "canvas":
            find_canvas(tx, tenant, owner, scope[1])
        every = media_tasks.charged(tx, tenant, *scope)
        alone = [one for one in every if not by_grant(tx, tenant, one.source)]
        return Spent([(grant, balance(charges)) for grant, charges in offered(tx, tenant, scopes)], balance(alone), balance(every))

    return db.look(look)


def granted(tx: Tx, tenant: str, run_id: str, spend: str) -> None:
    """What a run's request gave it to spend, once."""
    said = msgspec.json.decode(spend, type=SpendTable)
    width, _, height = (said.max_size or "0x0").partition("x")
    grant = Grant(
        id=f"grant-run-{run_id}", credits_micro=micro(said.credits), tasks=said.tasks, modes=said.modes, models=said.models, tiers=said.tiers,
        max_seconds=said.max_seconds, max_width=int(width), max_height=int(height),
    )  # fmt: skip
    if not any(known.id == grant.id for known, _ in offered(tx, tenant, [("run", run_id)])):
        add_grant(tx, tenant, "run", run_id, grant, SystemClock().now_ms())
