"""PDF to paragraphs of text.

A page gives characters with boxes; lines come from the extractor's own line ends, paragraphs from where the lines stand. Page numbers
and lines repeated at the edge of many pages are left out and named, so that a sentence may run over a page.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections import Counter
from contextlib import closing, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from polyloop.formats.blocks import Document, Loss
from polyloop.formats.limits import MAX_CHARACTERS, MAX_PDF_PAGES
from polyloop.formats.problems import unreadable
from polyloop.formats.reflow import Line, grouped_page_lines, paragraph

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence

#: The library is not safe to enter from two threads.
_ONE_AT_A_TIME: Final = threading.Lock()
_DASH: Final = r"[\s\-–—―·•~|]*"
_PAGE_NUMBER: Final = re.compile(
    rf"(?P<dash>{_DASH})(?P<said>第|page)?\s*(?P<number>\d{{1,4}})\s*(?:页|(?:页?\s*(?:/|of|共|，|,)\s*)(?:共|第|of)?\s*(?P<of>\d{{1,4}})\s*页?)?(?P<after>{_DASH})",
    re.IGNORECASE,
)
#: A hyphen at the end of a line that a word runs over, as the extractor tells it: no line end follows.
_BROKEN: Final = (0x02, 0xFFFE)
#: Line ends, and the hyphen that only shows where a word is broken.
_NO_SIGN: Final = (0x0A, 0x0D, 0xAD)
_LINE_ENDS: Final = (0x0A, 0x0D, *_BROKEN)
_REPEATED_PAGES: Final = 3
#: A gap of this share of the type size is a blank.
_BLANK: Final = 0.2
#: A wider one parts the columns of a table.
_COLUMN_GAP: Final = 1.6
#: The first ones may be a list mark with its tab.
_MARK_CHARS: Final = 4


def read_pdf(name: str, data: bytes) -> Document:
    """Paragraphs with page and lines. Raises `corrupt`, `encrypted`, `no_text`, `too_many_characters`, `library_missing`."""
    pages, width, title = _pages(name, data)
    empty = [number for number, page in enumerate(pages, 1) if not page]
    if len(empty) == len(pages):
        raise unreadable(name, "no_text", "it holds no text (a scan?)")
    losses = [Loss("pdf_layout")]
    losses += [Loss("page_without_text", detail=str(number)) for number in empty]
    kept = [line for page in _without_margins(pages, losses) for line in page]
    blocks = tuple(paragraph(group, order) for order, group in enumerate(grouped_page_lines(kept, width)))
    return Document(blocks, tuple(losses), title, name, "pdf")


@contextmanager
def _opened(name: str, data: bytes) -> Generator[tuple[Any, Any]]:
    """The library's raw calls and the file, which nobody else may touch until it is closed. Raises `corrupt`, `encrypted`, `library_missing`."""
    try:
        import pypdfium2 as pdfium  # pyright: ignore[reportMissingTypeStubs] - the library ships none
    except ImportError as error:
        raise unreadable(name, "library_missing", "reading PDF needs pypdfium2") from error
    with _ONE_AT_A_TIME:
        try:
            with closing(pdfium.PdfDocument(data)) as document:
                yield pdfium.raw, document
        except pdfium.PdfiumError as error:
            if "password" in str(error).lower() or "security" in str(error).lower():
                raise unreadable(name, "encrypted", "it is protected by a password") from error
            raise unreadable(name, "corrupt", f"it is not a whole PDF ({error})") from error


def _text_pages(document: Any) -> Iterator[tuple[Any, Any]]:
    for number in range(len(document)):
        with closing(document[number]) as page, closing(page.get_textpage()) as text_page:
            yield page, text_page


def _pages(name: str, data: bytes) -> tuple[list[list[Line]], float, str]:
    with _opened(name, data) as (raw, document):
        if len(document) > MAX_PDF_PAGES:
            raise unreadable(name, "too_large", f"it has {len(document)} pages; the limit is {MAX_PDF_PAGES}")
        pages: list[list[Line]] = []
        total, width = 0, 0.0
        for page, text_page in _text_pages(document):
            width = max(width, page.get_width())
            total += text_page.count_chars()
            if total > MAX_CHARACTERS:
                raise unreadable(name, "too_many_characters", f"it has more than {MAX_CHARACTERS} characters")
            pages.append(_lines(raw, text_page, len(pages) + 1))
        return pages, width, str(document.get_metadata_dict().get("Title", "")).strip()


