"""`polyloop answer`: a run's question, as a form in the terminal or as JSON, and the answer to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any, Final, NoReturn, cast

import typer
from msgspec import convert

from polyloop.app.answers import answer as answer_run
from polyloop.app.answers import question
from polyloop.app.store import open_runs, read_runs
from polyloop.contract.problem import FieldProblem, ProblemError, is_object
from polyloop.dialogue.questions import CHOICE, QUESTION_ID, START, Option, Question, starts, wrong
from polyloop.dialogue.thread import Round
from polyloop.words.catalog import Lang, say

from .arguments import arguments
from .cells import plain
from .frame import EXIT_ASKED, Place, carry_out, fail

#: A start word was typed: no line of input can be this.
_START: Final = "\n"
#: Kinds of problems that have a sentence of their own here.
_SAID: Final = ("conflict", "not_found")


def answer(
    place: Place,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Run id.")],
    form: Annotated[str | None, typer.Option("--form", help="JSON file, or - for standard input: {answers}, {choice} or {start: true}.")] = None,
) -> None:
    """Answer the question a run waits with. Without --form: a form in a terminal, else the question itself."""

    async def look() -> Round | ProblemError:
        async with read_runs(place.store, place.tenant) as runs:
            try:
                return await question(runs, run_id, named)
            except ProblemError as error:
                return error

    async def reply() -> dict[str, Any] | ProblemError:
        async with open_runs(place.store, place.tenant) as runs:
            try:
                return await answer_run(runs, run_id, given)
            except ProblemError as error:
                return error

    async def read() -> object:
        return None if form is None else arguments(form, "answer", "--form")

    given = carry_out(place, read)
    said: object = given.get(QUESTION_ID, "") if is_object(given) else ""
    named = said if isinstance(said, str) else ""
    asked = carry_out(place, look)  # where there is nothing to answer, no store is made
    if isinstance(asked, ProblemError):
        _refused(place, asked, {})
    if form is None:
        if asked.heard is not None or place.as_json or not sys.stdin.isatty():
            _show(place, asked)
            return
        filled = fill(asked, place.lang)
        if filled is None:
            sys.stdout.write("\n" + say("answer.nothing", place.lang) + "\n")
            raise typer.Exit(EXIT_ASKED)
        given = {**filled, QUESTION_ID: asked.token}
    heard = carry_out(place, reply)
    if isinstance(heard, ProblemError):
        _refused(place, heard, _titles(asked))
    if place.as_json:
        place.print_json(heard)
    else:
        _told(heard, _titles(asked), place.lang)


def _refused(place: Place, error: ProblemError, titles: dict[str, str]) -> NoReturn:
    """In the words of the catalogue for people, in full for programs."""
    problems = cast("list[dict[str, str]]", error.problem.details.get("problems") or [])
    if place.as_json or not (problems or error.problem.kind in _SAID):
        fail(place, error)
    for line in [_issue(p["field"], p["issue"], titles, place.lang) for p in problems] or [say(f"answer.{error.problem.kind}", place.lang)]:
        sys.stderr.write(line + "\n")
    raise typer.Exit(error.problem.exit_code)


def _issue(field: str, issue: str, titles: dict[str, str], lang: Lang) -> str:
    name = field.removeprefix("answers.")
    return say(f"answer.issue.{issue}", lang, title=plain(titles.get(name, name)))


def _titles(asked: Round) -> dict[str, str]:
    """How the points of a round are called for people, by id."""
    question = convert(asked.prompt["asked"], Question)
    return {
        **{one["id"]: one["title"] for one in asked.prompt["known"]},
        **({f.id: f.title for f in question.fields} or {CHOICE: question.question}),
    }


def _show(place: Place, asked: Round) -> None:
    if place.as_json:
        place.print_json(asked.heard or asked.prompt)
    elif asked.heard is not None:
        _told(asked.heard, _titles(asked), place.lang)
    else:
        sys.stdout.write("\n".join(_lines(asked, place.lang)) + "\n")


def _lines(asked: Round, lang: Lang) -> Iterator[str]:
    question = convert(asked.prompt["asked"], Question)
    yield plain(question.question)
    yield from _known(asked, lang)
    for field in question.fields:
        yield f"  {_title(field.title, lang, needed=field.required)} [{plain(field.default_value)}]"
        yield from (f"    - {_option(o)}" for o in field.options)
    yield from (f"  - {_option(o)}" for o in question.options)


def _known(asked: Round, lang: Lang) -> list[str]:
    return [say("answer.known", lang, title=plain(one["title"]), answer=plain(one["answer"])) for one in asked.prompt["known"]]


def _title(title: str, lang: Lang, *, needed: bool) -> str:
    return f"{plain(title)} ({say('answer.required', lang)})" if needed else plain(title)


def _option(option: Option) -> str:
    return f"{plain(option.label)}  {plain(option.detail)}".rstrip()


def _told(said: dict[str, Any], titles: dict[str, str], lang: Lang) -> None:
    lines = [f"{plain(titles.get(name, name))}: {plain(value)}" for name, value in cast("dict[str, str]", said["answers"]).items()]
    if said["assumptions"]:
        lines.append(say("answer.assumed", lang, titles=", ".join(plain(a["title"]) for a in said["assumptions"])))
    sys.stdout.write("\n".join([say("answer.taken", lang), *lines]) + "\n")


def fill(asked: Round, lang: Lang) -> dict[str, Any] | None:
    """Ask field by field. An empty line takes a default where an answer is not required; a start word takes all that are left.

    None = the input ended: nothing is to be sent.
    """
    question = convert(asked.prompt["asked"], Question)
    sys.stdout.write("\n".join([plain(question.question), *_known(asked, lang), say("answer.how" if question.fields else "answer.how.choice", lang)]))
    sys.stdout.write("\n")
    if not question.fields:
        default = question.default_value or question.options[0].label
        chosen = _line(question, CHOICE, say("answer.choice", lang), default, question.options, lang, needed=True)
        return None if chosen is None else {START: True} if chosen == _START else {CHOICE: chosen}
    answers: dict[str, str] = {}
    for field in question.fields:
        title = _title(field.title, lang, needed=field.required)
        said = _line(question, field.id, title, field.default_value, field.options, lang, needed=field.required)
        if said is None:
            return None
        if said == _START:
            break
        answers |= {field.id: said} if said else {}
    return {"answers": answers, START: True}  # an empty line is a yes to the default


def _line(question: Question, point: str, title: str, default: str, options: tuple[Option, ...], lang: Lang, *, needed: bool) -> str | None:
    """One line of input that fits, asked for until there is one; the number of an option stands for it. None = the input ended."""
    labels = [o.label for o in options]
    for no, option in enumerate(options, 1):
        sys.stdout.write(f"  {no}. {_option(option)}\n")
    while True:
        sys.stdout.write(f"{plain(title)} [{plain(default)}]: ")
        sys.stdout.flush()
        typed = sys.stdin.readline()
        if not typed:
            return None
        said = typed.strip()
        if said not in labels:
            number = int(said) if said.isascii() and said.isdigit() and len(said) <= len(str(len(labels))) else 0
            said = labels[number - 1] if 0 < number <= len(labels) else said
            if starts(said, options):
                return _START
        against = [FieldProblem("", "required")] if not said and needed else list(wrong(question, point, said)) if said else []
        if not against:
            return said
        sys.stdout.write(_issue(point, against[0].issue, {point: title}, lang) + "\n")
