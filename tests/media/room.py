"""A canvas with media on it, in a store of its own: everything a test of media starts from."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from polyloop.app.documents import canvases_of
from polyloop.app.media import SCHEMAS, media_of, media_worker, settings
from polyloop.clock import SystemClock
from polyloop.contract.operation import shown
from polyloop.contract.spend import Grant, micro
from polyloop.db import Database
from polyloop.journal.carry import Caller
from polyloop.media.provider import Provider
from polyloop.media.settings import Settings
from polyloop.media.worker import Worker


class Room:
    """One store with one canvas. `call` answers with what a surface prints and its exit code."""

    def __init__(self, db: Database, found: Settings | None = None, tenant: str = "local", canvas: str = "") -> None:
        self.db, self.settings, self.tenant = db, found or settings(), tenant
        self.media = media_of(db, tenant, self.settings)
        self.worker = media_worker(db, tenant, self.settings)
        self.canvases = canvases_of(db, tenant)
        self.canvas = canvas or self.board("canvas_new", {"title": "t"})["data"]["canvasId"]

    def call(self, tool: str, args: dict[str, Any], **caller: Any) -> tuple[dict[str, Any], int]:
        return shown(asyncio.run(self.media.call(tool, args, Caller(within=caller.pop("canvas", self.canvas), **caller))))

    def board(self, tool: str, args: dict[str, Any] | None = None, **caller: Any) -> dict[str, Any]:
        within = "" if tool == "canvas_new" else self.canvas
        answer, code = shown(asyncio.run(self.canvases.call(tool, args or {}, Caller(within=within, **caller))))
        assert code == 0, answer
        return answer

    def node(self, node_id: str) -> dict[str, Any]:
        return self.board("canvas_get_state", {"nodeIds": [node_id]})["nodes"][0]

    def grant(self, credits_: str = "100", **limits: Any) -> Grant:
        grant = Grant(id="", credits_micro=micro(credits_), **limits)
        return asyncio.run(self.media.grant("canvas", self.canvas, grant))

    def decide(self, plan_id: str, decision: Any = "approved") -> Any:
        return asyncio.run(self.media.decide(plan_id, decision, by="person"))

    def charges(self) -> list[tuple[Any, ...]]:
        """(order, kind, amount) of every row of the ledger."""
        return self.db.look(lambda tx: tx.rows("select order_id, kind, amount from spend_charge where tenant = ? order by order_id, no", self.tenant))

    def books_agree(self) -> bool:
        """Whether the accounts under whose caps all is spent say of every order what its own rows say last."""
        ends = {order: (kind, 0 if kind == "refund" else amount) for order, kind, amount in self.charges()}
        kept = self.db.look(lambda tx: tx.rows("select call_id, kind, amount_micro from gateway_charge where tenant = ?", self.tenant))
        used = self.db.look(lambda tx: tx.row("select used_micro from gateway_account where tenant = ? and session = ''", self.tenant))
        return ends == {order: (kind, amount) for order, kind, amount in kept} and (used or (0,))[0] == sum(amount for _, amount in ends.values())

    def count(self, table: str) -> int:
        return self.db.look(lambda tx: tx.row(f"select count(*) from {table} where tenant = ?", self.tenant))[0]


def picture(node: str = "p1", prompt: str = "a quiet river", **more: Any) -> dict[str, Any]:
    """A wish for a picture."""
    return {
        "mode": "image", "prompt": prompt, "nodeId": node, "title": node, "referenceNodeIds": [], "logicalModelId": "studio-image",
        "size": "512x512", **more,
    }  # fmt: skip


def opened(where: Path | str) -> Database:
    """The store of a folder, or on a server."""
    return Database.open(where if isinstance(where, str) else str(where / "s.db"), SCHEMAS)


@contextmanager
def room(where: Path | str, found: Settings | None = None, **more: Any):
    db = opened(where)
    try:
        yield Room(db, found, **more)
    finally:
        db.close()


class Clock:
    """Time that goes on only where somebody waits for it."""

    def __init__(self) -> None:
        self.now = SystemClock().now_ms()

    def __call__(self) -> int:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += max(1, round(seconds * 1000))


def played(here: Room, provider: Provider | None, clock: Clock | None = None, **more: Any) -> Worker:
    """A worker in whose world the studio is this provider (None = is not set up), and time is this clock's."""
    at = clock or Clock()
    return Worker(here.db, replace(here.worker.means, providers={"studio": provider} if provider else {}, now_ms=at, pause=at.pause, **more))
