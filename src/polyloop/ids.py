"""The only door to randomness: ids and salts."""

from __future__ import annotations

import os
import time


def uuid7() -> str:
    """A time-ordered UUID (RFC 9562, version 7) in its usual text form."""
    ms = time.time_ns() // 1_000_000
    raw = (ms << 80) | (0x7 << 76) | (int.from_bytes(os.urandom(2), "big") >> 4 << 64) | (0b10 << 62)
    raw |= int.from_bytes(os.urandom(8), "big") >> 2
    h = f"{raw:032x}"
    return f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"


def salt() -> str:
    """32 fresh hex characters."""
    return os.urandom(16).hex()
