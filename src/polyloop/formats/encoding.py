"""Bytes to text: a byte order mark, else strict UTF-8, else GB18030 when the result reads like Chinese. Anything else is refused.

GB18030 gives *some* text for nearly any bytes, so decoding alone proves nothing. Text that was really written in it consists almost
wholly of ASCII and the signs and everyday characters of GB 2312 (its rows 1-9 and 16-55); other encodings land outside of them.
"""

from __future__ import annotations

import re
from typing import Final

from polyloop.formats.problems import unreadable

_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_EVERYDAY_SHARE: Final = 0.85
_BINARY: Final = frozenset(range(32)) - {9, 10, 11, 12, 13, 26, 27}
_CONTROLS: Final = re.compile(f"[{re.escape(''.join(map(chr, sorted(_BINARY))))}]")


def decode(name: str, data: bytes) -> tuple[str, str]:
    """`(text, encoding)`. A leading U+FEFF stays in UTF-8 text, so that writing it back gives the same bytes.

    Raises `undecidable_encoding`.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                text = (data if encoding == "utf-8" else data[len(mark) :]).decode(encoding)
            except UnicodeDecodeError as error:
                raise unreadable(name, "undecidable_encoding", f"it is marked as {encoding} but is not: {error.reason}") from error
            if _CONTROLS.search(text):
                raise unreadable(name, "undecidable_encoding", f"it is marked as {encoding} but holds characters that are in no text")
            return text, encoding
    if _BINARY.isdisjoint(data):
        try:
            return data.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text = _gb18030(data)
            if text is not None:
                return text, "gb18030"
    raise unreadable(name, "undecidable_encoding", "its text is neither UTF-8, UTF-16 with a byte order mark, nor GB18030")


def _gb18030(data: bytes) -> str | None:
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        return None
    beyond = [char for char in text if not char.isascii()]
    return text if sum(map(_everyday, beyond)) >= _EVERYDAY_SHARE * len(beyond) else None


def _everyday(char: str) -> bool:
    try:
        row = char.encode("gb2312")[0] - 0xA0
    except UnicodeEncodeError:
        return char in "〇—·…“”‘’〔〕①②③④⑤⑥⑦⑧⑨⑩"
    return row < 10 or 16 <= row <= 55
