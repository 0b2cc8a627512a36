"""Every limit of the workspace."""

from typing import Final

#: Lines one read returns at most, and unless told.
LINES_MAX: Final = 2000
LINES_DEFAULT: Final = 200
#: Hits of one search, likewise.
HITS_MAX: Final = 1000
HITS_DEFAULT: Final = 100
#: Files of one page of a list.
PAGE_FILES: Final = 500
#: Bytes (as JSON) of the lines, hits or files in one answer; what is left out is said and can be asked for.
ANSWER_BYTES: Final = 40_000
#: Bytes of an observation with such an answer in it.
RESULT_BYTES: Final = 65_536
#: Bytes of a line that a search looks at in one piece, and characters of it that a hit shows.
LINE_BYTES: Final = 1 << 20
HIT_CHARS: Final = 300
#: A file with a NUL in its first bytes is no text.
BINARY_BYTES: Final = 8192
#: Characters of a search pattern or a glob.
PATTERN_CHARS: Final = 2000
#: Bytes of one text that is written.
TEXT_BYTES: Final = 16 << 20
#: Files up to this size are read in the event loop: it takes less than 0.3 ms, a thread 0.1 ms.
INLINE_BYTES: Final = 256 << 10
#: Keys the write log keeps when a workspace is opened. A run asks only for its last one.
LOG_KEYS: Final = 256
