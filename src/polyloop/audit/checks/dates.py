"""Dates: whether they exist, are written one way, fall on the weekday named, and stand in a possible order."""

from __future__ import annotations

import calendar
import re
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from polyloop.audit.checks.finding import Finding
from polyloop.formats.numerals import parsed_chinese

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polyloop.audit.checks.passages import Passage, Reading

_MONTHS: Final = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
_MONTH: Final = (
    r"(?P<m>Jan(?:uary|\.)?|Feb(?:ruary|\.)?|Mar(?:ch|\.)?|Apr(?:il|\.)?|May|June?|July?|Aug(?:ust|\.)?|Sept?(?:ember|\.)?"
    r"|Oct(?:ober|\.)?|Nov(?:ember|\.)?|Dec(?:ember|\.)?)"
)
_NUMERALS: Final = "〇零○一二三四五六七八九"
_EDGE: Final = r"(?<![\dA-Za-z./-])"
#: style -> pattern with named groups for year, month, day.
_STYLES: Final = {
    "年月日": re.compile(r"(?<!\d)(?P<y>\d{4})年(?P<m>\d{1,2})月(?P<d>\d{1,2})日"),
    "汉字": re.compile(rf"(?P<y>[{_NUMERALS}]{{4}})年(?P<m>[一二三四五六七八九十]{{1,3}})月(?P<d>[一二三四五六七八九十]{{1,3}})日"),
    "2024-1-1": re.compile(_EDGE + r"(?P<y>(?:19|20)\d\d)-(?P<m>\d{1,2})-(?P<d>\d{1,2})(?![\d.-]|-)"),
    "2024/1/1": re.compile(_EDGE + r"(?P<y>(?:19|20)\d\d)/(?P<m>\d{1,2})/(?P<d>\d{1,2})(?![\d./-])"),
    "2024.1.1": re.compile(_EDGE + r"(?P<y>(?:19|20)\d\d)\.(?P<m>\d{1,2})\.(?P<d>\d{1,2})(?![\d-]|\.\d)"),
    "1 May 2024": re.compile(rf"(?<!\d)(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\s+{_MONTH},?\s+(?P<y>\d{{4}})(?!\d)", re.IGNORECASE),
    "May 1, 2024": re.compile(rf"\b{_MONTH}\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y>\d{{4}})(?!\d)", re.IGNORECASE),
}
_NO_YEAR: Final = re.compile(r"(?<![\d年])(?P<m>\d{1,2})月(?P<d>\d{1,2})日")
_WEEKDAY_ZH: Final = re.compile(r"[（(](?:星期|周)([一二三四五六日天])")
_WEEKDAY_EN: Final = re.compile(r"\b(Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)\b", re.IGNORECASE)
_TIME: Final = r"(?:[（(][^（）()]{1,10}[）)])?\s*(?:(?:上午|下午)?\d{1,2}[:：时]\d{0,2}分?)?"
_RANGE: Final = re.compile(_TIME + r"\s*起?\s*(?:至|到|—{1,2}|–|-|~|～|(?:and\s+\w+\s+)?(?:to|until|through)|and)\s*\Z")
_DUE_ZH: Final = re.compile(r"(?:\d{1,2}[:：时]\d{0,2}分?)?(?:之前|以前|前|止|截止)")
_DUTY_ZH: Final = re.compile(r"请|应|须|务必|报送|提交|递交|报名|逾期")
_DUE_EN: Final = re.compile(
    r"(?:by|before|no later than|not later than|until)\s+(?:(?:\d{1,2}:\d\d|noon|close of business)\s+(?:on\s+)?)?\Z", re.IGNORECASE
)
_DUTY_EN: Final = re.compile(r"\b(?:must|shall|please|should|submit|requested|required|apply|deadline)\b", re.IGNORECASE)
_DEADLINE_KINDS: Final = re.compile(
    r"(?:通知|公告|通告|函|招标|邀请|公示)|\b(?:notice|memorandum|memo|call|invitation|tender|announcement)\b", re.IGNORECASE
)
#: A date near the first label must not be later than a date near the second.
_LABELS: Final = (
    (re.compile(r"(?:投标|响应|递交|提交)[^。；，]{0,12}截止时间"), re.compile(r"(?<!、)开标时间")),
    (re.compile(r"(?:开始|起始)(?:日期|时间)"), re.compile(r"(?:结束|终止|截止)(?:日期|时间)")),
    (re.compile(r"\b(?:start|commencement) date\b", re.IGNORECASE), re.compile(r"\b(?:end|completion) date\b", re.IGNORECASE)),
    (re.compile(r"\b(?:submission|tender) deadline\b", re.IGNORECASE), re.compile(r"\b(?:tender|bid) opening\b", re.IGNORECASE)),
)  # fmt: skip
_LABEL_REACH: Final = 14
_RANGE_CHARACTERS: Final = 40
_SENTENCE_CHARACTERS: Final = 200
_LABEL_CHARACTERS: Final = 16
_MONTHS_OF_YEAR: Final = 12


