"""`workspace_exec{argv, timeoutS?}`: a program run in the workspace, confined, or not at all.

It is matched by no glob: who wants it must name it. Its outcome cannot be asked for later, so a resume reports it unknown.
Ways to confine it, the first that this system has: namespaces and Landlock (`confine`), bubblewrap. A request that says
`allow_unconfined_exec` has it run without any where there is neither, and its result says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

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
_ABOUT: Final = "Run a program in the workspace."
_BOUNDS: Final = " It has no network, reads only system files and the workspace, writes only the workspace."
_SCRIPT: Final = Path(__file__).with_name("confine.py")
Way = Literal["namespaces", "bubblewrap", "none"]
CONFINED: Final[tuple[Way, ...]] = ("namespaces", "bubblewrap")


class Ran(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A program that ended by itself. A cut text is told as such, and that nothing confined it."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool = False
    unconfined: bool = False


def exec_tool(workspace: Workspace, *, allow_unconfined: bool = False) -> WorkspaceTool:
    """A handler for a registry. `allow_unconfined`: run a program even where nothing can confine it."""
    ways: tuple[Way, ...] = (*CONFINED, "none") if allow_unconfined else CONFINED

    async def run(action: Action) -> Ran:
        argv = [str(word) for word in action.args["argv"]]  # type: ignore[union-attr]  # the schema has been checked
        return await run_program(workspace, argv, float(action.args.get("timeoutS", TIMEOUT_S)), ways)  # type: ignore[arg-type]  # likewise

    about = _ABOUT if allow_unconfined else _ABOUT + _BOUNDS
    return WorkspaceTool(ToolSpec("workspace_exec", about, _SCHEMA, "write", "report_unknown", "async"), run)


async def run_program(workspace: Workspace, argv: list[str], timeout_s: float = TIMEOUT_S, ways: Sequence[Way] = CONFINED) -> Ran:
    """Run a program to its end, in the first of these ways that the system has.

    Raises ProblemError: validation, capability_unavailable (not run), task_failed (killed for its time).
    """
    if any("\x00" in word for word in argv):
        raise problem("validation", "argv: a word holds a NUL", operation="workspace")
    workspace.hold()
    plan = _plan(workspace, argv)
    told: list[str] = []
    for way in ways:
        if way == "bubblewrap" and shutil.which("bwrap") is None:
            told.append("bubblewrap: not installed")
            continue
        ran = await _run(way, plan, timeout_s)
        if isinstance(ran, Ran):
            return ran
        told.append(f"{way}: {ran}")
    wrong = "this system cannot confine a program, so it was not run (allow_unconfined_exec in the request would permit it)"
    raise problem("capability_unavailable", f"{wrong}: {'; '.join(told)}", operation="workspace")


async def _run(way: Way, plan: dict[str, Any], timeout_s: float) -> Ran | str:
    """How the program ended, or why it was not begun. Raises ProblemError (task_failed)."""
    hear, told = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *_launch(way, plan), json.dumps(plan), str(told), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, pass_fds=(told,), start_new_session=True, env={"PATH": os.environ.get("PATH", os.defpath)},
        )  # fmt: skip
    except BaseException:
        os.close(hear)
        raise
    finally:
        os.close(told)
    try:
        out, err = await asyncio.wait_for(asyncio.gather(_printed(process.stdout), _printed(process.stderr)), timeout_s)
        code = await process.wait()
        begun = os.read(hear, 16) == b"confined"
    except TimeoutError as late:
        message = f"it did not end within {timeout_s:g} s and was killed; its files are as it left them"
        raise problem("task_failed", message, operation="workspace", execution_started=True) from late
    finally:
        os.close(hear)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.gather(_printed(process.stdout), _printed(process.stderr))  # a pipe that is not emptied would never end
        await process.wait()
    return Ran(code, out[0], err[0], out[1] or err[1], way == "none") if begun else "".join(err[0].strip().splitlines()[-1:])


def _launch(way: Way, plan: dict[str, Any]) -> list[str]:
    """The command before the plan and the pipe's number."""
    script = [sys.executable, "-I", "-S", str(_SCRIPT)]
    if way == "namespaces":
        return [*script, "confine"]
    if way == "none":
        return [*script, "inside"]
    home = plan["workspace"]
    seen = [word for path in (*plan["readable"], str(_SCRIPT)) for word in ("--ro-bind-try", path, path)]
    areas = [word for path in plan["read_only"] for word in ("--ro-bind", path, path)]
    # The program is process 1: bubblewrap's own would show the environment of this process.
    bounds = ["--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL", "--proc", "/proc", "--dev", "/dev"]
    return ["bwrap", *bounds, *seen, "--bind", home, home, *areas, "--tmpfs", f"{home}/{plan['hidden']}", "--", *script, "inside"]


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
