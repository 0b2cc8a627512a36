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
#: Operations of one canvas_apply_ops.
OPS: Final = 20
#: Nodes named in one read, and how many steps around them it may go.
NAMED: Final = 8
DEPTH: Final = 3
#: Nodes of one connected part of a read; beyond it the answer says `truncated`.
RELATED: Final = 256
#: Nodes, and connections, of one page.
PAGE_NODES: Final = 40
PAGE_EDGES: Final = 100
#: How large a node may be.
SIDE: Final = 8_192
#: Between a new node and what it is placed beside.
GAP: Final = 80
#: Ids of each kind that a conflict names; the rest is counted.
IDS_SHOWN: Final = 50
#: Nodes of one arrangement, its groups, and the widest space between them.
ARRANGED: Final = 50
GROUPS: Final = 12
ARRANGE_GAP: Final = 400
#: Bytes of what only the screen needs.
VIEW_BYTES: Final = 1 << 16
#: Nodes one operation of a person names, and entries of one page of the history.
CHOSEN: Final = 500
PAGE_HISTORY: Final = 50
