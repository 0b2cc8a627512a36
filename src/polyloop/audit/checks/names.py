"""Names: abbreviations that are defined twice, late or never, and organisation names that differ by a slip."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from polyloop.audit.checks.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polyloop.audit.checks.passages import Passage, Reading

_SHORT_ZH: Final = re.compile(
    r"(?P<full>《[^《》\n]{2,60}》|[\u4e00-\u9fffA-Za-z0-9·]{2,40})[（(]\s*(?:以下|下文|下同)?\s*(?:统一)?(?:统称|简称|称)(?:为)?[：:，,]?\s*"
    r"(?P<short>《[^《》\n]{1,20}》|[“\"「][^”\"」\n]{1,20}[”\"」]|[^“”\"「」，。；（）()《》\n]{1,20})\s*[）)]"
)
_BARE_TITLE: Final = re.compile(r"《(?:办法|条例|规定|意见|方案|细则|通知|规划|决定|纲要|标准|规则|准则|合同|协议)》")
_MIN_EARLY: Final = 3
_ACRONYM: Final = re.compile(r"(?<![\w&/.-])[A-Z][A-Z&]{1,6}(?:s)?(?![\w&/-]|\.\w)")
_DEFINED_EN: Final = re.compile(
    r"\((?:the\s+|each\s+an?\s+|an?\s+|hereinafter\s+|\")?[“\"]?(?P<short>[A-Z][A-Za-z&]{1,12})[”\"]?\)|\b(?P<lead>[A-Z][A-Z&]{1,6}) \([A-Z][a-z]"
)
_TERM_EN: Final = re.compile(r"(?P<full>[^.;()\n]{3,80})\s\((?:hereinafter\s+)?(?:the\s+)?[“\"](?P<short>[A-Z][\w &-]{1,40})[”\"]\)")
#: Abbreviations nobody explains, and words that are set in capitals for weight.
_KNOWN: Final[frozenset[str]] = frozenset(
    re.findall(
        r"[A-Z]+",
        """UK USA US EU UN UNESCO WHO NATO VAT PDF ISO IEC LLP LLC PLC INC LTD CO GDP IT ID URL HTTP HTTPS HTML XML CSV API AM PM GMT
        UTC BST CEO CFO CTO COO FAQ TV PC USB CD DVD OK NB PS RSVP PO BOX QR SMS GPS DNA RNA LED AC DC HIV AIDS COVID ASAP TBC TBD NA
        RMB CNY USD EUR GBP HKD JPY NOT AND OR MUST SHALL ONLY ALL ANY NO THE IF OF TO FOR IN ON BY BE IS ARE MAY WILL YES REF RE CC
        ATTN II III IV VI VII VIII IX XI XII""",
    )
)
_ORGANISATION: Final = re.compile(
    r"[\u4e00-\u9fff（）()A-Za-z]{2,24}?(?:有限责任公司|股份有限公司|有限公司|集团公司|管理委员会|委员会|人民政府|办公室|管理局|管理中心|研究院|研究所|设计院|事务所"
    r"|联合会|协会|基金会|大学|学院|医院|中心|公司|银行|集团|局|厅)(?![\u4e00-\u9fff]{0,4}(?:公司|中心|局|厅|委员会))"
)
_NOT_A_SLIP: Final = frozenset(
    "一二三四五六七八九十百千〇零0123456789第甲乙丙丁东西南北中上下左右前后新老大小省市区县镇乡村州盟旗各本该原总分正副男女"
)
_PLACE_AFTER: Final = re.compile(r".{0,2}[省市区县镇乡村州盟旗路街]")
_MIN_LEFT: Final = 3
_MIN_RIGHT: Final = 2
#: Two characters left out are a slip only in front of a long ending; before a short one they make another office.
_LEFT_OUT: Final = 2
_LONG_ENDING: Final = 4
_MIN_SHARED: Final = 6
_MAX_NAMES: Final = 600
_MAX_DEFINITIONS: Final = 200


class _Definition(Struct, frozen=True):
    passage: Passage
    full: str
    short: str
    start: int
    end: int


def abbreviations(reading: Reading) -> Iterator[Finding]:
    """Short names mean one thing, are introduced before they are used, and are introduced at all."""
    defined = list(_definitions(reading))
    yield from _redefined(defined)
    yield from _early(reading, defined)
    shorts = {each.short for each in defined}
    for passage in reading.prose:
        for found in _BARE_TITLE.finditer(passage.text):
            if found[0] not in shorts and passage.lang == "zh":
                shorts.add(found[0])
                yield Finding("abbreviations", "warning", "abbreviation_undefined", passage.evidence(*found.span()), {"short": found[0]})
    if reading.lang == "en":
        yield from _acronyms(reading)


def _definitions(reading: Reading) -> Iterator[_Definition]:
    for passage in reading.passages:
        pattern = _SHORT_ZH if passage.lang == "zh" else _TERM_EN
        for found in pattern.finditer(passage.text):
            yield _Definition(passage, found["full"].strip(), found["short"].strip('“”"「」 '), *found.span())


def _redefined(defined: list[_Definition]) -> Iterator[Finding]:
    """Where a full name begins cannot be told from the words before it, so names are compared from their ends."""
    for at, each in enumerate(defined[:_MAX_DEFINITIONS]):
        for first in defined[:at]:
            shared = _shared_end(first.full, each.full)
            shorter = min(len(first.full), len(each.full))
            titles = each.full.startswith("《") or first.full.startswith("《")
            if first.short == each.short and (first.full != each.full if titles else shared < min(_MIN_SHARED, shorter)):
                code = "abbreviation_redefined"
            elif first.short != each.short and shared == shorter:
                code = "abbreviation_two_names"
            else:
                continue
            params = {"short": each.short, "first": first.short, "full": each.full}
            related = (first.passage.evidence(first.start, first.end),)
            yield Finding("abbreviations", "error", code, each.passage.evidence(each.start, each.end), params, related)
            break


def _early(reading: Reading, defined: list[_Definition]) -> Iterator[Finding]:
    """A short name in a sentence before the one that introduces it. Titles and headings may use it."""
    for each in defined[:_MAX_DEFINITIONS]:
        if len(each.short) < _MIN_EARLY or each.short in each.full or each.passage.lang != "zh":
            continue
        for passage in reading.main:
            if passage.index >= each.passage.index:
                break
            at = passage.text.find(each.short)
            if at >= 0 and passage.block.type != "heading" and any(stop in passage.text for stop in "。；，"):
                yield Finding(
                    "abbreviations", "warning", "abbreviation_early", passage.evidence(max(at - 8, 0), at + len(each.short) + 8),
                    {"short": each.short}, (each.passage.evidence(each.start, each.end),),
                )  # fmt: skip
                break


def _acronyms(reading: Reading) -> Iterator[Finding]:
    known: set[str] = set(_KNOWN)
    for passage in reading.passages:
        for found in _DEFINED_EN.finditer(passage.text):
            known.add(found["short"] or found["lead"])
    for passage in reading.prose:
        if passage.text.upper() == passage.text:
            continue
        for found in _ACRONYM.finditer(passage.text):
            short = found[0].rstrip("s")
            if short not in known:
                known.add(short)
                yield Finding("abbreviations", "info", "acronym_undefined", passage.evidence(*found.span()), {"short": short})


def organisation_names(reading: Reading) -> Iterator[Finding]:
    """Two names that agree but for one character in the middle are one name and a slip."""
    uses: Counter[str] = Counter()
    places: dict[str, tuple[Passage, int]] = {}
    for passage in reading.passages:
        for found in _ORGANISATION.finditer(passage.text):
            uses[found[0]] += 1
            places.setdefault(found[0], (passage, found.start()))
    endings: defaultdict[str, list[str]] = defaultdict(list)
    for name in list(places)[:_MAX_NAMES]:
        endings[name[-2:]].append(name)
    for group in endings.values():
        reported: set[str] = set()
        for at, one in enumerate(group):
            for other in group[:at]:
                slip = _slip(one, other)
                if slip is None or one in reported:
                    continue
                reported.add(one)
                rarer, usual = (one, other) if _count(uses, slip[0]) <= _count(uses, slip[1]) else (other, one)
                shown, model = slip if rarer is one else slip[::-1]
                (passage, start), (holder, began) = places[rarer], places[usual]
                here, there = start + len(rarer) - len(shown), began + len(usual) - len(model)
                yield Finding(
                    "organisation_names", "warning", "organisation_differs", passage.evidence(here, here + len(shown)),
                    {"name": shown, "usual": model}, (holder.evidence(there, there + len(model)),),
                )  # fmt: skip


def _count(uses: Counter[str], ending: str) -> int:
    return sum(count for name, count in uses.items() if name.endswith(ending))


def _slip(one: str, other: str) -> tuple[str, str] | None:
    """The two spellings from where they begin to agree, if one character was replaced, or one or two left out."""
    right = _shared_end(one, other)
    for cut_one, cut_other in ((1, 1), (1, 0), (0, 1), (2, 0), (0, 2)):
        rest_one, rest_other = one[: len(one) - right - cut_one], other[: len(other) - right - cut_other]
        if len(one) - right < cut_one or len(other) - right < cut_other:
            continue
        left = _shared_end(rest_one, rest_other)
        changed = one[len(rest_one) : len(one) - right] + other[len(rest_other) : len(other) - right]
        after = one[len(one) - right :]
        if left < _MIN_LEFT or left + right < _MIN_SHARED or right < _MIN_RIGHT or any(char in _NOT_A_SLIP for char in changed):
            continue
        if changed and not _PLACE_AFTER.match(after) and not (cut_one != cut_other and len(changed) == _LEFT_OUT and right < _LONG_ENDING):
            return one[len(rest_one) - left :], other[len(rest_other) - left :]
    return None


def _shared_end(one: str, other: str) -> int:
    shared = 0
    while shared < min(len(one), len(other)) and one[-1 - shared] == other[-1 - shared]:
        shared += 1
    return shared
