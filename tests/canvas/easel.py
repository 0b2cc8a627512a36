"""An easel for tests: the canvases of one tenant, one of them at hand, and a session to work in."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from polyloop.canvas.board import Board
from polyloop.canvas.model import full
from polyloop.canvas.runtime import CanvasRuntime
from polyloop.canvas.store import find_canvas
from polyloop.clock import ManualClock
from polyloop.contract.operation import Answer, shown
from polyloop.db import Database
from polyloop.journal.carry import Caller

_TENANTS, _IDS, _SESSIONS = itertools.count(), itertools.count(1), itertools.count()
TABLES = ("canvas", "canvas_node", "canvas_edge", "canvas_row", "canvas_bucket", "canvas_change")


class Easel:
    """`canvas` is made at once, by `owner`; calls go to it, in the session `session` ("" = in none)."""

    def __init__(self, db: Database, tenant: str = "", *, owner: str = "local", session: str | None = None) -> None:
        self.db, self.tenant, self.owner, self.clock = db, tenant or f"t{next(_TENANTS)}", owner, ManualClock()
        self.runtime = CanvasRuntime(db, self.tenant, self.clock.now_ms, lambda: f"op-{next(_IDS)}")
        self.session = f"s{next(_SESSIONS)}" if session is None else session
        self.canvas = ""
        self.canvas = self.do("canvas_new", {"title": "C"}, session="")["data"]["canvasId"]

    def answer(self, tool: str, args: dict[str, Any], **caller: Any) -> Answer:
        given = {"session": self.session, "owner": self.owner, "within": self.canvas} | caller
        return asyncio.run(self.runtime.call(tool, args, Caller(**given)))

    def call(self, tool: str, args: dict[str, Any], **caller: Any) -> tuple[dict[str, Any], int]:
        """What is printed, and the exit code."""
        return shown(self.answer(tool, args, **caller))

    def do(self, tool: str, args: dict[str, Any], **caller: Any) -> dict[str, Any]:
        """It succeeds."""
        told, code = self.call(tool, args, **caller)
        assert code == 0, told
        return told

    def refused(self, kind: str, tool: str, args: dict[str, Any], **caller: Any) -> dict[str, Any]:
        """It is refused as this kind, and nothing has changed."""
        before = self.everything()
        told, code = self.call(tool, args, **caller)
        assert code != 0, told
        assert told["error"]["kind"] == kind, told
        assert self.everything() == before
        return told["error"]

    def wrong(self, tool: str, args: dict[str, Any], **caller: Any) -> list[tuple[str, str]]:
        """Its arguments are refused: (field, issue) of all that is wrong."""
        details = self.refused("validation", tool, args, **caller)["details"]
        return [(p["field"], p["issue"]) for p in details["problems"]]

    def state(self, **args: Any) -> dict[str, Any]:
        return self.do("canvas_get_state", args)

    def apply(self, *ops: dict[str, Any], state: str = "", **caller: Any) -> dict[str, Any]:
        """The receipt's data. Based on the state as it is, unless another is named."""
        return self.do("canvas_apply_ops", {"snapshotHash": state or self.hash, "ops": list(ops)}, **caller)["data"]

    def ready(self) -> Easel:
        """The session has read what must be read first."""
        self.do("canvas_list_node_types", {})
        self.state()
        return self

    @property
    def hash(self) -> str:
        return self.look(lambda board: board.head.content)

    def look(self, work: Any) -> Any:
        return self.db.look(lambda tx: work(Board(tx, self.tenant, find_canvas(tx, self.tenant, self.owner, self.canvas))))

    def recomputed(self) -> tuple[str, str]:
        """The hashes computed from nothing but what is on the canvas."""
        return self.look(lambda board: full([*board.nodes(0, 1 << 40), *board.edges(0, 1 << 40)]).hashes)

    def everything(self) -> list[Any]:
        """Every row there is of this tenant's canvases."""
        return [self.db.look(lambda tx, t=t: sorted(tx.rows(f"select * from {t} where tenant = ?", self.tenant))) for t in TABLES]


def node(node_id: str, kind: str = "text", **more: Any) -> dict[str, Any]:
    return {"type": "add_node", "id": node_id, "nodeType": kind, **more}


def edge(edge_id: str, source: str, target: str, **more: Any) -> dict[str, Any]:
    return {"type": "connect_nodes", "id": edge_id, "fromNodeId": source, "toNodeId": target, **more}


def update(node_id: str, **patch: Any) -> dict[str, Any]:
    return {"type": "update_node", "id": node_id, "patch": patch}
