"""Limits of a canvas. What is over one is refused by name before anything is written."""

from __future__ import annotations

from typing import Final

ID_CHARS: Final = 80
TITLE_CHARS: Final = 240
CONTENT_CHARS: Final = 16_000

#: Ids of rows, columns and temporary references.
PART_ID_CHARS: Final = 120
#: How far from the middle a node may be put.
REACH: Final = 1_000_000
#: Rows, and bytes of rows, of one page; one row is always shown.
PAGE_ROWS: Final = 20
PAGE_BYTES: Final = 40_000
#: Rows of a new storyboard, and of any structured node.
NEW_ROWS: Final = 100
ROWS: Final = 500
#: Characters of one text of a row, and of all of its texts together.
ROW_TEXT_CHARS: Final = 20_000
ROW_CHARS: Final = 24_000
#: What of each text is shown where several rows are read at once, and where it is only to be recognised.
PAGE_CHARS: Final = 2_000
INDEX_CHARS: Final = 60
BINDINGS: Final = 8
PRIORITY: Final = 1_000_000
SHOT_SECONDS: Final = 86_400
COLUMNS: Final = 10
