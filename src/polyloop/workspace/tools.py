"""The tools of a workspace: `workspace_read_lines`, `_write`, `_grep`, `_list`, `_exists`, `_checksum`.

They run in the loop's process. What can block for long (writes, searches, lists, large files) has a thread; cancelled, it
stops at the next piece and is waited for, so that no write lands after its run believes it is over (S2.22).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from ..contract.problem import problem
from ..contract.schema import whole
from ..files.threads import in_thread
from ..kernel.objects import Json, ToolSpec
from ..kernel.seams import Action
from . import limits
from .workspace import Stop, Workspace

_PATH: Final[dict[str, Json]] = {"type": "string", "description": "relative to the workspace, like notes/plan.md"}


class Existence(Struct, frozen=True, omit_defaults=True):
    path: str
    exists: bool
    type: str = ""


class Checksum(Struct, frozen=True):
    path: str
    sha256: str
    bytes: int


class WorkspaceTool(Struct, frozen=True):
    """A handler for a registry."""

    spec: ToolSpec
    run: Callable[[Action], Any]
    settle: Callable[[Action, str | None, bool], Any] | None = None
    idempotent: bool = False


Operation = Callable[[Workspace, dict[str, Any], Action, Stop], object]


def _read_lines(w: Workspace, args: dict[str, Any], action: Action, stop: Stop) -> object:
    return w.read_lines(args["path"], args.get("start", 1), args.get("count", limits.LINES_DEFAULT), stop)


def _write(w: Workspace, args: dict[str, Any], action: Action, stop: Stop) -> object:
    try:
        data = args["text"].encode()
    except UnicodeEncodeError as error:
        raise problem("validation", "text: it is not valid Unicode") from error
    if_absent, expected = args.get("ifAbsent"), args.get("expectedSha256", "")
    return w.write_atomic(
        args["path"], data, if_absent=if_absent is True, expected_sha256=expected, replace=if_absent is False and not expected,
        key=action.key, attempt=action.attempt,
    )  # fmt: skip


def _grep(w: Workspace, args: dict[str, Any], action: Action, stop: Stop) -> object:
    return w.grep(args["pattern"], args.get("under", ""), args.get("limit", limits.HITS_DEFAULT), stop)


def _list(w: Workspace, args: dict[str, Any], action: Action, stop: Stop) -> object:
    return w.list(args.get("glob", ""), args.get("continuation"), stop)


def _exists(w: Workspace, args: dict[str, Any], action: Action, stop: Stop) -> object:
    found = w.exists(args["path"])
    return Existence(args["path"], exists=False) if found is None else Existence(found.path, exists=True, type=found.kind)


def _checksum(w: Workspace, args: dict[str, Any], action: Action, stop: Stop) -> object:
    return Checksum(args["path"], *w.checksum(args["path"], stop))


#: name -> (what it does, what the model is told, required arguments, optional ones)
_TOOLS: Final[dict[str, tuple[Operation, str, dict[str, Json], dict[str, Json]]]] = {
    "workspace_read_lines": (
        _read_lines,
        "Read lines of a text file, and the file's sha256. nextStart tells where to go on.",
        {"path": _PATH},
        {"start": {"type": "integer", "minimum": 1}, "count": {"type": "integer", "minimum": 1, "maximum": limits.LINES_MAX}},
    ),
    "workspace_write": (
        _write,
        "Write a whole text file. An existing file is replaced only with expectedSha256 (its sha256 now) or ifAbsent=false.",
        {"path": _PATH, "text": {"type": "string"}},
        {"ifAbsent": {"type": "boolean"}, "expectedSha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
    ),
    "workspace_grep": (
        _grep,
        "Find lines matching a regular expression (RE2) in all text files, or those under a folder or file.",
        {"pattern": {"type": "string", "minLength": 1}},
        {"under": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": limits.HITS_MAX}},
    ),
    "workspace_list": (
        _list,
        "List files by path. glob like *.md (any folder) or out/**/*.json. Go on with the continuation until complete is true.",
        {},
        {"glob": {"type": "string"}, "continuation": {"type": "string"}},
    ),
    "workspace_exists": (_exists, "Tell whether a file or folder exists.", {"path": _PATH}, {}),
    "workspace_checksum": (_checksum, "The sha256 and size of a file.", {"path": _PATH}, {}),
}


class _Stopped(Exception):
    """The call was cancelled; nobody waits for what it would have said."""


def workspace_tools(workspace: Workspace) -> dict[str, WorkspaceTool]:
    """A catalogue for a registry. A write is settled from the workspace's write log, by the key of its intent."""
    return {name: _tool(workspace, name) for name in _TOOLS}


def _tool(workspace: Workspace, name: str) -> WorkspaceTool:
    operation, description, required, optional = _TOOLS[name]
    schema: dict[str, Json] = {
        "type": "object", "properties": {**required, **optional}, "required": list(required), "additionalProperties": False,
    }  # fmt: skip

    async def run(action: Action) -> object:
        stopped = threading.Event()

        def stop() -> None:
            if stopped.is_set():
                raise _Stopped

        args = whole(action.args)
        if _is_quick(workspace, operation, args):
            return operation(workspace, args, action, stop)
        return await in_thread(lambda: operation(workspace, args, action, stop), stopped.set)

    async def settle(action: Action, token: str | None, fence: bool) -> object:  # noqa: FBT001  # the seam's signature
        return await in_thread(lambda: workspace.settle(action.key, action.attempt, fence=fence), lambda: None)

    if operation is _write:
        return WorkspaceTool(ToolSpec(name, description, schema, "write", "probe", "async"), run, settle)
    room = workspace.answer_bytes * limits.RESULT_BYTES // limits.ANSWER_BYTES
    return WorkspaceTool(ToolSpec(name, description, schema, "read", "rerun", "async", result_limit=room), run)


def _is_quick(workspace: Workspace, operation: Operation, args: dict[str, Any]) -> bool:
    if operation is _exists:
        return True
    if operation not in (_read_lines, _checksum):
        return False
    found = workspace.exists(args["path"])
    return found is None or found.bytes <= limits.INLINE_BYTES
