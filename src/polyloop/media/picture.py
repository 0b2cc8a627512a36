"""A picture from bytes: refused by size before it is decoded, then decoded whole, upright, and nothing of it believed unread.

The other modules of pictures import the extra `media` when they load; `libraries()` around that import turns its absence into
`capability_unavailable`. Seed: S1.69, S1.91.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..contract.problem import problem
from . import limits

if TYPE_CHECKING:
    from PIL.Image import Image

LIBRARIES: Final = frozenset({"PIL", "numpy", "cv2", "rapidocr", "onnxruntime", "av"})
MIME: Final = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp", "GIF": "image/gif", "BMP": "image/bmp", "TIFF": "image/tiff"}


class Picture(Struct, frozen=True):
    """`image` is upright: RGB, or RGBA where the file has any transparency. Sizes in pixels."""

    image: Image
    mime: str
    frames: int

    @property
    def size(self) -> tuple[int, int]:
        return self.image.size


@contextmanager
def libraries() -> Generator[None]:
    """Raises ProblemError(capability_unavailable) when a library of the extra `media` is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in LIBRARIES:
            raise
        message = f"{error.name} is not installed: pip install 'polyloop[media]'"
        raise problem("capability_unavailable", message, stage="open", details={"extra": "media"}) from error


def opened(data: bytes) -> Picture:
    """Decode a picture whole. Raises ProblemError: type_mismatch (no picture we read, or a broken one), validation (over a limit)."""
    with libraries():
        from PIL import Image, ImageOps, UnidentifiedImageError
    if len(data) > limits.PICTURE_BYTES:
        raise _too_large("bytes", len(data), limits.PICTURE_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=list(MIME)) as found:
                _sized(found.size)
                found.load()
                mime, frames = MIME[str(found.format)], int(getattr(found, "n_frames", 1))
                upright = ImageOps.exif_transpose(found)
                clear = upright.has_transparency_data
                return Picture(upright.convert("RGBA" if clear else "RGB"), mime, frames)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise _too_large("pixels", 0, limits.PIXELS) from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise problem("type_mismatch", f"this is no picture that can be read: {str(error)[:120]}", stage="decode") from error


def every_frame(data: bytes) -> None:
    """Decode all the frames of a picture that moves, or has pages. Raises as `opened`; validation for more than a clip may have."""
    with libraries():
        from PIL import Image, ImageSequence
    try:
        with Image.open(io.BytesIO(data), formats=list(MIME)) as found:
            pixels = 0
            for frame in ImageSequence.Iterator(found):
                _sized(frame.size)
                pixels += frame.size[0] * frame.size[1]
                if pixels > limits.MOVING_PIXELS:
                    raise _too_large("pixels in all frames", pixels, limits.MOVING_PIXELS)
                frame.load()
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise problem("type_mismatch", f"a frame of this picture cannot be read: {str(error)[:120]}", stage="decode") from error


def _sized(size: tuple[int, int]) -> None:
    if max(size) > limits.SIDE_PX:
        raise _too_large("side", max(size), limits.SIDE_PX)
    if size[0] * size[1] > limits.PIXELS:
        raise _too_large("pixels", size[0] * size[1], limits.PIXELS)


def _too_large(what: str, found: int, limit: int) -> Exception:
    details = {"field": "nodeId", "issue": "too_large", "limit": limit, "found": found}
    return problem("validation", f"the picture has more {what} than {limit}", stage="decode", details=details)


def png(image: Image) -> bytes:
    """The bytes of a PNG, the same for the same pixels."""
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=6)
    return out.getvalue()
