"""Sentences for people: the same blanks in both languages, and none missing for what a run can become."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest

import polyloop.cli
from polyloop.cli.frame import EXIT_BY_REASON, outcome
from polyloop.contract.receipt import Status
from polyloop.kernel.objects import Counters, RunResult, Waiting
from polyloop.kernel.records import Awaited
from polyloop.words.catalog import SENTENCES, Lang

SOURCE = Path(polyloop.cli.__file__).parent.parent
REASONS = {*EXIT_BY_REASON, "model_call_failed", "environment_fault", "abandoned", "internal_error"}


@pytest.mark.parametrize("code", SENTENCES)
def test_both_languages_leave_the_same_blanks(code: str) -> None:
    zh, en = ({name for _, name, _, _ in Formatter().parse(text) if name} for text in SENTENCES[code])
    assert zh == en


def test_every_sentence_a_command_says_is_there() -> None:
    """`say("run.completed")` names one, `say(f"doc.{status}")` at least one of its family."""
    said = {code for path in SOURCE.rglob("*.py") for code in re.findall(r"""\bsay\(\s*f?"([\w.]+["{])""", path.read_text())}
    assert len(said) > 20
    assert [code for code in said if not any(f'{known}"'.startswith(code.removesuffix("{")) for known in SENTENCES)] == []


def test_every_status_of_a_document_operation_has_its_sentence() -> None:
    assert {f"doc.{status}" for status in get_args(Status)} <= SENTENCES.keys()


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
