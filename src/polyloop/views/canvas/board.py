"""What is exported: one canvas as it stands, read whole at one snapshot."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from polyloop.canvas.model import Edge, Node, Row
from polyloop.contract.problem import is_object
from polyloop.contract.task import PHASES
from polyloop.formats.blocks import printable
from polyloop.words.catalog import Lang, say

#: Pictures and sounds a file may hold, by what they are; others are kept without a name of their kind.
ENDINGS: Final = {
    "image/png": "png", "image/jpeg": "jpg", "image/webp": "webp", "image/gif": "gif", "video/mp4": "mp4", "video/webm": "webm",
    "audio/mpeg": "mp3", "audio/wav": "wav", "audio/mp4": "m4a",
}  # fmt: skip


#: What pictures and pages show themselves, up to so many bytes each.
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
PICTURE_BYTES: Final = 1 << 22
_TURNS: Final = re.compile("[\x80-\x9f\u202a-\u202e\u2066-\u2069]")


class Asset(Struct, frozen=True):
    """The file of a media node, as it was verified. `data` stays empty where a form needs no bytes of it."""

    sha256: str
    mime: str
    data: bytes = b""

    @property
    def path(self) -> str:
        """Where it lies in a bundle: named by its content alone."""
        return f"assets/{self.sha256}.{ENDINGS.get(self.mime, 'bin')}"


class Board(Struct, frozen=True, kw_only=True):
    """`rows` and `assets` by the id of their node."""

    canvas_id: str
    title: str
    snapshot_hash: str
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    rows: Mapping[str, Sequence[Row]] = {}
    assets: Mapping[str, Asset] = {}

    @property
    def back_to_front(self) -> list[Node]:
        """Containers lie behind everything; then in the order of making."""
        return sorted(self.nodes, key=lambda n: (n.type != "frame", n.no, n.id))


def plain(text: str) -> str:
    """A text as it may be shown: without controls, and without the marks that turn the direction of what stands around it."""
    return _TURNS.sub("", printable(text))


def body_text(node: Node) -> str:
    """What a node says: its text, or the prompt of media."""
    return str(node.body.get("content") or node.body.get("prompt") or "")


def standing(node: Node, lang: Lang) -> str:
    """How what is made for a node stands, and that it is synthetic; "" = nothing is made, or it is done and there to be seen (S1.37, S1.47)."""
    task, asset = (found if is_object(found := node.body.get(part)) else {} for part in ("task", "asset"))
    phase = PHASES.get(str(task.get("status")), "unknown") if task else "succeeded"
    phase = "unreadable" if phase == "succeeded" and ((task and not asset) or node.body.get("lost")) else phase
    states = [phase] if phase != "succeeded" else []
    return " · ".join(say(f"node.{word}", lang) for word in (*states, *(["synthetic"] if asset.get("synthetic") else [])))


def measures(node: Node) -> str:
    """What a file is: its type, its size in pixels, its length in seconds; "" = there is none."""
    asset = found if is_object(found := node.body.get("asset")) else {}
    size = f"{asset['width']}×{asset['height']}" if asset.get("width") else ""
    length = f"{number_of(asset['durationMs'] / 1000)} s" if asset.get("durationMs") else ""
    return " · ".join(part for part in (str(asset.get("mimeType", "")), size, length) if part)


def number_of(value: float) -> str:
    """A number in full, without a fraction that says nothing."""
    return f"{value:.15g}"


def facts(board: Board) -> dict[str, Any]:
    """Everything there is, for programs: the side file of a bundle."""
    nodes = [
        {
            "id": n.id, "type": n.type, "title": n.title, "x": n.x, "y": n.y, "width": n.width, "height": n.height, "locked": n.locked,
            "parentId": n.parent or None, "body": n.body, "rows": [{"rowId": r.id, **r.body} for r in board.rows.get(n.id, ())],
        }
        for n in board.nodes
    ]  # fmt: skip
    edges = [
        {"id": e.id, "fromNodeId": e.source, "fromHandleId": e.source_handle, "toNodeId": e.target, "toHandleId": e.target_handle}
        for e in board.edges
    ]
    return {"schema": "polyloop.canvas.v1", "canvasId": board.canvas_id, "title": board.title, "snapshotHash": board.snapshot_hash,
            "nodes": nodes, "connections": edges}  # fmt: skip
