"""What a run did, as its log proves it: deeds, readings, defaults taken. Pure.

A deed is one action that may change something, or one task. Its status is the one of its receipt or ticket, the latest word
under the same reference; an action without either is `reported`: its tool says so, and nobody else (S1.5). A success that found
everything as it was to be is `unchanged`. A call that was refused before it was one, and is no reading, is a deed that was not
begun. A try that provably changed nothing, and after which one of its kind on the same things succeeded, is `again`. Trials without
effect are readings. Readings that failed, and were not made up for, are told apart: they leave nothing undone, but something
unknown. Seed: S1.5, S1.6, S1.22, S1.36-S1.38, S1.89, S1.90, S1.97.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import KINDS, is_object
from ..contract.task import PHASES
from ..kernel import records as r
from ..kernel.view import Look
from .sub_run import SUB_RUN, SUBMIT
from .thread import ASK_USER, KIND_BY_CODE

#: Tools by name, and what is done with them; the first that fits.
DOINGS: Final[tuple[tuple[str, str], ...]] = (
    ("canvas_arrange_*", "arrange"), ("canvas_*storyboard", "storyboard"), ("canvas_*batch_table", "batch"), ("canvas_*", "canvas"),
    ("generate_media", "media"), ("image_*", "picture"), ("doc_create*", "create"), ("doc_*update", "update"), ("doc_version_*", "version"),
    ("doc_copy", "place"), ("doc_move", "place"), ("doc_rename", "place"), ("doc_delete", "remove"), ("doc_restore", "remove"),
    ("doc_purge", "remove"), ("doc_comment_*", "comment"), ("doc_access_*", "access"), ("doc_import*", "import"), ("doc_export*", "export"),
    ("doc_compensate", "undo"), ("doc_task_cancel", "stop"), ("doc_task_*", "export"), ("workspace_exec", "exec"), ("workspace_*", "files"),
)  # fmt: skip
GOOD: Final = frozenset({"success", "succeeded", "reported"})
ID_MAX: Final = 200
#: Warnings of a success that found everything as it was to be.
_AS_IT_WAS: Final = frozenset({"no_change", "nothing_to_arrange"})
#: Statuses of a try that changed nothing, for one of these reasons: what is done after it may make up for it.
_IDLE: Final = frozenset({"failed", "retryable", "not_started"})
_SLIPS: Final = frozenset({"revision_conflict", "validation", "rate_limited"})
#: Statuses that a task may have left since.
_GOES_ON: Final = frozenset({"waiting", "running", "unsettled"})
_UNDER_WAY: Final = _GOES_ON | {"unknown"}
_BY_STATUS: Final[dict[str, str]] = {"ok": "reported", "error": "failed", "unknown": "unknown", "not_executed": "not_started"}


class Deed(Struct, frozen=True):
    """`what` = a value of DOINGS, look or other; `why` = a kind of problem, timeout or other; "" where it went well."""

    what: str
    status: str
    why: str = ""


class Facts(Struct, frozen=True):
    """`reads` = readings that worked; `unread` = those that did not, the last of each tool; `assumed` = (title, answer) of defaults taken;

    `names` = names of tools and models, and ids that were handed out: they are for no person.
    """

    deeds: tuple[Deed, ...] = ()
    reads: int = 0
    assumed: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()
    unread: tuple[Deed, ...] = ()


def doing(tool: str) -> str:
    return next((what for pattern, what in DOINGS if fnmatchcase(tool, pattern)), "other")


#: How the task of an id stands now, as evidence would say it; None = nobody can tell.
Standing = Callable[[str], r.Evidence | None]


def facts(records: Iterable[r.Record], look: Look, models: Iterable[str] = (), standing: Standing = lambda _: None) -> Facts:
    """Fold the records of one run. `models` = ids of models there are, whether or not the run was told of them; `standing` is asked for the
    tasks that had not ended when the log was written.
    """
    fold = _Fold(look, standing)
    fold.names |= {form for name in models for form in _forms(name)}
    for record in records:
        fold.feed(record)
    return fold.facts()


Aim = tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]


class _Fold:
    def __init__(self, look: Look, standing: Standing) -> None:
        self.look, self.standing = look, standing
        self.saying, self.names, self.reading = set[str](), set[str](), {""}
        self.reply: r.ModelResult | None = None
        #: Calls of the reply that were begun.
        self.begun = set[int]()
        self.open = dict[int, r.ActionIntent]()
        self.deferred = dict[int, tuple[str, Deed]]()
        self.deeds = dict[str, Deed]()
        self.aims = dict[str, Aim]()
        self.unread = dict[str, Deed]()
        self.assumed = dict[tuple[str, str], None]()
        self.reads = 0

    def feed(self, record: r.Record) -> None:
        match record:
            case r.RunStarted():
                # Those that only say that the run is done: what else completes it, and is no reading, works.
                self.saying = {t.name for t in record.tools if t.completes and (t.effect == "read" or (t.name == SUBMIT and not t.ref))}
                self.reading |= {t.name for t in record.tools if t.effect == "read"} | self.saying
                self.names |= {t.name for t in record.tools}
                self.names |= {form for key in ("model", "sub_model") for form in _forms(record.assembly.get(key, ""))}
            case r.ModelResult():
                self.reply, self.begun = record, set[int]()
                self.names |= set(_forms(record.served_by))
            case r.ActionIntent():
                self.begun.add(record.call)
                if record.tool not in self.saying:
                    self.open[record.call] = record
            case r.Step(rejection=r.Rejection(code=code)) if record.call not in self.begun and record.tool not in self.reading:
                refused = Deed(doing(record.tool), "not_started")
                self._add(f"refused.{len(self.aims)}", refused, {}, code, self._said(record.tool))
            case r.ActionDeferred() if record.call in self.open:
                task = record.token if record.awaited == "task" else ""
                self.deferred[record.call] = task, Deed(doing(self.open[record.call].tool), _awaited(record))
                self.names |= {record.token, *ids(record.prompt)}
            case r.ActionResult() if (intent := self.open.pop(record.call, None)) is not None:
                self._ended(intent, record, self.deferred.pop(record.call, ("", None))[0])
            case _:
                pass

    def _ended(self, intent: r.ActionIntent, result: r.ActionResult, task: str) -> None:
        told = _object("".join(self.look(part.text) for part in result.observation if part.type == "text"))
        args = self._args(intent)
        self.names |= {*ids(told), *ids(args), *(e.ref for e in result.evidence)}
        if intent.tool in (ASK_USER, SUB_RUN):
            self._heard(told)
        if intent.tool == ASK_USER:
            return
        proofs = [e for e in result.evidence if e.type in ("receipt", "ticket")]
        trial = not proofs and told.get("executed") is False and doing(intent.tool) != "other"
        if intent.effect == "read" or trial:
            self._read(intent, result, told)
            proofs = [e for e in proofs if e.ref in self.deeds]  # what others began is no deed of this run
        for proof in proofs:
            before = self.deeds.get(proof.ref)
            self._add(proof.ref, Deed(before.what if before else doing(intent.tool), _proved(proof, told)), told, result.code, args)
        if not proofs and intent.effect != "read" and not trial:
            ref = task if task and result.status == "unknown" else intent.key
            self._add(ref, Deed(doing(intent.tool), _BY_STATUS[result.status]), told, result.code, args)

    def _read(self, intent: r.ActionIntent, result: r.ActionResult, told: dict[str, Any]) -> None:
        self.unread.pop(intent.tool, None)
        if result.status == "ok":
            self.reads += 1
        else:
            self.unread[intent.tool] = Deed("look", _BY_STATUS[result.status], _why(told, result.code))

    def _args(self, intent: r.ActionIntent) -> dict[str, Any]:
        """{} where they cannot be told any more."""
        if intent.args is not None or intent.args_text:
            return intent.args if is_object(intent.args) else _object(self.look(intent.args_text))
        return self._said(intent.tool)

    def _said(self, tool: str) -> dict[str, Any]:
        """The arguments of a tool's first call in the last reply."""
        reply = self.reply or r.ModelResult()
        calls = [one.arguments for one in reply.tool_calls if one.name == tool]
        return _object(self.look(calls[0])) if calls else _part(_part(_object(self.look(reply.text)), "action"), "args")

    def _add(self, ref: str, deed: Deed, told: dict[str, Any], code: str, args: dict[str, Any]) -> None:
        # What it is about: the ids at the top, and all of them; arguments that cannot be told are about nothing else's things.
        aim = (frozenset(_named(_flat(args or {"id": ref}))), frozenset(_named(args)))
        if deed.status in GOOD | {"unchanged"}:
            for other, old in self.deeds.items():
                if old.what == deed.what and _made_up_for(old, self.aims[other], aim):
                    self.deeds[other] = replace(old, status="again")
        first = args.get("continues")
        if deed.status in GOOD | {"partial_success"} and first in self.deeds and self.deeds[first].what == deed.what and first != ref:
            del self.deeds[first]  # gone on with: the later receipt is about the whole
        self.deeds[ref] = deed if deed.status in GOOD | {"unchanged", "cancelled"} else replace(deed, why=_why(told, code))
        self.aims.setdefault(ref, aim)

    def _heard(self, told: dict[str, Any]) -> None:
        said: object = told.get("assumptions")
        for one in filter(is_object, cast("list[object]", said) if isinstance(said, list) else ()):
            self.assumed[str(one.get("title", "")), str(one.get("answer", ""))] = None

    def facts(self) -> Facts:
        """What is open has no result in this log: it waits, or nobody knows."""
        left = [
            self.deferred.get(call, ("", Deed(doing(i.tool), "unknown", "other")))
            for call, i in self.open.items()
            if i.tool != ASK_USER and i.effect != "read"
        ]
        names = tuple(sorted(self.names - {""}))
        deeds = tuple(self._as_it_stands(ref, deed) for ref, deed in (*self.deeds.items(), *left))
        return Facts(deeds, self.reads, tuple(self.assumed), names, tuple(self.unread.values()))

    def _as_it_stands(self, ref: str, deed: Deed) -> Deed:
        """What had ended is as the log says; of a task that had not, the log knows only how it once stood."""
        found = self.standing(ref) if ref and deed.status in _UNDER_WAY else None
        return deed if found is None else Deed(deed.what, _proved(found, {}))


