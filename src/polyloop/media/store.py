"""Rows of media: files by their content, and which task stands for which wish. Tasks live in `db.tasks`, money in the journal."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from msgspec import Struct

from ..contract.problem import problem
from ..db import Schema, Tx
from ..db.tasks import TABLES as TASKS
from ..journal.operations import SCHEMA as JOURNAL
from .provider import Facts, Mode

#: Bytes of one row of a file.
_PART: Final = 4 << 20
_TABLES: Final = (
    TASKS
    + """
create table media_asset (
  tenant text not null, sha256 text not null, mime text not null, bytes bigint not null, width bigint not null, height bigint not null,
  duration_ms bigint not null, synthetic bigint not null, primary key (tenant, sha256));
create table media_part (tenant text not null, sha256 text not null, no bigint not null, data bytea not null, primary key (tenant, sha256, no));
create table media_intent (
  tenant text not null, canvas text not null, intent text not null, wish text not null, no bigint not null, task text not null,
  primary key (tenant, canvas, intent, no));
create table media_cancel (tenant text not null, task text not null, primary key (tenant, task));
"""
)
_BATCHES: Final = """
create table media_batch (tenant text not null, batch text not null, no bigint not null, task text not null, primary key (tenant, batch, no));
"""
SCHEMAS: Final = (JOURNAL, Schema("media", (_TABLES, _BATCHES)))


class Asset(Struct, frozen=True, kw_only=True):
    """A stored file. Pixels and milliseconds, 0 = does not apply."""

    sha256: str
    mime: str
    bytes: int
    width: int = 0
    height: int = 0
    duration_ms: int = 0
    synthetic: bool = False

    @property
    def mode(self) -> Mode:
        kind = self.mime.partition("/")[0]
        return "video" if kind == "video" else "audio" if kind == "audio" else "image"

    @property
    def body(self) -> dict[str, Any]:
        """As it stands on a node and in answers: `assetId` is where it can be asked for, never an address."""
        facts = {"width": self.width, "height": self.height, "durationMs": self.duration_ms}
        shown = {name: value for name, value in facts.items() if value}
        return {"assetId": f"sha256:{self.sha256}", "mimeType": self.mime, "bytes": self.bytes, **shown, "synthetic": self.synthetic}


def add_asset(tx: Tx, tenant: str, data: bytes, facts: Facts, *, synthetic: bool) -> Asset:
    """Kept once for the same bytes, with the facts they were first kept with."""
    asset = Asset(
        sha256=facts.sha256, mime=facts.mime_type, bytes=len(data), width=facts.width, height=facts.height,
        duration_ms=round(facts.seconds * 1000), synthetic=synthetic,
    )  # fmt: skip
    added = tx.run(
        "insert into media_asset (tenant, sha256, mime, bytes, width, height, duration_ms, synthetic) values (?, ?, ?, ?, ?, ?, ?, ?)"
        " on conflict (tenant, sha256) do nothing",
        tenant, asset.sha256, asset.mime, asset.bytes, asset.width, asset.height, asset.duration_ms, int(synthetic),
    )  # fmt: skip
    for no in range(0, len(data) if added else 0, _PART):
        tx.run("insert into media_part (tenant, sha256, no, data) values (?, ?, ?, ?)", tenant, asset.sha256, no // _PART, data[no : no + _PART])
    return asset if added else find_asset(tx, tenant, asset.sha256) or asset


def find_asset(tx: Tx, tenant: str, sha256: str) -> Asset | None:
    row = tx.row("select mime, bytes, width, height, duration_ms, synthetic from media_asset where tenant = ? and sha256 = ?", tenant, sha256)
    if row is None:
        return None
    mime, size, width, height, duration_ms, synthetic = row
    return Asset(sha256=sha256, mime=mime, bytes=size, width=width, height=height, duration_ms=duration_ms, synthetic=bool(synthetic))


def asset_bytes(tx: Tx, tenant: str, sha256: str) -> bytes:
    """The bytes as they were stored. Raises not_found, and corrupt_store when they are not what their name says."""
    parts = tx.rows("select data from media_part where tenant = ? and sha256 = ? order by no", tenant, sha256)
    if not parts:
        raise problem("not_found", "this file is not kept here", stage="resolve", details={"assetId": f"sha256:{sha256}"})
    data = b"".join(bytes(part) for (part,) in parts)
    if sha_of_bytes(data) != sha256:
        raise problem("corrupt_store", "a stored file is not what it was", stage="read", details={"assetId": f"sha256:{sha256}"})
    return data


def kept(tx: Tx, tenant: str, sha256: str) -> bool:
    """Whether the file is there, as long as it was: what can be told without reading it."""
    asset = find_asset(tx, tenant, sha256)
    found = tx.row("select coalesce(sum(length(data)), 0) from media_part where tenant = ? and sha256 = ?", tenant, sha256)
    return asset is not None and found is not None and int(found[0]) == asset.bytes


def sha_of_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha_of(asset: dict[str, Any] | None) -> str:
    """The content hash of an asset on a node, "" = none."""
    return str((asset or {}).get("assetId", "")).removeprefix("sha256:")


def note_intent(tx: Tx, tenant: str, canvas: str, intent: str, wish: str, task: str) -> None:
    tx.run(
        "insert into media_intent (tenant, canvas, intent, wish, no, task) values (?, ?, ?, ?,"
        " (select coalesce(max(no), 0) + 1 from media_intent where tenant = ? and canvas = ? and intent = ?), ?)",
        tenant, canvas, intent, wish, tenant, canvas, intent, task,
    )  # fmt: skip


def tasks_of_intent(tx: Tx, tenant: str, canvas: str, intent: str) -> list[tuple[str, str]]:
    """(wish, task id) of everything asked with this intent, the newest first."""
    rows = tx.rows("select wish, task from media_intent where tenant = ? and canvas = ? and intent = ? order by no desc", tenant, canvas, intent)
    return [(wish, task) for wish, task in rows]


def tasks_of_canvas(tx: Tx, tenant: str, canvas: str) -> list[str]:
    rows = tx.rows("select i.task from media_intent i join task t on t.tenant = i.tenant and t.id = i.task where i.tenant = ? and i.canvas = ?"
                   " order by t.no", tenant, canvas)  # fmt: skip
    return [task for (task,) in rows]


def ask_to_cancel(tx: Tx, tenant: str, task: str) -> None:
    """Beside the task, so that it takes nothing away from a worker that has it."""
    tx.run("insert into media_cancel (tenant, task) values (?, ?) on conflict (tenant, task) do nothing", tenant, task)


def to_be_cancelled(tx: Tx, tenant: str, task: str) -> bool:
    return tx.row("select 1 from media_cancel where tenant = ? and task = ?", tenant, task) is not None


def add_to_batch(tx: Tx, tenant: str, batch: str, no: int, task: str) -> None:
    tx.run("insert into media_batch (tenant, batch, no, task) values (?, ?, ?, ?)", tenant, batch, no, task)


def of_batch(tx: Tx, tenant: str, batch: str) -> list[tuple[str, str, int]]:
    """(task id, state, due) of the rows of a batch, in their order."""
    rows = tx.rows(
        "select t.id, t.state, t.due from media_batch b join task t on t.tenant = b.tenant and t.id = b.task"
        " where b.tenant = ? and b.batch = ? order by b.no",
        tenant, batch,
    )  # fmt: skip
    return [(task, state, due) for task, state, due in rows]