class Date(Struct, frozen=True):
    """A date as written. `padded`: month or day under ten carries a nought; None where that cannot show."""

    passage: Passage
    start: int
    end: int
    style: str
    year: int
    month: int
    day: int
    padded: bool | None = None

    @property
    def key(self) -> tuple[int, int, int]:
        return self.year, self.month, self.day

    @property
    def exists(self) -> bool:
        return self.year > 0 and 1 <= self.month <= _MONTHS_OF_YEAR and 1 <= self.day <= calendar.monthrange(self.year, self.month)[1]


def dates_in(passage: Passage) -> list[Date]:
    """Full dates of a passage, in order."""
    found: list[Date] = []
    if not any(char.isdigit() or char == "年" for char in passage.text):
        return found
    for style, pattern in _STYLES.items():
        for each in pattern.finditer(passage.text):
            year, month, day = (_number(each[name]) for name in "ymd")
            low = [text for text in (each["m"], each["d"]) if text.isascii() and text.isdigit() and len(text.lstrip("0")) == 1]
            padded = any(text.startswith("0") for text in low) if low and style == "年月日" else None
            found.append(Date(passage, *each.span(), style, year, month, day, padded))
    return sorted(found, key=lambda date: date.start)


def _number(text: str) -> int:
    if text.isascii() and text.isdigit():
        return int(text)
    if text.isascii():
        return next((at for at, name in enumerate(_MONTHS, 1) if name.startswith(text.lower().rstrip(".")[:3])), 0)
    return parsed_chinese(text.replace("○", "〇")) or 0


def date_validity(reading: Reading) -> Iterator[Finding]:
    """Days that no calendar has."""
    for passage in reading.passages:
        for date in dates_in(passage):
            if not date.exists:
                yield Finding("date_validity", "error", "date_impossible", passage.evidence(date.start, date.end), {"date": _shown(date)})
        for each in _NO_YEAR.finditer(passage.text):
            month, day = int(each["m"]), int(each["d"])
            if not (1 <= month <= _MONTHS_OF_YEAR and 1 <= day <= calendar.monthrange(2024, month)[1]):
                yield Finding("date_validity", "error", "date_impossible", passage.evidence(*each.span()), {"date": each[0]})


def date_format(reading: Reading) -> Iterator[Finding]:
    """One way of writing dates in the text, and one in the tables."""
    for in_table in (False, True):
        found = [date for passage in reading.passages if passage.in_table == in_table for date in dates_in(passage)]
        yield from _minority([(date.style, date) for date in found], "date_format_mixed")
        yield from _minority([(str(date.padded), date) for date in found if date.padded is not None], "date_padding_mixed")


def _minority(styled: list[tuple[str, Date]], code: str) -> Iterator[Finding]:
    groups: defaultdict[str, list[Date]] = defaultdict(list)
    for style, date in styled:
        groups[style].append(date)
    usual = max(groups.values(), key=lambda dates: (len(dates), dates[0].style == "年月日")) if groups else []
    for dates in groups.values():
        if dates is not usual:
            first, model = dates[0], usual[0]
            yield Finding(
                "date_format", "warning", code, first.passage.evidence(first.start, first.end),
                {"date": _shown(first), "usual": _shown(model), "count": str(len(dates)), "usual_count": str(len(usual))},
                (model.passage.evidence(model.start, model.end),),
            )  # fmt: skip


def weekday(reading: Reading) -> Iterator[Finding]:
    """A weekday named beside a date is the one it falls on."""
    for passage in reading.passages:
        for date in dates_in(passage):
            if not date.exists:
                continue
            after, before = passage.text[date.end : date.end + 12], passage.text[max(date.start - 14, 0) : date.start]
            right = calendar.weekday(*date.key)
            named_zh = _WEEKDAY_ZH.match(after)
            named_en = _WEEKDAY_EN.search(before.rstrip(" ,")[-9:]) or re.match(r"\s*\(" + _WEEKDAY_EN.pattern, after, re.IGNORECASE)
            if named_zh and "一二三四五六日".index(named_zh[1].replace("天", "日")) != right:
                said, actual, span = named_zh[0][1:], "星期" + "一二三四五六日"[right], (date.start, date.end + named_zh.end() + 1)
            elif named_en and calendar.day_name[right].lower() != named_en[1].lower():
                start = date.start if named_en.re is not _WEEKDAY_EN else passage.text.rindex(named_en[0], 0, date.start)
                said, actual = named_en[1], calendar.day_name[right]
                span = (start, date.end + (named_en.end() if named_en.re is not _WEEKDAY_EN else 0))
            else:
                continue
            yield Finding("weekday", "error", "weekday_wrong", passage.evidence(*span), {"date": _shown(date), "said": said, "actual": actual})


