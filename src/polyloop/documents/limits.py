"""Limits of documents. What is over one is refused by name before anything is written."""

from __future__ import annotations

from typing import Final

TITLE_CHARS: Final = 300
#: Characters of one content argument.
CONTENT_CHARS: Final = 2_000_000
#: Blocks of one write.
BLOCKS: Final = 100_000
PAGE: Final = 50
PAGE_MAX: Final = 200
#: Block ids a receipt names; the rest is counted.
IDS_SHOWN: Final = 50
#: Digits of a cursor or a snapshot.
MARK_DIGITS: Final = 18
#: Folders inside folders.
DEPTH: Final = 100
