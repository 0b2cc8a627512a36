"""References to attachments, articles, sections, tables and figures that the document does not have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from polyloop.audit.checks.finding import Finding
from polyloop.audit.checks.numbering import openings
from polyloop.formats.numerals import chinese, parsed_chinese

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polyloop.audit.checks.passages import Passage, Reading

_ATTACHMENT: Final = re.compile(r"附件\s?(?P<n>\d{1,2}|[一二三四五六七八九十]{1,3})(?![\d年月日个份项])")
_BARE_ATTACHMENT: Final = re.compile(r"(?:见|详见|参见|填写|按照?)附件(?![\d一二三四五六七八九十：:])")
_ATTACHMENT_LIST: Final = re.compile(r"\s*附件[：:]")
_LISTED: Final = re.compile(r"\s*(?:附件[：:]\s*)?(?P<n>\d{1,2})[.．、]")
_ARTICLE: Final = re.compile(r"第(?P<n>[一二三四五六七八九十百零〇]{1,6}|\d{1,3})条")
_OWN: Final = re.compile(r"(?:本合同|本协议|本办法|本规定|本条例|本细则|本制度|本章程|本公约|本方案|上述|前述)(?:的)?\Z")
_FOREIGN: Final = re.compile(r"(?:》|法|条例|办法|规定|细则|规则|解释|决定|章程|公约|合同|协议)(?:（[^（）]*）)?(?:的)?\Z")
_CHAINED: Final = re.compile(r"(?:第[一二三四五六七八九十\d]+[款项])*(?:、|，|和|及|或者?|以及|至|到|—|-)\Z")
_FIGURE_ZH: Final = re.compile(
    r"(?:见|如|详见|参见|按)(?P<kind>表|图)(?P<n>\d{1,3}(?:[-.－]\d{1,3})?)|(?P<kind2>表|图)(?P<n2>\d{1,3}(?:[-.－]\d{1,3})?)所示"
)
_CAPTION_ZH: Final = re.compile(r"\s*(?P<kind>表|图)(?P<n>\d{1,3}(?:[-.－]\d{1,3})?)(?!所示|[中可显])")
_SECTION_EN: Final = re.compile(
    r"\b(?:Section|Clause|Paragraph|Sections|Clauses)\s+(?P<n>\d{1,2}(?:\.\d{1,2})*)(?!\d|\.\d|\s+of\s+the\s+(?!Agreement|Contract|Policy))"
)
_OF_ANOTHER_EN: Final = r"(?!\s+of\s+the\s+(?!Agreement|Contract|Policy))"
_NAMED_EN: Final = re.compile(
    r"\b(?P<kind>Appendix|Annex|Schedule|Exhibit|Attachment|Table|Figure)\s+(?P<n>[A-Z]|\d{1,2}(?:\.\d{1,2})?)\b" + _OF_ANOTHER_EN
)
_MIN_ARTICLES: Final = 3
_MAX_HEADING: Final = 60


def references(reading: Reading) -> Iterator[Finding]:
    """Each kind of reference against what the document has."""
    yield from _attachments(reading)
    yield from _articles(reading)
    yield from _captions(reading)
    yield from _sections(reading)
    yield from _named(reading)


def _attachments(reading: Reading) -> Iterator[Finding]:
    has = _attachment_numbers(reading)
    any_at_all = bool(has) or any(passage.text.strip().startswith("附件") for passage in reading.prose)
    for passage in reading.passages:
        for found in _ATTACHMENT.finditer(passage.text):
            number = int(found["n"]) if found["n"].isdigit() else parsed_chinese(found["n"])
            if number not in has:
                yield _dangling(passage, found, found[0])
        for found in _BARE_ATTACHMENT.finditer(passage.text) if not any_at_all else ():
            yield _dangling(passage, found, "附件")


def _attachment_numbers(reading: Reading) -> set[int]:
    """Numbers of the list after 附件：, and of the attachments that follow the text."""
    has: set[int] = set()
    listing = False
    for passage in reading.prose:
        text = passage.text.strip()
        listing = (
            bool(_ATTACHMENT_LIST.match(text)) or (listing and _LISTED.match(text) is not None) or (listing and passage.block.type == "numbered")
        )
        if listing:
            number = passage.block.number if passage.block.type == "numbered" else int(found["n"]) if (found := _LISTED.match(text)) else 1
            has.add(number)
            has.update(int(each) for each in re.findall(r"(?<![\d.])(\d{1,2})[.．、](?!\d)", text))
        heading = _ATTACHMENT.match(text)
        if heading and passage.part > 0 and len(text) <= _MAX_HEADING and "。" not in text:
            has.add(int(heading["n"]) if heading["n"].isdigit() else parsed_chinese(heading["n"]) or 0)
    return has


def _articles(reading: Reading) -> Iterator[Finding]:
    has = {each.path[0] for each in openings(reading) if each.kind == "article"}
    if len(has) < _MIN_ARTICLES:
        return
    for passage in reading.prose:
        foreign = False
        last_end = 0
        for found in _ARTICLE.finditer(passage.text):
            before = passage.text[max(last_end, found.start() - 24) : found.start()]
            if not (last_end and _CHAINED.match(before)):
                foreign = _FOREIGN.search(before) is not None and _OWN.search(before) is None
            last_end = found.end()
            number = int(found["n"]) if found["n"].isdigit() else parsed_chinese(found["n"])
            if not foreign and number is not None and number not in has:
                yield _dangling(passage, found, f"第{chinese(number)}条")


def _captions(reading: Reading) -> Iterator[Finding]:
    has = {(found["kind"], found["n"].replace("－", "-")) for passage in reading.passages if (found := _CAPTION_ZH.match(passage.text))}
    for passage in reading.prose:
        for found in _FIGURE_ZH.finditer(passage.text):
            kind, number = found["kind"] or found["kind2"], (found["n"] or found["n2"]).replace("－", "-")
            if (kind, number) not in has:
                yield _dangling(passage, found, kind + number)


def _sections(reading: Reading) -> Iterator[Finding]:
    paths = {each.path for each in openings(reading) if each.kind in ("decimal", "third", "article")}
    has = {path[:length] for path in paths for length in range(1, len(path) + 1)}
    if not any(len(path) > 1 for path in has) and len(has) < _MIN_ARTICLES:
        return
    for passage in reading.prose:
        for found in _SECTION_EN.finditer(passage.text):
            if tuple(map(int, found["n"].split("."))) not in has:
                yield _dangling(passage, found, found[0])


def _named(reading: Reading) -> Iterator[Finding]:
    has: set[tuple[str, str]] = set()
    for passage in reading.passages:
        found = _NAMED_EN.match(passage.text.strip()) or re.match(_NAMED_EN.pattern, passage.text.strip(), re.IGNORECASE)
        if found and (
            passage.block.type == "heading" or re.match(r"\s*(?:[:.—–-]|\Z)", passage.text.strip()[found.end() :]) or passage.text.isupper()
        ):
            has.add((found["kind"].lower(), found["n"].upper()))
    for passage in reading.prose if reading.lang == "en" else ():
        for found in _NAMED_EN.finditer(passage.text):
            if (found["kind"].lower(), found["n"].upper()) not in has:
                yield _dangling(passage, found, found[0])


def _dangling(passage: Passage, found: re.Match[str], target: str) -> Finding:
    evidence = passage.evidence(max(found.start() - 8, 0), found.end() + 8)
    return Finding("references", "error", "reference_dangling", evidence, {"target": target})
