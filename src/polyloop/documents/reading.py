"""The reads: what each answers, as plain data under one frame; lists as `doc.list.v1`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

from ..contract.paging import MAX_ITEMS, MAX_PAGES, Fetch, Listing, Seal
from ..contract.paging import Ask as Listed
from ..contract.problem import as_wire
from ..contract.session import Fact, Read
from . import content as c
from . import diff, limits
from . import requests as ask
from .pages import listing
from .plan import Asked, Plan, version_revision

#: How each list is read.
Lists = Mapping[str, Callable[[Asked, Plan, Seal], Listing]]


def read(asked: Asked, plan: Plan, seal: Seal, lists: Lists) -> dict[str, Any]:
    """The answer of a read. Raises ProblemError (not_found, pagination, validation, ...)."""
    if asked.name in lists:
        return as_wire(lists[asked.name](asked, plan, seal))
    told = _TOLD[asked.name](asked, plan)
    complete = not {"nextBlockId", "nextOffset"} & told.keys()
    frame = {"contractVersion": asked.op.contract, "operation": asked.op.name, "status": "success", "complete": complete}
    return {**frame, "target": plan.node["target"], "data": told}


def facts(asked: Asked, answer: dict[str, Any]) -> tuple[Fact, ...]:
    """What a session has read by this answer."""
    if asked.name not in ("fetch", "inspect"):
        return ()
    return (Read(asked.name, answer["target"]["nodeId"], token=str(answer["data"]["revision"])),)


def listed(asked: Asked, query: dict[str, Any], seal: Seal, page: Callable[[Fetch], ask.Request], identity: str) -> Listing:
    a = asked.args
    listed = Listed(
        tenant=asked.tenant, operation=asked.op.name, query=query, limit=a.get("limit", limits.PAGE), all=a.get("all", True), identity=identity,
        max_pages=a.get("maxPages", MAX_PAGES), max_items=a.get("maxItems", MAX_ITEMS), continuation=a.get("continuation", ""),
    )  # fmt: skip
    return listing(asked.ask, listed, seal, page)


def _list(asked: Asked, _: Plan, seal: Seal) -> Listing:
    container = asked.args.get("containerId")
    query = {} if container is None else {"containerId": container}
    return listed(asked, query, seal, lambda f: ask.Nodes(container=container, cursor=f.cursor, limit=f.limit, snapshot=f.snapshot), "nodeId")


def _search(asked: Asked, _: Plan, seal: Seal) -> Listing:
    query, box = asked.args["query"], asked.args.get("containerId")
    whole = {"query": query, **({} if box is None else {"containerId": box})}

    def page(f: Fetch) -> ask.Request:
        return ask.Search(query=query, container=box, cursor=f.cursor, limit=f.limit, snapshot=f.snapshot)

    return listed(asked, whole, seal, page, "nodeId")


def _versions(asked: Asked, plan: Plan, seal: Seal) -> Listing:
    node_id = plan.node["target"]["nodeId"]
    return listed(
        asked, {"nodeId": node_id}, seal, lambda f: ask.Versions(node=node_id, cursor=f.cursor, limit=f.limit, snapshot=f.snapshot), "version"
    )


def _fetch(asked: Asked, plan: Plan) -> dict[str, Any]:
    args = asked.args
    found = asked.ask(ask.Content(node=plan.node["target"]["nodeId"], revision=args.get("revision")))
    part = c.SCOPES[args.get("scope", "full")](c.kept(found["blocks"]), args)
    fits = c.fitting(part, args["maxChars"]) if "maxChars" in args else len(part)
    rest = {"nextBlockId": part[fits].id} if fits < len(part) else {}
    if rest and args.get("scope") == "section":  # where it begins it is no section; its end says how far to go on
        rest["endBlockId"] = part[-1].id
    return {**c.shown(part[:fits], args.get("format", "markdown")), "revision": found["revision"], "title": plan.node["title"], **rest}


def _inspect(_: Asked, plan: Plan) -> dict[str, Any]:
    return {name: plan.node[name] for name in ("title", "state", "revision", "hash", "blocks")}


def _resolve(asked: Asked, plan: Plan) -> dict[str, Any]:
    by = "exact_title" if "title" in asked.args else "stable_id_or_url"
    return {"matchedBy": by, "title": plan.node["title"], "state": plan.node["state"], "revision": plan.node["revision"]}


def _diff(asked: Asked, plan: Plan) -> dict[str, Any]:
    """Which blocks came, went, changed and moved; `html` = a page to read, else the changes one after the other, from `offset` on."""
    args, node_id = asked.args, plan.node["target"]["nodeId"]
    sides = [{"version": v, "revision": version_revision(asked, node_id, v)} for v in (args["from"], args["to"])]
    before, after = (c.kept(asked.ask(ask.Content(node=node_id, revision=side["revision"]))["blocks"]) for side in sides)
    budget = diff.Budget()
    found = diff.changes(before, after, budget)
    frame = {"from": sides[0], "to": sides[1], "counts": {kind: sum(x.kind == kind for x in found) for kind in get_args(diff.Kind)}}
    if args.get("format") == "html":
        return {**frame, "content": diff.page(f"{plan.node['title']}: {args['from']} → {args['to']}", found, budget)}
    told, first, most = [x for x in found if x.kind != "same"], args.get("offset", 0), args.get("maxChanges", limits.CHANGES)
    rest = {"nextOffset": first + most} if len(told) > first + most else {}
    return {**frame, "changes": [diff.told(x, budget) for x in told[first : first + most]], **rest}


LISTS: Final[Lists] = {"list": _list, "search": _search, "version_list": _versions}
_TOLD: Final[dict[str, Callable[[Asked, Plan], dict[str, Any]]]] = {
    "fetch": _fetch, "inspect": _inspect, "resolve": _resolve, "version_diff": _diff,
}  # fmt: skip
