"""Replies kept by what was asked, never across tenants or namespaces.

Theory of operation. The key is the digest of a structured list, so no two askings share one by running together. Tenant,
tenant_id and namespace also stand in the row and are compared when it is read: a row that is not ours, or whose bytes are not what
was written, is a miss and is told once. Without a namespace nothing is looked up or kept (the seed's isolation fails closed).
What could not be kept costs a later call, never this one.

Seed: S2.46-S2.48, R82.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from polyloop.db import Database, DbError, Schema, Tx
from polyloop.kernel.json_text import CUT_SHORT
from polyloop.kernel.objects import Json, ToolSpec
from polyloop.kernel.records import canonical, plain
from polyloop.kernel.seams import Message, Reply

VERSION: Final = 1
_log: Final = logging.getLogger("polyloop.gateway")

TABLES: Final = """
create table gateway_reply (
  digest text not null primary key, tenant text not null, tenant_id text, namespace text not null, model text not null,
  at bigint not null, body text not null, body_sha256 text not null);
create index gateway_reply_place on gateway_reply (tenant, namespace);
create table gateway_charge (
  tenant text not null, call_id text not null, session text not null, source text not null, kind text not null, amount_micro bigint,
  input bigint, output bigint, attempts bigint not null, at bigint not null, primary key (tenant, call_id));
create table gateway_account (tenant text not null, session text not null, used_micro bigint not null, primary key (tenant, session));
"""
SCHEMA: Final = Schema("gateway", (TABLES,))


class Asked(Struct, frozen=True):
    """Whose asking, where kept, and its digest."""

    tenant: str
    tenant_id: str | None
    namespace: str
    model: str
    digest: str


class Held(Struct, frozen=True):
    """What a tenant has in one namespace."""

    namespace: str
    replies: int
    bytes: int


def asked(
    tenant: str,
    tenant_id: str | None,
    namespace: str,
    model: str,
    messages: Sequence[Message],
    params: Mapping[str, Json],
    tools: Sequence[ToolSpec] | None,
) -> Asked:
    """session_id, parent_call_id, call_id and run never enter the digest: they say who asks, not what."""
    shown = None if tools is None else [[t.name, t.description, t.schema] for t in tools]
    body = canonical([VERSION, tenant, tenant_id, namespace, model, list(messages), dict(params), shown])
    return Asked(tenant, tenant_id, namespace, model, hashlib.sha256(body).hexdigest())


class Cache:
    """The kept replies of a store."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._told: set[str] = set()

    def get(self, key: Asked) -> Reply | None:
        try:
            row = self._db.look(_row, key.digest)
        except DbError as error:
            self._tell("read", f"the reply cache cannot be read, models are asked instead: {error}")
            return None
        if row is None:
            return None
        reply = _opened(row, key)
        if reply is None:
            self._tell(key.digest, f"a kept reply ({key.digest[:12]}) is damaged or another's; the model is asked instead")
        return reply

    async def put(self, key: Asked, reply: Reply, at: int) -> None:
        """Keep a whole reply. One that was cut, refused or empty would be bad for ever."""
        if reply.finish_reason in CUT_SHORT or not (reply.text or reply.tool_calls):
            return
        body = canonical(replace(reply, cached=False))
        try:
            await self._db.write(_keep, key, body, at)
        except DbError as error:
            self._tell("write", f"a reply could not be kept: {error}")

    def _tell(self, what: str, message: str) -> None:
        if what not in self._told:
            self._told.add(what)
            _log.warning(message)


def _row(tx: Tx, digest: str) -> tuple[str, str | None, str, str, str] | None:
    row = tx.row("select tenant, tenant_id, namespace, body, body_sha256 from gateway_reply where digest = ?", digest)
    return None if row is None else (row[0], row[1], row[2], row[3], row[4])


def _opened(row: tuple[str, str | None, str, str, str], key: Asked) -> Reply | None:
    tenant, tenant_id, namespace, body, sha = row
    if (tenant, tenant_id, namespace) != (key.tenant, key.tenant_id, key.namespace) or not isinstance(body, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # damage
        return None
    data = body.encode("utf-8", "surrogatepass")
    if hashlib.sha256(data).hexdigest() != sha:
        return None
    try:
        return msgspec.convert(plain(data), Reply)
    except (ValueError, msgspec.ValidationError):
        return None


def _keep(tx: Tx, key: Asked, body: bytes, at: int) -> None:
    sha = hashlib.sha256(body).hexdigest()
    tx.run(
        "insert into gateway_reply values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (digest) do update set tenant = excluded.tenant,"
        " tenant_id = excluded.tenant_id, namespace = excluded.namespace, at = excluded.at, body = excluded.body,"
        " body_sha256 = excluded.body_sha256",
        key.digest, key.tenant, key.tenant_id, key.namespace, key.model, at, body.decode(), sha,
    )  # fmt: skip


def held(tx: Tx, tenant: str) -> list[Held]:
    """What is kept for a tenant, by namespace."""
    rows = tx.rows("select namespace, count(*), sum(length(body)) from gateway_reply where tenant = ? group by namespace order by namespace", tenant)
    return [Held(*row) for row in rows]


def erase(tx: Tx, tenant: str, namespace: str | None) -> int:
    """Remove what is kept for a tenant, or in one of its namespaces; how many replies. Their bytes are overwritten (`db.sqlite`)."""
    if namespace is None:
        return tx.run("delete from gateway_reply where tenant = ?", tenant)
    return tx.run("delete from gateway_reply where tenant = ? and namespace = ?", tenant, namespace)
