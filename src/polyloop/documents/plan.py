"""What a call means, found by reading only: the target, the requests of its steps, the facts that must hold afterwards.

Facts are tokens of what `requests.Facts` reads back at the written revision: the bodies a step must have added, the blocks it
must have taken out, where they must stand. Only facts the step itself brought about are named, so a concurrent edit is no
mismatch and a doubled append is one. Seed: S0.3-S0.6, S0.23.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ..contract.leaf import Call, Operation, Prepared, Step
from ..contract.paging import LIST, Seal
from ..contract.paging import Ask as Listed
from ..contract.problem import FieldProblem, bad_arguments, problem
from ..contract.snapshot import digest
from ..files.folder import Folder
from . import content as c
from . import limits, store
from . import requests as ask
from .leaves import TAKES_AWAY, WRITE
from .memo import Memo, Undo, mark_of
from .pages import listing, page_of

#: Arguments that say what is written, as against where and on which condition.
_ABOUT: Final = ("command", "mode", "content", "format", "title", "containerId", "blockId", "afterBlockId", "old", "new", "label")


class Asked(Struct, frozen=True, kw_only=True):
    """The circumstances of one call. `earlier` = what is kept of the operation it goes on with; `folder` = where its files are;
    `person` = its arguments are a person's own words; `user` = who of the tenant calls, "" = its owner; `ahead` = content read already.
    """

    op: Operation
    call: Call
    tenant: str
    ask: Callable[[ask.Request], ask.Reply]
    chunk_chars: int = 0
    earlier: Memo | None = None
    folder: Folder | None = None
    person: bool = False
    session: str = ""
    user: str = ""
    ahead: c.Read | None = None

    @property
    def name(self) -> str:
        return self.op.name.removeprefix("doc.")

    @property
    def args(self) -> dict[str, Any]:
        return self.call.arguments

    @property
    def mark(self) -> str:
        return self.earlier.mark if self.earlier else mark_of(self.call.operation_id)

    @property
    def new_id(self) -> str:
        """The id of what this call makes: its own choice, so a reply that names another proves nothing."""
        earlier = self.call.continues
        return str(earlier.target["nodeId"]) if earlier else f"n_{digest([self.tenant, self.call.operation_id])[:24]}"


class Plan(Struct, frozen=True, kw_only=True):
    """`upload` = the file of an import, or what is landed."""

    prepared: Prepared
    requests: Mapping[str, ask.Request | ask.Local | ask.Land] = {}
    memo: Memo = Memo()
    node: dict[str, Any] = {}
    upload: bytes = b""


def planned(asked: Asked) -> Plan:
    """Raises ProblemError: not_found, ambiguous, pagination (an unprovable listing), type_mismatch, validation."""
    plan = _PLANS.get(asked.name, _read)(asked)
    about = digest([asked.op.name, {name: asked.args[name] for name in _ABOUT if name in asked.args}])
    if asked.earlier and asked.earlier.content != about:
        raise bad_arguments([FieldProblem("continues", "other_arguments", "the operation gone on with was about something else")])
    return replace(plan, memo=replace(plan.memo, content=about, mark=asked.mark))


# --- the target ------------------------------------------------------------------------------------------------------


def candidates(asked: Asked, title: str) -> tuple[dict[str, Any], ...]:
    """Every live node of exactly this title. Raises pagination unless it is proved that these are all (S0.5)."""
    listed = Listed(tenant=asked.tenant, operation=asked.op.name, query={"title": title}, limit=limits.PAGE_MAX, identity="nodeId")
    found = listing(
        asked.ask, listed, Seal(b"", asked.call.now_ms), lambda f: ask.Nodes(title=title, cursor=f.cursor, limit=f.limit, snapshot=f.snapshot)
    )
    if not found.complete:
        details = {
            "contractVersion": LIST, "status": "partial_success", "complete": False, "reason": "unproved", "page": found.covered.pages,
            "nextCursor": found.continuation, "count": found.count, "items": list(found.items),
        }  # fmt: skip
        raise problem("pagination", "it cannot be proved that these are all of this title", stage="resolve", details=details)
    return found.items


def described(asked: Asked) -> dict[str, Any]:
    """The one node meant, as the service describes it. Raises not_found, ambiguous, pagination."""
    args = asked.args
    if "title" in args and "nodeId" not in args and "url" not in args:
        found = candidates(asked, args["title"])
        if len(found) != 1:
            kind = "ambiguous" if found else "not_found"
            details = {"title": args["title"], "count": len(found), "candidates": list(found[: limits.IDS_SHOWN])}
            raise problem(kind, f"{len(found)} nodes have this title", stage="resolve", details=details)
        node_id = str(found[0]["nodeId"])
    else:
        node_id = args.get("nodeId") or _node_of(asked.tenant, args["url"])
    expected = args.get(asked.op.based_on) if asked.op.based_on else None
    node = asked.ask(ask.Describe(node=node_id, since=expected))
    trashed, wanted = node["state"] == "trashed", asked.name in ("restore", "purge")
    if trashed != wanted and asked.name not in ("inspect", "resolve", "version_list"):
        why = f"{node_id} is in the trash" if trashed else f"{node_id} is not in the trash"
        raise problem("not_found", why, stage="resolve", details={"nodeId": node_id, "state": node["state"]})
    return node


def _node_of(tenant: str, url: str) -> str:
    """Our own urls only; a foreign one names nothing here."""
    node_id = url.removeprefix(store.url_of(tenant, ""))
    if node_id == url or not node_id or "/" in node_id:
        raise problem("not_found", "the url names no document of this tenant", stage="resolve", details={"url": url})
    return node_id


def document_of(asked: Asked) -> dict[str, Any]:
    """The one document meant. Raises type_mismatch for a folder, and as `described`."""
    node = described(asked)
    if node["target"]["resourceType"] != "document":
        details = {"nodeId": node["target"]["nodeId"], "resourceType": node["target"]["resourceType"]}
        raise problem("type_mismatch", f"it is a {node['target']['resourceType']}, not a document", stage="resolve", details=details)
    return node


def check_container(asked: Asked, container: str) -> None:
    """Raises not_found or type_mismatch unless it is a folder that is there."""
    if container == ask.ROOT:
        return
    box = asked.ask(ask.Describe(node=container))
    if box["state"] != "live" or box["target"]["resourceType"] != "folder":
        kind = "type_mismatch" if box["state"] == "live" else "not_found"
        raise problem(kind, f"{container} is no folder that is there", stage="resolve", details={"containerId": container})


def prepared_on(node: dict[str, Any], **more: Any) -> Prepared:
    target = node["target"]
    return Prepared(target=target, target_id=target["nodeId"], current=node["revision"], changed=node.get("changed", {}), **more)


def _read(asked: Asked) -> Plan:
    if asked.name in ("list", "search"):
        check_container(asked, asked.args.get("containerId", ask.ROOT))
        return Plan(prepared=Prepared())
    node = described(asked) if asked.name in ("inspect", "resolve", "access_list") else document_of(asked)
    return Plan(prepared=prepared_on(node), node=node)


# --- making ----------------------------------------------------------------------------------------------------------


def _made(asked: Asked, resource: str, container: str, **more: Any) -> Prepared:
    check_container(asked, container)
    target = store.target_of(asked.tenant, asked.new_id, resource, container)
    return Prepared(target=target, target_id=asked.new_id, **more)


def _unmake(node_id: str) -> Undo:
    return Undo("doc.delete", {"nodeId": node_id})


def _create(asked: Asked) -> Plan:
    args, folder = asked.args, asked.name == "create_folder"
    blocks, lost = _bodies(asked) if "content" in args else ((), ())
    container, resource = args.get("containerId", ask.ROOT), "folder" if folder else "document"
    head, *rest = _chunks(blocks, asked.chunk_chars)
    first = ask.Create(node=asked.new_id, type=resource, title=args["title"], container=container, blocks=head)
    facts = {**added(head), "blocks": len(head), "title": args["title"], "container": container, "state": "live", "resourceType": resource}
    steps, requests, all_facts = _numbered([(first, facts), *((ask.Edit(node=asked.new_id, blocks=b), _appended(b)) for b in rest)])
    prepared = _made(asked, resource, container, resolved={"blocks": len(blocks)}, steps=steps)
    return Plan(prepared=prepared, requests=requests, memo=Memo(facts=all_facts, undo=_unmake(asked.new_id), warnings=lost))


def _copy(asked: Asked) -> Plan:
    node = document_of(asked)
    source, title = node["target"], asked.args.get("title", node["title"])
    container = asked.args.get("containerId", source["container"]["id"])
    request = ask.Copy(node=asked.new_id, source=source["nodeId"], expected=node["revision"], title=title, container=container)
    facts = {"hash": node["hash"], "title": title, "container": container, "state": "live"}
    prepared = _made(asked, "document", container, current=node["revision"], changed=node.get("changed", {}), resolved={"source": source})
    return Plan(prepared=prepared, requests={"write": request}, memo=Memo(facts={"write": facts}, undo=_unmake(asked.new_id)))


def _bodies(asked: Asked) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The blocks to write, and warnings about what of the content they cannot say."""
    blocks, lost = c.bodies_of(asked.ahead, asked.args["content"], asked.args.get("format", "markdown"), asked.mark)
    return blocks, tuple(f"loss:{loss.code}" for loss in lost)


