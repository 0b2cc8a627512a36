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
#: Looks a session has, and of one picture.
LOOKS, LOOKS_EACH = 16, 2
REFERENCES: Final = 16
TRANSIENTS: Final = 4
#: An annotation may be used for so long.
TRANSIENT_MS: Final = 24 * 3600 * 1000
#: Seconds of a clip or sound that may be asked for at all.
SECONDS: Final = 3600
#: Pixels of all frames of one clip: at 1280x720 and 24 frames a second, 13 minutes.
CLIP_PIXELS: Final = 1 << 34
#: Pixels of all frames of a picture that moves.
MOVING_PIXELS: Final = 1 << 29
#: Bytes of one result.
RESULT_BYTES: Final = 64 << 20
#: How long a worker has a task before another may take it; time between two questions to a provider; between two when nothing is known.
LEASE_MS, POLL_MS, ASK_AGAIN_MS = 300_000, 500, 60_000
#: A provider that refuses so often to tell of a task, or of which nothing was heard so long, is not believed to know of it.
REFUSALS: Final = 5
SILENT_MS: Final = 15 * 60 * 1000
#: Longest a task that nothing is known of is asked about.
UNKNOWN_MS: Final = 24 * 3600 * 1000
#: Characters of the id and of the title of a node; of other ids; of a prompt; of a word for a quality.
NODE_ID, TITLE = 80, 240
LONG_ID, PROMPT, QUALITY = 120, 16_000, 40
