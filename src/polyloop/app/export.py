"""A run's log for others: `chain` to check every hash with nothing of this project, `jsonl` to read, `html` for people."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from polyloop.contract.problem import problem
from polyloop.files import FileProblem, Root, write_atomic
from polyloop.kernel.records import canonical
from polyloop.kernel.seams import Sealed

FORMATS: Final = ("chain", "jsonl", "html")


def chain(sealed: Iterable[Sealed]) -> bytes:
    """One line a record: `{prev, seq, kind, at, fence, salt, body, body_digest, hash}`; `body` null = erased.

    `body_digest = sha256(salt + body)`, `hash = sha256("\\n".join(prev, seq, kind, at, fence, body_digest))`, all as UTF-8 text.
    """
    return b"".join(canonical(_line(s)) + b"\n" for s in sealed)


def _line(s: Sealed) -> dict[str, Any]:
    body = None if s.body is None else s.body.decode()
    return {
        "prev": s.prev, "seq": s.seq, "kind": s.kind, "at": s.at, "fence": s.fence, "salt": s.salt, "body": body,
        "body_digest": s.body_digest, "hash": s.hash,
    }  # fmt: skip


def land(out: str, data: bytes) -> None:
    """Write a new file where a person says, whole or not at all, never over an existing one. Raises ProblemError."""
    place = Path(out).absolute()
    try:
        with Root(place.parent) as folder:
            write_atomic(folder, place.name, data, if_absent=True)
    except FileProblem as e:
        details = e.details
        raise problem(e.kind, e.message, operation="export", stage="landing", execution_started=e.started, details=details) from e
