"""Taking a picture apart into layers that recompose it exactly, by three local methods that say which they are.

Theory of operation. Every layer has the size of the picture and each pixel of the picture stands unchanged in at least one of them; what
lies under a text is filled in on the background, where the text covers it. So laying the layers over one another, the background
first, gives the picture back, pixel for pixel; `split` proves it before it returns. Objects are not recognised by name: a region
is found by its colour, a text by reading it, an object by a point that a person set. Seed: S1.85, S1.86.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, cast

import cv2
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from PIL import Image

from ..contract.problem import problem
from . import limits, text
from .picture import opened, png
from .provider import Facts
from .verify import examined

Method = Literal["colour-regions", "text-layer", "point-cut"]
Pixels = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Point = tuple[float, float]
#: Regions are looked for in a picture of at most this side; masks are drawn at full size.
_WORK_PX: Final = 640
#: Two colours closer than this (in Lab, 8-bit steps) are one region.
_SAME_COLOUR: Final = 22.0
_CLUSTERS: Final = 8
_CUT_ROUNDS: Final = 5
#: Sure and probable foreground around a point, as shares of the shorter side.
_SURE, _PROBABLE = 0.02, 0.25


class Layer(Struct, frozen=True):
    """RGBA of the picture's size. `coverage` = share 0-1 of the pixels that are not transparent."""

    name: str
    image: Image.Image
    coverage: float


def split(image: Image.Image, method: Method, points: Sequence[Point] = ()) -> list[Layer]:
    """The layers, the background first, at least two. `points` in 0-1, for `point-cut`.

    Raises ProblemError: task_failed when the method finds nothing to part, validation when points are missing.
    """
    if method == "point-cut" and not points:
        details = {"field": "referenceTransientIds", "issue": "required"}
        raise problem("validation", "an object is cut out around points: annotate it first", stage="arguments", details=details)
    pixels: Pixels = np.array(image.convert("RGBA"))
    pixels[pixels[:, :, 3] == 0] = 0  # what is behind full transparency is not to be seen, and is not kept
    found = _METHODS[method](pixels, points)[: limits.LAYERS - 1]
    masks = [mask for _, mask in found]
    whole = [*_background(pixels, masks, filled=method == "text-layer"), *(_cut(n, pixels, mask) for n, mask in found)] if found else []
    layers = [layer for layer in whole if layer.image.getbbox()]  # one in which nothing is to be seen is none
    if len(layers) < 2:  # noqa: PLR2004  # something, and the rest
        raise problem("task_failed", f"{method} found nothing in this picture to part from the rest", stage="split", execution_started=True)
    if not np.array_equal(recomposed(layers), pixels):
        raise problem("task_failed", "the layers do not give the picture back", stage="verify", execution_started=True)
    return layers


def taken_apart(data: bytes, method: str, points: Sequence[Point]) -> list[tuple[Layer, bytes, Facts]]:
    """The layers of a file, each as a PNG and what that proved to be. Raises ProblemError as `split`; task_failed where the libraries fail."""
    try:
        found = [(layer, png(layer.image)) for layer in split(opened(data).image, cast("Method", method), points)]
    except (cv2.error, ValueError, ArithmeticError, LookupError, MemoryError, OSError) as error:
        why = f"{method} cannot take this picture apart: {type(error).__name__}"
        raise problem("task_failed", why, stage="split", execution_started=True, details={"reason": "not_parted"}) from error
    return [(layer, file, examined(file, "image")) for layer, file in found]


def recomposed(layers: Sequence[Layer]) -> Pixels:
    """The picture the layers make, RGBA."""
    whole = Image.new("RGBA", layers[0].image.size)
    for layer in layers:
        whole = Image.alpha_composite(whole, layer.image)
    return np.array(whole)


def _cut(name: str, pixels: Pixels, mask: Mask) -> Layer:
    return Layer(name, Image.fromarray(np.where(mask[:, :, None], pixels, np.uint8(0))), _share(mask & (pixels[:, :, 3] > 0)))


def _share(mask: Mask) -> float:
    return round(float(mask.mean()), 6)


def _background(pixels: Pixels, masks: Sequence[Mask], *, filled: bool) -> list[Layer]:
    """The rest; `filled` = with what may lie under the layers painted in where the picture is opaque. None if nothing is left."""
    covered: Mask = np.logical_or.reduce(masks)
    rest = pixels.copy()
    hidden = covered & (pixels[:, :, 3] == 255) if filled else np.zeros_like(covered)  # noqa: PLR2004  # opaque
    if hidden.any():
        grown = cv2.dilate(hidden.astype(np.uint8), np.ones((3, 3), np.uint8))
        painted = cv2.inpaint(np.ascontiguousarray(pixels[:, :, :3]), grown, 5, cv2.INPAINT_TELEA)
        rest[:, :, :3][hidden] = painted[hidden]
    rest[covered & ~hidden] = 0
    seen = rest[:, :, 3] > 0
    return [Layer("background", Image.fromarray(rest), _share(seen))] if seen.any() else []


# --- the methods: named masks that do not overlap ----------------------------------------------------------------


