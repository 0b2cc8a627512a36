"""What a run did, as its log proves it: deeds, readings, defaults taken. Pure.

A deed is one action that may change something, or one task. Its status is the one of its receipt or ticket, the latest word
under the same reference; an action without either is `reported`: its tool says so, and nobody else (S1.5). A try that provably
changed nothing, and after which one of its kind succeeded, is `again`. Seed: S1.5, S1.6, S1.22, S1.36-S1.38, S1.89, S1.90, S1.97.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import KINDS, is_object
from ..contract.task import PHASES
from ..kernel import records as r
from ..kernel.view import Look
from .sub_run import SUB_RUN
from .thread import ASK_USER, KIND_BY_CODE

#: Tools by name, and what is done with them; the first that fits.
DOINGS: Final[tuple[tuple[str, str], ...]] = (
    ("canvas_arrange_*", "arrange"), ("canvas_*storyboard", "storyboard"), ("canvas_*batch_table", "batch"), ("canvas_*", "canvas"),
    ("generate_media", "media"), ("image_*", "picture"), ("doc_create*", "create"), ("doc_*update", "update"), ("doc_version_*", "version"),
    ("doc_copy", "place"), ("doc_move", "place"), ("doc_rename", "place"), ("doc_delete", "remove"), ("doc_restore", "remove"),
    ("doc_purge", "remove"), ("doc_comment_*", "comment"), ("doc_access_*", "access"), ("doc_import*", "import"), ("doc_export*", "export"),
    ("doc_compensate", "undo"), ("doc_task_*", "export"), ("workspace_exec", "exec"), ("workspace_*", "files"),
)  # fmt: skip
GOOD: Final = frozenset({"success", "succeeded", "reported"})
#: Statuses of a try that changed nothing, for one of these reasons: what is done after it may make up for it.
_IDLE: Final = frozenset({"failed", "retryable", "not_started"})
_SLIPS: Final = frozenset({"revision_conflict", "validation", "rate_limited"})
_BY_STATUS: Final[dict[str, str]] = {"ok": "reported", "error": "failed", "unknown": "unknown", "not_executed": "not_started"}


class Deed(Struct, frozen=True):
    """`what` = a value of DOINGS or other; `why` = a kind of problem, timeout or other; "" where it went well."""

    what: str
    status: str
    why: str = ""


class Facts(Struct, frozen=True):
    """`assumed` = (title, answer) of defaults taken; `names` = names of tools and models, which are for no person; `asks` = a sub-run waits

    for the person's answer.
    """

    deeds: tuple[Deed, ...] = ()
    reads: int = 0
    assumed: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    asks: bool = False


def doing(tool: str) -> str:
    return next((what for pattern, what in DOINGS if fnmatchcase(tool, pattern)), "other")


def facts(records: Iterable[r.Record], look: Look) -> Facts:
    """Fold the records of one run."""
    fold = _Fold(look)
    for record in records:
        fold.feed(record)
    return fold.facts()


class _Fold:
    def __init__(self, look: Look) -> None:
        self.look = look
        self.completing, self.names = set[str](), set[str]()
        self.open = dict[int, r.ActionIntent]()
        self.deferred = dict[int, Deed]()
        self.deeds = dict[str, Deed]()
        self.assumed = dict[str, str]()
        self.reads = 0
        self.asks = False

    def feed(self, record: r.Record) -> None:
        match record:
            case r.RunStarted():
                self.completing = {t.name for t in record.tools if t.completes}
                self.names |= {t.name for t in record.tools} | {record.assembly.get(key, "") for key in ("model", "sub_model")}
            case r.ModelResult():
                self.names.add(record.served_by)
            case r.ActionIntent() if record.tool not in self.completing:
                self.open[record.call] = record
            case r.ActionDeferred() if record.call in self.open:
                self.deferred[record.call] = Deed(doing(self.open[record.call].tool), _awaited(record))
                self.asks = record.awaited == "run" and is_object(record.prompt) and record.prompt.get("asks") is True
            case r.ActionResult() if (intent := self.open.pop(record.call, None)) is not None:
                self.deferred.pop(record.call, None)
                self.asks = False
                self._ended(intent, record)
            case _:
                pass

    def _ended(self, intent: r.ActionIntent, result: r.ActionResult) -> None:
        told = _object("".join(self.look(part.text) for part in result.observation if part.type == "text"))
        if intent.tool == ASK_USER:
            self._heard(told)
            return
        if intent.tool == SUB_RUN:
            self._heard(told)
        proofs = [e for e in result.evidence if e.type in ("receipt", "ticket")]
        if intent.effect == "read":
            self.reads += 1
        for proof in proofs:
            before = self.deeds.get(proof.ref)
            self._add(proof.ref, Deed(before.what if before else doing(intent.tool), _proved(proof)), told, result.code)
        if not proofs and intent.effect != "read":
            self._add(intent.key, Deed(doing(intent.tool), _BY_STATUS[result.status]), told, result.code)

    def _add(self, ref: str, deed: Deed, told: dict[str, Any], code: str) -> None:
        if deed.status in GOOD:
            for other, old in self.deeds.items():
                if old.what == deed.what and old.status in _IDLE and (old.why in _SLIPS or old.status == "retryable"):
                    self.deeds[other] = replace(old, status="again")
        self.deeds[ref] = deed if deed.status in GOOD else replace(deed, why=_why(told, code))

    def _heard(self, told: dict[str, Any]) -> None:
        for one in told.get("assumptions") or ():
            self.assumed[str(one["title"])] = str(one["answer"])

    def facts(self) -> Facts:
        """What is open has no result in this log: it waits, or nobody knows."""
        left = [
            self.deferred.get(call, Deed(doing(i.tool), "unknown", "other"))
            for call, i in self.open.items()
            if i.tool != ASK_USER and i.effect != "read"
        ]
        return Facts((*self.deeds.values(), *left), self.reads, tuple(self.assumed.items()), tuple(sorted(self.names - {""})), self.asks)


def _awaited(record: r.ActionDeferred) -> str:
    if record.awaited == "task":
        state = record.prompt.get("state", "") if is_object(record.prompt) else ""
        return PHASES.get(str(state), "running")
    return "awaiting" if record.awaited == "approval" else "unknown" if record.awaited == "settle" else "running"


def _proved(proof: r.Evidence) -> str:
    if proof.type == "receipt":
        return proof.status
    phase = PHASES.get(proof.status, "unknown")
    return "unreadable" if phase == "succeeded" and not proof.complete else phase


#: Causes that are no kind of problem, each with words of its own.
_OWN: Final = frozenset({"timeout", "expired"})


def _why(told: dict[str, Any], code: str) -> str:
    """The cause, not its summary: of a write that stopped half way, what stopped it."""
    error = _part(told, "error")
    failures = cast("list[object]", _part(error, "details").get("failures") or [])
    said = [*(f.get("kind") for f in failures if is_object(f)), error.get("kind"), KIND_BY_CODE.get(code, code)]
    return next((str(kind) for kind in said if kind in KINDS or kind in _OWN), "other")


def _part(told: dict[str, Any], name: str) -> dict[str, Any]:
    part: object = told.get(name)
    return part if is_object(part) else {}


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # a tool may answer with any text
        return {}
    return value if is_object(value) else {}