def _chunks(blocks: Sequence[str], chars: int) -> list[tuple[str, ...]]:
    """Cut at block boundaries, at most `chars` a chunk (0 = any; a longer block goes alone)."""
    chunks, room = [list[str]()], chars
    for body in blocks:
        if chars and chunks[-1] and len(body) > room:
            chunks, room = [*chunks, []], chars
        chunks[-1].append(body)
        room -= len(body)
    return [tuple(chunk) for chunk in chunks]


def _numbered(
    parts: Sequence[tuple[ask.Request, dict[str, Any]]],
) -> tuple[tuple[Step, ...], dict[str, ask.Request | ask.Local], dict[str, dict[str, Any]]]:
    """Steps, requests and facts of parts: `write`, or `write_1`, `write_2`, ..."""
    names = ["write"] if len(parts) == 1 else [f"write_{n}" for n in range(1, len(parts) + 1)]
    steps = tuple(replace(WRITE, name=name) for name in names)
    return steps, {n: r for n, (r, _) in zip(names, parts, strict=True)}, {n: f for n, (_, f) in zip(names, parts, strict=True)}


def added(blocks: Sequence[str], removed: Sequence[str] = ()) -> dict[str, Any]:
    return {"bodies": digest(list(blocks)), "removed": sorted(removed), "whole": True}


