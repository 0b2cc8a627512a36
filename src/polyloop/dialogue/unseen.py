"""Characters of which a person sees nothing: what is written with them alone says nothing, and with them in it says the same."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

#: Unicode's Default_Ignorable_Code_Point: fillers, joiners, selectors, directions, tags.
IGNORED: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
#: Braille without a dot: a sign to Unicode, nothing to the eye.
_BLANK: Final = "\u2800"


def seen(text: str) -> str:
    """A text without what is not shown at all."""
    return IGNORED.sub("", text)


def shows_nothing(text: str) -> bool:
    """Whether a text is blank to the eye, however many characters it has."""
    return all(c == _BLANK or c.isspace() or unicodedata.category(c) in ("Cc", "Cf", "Zs", "Zl", "Zp") for c in seen(text))
