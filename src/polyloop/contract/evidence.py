"""Whether a submission may stand: everything unsettled is named, every claim cites something that supports it.

Items are what the run's log recorded (the last word on a `ref` wins): receipts, tickets, lists, log records. Seed: S0.24,
S0.32, S0.34, S1.5, S1.6, S1.37, S1.97.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from .schema import Shape, closed

_REFS: Final = {"type": "array", "items": {"type": "string"}}
_CLAIM: Final = {
    "type": "object", "required": ["text", "evidence"],
    "properties": {
        "text": {"type": "string"}, "evidence": _REFS, "scope": {"enum": ["all", "covered"]}, "unverified": {"type": "boolean"},
    },
}  # fmt: skip
SUBMISSION: Final[Shape] = closed({
    "type": "object", "required": ["summary"],
    "properties": {"summary": {"type": "string"}, "result": {}, "claims": {"type": "array", "items": _CLAIM}, "unsettled": _REFS},
})  # fmt: skip


def cited(submission: Mapping[str, Any]) -> list[str]:
    """Every reference in it, each once; none of one that is no submission."""
    if SUBMISSION.problems(submission):
        return []
    claims = submission.get("claims", [])
    return list(dict.fromkeys([*submission.get("unsettled", []), *(ref for claim in claims for ref in claim["evidence"])]))


class Item(Struct, frozen=True, kw_only=True):
    """Something citable. `complete` = what it says is whole: success of a receipt or ticket, coverage of a list, None = no such question."""

    ref: str
    type: str
    run: str = ""
    status: str = ""
    settled: bool = True
    complete: bool | None = None


class Refusal(Struct, frozen=True):
    """Why not. `claim` is its index, -1 = the whole submission; issues: invalid, unsettled, no_evidence, unknown_ref, unsupported, incomplete."""

    issue: str
    ref: str = ""
    claim: int = -1


class Evidence:
    """The citable items of one or more runs."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items = {item.ref: item for item in items}

    def unsettled(self, run: str) -> list[str]:
        """Refs of that run that are still open: unknown, partial, or a task not ended."""
        return [item.ref for item in self._items.values() if item.run == run and not item.settled]

    def has(self, ref: str) -> bool:
        return ref in self._items

    def complete(self, ref: str) -> bool | None:
        return self._items[ref].complete if ref in self._items else None

    def check(self, run: str, submission: Mapping[str, Any]) -> list[Refusal]:
        """Everything that stands against it, empty = it may stand."""
        if wrong := SUBMISSION.problems(submission):
            return [Refusal("invalid", f"{p.field}: {p.issue}") for p in wrong]
        named: list[str] = submission.get("unsettled", [])
        out = [Refusal("unsettled", ref) for ref in self.unsettled(run) if ref not in named]
        out += [Refusal("unknown_ref", ref) for ref in named if not self.has(ref)]
        for no, claim in enumerate(submission.get("claims", [])):
            if not claim["evidence"] and not claim.get("unverified"):
                out.append(Refusal("no_evidence", claim=no))
            out += [Refusal(issue, ref, no) for ref in claim["evidence"] if (issue := self._against(ref, claim))]
        return out

    def _against(self, ref: str, claim: Mapping[str, Any]) -> str:
        item = self._items.get(ref)
        if item is None:
            return "unknown_ref"
        if claim.get("unverified") or item.complete is not False:
            return ""
        if item.type != "list":
            return "unsupported"  # a receipt or ticket that is no success proves nothing done
        return "incomplete" if claim.get("scope") == "all" else ""
