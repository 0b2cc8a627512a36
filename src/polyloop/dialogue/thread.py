"""What the logs of a run, and of the tasks before it, say about its questions. Pure.

What sub-runs ask stands among the questions of the run that began them. A follow-up task takes up the rounds of the task before it
only if that one ended while a question was pending; else it starts anew (S1.19, S1.20). The log is the one place where questions
stand: no other state could differ from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from msgspec import Struct

from ..kernel import records as r
from .questions import Asked, asked
from .sub_run import SUB_RUN, sub_run_id

ASK_USER: Final = "ask_user"
#: A reading of the canvas that worked: questions come after it (S1.7).
READ_FIRST: Final = "canvas_get_state"
#: Codes of a call that was not done for what is wrong with its arguments, or not allowed -> the kind of problem it was.
KIND_BY_CODE: Final[Mapping[str, str]] = {"args_invalid": "validation", "args_missing": "validation", "denied": "permission_denied"}


class Round(Struct, frozen=True):
    """A question as it was put to the person. `heard` = what the model was told of the answer, None = nothing."""

    token: str
    prompt: dict[str, Any]
    heard: dict[str, Any] | None = None


class Thread(Struct, frozen=True):
    """`last` = the run's own last question; `pending` = it waits for its answer, or was withdrawn with its run; `failed` = the kind of
    problem of the last call of another tool, "" = none; `read` = the canvas was read.
    """

    asked: tuple[Asked, ...] = ()
    last: Round | None = None
    pending: bool = False
    failed: str = ""
    read: bool = False
    parent: str = ""

    @property
    def inherited(self) -> tuple[Asked, ...]:
        """The rounds that a follow-up task begins with."""
        return self.asked if self.pending else ()


NO_SUBS: Final[Mapping[str, Thread]] = {}


def below(records: Iterable[r.Record]) -> list[str]:
    """The sub-runs that a run has begun, or was about to begin."""
    return [sub_run_id(record.key) for record in records if isinstance(record, r.ActionIntent) and record.tool == SUB_RUN]


def thread(records: Iterable[r.Record], before: tuple[Asked, ...] = (), subs: Mapping[str, Thread] = NO_SUBS) -> Thread:
    """Fold the records of one run. `before` = the rounds it takes up; `subs` = its sub-runs, each by itself."""
    rounds, last, pending, failed, read, parent = list(before), None, False, "", False, ""
    tools, codes, place = dict[int, str](), dict[int, str](), 0
    for record in records:
        match record:
            case r.RunStarted():
                parent = record.parent
            case r.ModelIntent():
                tools, codes = {}, {}
            case r.ActionIntent():
                tools[record.call] = record.tool
                rounds += subs[sub_run_id(record.key)].asked if sub_run_id(record.key) in subs else ()
            case r.ActionDeferred(awaited="answer") if tools.get(record.call) == ASK_USER:
                last, pending = Round(record.token, cast("dict[str, Any]", record.prompt)), True
                place = len(rounds)
                rounds.append(asked(last.prompt, None))
            case r.ActionResolved() if last is not None and record.token == last.token:
                pending = record.decision == "withdrawn"
                last = Round(last.token, last.prompt, cast("Any", record.evidence) if record.decision == "answered" else None)
                rounds[place] = asked(last.prompt, last.heard)
            case r.ActionResult():
                codes[record.call] = record.code
                read = read or (record.status == "ok" and tools.get(record.call) == READ_FIRST)
            case r.Step() if (tool := record.tool or tools.get(record.call, "")) != ASK_USER:
                code = codes.get(record.call, "") or (record.rejection.code if record.rejection else "")
                failed = KIND_BY_CODE.get(code, code) if tool else failed
            case _:
                pass
    return Thread(tuple(rounds), last, pending or any(sub.pending for sub in subs.values()), failed, read, parent)
