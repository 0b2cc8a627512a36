"""Sums in tables: total rows, total columns, and price times quantity."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from polyloop.audit.checks.finding import Finding
from polyloop.audit.checks.passages import Passage, cell_passage
from polyloop.formats.blocks import grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polyloop.audit.checks.passages import Reading
    from polyloop.formats.blocks import Block

_TOTAL: Final = re.compile(r"(?:合计|总计|共计|总和|grand total|total|sum)(?:[（(].{0,12}[）)])?[：:]?\Z", re.IGNORECASE)
_SUBTOTAL: Final = re.compile(r".{0,12}(?:小计|subtotal|sub-total)(?:[（(].{0,12}[）)])?[：:]?\Z", re.IGNORECASE)
_PART_OF: Final = re.compile(r"其中|of which|including", re.IGNORECASE)
_NOT_ADDED: Final = re.compile(
    r"序号|编号|代码|年份|年度|日期|电话|单价|均|率|比例|增长|增速|增幅|得分|评分|排名|价格|期限|\b(?:no|id|code|year|date|unit|price|rate|avg|average|mean|growth|score|rank|phone)\b|#",
    re.IGNORECASE,
)
_SHARE: Final = re.compile(r"占比|比重|share|percent|%", re.IGNORECASE)
_NUMBER: Final = re.compile(
    r"[¥￥$£€]?\s*(?P<sign>[-－−(（]?)\s*[¥￥$£€]?(?P<n>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)\s*[)）]?\s*"
    r"(?P<unit>[%％]|[百千万亿]*元|[台套个件家人名项辆次])?\Z"
)
_EMPTY: Final = frozenset({"", "-", "—", "——", "/", "－", "–", "n/a"})
_MAX_CELLS: Final = 40_000
_MIN_ADDENDS: Final = 2
_WHOLE_PERCENT: Final = 100


class _Value(Struct, frozen=True):
    number: Fraction
    unit: str
    last_place: Fraction


class _View:
    """A table as a full grid of passages; a spanned place shows its cell again."""

    def __init__(self, block: Block, index: int) -> None:
        assert block.table is not None
        rows = block.table.rows
        made = [[cell_passage(block, index, cell, at_row, at_cell) for at_cell, cell in enumerate(row, 1)] for at_row, row in enumerate(rows, 1)]
        self.rows: list[list[Passage | None]] = [[None if place is None else made[place[0]][place[1]] for place in row] for row in grid(block.table)]
        self.width = len(self.rows[0]) if self.rows else 0
        first_is_head = bool(self.rows) and not any(_value(self.text(0, column)) for column in range(self.width))
        self.heads = block.table.header_rows or (1 if first_is_head else 0)

    def text(self, row: int, column: int) -> str:
        """The text of a place; of a cell that spans several only where it begins."""
        passage = self.rows[row][column]
        covered = (column > 0 and self.rows[row][column - 1] is passage) or (row > 0 and self.rows[row - 1][column] is passage)
        return "" if passage is None or covered else passage.text.strip()

    def head(self, column: int) -> str:
        return "".join(passage.text for row in self.rows[: self.heads] if (passage := row[column]) is not None)

    def label(self, row: int) -> str:
        """What the row is called: its first text that is no number."""
        texts = (self.text(row, column) for column in range(min(self.width, 3)))
        return re.sub(r"\s", "", next((text for text in texts if text not in _EMPTY and _value(text) is None), ""))


def table_sums(reading: Reading) -> Iterator[Finding]:
    """Totals equal the sum of what they total; a price times a quantity equals the amount beside it."""
    for index, block in enumerate(reading.document.blocks):
        if block.table is None or sum(len(row) for row in block.table.rows) > _MAX_CELLS:
            continue
        view = _View(block, index)
        yield from _total_rows(view)
        yield from _total_columns(view)
        yield from _products(view)


def _value(text: str) -> _Value | None:
    found = _NUMBER.match(re.sub(r"\s", " ", text.strip()))
    if found is None:
        return None
    digits = found["n"].replace(",", "")
    places = len(digits.partition(".")[2])
    number = Fraction(digits) * (-1 if found["sign"] else 1)
    return _Value(number, found["unit"] or "", Fraction(1, 10**places))


def _total_rows(view: _View) -> Iterator[Finding]:
    for row in range(view.heads, len(view.rows)):
        if _TOTAL.match(view.label(row)):
            start = _section_start(view, row)
            for column in range(view.width):
                if not _NOT_ADDED.search(view.head(column)):
                    yield from _total_cell(view, row, column, start)


def _section_start(view: _View, total: int) -> int:
    """Rows after an earlier total, unless that was the total of a group of this one."""
    for row in range(total - 1, view.heads - 1, -1):
        if _TOTAL.match(view.label(row)):
            return row + 1
    return view.heads


def _total_cell(view: _View, total: int, column: int, start: int) -> Iterator[Finding]:
    said = _value(view.text(total, column))
    items: list[_Value] = []
    groups: list[_Value] = []
    for row in range(start, total):
        text = view.text(row, column)
        value = _value(text)
        if value is None and text.lower() not in _EMPTY:
            return
        if value is not None and not _PART_OF.match(view.label(row)):
            (groups if _SUBTOTAL.match(view.label(row)) else items).append(value)
    if said is None or len(items) + len(groups) < _MIN_ADDENDS or any(value.unit != said.unit for value in items + groups):
        return
    if (said.unit in ("%", "％") or _SHARE.search(view.head(column))) and said.number != _WHOLE_PERCENT:
        return
    sums = [_sum(values) for values in (items, groups) if values]
    if all(abs(each - said.number) > _tolerance([*items, *groups], said) for each in sums):
        yield _fault(view, total, column, "total_row_differs", sums[0], said)


def _total_columns(view: _View) -> Iterator[Finding]:
    """A column headed 合计 is the sum of its row, if most rows say so."""
    totals = [column for column in range(view.width) if _TOTAL.match(re.sub(r"\s", "", view.head(column)))]
    if len(totals) != 1 or view.heads == 0:
        return
    column = totals[0]
    addends = [at for at in range(view.width) if at != column and not _NOT_ADDED.search(view.head(at)) and not _SHARE.search(view.head(at))]
    wrong: list[tuple[int, Fraction, _Value]] = []
    right = 0
    for row in range(view.heads, len(view.rows)):
        said = _value(view.text(row, column))
        values = [value for at in addends if (value := _value(view.text(row, at))) is not None]
        if said is None or len(values) < _MIN_ADDENDS or any(value.unit != said.unit for value in values):
            continue
        total = _sum(values)
        if abs(total - said.number) > _tolerance(values, said):
            wrong.append((row, total, said))
        else:
            right += 1
    if right > len(wrong):
        for row, total, said in wrong:
            yield _fault(view, row, column, "total_column_differs", total, said)


def _products(view: _View) -> Iterator[Finding]:
    """Price times quantity, where a table has exactly one column of each and one amount."""
    columns = [
        [column for column in range(view.width) if re.match(pattern, view.head(column), re.IGNORECASE)]
        for pattern in (r"单价|unit price", r"数量|quantity|qty", r"小计|金额|合价|总价|amount|line total")
    ]
    if any(len(found) != 1 for found in columns):
        return
    price, quantity, amount = (found[0] for found in columns)
    rows = [(row, [_value(view.text(row, column)) for column in (price, quantity, amount)]) for row in range(view.heads, len(view.rows))]
    full = [(row, a, b, said) for row, (a, b, said) in rows if a and b and said]
    wrong = [(row, a.number * b.number, said) for row, a, b, said in full if abs(a.number * b.number - said.number) > said.last_place]
    if len(wrong) * 2 < len(full):
        for row, product, said in wrong:
            yield _fault(view, row, amount, "product_differs", product, said)


def _sum(values: Sequence[_Value]) -> Fraction:
    return sum((value.number for value in values), Fraction())


def _tolerance(values: Sequence[_Value], said: _Value) -> Fraction:
    """Rounded addends may miss a rounded total by half a last place each; whole numbers are counts and must agree."""
    return sum((value.last_place / 2 for value in [*values, said] if value.last_place < 1), Fraction())


def _fault(view: _View, row: int, column: int, code: str, computed: Fraction, said: _Value) -> Finding:
    passage = view.rows[row][column]
    assert passage is not None
    label = next((each for each in view.rows[row] if each is not None and each.text.strip()), passage)
    params = {"said": passage.text.strip(), "computed": _decimal(computed), "column": view.head(column).strip() or str(column + 1), "unit": said.unit}
    return Finding("table_sums", "error", code, passage.evidence(), params, (label.evidence(),) if label is not passage else ())


def _decimal(number: Fraction) -> str:
    text = f"{float(number):,.4f}"
    return text.rstrip("0").rstrip(".")
