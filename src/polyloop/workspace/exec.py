"""`workspace_exec{argv, timeoutS?}`: a program run in the workspace, confined, or not at all (see `confine`).

It is matched by no glob: who wants it must name it. Its outcome cannot be asked for later, so a resume reports it unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ..contract.problem import problem
from ..kernel.objects import Json, ToolSpec
from ..kernel.seams import Action
from .tools import WorkspaceTool
from .workspace import HIDDEN, Workspace

TIMEOUT_S: Final = 60.0
TIMEOUT_MAX_S: Final = 600.0
#: Bytes kept of what it prints, on either side.
PRINTED_BYTES: Final = 24_000
READABLE: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime", "/etc/fonts")
_SCHEMA: Final[dict[str, Json]] = {
    "type": "object", "required": ["argv"], "additionalProperties": False,
    "properties": {
        "argv": {"type": "array", "minItems": 1, "maxItems": 1000, "items": {"type": "string"}, "description": "program and arguments; no shell"},
        "timeoutS": {"type": "number", "exclusiveMinimum": 0, "maximum": TIMEOUT_MAX_S},
    },
}  # fmt: skip
_ABOUT: Final = "Run a program in the workspace. It has no network, reads only system files and the workspace, writes only the workspace."


class Ran(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A program that ended by itself. A cut text is told as such."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool = False


def exec_tool(workspace: Workspace) -> WorkspaceTool:
    """A handler for a registry."""

    async def run(action: Action) -> Ran:
        argv = [str(word) for word in action.args["argv"]]  # type: ignore[union-attr]  # the schema has been checked
        return await run_confined(workspace, argv, float(action.args.get("timeoutS", TIMEOUT_S)))  # type: ignore[arg-type]  # likewise

    return WorkspaceTool(ToolSpec("workspace_exec", _ABOUT, _SCHEMA, "write", "report_unknown", "async"), run)


async def run_confined(workspace: Workspace, argv: list[str], timeout_s: float = TIMEOUT_S) -> Ran:
    """Run a program to its end. Raises ProblemError: validation, capability_unavailable (not run), task_failed (killed for its time)."""
    if any("\x00" in word for word in argv):
        raise problem("validation", "argv: a word holds a NUL", operation="workspace")
    workspace.hold()
    plan = _plan(workspace, argv)
    hear, told = os.pipe()
    try:
        script = str(Path(__file__).with_name("confine.py"))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", script, json.dumps(plan), str(told), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, pass_fds=(told,), start_new_session=True,
        )  # fmt: skip
    except BaseException:
        os.close(hear)
        raise
    finally:
        os.close(told)
    try:
        out, err = await asyncio.wait_for(asyncio.gather(_printed(process.stdout), _printed(process.stderr)), timeout_s)
        code = await process.wait()
        confined = os.read(hear, 16) == b"confined"
    except TimeoutError as late:
        message = f"it did not end within {timeout_s:g} s and was killed; its files are as it left them"
        raise problem("task_failed", message, operation="workspace", execution_started=True) from late
    finally:
        os.close(hear)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.gather(_printed(process.stdout), _printed(process.stderr))  # a pipe that is not emptied would never end
        await process.wait()
    if not confined:
        raise problem(
            "capability_unavailable", f"this system cannot confine a program, so it was not run: {err[0].strip().splitlines()[-1:]}",
            operation="workspace",
        )  # fmt: skip
    return Ran(code, out[0], err[0], out[1] or err[1])


def _plan(workspace: Workspace, argv: list[str]) -> dict[str, Any]:
    folder = os.path.realpath(workspace.folder)
    return {
        "workspace": folder, "hidden": HIDDEN, "argv": argv, "readable": [*READABLE, sys.prefix, sys.base_prefix],
        "read_only": [e.path for e in os.scandir(folder) if e.name.casefold() in workspace.read_only],
    }  # fmt: skip


async def _printed(stream: Any) -> tuple[str, bool]:
    """The beginning of what it printed, and whether there was more."""
    kept, size = b"", 0
    while piece := await stream.read(1 << 16):
        size += len(piece)
        kept = (kept + piece)[:PRINTED_BYTES]
        await asyncio.sleep(0)  # what prints without end must not keep the loop from its clock
    return kept.decode(errors="replace"), size > PRINTED_BYTES
