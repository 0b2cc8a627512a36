"""Words and paragraphs that stand twice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from polyloop.audit.checks.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polyloop.audit.checks.passages import Passage, Reading

#: Particles that never stand twice: character -> (what before excuses it, what after does), for a word ends or begins with one.
_PARTICLES: Final = {
    "的": ("目标", ""), "了": ("", "解结断却"), "在": ("现存正所潜内外实旨", ""), "是": ("但可于凡若只还总或正就而便", "非"),
    "与": ("参给赋授", "会"),
    "及": ("", "时格其早"), "于": ("", ""), "被": ("棉", ""), "把": ("一大", ""), "由": ("自理缘", ""), "为": ("作行认成因", ""), "到": ("", ""),
    "对": ("", "方手接照外内比应话称"), "和": ("共温缓饱总", "气"), "从": ("服听", "容"), "向": ("方趋", ""), "或": ("", ""), "将": ("", "来要近"),
    "并": ("合兼吞一", ""),
}  # fmt: skip
_PARTICLE: Final = re.compile(
    "|".join(
        (f"(?<![{before}])" if before else "") + f"{char}{char}" + (f"(?![{after}])" if after else "") for char, (before, after) in _PARTICLES.items()
    )
)
_PHRASE: Final = re.compile(r"(?P<w>[\u4e00-\u9fff]{2,8})(?P=w)")
#: After a doubled two-character word these make a compound of the second one.
_COMPOUND: Final = re.compile(r"[人员组化者部门经理工程款率性机制度局处科室委会中心区县市费品项目法案书表单站点平台]")
_DISTRIBUTIVE: Final = re.compile(r"[一逐每层个]|[研讨商考试尝练学锻]|.*[一二三四五六七八九十百千万亿]")
_ENGLISH: Final = re.compile(r"\b(?P<w>[A-Za-z]+)[ \n]+(?P=w)\b", re.IGNORECASE)
_ENGLISH_RIGHT: Final = frozenset({"had", "that", "very", "bye", "so", "her", "long", "far", "many"})
_SHORT_WORD: Final = 2
_MIN_PARAGRAPH_ZH: Final = 20
_MIN_PARAGRAPH_EN: Final = 60
_SENTENCE: Final = re.compile(r"[。；！？.;!?]")


def repeated_words(reading: Reading) -> Iterator[Finding]:
    """的的, 有限公司有限公司, the the."""
    for passage in reading.passages:
        for start, end in _doubled(passage):
            params = {"words": passage.text[start:end]}
            yield Finding("repeated_words", "warning", "words_repeated", passage.evidence(max(start - 6, 0), end + 6), params)


def _doubled(passage: Passage) -> Iterator[tuple[int, int]]:
    text = passage.text
    for found in _PARTICLE.finditer(text):
        yield found.span()
    for found in _PHRASE.finditer(text):
        word = found["w"]
        if _DISTRIBUTIVE.match(word) or (len(word) == _SHORT_WORD and (_COMPOUND.match(text, found.end()) or word[0] == word[1])):
            continue
        yield found.span()
    for found in _ENGLISH.finditer(text):
        same = found[0].split()[0] == found[0].split()[1] or found[0].split()[0].lower() == found[0].split()[1]
        if same and found["w"].lower() not in _ENGLISH_RIGHT and not (len(found["w"]) == 1 and found["w"] not in "aI"):
            yield found.span()


def repeated_paragraphs(reading: Reading) -> Iterator[Finding]:
    """Paragraphs of some length that stand word for word twice."""
    seen: dict[str, Passage] = {}
    for passage in reading.prose:
        bare = re.sub(r"\s", "", passage.text)
        enough = len(bare) >= (_MIN_PARAGRAPH_EN if passage.lang == "en" else _MIN_PARAGRAPH_ZH)
        if not enough or not _SENTENCE.search(bare):
            continue
        first = seen.setdefault(bare, passage)
        if first is not passage:
            yield Finding("repeated_paragraphs", "warning", "paragraph_repeated", passage.evidence(), {}, (first.evidence(),))
