"""Numbers of headings, articles and items: their order, and their style.

Openings are read off the beginning of each passage. A stack holds the kinds that are open; a kind met again closes those inside it, and
its number must be the next one or begin at 1 anew. So any nesting a document chooses is accepted, as long as it keeps to it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from polyloop.audit.checks.finding import Evidence, Finding
from polyloop.formats.numerals import parsed_chinese

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polyloop.audit.checks.passages import Passage, Reading

_CJK: Final = "一二三四五六七八九十百零〇两"
#: kind -> (rank in the official order, 0 for none; pattern with groups `n` and, where styles differ, `style`).
_KINDS: Final[tuple[tuple[str, int, re.Pattern[str]], ...]] = (
    ("chapter", 0, re.compile(rf"第(?P<n>[{_CJK}]{{1,5}}|\d{{1,3}})[章编篇](?![，。])")),
    ("section", 0, re.compile(rf"第(?P<n>[{_CJK}]{{1,5}}|\d{{1,3}})节(?![，。])")),
    ("article", 0, re.compile(rf"第(?P<n>[{_CJK}]{{1,6}}|\d{{1,3}})条(?![，。、第的规款和至])")),
    ("first", 1, re.compile(rf"(?P<n>[{_CJK}]{{1,4}})(?P<style>[、．.，,])")),
    ("second", 2, re.compile(rf"(?P<style>[（(])(?P<n>[{_CJK}]{{1,4}})[）)]")),
    ("third", 3, re.compile(r"(?P<n>\d{1,2})(?P<style>[.．、)）])(?!\d)")),
    ("fourth", 4, re.compile(r"(?P<style>[（(])(?P<n>\d{1,2})[）)]")),
    ("letter", 0, re.compile(r"\((?P<n>[a-z])\)(?=\s|[A-Z])")),
)  # fmt: skip
_QUOTED_CHARACTERS: Final = 30
_MIN_HEADINGS: Final = 3
_LOOK_AHEAD: Final = 60
_DECIMAL: Final = re.compile(r"(?P<n>\d{1,2}(?:\.\d{1,2}){1,4})(?![\d.%％万亿元℃]|\s*[%万亿元年月日])")
_LIST_OF_ATTACHMENTS: Final = re.compile(r"附件[：:]\s*(?=1[.．、])")
#: Kinds of which a number other than 1 at the beginning is a fault by itself.
_STARTS_AT_ONE: Final = frozenset({"chapter", "article", "first", "second"})


class Opening(Struct, frozen=True):
    """A numbered beginning of a passage. `path` has one number, or those of `2.3.1`."""

    passage: Passage
    kind: str
    rank: int
    path: tuple[int, ...]
    label: str
    style: str
    start: int
    begins_list: bool = False


def openings(reading: Reading) -> Iterator[Opening]:
    """Numbered passages in order. Items that Word numbered by itself cannot be out of order and are left out."""
    for passage in reading.prose:
        if passage.block.type == "quote" or (passage.block.type == "numbered" and reading.document.format == "docx"):
            continue
        found = _opening(passage)
        if found is not None:
            yield found


def _opening(passage: Passage) -> Opening | None:
    block = passage.block
    if block.type == "numbered":
        return Opening(passage, "third", 3, (block.number,), f"{block.number}.", ".", 0)
    text = block.label + passage.text if block.label else passage.text
    listed = _LIST_OF_ATTACHMENTS.match(text)
    start = listed.end() if listed else len(text) - len(text.lstrip())
    decimal = _DECIMAL.match(text, start)
    if decimal:
        return Opening(passage, "decimal", 0, tuple(map(int, decimal["n"].split("."))), decimal[0], "", start)
    for kind, rank, pattern in _KINDS:
        found = pattern.match(text, start)
        number = _number(found["n"]) if found else None
        if found and number is not None:
            style = found.groupdict().get("style") or ("cjk" if found["n"][0] in _CJK else "digit")
            return Opening(passage, kind, rank, (number,), found[0], style, start, listed is not None)
    return None


def _number(text: str) -> int | None:
    if text.isascii():
        return int(text) if text.isdigit() else ord(text) - ord("a") + 1
    return parsed_chinese(text)


def heading_numbering(reading: Reading) -> Iterator[Finding]:
    """Gaps, repeats, numbers that run backwards, levels inside out, and heading levels that are skipped."""
    found = list(_refined(reading))
    outer: list[Opening] = []
    stack: list[Opening] = []
    counted: dict[str, int] = {}
    part = 0
    for at, each in enumerate(found):
        if each.passage.part != part:
            outer, stack, counted, part = [], [], {}, each.passage.part
        if each.kind in ("chapter", "section"):
            stack = [one for one in stack if one.kind == "article"]  # articles are counted through all chapters
            yield from _step(outer, counted, found, at)
        else:
            stack = [] if each.begins_list else stack
            yield from _step(stack, counted, found, at)
    yield from _levels(reading)


def _refined(reading: Reading) -> Iterator[Opening]:
    """Where a document counts 1.1, 1.2, its `1.` is the level above them."""
    found = list(openings(reading))
    decimal = any(each.kind == "decimal" for each in found)
    for each in found:
        above = decimal and each.kind == "third" and each.style in (".", "．") and not each.begins_list
        yield structs.replace(each, kind="decimal", rank=0) if above else each


def _step(stack: list[Opening], counted: dict[str, int], found: Sequence[Opening], at: int) -> Iterator[Finding]:
    """Takes the opening at this place onto the stack. `counted` keeps the last number of each kind: some documents count one level through."""
    each = found[at]
    through = counted.get(each.kind, 0) + 1
    counted[each.kind] = each.path[-1]
    place = next((n for n in range(len(stack) - 1, -1, -1) if stack[n].kind == each.kind), None)
    if place is None:
        stack.append(each)
        listed = each.passage.block.type == "numbered"
        following = found[at + 1] if at + 1 < len(found) else None
        continued = following is not None and following.kind == each.kind and following.path[-1] == each.path[-1] + 1
        if each.kind != "decimal" and each.path[0] not in (1, through) and (each.kind in _STARTS_AT_ONE or (continued and not listed)):
            yield _fault("numbering_gap", each, expected="1", previous="")
        return
    last, inner = stack[place], stack[place + 1 :]
    del stack[place:]
    code, expected = _judged(last, each, inner)
    wrapped = next((deeper for deeper in inner if deeper.rank and each.rank and deeper.rank < each.rank), None)
    if code:
        yield _fault(code, each, previous=last.label, expected=".".join(map(str, expected)))
    elif wrapped is not None and each.path[0] == last.path[0] + 1:
        yield _fault("level_order", wrapped, outer=each.label)
    # A slip of one number must not make its right neighbours wrong: the count goes on as the next of its kind does.
    following = next((one for one in found[at + 1 : at + 1 + _LOOK_AHEAD] if one.kind == each.kind), None)
    slip = code and following is not None and _follows(expected, following.path) and following.path > expected
    stack.append(structs.replace(each, path=expected) if slip else each)
    counted[each.kind] = stack[-1].path[-1]


def _judged(last: Opening, each: Opening, inner: Sequence[Opening]) -> tuple[str, tuple[int, ...]]:
    """The code of what is wrong with this number after that one (empty if nothing), and the number expected."""
    if each.kind == "decimal":
        length = len(each.path)
        expected = (*last.path[: length - 1], last.path[length - 1] + 1) if length <= len(last.path) else (*last.path, 1)
        if _follows(last.path, each.path):
            return "", expected
        return "numbering_repeat" if each.path == last.path else "numbering_order" if each.path < last.path else "numbering_gap", expected
    number, before = each.path[0], last.path[0]
    expected = (before + 1,)
    if number == before + 1:
        return "", expected
    if number == before:
        return "numbering_repeat" if number > 1 or (each.kind in _STARTS_AT_ONE and not inner) else "", expected
    if number > before:
        return "numbering_gap", expected
    return "numbering_order" if number != 1 else "", expected


def _follows(last: tuple[int, ...], path: tuple[int, ...]) -> bool:
    """Deeper by 1s, or the next sibling of the last number or of one above it, again deeper by 1s only."""
    shared = 0
    while shared < min(len(last), len(path)) and last[shared] == path[shared]:
        shared += 1
    rest = path[shared:]
    if shared == len(last):
        return bool(rest) and all(number == 1 for number in rest)
    return bool(rest) and rest[0] == last[shared] + 1 and all(number == 1 for number in rest[1:])


def _levels(reading: Reading) -> Iterator[Finding]:
    """A heading may go down one level at a time."""
    last = 0
    headings = [passage for passage in reading.prose if passage.block.type == "heading"]
    for passage in headings if len(headings) >= _MIN_HEADINGS else ():
        level = passage.block.level
        if last and level > last + 1:
            yield Finding(
                "heading_numbering", "warning", "level_skipped", passage.evidence(), {"level": str(level), "previous": str(last)},
            )  # fmt: skip
        last = level


def _fault(code: str, each: Opening, **params: str) -> Finding:
    return Finding("heading_numbering", "error", code, _quoted(each), {"label": each.label} | params)


def _quoted(each: Opening) -> Evidence:
    """The number with the words after it; a computed number is not in the text, the words are."""
    return each.passage.evidence(each.start if not each.passage.block.label else 0, each.start + _QUOTED_CHARACTERS)


def numbering_style(reading: Reading) -> Iterator[Finding]:
    """One style for each level within a part: `一、` or `一.`, full-width or half-width brackets, `1.` or `1、`."""
    styles: defaultdict[tuple[int, str], defaultdict[str, list[Opening]]] = defaultdict(lambda: defaultdict(list))
    listing = False
    for each in openings(reading):
        listing = each.begins_list or (listing and each.kind == "third")
        if listing:
            continue  # the list of attachments is a form of its own
        if each.kind not in ("decimal", "letter"):
            styles[each.passage.part, each.kind][each.style].append(each)
    for variants in styles.values():
        counts = Counter({style: len(each) for style, each in variants.items()})
        usual = counts.most_common(1)[0][0]
        for style, each in variants.items():
            if style != usual:
                usual_label = variants[usual][0].label
                params = {"label": each[0].label, "usual": usual_label, "count": str(len(each)), "usual_count": str(counts[usual])}
                yield Finding("numbering_style", "warning", "numbering_style", _quoted(each[0]), params, (_quoted(variants[usual][0]),))
