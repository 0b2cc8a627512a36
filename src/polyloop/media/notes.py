"""A label at a point of a picture."""

from __future__ import annotations

from msgspec import Struct


class Annotation(Struct, frozen=True):
    """A point of the upright picture, x and y in 0-1, and what stands beside it."""

    label: str
    x: float
    y: float
