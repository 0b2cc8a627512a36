"""Media of documents as operations: a file put in, listed, landed again, or shown small.

A resource is named by its content: the same bytes put in twice are one. To put one in is two steps, the bytes and the block that
shows them, each proved; to land one is a file, whole or not at all, read again before it is called done (S0.42-S0.44).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, Final, cast

from msgspec.structs import replace

from ..contract.leaf import Prepared
from ..contract.paging import Seal
from ..contract.problem import problem
from ..files.folder import Folder
from ..files.landing import over_of, write_atomic
from ..formats.blocks import Block, Run
from . import blobs, limits
from . import content as c
from . import requests as ask
from .exchange import check_output, folder_of, telling
from .items import hash_of
from .memo import Memo, Undo
from .pages import page_of
from .plan import Asked, Plan, added, document_of, prepared_on
from .reading import Lists, listed

#: What stands before a resource's id in the source of a block.
SCHEME: Final = "media:"


def resource_of(sha256: str) -> str:
    """Letters and digits alone, so that Markdown writes it as it is."""
    return f"m{sha256[:32]}"


def _insert(asked: Asked) -> Plan:
    args, node = asked.args, document_of(asked)
    node_id = node["target"]["nodeId"]
    with telling("read"):
        data = folder_of(asked).read(args["file"], limits.MEDIA_BYTES)
    name = args.get("name") or PurePosixPath(args["file"]).name
    kind, sha256 = blobs.kind_of(name, data), hashlib.sha256(data).hexdigest()
    resource = resource_of(sha256)
    body = json.dumps({"name": name, "type": kind, "bytes": len(data), "sha256": sha256}, ensure_ascii=False, sort_keys=True)
    block = Block("image" if kind in blobs.SHOWN else "file", (Run(name),), src=SCHEME + resource)
    bodies = (c.body_of(block),)
    edit, facts = ask.Edit(node=node_id, expected=args.get("expectedRevision"), blocks=bodies), added(bodies)
    if "afterBlockId" in args:
        here = c.kept(asked.ask(ask.Content(node=node_id))["blocks"])
        anchor = c.whole(here, c.at(here, "afterBlockId", args["afterBlockId"]))[-1].id
        edit, facts = replace(edit, side="after", anchor=anchor), {**facts, "previous": anchor}
    upload = ask.Attach(node=node_id, expected=args.get("expectedRevision"), kind="media", item=resource, mark=sha256, body=body, data=data, was=None)
    memo = Memo(facts={"upload": {"item": hash_of(sha256, body)}, "write": facts}, undo=Undo("doc.version_revert", {"nodeId": node_id}, before=True))
    resolved = {"resourceId": resource, "name": name, "type": kind, "bytes": len(data)}
    return Plan(prepared=prepared_on(node, resolved=resolved, assets=(sha256,)), requests={"upload": upload, "write": edit}, memo=memo, node=node)


def _land(asked: Asked) -> Plan:
    """`media_download`: the bytes themselves; `media_preview`: a small picture of them."""
    args, node, folder = asked.args, document_of(asked), folder_of(asked)
    node_id, small = node["target"]["nodeId"], asked.name == "media_preview"
    there = check_output(folder, args["output"], overwrite=args.get("overwrite", False))
    page = page_of(asked.ask(ask.Attached(node=node_id, kind="media", item=args["resourceId"], limit=1)))
    if not page.items:
        details = {"nodeId": node_id, "resourceId": args["resourceId"]}
        raise problem("not_found", f"the document has no media {args['resourceId']}", stage="resolve", details=details)
    data = _bytes(asked.ask(ask.Blob(node=node_id, item=args["resourceId"], small=small))["data"])
    sha256 = hashlib.sha256(data).hexdigest()
    if not small and sha256 != page.items[0]["mark"]:
        raise problem("invalid_response", "these are not the bytes that were put in", stage="read", execution_started=False)
    over = over_of(args["output"], replace=args.get("overwrite", False))
    memo = Memo(facts={"land": {"folder": list(folder), "path": args["output"], "sha256": sha256, "bytes": len(data)}})
    resolved = {"resourceId": args["resourceId"], "output": args["output"], "replaces": there}
    prepared: Prepared = prepared_on(node, resolved=resolved, confirm=there and not asked.person)
    return Plan(prepared=prepared, requests={"land": ask.Land(output=args["output"], over=over)}, memo=memo, node=node, upload=data)


def _bytes(data: object) -> bytes:
    """As the service beside us gives them, or as JSON does. Raises invalid_response for what is neither."""
    if isinstance(data, bytes):
        return data
    try:
        return base64.b64decode(cast(str, data), validate=True)
    except (ValueError, TypeError) as error:
        raise problem("invalid_response", "the bytes of this media are none", stage="read", execution_started=False) from error


def land(folder: Folder, request: ask.Land, data: bytes) -> ask.Reply:
    """Raises ProblemError as the landing does."""
    with telling("land"), folder.opened() as root:
        folder.check(request.output, write=True)
        root.sweep_beside(request.output)
        done = write_atomic(root, request.output, data, replace=request.over != "nothing")
    return {"state": "landed", "path": done.path, "sha256": done.sha256, "bytes": done.bytes}


def landed(memo: Memo) -> ask.Reply | None:
    """What stands where the file was to be: the reply of the landing, or None = nothing. Raises commit_unknown for another file."""
    told = memo.facts["land"]
    folder = Folder(*told["folder"])
    with telling("land"), folder.opened() as root:
        found = root.stat(told["path"])
        if found is None:
            return None
        if root.checksum(told["path"])[0] == told["sha256"]:
            return {"state": "landed", "path": told["path"], "sha256": told["sha256"], "bytes": told["bytes"]}
    raise problem("commit_unknown", f"it cannot be told whether {told['path']} was written", stage="land", execution_started=None)


def _list(asked: Asked, plan: Plan, seal: Seal) -> Any:
    """Everything put in, and the blocks that show it now."""
    node = plan.node["target"]["nodeId"]
    page = listed(
        asked, {"nodeId": node}, seal, lambda f: ask.Attached(node=node, kind="media", cursor=f.cursor, limit=f.limit, snapshot=f.snapshot), "id"
    )
    shown: dict[str, list[str]] = {}
    for k in c.kept(asked.ask(ask.Content(node=node))["blocks"]) if page.items else []:
        if k.block.src.startswith(SCHEME):
            shown.setdefault(k.block.src.removeprefix(SCHEME), []).append(k.id)
    items = tuple(
        {"resourceId": item["id"], **json.loads(item["body"]), "blockIds": shown.get(item["id"], [])[: limits.IDS_SHOWN]} for item in page.items
    )
    return replace(page, items=items)


PLANS: Final[dict[str, Callable[[Asked], Plan]]] = {"media_insert": _insert, "media_download": _land, "media_preview": _land}
LISTS: Final[Lists] = {"media_list": _list}
