"""Sentences for people: the same blanks in both languages, and none missing for what a run can become."""

from __future__ import annotations

from string import Formatter
from typing import get_args

import pytest

from polyloop.cli.frame import EXIT_BY_REASON, outcome
from polyloop.kernel.objects import Counters, RunResult, Waiting
from polyloop.kernel.records import Awaited
from polyloop.words.catalog import SENTENCES, Lang

REASONS = {*EXIT_BY_REASON, "model_call_failed", "environment_fault", "abandoned", "internal_error"}


@pytest.mark.parametrize("code", SENTENCES)
def test_both_languages_leave_the_same_blanks(code: str) -> None:
    zh, en = ({name for _, name, _, _ in Formatter().parse(text) if name} for text in SENTENCES[code])
    assert zh == en


@pytest.mark.parametrize("lang", get_args(Lang))
def test_every_end_and_every_wait_is_told_in_a_sentence(lang: Lang) -> None:
    told = {outcome(RunResult("r", "local", "ended", Counters(), reason), lang) for reason in REASONS}
    told |= {outcome(RunResult("r", "local", "waiting", Counters(), waiting=Waiting(kind, "t")), lang) for kind in get_args(Awaited)}
    told |= {outcome(RunResult("r", "local", state, Counters()), lang) for state in ("running", "interrupted")}
    assert len(told) == len(REASONS) + len(get_args(Awaited)) + 2


@pytest.mark.parametrize(
    ("reason", "detail", "says"),
    [
        ("stalled", "identical_rejections", "Stopped: the model kept making the same mistake."),
        ("stalled", "consecutive_rejections", "Stopped: the replies of the model were rejected one after another."),
        ("budget_exhausted", "valid_steps", "The budget is used up; not completed (valid steps)."),
        ("environment_fault", "code\n\x1b[2J", "The environment failed: code \\u001b[2J."),
    ],
)
def test_a_detail_is_told_in_words_and_a_foreign_one_on_one_line(reason: str, detail: str, says: str) -> None:
    assert outcome(RunResult("r", "local", "ended", Counters(), reason, detail), "en") == says
