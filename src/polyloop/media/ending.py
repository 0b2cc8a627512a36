"""Where a file ends by its own account, and what stands behind. Decoders forgive a missing tail, and do not look past the end at all: a page
with a script behind a picture is served with it. Pure: bytes in, an offset out; nothing is decoded. Seed: S1.5, S1.37.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

#: A box of an MP4 has at least its head.
_BOX_HEAD: Final = 8
#: Segments of a JPEG that are a marker alone: TEM, RST0-7, SOI.
_ALONE: Final = frozenset({0x01, *range(0xD0, 0xD9)})
_MARK, _SOS, _EOI = 0xFF, 0xDA, 0xD9


def ends(data: bytes) -> str:
    """What is wrong with its end; "" = it ends where it says it does, or its format does not say. Zeros behind the end are padding."""
    found = next((end for start, at, end in _FORMATS if data[at : at + len(start)] == start), None)
    if found is None:
        return ""
    try:
        end = found(data)
    except IndexError:  # it says it goes on behind the last byte
        end = len(data) + 1
    if end > len(data):
        return "the file ends before it says it does"
    return "there is something behind its end" if data[end:].strip(b"\0") else ""


def _png(data: bytes) -> int:
    at = 8
    while True:
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        at += size + 12
        if kind == b"IEND" or at > len(data):
            return at


def _jpeg(data: bytes) -> int:
    at = 2
    while True:
        if data[at] != _MARK:
            raise IndexError(at)
        kind = data[at + 1]
        if kind == _EOI:
            return at + 2
        if kind == _MARK:  # a marker may be filled up
            at += 1
        elif kind in _ALONE:
            at += 2
        else:
            at += 2 + (data[at + 2] << 8 | data[at + 3])
            if kind == _SOS:
                at = _scanned(data, at)


def _scanned(data: bytes, at: int) -> int:
    """Where the next marker stands behind the bits of a scan: in them, FF is followed by 0 or begins a restart."""
    while (at := data.find(b"\xff", at)) >= 0:
        if data[at + 1] != 0 and not 0xD0 <= data[at + 1] <= 0xD7:  # noqa: PLR2004
            return at
        at += 2
    return len(data)


def _gif(data: bytes) -> int:
    at = 13 + _colours(data[10])
    while True:
        match data[at]:
            case 0x3B:
                return at + 1
            case 0x21:
                at = _blocks(data, at + 2)
            case 0x2C:
                at = _blocks(data, at + 11 + _colours(data[at + 9]))
            case _:
                raise IndexError(at)


def _colours(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _blocks(data: bytes, at: int) -> int:
    while size := data[at]:
        at += size + 1
    return at + 1


def _riff(data: bytes) -> int:
    size = int.from_bytes(data[4:8], "little")
    return 8 + size


def _boxes(data: bytes) -> int:
    """The boxes of an MP4 cover it; 0 as a length = up to the end, 1 = the length stands in the 8 bytes behind."""
    at = 0
    while at + _BOX_HEAD <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size == 0:
            return len(data)
        size = int.from_bytes(data[at + 8 : at + 16], "big") if size == 1 else size
        if size < _BOX_HEAD:
            raise IndexError(at)
        at += size
    return at if at >= len(data) else len(data) + 1


#: (what a file begins with, at which byte, where it ends).
_FORMATS: Final[tuple[tuple[bytes, int, Callable[[bytes], int]], ...]] = (
    (b"\x89PNG", 0, _png), (b"\xff\xd8", 0, _jpeg), (b"GIF8", 0, _gif), (b"RIFF", 0, _riff), (b"ftyp", 4, _boxes),
)  # fmt: skip
