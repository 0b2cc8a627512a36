"""Words by which a prompt names what the studio can draw, its colours and its hours, in Chinese and English."""

from __future__ import annotations

import functools
import re
from typing import Final

NAMES: Final = {
    "sun": "sun|sunset|sunrise|太阳|夕阳|落日|日出", "moon": "moon|night|月|夜", "star": "stars?|星", "cloud": "clouds?|云",
    "bird": "birds?|鸟", "bell": "bells?|chimes?|铃|钟", "mountain": "mountains?|山", "tree": "trees?|forest|树|林",
    "house": "houses?|home|village|town|房|屋|村|城", "flower": "flowers?|花", "car": "cars?|车", "boat": "boats?|ships?|船|舟",
    "person": "person|people|man|woman|girl|boy|child|人|孩", "fox": "fox|狐", "cat": "cats?|dogs?|wolf|猫|狗|狼", "red": "red|红",
    "orange": "orange|橙", "yellow": "yellow|黄", "green": "green|绿", "blue": "blue|蓝", "purple": "purple|紫", "pink": "pink|粉",
    "brown": "brown|棕|褐", "black": "black|黑", "white": "white|白", "gray": "gr[ea]y|灰", "gold": "gold(en)?|金",
    "late": "night|midnight|夜|星空", "dusk": "sunset|dusk|evening|夕阳|落日|黄昏|傍晚", "dawn": "dawn|morning|sunrise|清晨|早晨|日出",
    "water": "river|stream|lake|sea|ocean|water|河|江|溪|湖|海|水",
}  # fmt: skip


def named(name: str, prompt: str) -> int:
    """Where a prompt first names it, -1 = nowhere."""
    found = _pattern(name).search(prompt.lower())
    return found.start() if found else -1


@functools.cache
def _pattern(name: str) -> re.Pattern[str]:
    """Words of letters are whole ones; Chinese has no blanks between words."""
    return re.compile("|".join(rf"\b(?:{word})\b" if word.isascii() else word for word in NAMES[name].split("|")))
