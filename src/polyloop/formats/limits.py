"""Limits of what is read. A file over one of them is refused whole, by name, before anything is made of it."""

from __future__ import annotations

from typing import Final

MAX_FILE_BYTES: Final = 20 * 1024 * 1024
MAX_CHARACTERS: Final = 2_000_000

#: Archives (docx): what the members really unpack to is counted, never what their headers claim.
MAX_ARCHIVE_ENTRIES: Final = 4_000
MAX_UNPACKED_BYTES: Final = 128 * 1024 * 1024
#: Text of many equal paragraphs packs 200 times and is honest; the ratio only speaks once there is much output.
MAX_UNPACK_RATIO: Final = 300
UNPACK_RATIO_FROM_BYTES: Final = 8 * 1024 * 1024

#: Elements of one part of an office file: each is an object in memory. Sheets are read row by row, the texts they share string by string.
MAX_XML_TAGS: Final = 3_000_000
MAX_STREAMED_TAGS: Final = 8_000_000
MAX_BOOK_TAGS: Final = 300_000

#: What reading one file may take.
READER_CPU_S: Final = 60
READER_MEMORY_BYTES: Final = 2 << 30
READER_WALL_S: Final = 900

MAX_PDF_PAGES: Final = 3_000
#: Containers inside containers (lists, quotes, tables in cells, content controls).
MAX_NESTING: Final = 40
#: Columns that one cell may claim to cover (a word processor allows 63), and places of one table, spans spread out.
MAX_CELL_SPAN: Final = 63
MAX_TABLE_PLACES: Final = 1_000_000
#: Rows of one sheet of a workbook, empty ones between others counted.
MAX_SHEET_ROWS: Final = 100_000
#: Cells of a workbook that are looked at, empty ones too; cells of one row.
MAX_SHEET_CELLS: Final = 16_000_000
MAX_SHEET_COLUMNS: Final = 16_384
#: Elements behind the cells of a sheet (merges, links, conditional formats): the library makes an object of each.
MAX_SHEET_EXTRAS: Final = 20_000
