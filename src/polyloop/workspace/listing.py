"""Listing files by pages whose end proves that everything was shown (S0.26-S0.29).

A continuation is bound to the glob, to a digest of all paths that matched, and signed with a secret of the workspace: a
page can only be the last of a whole, unchanged list if it continues the pages before it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import cast

from msgspec import Struct

from ..contract.problem import ProblemError, problem
from ..files import Entry
from . import limits
from .reading import json_bytes


class File(Struct, frozen=True):
    path: str
    bytes: int


class Page(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`covered` files of `count` have been shown with this page. `others` = links and special files, which have no part in it."""

    files: tuple[File, ...]
    count: int
    covered: int
    complete: bool
    has_more: bool
    others: int = 0
    continuation: str | None = None


def page(glob: str, found: Sequence[Entry], others: int, continuation: str | None, secret: bytes) -> Page:
    """Raises ProblemError (pagination): a continuation that is foreign, of another glob, or of a list that has changed."""
    snapshot = hashlib.sha256("\n".join(e.path for e in found).encode()).hexdigest()[:32]
    begin = 0 if not continuation else _covered(continuation, glob, snapshot, secret)
    files: list[File] = []
    room = limits.ANSWER_BYTES
    for entry in found[begin : begin + limits.PAGE_FILES]:
        room -= json_bytes(entry.path) + 30
        if room < 0 and files:
            break
        files.append(File(entry.path, entry.bytes))
    covered = begin + len(files)
    more = covered < len(found)
    return Page(tuple(files), len(found), covered, not more, more, others, _signed([glob, snapshot, covered], secret) if more else None)


def _signed(body: list[str | int], secret: bytes) -> str:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(hmac.digest(secret, text, "sha256")[:12] + text).decode()


def _covered(continuation: str, glob: str, snapshot: str, secret: bytes) -> int:
    try:
        raw = base64.urlsafe_b64decode(continuation.encode("ascii"))
    except ValueError as error:
        raise _broken("foreign_cursor") from error
    if not hmac.compare_digest(raw[:12], hmac.digest(secret, raw[12:], "sha256")[:12]):
        raise _broken("foreign_cursor")
    of, at, covered = cast("list[str | int]", json.loads(raw[12:]))
    if of != glob:
        raise _broken("query_changed")
    if at != snapshot:
        raise _broken("list_changed")
    return int(covered)


def _broken(reason: str) -> ProblemError:
    text = {
        "foreign_cursor": "this continuation was not given by this workspace",
        "query_changed": "this continuation belongs to another glob",
        "list_changed": "files have come or gone since the first page",
    }[reason]
    return problem("pagination", f"{text}: list again without a continuation", details={"reason": reason, "complete": False})
