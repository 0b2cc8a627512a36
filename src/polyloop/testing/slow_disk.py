"""A workspace on a slow disk: a write that has landed is not answered for a while. The window in which a kill leaves an intent open."""

from __future__ import annotations

import threading
from fnmatch import fnmatchcase
from typing import Final

from polyloop.files import Landed
from polyloop.files.landing import Landing
from polyloop.workspace import Workspace

EVERY: Final = "*"


class SlowDisk(Workspace):
    """Pauses `pause_s` after a file like `paths` (* is anything) has landed and before anybody is told."""

    paths: str = EVERY
    pause_s: float = 0.0

    def _publish(self, landing: Landing, key: str, attempt: int) -> Landed:
        landed = super()._publish(landing, key, attempt)
        if fnmatchcase(landing.path, self.paths):
            threading.Event().wait(self.pause_s)
        return landed
