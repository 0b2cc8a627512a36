"""Workbooks to a heading and a table per sheet: the values as they stand, everything else by name.

The archive is unpacked and judged before the library sees it, so that what a member claims to hold is never believed. Formulas,
merged cells and what hangs on a sheet are counted in its XML; the values come from the library, row by row.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import warnings
import zipfile
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from polyloop.formats.archive import unpack
from polyloop.formats.blocks import Block, Cell, Document, Loss, Run, Table
from polyloop.formats.limits import (
    MAX_BOOK_TAGS,
    MAX_CELL_SPAN,
    MAX_CHARACTERS,
    MAX_SHEET_CELLS,
    MAX_SHEET_COLUMNS,
    MAX_SHEET_EXTRAS,
    MAX_SHEET_ROWS,
    MAX_STREAMED_TAGS,
    MAX_TABLE_PLACES,
    MAX_XML_TAGS,
)  # fmt: skip
from polyloop.formats.office import only_utf_8, refuse_binary, xml_text
from polyloop.formats.problems import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FORMULA: Final = re.compile(rb"<(?:\w+:)?f[ >/]")
_NO_VALUE: Final = re.compile(rb"(?:</(?:\w+:)?f>|<(?:\w+:)?f\b[^<>]*/>)\s*(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>")
_ROW_OR_CELL: Final = re.compile(rb"<(?:\w+:)?(row|c)[\s/>]")
_SHEET: Final = re.compile(rb"<(?:\w+:)?sheet\s")
_MERGED: Final = re.compile(rb'<(?:\w+:)?mergeCell\b[^<>]*\bref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
#: What hangs on a workbook, by the folder or name of its part.
_PARTS: Final = {
    "charts/": "drawing", "drawings/drawing": "drawing", "media/": "image_data", "comments": "comments", "pivotTables/": "embedded_object",
    "embeddings/": "embedded_object", "externalLinks/": "embedded_object",
}  # fmt: skip


def read_xlsx(name: str, data: bytes) -> Document:
    """Raises `corrupt`, `encrypted`, `macros`, `archive_too_large`, `too_large`, `too_many_characters`, `library_missing`."""
    refuse_binary(name, data, "workbook, not xlsx")
    parts = unpack(name, data, (".xml", ".rels"))
    for path, part in parts.items():
        _check_part(name, path, part)
    losses = Counter({"xlsx_layout": 1})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for path in archive.namelist():
            losses.update(code for mark, code in _PARTS.items() if path.startswith(f"xl/{mark}") and not path.endswith((".rels", "/")))
    return _Book(name, parts, losses).read(data)


def _check_part(name: str, path: str, part: bytes) -> None:
    """Raises `corrupt` for what declares entities, or says so in a way that hides it from us; `too_large` for more than a workbook can mean."""
    only_utf_8(name, path, part)
    sheet, shared = path.startswith("xl/worksheets/"), path.lower() == "xl/sharedstrings.xml"
    most = MAX_STREAMED_TAGS if sheet else MAX_XML_TAGS if shared else MAX_BOOK_TAGS
    xml_text(name, path, part, most)
    if sheet:
        in_row = 0
        for found in _ROW_OR_CELL.finditer(part):
            in_row = in_row + 1 if found[1] == b"c" else 0
            if in_row > MAX_SHEET_COLUMNS:
                raise unreadable(name, "too_large", f"a row of its part {path} has more than {MAX_SHEET_COLUMNS} cells")


class _Book:
    def __init__(self, name: str, parts: Mapping[str, bytes], losses: Counter[str]) -> None:
        self.name, self.parts, self.losses = name, parts, losses
        self.places = self.chars = self.looked = 0

    def read(self, data: bytes) -> Document:
        try:
            import openpyxl
        except ImportError as error:
            raise unreadable(self.name, "library_missing", "reading xlsx needs openpyxl") from error
        blocks: list[Block] = []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what the library does not support is named by us
                book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
                title = book.properties.title or ""
                if len(book.sheetnames) != len(_SHEET.findall(self.parts.get("xl/workbook.xml", b""))):
                    raise unreadable(self.name, "corrupt", "one of its sheets is missing")
                for sheet in book.worksheets:
                    blocks += self.sheet(sheet)
                self.losses["chart_sheets"] += len(book.chartsheets)
                book.close()
        except (zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, IndexError, OverflowError, SyntaxError, OSError) as error:
            raise unreadable(self.name, "corrupt", f"it is not a whole workbook ({type(error).__name__}: {str(error)[:120]})") from error
        placed = tuple(block.edited(order=order) for order, block in enumerate(blocks))
        return Document(placed, tuple(Loss(code, count) for code, count in sorted(self.losses.items()) if count), str(title), self.name, "xlsx")

    def sheet(self, sheet: Any) -> list[Block]:
        path = sheet._worksheet_path.lstrip("/")  # noqa: SLF001  # the only way to the part behind a sheet
        part = self.parts[path]
        if part.count(b"<", max(part.rfind(b"sheetData"), 0)) > MAX_SHEET_EXTRAS:
            raise unreadable(self.name, "too_large", f"its sheet {path} has more than {MAX_SHEET_EXTRAS} merges, links and the like")
        self.losses["formulas_as_values"] += len(_FORMULA.findall(part))
        self.losses["formula_without_value"] += len(_NO_VALUE.findall(part))
        self.losses["hidden_sheet"] += sheet.sheet_state != "visible"
        sheet.reset_dimensions()  # a sheet's own word about its size is not believed
        rows = self.rows(sheet)
        heading = Block("heading", (Run(str(sheet.title)),), level=1)
        if not rows:
            return [heading]
        return [heading, Block("table", table=Table(_merged(rows, part), 1 if len(rows) > 1 else 0))]

    def rows(self, sheet: Any) -> list[list[str]]:
        rows: list[list[str]] = []
        for row in sheet.iter_rows(values_only=True):
            self.looked += len(row)
            end = len(row)
            while end and row[end - 1] in (None, ""):
                end -= 1
            texts = [self.text(value) for value in row[:end]]
            rows.append(texts)
            self.places += max(len(texts), 1)
            self.chars += sum(map(len, texts))
            if self.places > MAX_TABLE_PLACES or len(rows) > MAX_SHEET_ROWS or self.looked > MAX_SHEET_CELLS:
                raise unreadable(self.name, "too_large", f"it has more than {MAX_TABLE_PLACES} cells, or {MAX_SHEET_ROWS} rows in a sheet")
            if self.chars > MAX_CHARACTERS:
                raise unreadable(self.name, "too_many_characters", f"it has more than {MAX_CHARACTERS} characters")
        while rows and not rows[-1]:
            rows.pop()
        width = max(map(len, rows), default=0)
        if width * len(rows) > MAX_TABLE_PLACES:
            raise unreadable(self.name, "too_large", f"one of its sheets has more than {MAX_TABLE_PLACES} cells")
        return [row + [""] * (width - len(row)) for row in rows]

    def text(self, value: object) -> str:
        """A value as text: numbers exactly, dates as ISO 8601."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, float):
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        if isinstance(value, dt.datetime):
            return value.date().isoformat() if value.time() == dt.time() else value.isoformat(sep=" ")
        if isinstance(value, dt.date | dt.time):
            return value.isoformat()
        return str(value).replace("\r\n", "\n").replace("_x000D_", "")


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number - 1


