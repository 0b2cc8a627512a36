"""A person's answers to the questions of a run. The first answer counts; a second one is given the first one's result."""

from __future__ import annotations

from typing import Any, cast

from msgspec import convert
from msgspec.structs import replace

from polyloop.contract.problem import bad_arguments, problem
from polyloop.dialogue.questions import Question, answered, heard
from polyloop.dialogue.thread import Round, below
from polyloop.kernel import records as r
from polyloop.kernel.objects import RunResult

from .approvals import PERSON
from .rounds import thread_of
from .runs import Runs


async def asking(runs: Runs, run_id: str) -> str:
    """The run whose question a person answers by naming this one: the sub-run it waits for; itself; where it asked nothing, its last sub-run

    that asked. Raises ProblemError(not_found).
    """
    read = await runs.read(run_id)
    if read.result.waiting is not None and read.result.waiting.kind == "run":
        return read.result.waiting.token
    subs = below(r.decode(s.kind, s.body) for s in read.sealed if s.body is not None)
    asked = [run for run in (run_id, *reversed(subs)) if (await thread_of(runs.log, runs.scope, run)).last is not None]
    return next(iter(asked), run_id)


async def awaits_person(runs: Runs, result: RunResult) -> bool:
    """Whether a run that waits goes on only once a person has answered, it or the sub-run it waits for."""
    if result.waiting is None or result.waiting.kind != "run":
        return result.waiting is not None and result.waiting.kind == "answer"
    below = (await runs.read(result.waiting.token)).result.waiting
    return below is not None and below.kind == "answer"


async def question(runs: Runs, run_id: str) -> Round:
    """A run's last question, with what was heard of its answer. Raises ProblemError: not_found, conflict when it asked nothing."""
    run_id = await asking(runs, run_id)
    last = (await thread_of(runs.log, runs.scope, run_id)).last
    if last is None:
        raise problem("conflict", f"run {run_id} asks nothing", operation="answer", stage="precondition")
    if last.heard is not None:
        return last
    signals = await runs.log.signals(runs.stream(run_id), 0)
    said = next((s for s in signals if s.kind == "resolve" and s.token == last.token), None)
    if said is not None and said.decision != "answered":
        raise problem("conflict", f"run {run_id} does not wait for an answer any more", operation="answer", stage="precondition")
    return last if said is None else replace(last, heard=cast("dict[str, Any]", said.body))


async def answer(runs: Runs, run_id: str, form: object) -> dict[str, Any]:
    """Answer the last question; what the model is told of it. A question that was answered before keeps its answer.

    Raises ProblemError: as `question`; validation, with every field that does not fit: nothing is taken in part.
    """
    run_id = await asking(runs, run_id)
    asked = await question(runs, run_id)
    if asked.heard is not None:
        return asked.heard
    got = answered(convert(asked.prompt["asked"], Question), form)
    if isinstance(got, list):
        raise bad_arguments(got)
    await runs.resolve(run_id, asked.token, "answered", PERSON, heard(asked.prompt, got))
    return cast("dict[str, Any]", (await question(runs, run_id)).heard)
