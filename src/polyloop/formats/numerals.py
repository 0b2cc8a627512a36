"""Whole numbers in the forms that lists and documents use, and Chinese numerals back to numbers."""

from __future__ import annotations

from typing import Final

_DIGITS: Final = "零一二三四五六七八九"
_UNITS: Final = ("", "十", "百", "千")
_ROMAN: Final = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"), (10, "x"), (9, "ix"), (5, "v"),
    (4, "iv"), (1, "i"),
)  # fmt: skip
_CHINESE_FORMS: Final = frozenset({
    "chineseCounting", "chineseCountingThousand", "japaneseCounting", "taiwaneseCounting", "taiwaneseCountingThousand", "ideographDigital",
})  # fmt: skip
_STEMS: Final = {"ideographTraditional": "甲乙丙丁戊己庚辛壬癸", "ideographZodiac": "子丑寅卯辰巳午未申酉戌亥"}


def numeral(number: int, form: str) -> str:
    """A number in a word processor's numeral form; an unknown form is written in digits."""
    if form in _CHINESE_FORMS:
        return chinese(number)
    if form in ("lowerLetter", "upperLetter") and number > 0:
        text = chr(97 + (number - 1) % 26) * min((number - 1) // 26 + 1, 20)
        return text.upper() if form == "upperLetter" else text
    if form in ("lowerRoman", "upperRoman") and 0 < number < 4000:
        text = _roman(number)
        return text.upper() if form == "upperRoman" else text
    if form == "decimalZero":
        return f"{number:02d}"
    if form.startswith("decimalEnclosedCircle") and 0 < number <= 20:
        return chr(0x2460 + number - 1)
    if form == "decimalFullWidth":
        return "".join(chr(ord(digit) + 0xFEE0) for digit in str(number))
    if form in _STEMS and 0 < number <= len(_STEMS[form]):
        return _STEMS[form][number - 1]
    return "" if form in ("none", "bullet") else str(number)


def chinese(number: int) -> str:
    """一, 十, 十一, 二十, 一百零五; digits from ten thousand on."""
    if not 0 <= number < 10_000:
        return str(number)
    if number == 0:
        return "零"
    out = ""
    skipped = False
    for unit in (3, 2, 1, 0):
        digit = number // 10**unit % 10
        if digit == 0:
            skipped = bool(out)
            continue
        out += ("零" if skipped else "") + _DIGITS[digit] + _UNITS[unit]
        skipped = False
    return out[1:] if out.startswith("一十") else out


def parsed_chinese(text: str) -> int | None:
    """The number below ten thousand that these numerals spell (units or plain digits), None if they spell none."""
    if not text or any(char not in "零〇一二三四五六七八九十百千两" for char in text):
        return None
    plain = text.replace("〇", "零").replace("两", "二")
    if not any(char in "十百千" for char in plain):
        return int("".join(str(_DIGITS.index(char)) for char in plain))
    total, digit, last = 0, 0, 10_000
    for char in plain:
        if char in "十百千":
            size = 10 ** "十百千".index(char) * 10
            if size >= last or (digit == 0 and char != "十"):
                return None
            total, digit, last = total + (digit or 1) * size, 0, size
        elif digit and char != "零":
            return None
        else:
            digit = _DIGITS.index(char)
    return total + digit


def _roman(number: int) -> str:
    out = ""
    for size, sign in _ROMAN:
        out += sign * (number // size)
        number %= size
    return out
