"""Limits of documents. What is over one is refused by name before anything is written."""

from __future__ import annotations

from typing import Final

TITLE_CHARS: Final = 300
#: Characters of a user's name; of a comment or reply; of all that is kept of one comment.
NAME_CHARS: Final = 200
COMMENT_CHARS: Final = 10_000
ITEM_CHARS: Final = 2_000_000
REPLIES: Final = 100
#: Bytes of one media file.
MEDIA_BYTES: Final = 20 << 20
#: Changes of one diff that are told at once.
CHANGES: Final = 200
QUERY_CHARS: Final = 300
#: Characters kept of a block that was found; of larger ones there is no excerpt.
EXCERPT_FROM: Final = 100_000
#: Characters of one content argument.
CONTENT_CHARS: Final = 2_000_000
#: Characters of one block, and of all blocks of one write, as they are kept: in JSON.
BLOCK_CHARS: Final = 15_000_000
WRITE_CHARS: Final = 60_000_000
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
#: How long a task waits for somebody to begin it.
TASK_TTL_MS: Final = 7 * 24 * 3600 * 1000
#: How often a task may be taken: what kills its workers again and again is given up.
TASK_ATTEMPTS: Final = 5
#: Until a silent worker's task may be taken over.
LEASE_MS: Final = 15_000
#: Waited before a task is tried again after a fault that may pass; twice as long each time.
RETRY_MS: Final = 1_000
#: Waited before a task is looked at again.
LOOK_S: Final = 0.1
