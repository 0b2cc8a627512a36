"""Blocks to one self-contained, sanitised HTML page."""

from __future__ import annotations

from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from polyloop.formats.blocks import LIST_TYPES, Block, Document, Node, Run, Table, joint_at, nodes, printable, shown, text_of
from polyloop.formats.links import SAFE_SCHEMES, safe_link
from polyloop.formats.problems import unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

_CSS: Final = (
    "body{max-width:46rem;margin:2rem auto;padding:0 1rem;line-height:1.7;color:#1a1a1a;background:#fff;"
    'font-family:"Noto Serif CJK SC","Source Han Serif SC",SimSun,"Songti SC",serif}'
    'h1,h2,h3,h4,h5,h6{font-family:"Noto Sans CJK SC","Source Han Sans SC",SimHei,"PingFang SC",sans-serif;line-height:1.35}'
    "table{border-collapse:collapse;width:100%}th,td{border:1px solid #999;padding:.3rem .5rem;vertical-align:top}"
    "th{background:#f2f2f2}pre{background:#f6f6f6;padding:.7rem;overflow:auto}blockquote{margin-left:0;padding-left:1rem;border-left:4px solid #ccc}"
    "pre,code{font-family:ui-monospace,Consolas,monospace}ul.todo{list-style:none;padding-left:1rem}"
)
_TAGS: Final = {
    "h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "blockquote", "pre", "code", "table", "thead", "tbody", "tr", "th", "td",
    "hr", "br", "strong", "em", "s", "a", "figure", "figcaption", "div", "span", "b", "i", "u", "sub", "sup", "del", "ins", "mark",
    "details", "summary",
}  # fmt: skip
_ATTRIBUTES: Final = {
    "a": {"href"}, "ol": {"start"}, "ul": {"class"}, "th": {"colspan", "rowspan", "align", "scope"}, "td": {"colspan", "rowspan", "align"},
    "pre": {"class"}, "code": {"class"},
}  # fmt: skip


def write_html(document: Document) -> bytes:
    """UTF-8. Raw HTML in the tree is let through only as far as the sanitiser allows. Raises `library_missing`."""
    if find_spec("nh3") is None:
        raise unreadable(document.name or "html", "library_missing", "writing HTML needs nh3")
    body = "".join(_siblings(nodes(document.blocks)))
    title = document.title or next((block.text for block in document.blocks if block.type == "heading"), document.name)
    lang = "zh-CN" if document.lang == "zh" else "en"
    return (
        f'<!DOCTYPE html>\n<html lang="{lang}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_escaped(' '.join(title.split()))}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n{_sanitised(body)}</body>\n</html>\n"
    ).encode()


def _sanitised(body: str) -> str:
    """Closed and harmless. Raw blocks come alone first: what one leaves open, a comment say, would take in all that follows it."""
    import nh3

    clean = nh3.clean(body, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes=set(SAFE_SCHEMES), link_rel="noopener noreferrer")
    return printable(clean)  # a reference may name a character that no page can hold


def _siblings(level: list[Node]) -> list[str]:
    """Neighbouring items of one kind share a list; a number out of sequence begins a new one."""
    out: list[str] = []
    opened = ""
    expected = 0
    for node in level:
        kind = node.block.type if node.block.type in LIST_TYPES else ""
        if opened and (kind != opened or (kind == "numbered" and node.block.number != expected)):
            out.append("</ol>\n" if opened == "numbered" else "</ul>\n")
            opened = ""
        if kind and not opened:
            start = f' start="{node.block.number}"' if kind == "numbered" and node.block.number != 1 else ""
            out.append(f"<ol{start}>\n" if kind == "numbered" else '<ul class="todo">\n' if kind == "todo" else "<ul>\n")
        opened, expected = kind, node.block.number + 1
        out.append(_node(node))
    if opened:
        out.append("</ol>\n" if opened == "numbered" else "</ul>\n")
    return out


def _node(node: Node) -> str:
    block = node.block
    children = "".join(_siblings(node.children))
    text = _runs(shown(block))
    if block.type in LIST_TYPES:
        box = ("☑ " if block.done else "☐ ") if block.type == "todo" else ""
        return f"<li>{box}{text}{children}</li>\n"
    if block.type == "quote":
        first = f"<p>{text}</p>\n" if text else ""
        return f"<blockquote>\n{first}{children}</blockquote>\n"
    return _leaf(block, text)


def _leaf(block: Block, text: str) -> str:
    if block.type == "heading":
        level = min(max(block.level, 1), 6)
        return f"<h{level}>{text}</h{level}>\n"
    if block.type in ("code", "formula"):
        return f'<pre class="{block.type}"><code>{_escaped(text_of(shown(block)))}\n</code></pre>\n'
    if block.type == "raw":
        return f"{_sanitised(block.text)}\n" if block.info == "html" else f'<pre class="raw">{_escaped(block.text)}\n</pre>\n'
    if block.type == "divider":
        return "<hr>\n"
    if block.table is not None:
        return _table(block.table)
    if block.type in ("image", "file"):
        # The page is self-contained: a picture is not fetched, its place and name stay.
        return f"<figure><figcaption>{_linked(_escaped(block.text or block.src), block.src)}</figcaption></figure>\n"
    return f"<p>{text}</p>\n"


def _table(table: Table) -> str:
    rows: list[str] = []
    for at, row in enumerate(table.rows):
        tag = "th" if at < table.header_rows else "td"
        cells: list[str] = []
        for column, cell in enumerate(row):
            align = table.aligns[column] if column < len(table.aligns) else ""
            extent = (f' colspan="{cell.colspan}"' if cell.colspan > 1 else "") + (f' rowspan="{cell.rowspan}"' if cell.rowspan > 1 else "")
            side = f' align="{align}"' if align else ""
            cells.append(f"<{tag}{extent}{side}>{_runs(cell.runs)}</{tag}>")
        rows.append(f"<tr>{''.join(cells)}</tr>\n")
    head, body = "".join(rows[: table.header_rows]), "".join(rows[table.header_rows :])
    return (
        f"<table>\n{f'<thead>{chr(10)}{head}</thead>{chr(10)}' if head else ''}{f'<tbody>{chr(10)}{body}</tbody>{chr(10)}' if body else ''}</table>\n"
    )


def _runs(runs: Sequence[Run]) -> str:
    out: list[str] = []
    for at, run in enumerate(runs):
        if run.wrap:
            out.append(joint_at(runs, at))
            continue
        text = _escaped(run.text).replace("\n", "<br>")
        for marked, tag in ((run.code, "code"), (run.strike, "s"), (run.italic, "em"), (run.bold, "strong")):
            text = f"<{tag}>{text}</{tag}>" if marked else text
        out.append(_linked(text, run.link))
    return "".join(out)


def _linked(text: str, link: str) -> str:
    target = safe_link(link)
    return f'<a href="{_escaped(target)}">{text}</a>' if target else text


def _escaped(text: str) -> str:
    return escape(printable(text))
