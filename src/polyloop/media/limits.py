"""Limits of media. What is over one is refused by name before anything is decoded, drawn, reserved or sent."""

from __future__ import annotations

from typing import Final

#: Bytes of one picture that is looked at, drawn on or taken apart.
PICTURE_BYTES: Final = 32 << 20
SIDE_PX: Final = 8_192
PIXELS: Final = 16_777_216
#: Pictures are worked on at no more than this many pixels where the answer does not depend on it.
SAMPLE_PX: Final = 1_000_000
ANNOTATIONS: Final = 30
LABEL_CHARS: Final = 120
COLOURS: Final = 5
OCR_LINES: Final = 500
#: Layers of one split, the background among them.
LAYERS: Final = 12
#: A region smaller than this share of the picture is no layer of its own.
LAYER_SHARE: Final = 0.02
