"""The history of a run: what the model has said and been told, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, overload

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from . import records as r
from .records import Text, canonical

UNKNOWN_NOTE: Final = "It may or may not have happened. Read back before doing it again."


class HistoryItem(Struct, frozen=True, omit_defaults=True):
    """One message of the history. `cap` cuts its text to that many characters for the model (0 = whole)."""

    role: str
    parts: tuple[r.Part, ...]
    tool_calls: tuple[r.ToolCall, ...] = ()
    call_id: str = ""
    cap: int = 0


class History(Sequence[HistoryItem]):
    """Append-only and shared: every state looks at a prefix of one growing list, so a step costs O(1) and copies nothing."""

    __slots__ = ("_items", "_size")

    def __init__(self, items: list[HistoryItem] | None = None, size: int | None = None) -> None:
        self._items: list[HistoryItem] = [] if items is None else items
        self._size = len(self._items) if size is None else size

    def add(self, item: HistoryItem) -> History:
        items = self._items if self._size == len(self._items) else self._items[: self._size]
        items.append(item)
        return History(items, self._size + 1)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, index: int) -> HistoryItem: ...
    @overload
    def __getitem__(self, index: slice) -> list[HistoryItem]: ...
    def __getitem__(self, index: int | slice) -> HistoryItem | list[HistoryItem]:
        if isinstance(index, slice):
            return self._items[: self._size][index]
        if not -self._size <= index < self._size:
            raise IndexError(index)
        return self._items[index if index >= 0 else self._size + index]

    def __iter__(self) -> Iterator[HistoryItem]:
        return (self._items[i] for i in range(self._size))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # a growing list has no hash


def told_apart(calls: Sequence[r.ToolCall]) -> tuple[r.ToolCall, ...]:
    """Calls with an id each. A reply that says one id twice is refused, but shown; a source takes no request whose calls it cannot pair."""
    ids: dict[str, r.ToolCall] = {}
    for number, call in enumerate(calls):
        name = call.id
        while name in ids:
            name = f"{name}_{number}"
        ids[name] = replace(call, id=name)
    return tuple(ids.values())


def told(step: r.Step, result: r.ActionResult | None) -> tuple[r.Part, ...]:
    """What the model is told about a settled decision: a first line with the outcome, then the observation."""
    observation = result.observation if result else ()
    if step.rejection is not None:
        return (r.Part(text=f"[rejected: {step.rejection.code}] {step.rejection.message}\n"), *observation)
    head = f"[{step.tool}: {step.outcome}]" if step.tool else f"[{step.outcome}]"
    note = f" {UNKNOWN_NOTE}" if step.outcome == "unknown" else ""
    return (r.Part(text=f"{head}{note}\n"), *observation)


def carried_text(earlier: str, history: History, look: Callable[[Text], str]) -> str:
    """A history as one text, for the run that continues from it: a JSON list of its messages, texts in full."""
    items = [*carried(earlier), *(_whole(item, look) for item in history)]
    return canonical(items).decode() if items else ""


def _whole(item: HistoryItem, look: Callable[[Text], str]) -> HistoryItem:
    parts = tuple(replace(p, text=look(p.text)) for p in item.parts)
    calls = tuple(r.ToolCall(c.id, c.name, look(c.arguments)) for c in item.tool_calls)
    return replace(item, parts=parts, tool_calls=calls)


def carried(text: str) -> list[HistoryItem]:
    """The messages of a carried history."""
    return msgspec.convert(r.plain(text.encode()), list[HistoryItem]) if text else []
