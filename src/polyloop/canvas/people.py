"""What people alone do on a canvas: make one. No agent is ever given these."""

from __future__ import annotations

from typing import Any, Final

from . import limits
from .seam import Asked, Doing, Plan, writing

_NEW: Final[dict[str, Any]] = {
    "type": "object", "required": ["title"], "properties": {"title": {"type": "string", "maxLength": limits.TITLE_CHARS}},
}  # fmt: skip


def _new(asked: Asked) -> Plan:
    return Plan(resolved={"title": asked.args["title"]}, data={"title": asked.args["title"]})


TABLE: Final[tuple[Doing, ...]] = (writing("new", _NEW, "Make a canvas.", _new, people=True, makes=True),)
