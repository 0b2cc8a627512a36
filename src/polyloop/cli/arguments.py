"""Arguments of an operation as a person gives them: a file, or standard input, that holds one JSON object."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final, cast

from polyloop.contract.problem import problem
from polyloop.files import FileProblem, read_named
from polyloop.toolbox.permission import MODES, Mode

#: Bytes of one operation's arguments: more than any of them takes, and little enough to be held.
MOST: Final = 96 << 20


def arguments(source: str, operation: str, option: str = "--args") -> dict[str, Any]:
    """Raises ProblemError(validation) for what is no JSON object, or more than MOST bytes."""
    try:
        data = sys.stdin.buffer.read(MOST + 1) if source == "-" else read_named(Path(source), MOST)
        if len(data) > MOST:
            raise _no_arguments(f"{option}: more than {MOST} bytes", "too_large", operation)
        value = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except FileProblem as error:
        raise _no_arguments(f"{option}: {error.message}", "not_readable", operation) from error
    except (OSError, ValueError, RecursionError) as error:
        raise _no_arguments(f"{option}: {error}", "not_json", operation) from error
    if not isinstance(value, dict):
        raise _no_arguments(f"{option}: a JSON object is needed", "wrong_type", operation)
    return cast("dict[str, Any]", value)


def mode_of(word: str, operation: str) -> Mode:
    """Raises ProblemError(validation) for a permission mode there is not."""
    for mode in MODES:
        if mode == word:
            return mode
    details = {"field": "mode", "issue": "invalid_value"}
    raise problem("validation", f"--mode is one of {', '.join(MODES)}", operation=operation, stage="arguments", details=details)


def _no_arguments(why: str, issue: str, operation: str) -> Exception:
    return problem("validation", why, operation=operation, stage="arguments", details={"field": "", "issue": issue})


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
