"""A canvas as one self-contained page: the picture, then everything it says, to read and to search.

Nothing is loaded from anywhere and nothing runs: the page forbids it to itself, and every text of the canvas is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from polyloop.canvas import storyboard, table
from polyloop.canvas.model import Node, Row
from polyloop.words.catalog import Lang, say

from .board import Board, body_text, measures, number_of, plain, standing
from .picture import svg
from .sheets import plan

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_CSS: Final = (
    ":root{color-scheme:light}body{font:15px/1.6 system-ui,'Noto Sans SC','Noto Sans CJK SC','PingFang SC',sans-serif;color:#20242b;background:#fff;"
    "max-width:76rem;margin:1.5rem auto;padding:0 1rem}h1{font-size:1.4rem;margin-bottom:.2rem}h2{font-size:1.1rem}h3{font-size:1rem;margin:.2rem 0}"
    "figure{margin:1rem 0;border:1px solid #d5d9df;border-radius:8px;overflow:auto;max-height:80vh}"
    "figure svg{display:block;max-width:100%;height:auto}"
    "section{border:1px solid #d5d9df;border-radius:8px;padding:.6rem .9rem;margin:.7rem 0}h1,h2,h3,li,p,td{overflow-wrap:anywhere}"
    "p,td{white-space:pre-wrap}"
    "table{border-collapse:collapse;width:100%}th{background:#eef0f3}"
    "th,td{border:1px solid #c9ced6;padding:.25rem .5rem;vertical-align:top;text-align:left}"
    "small{color:#5b6472}code{overflow-wrap:anywhere}"
)


def page(board: Board, lang: Lang) -> bytes:
    """UTF-8 HTML."""
    title = _e(board.title or board.canvas_id)
    size = say("board.size", lang, nodes=len(board.nodes), edges=len(board.edges))
    sections = "\n".join(_section(board, n, lang) for n in board.back_to_front)
    names = {n.id: n.title or n.id for n in board.nodes}
    links = "".join(f"<li>{_e(names.get(e.source, e.source))} → {_e(names.get(e.target, e.target))}</li>" for e in board.edges)
    connections = f"<h2>{_e(say('board.connections', lang))}</h2>\n<ul>{links}</ul>\n" if links else ""
    return (
        f'<!DOCTYPE html>\n<html lang="{"zh-CN" if lang == "zh" else "en"}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_CSS}</style></head><body>\n<h1>{title}</h1><small>{_e(size)}</small>\n"
        f"<figure>{svg(board, lang).decode()}</figure>\n<h2>{_e(say('board.contents', lang))}</h2>\n{sections}\n{connections}"
        f"<p><small>{_e(say('board.snapshot', lang))}</small> <code>{_e(board.snapshot_hash)}</code></p>\n</body></html>\n"
    ).encode("utf-8", "replace")


def _section(board: Board, node: Node, lang: Lang) -> str:
    marks = " · ".join(part for part in (node.type, say("board.locked", lang) if node.locked else "", measures(node), standing(node, lang)) if part)
    rows = board.rows.get(node.id, ())
    said = body_text(node)
    parts = [f"<h3>{_e(node.title or node.id)} <small>{_e(marks)}</small></h3>", f"<p>{_e(said)}</p>" if said else ""]
    if node.type == storyboard.TYPE:
        parts.append(_shots(rows, lang))
    elif node.type == table.TYPE:
        head, *lines = plan(rows, lang)
        parts.append(_table(head, lines))
    return f"<section>{''.join(parts)}</section>"


def _shots(rows: Sequence[Row], lang: Lang) -> str:
    """Only the fields some shot has."""
    used = [name for name in storyboard.TEXTS if any(row.body.get(name) for row in rows)]
    head = ["#", say("shot.durationSeconds", lang), *(say(f"shot.{name}", lang) for name in used)]
    return _table(
        head, [[str(n), number_of(r.body["durationSeconds"]), *(str(r.body.get(name, "")) for name in used)] for n, r in enumerate(rows, 1)]
    )


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{_e(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{_e(cell)}</td>' for cell in line)}</tr>" for line in lines)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _e(text: str) -> str:
    return escape(plain(text))
