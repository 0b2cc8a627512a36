"""What the model sees: segments in their order, the history at its slot. Deterministic and O(1) per step.

The kernel decides only the order of segments and the place of the slots (S2.34); it reads no workspace and calls nothing back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar, overload

from . import records as r
from .cap import capped, cut
from .history import HistoryItem, carried
from .machine import State
from .objects import ToolSpec
from .records import BlobRef, Text, canonical
from .seams import Message

T = TypeVar("T", HistoryItem, Message)


class Messages(Sequence[Message]):
    """An immutable view: messages before the history, the history, messages after. Texts are looked up when read."""

    __slots__ = ("_after", "_before", "_cap", "_history", "_look")

    def __init__(
        self, before: tuple[Message, ...], history: Sequence[HistoryItem], after: tuple[Message, ...], look: Callable[[Text], str], cap: int = 0
    ) -> None:
        """`cap` = characters of each observation that are shown, 0 = all."""
        self._before, self._history, self._after, self._look, self._cap = before, history, after, look, cap

    def __len__(self) -> int:
        return len(self._before) + len(self._history) + len(self._after)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        if i < len(self._before):
            return self._before[i]
        i -= len(self._before)
        if i < len(self._history):
            return self._message(self._history[i])
        return self._after[i - len(self._history)]

    def _message(self, item: HistoryItem) -> Message:
        said = item.role == "assistant"
        parts = tuple(self._part(p, item.cap, 0 if said or i == 0 else self._cap) for i, p in enumerate(item.parts))  # the first line is ours
        calls = tuple(r.ToolCall(c.id, c.name, self._arguments(c, item.cap)) for c in item.tool_calls)
        return Message(item.role, parts, calls, item.call_id)

    def _arguments(self, call: r.ToolCall, cap: int) -> str:
        """Long ones of a refused reply are cut like its text, and stay JSON: sources read them."""
        text = self._look(call.arguments)
        return canonical({"cut": cut(text, cap)}).decode() if 0 < cap < len(text) else text

    def _part(self, part: r.Part, cap: int, observed: int) -> r.Part:
        text = self._look(part.text)
        if part.type != "text":
            return r.Part(part.type, text, part.blob, part.mime)
        return r.Part(text=cut(text, cap) if cap else capped(text, observed) if observed else text)


def messages(s: State, specs: Mapping[str, ToolSpec], look: Callable[[Text], str]) -> Messages:
    """The view for the next model call. Without a history slot the history comes last."""
    before: list[Message] = []
    after: list[Message] = []
    target, segments = before, s.start.segments if s.start else ()
    for seg in segments:
        if seg.slot == "history":
            target = after
        else:
            text = _slot_text(s, seg.slot, specs) if seg.slot else "".join(look(p.text) for p in seg.parts)
            target.append(Message(seg.role, (r.Part(text=text),)))
    policy, size = _policy(s.start.overflow if s.start else "none")
    cap = size if policy == "cap_observation" else 0
    earlier: Sequence[Message] = _carried(look(s.start.history), cap) if s.start and s.start.history else ()
    history: Sequence[HistoryItem] = s.history
    if policy == "window":
        history, left = _last(history, size)
        earlier, _ = _last(earlier, left)
    return Messages((*before, *earlier), history, tuple(after), look, cap)


def _policy(overflow: str) -> tuple[str, int]:
    """An overflow policy's name and number: none, window(k), cap_observation(n)."""
    name, _, size = overflow.rstrip(")").partition("(")
    return name, int(size or 0)


def _last(items: Sequence[T], replies: int) -> tuple[Sequence[T], int]:
    """The last so many replies and what was said to each; how many more there could have been."""
    at = len(items)
    while at > 0 and replies > 0:
        at -= 1
        replies -= items[at].role == "assistant"
    return items[at:], replies


@lru_cache(maxsize=64)
def _carried(text: str, cap: int) -> tuple[Message, ...]:
    """The messages of the run this one continues; the same text gives the same messages at every step."""
    view = Messages((), carried(text), (), look_up({}), cap)
    return tuple(view)


def _slot_text(s: State, slot: str, specs: Mapping[str, ToolSpec]) -> str:
    return tools_text(specs.values()) if slot == "tools" else notice_text(s)


def tools_text(specs: Iterable[ToolSpec]) -> str:
    """The registry as text: the same schemas that are checked (R6)."""
    lines = ['Answer with one JSON object: {"reflection": ..., "plan": ..., "action": {"tool": NAME, "args": {...}}}. Tools:']
    lines += [f"- {t.name}: {t.description} args: {canonical(t.schema).decode()}" for t in specs]
    return "\n".join(lines)


def notice_text(s: State) -> str:
    c, budget = s.counters, s.budget
    return f"Steps used: {c.valid_steps} of {budget.max_valid_steps}. Replies used: {c.iterations} of {budget.max_iterations}."


def look_up(texts: Mapping[str, str]) -> Callable[[Text], str]:
    """A resolver over texts that are in memory. An erased text reads as a marker, not as silence."""

    def look(text: Text) -> str:
        if isinstance(text, BlobRef):
            return texts.get(text.blob, f"[erased: {text.size} bytes]")
        return text

    return look
