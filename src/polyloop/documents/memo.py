"""What is kept of a plan beside its entry in the journal."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from ..contract.snapshot import digest


class Undo(Struct, frozen=True):
    """How to take a write back. `before` = its argument `revision` is the one before the write."""

    operation: str
    arguments: dict[str, Any]
    before: bool = False


class Memo(Struct, frozen=True, kw_only=True):
    """Which facts must hold after each step, how to take it back, what it was about.

    `content` = digest of what is written; `mark` numbers its blocks. Both are for who goes on with it.
    """

    facts: dict[str, dict[str, Any]] = {}
    undo: Undo | None = None
    warnings: tuple[str, ...] = ()
    content: str = ""
    mark: str = ""

    @property
    def text(self) -> str:
        """As the journal keeps it."""
        return msgspec.json.encode(self).decode()


def without_words(text: str) -> str:
    """The memo of an operation on what was purged: no titles, no labels, no task with a title in it, nothing to take back."""
    memo = memo_of(text)
    facts = {step: {name: fact for name, fact in held.items() if name not in ("title", "label", "body")} for step, held in memo.facts.items()}
    return msgspec.structs.replace(memo, facts=facts, undo=None).text


def mark_of(operation_id: str) -> str:
    """What numbers the blocks an operation writes."""
    return digest(operation_id)[:10]


def memo_of(text: str) -> Memo:
    return msgspec.json.decode(text, type=Memo)
