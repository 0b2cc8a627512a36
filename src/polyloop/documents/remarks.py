"""Comments and roles as operations: what a call about an item means, and how their lists are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from ..contract.leaf import Prepared
from ..contract.paging import Seal
from ..contract.problem import FieldProblem, as_wire, bad_arguments, problem
from ..contract.snapshot import digest
from . import anchors, limits
from . import content as c
from . import requests as ask
from .anchors import Anchor, Texts
from .items import hash_of
from .memo import Memo, Undo
from .pages import page_of
from .plan import Asked, Plan, described, document_of, prepared_on
from .reading import Lists, listed

_Item = dict[str, Any]


def _found(asked: Asked, node: str, kind: ask.ItemKind, item: str) -> _Item | None:
    """An item as it stands: {mark, body, hash}."""
    page = page_of(asked.ask(ask.Attached(node=node, kind=kind, item=item, limit=1)))
    return page.items[0] if page.items else None


def _plan(
    asked: Asked, node: dict[str, Any], kind: ask.ItemKind, item: str, *, body: Any = None, mark: str = "", was: str = "", undo: Undo | None = None
) -> Plan:
    """One item put (or, without a body, taken away), and the proof that it was."""
    text = "" if body is None else json.dumps(body, ensure_ascii=False, sort_keys=True)
    request = ask.Attach(
        node=node["target"]["nodeId"], expected=asked.args.get("expectedRevision"), kind=kind, item=item, mark=mark, body=text, was=was
    )
    prepared: Prepared = prepared_on(node, resolved={kind: item, **({"role": mark} if kind == "access" else {})})
    return Plan(prepared=prepared, requests={"write": request}, memo=Memo(facts={"write": {"item": hash_of(mark, text)}}, undo=undo), node=node)


# --- comments --------------------------------------------------------------------------------------------------------


def _create(asked: Asked) -> Plan:
    node = document_of(asked)
    node_id, args = node["target"]["nodeId"], asked.args
    comment = f"c_{digest([asked.tenant, asked.call.operation_id])[:24]}"
    body: _Item = {"author": asked.user, "content": args["content"], "at": asked.call.now_ms, "state": "open", "replies": []}
    if {"blockId", "quote"} & args.keys():
        body["anchor"] = as_wire(_anchor(asked, node_id))
    undo = Undo("doc.comment_delete", {"nodeId": node_id, "commentId": comment})
    return _plan(asked, node, "comment", comment, body=body, mark="open", undo=undo)


def _anchor(asked: Asked, node_id: str) -> Anchor:
    """Raises not_found, ambiguous (with the blocks), validation."""
    args, found = asked.args, asked.ask(ask.Content(node=node_id))
    blocks = [(k.id, k.block.text) for k in c.kept(found["blocks"])]
    if "blockId" in args:
        blocks = [part for part in blocks if part[0] == args["blockId"]]
        if not blocks:
            raise problem(
                "not_found", f"there is no block {args['blockId']}", stage="resolve", details={"field": "blockId", "blockId": args["blockId"]}
            )
    if "quote" in args:
        hits = [(block, text, at) for block, text in blocks for at in _all(text, args["quote"])]
        if len(hits) != 1:
            ids = list(dict.fromkeys(block for block, _, _ in hits))[: limits.IDS_SHOWN]
            details = {"field": "quote", "count": len(hits), "candidates": ids}
            raise problem("ambiguous" if hits else "not_found", f"the text occurs {len(hits)} times", stage="resolve", details=details)
        block, text, at = hits[0]
        return anchors.made(block, text, at, at + len(args["quote"]), found["revision"])
    block, text = blocks[0]
    start, end = args.get("start", 0), args.get("end", len(text))
    if not 0 <= start <= end <= len(text):
        raise bad_arguments([FieldProblem("start|end", "out_of_range", f"the block has {len(text)} characters")])
    return anchors.made(block, text, start, end, found["revision"])


def _all(text: str, quote: str) -> list[int]:
    found, at = list[int](), text.find(quote)
    while at >= 0:
        found.append(at)
        at = text.find(quote, at + 1)
    return found


def _comment(asked: Asked) -> tuple[dict[str, Any], _Item, _Item]:
    """The document, the comment as it stands, and what it says. Raises not_found."""
    node, comment = document_of(asked), asked.args["commentId"]
    found = _found(asked, node["target"]["nodeId"], "comment", comment)
    if found is None:
        raise problem("not_found", f"there is no comment {comment}", stage="resolve", details={"commentId": comment})
    return node, found, json.loads(found["body"])


def _reply(asked: Asked) -> Plan:
    node, found, body = _comment(asked)
    if len(body["replies"]) >= limits.REPLIES:
        raise bad_arguments([FieldProblem("commentId", "too_large", f"a comment has at most {limits.REPLIES} replies")])
    reply = {"author": asked.user, "content": asked.args["content"], "at": asked.call.now_ms}
    return _plan(
        asked, node, "comment", asked.args["commentId"], body={**body, "replies": [*body["replies"], reply]}, mark=found["mark"], was=found["hash"]
    )


def _resolve(asked: Asked) -> Plan:
    node, found, body = _comment(asked)
    state = "resolved" if asked.args.get("resolved", True) else "open"
    back = {"nodeId": node["target"]["nodeId"], "commentId": asked.args["commentId"], "resolved": state == "open"}
    plan = _plan(
        asked, node, "comment", asked.args["commentId"], body={**body, "state": state}, mark=state, was=found["hash"],
        undo=Undo("doc.comment_resolve", back),
    )  # fmt: skip
    return plan if found["mark"] != state else replace(plan, memo=replace(plan.memo, warnings=("no_change",)))


def _delete(asked: Asked) -> Plan:
    node, found, _ = _comment(asked)
    return _plan(asked, node, "comment", asked.args["commentId"], was=found["hash"])


def _comments(asked: Asked, plan: Plan, seal: Seal) -> Any:
    """Each with where it stands in the content now."""
    node, state = plan.node["target"]["nodeId"], asked.args.get("state", "all")
    mark = "" if state == "all" else state
    query = {"nodeId": node, "state": state}
    page = listed(
        asked, query, seal, lambda f: ask.Attached(node=node, kind="comment", mark=mark, cursor=f.cursor, limit=f.limit, snapshot=f.snapshot), "id"
    )
    now = Texts([(k.id, k.block.text) for k in c.kept(asked.ask(ask.Content(node=node))["blocks"])] if page.items else [])
    return replace(page, items=tuple(_shown(item, now) for item in page.items))


def _shown(item: _Item, now: Texts) -> _Item:
    body = json.loads(item["body"])
    where = body.pop("anchor", None)
    told = {"commentId": item["id"], **body}
    return {**told, "anchor": as_wire(now.stands(msgspec.convert(where, Anchor)))} if where else told


# --- roles -----------------------------------------------------------------------------------------------------------


def _role(asked: Asked) -> Plan:
    """grant (there must be none), change and revoke (there must be one)."""
    node, user = described(asked), asked.args["user"]
    node_id = node["target"]["nodeId"]
    found = _found(asked, node_id, "access", user)
    before, role = found["mark"] if found else "", asked.args.get("role", "")
    if asked.name == "access_grant" and found:
        raise problem("conflict", f"{user} has the role {before} here", stage="resolve", details={"user": user, "role": before})
    if asked.name != "access_grant" and not found:
        raise problem("not_found", f"{user} has no role of their own here", stage="resolve", details={"user": user})
    back = {"access_grant": "access_revoke", "access_change": "access_change", "access_revoke": "access_grant"}[asked.name]
    undo = Undo(f"doc.{back}", {"nodeId": node_id, "user": user, **({"role": before} if before else {})})
    body = {"role": role} if role else None
    return _plan(asked, node, "access", user, body=body, mark=role, was=found["hash"] if found else "", undo=undo)


def _roles(asked: Asked, plan: Plan, seal: Seal) -> Any:
    node = plan.node["target"]["nodeId"]
    page = listed(
        asked, {"nodeId": node}, seal, lambda f: ask.Attached(node=node, kind="access", cursor=f.cursor, limit=f.limit, snapshot=f.snapshot), "id"
    )
    return replace(page, items=tuple({"user": item["id"], "role": item["mark"]} for item in page.items))


PLANS: Final[dict[str, Callable[[Asked], Plan]]] = {
    "comment_create": _create, "comment_reply": _reply, "comment_resolve": _resolve, "comment_delete": _delete,
    "access_grant": _role, "access_change": _role, "access_revoke": _role,
}  # fmt: skip
LISTS: Final[Lists] = {"comment_list": _comments, "access_list": _roles}
