"""What one caller has seen and may do: permission mode, what was issued, what was read, what went wrong.

Ids, offsets, selections and temporary references are all the same thing, a handle: a value issued as a `kind`, `under`
some owner, at one snapshot. Issuing at another snapshot withdraws what the same kind and owner had before, so only the
latest are valid; titles, names and ordinals are never handles.

A session is a fold over small facts. `note` applies one and keeps it in `fresh` for the driver to store in the
transaction of the call it belongs to; feeding stored facts to the constructor gives the same session back. A command
without `--session` gets one that does not last: rules that need an earlier call are not applied, all others are.
Seed: S0.4, S1.1-S1.3, S1.26, S1.32, S1.33, S1.43, S1.48-S1.54, S1.88.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, cast

from msgspec import Struct

from .problem import FieldProblem

Mode = Literal["read_only", "request_approval", "auto"]
Effect = Literal["read", "write", "pay"]
Verdict = Literal["allow", "ask", "deny"]
MAX_ATTEMPTS: Final = 3

#: May it run at once? By mode and effect; `confirm` and the want of a grant turn allow into ask. Reads are always allowed.
PERMISSION: Final[dict[tuple[Mode, Effect], Verdict]] = {
    ("read_only", "write"): "deny", ("read_only", "pay"): "deny",
    ("request_approval", "write"): "ask", ("request_approval", "pay"): "ask",
    ("auto", "write"): "allow", ("auto", "pay"): "allow",
}  # fmt: skip


def permission(mode: Mode, effect: Effect, *, confirm: bool, granted: bool) -> Verdict:
    """`confirm` = the leaf schema or the case at hand wants a person; `granted` = a spend grant covers the quote."""
    verdict = PERMISSION.get((mode, effect), "allow")
    return "ask" if verdict == "allow" and effect != "read" and (confirm or (effect == "pay" and not granted)) else verdict


class Issued(Struct, frozen=True, tag="issued", omit_defaults=True):
    """A response gave these out. `under` = whose they are, "" = nobody's; `snapshot` "" = valid as long as the session."""

    kind: str
    values: tuple[str | int, ...]
    under: str = ""
    snapshot: str = ""


class Handles:
    """What a session may name. In memory only: a fold over `Issued` facts."""

    def __init__(self) -> None:
        self._issued: dict[tuple[str, str], tuple[str, set[str | int]]] = {}

    def issue(self, fact: Issued) -> None:
        at, values = self._issued.get((fact.kind, fact.under), ("", set[str | int]()))
        if at != fact.snapshot:
            values = set[str | int]()
        values.update(fact.values)
        self._issued[fact.kind, fact.under] = (fact.snapshot, values)

    def knows(self, kind: str, value: str | int, under: str = "", snapshot: str = "") -> bool:
        """Was it issued, at `snapshot` where one is given?"""
        at, values = self._issued.get((kind, under), ("", set[str | int]()))
        return value in values and snapshot in ("", at)

    def given(self, kind: str, under: str, snapshot: str) -> frozenset[str | int]:
        """All that was issued of a kind, as far as it was issued at this snapshot."""
        at, values = self._issued.get((kind, under), ("", set[str | int]()))
        return frozenset(values if at == snapshot else ())

    def check(self, field: str, kind: str, value: str | int, under: str = "", snapshot: str = "") -> list[FieldProblem]:
        """No problem, or one with issue `not_issued`. An offset of 0 is everybody's."""
        if value == 0 or self.knows(kind, value, under, snapshot):
            return []
        return [FieldProblem(field, "not_issued", f"{str(value)[:80]} was not given out to this session")]


class Read(Struct, frozen=True, tag="read", omit_defaults=True):
    """`mark` (a kind of reading) of `id` was read up to `level`, at the state `token`. It lifts a block on `id`."""

    mark: str
    id: str = ""
    level: int = 0
    token: str = ""


class Missed(Struct, frozen=True, tag="missed"):
    """A call had wrong arguments."""

    operation: str


class Cleared(Struct, frozen=True, tag="cleared"):
    """A call succeeded."""

    operation: str


class Blocked(Struct, frozen=True, tag="blocked"):
    """Nothing may be written there until it has been read again (S1.43)."""

    id: str
    reason: str


Fact = Issued | Read | Missed | Cleared | Blocked


class Need(Struct, frozen=True):
    """What must have been read before: at least `level`, at `token` ("" = at any state). `field` names the argument."""

    field: str
    mark: str
    id: str = ""
    level: int = 0
    token: str = ""


class Session:
    """In memory; `fresh` are the facts not yet stored."""

    def __init__(self, mode: Mode, facts: Iterable[Fact] = (), *, lasting: bool = True) -> None:
        self.mode: Mode = mode
        self.lasting = lasting
        self.handles = Handles()
        self.fresh: list[Fact] = []
        self._reads: dict[tuple[str, str], Read] = {}
        self._missed: Counter[str] = Counter()
        self._blocked: dict[str, str] = {}
        for fact in facts:
            self._apply(fact)

    def note(self, *facts: Fact) -> None:
        for fact in facts:
            self._apply(fact)
            self.fresh.append(fact)

    def _apply(self, fact: Fact) -> None:
        match fact:
            case Issued():
                self.handles.issue(fact)
            case Read():
                last = self._reads.get((fact.mark, fact.id))
                if last is None or last.token != fact.token or last.level < fact.level:
                    self._reads[fact.mark, fact.id] = fact
                self._blocked.pop(fact.id, None)
            case Missed():
                self._missed[fact.operation] += 1
            case Cleared():
                del self._missed[fact.operation]
            case _:
                self._blocked[fact.id] = fact.reason

    def attempts(self, operation: str) -> int:
        """Argument failures in a row; at MAX_ATTEMPTS the operation is withdrawn from this session."""
        return self._missed[operation]

    def unissued(self, kinds: Mapping[str, str], arguments: Mapping[str, Any]) -> list[FieldProblem]:
        """Arguments that must be handles of a kind (`{argument: kind}`) and were not issued here (S1.26)."""
        if not self.lasting:
            return []
        given = ((name, arguments[name]) for name in sorted(kinds.keys() & arguments.keys()))
        parts = ((name, part) for name, value in given for part in cast("list[str | int]", value if isinstance(value, list) else [value]))
        return [found for name, part in parts for found in self.handles.check(name, kinds[name], part)]

    def unread(self, needs: Sequence[Need], target: str = "") -> list[FieldProblem]:
        """What must be read first, each with issue `read_first`."""
        if not self.lasting:
            return []
        blocked = [FieldProblem("", "read_first", self._blocked[target])] if target in self._blocked else []
        return [*blocked, *(FieldProblem(n.field, "read_first", f"read {n.mark} first") for n in needs if not self._has_read(n))]

    def reading(self, mark: str, read_id: str) -> Read | None:
        """What was last noted of a reading."""
        return self._reads.get((mark, read_id))

    def _has_read(self, need: Need) -> bool:
        read = self.reading(need.mark, need.id)
        return read is not None and read.level >= need.level and need.token in ("", read.token)
