"""Foreign words in an answer: they stay words. No heading, list, link, code or HTML of theirs, nothing that only machines read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

PROSE_MAX: Final = 2000
LINE_MAX: Final = 200
#: What stands for something only machines read.
GONE: Final = "…"
#: Addresses; digests and ids; names written as programs write them.
_MACHINE: Final = re.compile(
    r"[a-z][a-z0-9+.-]{0,20}:/{1,2}[^\s<>\"]*|\bwww\.[^\s<>\"]+"
    r"|(?<![0-9A-Za-z])(?=[0-9A-Fa-f-]*[0-9])[0-9A-Fa-f]{4,}(?:-[0-9A-Fa-f]{4,})+(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])[0-9A-Fa-f]{12,}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])[a-z]{2,}(?:[A-Z][a-z0-9]+)+(?![0-9A-Za-z])",
)
_ACTIVE: Final = re.compile(r"([\\`*_\[\]<>#|~&!$])")
_OPENING: Final = re.compile(r"^(\d{1,9})([.)])|^([-+=:])")


def quoted(text: str, hidden: Iterable[str] = ()) -> list[str]:
    """A text as lines of one block quote, at most PROSE_MAX characters of it. `hidden` = names that are not shown."""
    rows = [line(row, hidden, PROSE_MAX) for row in text[:PROSE_MAX].splitlines()]
    return ["> " + row if row else ">" for row in rows] if any(rows) else []


def line(text: str, hidden: Iterable[str] = (), most: int = LINE_MAX) -> str:
    """A text as one line of plain words in Markdown."""
    shown = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in unicodedata.normalize("NFKC", text[:most]))
    shown = _MACHINE.sub(GONE, shown)
    for name in sorted(filter(None, hidden), key=len, reverse=True):
        shown = re.sub(rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])", GONE, shown, flags=re.IGNORECASE)
    shown = _ACTIVE.sub(r"\\\1", " ".join(shown.split()))
    return _OPENING.sub(lambda m: f"{m[1]}\\{m[2]}" if m[1] else f"\\{m[3]}", shown)
