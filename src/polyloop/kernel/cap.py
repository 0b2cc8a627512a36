"""An observation cut for the model, on the view alone: the log keeps all of it (overflow policy cap_observation). Pure.

JSON with `data` or `items`, as receipts and lists are, stays JSON: only inside those two are long texts and long lists cut, each cut
marked; status, complete, continuation and hashes stand as they were, and a list with a cut says that it is not complete (S0.27).
Anything else is cut at its end.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, cast

from .json_repair import Refused
from .json_text import strict
from .objects import Json

CUT_MARK: Final = "… [cut]"
#: Texts up to this long are names, ids and hashes: never cut inside JSON.
KEPT_CHARS: Final = 128
#: So many characters are counted for one item of a list.
ITEM_CHARS: Final = 64


def cut(text: str, chars: int) -> str:
    """The beginning of a text, marked where something is missing."""
    return text if len(text) <= chars else text[:chars] + CUT_MARK


def capped(text: str, chars: int) -> str:
    """An observation in at most `chars` characters and a mark."""
    if len(text) <= chars:
        return text
    return cut(_shorter(text, chars) if text.startswith("{") else text, chars)


@lru_cache(maxsize=256)
def _shorter(text: str, chars: int) -> str:
    """The same object with less in it, if less in `data` and `items` is enough; else the text itself."""
    try:
        whole = cast("dict[str, Json]", strict(text))
    except Refused:
        return text
    for halvings in range(chars.bit_length()):
        room = chars >> halvings
        short: dict[str, Json] = {key: _cut(value, room) if key in ("data", "items") else value for key, value in whole.items()}
        if "items" in whole and short["items"] != whole["items"]:
            short["complete"] = False
        said = json.dumps(short, ensure_ascii=False, separators=(",", ":"))
        if len(said) <= chars:
            return said
    return text


def _cut(value: Any, room: int) -> Any:
    if isinstance(value, str):
        return cut(value, max(room, KEPT_CHARS))
    if isinstance(value, dict):
        return {key: _cut(part, room) for key, part in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        shown = [_cut(part, room) for part in parts[: room // ITEM_CHARS]]
        return shown if len(shown) == len(parts) else [*shown, f"{CUT_MARK} {len(shown)} of {len(parts)}"]
    return value
