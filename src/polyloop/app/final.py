"""The final answer of a run as its log proves it, in the language of its request or its reader."""

from __future__ import annotations

from typing import Final

from polyloop.contract.problem import ProblemError
from polyloop.dialogue.deeds import facts
from polyloop.dialogue.final import final
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
    return final(facts(read.records, read.look, _models(read)), read.result, "en" if lang_of(said) == "en" else lang, asks=asks, heard=heard)


async def final_answer(runs: Runs, run_id: str, lang: Lang) -> str:
    """As `final_of`. Raises ProblemError(not_found, corrupt_store)."""
    return await final_of(runs, await runs.read(run_id), lang)


def _models(read: Read) -> set[str]:
    """Ids of the models and channels of media, where a run works on a canvas. Settings that cannot be read name none."""
    if "canvas" not in read.start.assembly:
        return set()
    from .media import settings

    try:
        return {name for model in settings().catalog.models for name in (model.channel, model.key, model.logical_id)}
    except ProblemError:
        return set()