def _made_up_for(old: Deed, its: Aim, by: Aim) -> bool:
    """Whether a success on things makes up for a try on its things. What did not fit may have been right only in what it was about at all."""
    if old.status not in _IDLE or not (old.why in _SLIPS or old.status == "retryable"):
        return False
    return its[0] == by[0] if old.why == "validation" else its[0] == by[0] and its[1] <= by[1]


#: Keys whose values only machines read, and among them those that stand for this state or this call, and for no thing.
_IDS: Final = re.compile(r"(?:^|[a-z])(?:id|Id|ID|Ids|ids|Key|Hash|ref)$|^path$")
_STATES: Final = re.compile(r"(?:Hash|operationKey|operationId|continues|planId)$")
#: The ids of a model: such a name is hidden in every case, though it may look like a word.
_MODELS: Final = ("logicalModelId", "channelId", "channelModelKey")
#: Values an id may have that are words, or numbers of lines: what a person may well be told.
_WORD: Final = re.compile(r"[^\W\d_]*|\d*|.{1,3}|.*\s.*", re.DOTALL)


def ids(value: object) -> Iterator[str]:
    """What in a result or in arguments only machines read, at any depth: ids and digests that are no words, and all ids of models."""
    for key, text in _named(value):
        if key in _MODELS:
            yield from _forms(text)
        elif key != "path" and not _WORD.fullmatch(text):  # where a file is, a person may be told
            yield text


