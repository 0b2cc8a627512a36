"""Every operation on a canvas, by its tool name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from . import arranging, ops, people, reading, structured
from .seam import Doing

_TABLES: Final = (reading.TABLE, ops.TABLE, arranging.TABLE, structured.TABLE, people.TABLE)
DOINGS: Final[Mapping[str, Doing]] = {doing.tool: doing for table in _TABLES for doing in table}
#: What an agent may be given.
AGENT: Final[Mapping[str, Doing]] = {name: doing for name, doing in DOINGS.items() if not doing.people}