def _appended(blocks: Sequence[str]) -> dict[str, Any]:
    return {**added(blocks), "next": ""}


# --- changing content ------------------------------------------------------------------------------------------------


class _Change(Struct, frozen=True, kw_only=True):
    parts: Sequence[tuple[ask.Request, dict[str, Any]]]
    warnings: tuple[str, ...] = ()


def _update(asked: Asked) -> Plan:
    """`update` and `checkpoint_update`."""
    command = asked.args.get("command") or asked.args["mode"]
    _guard(asked, command in TAKES_AWAY)
    node = document_of(asked)
    change = (_whole if command in ("append", "overwrite") else _inside)(asked, node, command)
    steps, requests, facts = _numbered(change.parts)
    undo = Undo("doc.version_revert", {"nodeId": node["target"]["nodeId"]}, before=True)
    if asked.name == "checkpoint_update":
        steps = (asked.op.step("checkpoint"), *steps)
        requests["checkpoint"] = ask.Save(node=node["target"]["nodeId"], expected=asked.args.get("expectedRevision"), label="checkpoint")
        facts["checkpoint"] = {"label": "checkpoint"}
    prepared = prepared_on(node, steps=steps, confirm=command in TAKES_AWAY, resolved={"command": command})
    return Plan(prepared=prepared, requests=requests, memo=Memo(facts=facts, undo=undo, warnings=change.warnings), node=node)


def _guard(asked: Asked, demanded: object) -> None:
    if demanded and "expectedRevision" not in asked.args and not asked.args.get("force"):
        raise bad_arguments([FieldProblem("expectedRevision", "required", "name the revision this is based on, or force it")])


