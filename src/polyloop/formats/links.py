"""Which link targets may leave in a written file. Document text is hostile; a script is no target."""

from __future__ import annotations

import re
from typing import Final

from polyloop.formats.blocks import printable

_SCHEME: Final = re.compile(r"[\s\x00-\x20]*([A-Za-z][A-Za-z0-9+.\-]*)\s*:")
SAFE_SCHEMES: Final = frozenset({"http", "https", "mailto", "tel"})


def safe_link(link: str) -> str:
    """The target if it is relative, an anchor, or of a harmless scheme; else empty."""
    target = re.sub(r"[\r\n\t]", "", printable(link)).strip()
    scheme = _SCHEME.match(target)
    if scheme:
        return target if scheme[1].lower() in SAFE_SCHEMES else ""
    return "" if target.startswith(("//", "\\")) else target