def date_order(reading: Reading) -> Iterator[Finding]:
    """Ends before starts, openings before deadlines, deadlines before the date of issue."""
    yield from _ranges(reading)
    for earlier, later in _LABELS:
        first, second = _labelled(reading, earlier), _labelled(reading, later)
        if first and second and second.key < first.key:
            yield Finding(
                "date_order", "error", "date_label_order", second.passage.evidence(second.start, second.end),
                {"first": _shown(first), "second": _shown(second)}, (first.passage.evidence(first.start, first.end),),
            )  # fmt: skip
    yield from _deadlines(reading)


def _ranges(reading: Reading) -> Iterator[Finding]:
    for passage in reading.passages:
        yield from _in_one_year(passage)
        dates = [date for date in dates_in(passage) if date.exists]
        for first, second in pairwise(dates):
            between = passage.text[first.end : second.start]
            joined = len(between) <= _RANGE_CHARACTERS and _RANGE.match(between)
            if joined and between.strip() == "and" and not re.search(r"(?i:between)\s*\Z", passage.text[max(first.start - 10, 0) : first.start]):
                continue
            if joined and second.key < first.key:
                params = {"first": _shown(first), "second": _shown(second)}
                yield Finding("date_order", "error", "date_range_reversed", passage.evidence(first.start, second.end), params)


def _in_one_year(passage: Passage) -> Iterator[Finding]:
    """An end without a year of its own lies in the year of the start."""
    for first in dates_in(passage):
        found = _NO_YEAR.search(passage.text, first.end, first.end + _RANGE_CHARACTERS)
        if found and first.exists and _RANGE.match(passage.text[first.end : found.start()]):
            end = (first.year, int(found["m"]), int(found["d"]))
            if end < first.key:
                params = {"first": _shown(first), "second": found[0]}
                yield Finding("date_order", "warning", "date_range_reversed", passage.evidence(first.start, found.end()), params)


def _labelled(reading: Reading, label: re.Pattern[str]) -> Date | None:
    """The first date that follows such a label closely."""
    for passage in reading.prose:
        dates = dates_in(passage) if label.search(passage.text) else []
        for found in label.finditer(passage.text) if dates else ():
            near = next((date for date in dates if 0 <= date.start - found.end() <= _LABEL_REACH), None)
            if near is not None and near.exists:
                return near
    return None


def _deadlines(reading: Reading) -> Iterator[Finding]:
    issued = issue_date(reading)
    head = " ".join(passage.text for passage in reading.main[:3])
    if issued is None or not _DEADLINE_KINDS.search(head):
        return
    for passage in reading.main:
        for date in dates_in(passage):
            sentence = _sentence(passage.text, date)
            due_zh = _DUE_ZH.match(passage.text, date.end) and _DUTY_ZH.search(sentence)
            due_en = _DUE_EN.search(passage.text[max(date.start - 40, 0) : date.start]) and _DUTY_EN.search(sentence)
            if date.exists and date.key < issued.key and (due_zh or due_en):
                yield Finding(
                    "date_order", "error", "deadline_before_issue", passage.evidence(date.start, date.end),
                    {"deadline": _shown(date), "issued": _shown(issued)}, (issued.passage.evidence(issued.start, issued.end),),
                )  # fmt: skip


def _sentence(text: str, date: Date) -> str:
    before, after = text[max(date.start - _SENTENCE_CHARACTERS, 0) : date.start], text[date.end : date.end + _SENTENCE_CHARACTERS]
    return re.split("[。；;]", before)[-1] + text[date.start : date.end] + re.split("[。；;]", after)[0]


def issue_date(reading: Reading) -> Date | None:
    """The last passage of the main text that is a date and nothing else (a label before it aside)."""
    for passage in reversed(reading.main[-15:]):
        dates = dates_in(passage)
        if len(dates) == 1 and dates[0].exists:
            before, after = passage.text[: dates[0].start], passage.text[dates[0].end :].strip()
            if len(before) <= _LABEL_CHARACTERS and len(after) <= 1:
                return dates[0]
    return None


def _shown(date: Date) -> str:
    return date.passage.text[date.start : date.end]
