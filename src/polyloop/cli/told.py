"""The one sentence over an answer: what is true of it, and nothing better (S1.36, S1.37, S1.47)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from polyloop.contract.problem import is_object
from polyloop.contract.task import PHASES
from polyloop.words.catalog import Lang, say

#: Where what an operation began or asked for still is, when it has itself been carried out.
_OPEN: Final = frozenset({"waiting", "running", "unknown"})


def headline(lang: Lang, name: str, answer: Mapping[str, Any]) -> str:
    """`answer` as it is printed with --json; `name` = the operation, where the answer does not say it."""
    error, data = (found if is_object(found := answer.get(part)) else {} for part in ("error", "data"))
    operation = str(answer.get("operation") or error.get("operation") or name)
    if answer.get("executed") is False:
        return say("doc.planned", lang, operation=operation)
    if "taskId" in answer and "state" in answer:
        return say(f"told.{_standing(answer)}", lang, operation=operation)
    if error:
        details = error.get("details")
        return say(f"doc.{(details.get('status') if is_object(details) else '') or 'failed'}", lang, operation=operation)
    begun = PHASES.get(str(data.get("state")), "") if {"taskId", "taskIds"} & data.keys() else ""
    return say(f"told.{begun}" if begun in _OPEN else "doc.success", lang, operation=operation)


def _standing(task: Mapping[str, Any]) -> str:
    """A task's phase; one that succeeded is done only when its result can be read, and on its node only when it was put there."""
    phase = PHASES.get(str(task["state"]), "unknown")
    if phase != "succeeded":
        return phase
    written = task.get("writeback")
    lost = is_object(written) and written.get("outcome") == "not_applied"
    return "unreadable" if not task.get("complete") else "lost" if lost else phase
