"""Limits of a canvas. What is over one is refused by name before anything is written."""

from __future__ import annotations

from typing import Final

ID_CHARS: Final = 80
TITLE_CHARS: Final = 240
CONTENT_CHARS: Final = 16_000
