"""An office for tests: a runtime over a store, in process or over a transport on which things go wrong."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from polyloop.clock import ManualClock
from polyloop.contract.operation import Answer, shown
from polyloop.contract.receipt import Receipt
from polyloop.db import Database
from polyloop.documents.runtime import DocRuntime
from polyloop.files.folder import folder_of
from polyloop.journal.carry import Caller
from polyloop.testing.documents import FaultTransport

YES = {"approved_by": "ann"}
_TENANTS, _IDS = itertools.count(), itertools.count(1)


class Office:
    """One tenant's documents. `faulty` = over a transport; a tenant of its own unless one is named."""

    def __init__(
        self, db: Database, tenant: str = "", *, faulty: bool = False, faults: Iterable[str] = (), chunk_chars: int = 0, folder: Path | None = None,
    ) -> None:  # fmt: skip
        self.db, self.tenant = db, tenant or f"t{next(_TENANTS)}"
        self.transport = FaultTransport(db, self.tenant, faults, chunk_chars=chunk_chars)
        self.last = ""
        self.clock, self.waits = ManualClock(), list[float]()
        self.runtime = DocRuntime(
            db, self.tenant, self.clock.now_ms, self._id, self.transport if faulty else None, self.waits.append,
            folder=folder_of(str(folder)) if folder else None,
        )  # fmt: skip

    def _id(self) -> str:
        self.last = f"op-{next(_IDS)}"
        return self.last

    def answer(self, op: str, args: dict[str, Any], **caller: Any) -> Answer:
        return asyncio.run(self.runtime.call(op, args, Caller(**caller)))

    def call(self, op: str, args: dict[str, Any], **caller: Any) -> tuple[dict[str, Any], int]:
        """What is printed, and the exit code."""
        return shown(self.answer(op, args, **caller))

    def do(self, op: str, args: dict[str, Any], **caller: Any) -> dict[str, Any]:
        """It succeeds."""
        told, code = self.call(op, args, **(YES | caller))
        assert code == 0, told
        return told

    def refused(self, kind: str, op: str, args: dict[str, Any], **caller: Any) -> dict[str, Any]:
        """It is refused as this kind and nothing has changed."""
        before = self.everything()
        told, code = self.call(op, args, **(YES | caller))
        assert code != 0, told
        assert told["error"]["kind"] == kind, told
        assert self.everything() == before
        return told["error"]

    def receipt(self, op: str, args: dict[str, Any], **caller: Any) -> Receipt:
        answer = self.answer(op, args, **(YES | caller))
        assert isinstance(answer, Receipt), answer
        return answer

    def new(self, title: str = "D", content: str = "one\n", **more: Any) -> str:
        return self.do("create", {"title": title, "content": content, **more})["data"]["nodeId"]

    def worker_until_open(self, task_id: str) -> None:
        """Workers take this task until it has ended, each after the lease of the one before."""
        for _ in range(10):
            self.runtime.worker().one(task_id)
            if "state" not in self.call("import_get", {"taskId": task_id})[0]:
                return
            self.clock.advance(60)

    def do_later(self, op: str, args: dict[str, Any]) -> str:
        """It waits for a worker; returns the id of its task."""
        return self.call(op, args, **YES, wait_s=0)[0]["taskId"]

    def text(self, node_id: str, **args: Any) -> str:
        return Office(self.db, self.tenant).do("fetch", {"nodeId": node_id, **args})["data"]["content"]

    def blocks(self, node_id: str) -> list[dict[str, Any]]:
        return Office(self.db, self.tenant).do("fetch", {"nodeId": node_id, "format": "blocks"})["data"]["blocks"]

    def documents(self) -> list[list[str]]:
        """Title and content of every live document, as the service has them."""
        plain = Office(self.db, self.tenant)
        items = plain.do("list", {})["items"]
        return [[i["title"], plain.text(i["nodeId"])] for i in items if i["resourceType"] == "document"]

    def everything(self) -> list[Any]:
        """Every row the service holds for this tenant."""
        tables = ("doc_tenant", "doc_node", "doc_place", "doc_block", "doc_revision", "doc_version")
        return [self.db.look(lambda tx, t=t: sorted(tx.rows(f"select * from {t} where tenant = ?", self.tenant))) for t in tables]
