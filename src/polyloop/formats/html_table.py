"""The rows of one HTML table while they are read, and the table they make."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from polyloop.formats.blocks import Align, Cell, Run, Table
from polyloop.formats.limits import MAX_CELL_SPAN, MAX_TABLE_PLACES
from polyloop.formats.problems import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NUMBER: Final = re.compile(r"\d{1,6}")


class TableParts:
    """Fills row by row. `around` = what was said before it in the cell of another table."""

    def __init__(self, around: list[Run]) -> None:
        self.rows: list[list[Cell]] = []
        self.around = around
        self._heads: list[bool] = []
        self._aligns: list[Align] = []
        self._part = ""
        self._open: tuple[int, int, bool] | None = None

    def part(self, tag: str) -> None:
        self._part = tag

    def row(self) -> None:
        self.rows.append([])
        self._heads.append(True)

    def cell(self, given: Mapping[str, str], align: Align, *, head: bool) -> None:
        """A cell begins."""
        if not self.rows:
            self.row()
        if len(self.rows) == 1:
            self._aligns.append(align)
        self._heads[-1] = self._heads[-1] and (head or self._part == "thead")
        self._open = (_span(given.get("colspan", "")), _span(given.get("rowspan", "")), head)

    def end_cell(self, runs: tuple[Run, ...]) -> None:
        if self._open is not None:
            self.rows[-1].append(Cell(runs, self._open[0], self._open[1]))
            self._open = None

    def texts(self) -> Iterator[tuple[Run, ...]]:
        return (cell.runs for row in self.rows for cell in row)

    def made(self, name: str) -> Table:
        """Raises `too_large`."""
        if sum(cell.colspan * cell.rowspan for row in self.rows for cell in row) > MAX_TABLE_PLACES:
            raise unreadable(name, "too_large", f"one of its tables has more than {MAX_TABLE_PLACES} cells")
        heads = 0
        while heads < len(self.rows) and self._heads[heads] and self.rows[heads]:
            heads += 1
        return Table(tuple(tuple(row) for row in self.rows), heads, tuple(self._aligns) if any(self._aligns) else ())


def _span(text: str) -> int:
    return min(max(int(text), 1), MAX_CELL_SPAN) if _NUMBER.fullmatch(text) else 1
