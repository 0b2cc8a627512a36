"""Comma-, semicolon- or tab-separated values to one table. Its first row is its head, as is the custom where the file cannot say."""

from __future__ import annotations

import csv
import io
import itertools
from typing import Final

from polyloop.formats.blocks import Block, Cell, Document, Loss, Run, Table
from polyloop.formats.encoding import decode
from polyloop.formats.limits import MAX_FILE_BYTES, MAX_TABLE_PLACES
from polyloop.formats.problems import unreadable

_DELIMITERS: Final = ",;\t|"
_SAMPLE_CHARS: Final = 64 * 1024
_SAMPLE_ROWS: Final = 50


def read_csv(name: str, data: bytes) -> Document:
    """One table, each value as it is written. Raises `undecidable_encoding`, `corrupt` (quotes that do not close), `too_large`."""
    text, encoding = decode(name, data)
    text = text.removeprefix("\ufeff")
    rows: list[tuple[Cell, ...]] = []
    places = 0
    csv.field_size_limit(MAX_FILE_BYTES)  # of the whole process; a cell is as long as its file lets it be
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(name, text), strict=True)
    try:
        for row in reader:
            if row:
                rows.append(tuple(Cell((Run(value),) if value else ()) for value in row))
            places += len(row)
            if places > MAX_TABLE_PLACES:
                raise unreadable(name, "too_large", f"it has more than {MAX_TABLE_PLACES} cells")
    except csv.Error as error:
        raise unreadable(name, "corrupt", f"line {reader.line_num}: {error}") from error
    losses = [] if encoding == "utf-8" else [Loss("encoding", detail=encoding)]
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        losses.append(Loss("ragged_rows", sum(len(row) != max(widths) for row in rows)))
    blocks = (Block("table", table=Table(tuple(rows), 1 if len(rows) > 1 else 0), order=0),) if rows else ()
    return Document(blocks, tuple(losses), "", name, "csv")


def _delimiter(name: str, text: str) -> str:
    """The one that parts the first lines most evenly, quotes respected; a tab for .tsv."""
    if name.lower().endswith(".tsv"):
        return "\t"

    def evenness(delimiter: str) -> tuple[int, int]:
        sample = text[:_SAMPLE_CHARS].rpartition("\n")[0] or text[:_SAMPLE_CHARS]
        widths: list[int] = []
        try:
            reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, strict=True)
            for row in itertools.islice(reader, _SAMPLE_ROWS):
                widths += [len(row)] if row else []
        except csv.Error as error:
            if "end of data" not in str(error):  # the sample may end within quotes; else these quotes are not parted so
                return 0, 0
        usual = max(set(widths), key=widths.count) if widths else 1
        return (widths.count(usual), usual) if usual > 1 else (0, 0)

    return max(_DELIMITERS, key=evenness)
