"""Answers find their question: the one they were given for, of a run that still waits for it; and none is lost or asked for again."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from polyloop.app.runs import Runs
from polyloop.app.wiring import rewire
from polyloop.contract.problem import ProblemError
from polyloop.dialogue.thread import ASK_USER
from polyloop.kernel import records as r
from tests.dialogue.chain import DONE, Chain, act
from tests.dialogue.test_ask import CHOICE, form
from tests.dialogue.test_sub_runs import FOUND, LOOK, Family

ASK: tuple[str, dict[str, Any]] = (ASK_USER, form("type", "ratio", "style"))
OTHER: tuple[str, dict[str, Any]] = (ASK_USER, CHOICE)
SAID = {"type": "短片", "ratio": "1:1", "style": "水墨"}


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def ended(chain: Chain, how: str) -> None:
    if how == "cancel":
        chain.cancel("r1")
    else:
        chain.on(partial(Runs.abandon, run_id="r1", by="person"))


@pytest.mark.parametrize("how", ["cancel", "abandon"])
def test_an_ended_run_takes_no_answer(chain: Chain, how: str) -> None:
    chain.run(chain.lay("r1", ASK, DONE))
    ended(chain, how)
    with pytest.raises(ProblemError, match="conflict"):
        chain.answer("r1", {"answers": SAID})
    assert chain.run(chain.lay("r2", ASK, DONE, parent="r1")).reason == "completed"
    assert chain.heard("r2")[0]["phase"] == "defaulted", "what was refused was not kept either"


@pytest.mark.parametrize("how", ["", "cancel", "abandon"])
def test_S1_10_S1_20_an_answer_that_was_taken_is_heard_by_the_task_after(chain: Chain, how: str) -> None:
    """It was given, and the run that asked never went on."""
    chain.run(chain.lay("r1", ASK, DONE))
    first = chain.answer("r1", {"answers": SAID})
    if how:
        ended(chain, how)
    assert chain.answer("r1", {"start": True}) == first
    assert chain.run(chain.lay("r2", ASK, DONE, parent="r1")).reason == "completed"
    assert (chain.heard("r2")[0]["phase"], chain.heard("r2")[0]["answers"]) == ("reused", SAID)


def test_S1_19_a_fork_goes_on_with_the_rounds_it_came_from(chain: Chain) -> None:
    path = chain.lay("r1", ASK, OTHER, DONE)
    chain.run(path)
    chain.answer("r1", {"answers": SAID})
    chain.run(path)
    chain.answer("r1", {"choice": "视频"})
    chain.run(path)
    ends = [n for n, one in enumerate(chain.records("r1")) if isinstance(one, r.Step)]

    def fork(at: int, name: str, *calls: tuple[str, dict[str, Any]]) -> Any:
        (chain.folder / "r1.jsonl").write_text("".join(act(*c) for c in (*calls, DONE)))

        async def work(runs: Runs) -> Any:
            return await runs.fork("r1", ends[at], name, rewire)

        return chain.on(work)

    assert fork(1, "f2", ASK, (ASK_USER, form("length", "voice", "mood"))).state == "ended"
    assert chain.asked("f2") == []
    assert [(h["phase"], h["answers"].get("ratio")) for h in chain.heard("f2")[:2]] == [("reused", "1:1"), ("defaulted", None)]
    assert fork(0, "f1", OTHER).state == "waiting", "what was asked after the fork was not asked in it"
    assert chain.asked("f1") == [2]


def test_an_answer_sent_twice_is_not_taken_for_the_next_question(chain: Chain) -> None:
    path = chain.lay("r1", ASK, OTHER, DONE)
    chain.run(path)
    first = chain.answer("r1", {"start": True})
    chain.run(path)
    assert chain.answer("r1", {"start": True, "questionId": first["questionId"]}) == first
    assert chain.answer("r1", {"choice": "视频"})["answers"] == {"choice": "视频"}
    for bad, kind in (({"start": True, "questionId": "ask_other"}, "not_found"), ({"start": True, "questionId": 1}, "validation")):
        with pytest.raises(ProblemError, match=kind):
            chain.answer("r1", bad)


def test_an_answer_by_its_id_finds_the_run_that_asked(tmp_path: Path) -> None:
    family = Family(tmp_path)
    family.begin(ASK, LOOK, DONE, sub=(OTHER, FOUND))
    first = family.answer("top", {"start": True})
    assert family.resume("top").state == "waiting"
    assert family.answer("top", {"start": True, "questionId": first["questionId"]}) == first
    assert family.answer("top", {"choice": "视频"})["answers"] == {"choice": "视频"}


def test_S1_19_a_question_reads_each_log_a_few_times(tmp_path: Path) -> None:
    """Counted, not timed: of a run with n sub-runs about n logs are read, not n for each."""
    family = Family(tmp_path)
    looks = [LOOK] * 5
    family.begin(*looks, ASK, DONE, sub=(FOUND,))
    read: list[str] = []

    async def count(runs: Runs) -> int:
        from polyloop.app.answers import question

        load = runs.log.load

        async def counted(stream: Any) -> Any:
            read.append(stream.run)
            return await load(stream)

        runs.log.load = counted
        await question(runs, "top")
        return len(read)

    assert family.on(count) <= 3
