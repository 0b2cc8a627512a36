"""Storyboards and tables as Markdown for people and as CSV for spreadsheets, where no cell can become a formula."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Final

from polyloop.canvas import storyboard, table
from polyloop.canvas.model import Node, Row
from polyloop.formats.blocks import Block, Cell, Document, Run, Table
from polyloop.formats.markdown_out import write_markdown
from polyloop.words.catalog import Lang, say

from .board import number_of, plain

#: What a spreadsheet takes for the beginning of a formula.
_FORMULA: Final = re.compile(r"[=+\-@\u2212]|[\t\r\n]")
_BINDINGS: Final = "assetBindings"


def storyboard_markdown(node: Node, rows: Sequence[Row], lang: Lang) -> str:
    """A section for each shot, with the fields that are told."""
    blocks = [_heading(node.title or node.id, 1)]
    for number, row in enumerate(rows, 1):
        blocks.append(_heading(f"{say('shot.number', lang, number=number)} · {number_of(row.body['durationSeconds'])} s", 2))
        blocks += [_field(f"shot.{name}", str(row.body[name]), lang) for name in storyboard.TEXTS if _said(row.body.get(name))]
        if row.body.get(_BINDINGS):
            blocks.append(_field(f"shot.{_BINDINGS}", _bindings(row.body), lang))
    return _markdown(blocks)


def table_markdown(node: Node, rows: Sequence[Row], lang: Lang) -> str:
    """The settings, then one line a row."""
    own = table.settings(node)
    settings = [_field(f"table.{name}", str(own[name]), lang) for name in ("operation", "concurrency", "globalPrompt") if _said(own[name])]
    grid = Table(tuple(tuple(Cell((Run(_line(text)),)) for text in line) for line in plan(rows, lang)), header_rows=1)
    return _markdown([_heading(node.title or node.id, 1), *settings, Block("table", table=grid)])


def plan(rows: Sequence[Row], lang: Lang) -> list[list[str]]:
    """The rows of a batch table under their heads."""
    head = [say(f"table.{name}", lang) for name in ("row", "enabled", "references", "prompt", "output")]
    lines = [
        [str(n), "✓" if row.body["enabled"] else "", ", ".join(row.body["inputNodeIds"]), row.body["prompt"], row.body.get("outputNodeId", "")]
        for n, row in enumerate(rows, 1)
    ]
    return [head, *lines]


def storyboard_csv(node: Node, rows: Sequence[Row]) -> bytes:
    """One line a shot under the names of the fields, quoted throughout; UTF-8 with the mark spreadsheets look for."""
    names = ("durationSeconds", *storyboard.TEXTS)
    lines = [["shotNumber", *names, _BINDINGS, "rowId"]]
    lines += [
        [str(number), *(_cell(row.body.get(name, "")) for name in names), _cell(_bindings(row.body)), _cell(row.id)]
        for number, row in enumerate(rows, 1)
    ]
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(lines)
    return b"\xef\xbb\xbf" + out.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> str:
    """A number, or a text that stays a text: a quote mark stands before what would be a formula."""
    if isinstance(value, int | float):
        return number_of(value)
    text = plain(str(value))
    return f"'{text}" if _FORMULA.match(text) or _FORMULA.match(_begun(text)) else text


def _begun(text: str) -> str:
    """The first character that shows, in its plain width: some readers look past blanks and marks without a width."""
    return next((unicodedata.normalize("NFKC", c) for c in text if not (c.isspace() or unicodedata.category(c) in ("Cc", "Cf"))), "")


def _bindings(body: dict[str, Any]) -> str:
    return "; ".join(f"{b['role']}: {b['nodeId']}" for b in body.get(_BINDINGS, ()))


def heading(text: str) -> str:
    """A line of Markdown that is a heading and nothing else, "" of a text that shows nothing."""
    return _markdown([_heading(text, 1)]).strip() if _line(text) else ""


def _said(value: Any) -> bool:
    """Is anything left of it to show?"""
    return plain(str(value or "")).strip() != ""


def _heading(text: str, level: int) -> Block:
    return Block("heading", (Run(_line(text)),), level=level)


def _field(code: str, text: str, lang: Lang) -> Block:
    return Block("bulleted", (Run(say(code, lang), bold=True), Run(f": {plain(text).strip()}")))


def _line(text: str) -> str:
    return " ".join(plain(text).split())


def _markdown(blocks: Sequence[Block]) -> str:
    return write_markdown(Document(tuple(blocks))).decode()