def _no_loss(asked: Asked, blocks: Sequence[c.Kept]) -> None:
    if asked.args.get("format", "markdown") == "blocks" or asked.args.get("allowBlockLoss"):
        return
    if ids := c.inexpressible(blocks):
        raise bad_arguments(
            [FieldProblem("allowBlockLoss", "block_loss", f"blocks would be lost that this format cannot say: {', '.join(ids[:20])}")]
        )


def _no_change(same: object) -> tuple[str, ...]:
    return ("no_change",) if same else ()


def _whole(asked: Asked, node: dict[str, Any], command: str) -> _Change:
    blocks, lost = _bodies(asked)
    node_id, expected = node["target"]["nodeId"], asked.args.get("expectedRevision")
    if command == "append" and not blocks:
        raise bad_arguments([FieldProblem("content", "empty", "there is nothing to append")])
    head, *rest = _chunks(blocks, asked.chunk_chars)
    if command == "append":
        first: tuple[ask.Request, dict[str, Any]] = (ask.Edit(node=node_id, expected=expected, blocks=head), _appended(head))
    else:
        here = c.kept(asked.ask(ask.Content(node=node_id))["blocks"])
        _no_loss(asked, here)
        lost = (*lost, *_no_change(c.alike(here, blocks)))
        first = (
            ask.Edit(node=node_id, expected=expected, remove=None, blocks=head),
            {"bodies": digest(list(head)), "blocks": len(head), "whole": True},
        )
    return _Change(parts=[first, *((ask.Edit(node=node_id, blocks=b), _appended(b)) for b in rest)], warnings=lost)


def _inside(asked: Asked, node: dict[str, Any], command: str) -> _Change:
    """Commands about one block: what they mean for it and for what sits in it."""
    args, node_id = asked.args, node["target"]["nodeId"]
    here = c.kept(asked.ask(ask.Content(node=node_id))["blocks"])
    edit, lost = ask.Edit(node=node_id, expected=args.get("expectedRevision")), ()
    if command == "str_replace":
        scope = [here[c.at(here, "blockId", args["blockId"])]] if "blockId" in args else here
        old, new = c.replaced(scope, args["old"], args["new"])
        body = c.body_of(new)
        part = (replace(edit, was={old.id: old.hash}, change={old.id: body}), added([body]))
        return _Change(parts=[part], warnings=_no_change(args["old"] == args["new"]))
    field = "blockId" if "blockId" in args else "afterBlockId"
    subject = c.whole(here, c.at(here, field, args[field]))
    ids, own = [k.id for k in subject], tuple(k.body for k in subject)
    edit = replace(edit, was={k.id: k.hash for k in subject} if command in ("replace", "delete", "move", "copy") else {})
    if command == "delete":
        return _Change(parts=[(replace(edit, remove=tuple(ids)), added((), ids))])
    if command in ("copy", "move"):
        anchor = c.whole(here, c.at(here, "afterBlockId", args["afterBlockId"]))[-1].id
        if command == "copy":
            return _Change(parts=[(replace(edit, blocks=own, side="after", anchor=anchor), {**added(own), "previous": anchor})])
        if anchor in ids or args["afterBlockId"] in ids:
            raise bad_arguments([FieldProblem("afterBlockId", "invalid_value", "a block cannot be moved behind itself")])
        moved = replace(edit, remove=tuple(ids), blocks=own, ids=tuple(ids), side="after", anchor=anchor)
        behind = [k.id for k in here][c.at(here, "afterBlockId", anchor) + 1 :]
        return _Change(parts=[(moved, {**added(own), "previous": anchor})], warnings=_no_change(behind[: len(ids)] == ids))
    blocks, lost = _bodies(asked)
    if not blocks:
        raise bad_arguments([FieldProblem("content", "empty", "there is nothing to put there")])
    if command == "replace":
        _no_loss(asked, subject)
        edit = replace(edit, remove=tuple(ids), blocks=blocks, side="before", anchor=ids[0])
        return _Change(parts=[(edit, added(blocks, ids))], warnings=(*lost, *_no_change(c.alike(subject, blocks))))
    side, anchor, beside = ("before", ids[0], "next") if command == "insert_before" else ("after", ids[-1], "previous")
    return _Change(parts=[(replace(edit, blocks=blocks, side=side, anchor=anchor), {**added(blocks), beside: anchor})], warnings=lost)


