"""JSON Canvas 1.0: texts as text, media with bytes as files, frames as groups, whole-number boxes, the order of nodes from back to front."""

from __future__ import annotations

import json
from typing import Any

from polyloop.canvas.model import Node
from polyloop.canvas.storyboard import TYPE as STORYBOARD
from polyloop.canvas.table import TYPE as TABLE
from polyloop.words.catalog import Lang

from .board import Board, body_text
from .sheets import heading, storyboard_markdown, table_markdown


def json_canvas(board: Board, lang: Lang) -> bytes:
    """UTF-8 JSON of `nodes` and `edges`, and nothing the format does not know."""
    edges = [{"id": e.id, "fromNode": e.source, "fromSide": "right", "toNode": e.target, "toSide": "left", "toEnd": "arrow"} for e in board.edges]
    told = {"nodes": [_node(board, n, lang) for n in board.back_to_front], "edges": edges}
    return (json.dumps(told, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")


def _node(board: Board, node: Node, lang: Lang) -> dict[str, Any]:
    box = {"id": node.id, "x": node.x, "y": node.y, "width": node.width, "height": node.height}
    if node.type == "frame":
        return {**box, "type": "group", **({"label": node.title} if node.title else {})}
    if asset := board.assets.get(node.id):
        return {**box, "type": "file", "file": asset.path}
    return {**box, "type": "text", "text": _text(board, node, lang)}


def _text(board: Board, node: Node, lang: Lang) -> str:
    rows = board.rows.get(node.id, ())
    if node.type == STORYBOARD:
        return storyboard_markdown(node, rows, lang)
    if node.type == TABLE:
        return table_markdown(node, rows, lang)
    return "\n\n".join(part for part in (heading(node.title), body_text(node)) if part)
