"""Foreign words in an answer: they stay words. No heading, list, link, code or HTML of theirs, nothing that only machines read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from .unseen import seen

PROSE_MAX: Final = 2000
LINE_MAX: Final = 200
#: What stands for something only machines read, and for what was cut off.
GONE: Final = "…"
_EDGE, _ENDS = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"
#: A name with such an end is one of a file, which a person may be told.
_FILE: Final = r"(?!\.(?:mp4|mov|webm|mp3|wav|png|jpe?g|gif|webp|svg|pdf|docx?|xlsx?|pptx?|txt|md|csv|json|html?|zip|srt|psd)(?![0-9A-Za-z]))"
#: First folders of absolute paths; other words between slashes are a choice of words.
_ROOTS: Final = "bin|boot|dev|etc|home|mnt|opt|private|proc|root|sbin|srv|sys|tmp|usr|var|Users|Volumes|Applications|Library"
#: Addresses, with or without slashes; absolute paths.
#: Digests and ids, which have digits and letters, so that years and telephone numbers stay; names written as programs write them.
_MACHINE: Final = re.compile(
    r"(?i:[a-z][a-z0-9+.-]{0,20}:/{1,2}[^\s<>\"]*|\bwww\.[^\s<>\"]+)"
    rf"|{_EDGE}(?i:localhost|\d{{1,3}}(?:\.\d{{1,3}}){{3}}|(?:[a-z0-9-]{{1,63}}\.){{1,8}}[a-z]{{2,24}})(?::\d{{1,5}})?/[^\s<>\"]*"
    rf"|{_EDGE}(?i:localhost|\d{{1,3}}(?:\.\d{{1,3}}){{3}}):\d{{1,5}}{_ENDS}"
    rf"|{_EDGE}(?i:(?:mailto|javascript|vbscript|blob):|data:(?:[a-z]+/|[;,]))[^\s<>\"]+"
    rf"|{_EDGE}[A-Za-z]:\\[^\s<>\"]*|(?<!\\)\\\\[0-9A-Za-z][^\s<>\"]*|(?<![0-9A-Za-z/.])(?:~|/(?:{_ROOTS}))/[^\s<>\"]*"
    rf"|{_EDGE}[0-9A-Fa-f]{{8}}(?:-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}{_ENDS}"
    rf"|{_EDGE}(?=[0-9A-Fa-f-]*[0-9])(?=[0-9A-Fa-f-]*[A-Fa-f])[0-9A-Fa-f]{{4,}}(?:-[0-9A-Fa-f]{{4,}})+{_ENDS}"
    rf"|{_EDGE}(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{{7,}}{_ENDS}|{_EDGE}(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{{12,}}{_ENDS}|{_EDGE}[0-9]{{32,}}{_ENDS}"
    rf"|{_EDGE}[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+{_ENDS}{_FILE}"
    rf"|{_EDGE}[a-z]{{2,}}(?:(?:[A-Z][a-z0-9]+)+(?:IDs?|URLs?|URIs?)?|IDs?|URLs?|URIs?){_ENDS}",
)
_ACTIVE: Final = re.compile(r"([\\`*_\[\]<>#|~&!$])")
_OPENING: Final = re.compile(r"^(\d{1,9})([.)])|^([-+=:])")


def quoted(text: str, hidden: Iterable[str] = ()) -> list[str]:
    """A text as lines of one block quote, at most PROSE_MAX characters of it. `hidden` = names that are not shown."""
    names = tuple(hidden)
    rows = [line(row, names, PROSE_MAX) for row in _cut(text, PROSE_MAX).splitlines()]
    return ["> " + row if row else ">" for row in rows] if any(rows) else []


def line(text: str, hidden: Iterable[str] = (), most: int = LINE_MAX) -> str:
    """A text as one line of plain words in Markdown: as it was written, but for what is not shown, and what nobody sees."""
    shown = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in _cut(seen(text), most))
    shown = _ACTIVE.sub(r"\\\1", " ".join(_masked(shown, hidden).split()))
    return _OPENING.sub(lambda m: f"{m[1]}\\{m[2]}" if m[1] else f"\\{m[3]}", shown)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + GONE


def _masked(text: str, hidden: Iterable[str]) -> str:
    """What only machines read is looked for whatever its width, and taken out where it stands."""
    narrow, at = list[str](), list[int]()
    for place, char in enumerate(text):
        wide = unicodedata.normalize("NFKC", char)
        narrow.append(wide)
        at += [place] * len(wide)
    flat = "".join(narrow)
    found = [match.span() for shape in (_MACHINE, *_names(hidden, flat.casefold())) for match in shape.finditer(flat)]
    out, done = list[str](), 0
    for start, end in sorted((at[start], at[end - 1] + 1) for start, end in found if start < end):
        if end > done:
            out += [text[done:start], GONE] if start >= done else []
            done = end
    return "".join(out) + text[done:]


def _names(hidden: Iterable[str], flat: str) -> Iterator[re.Pattern[str]]:
    """Those that stand in a text. A name that is a plain word as well is one only as it is written."""
    for name in (one for one in hidden if one and one.casefold() in flat):
        plain = name.isascii() and name.isalpha() and name.islower()
        yield re.compile(f"{_EDGE}{re.escape(name)}{_ENDS}", 0 if plain else re.IGNORECASE)
