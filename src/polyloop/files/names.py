"""Names of files as outsiders may give them, and the faults of paths. Purely lexical; `resolve.py` does the walking."""

from __future__ import annotations

import errno
import os
import re
from typing import Any, Final, Literal

Kind = Literal["validation", "permission_denied", "not_found", "conflict", "type_mismatch", "local_io", "commit_unknown"]

#: Bytes of one name and of a whole path, as the systems have them.
NAME_BYTES: Final = 255
PATH_BYTES: Final = 4096
#: Characters of a path that an error repeats.
SHOWN_CHARS: Final = 200
#: Names of files that are still being written. Nobody else may use them, and no walk shows them.
TEMPORARY: Final = ".polyloop-tmp-"

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_DRIVE: Final = re.compile("[A-Za-z]:")
#: Devices of other systems: they answer to these names in every folder, whatever the ending and the case.
_DEVICE: Final = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9\u00b9\u00b2\u00b3]|conin\$|conout\$|clock\$) *([.:].*)?", re.IGNORECASE | re.DOTALL)
_BY_ERRNO: Final[dict[int, tuple[Kind, str]]] = {
    errno.ELOOP: ("permission_denied", "a link stands in the way, and links are not followed"),
    errno.EXDEV: ("permission_denied", "it leads out of the folder"),
    errno.EACCES: ("permission_denied", "the system does not permit it"),
    errno.EPERM: ("permission_denied", "the system does not permit it"),
    errno.ENOENT: ("not_found", "there is no such file"),
    errno.ENOTDIR: ("type_mismatch", "a part of the path is not a folder"),
    errno.EISDIR: ("type_mismatch", "it is a folder"),
    errno.ENXIO: ("type_mismatch", "it is not a regular file"),
    errno.EEXIST: ("conflict", "it exists already"),
    errno.ENAMETOOLONG: ("validation", "the name is too long"),
}


class FileProblem(Exception):
    """Something is wrong with a path or a file. `kind` is a kind of the contract; `message` never holds a file's content.

    `started` None = a write may have taken effect (kind commit_unknown only).
    """

    def __init__(self, kind: Kind, path: str, message: str, **details: Any) -> None:
        shown = path if len(path) <= SHOWN_CHARS else path[:SHOWN_CHARS] + "..."
        super().__init__(f"{kind}: {shown!r}: {message}")
        self.kind: Kind = kind
        self.message = f"{shown!r}: {message}"
        self.details: dict[str, Any] = {"path": shown.encode("utf-8", "replace").decode(), **details}
        self.started: bool | None = None if kind == "commit_unknown" else False


def file_problem(error: OSError, path: str) -> FileProblem:
    """What a system call's error means for a caller's path."""
    kind, text = _BY_ERRNO.get(error.errno or 0, ("local_io", os.strerror(error.errno) if error.errno else str(error)))
    return FileProblem(kind, path, text)


def parts_of(path: str) -> tuple[str, ...]:
    """The components of a relative path.

    Raises FileProblem: permission_denied for what tries to leave the folder (absolute, drive letter, `..`), validation for
    names that are empty, `.`, too long, or hold NUL, control characters, backslashes or text that is no Unicode.
    """
    wrong = _wrong(path)
    if wrong:
        raise FileProblem("validation", path, wrong)
    parts = tuple(path.split("/"))
    if path.startswith("/") or _DRIVE.match(path) or ".." in parts:
        raise FileProblem("permission_denied", path, "it leads out of the folder: a path is relative and has no `..`")
    for part in parts:
        wrong = _wrong_part(part)
        if wrong:
            raise FileProblem("validation", path, wrong)
    return parts


def portable(path: str) -> tuple[str, ...]:
    """`parts_of`, for a file that is to be made: it must mean the same file on every system that the folder may come to.

    Raises FileProblem as `parts_of` does, and validation for a device's name or a dot or blank at the end of a part (S2.25).
    """
    parts = parts_of(path)
    for part in parts:
        if _DEVICE.fullmatch(part):
            raise FileProblem("validation", path, "some systems keep this name for a device: choose another")
        if part.endswith((".", " ")):
            raise FileProblem("validation", path, "some systems drop a dot or blank at the end of a name: leave it out")
    return parts


def _wrong(path: str) -> str:
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if not path:
        return "a path is not empty"
    if _CONTROL.search(path):
        return "a path has no control characters"
    if "\\" in path:
        return "folders are separated by /"
    return "the path is too long" if size > PATH_BYTES else ""


def _wrong_part(part: str) -> str:
    if part in ("", "."):
        return "a path has no empty parts and no `.`: write a/b, not ./a//b/"
    if part.startswith(TEMPORARY):
        return "this name is kept for files being written"
    return "a name in the path is too long" if len(part.encode()) > NAME_BYTES else ""
