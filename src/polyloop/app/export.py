"""A run's log for others: `chain` to check every hash with nothing of this project, `jsonl` to read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from polyloop.kernel.records import canonical
from polyloop.kernel.seams import Sealed

FORMATS: Final = ("chain", "jsonl")


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


def land(out: Path, data: bytes) -> None:
    """Write a new file for a person, whole or not at all; never over an existing one. Raises ProblemError."""
    from polyloop.files import Root

    with Root(out.parent) as folder:
        folder.write_atomic(out.name, data, if_absent=True)
