"""Everything of a canvas in one ZIP, with a manifest of the digest of every file.

Names in the archive are ours: no id or title of the canvas becomes a path. Times are fixed, so equal boards give equal archives.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any, Final

from polyloop.canvas.storyboard import TYPE as STORYBOARD
from polyloop.canvas.table import TYPE as TABLE
from polyloop.words.catalog import Lang

from .board import Board, facts
from .jsoncanvas import json_canvas
from .page import page
from .picture import svg
from .sheets import storyboard_csv, storyboard_markdown, table_markdown

MANIFEST: Final = "manifest.json"
_TIME: Final = (1980, 1, 1, 0, 0, 0)
_READABLE: Final = 0o644 << 16


def bundle(board: Board, lang: Lang) -> bytes:
    """Every format but PNG, which is a size of its own; every storyboard and table; every asset."""
    files = dict(sorted(_files(board, lang), key=lambda file: file[0]))
    listed = [{"path": path, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), **more} for path, (data, more) in files.items()]
    about = {"canvasId": board.canvas_id, "title": board.title, "snapshotHash": board.snapshot_hash}
    manifest = _json({"schema": "polyloop.canvas-bundle.v1", **about, "files": listed})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in [(MANIFEST, manifest), *((path, data) for path, (data, _) in files.items())]:
            entry = zipfile.ZipInfo(path, _TIME)
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, _READABLE, 3
            archive.writestr(entry, data)
    return out.getvalue()


def _files(board: Board, lang: Lang) -> Iterator[tuple[str, tuple[bytes, dict[str, Any]]]]:
    """path -> bytes, and what the manifest says of them besides."""
    yield "board.canvas", (json_canvas(board, lang), {})
    yield "canvas.json", (canvas_json(board), {})
    yield "board.html", (page(board, lang), {})
    yield "board.svg", (svg(board, lang), {})
    for number, node in enumerate([n for n in board.nodes if n.type == STORYBOARD], 1):
        rows, of = board.rows.get(node.id, ()), {"nodeId": node.id}
        yield f"storyboards/{number:03}.md", (storyboard_markdown(node, rows, lang).encode("utf-8", "replace"), of)
        yield f"storyboards/{number:03}.csv", (storyboard_csv(node, rows), of)
    for number, node in enumerate([n for n in board.nodes if n.type == TABLE], 1):
        yield f"tables/{number:03}.md", (table_markdown(node, board.rows.get(node.id, ()), lang).encode("utf-8", "replace"), {"nodeId": node.id})
    shared: dict[str, list[str]] = {}
    for node_id, asset in sorted(board.assets.items()):
        shared.setdefault(asset.path, []).append(node_id)
    for node_ids in shared.values():  # a file several nodes have is there once
        asset = board.assets[node_ids[0]]
        yield asset.path, (asset.data, {"nodeIds": node_ids, "mimeType": asset.mime})


def canvas_json(board: Board) -> bytes:
    """All facts of a board, for programs."""
    return _json(facts(board))


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")