def _regions(pixels: Pixels, _: Sequence[Point]) -> list[tuple[str, Mask]]:
    """Connected areas of one colour, the largest being the background. Centres of colours that are alike are one."""
    height, width = pixels.shape[:2]
    scale = min(1.0, _WORK_PX / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = cv2.medianBlur(cv2.resize(np.ascontiguousarray(pixels[:, :, :3]), size, interpolation=cv2.INTER_AREA), 5)
    lab = cv2.cvtColor(small, cv2.COLOR_RGB2LAB).reshape(-1, 3).astype(np.float32)
    kinds = min(_CLUSTERS, len(np.unique(lab, axis=0)))
    if kinds < 2:  # noqa: PLR2004  # one colour
        return []
    cv2.setRNGSeed(1)
    rule = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 30, 0.5)
    _error, labels, centres = cv2.kmeans(lab, kinds, np.empty((0, 0), np.int32), rule, 2, cv2.KMEANS_PP_CENTERS)
    colours = _alike(np.asarray(centres, np.float32))[np.asarray(labels, np.int32).ravel()].reshape(size[1], size[0])
    areas: list[tuple[int, Mask]] = []
    for colour in np.unique(colours):
        parts = _parts(colours == colour)
        areas += [(int(area), parts == n) for n, area in enumerate(np.bincount(parts.ravel())) if n]
    areas.sort(key=lambda area: -area[0])
    kept = [mask for area, mask in areas if area >= limits.LAYER_SHARE * size[0] * size[1]][1 : limits.LAYERS]
    return [(f"region {n}", _enlarged(mask, width, height)) for n, mask in enumerate(kept, 1)]


def _alike(centres: NDArray[np.float32]) -> NDArray[np.int32]:
    """For each centre the first one it is chained to by steps shorter than `_SAME_COLOUR`."""
    joined = np.arange(len(centres), dtype=np.int32)
    for one in range(len(centres)):
        for other in range(one):
            if float(np.linalg.norm(centres[one] - centres[other])) < _SAME_COLOUR:
                joined[joined == joined[one]] = joined[other]
    return joined


def _parts(mask: Mask) -> NDArray[np.int32]:
    """Which connected area each pixel is in, 0 = none."""
    return np.asarray(cv2.connectedComponents(mask.astype(np.uint8))[1], np.int32)


def _enlarged(mask: Mask, width: int, height: int) -> Mask:
    """Nearest neighbour: masks that share no pixel share none afterwards."""
    return cv2.resize(mask.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST) > 0


def _writing(pixels: Pixels, _: Sequence[Point]) -> list[tuple[str, Mask]]:
    """What was read as text: inside each line's box the pixels that stand out from its rim."""
    height, width = pixels.shape[:2]
    found: Mask = np.zeros((height, width), np.bool_)
    for line in text.lines(Image.fromarray(pixels)):
        x, y, w, h = line.box
        left, top, right, bottom = int(x * width), int(y * height), int((x + w) * width) + 1, int((y + h) * height) + 1
        part = pixels[top:bottom, left:right, :3].astype(np.int16)
        if not part.size:
            continue
        rim = np.concatenate([part[0], part[-1], part[:, 0], part[:, -1]])
        away = np.abs(part - np.median(rim, axis=0)).max(axis=2)
        level = max(24.0, float(away.max()) * 0.25)
        strokes = cv2.dilate((away > level).astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
        found[top:bottom, left:right] |= strokes
    return [("text", found)] if found.any() else []


def _object(pixels: Pixels, points: Sequence[Point]) -> list[tuple[str, Mask]]:
    """What belongs together around each point, against the border of the picture."""
    height, width = pixels.shape[:2]
    scale = min(1.0, _WORK_PX / max(height, width))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    small = np.asarray(cv2.resize(np.ascontiguousarray(pixels[:, :, :3]), size, interpolation=cv2.INTER_AREA), np.uint8)
    taken: Mask = np.zeros((height, width), np.bool_)
    out: list[tuple[str, Mask]] = []
    for number, point in enumerate(points, 1):
        mask = _enlarged(_around(small, point), width, height) & ~taken
        if mask.any():
            out.append((f"object {number}", mask))
            taken |= mask
    return out


def _around(small: Pixels, point: Point) -> Mask:
    height, width = small.shape[:2]
    at = (min(width - 1, int(point[0] * width)), min(height - 1, int(point[1] * height)))
    side = min(width, height)
    marks = np.full((height, width), cv2.GC_PR_BGD, np.uint8)
    cv2.circle(marks, at, max(3, round(side * _PROBABLE)), cv2.GC_PR_FGD, -1)
    cv2.circle(marks, at, max(2, round(side * _SURE)), cv2.GC_FGD, -1)
    rim = max(1, side // 50)
    marks[:rim], marks[-rim:], marks[:, :rim], marks[:, -rim:] = (cv2.GC_BGD,) * 4
    models = np.zeros((1, 65), np.float64), np.zeros((1, 65), np.float64)
    cv2.setRNGSeed(1)
    cv2.grabCut(small, marks, None, *models, _CUT_ROUNDS, cv2.GC_INIT_WITH_MASK)  # pyright: ignore[reportArgumentType, reportCallIssue]  # None = by the mask
    inside: Mask = (marks == cv2.GC_FGD) | (marks == cv2.GC_PR_FGD)
    parts = _parts(inside)
    return inside & (parts == parts[at[1], at[0]])


_METHODS: Final[dict[Method, Callable[[Pixels, Sequence[Point]], list[tuple[str, Mask]]]]] = {
    "colour-regions": _regions, "text-layer": _writing, "point-cut": _object,
}  # fmt: skip