def text_of_pages(name: str, data: bytes) -> str:
    """All text of a file as the extractor gives it, page after page. Raises `corrupt`, `encrypted`, `library_missing`."""
    with _opened(name, data) as (_, document):
        text = "\n".join(text_page.get_text_range() for _, text_page in _text_pages(document))
    for code in _BROKEN:
        text = text.replace(chr(code), "-\n")
    return text


class _Char(Struct, frozen=True):
    text: str
    left: float
    right: float
    bottom: float


def _lines(raw: Any, text_page: Any, page: int) -> list[Line]:
    """The page's lines that hold something, with where they begin and end."""
    lines: list[Line] = []
    chars: list[_Char] = []
    size = 0.0
    box = tuple(ctypes.c_double() for _ in range(4))
    count = text_page.count_chars()
    for at in range(count + 1):
        code = raw.FPDFText_GetUnicode(text_page, at) if at < count else 0x0A
        char = "-" if code in _BROKEN else "" if code in _NO_SIGN else chr(code)
        if char:
            raw.FPDFText_GetCharBox(text_page, at, *box)
            left, right, bottom, _ = (each.value for each in box)
            chars.append(_Char(char, left, right, bottom))
            size = size or (0 if char.isspace() else raw.FPDFText_GetFontSize(text_page, at))
        if code not in _LINE_ENDS:
            continue
        printed = [each for each in chars if not each.text.isspace()]
        if printed:
            placed = sorted(printed, key=lambda each: each.left)
            text = _whole("".join(_in_place(chars, printed, placed, size or 1))).strip(" \t")
            row = any(after.left - before.right > _COLUMN_GAP * (size or 1) for before, after in pairwise(placed[_MARK_CHARS:]))
            right = max(each.right for each in printed)
            lines.append(Line(text, len(lines) + 1, page, placed[0].left, right, size or 1, printed[0].bottom, row))
        chars, size = [], 0.0
    return [line for line in lines if line.text]


def _in_place(chars: list[_Char], printed: list[_Char], placed: list[_Char], size: float) -> list[str]:
    """The line's characters in the order they stand. Signs taken from another font are often stored after the rest of their line."""
    if all(after.left > before.left - size / 2 for before, after in pairwise(printed)):
        return [each.text for each in chars]
    return [
        (" " if before is not None and char.left - before.right > _BLANK * size and (before.text.isascii() or char.text.isascii()) else "")
        + char.text
        for before, char in zip((None, *placed), placed, strict=False)
    ]


def _whole(text: str) -> str:
    """Characters beyond the basic plane come in halves."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if any("\ud800" <= char <= "\udfff" for char in text) else text


def _without_margins(pages: Sequence[list[Line]], losses: list[Loss]) -> list[list[Line]]:
    """Takes running heads and feet and page numbers off the edges of the pages: at most one line of each from each edge."""
    kept = [list(page) for page in pages]
    dropped = 0
    for edge in (0, -1):
        for margins in (_repeated, _numbered):
            found = margins({at: page[edge].text for at, page in enumerate(kept) if page}, len(kept))
            dropped += len(found)
            for at in found:
                kept[at].pop(edge)
    if dropped:
        losses.append(Loss("page_margin", dropped))
    return kept


def _repeated(edge: Mapping[int, str], _: int) -> list[int]:
    """The pages at whose edge a line of words stands that stands there on others too."""
    seen = Counter(edge.values())
    return [at for at, text in edge.items() if seen[text] >= _REPEATED_PAGES and any(map(str.isalpha, text))]


def _numbered(edge: Mapping[int, str], pages: int) -> list[int]:
    """The pages at whose edge their number stands: one that runs on over pages, or the page's own with a word or dashes that say so.

    Any other number there is a value: the last row of a table looks the same.
    """
    told = {at: found for at, text in edge.items() if (found := _PAGE_NUMBER.fullmatch(text))}
    starts = Counter(int(found["number"]) - at for at, found in told.items())
    kept: list[int] = []
    for at, found in told.items():
        start = int(found["number"]) - at
        own = start == 1 and (found["of"] is None or int(found["of"]) == pages)
        if starts[start] >= (2 if own else _REPEATED_PAGES) or (own and (found["said"] or found["of"] or (found["dash"] and found["after"]))):
            kept.append(at)
    return kept
