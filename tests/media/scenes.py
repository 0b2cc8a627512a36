"""Pictures with known content, drawn when they are asked for: needs the extra `media`."""

from __future__ import annotations

import io
import random

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from polyloop.formats.font import FONT

ZH = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏云腾致雨露结为霜金生丽水玉出昆冈海咸河淡鳞潜羽翔"
EN = ("red", "lamp", "main", "door", "open", "window", "left", "hand", "blue", "roof", "old", "tree", "north", "bridge", "quiet", "river", "stone")

#: name -> background and what is drawn on it: kind, box or corners, colour.
SCENES = {
    "two things": ("#a8c8e8", [("ellipse", (80, 80, 280, 280), "#d03030"), ("rectangle", (360, 120, 560, 330), "#2f8f3f")]),
    "beach": ("#a8c8e8", [("rectangle", (0, 260, 640, 400), "#6b4a2b"), ("ellipse", (420, 30, 560, 170), "#ffd84a")]),
    "hill": ("#e9e3d0", [("polygon", [(320, 60), (520, 340), (120, 340)], "#444466")]),
}
SIZE = (640, 400)


def jpeg(image: Image.Image, **more) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=88, **more)
    return out.getvalue()


def scene(name: str) -> tuple[bytes, list[np.ndarray]]:
    """A noisy JPEG, and the true mask of each thing in it."""
    background, things = SCENES[name]
    image, masks = Image.new("RGB", SIZE, background), []
    for kind, box, colour in things:
        getattr(ImageDraw.Draw(image), kind)(box, fill=colour)
        mask = Image.new("1", SIZE)
        getattr(ImageDraw.Draw(mask), kind)(box, fill=1)
        masks.append(np.array(mask))
    noise = np.random.default_rng(4).integers(-12, 13, (*reversed(SIZE), 3))
    return jpeg(Image.fromarray((np.asarray(image).astype(int) + noise).clip(0, 255).astype(np.uint8))), masks


def words(rng: random.Random) -> str:
    """A random string, Chinese or English."""
    return "".join(rng.choice(ZH) for _ in range(rng.randint(4, 9))) if rng.random() < 0.5 else " ".join(rng.sample(EN, rng.randint(2, 3)))


def written(strings: list[str], size: tuple[int, int] = (760, 720)) -> Image.Image:
    """One string a line, black on near-white."""
    image = Image.new("RGB", size, "#f4f2ec")
    draw, font = ImageDraw.Draw(image), ImageFont.truetype(str(FONT), 34)
    for row, string in enumerate(strings):
        draw.text((24, 16 + row * 58), string, font=font, fill="#202020")
    return image


def busy(size: tuple[int, int] = (1440, 1080)) -> Image.Image:
    """Every colour there is, so that nothing can be read by luck."""
    ys, xs = np.mgrid[0 : size[1], 0 : size[0]]
    return Image.fromarray(np.stack([(xs / 6) % 256, (ys / 5) % 256, 128 + 100 * np.sin(xs / 90)], axis=2).astype(np.uint8))


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Intersection over union."""
    return float((one & other).sum() / (one | other).sum())
