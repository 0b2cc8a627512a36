"""What the studio can draw: things by name, each a few parts in a square of side 1; skies and hills by the hour.

A part is a polygon (P: x, y, x, y, ...), an ellipse (D) or a rounded box (R: left, top, right, bottom), in a colour; "" = that of the thing.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from PIL import Image, ImageDraw

Part = tuple[str, tuple[float, ...], str]
INK, WOOD, PAPER, LIGHT = "#20232a", "#7b563a", "#f3f1ea", "#f6cf5b"
#: Drawn so many times larger, then made small: smooth edges.
_FINE: Final = 4


class Thing(Struct, frozen=True):
    """`name` as `words.drawing` has it; `place` = where it stands. `colour` where the prompt names none."""

    name: str
    colour: str
    place: Literal["sky", "hill"]
    parts: tuple[Part, ...]


_HEAD: Final[tuple[Part, ...]] = (
    ("P", (0.10, 0.06, 0.36, 0.34, 0.64, 0.34, 0.90, 0.06, 0.86, 0.56, 0.50, 0.94, 0.14, 0.56), ""),
    ("P", (0.14, 0.56, 0.36, 0.58, 0.50, 0.78, 0.50, 0.94), PAPER), ("P", (0.86, 0.56, 0.64, 0.58, 0.50, 0.78, 0.50, 0.94), PAPER),
    ("D", (0.29, 0.44, 0.38, 0.53), INK), ("D", (0.62, 0.44, 0.71, 0.53), INK), ("D", (0.44, 0.84, 0.56, 0.95), INK),
)  # fmt: skip
THINGS: Final[tuple[Thing, ...]] = (
    Thing("sun", LIGHT, "sky", (
        ("D", (0, 0, 1, 1), "#f6cf5b38"), ("D", (0.14, 0.14, 0.86, 0.86), "#f6cf5b70"), ("D", (0.26, 0.26, 0.74, 0.74), ""))),
    Thing("moon", "#f2ead0", "sky", (("D", (0.1, 0.1, 0.9, 0.9), ""), ("D", (0.38, -0.02, 1.1, 0.72), "#00000000"))),
    Thing("star", LIGHT, "sky", (
        ("P", (0.5, 0, 0.62, 0.36, 1, 0.38, 0.7, 0.6, 0.81, 0.97, 0.5, 0.76, 0.19, 0.97, 0.3, 0.6, 0, 0.38, 0.38, 0.36), ""),)),
    Thing("cloud", PAPER, "sky", (("D", (0, 0.42, 0.5, 0.82), ""), ("D", (0.2, 0.22, 0.72, 0.8), ""), ("D", (0.5, 0.4, 1, 0.82), ""))),
    Thing("bird", INK, "sky", (("P", (0, 0.35, 0.25, 0.25, 0.5, 0.5, 0.75, 0.25, 1, 0.35, 0.75, 0.38, 0.5, 0.64, 0.25, 0.38), ""),)),
    Thing("bell", "#7fb8c4", "sky", (
        ("R", (0.485, 0, 0.515, 0.2), INK), ("D", (0.2, 0.12, 0.8, 0.74), ""), ("R", (0, 0.5, 1, 0.8), "#00000000"),
        ("R", (0.16, 0.42, 0.84, 0.54), ""),
        ("R", (0.49, 0.54, 0.51, 0.74), INK), ("R", (0.38, 0.72, 0.62, 1), PAPER))),
    Thing("mountain", "#5b6b86", "hill", (
        ("P", (0, 1, 0.5, 0.05, 1, 1), ""), ("P", (0.36, 0.32, 0.5, 0.05, 0.64, 0.32, 0.57, 0.4, 0.5, 0.32, 0.43, 0.4), PAPER))),
    Thing("tree", "#3f8f57", "hill", (
        ("R", (0.45, 0.6, 0.55, 1), WOOD), ("D", (0.16, 0.32, 0.58, 0.72), ""), ("D", (0.42, 0.32, 0.84, 0.72), ""),
        ("D", (0.27, 0.06, 0.73, 0.52), ""))),
    Thing("house", "#c9a27a", "hill", (
        ("R", (0.15, 0.45, 0.85, 1), ""), ("P", (0.04, 0.48, 0.5, 0.08, 0.96, 0.48), WOOD), ("R", (0.42, 0.68, 0.58, 1), INK),
        ("R", (0.22, 0.56, 0.36, 0.7), LIGHT), ("R", (0.64, 0.56, 0.78, 0.7), LIGHT))),
    Thing("flower", "#e59ab5", "hill", (
        ("R", (0.48, 0.5, 0.52, 1), "#3f8f57"), ("D", (0.1, 0.22, 0.5, 0.54), ""), ("D", (0.5, 0.22, 0.9, 0.54), ""), ("D", (0.34, 0, 0.66, 0.4), ""),
        ("D", (0.34, 0.36, 0.66, 0.76), ""), ("D", (0.38, 0.26, 0.62, 0.5), LIGHT))),
    Thing("car", "#c8372d", "hill", (
        ("P", (0.18, 0.55, 0.32, 0.28, 0.68, 0.28, 0.84, 0.55), INK), ("R", (0.02, 0.5, 0.98, 0.82), ""), ("D", (0.14, 0.7, 0.38, 0.94), INK),
        ("D", (0.62, 0.7, 0.86, 0.94), INK))),
    Thing("boat", "#8a4b2d", "hill", (
        ("P", (0.05, 0.72, 0.95, 0.72, 0.78, 0.96, 0.22, 0.96), ""), ("R", (0.48, 0.08, 0.52, 0.72), INK),
        ("P", (0.55, 0.12, 0.55, 0.66, 0.92, 0.66), PAPER),
        ("P", (0.45, 0.2, 0.45, 0.66, 0.14, 0.66), PAPER))),
    Thing("person", "#3567b0", "hill", (("D", (0.36, 0, 0.64, 0.28), "#e5b894"), ("R", (0.3, 0.3, 0.7, 1), ""))),
    Thing("fox", "#d5662c", "hill", _HEAD),
    Thing("cat", "#8d939b", "hill", _HEAD),
)  # fmt: skip
#: What is in a picture of which nothing else is known.
PLAIN: Final = tuple(thing for thing in THINGS if thing.name in ("sun", "cloud"))
COLOURS: Final = {
    "red": "#c8372d", "orange": "#e8833a", "yellow": "#f0c846", "green": "#3f8f57", "blue": "#3567b0", "purple": "#7a4fa3",
    "pink": "#e59ab5", "brown": "#7b563a", "black": INK, "white": PAPER, "gray": "#8d939b", "gold": "#d9a441",
}  # fmt: skip
#: The sky from above to below, and three hills from far to near; the first that the prompt names, else one of the days.
HOURS: Final = (
    ("late", ("#10162c", "#33487f", "#27335a", "#1e2747", "#151b33")),
    ("dusk", ("#d9603b", "#f7c27c", "#a85a5c", "#7b4560", "#4d3152")),
    ("dawn", ("#8db6dd", "#fbe0bd", "#a9bfae", "#7fa38f", "#567f70")),
)  # fmt: skip
DAYS: Final = (("#78aee0", "#dcecf8", "#9fc1a4", "#73a67f", "#4c865f"), ("#8cc0e8", "#f1f5ee", "#b9c596", "#8fa86c", "#668450"))


def drawn(thing: Thing, side: int, colour: str) -> Image.Image:
    """RGBA, `side` pixels each way."""
    large = side * _FINE
    sheet = Image.new("RGBA", (large, large), "#00000000")
    draw = ImageDraw.Draw(sheet)
    for kind, at, own in thing.parts:
        spot = [part * large for part in at]
        if kind == "P":
            draw.polygon(spot, fill=own or colour)
        elif kind == "D":
            draw.ellipse(spot, fill=own or colour)
        else:
            draw.rounded_rectangle(spot, radius=large / 40, fill=own or colour)
    return sheet.resize((side, side), Image.Resampling.BOX)
