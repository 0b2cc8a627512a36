"""Punctuation: its width, doubled marks, and quotes and brackets that do not pair."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from polyloop.audit.checks.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polyloop.audit.checks.finding import Evidence
    from polyloop.audit.checks.passages import Passage, Reading

_HAN: Final = "\u4e00-\u9fff"
_CLOSE: Final = "”’》）】〕"
_HALF_IN_CHINESE: Final = re.compile(
    rf"(?<=[{_HAN}{_CLOSE}])[,;:?!](?!//)(?=[^\x21-\x2f]|\Z)|(?<=[{_HAN}{_CLOSE}])\.(?=\s*\Z|[{_HAN}])"
    rf"|(?<=[{_HAN}])\((?=[^()\n]*[{_HAN}])|(?<=[{_HAN}])\)(?=[{_HAN}，。；：、]|\Z)|(?<=[{_HAN}])\"|\"(?=[{_HAN}])"
)  # fmt: skip
_FULL_IN_ENGLISH: Final = re.compile(r"[，。；：？！（）、]")
_DOUBLED: Final = re.compile(
    r"[，；：、。]{2,}|[？！][，；：、。]+|[，；：、。]+[？！]|(?<![，。；：、？！])！{4,}|,,+|;;+|(?<!\.)\.\.(?!\.)|,\.|\.,(?=\s)"
)
_PAIRS: Final = {"“": "”", "《": "》", "〈": "〉", "（": "）", "(": ")", "〔": "〕", "【": "】", "「": "」", "『": "』", "[": "]", "{": "}", "‘": "’"}
_OPENERS: Final = {close: opened for opened, close in _PAIRS.items()}
_OTHER_WIDTH: Final = {")": "（", "）": "("}
_BRACKET_CHARACTERS: Final = 200
_LIST_MARK: Final = re.compile(r"\s*(?:\d{1,3}|[A-Za-z]{1,3}|[一二三四五六七八九十]+)[)）]")
#: Closing brackets that close nothing: 2）in a row of points, and :).
_LONE_CLOSER: Final = re.compile(r"(?:[；;。，,、：:\s](?:\d{1,2}|[A-Za-z])[)）]|[:;]-?\))\Z")


def punctuation_width(reading: Reading) -> Iterator[Finding]:
    """Half-width marks in Chinese sentences, full-width ones in English."""
    for passage in reading.passages:
        pattern = _FULL_IN_ENGLISH if passage.lang == "en" else _HALF_IN_CHINESE
        found = [each for each in pattern.finditer(passage.text) if passage.lang == "en" or _is_fault(passage.text, each)]
        if found and not (passage.lang == "en" and reading.lang == "zh"):
            code = "full_width_in_english" if passage.lang == "en" else "half_width_in_chinese"
            start, end = found[0].span()
            params = {"mark": found[0][0], "count": str(len(found))}
            yield Finding("punctuation_width", "warning", code, _around(passage, start, end), params)


def _is_fault(text: str, mark: re.Match[str]) -> bool:
    """Not the closing bracket of a formula, nor a number's own brackets at the beginning."""
    if mark[0] != ")":
        return True
    opened = text.rfind("(", max(mark.start() - _BRACKET_CHARACTERS, 0), mark.start())
    return opened > 0 and re.search(rf"[{_HAN}]", text[opened : mark.start()]) is not None and text[opened - 1].strip() != ""


def punctuation_repeat(reading: Reading) -> Iterator[Finding]:
    """Marks doubled by mistake."""
    for passage in reading.passages:
        for found in _DOUBLED.finditer(passage.text):
            yield Finding("punctuation_repeat", "warning", "marks_doubled", _around(passage, *found.span()), {"marks": found[0]})
            break


def paired_marks(reading: Reading) -> Iterator[Finding]:
    """Quotes and brackets close in the order they open, and in the width they opened."""
    carried: list[tuple[str, int, Passage]] = []
    carries = reading.document.format == "pdf"
    for passage in reading.passages:
        faults, unclosed, unopened = _scan(passage)
        for held, _, holder in carried:
            closing = next((each for each in unopened if each[0] == _PAIRS[held]), None)
            if closing is None:
                yield _unpaired(holder, held, next(at for mark, at, owner in carried if mark == held and owner is holder))
            else:
                unopened.remove(closing)
        carried = [(mark, at, passage) for mark, at in unclosed] if carries and not passage.in_table else []
        yield from faults
        for mark, at in ([] if carried else unclosed) + unopened:
            yield _unpaired(passage, mark, at)
    for mark, at, holder in carried:
        yield _unpaired(holder, mark, at)


def _scan(passage: Passage) -> tuple[list[Finding], list[tuple[str, int]], list[tuple[str, int]]]:
    """Width faults, marks left open, and closing marks that nothing opened."""
    text = passage.text
    start = found.end() if (found := _LIST_MARK.match(text)) and "(" not in found[0] and "（" not in found[0] else 0
    faults: list[Finding] = []
    opened: list[tuple[str, int]] = []
    unopened: list[tuple[str, int]] = []
    for at in range(start, len(text)):
        char = text[at]
        if char in _PAIRS:
            opened.append((char, at))
        elif char in _OPENERS and not _is_apostrophe(text, at):
            place = next((n for n in range(len(opened) - 1, -1, -1) if opened[n][0] in (_OPENERS[char], _OTHER_WIDTH.get(char, ""))), None)
            if place is None:
                if not _LONE_CLOSER.search(text, max(at - 4, 0), at + 1):
                    unopened.append((char, at))
                continue
            if opened[place][0] != _OPENERS[char]:
                params = {"opened": opened[place][0], "closed": char}
                faults.append(Finding("paired_marks", "warning", "bracket_width", passage.evidence(opened[place][1], at + 1), params))
            crossed = opened[place + 1 :]
            del opened[place:]
            opened += [each for each in crossed if each[0] != "‘"]
    if passage.lang == "en":
        opened = [each for each in opened if each[0] != "‘" and not (each[0] == "“" and each[1] <= start)]
        straight = [at for at in range(len(text)) if text[at] == '"' and not (at and text[at - 1].isdigit())]
        if len(straight) % 2:
            unopened.append(('"', straight[-1]))
    return faults, opened, unopened


def _is_apostrophe(text: str, at: int) -> bool:
    return text[at] == "’" and at > 0 and text[at - 1].isascii()


def _unpaired(passage: Passage, mark: str, at: int) -> Finding:
    return Finding("paired_marks", "error", "mark_unpaired", _around(passage, at, at + 1), {"mark": mark})


def _around(passage: Passage, start: int, end: int) -> Evidence:
    """The mark with some words on both sides: a mark alone is found anywhere."""
    return passage.evidence(max(start - 12, 0), min(end + 12, len(passage.text)))
