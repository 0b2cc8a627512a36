"""Word tables: header rows, spans, deleted rows; a table inside a cell is flattened and named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from polyloop.formats.blocks import Cell, Run, Table, joined
from polyloop.formats.docx_parts import W, is_on, value, whole_number
from polyloop.formats.limits import MAX_CELL_SPAN, MAX_NESTING, MAX_TABLE_PLACES
from polyloop.formats.problems import unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polyloop.formats.docx_inline import Inline
    from polyloop.formats.docx_parts import Element

_WRAPPERS: Final = frozenset({f"{W}sdt", f"{W}sdtContent", f"{W}ins", f"{W}customXml", f"{W}moveTo"})


def table_of(element: Element, inline: Inline, label: Callable[[Element | None, str | None], str]) -> Table:
    """The table, with each cell's paragraphs as lines. `label` computes the list number of a paragraph."""
    rows: list[list[Cell]] = []
    open_cells: dict[int, tuple[int, int]] = {}
    heads = places = 0
    for row in _inside(element, f"{W}tr"):
        properties = row.find(f"{W}trPr")
        if properties is not None and properties.find(f"{W}del") is not None:
            inline.losses["tracked_changes"] += 1
            continue
        if is_on(properties, f"{W}tblHeader") and heads == len(rows):
            heads += 1
        rows.append(_row(row, rows, open_cells, inline, label))
        places += sum(cell.colspan for cell in rows[-1])
        if places > MAX_TABLE_PLACES:
            raise unreadable(inline.name, "too_large", f"one of its tables has more than {MAX_TABLE_PLACES} cells")
    return Table(tuple(tuple(row) for row in rows), heads)


def _row(
    row: Element, above: list[list[Cell]], open_cells: dict[int, tuple[int, int]], inline: Inline,
    label: Callable[[Element | None, str | None], str],
) -> list[Cell]:  # fmt: skip
    cells: list[Cell] = []
    before = min(whole_number(value(row.find(f"{W}trPr"), f"{W}gridBefore")), MAX_CELL_SPAN)
    if before:
        cells.append(Cell(colspan=before))
    column = before
    for element in _inside(row, f"{W}tc"):
        properties = element.find(f"{W}tcPr")
        width = min(max(whole_number(value(properties, f"{W}gridSpan"), 1), 1), MAX_CELL_SPAN)
        merge = value(properties, f"{W}vMerge")
        if merge is not None and merge != "restart" and column in open_cells:
            at_row, at_cell = open_cells[column]
            cell, hidden = above[at_row][at_cell], _text(element, inline, label)
            inline.losses.update({"hidden_text": 1} if hidden else {})
            runs = joined([*cell.runs, *([Run("\n")] if cell.runs and hidden else []), *hidden])
            above[at_row][at_cell] = structs.replace(cell, runs=runs, rowspan=len(above) - at_row + 1)
        else:
            open_cells[column] = (len(above), len(cells))
            cells.append(Cell(_text(element, inline, label), width))
        column += width
    return cells


def _text(cell: Element, inline: Inline, label: Callable[[Element | None, str | None], str]) -> tuple[Run, ...]:
    lines: list[list[Run]] = []
    nested = sum(1 for _ in cell.iter(f"{W}tbl"))
    inline.losses.update({"nested_table": nested} if nested else {})
    for paragraph in cell.iter(f"{W}p"):
        properties = paragraph.find(f"{W}pPr")
        found = inline.read(paragraph)
        inline.losses.update({"image_data": len(found.images)} if found.images else {})
        inline.losses.update({"text_box_position": len(found.boxes)} if found.boxes else {})
        lines.append([Run(label(properties, value(properties, f"{W}pStyle"))), *found.runs])
    while lines and not any(run.text.strip() for run in lines[-1]):
        lines.pop()
    return joined([run for at, line in enumerate(lines) for run in ([Run("\n")] if at else []) + line])


def _inside(parent: Element, tag: str, depth: int = 0) -> Iterator[Element]:
    """Children of this kind, content controls and tracked insertions opened."""
    for child in parent if depth <= MAX_NESTING else ():
        if child.tag == tag:
            yield child
        elif child.tag in _WRAPPERS:
            yield from _inside(child, tag, depth + 1)
