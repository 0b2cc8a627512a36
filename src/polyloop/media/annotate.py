"""Numbered pins and labels on a picture: a transparent overlay, and the composite of picture and overlay. The source is not touched.

Drawn at the true size of the upright picture with the shipped font; labels begin with the number of their pin, stay inside the frame
and, where there is room, off one another. What the font cannot show is named, never drawn as an empty box without a word. Seed: S1.83.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from PIL import Image, ImageDraw, ImageFont

from ..formats.font import FONT
from .notes import Annotation

_PIN: Final = (220, 38, 38, 255)
_PAPER: Final = (255, 255, 255, 255)
_INK: Final = (17, 17, 17, 255)
#: Height of the letters as a share of the shorter side, and its bounds in pixels.
_LETTER, _LETTER_MIN_PX, _LETTER_MAX_PX = 0.035, 16, 64
Rect = tuple[int, int, int, int]


class Rendered(Struct, frozen=True):
    """Both RGBA, of the picture's size. `unshown` = characters the font does not have."""

    overlay: Image.Image
    composite: Image.Image
    unshown: str


def rendered(image: Image.Image, annotations: Sequence[Annotation]) -> Rendered:
    """Draw them, numbered from 1 in their order."""
    overlay = Image.new("RGBA", image.size, (0, 0, 0, 0))
    draw = ImageDraw.Draw(overlay)
    letter = max(_LETTER_MIN_PX, min(_LETTER_MAX_PX, round(min(image.size) * _LETTER)))
    font = _font(letter)
    pins = [_pin(image.size, note, letter // 2 + 2) for note in annotations]
    taken, boxes, texts = (
        list(pins),
        list[Rect](),
        [_wrapped(f"{number}  {note.label}", font, image.width - 2 * letter) for number, note in enumerate(annotations, 1)],
    )
    for pin, text in zip(pins, texts, strict=True):
        boxes.append(_placed(image.size, pin, _extent(draw, text, font, letter), taken))
        taken.append(boxes[-1])
    thin = max(1, letter // 10)
    for pin, box in zip(pins, boxes, strict=True):
        draw.line((_middle(pin), _middle(box)), fill=_PIN, width=thin)
    for box, text in zip(boxes, texts, strict=True):
        draw.rectangle(box, fill=_PAPER, outline=_PIN, width=thin)
        left, top, _, _ = draw.multiline_textbbox((0, 0), text, font=font, spacing=letter // 4)
        spot = (box[0] + letter // 2 - left, box[1] + letter // 3 - top)  # letters begin below the point they are drawn at
        draw.multiline_text(spot, text, font=font, fill=_INK, spacing=letter // 4)
    for number, pin in enumerate(pins, 1):
        draw.ellipse(pin, fill=_PIN, outline=_PAPER, width=thin)
        draw.text(_middle(pin), str(number), font=_font(max(8, letter * 4 // 5)), fill=_PAPER, anchor="mm")
    unshown = {c for note in annotations for c in note.label if not c.isspace() and not _has(c)}
    return Rendered(overlay, Image.alpha_composite(image.convert("RGBA"), overlay), "".join(sorted(unshown)))


@functools.lru_cache(maxsize=32)
def _font(size_px: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(FONT), size_px)


@functools.lru_cache(maxsize=10_000)
def _has(character: str) -> bool:
    """The shipped font draws nothing at all for what it lacks."""
    return _font(_LETTER_MIN_PX).getmask(character).size[1] > 0


def _pin(size: tuple[int, int], note: Annotation, radius: int) -> Rect:
    """The disc around a point, whole inside the frame."""
    x, y = (min(max(round(at * side), radius), max(radius, side - 1 - radius)) for at, side in zip((note.x, note.y), size, strict=True))
    return x - radius, y - radius, x + radius, y + radius


def _middle(box: Rect) -> tuple[int, int]:
    return (box[0] + box[2]) // 2, (box[1] + box[3]) // 2


def _wrapped(label: str, font: ImageFont.FreeTypeFont, width: int) -> str:
    """Broken where the frame would end, between any two characters."""
    lines = [""]
    for character in label.replace("\n", " "):
        if lines[-1] and font.getlength(lines[-1] + character) > width:
            lines.append("")
        lines[-1] += character
    return "\n".join(lines)


def _extent(draw: ImageDraw.ImageDraw, text: str, font: ImageFont.FreeTypeFont, letter: int) -> tuple[int, int]:
    left, top, right, bottom = draw.multiline_textbbox((0, 0), text, font=font, spacing=letter // 4)
    return round(right - left) + letter, round(bottom - top) + letter * 2 // 3


def _placed(size: tuple[int, int], pin: Rect, extent: tuple[int, int], taken: Iterable[Rect]) -> Rect:
    """Where the label goes: as near to its pin as it covers nothing; where all is full, where it covers least."""
    gap, (wide, high) = (pin[2] - pin[0]) // 3, extent
    beside, around, middle = pin[2] + gap, _middle(pin)[0] - wide // 2, _middle(pin)[1] - high // 2
    start = [(beside, middle), (pin[0] - gap - wide, middle), (around, pin[1] - gap - high), (around, pin[3] + gap)]
    pace_x, pace_y = max(8, wide // 2), max(8, high // 2)
    grid = [(x, y) for y in range(0, max(1, size[1] - high), pace_y) for x in range(0, max(1, size[0] - wide), pace_x)]
    grid.sort(key=lambda at: abs(at[0] + wide // 2 - _middle(pin)[0]) + 2 * abs(at[1] + high // 2 - _middle(pin)[1]))
    best, covered, others = (0, 0, wide, high), -1, list(taken)
    for x, y in (*start, *grid):
        left, top = max(0, min(x, size[0] - 1 - wide)), max(0, min(y, size[1] - 1 - high))
        box = (left, top, left + wide, top + high)
        over = sum(_shared(box, other) for other in others)
        if covered < 0 or over < covered:
            best, covered = box, over
        if covered == 0:
            break
    return best


def _shared(one: Rect, other: Rect) -> int:
    """Pixels two boxes have in common."""
    wide, high = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return max(0, wide) * max(0, high)
