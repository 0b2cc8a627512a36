"""What the logs of a run, and of the tasks before it, say about its questions. Pure.

What sub-runs ask stands among the questions of the run that began them. A follow-up task takes up the rounds of the task before it
only if that one ended while a question was pending; else it starts anew (S1.19, S1.20). The log is the one place where questions
stand: no other state could differ from it. An answer that was given and is not in the log yet is heard all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from ..kernel import records as r
from .questions import Asked, asked
from .sub_run import SUB_RUN, sub_run_id

ASK_USER: Final = "ask_user"
#: A reading of the canvas that worked: questions come after it (S1.7).
READ_FIRST: Final = "canvas_get_state"
#: Codes of a call that was not done for what is wrong with its arguments, or not allowed -> the kind of problem it was.
KIND_BY_CODE: Final[Mapping[str, str]] = {
    "args_invalid": "validation", "args_missing": "validation", "unsupported": "validation", "denied": "permission_denied",
    "tool_exhausted": "capability_unavailable",
}  # fmt: skip


class Round(Struct, frozen=True):
    """A question as it was put to the person. `heard` = what the model was, or will be, told of the answer, None = nothing; `open` = an

    answer would reach the run: it waits for it, and has not ended.
    """

    token: str
    prompt: dict[str, Any]
    heard: dict[str, Any] | None = None
    open: bool = True


class Thread(Struct, frozen=True):
    """`rounds` = the run's own questions; `pending` = one waits for its answer, or was withdrawn with its run; `failed` = the kind of
    problem of the last call of another tool, "" = none; `read` = the canvas was read.
    """

    asked: tuple[Asked, ...] = ()
    rounds: tuple[Round, ...] = ()
    pending: bool = False
    failed: str = ""
    read: bool = False

    @property
    def last(self) -> Round | None:
        return self.rounds[-1] if self.rounds else None


NO_SUBS: Final[Mapping[str, Thread]] = {}
NO_ANSWERS: Final[Mapping[str, Any]] = {}


def below(records: Iterable[r.Record]) -> list[str]:
    """The sub-runs that a run has begun, or was about to begin."""
    return [sub_run_id(record.key) for record in records if isinstance(record, r.ActionIntent) and record.tool == SUB_RUN]


def begun_from(start: r.RunStarted, above: str) -> bool:
    """Whether a run is the sub-run of that one. Its id alone proves nothing: it can be worked out before it is begun."""
    return start.parent == above and bool(start.root) and start.origin is None


def thread(
    records: Iterable[r.Record],
    before: tuple[Asked, ...] = (),
    subs: Mapping[str, Thread] = NO_SUBS,
    answers: Mapping[str, Any] = NO_ANSWERS,
    failed: str = "",
) -> Thread:
    """Fold the records of one run. `before` = the rounds it takes up; `subs` = its sub-runs, each by itself; `answers` = what was given,

    by question, None = something else than an answer; what the log has of it counts before that; `failed` = what it begins with.
    """
    rounds, own, pending, read = list(before), list[Round](), False, False
    tools, codes, place = dict[int, str](), dict[int, str](), 0
    for record in records:
        match record:
            case r.ModelIntent():
                tools, codes = {}, {}
            case r.ActionIntent():
                tools[record.call] = record.tool
                rounds += subs[sub_run_id(record.key)].asked if sub_run_id(record.key) in subs else ()
            case r.ActionDeferred(awaited="answer") if tools.get(record.call) == ASK_USER:
                given = answers.get(record.token)
                own.append(Round(record.token, cast("dict[str, Any]", record.prompt), given, record.token not in answers))
                pending, place = True, len(rounds)
                rounds.append(asked(own[-1].prompt, given))
            case r.ActionResolved() if own and record.token == own[-1].token:
                pending = record.decision == "withdrawn"
                said = cast("Any", record.evidence) if record.decision == "answered" else own[-1].heard
                own[-1] = Round(record.token, own[-1].prompt, said, open=False)
                rounds[place] = asked(own[-1].prompt, said)
            case r.RunEnded() if own:
                own[-1] = replace(own[-1], open=False)
            case r.ActionResult():
                codes[record.call] = record.code
                read = read or (record.status == "ok" and tools.get(record.call) == READ_FIRST)
            case r.Step() if (tool := record.tool or tools.get(record.call, "")) != ASK_USER:
                refused = record.rejection.code if record.rejection and record.call not in codes else ""
                code = codes.get(record.call, refused)
                if tool and (not refused or refused in KIND_BY_CODE):  # what was no call at all is no other try
                    failed = KIND_BY_CODE.get(code, code)
            case _:
                pass
    return Thread(tuple(rounds), tuple(own), pending or any(sub.pending for sub in subs.values()), failed, read)
