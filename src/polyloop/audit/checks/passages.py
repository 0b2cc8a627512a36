"""The document as the checks read it: passages of plain text in order, each with a way back to the source.

Checks match on `Passage.text`, where line ends of the source, blanks that typesetting puts between Chinese and digits, and the radical
forms of PDF fonts are evened out. Quotes are cut from the block's own text, so they are found verbatim by any reader of the file.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property
from typing import TYPE_CHECKING, Final

from polyloop.audit.checks.finding import Evidence, Location
from polyloop.formats.blocks import Block, Cell, Document, Run, is_cjk, joint, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_QUOTE_CHARACTERS: Final = 120
_SKIPPED: Final = frozenset({"code", "raw", "formula", "divider", "image", "file"})
_NEAR: Final = 8
_BLANKS: Final = " \u00a0\u2002\u2003\u2005\u2009\u202f"
#: Radicals that font tables give in place of the ideographs they look like.
_RADICALS: Final = {place: unicodedata.normalize("NFKC", chr(place)) for place in range(0x2F00, 0x2FD6)} | dict(
    zip(map(ord, "⺠⻅⻋⻓⻔⻚⻛⻜⻢⻤⻥⻦⻨⻩⻬⻮⻰"), "民见车长门页风飞马鬼鱼鸟麦黄齐齿龙", strict=True)
)
#: A number, or nothing, after the word begins an attachment; a colon begins the list of them, above the signature.
_ATTACHMENT_HEAD: Final = re.compile(
    r"附件\s*(?:\Z|[\d一二三四五六七八九十]{1,2}(?!\d)[：:]?[^。；，,;]{0,40}\Z)|(?i:appendix|annex|schedule|exhibit)\s+[A-Z\d]{1,2}\b(?![^.]*\.\Z)"
)


class Passage:
    """One paragraph, heading, item or table cell. `part` counts the main text (0) and its attachments."""

    def __init__(self, runs: tuple[Run, ...], block: Block, index: int, *, row: int = 0, column: int = 0) -> None:
        self.block = block
        self.index = index
        self.row = row
        self.column = column
        self.part = 0
        self.raw = text_of(runs)
        self.text, self._places = _even(runs)

    @property
    def in_table(self) -> bool:
        return self.row > 0

    @cached_property
    def lang(self) -> str:
        chinese = sum(map(is_cjk, self.text))
        latin = sum(char.isascii() and char.isalpha() for char in self.text)
        return "zh" if chinese * 4 > latin else "en" if latin else ""

    def evidence(self, start: int = 0, end: int | None = None) -> Evidence:
        """Quotes `text[start:end]` as the source has it; what the source's own markup interrupts is quoted up to there."""
        end = len(self.text) if end is None else min(end, len(self.text))
        raw_start, raw_end = (self._places[start], self._places[end - 1] + 1) if self._places and end > start else (start, end)
        quote = self.raw[raw_start : min(raw_end, raw_start + MAX_QUOTE_CHARACTERS)].strip()
        if self.block.source is not None and quote not in self.block.source:
            quote = _longest_piece(self.raw, raw_start, raw_start + MAX_QUOTE_CHARACTERS, raw_end, self.block.source) or quote
        return Evidence(quote, self._location(raw_start))

    def _location(self, raw_start: int) -> Location:
        span = self.block.span
        if span is None:
            return Location("block", self.index + 1, self.index, row=self.row, column=self.column)
        page, number = span.page, span.start
        if span.unit == "line" and self.row:
            number += self.row - 1 + (self.row > 1)  # the line of dashes under the heads is no row
        elif span.unit == "line":
            down = self.raw.count("\n", 0, raw_start)
            number = min(span.start + down, span.end) if not span.turn else span.start + down
            if span.turn and down >= span.turn:
                page, number = span.end_page, span.end - (self.raw.count("\n") - down)
        return Location(span.unit, number, self.index, page, self.row, self.column)


class Reading:
    """A document laid open for the checks; made once, shared by all of them."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.lang = document.lang
        self.passages = tuple(_passages(document))
        part = 0
        for passage in self.passages:
            if not passage.in_table and passage.index > 0 and _ATTACHMENT_HEAD.match(passage.text.strip()):
                part += 1
            passage.part = part

    @cached_property
    def prose(self) -> tuple[Passage, ...]:
        """Everything outside of tables that holds text."""
        return tuple(passage for passage in self.passages if not passage.in_table and passage.text.strip())

    @cached_property
    def main(self) -> tuple[Passage, ...]:
        """The prose before the first attachment."""
        return tuple(passage for passage in self.prose if passage.part == 0)

    @cached_property
    def tables(self) -> tuple[Block, ...]:
        return tuple(block for block in self.document.blocks if block.table is not None)


def _passages(document: Document) -> Iterator[Passage]:
    for index, block in enumerate(document.blocks):
        if block.table is not None:
            for at_row, row in enumerate(block.table.rows, 1):
                for at_cell, cell in enumerate(row, 1):
                    yield cell_passage(block, index, cell, at_row, at_cell)
        elif block.type not in _SKIPPED:
            yield Passage(block.runs, block, index)


def cell_passage(block: Block, index: int, cell: Cell, row: int, column: int) -> Passage:
    return Passage(cell.runs, block, index, row=row, column=column)


def _even(runs: tuple[Run, ...]) -> tuple[str, list[int]]:
    """The evened text, and for each of its characters the place in the raw one (empty when both are the same)."""
    raw = text_of(runs)
    plain = raw.translate(_RADICALS)
    wraps: set[int] = set()
    at = 0
    for run in runs:
        if run.wrap:
            wraps.add(at)
        at += len(run.text)
    if not wraps and not any(blank in plain for blank in _BLANKS):
        return plain, []
    text: list[str] = []
    places: list[int] = []
    for place, char in enumerate(plain):
        shown = char
        if place in wraps:
            shown = joint(plain[max(place - 1, 0) : place].strip(), plain[place + 1 : place + 2].strip())
        if shown and shown in _BLANKS:
            before = plain[max(place - _NEAR, 0) : place].rstrip(_BLANKS)
            shown = "" if _typeset(before[-1:], plain[place + 1 : place + _NEAR].lstrip(_BLANKS)[:1]) else " "
        if shown:
            text.append(shown)
            places.append(place)
    return "".join(text), places


def _typeset(before: str, after: str) -> bool:
    """A blank between an ideograph and a digit or letter says nothing."""
    return bool(before and after) and (
        (is_cjk(before) and after.isascii() and after.isalnum()) or (before.isascii() and before.isalnum() and is_cjk(after))
    )


def _longest_piece(raw: str, start: int, limit: int, end: int, source: str) -> str:
    """The longest stretch of `raw[start:end]` that the source holds as it is, cut wherever it breaks off."""
    best = ""
    at = start
    stop = min(end, limit)
    while at < stop:
        size = 1
        while at + size < stop and raw[at : at + size + 1] in source:
            size += 1
        piece = raw[at : at + size].strip()
        if len(piece) > len(best) and piece in source:
            best = piece
        at += size
    return best