def _merged(rows: list[list[str]], part: bytes) -> tuple[tuple[Cell, ...], ...]:
    """Cells, where merged ones cover what the sheet says they cover, as far as there are values."""
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    covered: set[tuple[int, int]] = set()
    width, places = len(rows[0]), 0
    for left, top, right, bottom in _MERGED.findall(part):
        column, row = _column(left), int(top) - 1
        down, across = min(int(bottom), len(rows)) - row, min(_column(right) + 1, width, column + MAX_CELL_SPAN) - column
        places += max(down, 0) * max(across, 0)
        if row < 0 or down < 1 or across < 1 or places > MAX_TABLE_PLACES:
            continue
        inside = {(row + d, column + a) for d in range(down) for a in range(across)}
        if len(inside) > 1 and covered.isdisjoint(inside) and spans.keys().isdisjoint(inside):
            spans[row, column] = (across, down)
            covered |= inside - {(row, column)}
    return tuple(_row(texts, at, spans, covered) for at, texts in enumerate(rows))


def _row(texts: Iterable[str], at: int, spans: Mapping[tuple[int, int], tuple[int, int]], covered: set[tuple[int, int]]) -> tuple[Cell, ...]:
    cells = ((text, spans.get((at, column), (1, 1))) for column, text in enumerate(texts) if (at, column) not in covered)
    return tuple(Cell((Run(text),) if text else (), across, down) for text, (across, down) in cells)
