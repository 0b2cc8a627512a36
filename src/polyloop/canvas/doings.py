"""Every operation on a canvas, by its tool name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from . import ops, people, reading
from .seam import Doing

DOINGS: Final[Mapping[str, Doing]] = {doing.tool: doing for table in (reading.TABLE, ops.TABLE, people.TABLE) for doing in table}
#: What an agent may be given.
AGENT: Final[Mapping[str, Doing]] = {name: doing for name, doing in DOINGS.items() if not doing.people}
