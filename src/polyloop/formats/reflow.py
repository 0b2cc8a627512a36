"""Lines of text to paragraphs, for formats that know lines only (txt, pdf)."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from polyloop.formats.blocks import Block, Run, Span

if TYPE_CHECKING:
    from collections.abc import Sequence


class Line(Struct, frozen=True):
    """One line. `number` counts from 1 (on its page in a pdf); the measures are points in a pdf and columns in a txt.

    `row`: wide gaps inside show that it is a row of a table.
    """

    text: str
    number: int
    page: int = 0
    left: float = 0
    right: float = 0
    size: float = 1
    top: float = 0
    row: bool = False


#: What begins a paragraph wherever it stands: list and article numbers, bullets, the ideographic indent.
_OPENING: Final = re.compile(
    r"\u3000|\s{4,}|[-*•·●■◆○]\s|第[一二三四五六七八九十百零\d]{1,5}[条章节编]|[（(](?:[一二三四五六七八九十\d]{1,3}|[a-z])[）)]|[a-z][.)]\s"
    r"|[一二三四五六七八九十]{1,3}[、．.]|\d{1,3}(?:[.．、）)]|(?:\.\d{1,3}){1,4}\s)(?!\d)|附件\s*[\d一二三四五六七八九十]*\s*[：:]",
)
_WORD: Final = re.compile(r"[!-~]+")
_CLOSING: Final = re.compile(r"[。！？；：.!?;:][”’\"'）)》]?\s*\Z")
_BROKEN: Final = re.compile(r"[^\W\d_]-\Z")
#: A hard-wrapped line fills most of the width; a last line does not.
_FULL: Final = 0.85
_WRAP_COLUMNS: Final = 120


def opens_paragraph(text: str) -> bool:
    return _OPENING.match(text) is not None


def paragraph(lines: Sequence[Line], order: int, source: str | None = None) -> Block:
    """One block of these lines; the line ends inside it are wraps."""
    runs: list[Run] = []
    for line in lines:
        if runs:
            runs.append(Run("\n", wrap=True))
        if line.text:
            runs.append(Run(line.text))
    first, last = lines[0], lines[-1]
    turn = next((at for at, line in enumerate(lines) if line.page != first.page), 0)
    span = Span("line", first.number, last.number, first.page, last.page if turn else 0, turn)
    return Block("paragraph", tuple(runs), span=span, source=source, order=order)


def wraps(lines: Sequence[Line]) -> bool:
    """Whether a txt was broken to a width. Then most full lines that another follows stop in the middle of a sentence."""
    widest = max((line.right for line in lines), default=0)
    if widest > _WRAP_COLUMNS:
        return False
    full = [line for line, below in pairwise(lines) if line.right >= _FULL * widest and below.text.strip()]
    return len(full) >= 2 and sum(_CLOSING.search(line.text) is None for line in full) * 2 > len(full)


def columns(text: str) -> int:
    """Width on a terminal: wide and full-width characters count twice."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def grouped_text(lines: Sequence[Line]) -> list[list[Line]]:
    """Paragraphs of a txt: each line is one, unless the file is wrapped; then a full line runs on into the next."""
    wrapped = wraps(lines)
    widest = max((line.right for line in lines), default=0)
    groups: list[list[Line]] = []
    runs_on = False
    for line in lines:
        if not line.text.strip():
            runs_on = False
            continue
        if runs_on and not opens_paragraph(line.text):
            groups[-1].append(line)
        else:
            groups.append([line])
        runs_on = wrapped and line.right >= _FULL * widest
    return groups


def grouped_page_lines(lines: Sequence[Line], page_width: float) -> list[list[Line]]:
    """Paragraphs of a pdf, from where lines begin and end.

    A line runs on when the first word of the next would not have fitted on it or began on it, and the next begins no further right (or hangs under a
    list mark), is set in the same size and follows at the usual distance or at the top of the next page.
    """
    if not lines:
        return []
    rights = sorted(line.right for line in lines)
    # Where all lines are short none is full: the edge is at least near where a margin as wide as the left one leaves it.
    edge = max(rights[min(len(rights) - 1, int(len(rights) * 0.97))], 0.85 * (page_width - min(line.left for line in lines)))
    groups = [[lines[0]]]
    for above, line in pairwise(lines):
        first = groups[-1][0]
        full = edge - above.right <= _first_word_width(line) or (_BROKEN.search(above.text) and line.text[:1].islower())
        same_size = abs(above.size - line.size) <= 0.12 * above.size
        near = line.page != above.page or 0 <= above.top - line.top <= 2.6 * max(above.size, line.size)
        hangs = opens_paragraph(first.text) and line.left > first.left
        aligned = line.left <= (first.left if len(groups[-1]) == 1 else above.left) + 0.5 * line.size or hangs
        if full and same_size and near and aligned and not (above.row or line.row) and not opens_paragraph(line.text):
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _first_word_width(line: Line) -> float:
    """Room that the line's unbreakable start needs: a Latin word or number, else two ideographs (a closing sign may hang)."""
    word = _WORD.match(line.text)
    letters = min(len(word[0]), 40) if word else 0
    mean = (line.right - line.left) / max(columns(line.text), 1)
    return max(letters + 2, 4.4) * mean
