"""The parts an official document must have, by its kind; and the form of its number."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from polyloop.audit.checks.dates import dates_in
from polyloop.audit.checks.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polyloop.audit.checks.passages import Passage, Reading

_KIND_ZH: Final = re.compile(r"(通知|通报|报告|请示|批复|函|公告|通告|公示|意见|决定|合同|协议书?)(?:书)?(?:[（(][^（）()]{1,12}[）)])?\Z")
_KIND_EN: Final = re.compile(
    r"\b(notice|circular|memorandum|memo|policy|agreement|contract|letter|announcement|invitation to tender)\b", re.IGNORECASE
)
#: kind -> the parts it must have.
_NEEDS: Final[dict[str, frozenset[str]]] = {
    "通知": frozenset({"recipient", "signature", "date"}),
    "通报": frozenset({"signature", "date"}),
    "报告": frozenset({"signature", "date"}),
    "请示": frozenset({"recipient", "signature", "date"}),
    "批复": frozenset({"recipient", "signature", "date"}),
    "函": frozenset({"recipient", "signature", "date"}),
    "公告": frozenset({"signature", "date"}),
    "通告": frozenset({"signature", "date"}),
    "公示": frozenset({"signature", "date"}),
    "意见": frozenset(),
    "决定": frozenset(),
    "合同": frozenset({"seal", "any_date"}),
    "协议": frozenset({"seal", "any_date"}),
    "协议书": frozenset({"seal", "any_date"}),
    "notice": frozenset({"any_date"}),
    "circular": frozenset({"any_date"}),
    "memorandum": frozenset({"addressee", "any_date"}),
    "memo": frozenset({"addressee", "any_date"}),
    "policy": frozenset({"any_date"}),
    "agreement": frozenset({"seal", "any_date"}),
    "contract": frozenset({"seal", "any_date"}),
    "letter": frozenset({"any_date"}),
    "announcement": frozenset({"any_date"}),
    "invitation to tender": frozenset({"any_date"}),
}
_NUMBERED: Final = re.compile(r"(?:[一二三四五六七八九十]+、|[（(][一二三四五六七八九十]+[）)]|\d+[.．、]|第[一二三四五六七八九十]+[条章])")
_DOCUMENT_NUMBER: Final = re.compile(
    r"(?<![\u4e00-\u9fff])(?P<code>[\u4e00-\u9fff]{1,10}?)(?P<open>[〔\[【（(［])(?P<year>20\d\d|19\d\d|\d\d)年?[〕\]】）)］]\s*(?P<ordinal>第)?(?P<n>\d{1,5})号"
)
_SEAL: Final = re.compile(r"签字|盖章|签章|签名|\bsign(?:ed|ature)\b|\bwitness\b", re.IGNORECASE)
_BLANK_DATE: Final = re.compile(r"年\s*月\s*日|日期[：:]|\bdate[d]?\s*:", re.IGNORECASE)
_ADDRESSEE: Final = re.compile(r"\s*to\s*:", re.IGNORECASE)
_AS_FOLLOWS: Final = re.compile(r"(?:如下|以下|是|为)[：:]\Z")
_ISSUER: Final = re.compile(r"[\u4e00-\u9fff（）()\d、 ]{2,60}\Z")
_HEAD_PASSAGES: Final = 8
_MAX_TITLE: Final = 80
_MAX_RECIPIENTS: Final = 160


class Head(Struct, frozen=True):
    """The title as found (empty if there is none), how many passages it takes, and the kind of document it names."""

    title: str
    passages: int
    kind: str


def head_of(reading: Reading) -> Head:
    """The title: a heading, or the short lines before anything that is a sentence, a recipient or a number."""
    lines: list[str] = []
    taken = 0
    for passage in reading.main[:5]:
        text = passage.text.strip()
        if passage.block.type == "heading" and not lines and not _NUMBERED.match(text):
            return Head(text, taken + 1, _kind(text))
        if not _may_be_title(text):
            break
        taken += 1
        if _DOCUMENT_NUMBER.search(text) or text.endswith("文件"):
            continue
        lines.append(text)
        if _kind("".join(lines)):
            break
    title = "".join(lines)
    return Head(title, taken, _kind(title))


def _may_be_title(text: str) -> bool:
    return len(text) <= _MAX_TITLE and text[-1:] not in tuple("。；：，:;,.") and not _NUMBERED.match(text) and not dates_only(text)


def _kind(title: str) -> str:
    found = _KIND_ZH.search(title) or _KIND_EN.search(title)
    return found[1].lower() if found else ""


def dates_only(text: str) -> bool:
    return re.fullmatch(r"[\d〇零○一二三四五六七八九十年月日./\- ]{6,20}", text.strip()) is not None


def document_parts(reading: Reading) -> Iterator[Finding]:
    """Title; then recipient, signature and date as the kind of document demands."""
    if not reading.main:
        return
    head = head_of(reading)
    if not head.title:
        yield _missing("title", reading.main[0], "")
    needs = _NEEDS.get(head.kind, frozenset())
    after_title = reading.main[head.passages :]
    if "recipient" in needs and not any(map(_is_recipient, after_title[:_HEAD_PASSAGES])):
        expected_before = (passage for passage in after_title if not _DOCUMENT_NUMBER.search(passage.text))
        yield _missing("recipient", next(expected_before, reading.main[-1]), head.kind)
    if "addressee" in needs and not any(_ADDRESSEE.match(passage.text) for passage in reading.main[:_HEAD_PASSAGES]):
        yield _missing("recipient", reading.main[0], head.kind)
    yield from _ending(reading, head, needs)


def _ending(reading: Reading, head: Head, needs: frozenset[str]) -> Iterator[Finding]:
    tail = reading.main[head.passages :]
    last = tail[-1] if tail else reading.main[-1]
    dated = next((at for at in range(len(tail) - 1, -1, -1) if _is_date(tail[at])), None)
    if "date" in needs and dated is None:
        yield _missing("date", last, head.kind)
    if "signature" in needs:
        near = tail[max(dated - 3, 0) : dated] if dated is not None else tail[-4:]
        if not any(map(_is_issuer, near)):
            yield _missing("signature", last, head.kind)
    if "seal" in needs and not any(_SEAL.search(passage.text) for passage in reading.passages):
        yield _missing("signature", last, head.kind)
    if "any_date" in needs and not any(dates_in(passage) or _BLANK_DATE.search(passage.text) for passage in reading.passages):
        yield _missing("date", last, head.kind)


def _is_recipient(passage: Passage) -> bool:
    text = passage.text.strip()
    return (
        text.endswith(("：", ":"))
        and len(text) <= _MAX_RECIPIENTS
        and "。" not in text
        and not _AS_FOLLOWS.search(text)
        and not _NUMBERED.match(text)
    )


def _is_date(passage: Passage) -> bool:
    return len(dates_in(passage)) == 1 and dates_only(passage.text)


def _is_issuer(passage: Passage) -> bool:
    """A name and no sentence; several issuers may share a line or have one each. The items of a list of attachments are none."""
    text = passage.text.strip()
    return _ISSUER.match(text) is not None and passage.block.type == "paragraph" and not _NUMBERED.match(text) and not dates_only(text)


def _missing(part: str, passage: Passage, kind: str) -> Finding:
    return Finding("document_parts", "error", f"{part}_missing", passage.evidence(0, 40), {"kind": kind})


def document_number(reading: Reading) -> Iterator[Finding]:
    """A document's number has its year in 〔〕, in full, and a bare number: 国发〔2024〕5号."""
    for passage in reading.prose:
        for found in _DOCUMENT_NUMBER.finditer(passage.text):
            year = found["year"] if len(found["year"]) > 2 else f"20{found['year']}"  # noqa: PLR2004 - two digits of a year
            right = f"{found['code']}〔{year}〕{int(found['n'])}号"
            written = re.sub(r"\s", "", found[0])
            if written != right:
                params = {"number": written, "right": right}
                yield Finding("document_number", "warning", "document_number_form", passage.evidence(*found.span()), params)
