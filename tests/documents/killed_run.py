"""`polyloop run`, killed beside the first call of a tool: `python killed_run.py before|after TOOL REQUEST STORE`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from polyloop.cli.main import app
from polyloop.kernel.seams import Action
from polyloop.toolbox.bridge import OperationTool

WHEN, TOOL, REQUEST, STORE = sys.argv[1:]
FLAG = Path(STORE).with_name("killed")
whole = OperationTool.run


async def cut(self: OperationTool, action: Action) -> Any:
    if self.spec.name != TOOL or FLAG.exists():
        return await whole(self, action)
    FLAG.touch()
    if WHEN == "after":
        await whole(self, action)
    return os.kill(os.getpid(), signal.SIGKILL)


OperationTool.run = cut  # type: ignore[method-assign]  # the process that dies is the subject
app(["run", REQUEST, "--json", "--store", STORE])
