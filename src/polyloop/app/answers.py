"""A person's answers to the questions of a run. The first answer counts; a second one is given the first one's result."""

from __future__ import annotations

from typing import Any

from msgspec import convert

from polyloop.contract.problem import FieldProblem, bad_arguments, is_object, problem
from polyloop.dialogue.questions import QUESTION_ID, Question, answered, heard
from polyloop.dialogue.thread import Round, begun_from, below
from polyloop.kernel.objects import RunResult

from .approvals import PERSON
from .rounds import own_thread
from .runs import Read, Runs


def waits_below(read: Read) -> str:
    """The sub-run a run waits for, "" = none: what another waits for as a run may be none of this store."""
    waiting = read.result.waiting
    return waiting.token if waiting is not None and waiting.kind == "run" and waiting.token in below(read.records) else ""


async def awaits_person(runs: Runs, result: RunResult) -> bool:
    """Whether a run that waits goes on only once a person has answered, it or the sub-run it waits for."""
    if result.waiting is None or result.waiting.kind != "run":
        return result.waiting is not None and result.waiting.kind == "answer"
    sub = waits_below(await runs.read(result.run_id))
    read = await runs.read(sub) if sub else None
    waits = read.result.waiting if read and begun_from(read.start, result.run_id) else None
    return waits is not None and waits.kind == "answer"


async def was_answered(runs: Runs, result: RunResult) -> bool:
    """Whether what a run waits for a person to say has been said, and nobody has gone on with it since."""
    sub = waits_below(await runs.read(result.run_id))
    last = (await own_thread(runs.log, runs.scope, sub or result.run_id, result.run_id if sub else "")).last
    return last is not None and not last.open


async def _asked(runs: Runs, run_id: str, question_id: str = "") -> tuple[str, Round]:
    """The question a person means by naming this run, and the run that asked it: the sub-run it waits for; itself; where it asked

    nothing, its last sub-run that asked. `question_id` = that one, whichever of them asked it.
    Raises ProblemError: not_found, conflict when nothing was asked.
    """
    read = await runs.read(run_id)
    waits, subs = waits_below(read), below(read.records)
    for run in dict.fromkeys([*filter(None, [waits]), run_id, *reversed(subs)]):
        rounds = (await own_thread(runs.log, runs.scope, run, "" if run == run_id else run_id)).rounds
        if found := next((one for one in reversed(rounds) if question_id in ("", one.token)), None):
            return run, found
    if question_id:
        raise problem("not_found", f"run {run_id} asked no question {question_id!r}", operation="answer", stage="resolve")
    raise problem("conflict", f"run {run_id} asks nothing", operation="answer", stage="precondition")


async def question(runs: Runs, run_id: str, question_id: str = "") -> Round:
    """A run's last question, or the one of that id, with what was heard of its answer.

    Raises ProblemError: not_found; conflict when it asked nothing, or does not wait for this answer any more.
    """
    run, asked = await _asked(runs, run_id, question_id)
    if asked.heard is None and not asked.open:
        raise problem("conflict", f"run {run} does not wait for an answer any more", operation="answer", stage="precondition")
    return asked


async def answer(runs: Runs, run_id: str, form: object) -> dict[str, Any]:
    """Answer the last question, or the one whose `questionId` stands in the form; what the model is told of it. A question that was

    answered before keeps its answer. Raises ProblemError: as `question`; validation, with every field that does not fit: nothing is
    taken in part.
    """
    said = {key: value for key, value in form.items() if key != QUESTION_ID} if is_object(form) else form
    question_id: object = form.get(QUESTION_ID, "") if is_object(form) else ""
    if not isinstance(question_id, str):
        raise bad_arguments([FieldProblem(QUESTION_ID, "wrong_type", "it is a text")])
    run, asked = await _asked(runs, run_id, question_id)
    if asked.heard is None:
        await question(runs, run, asked.token)
        got = answered(convert(asked.prompt["asked"], Question), said)
        if isinstance(got, list):
            raise bad_arguments(got)
        await runs.resolve(run, asked.token, "answered", PERSON, heard(asked.prompt, got))
        asked = await question(runs, run, asked.token)
    return asked.heard or {}
