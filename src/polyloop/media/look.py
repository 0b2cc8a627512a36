"""What can be measured of a picture: facts, never a judgement of what it shows (S1.69)."""

from __future__ import annotations

import hashlib
from typing import Any, cast

import cv2
import numpy as np
from PIL import Image

from . import limits
from .picture import Picture


def measured(picture: Picture, data: bytes) -> dict[str, Any]:
    """Format, size in pixels, alpha; brightness, contrast 0-1; sharpness (variance of the Laplacian of the 0-255 grey picture); the
    main colours with their shares 0-1; a 64-bit difference hash and the sha256 of the file.
    """
    width, height = picture.size
    small = _sample(picture.image)
    grey = np.asarray(small.convert("L"), dtype=np.float64)
    return {
        "mimeType": picture.mime, "bytes": len(data), "width": width, "height": height, "frames": picture.frames,
        "alpha": picture.image.mode == "RGBA",
        "brightness": round(float(grey.mean()) / 255, 4), "contrast": round(float(grey.std()) / 255, 4),
        "sharpness": round(float(cv2.Laplacian(grey, cv2.CV_64F).var()), 2),
        "colours": _colours(small), "differenceHash": _difference_hash(picture.image), "sha256": hashlib.sha256(data).hexdigest(),
    }  # fmt: skip


def _sample(image: Image.Image) -> Image.Image:
    width, height = image.size
    scale = (limits.SAMPLE_PX / (width * height)) ** 0.5
    shown = image.convert("RGB")
    return shown if scale >= 1 else shown.resize((max(1, int(width * scale)), max(1, int(height * scale))), Image.Resampling.BOX)


def _colours(image: Image.Image) -> list[dict[str, Any]]:
    """At most `limits.COLOURS`, the largest share first."""
    reduced = image.quantize(limits.COLOURS, Image.Quantize.MEDIANCUT)
    palette, counts = reduced.getpalette() or [], reduced.getcolors() or []
    total = image.width * image.height
    found = sorted(cast("list[tuple[int, int]]", counts), key=lambda pair: (-pair[0], pair[1]))
    return [{"hex": "#" + bytes(palette[3 * i : 3 * i + 3]).hex(), "share": round(n / total, 4)} for n, i in found]


def _difference_hash(image: Image.Image) -> str:
    small = np.asarray(image.convert("L").resize((9, 8), Image.Resampling.BOX), dtype=np.int16)
    bits = (small[:, 1:] > small[:, :-1]).flatten()
    return f"{int(''.join('1' if bit else '0' for bit in bits), 2):016x}"
