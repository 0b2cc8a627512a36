"""`polyloop answer`: a run's question, as a form in the terminal or as JSON, and the answer to it."""

from __future__ import annotations

import sys
from typing import Annotated, Any, cast

import typer
from msgspec import convert

from polyloop.app.answers import answer as answer_run
from polyloop.app.answers import question
from polyloop.app.store import open_runs, read_runs
from polyloop.dialogue.questions import CHOICE, QUESTION_ID, START, Question
from polyloop.dialogue.thread import Round
from polyloop.words.catalog import Lang, say

from .arguments import arguments
from .cells import plain
from .frame import Place, carry_out


def answer(
    place: Place,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Run id.")],
    form: Annotated[str | None, typer.Option("--form", help="JSON file, or - for standard input: {answers}, {choice} or {start: true}.")] = None,
) -> None:
    """Answer the question a run waits with. Without --form: a form in a terminal, else the question itself."""

    async def look() -> Round:
        async with read_runs(place.store, place.tenant) as runs:
            return await question(runs, run_id)

    async def reply() -> dict[str, Any]:
        given = arguments(form, "answer", "--form") if form is not None else filled
        async with open_runs(place.store, place.tenant) as runs:
            return await answer_run(runs, run_id, given)

    filled: dict[str, Any] = {}
    if form is None:
        asked = carry_out(place, look)
        if asked.heard is not None or place.as_json or not sys.stdin.isatty():
            _show(place, asked)
            return
        filled = {**fill(convert(asked.prompt["asked"], Question), place.lang), QUESTION_ID: asked.token}
    said = carry_out(place, reply)
    if place.as_json:
        place.print_json(said)
    else:
        _told(said, place.lang)


def _show(place: Place, asked: Round) -> None:
    if place.as_json:
        place.print_json(asked.heard or asked.prompt)
    elif asked.heard is not None:
        _told(asked.heard, place.lang)
    else:
        sys.stdout.write("\n".join(_lines(convert(asked.prompt["asked"], Question))) + "\n")


def _lines(asked: Question) -> list[str]:
    lines = [plain(asked.question)]
    for field in asked.fields:
        lines += [f"  {plain(field.title)} [{plain(field.default_value)}]", *(f"    - {plain(o.label)}" for o in field.options)]
    return [*lines, *(f"  - {plain(o.label)}  {plain(o.detail)}".rstrip() for o in asked.options)]


def _told(said: dict[str, Any], lang: Lang) -> None:
    lines = [f"{plain(name)}: {plain(value)}" for name, value in cast("dict[str, str]", said["answers"]).items()]
    if said["assumptions"]:
        lines.append(say("answer.assumed", lang, titles=", ".join(plain(a["title"]) for a in said["assumptions"])))
    sys.stdout.write("\n".join([say("answer.taken", lang), *lines]) + "\n")


def fill(asked: Question, lang: Lang) -> dict[str, Any]:
    """Ask field by field. An empty line takes the default; START takes all that are left."""
    sys.stdout.write(f"{plain(asked.question)}\n{say('answer.how', lang)}\n")
    if not asked.fields:
        options = tuple(o.label for o in asked.options)
        default = asked.default_value or options[0]
        chosen = _line(say("answer.choice", lang), default, options)
        return {START: True} if chosen == START else {CHOICE: chosen or default}
    answers: dict[str, str] = {}
    for field in asked.fields:
        said = _line(field.title, field.default_value, tuple(o.label for o in field.options))
        if said == START:
            return {"answers": answers, START: True}
        answers |= {field.id: said} if said else {}
    return {"answers": answers, START: True}  # an empty line is a yes to the default


def _line(title: str, default: str, options: tuple[str, ...]) -> str:
    """One line of input; the number of an option stands for it."""
    for no, label in enumerate(options, 1):
        sys.stdout.write(f"  {no}. {plain(label)}\n")
    sys.stdout.write(f"{plain(title)} [{plain(default)}]: ")
    sys.stdout.flush()
    said = sys.stdin.readline().strip()
    return options[int(said) - 1] if said.isascii() and said.isdigit() and 0 < int(said) <= len(options) else said
