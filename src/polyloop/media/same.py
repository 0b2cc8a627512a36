"""When two prompts are the same words: what a failure of one means for the other (S1.82)."""

from __future__ import annotations

import unicodedata
from typing import Final

#: Letters and symbols that are drawn as nothing: fillers of Hangul, the empty braille cell.
_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def folded(text: str) -> str:
    """The letters, digits and symbols alone: no case, width, accent, punctuation, space or sign that is not seen makes other words of them.

    Rather too much alike than too little: what it costs is a question to a person, after a failure.
    """
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(c for c in plain if c not in _BLANK and _counts(unicodedata.category(c)))


def _counts(category: str) -> bool:
    return category[0] in "LNS" or category == "Mc"
