"""The state a write was based on: typed hashes and revisions, compared in the transaction of the write.

A hash is `kind:hex`, so that one of another kind is a mistake in the argument and never "merely stale". A stale write
changes nothing and is told what changed. Seed: S1.31, S1.87 (a stale snapshot is read again, never replayed).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .problem import FieldProblem, problem

_encode: Final = msgspec.json.Encoder(order="sorted").encode
State = str | int


def digest(value: object) -> str:
    """sha256 hex of the canonical JSON of `value` (sorted keys, no blanks, UTF-8)."""
    return hashlib.sha256(_encode(value)).hexdigest()


def stamp(kind: str, content: object) -> str:
    """The typed hash of a content."""
    return f"{kind}:{digest(content)}"


def kind_of(state: State) -> str:
    """The prefix of a typed hash; `revision` for a number."""
    return "revision" if isinstance(state, int) else state.partition(":")[0]


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, list[str]]:
    """Which ids were added, updated (other hash) or removed between two states, each list sorted."""
    return {
        "added": sorted(after.keys() - before.keys()),
        "updated": sorted(k for k in before.keys() & after.keys() if before[k] != after[k]),
        "removed": sorted(before.keys() - after.keys()),
    }


def wrong_kind(field: str, expected: State | None, current: State | None) -> list[FieldProblem]:
    """A problem (issue `wrong_kind`) when a hash of another kind was named; it could never be current."""
    if expected is None or current is None or kind_of(expected) == kind_of(current):
        return []
    return [FieldProblem(field, "wrong_kind", f"a {kind_of(expected)[:20]!r} hash where a {kind_of(current)!r} hash belongs")]


def require_current(field: str, expected: State | None, current: State | None, changed: Mapping[str, Any]) -> None:
    """Raise revision_conflict with `details{field, expected, current, changed}` unless `expected` (None = any) is the state now."""
    if expected is None or expected == current:
        return
    details = {"field": field, "expected": expected, "current": current, "changed": dict(changed)}
    raise problem("revision_conflict", "the target has changed since it was read; nothing was written", stage="precondition", details=details)
