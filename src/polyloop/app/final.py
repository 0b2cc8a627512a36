"""The final answer of a run as its log proves it, in the language of its request or its reader."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Final

from polyloop.contract.problem import ProblemError
from polyloop.contract.task import Ticket
from polyloop.db import Database, Tx, tasks
from polyloop.dialogue.deeds import Standing, facts
from polyloop.dialogue.final import final
from polyloop.kernel.records import Evidence
from polyloop.words.catalog import Lang, lang_of

from .answers import awaits_person, was_answered
from .runs import Read, Runs

#: States in which there is something to tell a person.
TOLD: Final = ("ended", "waiting", "interrupted")


async def final_of(runs: Runs, read: Read, lang: Lang) -> str:
    """Markdown; "" while the run is still at work. A request in English is answered in English."""
    if read.result.state not in TOLD:
        return ""
    said = read.start.assembly.get("lang", "")
    asks = await awaits_person(runs, read.result)
    heard = asks and await was_answered(runs, read.result)
    with _tasks(runs, read.start.assembly.get("canvas", "")) as standing:
        told = facts(read.records, read.look, _models(read), standing)
    return final(told, read.result, "en" if lang_of(said) == "en" else lang, asks=asks, heard=heard)


async def final_answer(runs: Runs, run_id: str, lang: Lang) -> str:
    """As `final_of`. Raises ProblemError(not_found, corrupt_store)."""
    return await final_of(runs, await runs.read(run_id), lang)


@contextmanager
def _tasks(runs: Runs, canvas: str) -> Generator[Standing]:
    """How tasks stand: those of the store of the runs, of media only on this canvas. A store that cannot be asked tells of none."""
    from polyloop.documents.tasks import ticket_of
    from polyloop.media import tasks as media

    from .documents import read_database

    def look(tx: Tx, task_id: str) -> Ticket | None:
        found = tasks.find(tx, runs.scope, task_id)
        if found is None or found.kind not in media.KINDS:
            return ticket_of(found) if found else None
        body = media.body_of(found)
        return media.told(tx, found, body, None) if body.canvas == canvas else None

    with ExitStack() as opened:

        @cache
        def store() -> Database:
            return opened.enter_context(read_database(runs.store, runs.scope))

        def standing(task_id: str) -> Evidence | None:
            if not runs.store:
                return None
            try:
                found = store().look(look, task_id)
            except ProblemError:
                return None  # no media here: what the log says of the task is all that is known
            return Evidence(found.task_id, "ticket", found.state, found.terminal, complete=found.complete) if found else None

        yield standing


def _models(read: Read) -> set[str]:
    """Ids of the models and channels of media, where a run works on a canvas. Settings that cannot be read name none."""
    if "canvas" not in read.start.assembly:
        return set()
    from .media import settings

    try:
        return {name for model in settings().catalog.models for name in (model.channel, model.key, model.logical_id)}
    except ProblemError:
        return set()
