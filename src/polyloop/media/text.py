"""Reading the text in a picture: a local recogniser whose models come with it, so nothing is fetched and nothing leaves the machine.

What is read is data of a stranger; it widens no permission (S1.70).
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from typing import Any, cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from PIL import Image

from . import limits

#: The engine is not safe to share between threads.
_ONE_AT_A_TIME = threading.Lock()
Box = tuple[float, float, float, float]


class Line(Struct, frozen=True):
    """One line of text: `box` = x, y, width, height in 0-1 of the upright picture; `confidence` 0-1."""

    text: str
    confidence: float
    box: Box


@functools.cache
def _engine() -> Any:
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # read when it loads: its maker is told nothing of what is read here
    from rapidocr import RapidOCR

    logging.getLogger("RapidOCR").setLevel(logging.ERROR)
    quiet = {"Global.log_level": "error", "EngineConfig.onnxruntime.intra_op_num_threads": 1, "EngineConfig.onnxruntime.inter_op_num_threads": 1}
    return RapidOCR(params=quiet)


def lines(image: Image.Image) -> list[Line]:
    """The lines of text, from the top; at most `limits.OCR_LINES`."""
    width, height = image.size
    pixels: NDArray[np.uint8] = np.asarray(_on_white(image))[:, :, ::-1]
    with _ONE_AT_A_TIME:
        found = _engine()(np.ascontiguousarray(pixels))
    if found.txts is None or found.boxes is None:
        return []
    out: list[Line] = []
    for text, score, corners in zip(found.txts, found.scores, found.boxes, strict=True):
        xs, ys = cast("list[float]", corners[:, 0].tolist()), cast("list[float]", corners[:, 1].tolist())
        left, top = max(0.0, min(xs) / width), max(0.0, min(ys) / height)
        box = (left, top, min(1.0, max(xs) / width) - left, min(1.0, max(ys) / height) - top)
        out.append(Line(str(text), round(float(score), 4), cast("Box", tuple(round(part, 6) for part in box))))
    return sorted(out, key=lambda line: (line.box[1], line.box[0]))[: limits.OCR_LINES]


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode != "RGBA":
        return image.convert("RGB")
    paper = Image.new("RGB", image.size, "white")
    paper.paste(image, mask=image.getchannel("A"))
    return paper