# --- versions, and where a node stands -------------------------------------------------------------------------------


def _save(asked: Asked) -> Plan:
    node, label = document_of(asked), asked.args.get("label", "")
    request = ask.Save(node=node["target"]["nodeId"], expected=asked.args.get("expectedRevision"), label=label)
    return Plan(prepared=prepared_on(node), requests={"write": request}, memo=Memo(facts={"write": {"label": label}}))


def version_revision(asked: Asked, node_id: str, version: int) -> int:
    """The revision a version names. Raises not_found."""
    found = page_of(asked.ask(ask.Versions(node=node_id, cursor=str(version - 1), limit=1))).items
    if not found or found[0]["version"] != version:
        raise problem("not_found", f"there is no version {version}", stage="resolve", details={"nodeId": node_id, "version": version})
    return found[0]["revision"]


def _revert(asked: Asked) -> Plan:
    args = asked.args
    _guard(asked, demanded=True)
    if ("version" in args) == ("revision" in args):
        raise bad_arguments([FieldProblem("version|revision", "exactly_one", "one of them must stand")])
    node = document_of(asked)
    node_id = node["target"]["nodeId"]
    revision = args["revision"] if "revision" in args else version_revision(asked, node_id, args["version"])
    wanted = asked.ask(ask.Content(node=node_id, revision=revision))["hash"]
    warnings = _no_change(wanted == node["hash"])
    undo = Undo("doc.version_revert", {"nodeId": node_id}, before=True)
    request = ask.Revert(node=node_id, expected=args.get("expectedRevision"), revision=revision)
    memo = Memo(facts={"write": {"hash": wanted, "whole": True}}, undo=undo, warnings=warnings)
    return Plan(prepared=prepared_on(node, resolved={"revision": revision}), requests={"write": request}, memo=memo, node=node)


def _put(asked: Asked) -> Plan:
    """`move`, `rename`, `delete`, `restore`."""
    node = described(asked)
    node_id, old = node["target"]["nodeId"], {"title": node["title"], "containerId": node["target"]["container"]["id"]}
    given: dict[str, Any] = {
        "move": {"container": asked.args.get("containerId")}, "rename": {"title": asked.args.get("title")},
        "delete": {"state": "trashed"}, "restore": {"state": "live", "container": asked.args.get("containerId", old["containerId"])},
    }[asked.name]  # fmt: skip
    if "container" in given:
        check_container(asked, given["container"])
    back, field = {
        "move": ("move", "containerId"), "rename": ("rename", "title"), "delete": ("restore", ""), "restore": ("delete", "")
    }[asked.name]  # fmt: skip
    now = {"title": node["title"], "container": old["containerId"], "state": node["state"]}
    warnings = _no_change(given.items() <= now.items())
    undo = Undo(f"doc.{back}", {"nodeId": node_id, **({field: old[field]} if field else {})})
    prepared = prepared_on(node)
    if "container" in given:
        prepared = replace(prepared, resolved={"container": store.target_of(asked.tenant, node_id, "", given["container"])["container"]})
    request = ask.Put(node=node_id, expected=asked.args.get("expectedRevision"), **given)
    return Plan(prepared=prepared, requests={"write": request}, memo=Memo(facts={"write": given}, undo=undo, warnings=warnings), node=node)


def _purge(asked: Asked) -> Plan:
    node = described(asked)
    request = ask.Purge(node=node["target"]["nodeId"], expected=asked.args.get("expectedRevision"))
    memo = Memo(facts={"write": {"state": "purged", "blocks": 0, "title": ""}})
    return Plan(prepared=prepared_on(node), requests={"write": request}, memo=memo, node=node)


_PLANS: Final[dict[str, Callable[[Asked], Plan]]] = {
    "create": _create, "create_folder": _create, "update": _update, "checkpoint_update": _update, "version_save": _save, "version_revert": _revert,
    "copy": _copy, "move": _put, "rename": _put, "delete": _put, "restore": _put, "purge": _purge,
}  # fmt: skip
