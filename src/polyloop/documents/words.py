"""Text as words, for the index and for queries alike, on every kind of store: the only tokenizer there is.

A CJK character is a word of its own, so a query of any length finds what stands side by side; elsewhere a word is a run of
letters and digits. Case and width are folded; punctuation parts words and is none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

#: Han with its marks and extensions, kana, hangul.
_CJK: Final = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD: Final = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]+")
_TERM: Final = re.compile(r'"([^"]*)"|(\S+)')
#: Characters of one word; a longer run is cut, in texts as in queries.
WORD_CHARS: Final = 64
#: Characters of an excerpt before what was found, and in all.
_BEFORE: Final = 24
_EXCERPT: Final = 100


def words_of(text: str) -> list[str]:
    """The words of a text, in order."""
    found = _WORD.findall(_folded(text))
    return [word[at : at + WORD_CHARS] for word in found for at in range(0, len(word), WORD_CHARS)]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def phrases_of(query: str) -> list[list[str]]:
    """What a query asks for, all of it: each term between blanks, or between quotes, as words that stand side by side."""
    terms = (quoted or bare for quoted, bare in _TERM.findall(query))
    return [words for words in map(words_of, terms) if words]


def around(text: str, phrases: Sequence[Sequence[str]]) -> str:
    """A short piece of a text, on one line: around the first of the phrases that stands in it, else its beginning."""
    folded, places = _folded(text), range(len(text))
    if len(folded) != len(text):  # some characters became several: told one by one, which costs more
        each = [_folded(char) for char in text]
        folded, places = "".join(each), [at for at, plain in enumerate(each) for _ in plain]
    found = (re.search(r"[\W_]*".join(map(re.escape, words)), folded) for words in phrases)
    first = max(min((places[match.start()] for match in found if match), default=0) - _BEFORE, 0)
    piece = " ".join(text[first : first + _EXCERPT].split())
    return f"{'…' if first else ''}{piece}{'…' if first + _EXCERPT < len(text) else ''}"