def _named(value: object) -> Iterator[tuple[str, str]]:
    """Every id in it, with its key."""
    todo: list[tuple[str, object]] = [("", value)]
    while todo:
        key, one = todo.pop()
        if is_object(one):
            todo += [(name, part) for name, part in one.items() if not _STATES.search(name)]
        elif isinstance(one, list):
            todo += [(key, part) for part in cast("list[object]", one)]
        elif isinstance(one, str) and len(one) <= ID_MAX and _IDS.search(key):
            yield key, one


def _forms(name: str) -> tuple[str, ...]:
    return (name, name.title(), name.upper()) if name.isalpha() else (name,)


def _flat(args: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in args.items() if isinstance(value, str)}


def _awaited(record: r.ActionDeferred) -> str:
    if record.awaited == "task":
        state = record.prompt.get("state", "") if is_object(record.prompt) else ""
        phase = PHASES.get(str(state), "running")
        return "unsettled" if phase == "unknown" else phase
    return "awaiting" if record.awaited == "approval" else "unknown" if record.awaited == "settle" else "running"


def _proved(proof: r.Evidence, told: dict[str, Any]) -> str:
    if proof.type == "receipt":
        warned: object = told.get("warnings")
        same = proof.status == "success" and isinstance(warned, list) and not _AS_IT_WAS.isdisjoint(map(str, cast("list[object]", warned)))
        return "unchanged" if same else proof.status
    phase = PHASES.get(proof.status, "unknown")
    if phase == "unknown" and proof.type == "ticket":
        return "unsettled"  # a person can find out, and say so
    return "unreadable" if phase == "succeeded" and not proof.complete else phase


#: Causes that are no kind of problem, each with words of its own.
_OWN: Final = frozenset({"timeout", "expired"})


def _why(told: dict[str, Any], code: str) -> str:
    """The cause, not its summary: of a write that stopped half way, what stopped it."""
    error = _part(told, "error")
    failures: object = _part(error, "details").get("failures")
    causes = cast("list[object]", failures) if isinstance(failures, list) else []
    said = [*(f.get("kind") for f in causes if is_object(f)), error.get("kind"), KIND_BY_CODE.get(code, code)]
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
