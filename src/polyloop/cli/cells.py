"""Foreign text on a terminal: one line, no control characters, a known width. What models and tools say is hostile."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

#: Categories that move the cursor, hide text or turn its direction: shown as their code instead.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})
_WIDE: Final = frozenset("WF")
_BREAKS: Final = re.compile(r"[ ]*[\t\n\v\f\r]+[ \t\n\v\f\r]*")


def plain(text: str) -> str:
    """On one line, every control and direction character visible as an escape."""
    return "".join(_escape(c) if unicodedata.category(c) in _UNSEEN else c for c in _BREAKS.sub(" ", text))


def visible(text: str) -> str:
    """As `plain`, with its line breaks and tabs kept."""
    return "".join(_escape(c) if c not in "\n\t" and unicodedata.category(c) in _UNSEEN else c for c in text)


def _escape(c: str) -> str:
    return f"\\u{ord(c):04x}" if ord(c) < 1 << 16 else f"\\U{ord(c):08x}"


def width(text: str) -> int:
    """Columns on a terminal: Chinese characters take two, marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in _WIDE else 1 for c in text)


def fit(text: str, columns: int) -> str:
    """The beginning of a text, plain, in at most so many columns; what is cut ends in "…"."""
    line = plain(text[: columns * 2])  # no need to look at megabytes for one line
    if width(line) <= columns and len(text) <= columns * 2:
        return line
    taken, used = 0, 0
    while taken < len(line) and (used := used + width(line[taken])) < columns:
        taken += 1
    return line[:taken] + "…"


def pad(text: str, columns: int) -> str:
    """A text filled with blanks to so many columns."""
    return text + " " * (columns - width(text))
