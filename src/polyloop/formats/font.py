"""The one font that is shipped: Noto Sans SC Regular (OFL, licence beside it), cut down to GB2312, punctuation, Latin, Greek and Cyrillic.

Whatever is drawn or printed with text uses this file, so that a machine without fonts of its own shows Chinese all the same. What
a text holds beyond it shows as an empty box: ask its character map first and say so.
"""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path
from typing import Final

FONT: Final = Path(__file__).with_name("fonts") / "NotoSansSC.ttf"
#: The last segment of a map stands for nothing.
_NONE: Final = 0xFFFF


@cache
def characters() -> frozenset[str]:
    """All that the font has a sign for, from its own character map (format 4: segments of the basic plane)."""
    data = FONT.read_bytes()
    (tables,) = struct.unpack_from(">H", data, 4)
    places = {data[at : at + 4]: struct.unpack_from(">I", data, at + 8)[0] for at in range(12, 12 + 16 * tables, 16)}
    start = places[b"cmap"]
    (maps,) = struct.unpack_from(">H", data, start + 2)
    subtables = [struct.unpack_from(">HHI", data, start + 4 + 8 * n) for n in range(maps)]
    at = start + next(offset for platform, encoding, offset in subtables if (platform, encoding) == (3, 1))
    double = struct.unpack_from(">H", data, at + 6)[0]
    ends, starts, deltas, offsets = (
        struct.unpack_from(f">{double // 2}H", data, at + base) for base in (14, 16 + double, 16 + 2 * double, 16 + 3 * double)
    )
    found: set[str] = set()
    for n, (first, last, delta, offset) in enumerate(zip(starts, ends, deltas, offsets, strict=True)):
        for code in range(first, last + 1):
            glyph = code
            if offset:
                (glyph,) = struct.unpack_from(">H", data, at + 16 + 3 * double + 2 * n + offset + 2 * (code - first))
                glyph = glyph and glyph + delta
            else:
                glyph += delta
            if glyph & 0xFFFF and code < _NONE:
                found.add(chr(code))
    return frozenset(found)
