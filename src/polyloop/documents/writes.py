"""The log of writes: what was done under which step, and which steps shall never begin. Seed: S0.8, S0.11."""

from __future__ import annotations

import json
from typing import Final

from msgspec import Struct

from ..db import Tx
from . import requests as ask

#: By whom a write was made: who made one is told of it.
WHO: Final = "alter table doc_write add column who text"


class Written(Struct, frozen=True):
    """What is known of a step: the digest of what was asked, the reply in JSON, and by whom (None = not kept then).

    Reply None = fenced, and `request` then names in JSON the nodes it is fenced at; "" = at any.
    """

    request: str
    reply: str | None
    who: str | None

    def fenced_at(self, node: str) -> bool:
        return self.reply is None and (self.request == "" or node in json.loads(self.request))


def recall(tx: Tx, tenant: str, step_id: str) -> Written | None:
    row = tx.row("select request, reply, who from doc_write where tenant = ? and step = ?", tenant, step_id)
    return Written(*row) if row else None


def log(tx: Tx, tenant: str, step_id: str, done: Written) -> None:
    """Over a fence, where there is one; never over a reply."""
    tx.run(
        "insert into doc_write (tenant, step, request, reply, who) values (?, ?, ?, ?, ?) on conflict (tenant, step) do update"
        " set request = excluded.request, reply = excluded.reply, who = excluded.who where doc_write.reply is null",
        tenant, step_id, done.request, done.reply, done.who,
    )  # fmt: skip


def find(tx: Tx, tenant: str, r: ask.Find) -> ask.Reply:
    """A fence holds at the node it was put up at, so that nobody fences what is done elsewhere. Who asks has been `admit`ted."""
    known = recall(tx, tenant, r.step_id)
    if known is not None and known.reply is not None:
        reply = json.loads(known.reply)
        return {"reply": reply if not r.node or reply.get("nodeId") == r.node else None}
    if known is None or not known.fenced_at(r.node):
        nodes = sorted({r.node, *(json.loads(known.request) if known else ())}) if r.node else None
        log(tx, tenant, r.step_id, Written(json.dumps(nodes) if nodes else "", None, None))
    return {"reply": None}
