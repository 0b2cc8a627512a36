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
#: Confidence below which a line is read again, and the room around it then, as a share of its height.
_DOUBT, _ROOM = 0.97, 0.2
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
    """The lines of text, from the top; at most `limits.OCR_LINES`. What was read with doubt is read once more with room around it."""
    width, height = image.size
    sheet = _on_white(image)
    with _ONE_AT_A_TIME:
        found = _read(sheet, use_det=True)
        if found.txts is None or found.boxes is None:
            return []
        out: list[Line] = []
        for text, score, corners in zip(found.txts, found.scores, found.boxes, strict=True):
            xs, ys = cast("list[float]", corners[:, 0].tolist()), cast("list[float]", corners[:, 1].tolist())
            left, top, right, bottom = max(0.0, min(xs)), max(0.0, min(ys)), min(float(width), max(xs)), min(float(height), max(ys))
            said, sure = str(text), float(score)
            if sure < _DOUBT:
                said, sure = _again(sheet, (left, top, right, bottom), said, sure)
            box = (left / width, top / height, (right - left) / width, (bottom - top) / height)
            out.append(Line(said, round(sure, 4), cast("Box", tuple(round(part, 6) for part in box))))
    return sorted(out, key=lambda line: (line.box[1], line.box[0]))[: limits.OCR_LINES]


def _read(sheet: Image.Image, *, use_det: bool) -> Any:
    pixels: NDArray[np.uint8] = np.asarray(sheet)[:, :, ::-1]
    return _engine()(np.ascontiguousarray(pixels), use_det=use_det, use_cls=use_det, use_rec=True)


def _again(sheet: Image.Image, box: Box, said: str, sure: float) -> tuple[str, float]:
    """The surer of two readings: the edges of a found box may cut into letters."""
    left, top, right, bottom = box
    room = (bottom - top) * _ROOM
    part = sheet.crop((max(0, int(left - room)), max(0, int(top - room)), min(sheet.width, int(right + room)), min(sheet.height, int(bottom + room))))
    found = _read(part, use_det=False)
    second = float(found.scores[0]) if found.txts else 0.0
    return (str(found.txts[0]), second) if second > sure else (said, sure)


def _on_white(image: Image.Image) -> Image.Image:
    if image.mode != "RGBA":
        return image.convert("RGB")
    paper = Image.new("RGB", image.size, "white")
    paper.paste(image, mask=image.getchannel("A"))
    return paper
