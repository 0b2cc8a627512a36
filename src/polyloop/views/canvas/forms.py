"""Which forms a canvas is given out in, and reading it whole for that: one transaction, one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from polyloop.canvas import board as stored
from polyloop.canvas import storyboard, table
from polyloop.canvas.model import Node
from polyloop.canvas.store import find_canvas
from polyloop.contract.problem import ProblemError, problem
from polyloop.db import Tx
from polyloop.media.store import asset_bytes, kept, sha_of
from polyloop.words.catalog import Lang

from .board import PICTURE_BYTES, PICTURES, Asset, Board
from .bundle import bundle, canvas_json
from .jsoncanvas import json_canvas
from .page import page
from .picture import png, svg
from .sheets import storyboard_csv, storyboard_markdown, table_markdown

#: Of the whole canvas.
WHOLE: Final[dict[str, Callable[[Board, Lang], bytes]]] = {
    "json": lambda board, _: canvas_json(board), "jsoncanvas": json_canvas, "html": page, "svg": svg,
    "png": png, "zip": bundle,
}  # fmt: skip
#: Of one structured node: form -> type of node -> what makes it.
OF_NODE: Final[dict[str, dict[str, Callable[[Node, Board, Lang], bytes]]]] = {
    "markdown": {
        storyboard.TYPE: lambda node, board, lang: storyboard_markdown(node, board.rows.get(node.id, ()), lang).encode("utf-8", "replace"),
        table.TYPE: lambda node, board, lang: table_markdown(node, board.rows.get(node.id, ()), lang).encode("utf-8", "replace"),
    },
    "csv": {storyboard.TYPE: lambda node, board, _: storyboard_csv(node, board.rows.get(node.id, ()))},
}
FORMS: Final = (*WHOLE, *OF_NODE)
#: Forms that show pictures themselves.
PICTURED: Final = frozenset({"html", "svg", "png"})
#: Bytes of all files that are read for one export.
FILES_BYTES: Final = 1 << 29


def whole(tx: Tx, tenant: str, owner: str, canvas_id: str, form: str = "") -> Board:
    """Everything on a canvas as it stands, with the bytes of the files this form shows or holds.

    Raises ProblemError: not_found unless it is there and the owner's, validation when its files are too large together.
    """
    head = find_canvas(tx, tenant, owner, canvas_id)
    look = stored.Board(tx, tenant, head)
    nodes = look.nodes(0, head.nodes)
    named = {n.id: n.body["asset"] for n in nodes if n.body.get("asset")}
    wanted = {i: asset for i, asset in named.items() if form == "zip" or (form in PICTURED and shown_as_picture(asset))}
    if (size := sum(asset["bytes"] for asset in wanted.values())) > FILES_BYTES:
        details = {"field": "format", "issue": "too_large", "bytes": size, "limit": FILES_BYTES}
        raise problem("validation", f"the files of this canvas have {size} bytes", operation="canvas.export", stage="read", details=details)
    files = {i: found for i, asset in named.items() if (found := _file(tx, tenant, asset, read=i in wanted)) is not None}
    nodes = [_without(n) if n.id in named and n.id not in files else n for n in nodes]
    return Board(
        canvas_id=head.id, title=head.title, snapshot_hash=head.content, nodes=nodes, edges=look.edges(0, head.edges),
        rows={n.id: look.rows_of(n.id) for n in nodes if n.count}, assets=files,
    )  # fmt: skip


def _file(tx: Tx, tenant: str, asset: dict[str, Any], *, read: bool) -> Asset | None:
    """None = it is lost, or is not what it was: that is of its node, and keeps nobody from the others."""
    sha = sha_of(asset)
    if not kept(tx, tenant, sha):
        return None
    try:
        return Asset(sha, asset["mimeType"], asset_bytes(tx, tenant, sha) if read else b"")
    except ProblemError as stop:
        if stop.problem.kind not in ("not_found", "corrupt_store"):
            raise
        return None


def _without(node: Node) -> Node:
    return replace(node, body={**{name: value for name, value in node.body.items() if name != "asset"}, "lost": True})


def shown_as_picture(asset: dict[str, Any]) -> bool:
    """Is this file drawn into pictures and pages?"""
    return asset["mimeType"] in PICTURES and asset["bytes"] <= PICTURE_BYTES


def check_form(form: str, node_id: str = "") -> None:
    """Raises ProblemError(validation) for a form there is not, or one that wants a node, or none."""
    if form not in FORMS:
        raise _wrong("format", "invalid_value", f"one of: {', '.join(FORMS)}")
    if form in WHOLE and node_id:
        raise _wrong("node", "exclusive", f"{form} is of the whole canvas")
    if form in OF_NODE and not node_id:
        raise _wrong("node", "required", f"{form} is of one node")


def given_out(board: Board, form: str, lang: Lang, node_id: str = "") -> bytes:
    """The bytes of a form; `node_id` names the storyboard or table for `markdown` and `csv`, and goes with nothing else.

    Raises ProblemError: validation, not_found, type_mismatch, capability_unavailable (png without the extra `media`).
    """
    check_form(form, node_id)
    if form in WHOLE:
        return WHOLE[form](board, lang)
    node = next((n for n in board.nodes if n.id == node_id), None)
    if node is None:
        raise problem("not_found", f"there is no node {node_id!r}", operation="canvas.export", stage="resolve", details={"nodeId": node_id})
    make = OF_NODE[form].get(node.type)
    if make is None:
        details = {"nodeId": node_id, "type": node.type, "types": list(OF_NODE[form])}
        raise problem("type_mismatch", f"there is no {form} of a {node.type}", operation="canvas.export", stage="resolve", details=details)
    return make(node, board, lang)


def _wrong(field: str, issue: str, message: str) -> Exception:
    return problem("validation", message, operation="canvas.export", stage="arguments", details={"field": field, "issue": issue})
