"""What Word files and workbooks have in common: what they are not, and their XML parts as text that hides nothing."""

from __future__ import annotations

import re
from typing import Final

from polyloop.formats.problems import unreadable

_OLE_MAGIC: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_HIDES: Final = re.compile("\0|<!DOCTYPE|<!ENTITY")
_DECLARED: Final = re.compile(r"encoding\s*=\s*[\"']\s*([^\"']*)")
_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


def refuse_binary(name: str, data: bytes, what: str) -> None:
    """The container of old binary files holds encrypted ones too. Raises `encrypted`, `corrupt` (it is an old `what`)."""
    if not data.startswith(_OLE_MAGIC):
        return
    if "EncryptedPackage".encode("utf-16-le") in data:
        raise unreadable(name, "encrypted", "it is protected by a password")
    raise unreadable(name, "corrupt", f"it is an old binary {what}")


def xml_text(name: str, path: str, part: bytes, most: int) -> str:
    """A part decoded here, whatever encoding it claims: what is looked for is then what is parsed, if the text is parsed and not the bytes.

    Raises `corrupt` (neither UTF-8 nor UTF-16, or it declares entities; a parser would take text with NULs for UTF-16 all the same),
    `too_large` (more than `most` elements).
    """
    try:
        text = part.decode("utf-16" if part[:2] in _UTF_16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable(name, "corrupt", f"its part {path} is neither UTF-8 nor UTF-16 ({error.reason})") from error
    if _HIDES.search(text):
        raise unreadable(name, "corrupt", f"its part {path} declares entities, or is neither UTF-8 nor UTF-16")
    if text.count("<") > most:
        raise unreadable(name, "too_large", f"its part {path} has more than {most} elements")
    return text


def only_utf_8(name: str, path: str, part: bytes) -> None:
    """For parts whose bytes are parsed by others: they are what `xml_text` saw. Raises `corrupt`."""
    end = part.find(b"?>")
    head = part[: max(end, 0)].decode("latin-1")
    said = _DECLARED.search(head) if "<?xml" in head[:8] else None
    if part[:2] in _UTF_16 or (said is not None and said[1].strip().lower() not in _UTF_8):
        raise unreadable(name, "corrupt", f"its part {path} is not UTF-8")
