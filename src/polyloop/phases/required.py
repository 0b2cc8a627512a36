"""What an attempt has left behind, judged: which files are new or changed since it began, and whether those required are there.

Checksums taken at the start of the attempt decide (R93): a file made by any tool counts, a stale one does not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from ..contract.problem import ProblemError, problem
from ..contract.schema import Shape
from ..workspace import Workspace
from .phase import Required

#: Where the files of earlier attempts go, by number.
ASIDE: Final = "attempts"
#: Files of a workspace that are looked at.
FILES_MAX: Final = 20_000


class Judgement(Struct, frozen=True):
    """`outputs`: sha256 by path of the required files that are of this attempt. No problems = the phase has what it needs."""

    outputs: dict[str, str]
    problems: tuple[str, ...]


def checksums(workspace: Workspace) -> dict[str, str]:
    """sha256 by path of every file that a tool may write. Raises ProblemError (validation) when there are too many."""
    found: dict[str, str] = {}
    continuation: str | None = None
    more = True
    while more:
        page = workspace.list(continuation=continuation)
        for file in page.files:
            if file.path.partition("/")[0].casefold() not in {*workspace.read_only, ASIDE}:
                found[file.path] = workspace.checksum(file.path)[0]
        if len(found) > FILES_MAX:
            raise problem("validation", f"the workspace holds more than {FILES_MAX} files", operation="phases", stage="precondition")
        continuation, more = page.continuation, page.continuation is not None
    return found


def fresh(before: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Files that are new or changed."""
    return {path: sha256 for path, sha256 in now.items() if before.get(path) != sha256}


def judge(required: Sequence[Required], before: Mapping[str, str], now: Mapping[str, str], workspace: Workspace) -> Judgement:
    """Whether everything required is there, of this attempt, and well formed. All that is wrong is told at once."""
    made = fresh(before, now)
    outputs: dict[str, str] = {}
    problems: list[str] = []
    for one in required:
        paths = [path for path in sorted(now) if _matches(one, path)]
        new = [path for path in paths if path in made]
        need = 1 if one.path else one.min_files
        if len(new) < need:
            stale = f" ({len(paths) - len(new)} there, but not of this attempt)" if len(paths) > len(new) else ""
            what = one.path or f"{one.dir}/{one.pattern}"
            problems.append(f"{what}: {len(new)} of {need} required files{stale}")
        for path in new:
            problems += _wrong(one, path, workspace)
            outputs[path] = made[path]
    return Judgement(outputs, tuple(problems))


def _matches(one: Required, path: str) -> bool:
    if one.path:
        return path == one.path
    folder, _, name = path.rpartition("/")
    return folder == one.dir.rstrip("/") and fnmatchcase(name, one.pattern)


def _wrong(one: Required, path: str, workspace: Workspace) -> list[str]:
    """A file of any content is judged: what cannot be read is wrong, and no failure of ours."""
    try:
        data = workspace.read_bytes(path)
        if not data.strip() and not one.empty:
            return [f"{path}: it is empty"]
        if one.schema is None:
            return []
        found = Shape(one.schema).problems(json.loads(data.decode()))
    except ProblemError as error:
        return [error.problem.message]
    except RecursionError:
        return [f"{path}: it is nested too deeply"]
    except ValueError as error:
        return [f"{path}: it is no JSON in UTF-8 ({error})"]
    return [f"{path}: {p.field or 'value'}: {p.message or p.issue}" for p in found]
