"""Numbers and sums of money: how they are written, figures against capitals, one amount under one name."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from fractions import Fraction
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from polyloop.audit.checks.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polyloop.audit.checks.passages import Passage, Reading

_UNITS: Final = {"": 1, "百": 100, "千": 1_000, "万": 10_000, "百万": 1_000_000, "千万": 10_000_000, "亿": 100_000_000}
_FIGURE: Final = re.compile(
    r"(?<![\d.,，])(?P<sign>[¥￥$£€]\s?)?(?P<n>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\d,]*\d)\s?"
    r"(?:(?P<unit>千万|百万|百|千|万|亿)?(?P<yuan>美元|欧元|元))?"
)
_FORMAL: Final = "零壹贰貳叁參肆伍陆陸柒捌玖拾"
_CAPITALS: Final = re.compile(rf"[{_FORMAL}][{_FORMAL}佰仟万萬亿億]{{0,40}}[元圆](?:[{_FORMAL}角分]{{0,8}}[角分]|[整正])?整?")
_CAPITAL_DIGITS: Final = {char: at for chars in ("零壹贰叁肆伍陆柒捌玖", "零壹貳參肆伍陸柒捌玖") for at, char in enumerate(chars)}
_CONNECTORS: Final = re.compile(r"[\s（(）)：:，,、即]*(?:(?:大写|小写|人民币|金额|RMB|即)[\s（(）)：:，,、为]*){0,4}\Z")
_BAD_GROUPS: Final = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d+)+(?:\.\d+)?(?!\d|,\d)")
_GOOD_GROUPS: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_MONEY_AFTER: Final = re.compile(r"\s?(?:百|千|万|亿)*(?:元|美元|欧元)")
_WIDE_COMMA: Final = re.compile(r"(?<!\d)\d{1,3}(?:，\d{3})+(?=(?:\.\d+)?\s?[百千万亿]?元)")
_WIDE_DIGITS: Final = re.compile(r"[\uff10-\uff19]+(?:[.．][\uff10-\uff19]+)?")
_LONG_FIGURE_DIGITS: Final = 5
_CONNECTOR_CHARACTERS: Final = 16
_LONG_GROUP_DIGITS: Final = 4
#: Names under which a document has one amount. What stands before the name must add nothing to it.
_NAMES_ZH: Final = re.compile(
    r"(?P<before>[\u4e00-\u9fff]{0,6}?)(?P<name>合同总价款?|合同总金额|合同金额|合同价款|项目总投资|总投资额?|预算总额|预算金额"
    r"|项目预算|采购预算|最高限价|招标控制价|投标保证金|履约保证金|中标金额|成交金额|资金总额|经费总额|补助资金总额|专项资金总额)(?:[（(](?:含税|人民币|大写|小写)[）)])?"
    r"(?:为|是|共计|共|合计|总计|达到|达|：|:|不超过)?(?:人民币)?(?=[¥￥\d])"
)
_NAMES_EN: Final = re.compile(
    r"\b(?P<before>)(?P<name>total (?:fee|price|cost|budget|amount|investment|contract (?:price|value))"
    r"|contract (?:price|sum|value)|tender deposit|performance bond)"
    r"(?: for [\w ]{1,30}?)?"
    r"(?:\s*[:：]|\s+(?:is|of|shall be|amounts to|was|will be))?\s*(?:RMB|CNY|USD|EUR|GBP)?\s*(?=[¥￥$£€\d])",
    re.IGNORECASE,
)
_PLAIN_BEFORE: Final = re.compile(r"(?:本|该|此|其|本次|本合同|本项目|该项目|其中|而|且|的|则|约定)?\Z")
_ONE_OF_MANY: Final = re.compile(r"标段|标包|分包|包件|第[一二三四五六七八九十\d]+[包批期]|\b(?:lot|package|phase)\b", re.IGNORECASE)


class Amount(Struct, frozen=True):
    """Money in a passage: `value` in yuan, pounds and the like, `figure` as its digits are written (empty for capitals)."""

    value: Fraction
    start: int
    end: int
    figure: str = ""


def figures_in(text: str, start: int = 0) -> Iterator[Amount]:
    """Amounts in digits: with a currency sign before or a currency unit after."""
    for found in _FIGURE.finditer(text, start):
        if found["sign"] or found["yuan"]:
            yield Amount(Fraction(found["n"].replace(",", "")) * _UNITS[found["unit"] or ""], found.start(), found.end(), found["n"])


def capitals_in(text: str) -> Iterator[Amount]:
    """Amounts in Chinese capitals that spell a number."""
    for found in _CAPITALS.finditer(text):
        value = parsed_capitals(found[0])
        if value is not None:
            yield Amount(value, found.start(), found.end())


def parsed_capitals(text: str) -> Fraction | None:
    """壹佰贰拾叁元肆角伍分整 -> 123.45; None if it spells no number."""
    whole, _, rest = text.replace("圆", "元").replace("萬", "万").replace("億", "亿").partition("元")
    value = Fraction(_whole(whole))
    digit = -1
    for char in rest.rstrip("整正"):
        if char in _CAPITAL_DIGITS:
            digit = _CAPITAL_DIGITS[char]
        elif char in "角分" and digit >= 0:
            value += Fraction(digit, 10 if char == "角" else 100)
            digit = -1
        else:
            return None
    return value


def _whole(text: str) -> int:
    for unit, size in (("亿", 100_000_000), ("万", 10_000)):
        if unit in text:
            before, _, after = text.rpartition(unit)
            return _whole(before) * size + _whole(after)
    total, digit = 0, -1
    for char in text:
        if char in _CAPITAL_DIGITS:
            digit = _CAPITAL_DIGITS[char]
        else:
            total += (1 if digit < 0 else digit) * {"拾": 10, "佰": 100, "仟": 1_000}[char]
            digit = -1
    return total + max(digit, 0)


def amount_capitals(reading: Reading) -> Iterator[Finding]:
    """An amount given in figures and in capitals is the same amount."""
    for passage in reading.passages:
        capitals = list(capitals_in(passage.text))
        figures = list(figures_in(passage.text)) if capitals else []
        for capital in capitals:
            near = _paired(passage.text, capital, figures)
            if near is not None and near.value != capital.value:
                start, end = min(near.start, capital.start), max(near.end, capital.end)
                params = {"figures": passage.text[near.start : near.end], "capitals": passage.text[capital.start : capital.end]}
                yield Finding("amount_capitals", "error", "amount_capitals_differ", passage.evidence(start, end), params)
    yield from _capitals_in_rows(reading)


def _paired(text: str, capital: Amount, figures: list[Amount]) -> Amount | None:
    """The figures that only brackets and words like 大写 part from the capitals."""
    reach = 2 * _CONNECTOR_CHARACTERS
    nearest = bisect_left(figures, capital.start - reach, key=lambda each: each.start)
    for each in takewhile(lambda figure: figure.start <= capital.end + reach, figures[nearest : nearest + reach]):
        between = text[each.end : capital.start] if each.end <= capital.start else text[capital.end : each.start]
        if len(between) <= _CONNECTOR_CHARACTERS and _CONNECTORS.match(between):
            return each
    return None


def _capitals_in_rows(reading: Reading) -> Iterator[Finding]:
    """A table row with one amount in capitals and one in figures."""
    rows: defaultdict[tuple[int, int], list[Passage]] = defaultdict(list)
    for passage in reading.passages:
        if passage.in_table:
            rows[passage.index, passage.row].append(passage)
    for row in rows.values():
        capitals = [(passage, each) for passage in row for each in capitals_in(passage.text)]
        figures = [(passage, each) for passage in row for each in figures_in(passage.text)]
        if len(capitals) == len(figures) == 1 and capitals[0][0] is not figures[0][0] and capitals[0][1].value != figures[0][1].value:
            (holder, capital), (other, figure) = capitals[0], figures[0]
            params = {"figures": other.text[figure.start : figure.end], "capitals": holder.text[capital.start : capital.end]}
            yield Finding(
                "amount_capitals", "error", "amount_capitals_differ", holder.evidence(capital.start, capital.end), params,
                (other.evidence(figure.start, figure.end),),
            )  # fmt: skip


def amount_consistency(reading: Reading) -> Iterator[Finding]:
    """One name, one amount. Amounts of lots, packages and phases differ by right and are left out."""
    named: defaultdict[str, list[tuple[Passage, Amount]]] = defaultdict(list)
    for passage in reading.prose:
        for found in (_NAMES_ZH if passage.lang == "zh" else _NAMES_EN).finditer(passage.text):
            amount = next(figures_in(passage.text, found.end()), None)
            around = passage.text[max(found.start() - 16, 0) : found.end()]
            if amount is not None and amount.start == found.end() and _PLAIN_BEFORE.match(found["before"]) and not _ONE_OF_MANY.search(around):
                named[found["name"].lower().removesuffix("款").removesuffix("额")].append((passage, amount))
    for name, uses in named.items():
        first = uses[0]
        for passage, amount in uses[1:]:
            if amount.value != first[1].value:
                params = {"name": name, "first": _shown(*first), "second": _shown(passage, amount)}
                yield Finding(
                    "amount_consistency", "warning", "amount_differs", passage.evidence(amount.start, amount.end), params,
                    (first[0].evidence(first[1].start, first[1].end),),
                )  # fmt: skip
                break


def _shown(passage: Passage, amount: Amount) -> str:
    return passage.text[amount.start : amount.end].strip()


def number_format(reading: Reading) -> Iterator[Finding]:
    """Broken thousands, full-width digits and commas in numbers, long amounts of money with and without separators."""
    for passage in reading.passages:
        text = passage.text
        for found in _BAD_GROUPS.finditer(text):
            money = _MONEY_AFTER.match(text, found.end()) or text[max(found.start() - 2, 0) : found.start()].strip(" ")[-1:] in tuple("¥￥$£€")
            long_group = any(len(group) >= _LONG_GROUP_DIGITS for group in found[0].split(".")[0].split(",")[1:])
            if not _GOOD_GROUPS.fullmatch(found[0]) and (money or long_group):
                yield Finding("number_format", "error", "thousands_broken", passage.evidence(*found.span()), {"number": found[0]})
        for pattern, code in ((_WIDE_COMMA, "number_comma_wide"), (_WIDE_DIGITS, "digits_wide")):
            if found := pattern.search(text):
                yield Finding("number_format", "warning", code, passage.evidence(*found.span()), {"number": found[0]})
    yield from _mixed_separators(reading)


def _mixed_separators(reading: Reading) -> Iterator[Finding]:
    plain: list[tuple[Passage, Amount]] = []
    parted: list[tuple[Passage, Amount]] = []
    for passage in reading.passages:
        for amount in figures_in(passage.text):
            if len(amount.figure.partition(".")[0].replace(",", "")) >= _LONG_FIGURE_DIGITS:
                (parted if "," in amount.figure else plain).append((passage, amount))
    if plain and parted:
        fewer, more = sorted((plain, parted), key=len)
        (passage, amount), (other, usual) = fewer[0], more[0]
        params = {"number": _shown(passage, amount), "usual": _shown(other, usual)}
        related = (other.evidence(usual.start, usual.end),)
        yield Finding("number_format", "info", "separators_mixed", passage.evidence(amount.start, amount.end), params, related)
