"""Sub-runs: they read and nothing else, within the budget and the rounds of the run that began them, and end with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from polyloop.app.runs import Runs
from polyloop.app.wiring import rewire
from polyloop.contract.problem import ProblemError
from polyloop.kernel import records as r
from polyloop.kernel.objects import RunResult, Waiting
from polyloop.kernel.run import Past
from polyloop.kernel.seams import Loaded
from tests.dialogue.chain import DONE, Chain, act
from tests.outside import command

LOOK = ("sub_run", {"task": "What does the file say?"})
READ = ("workspace_read_lines", {"path": "in.txt"})
FOUND = ("submit", {"summary": "It says hello.", "result": {"word": "hello"}})
TOOLS = '"sub_run", "ask_user", "workspace_*", "submit"'

Call = tuple[str, Mapping[str, Any]]


class Family(Chain):
    """Runs with a workspace, and a script for whatever runs below them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "ws").mkdir(exist_ok=True)
        (folder / "ws" / "in.txt").write_text("hello\n")

    def lay_top(self, *calls: Call, sub: tuple[Call, ...], run: str = "top", head: str = "", **more: Any) -> Path:
        (self.folder / "sub.jsonl").write_text("".join(act(*c) for c in sub))
        return self.lay(run, *calls, tools=TOOLS, head='sub_model = "script:sub.jsonl"\nworkspace = "ws"\n' + head, **more)

    def begin(self, *calls: Call, sub: tuple[Call, ...], **more: Any) -> RunResult:
        return self.run(self.lay_top(*calls, sub=sub, **more))

    def below(self, run: str = "top") -> list[str]:
        return [f"sub_{one.key[:24]}" for one in self.records(run) if isinstance(one, r.ActionIntent) and one.tool == "sub_run"]

    def start(self, run: str) -> r.RunStarted:
        first = self.records(run)[0]
        assert isinstance(first, r.RunStarted)
        return first

    def proofs(self, run: str = "top") -> list[r.Evidence]:
        return [e for one in self.records(run) if isinstance(one, r.ActionResult) for e in one.evidence if e.type == "run"]

    def result(self, run: str) -> Any:
        async def look(runs: Runs) -> Any:
            return (await runs.read(run)).result

        return self.on(look)


@pytest.fixture
def family(tmp_path: Path) -> Family:
    return Family(tmp_path)


def test_its_answer_its_end_and_its_cost_stand_in_the_log_above(family: Family) -> None:
    ended = family.begin(LOOK, DONE, sub=(READ, FOUND))
    assert (ended.reason, ended.counters.valid_steps, ended.counters.iterations) == ("completed", 2, 2)
    (child,), (proof,) = family.below(), family.proofs()
    assert (proof.ref, proof.status, proof.complete, proof.iterations, proof.valid_steps) == (child, "completed", True, 2, 2)
    told = family.heard("top")[0]
    assert (told["run"], told["result"]["result"], told["used"]) == (child, {"word": "hello"}, {"iterations": 2, "validSteps": 2})
    start = family.start(child)
    assert (start.parent, start.root, start.assembly["permission_mode"]) == ("top", "top", "read_only")


def test_S1_48_it_has_reading_tools_alone_and_no_grant(family: Family) -> None:
    spend = '[spend]\ncredits = 5\nmodes = ["image"]\n[binding]\n"gateway.session_id" = "s"\n'
    family.begin(LOOK, DONE, sub=(("workspace_write", {"path": "x", "text": "x"}), LOOK, FOUND), head=spend)
    start = family.start(family.below()[0])
    assert {t.effect for t in start.tools if not t.completes} == {"read"}
    assert {t.name for t in start.tools if t.completes} == {"submit"}
    assert "sub_run" not in {t.name for t in start.tools}, "no sub-run begins another"
    assert "spend" not in start.assembly
    assert start.binding == family.start("top").binding, "model calls are paid from the same purse"
    codes = [one.rejection.code for one in family.records(family.below()[0]) if isinstance(one, r.Step) and one.rejection]
    assert codes == ["unknown_tool", "unknown_tool"]
    assert not (family.folder / "ws" / "x").exists()


def test_a_completing_tool_that_writes_is_not_below(family: Family) -> None:
    """A tool that ends the run passes in every mode: below, only `submit` ends one."""
    family.begin(LOOK, DONE, sub=(("workspace_write", {"path": "x", "text": "x"}), FOUND), head='completes = ["workspace_write"]\n')
    assert not (family.folder / "ws" / "x").exists()


def test_tools_are_narrowed_and_never_widened(family: Family) -> None:
    narrow = ("sub_run", {"task": "t", "tools": ["workspace_list"]})
    wide = ("sub_run", {"task": "t", "tools": ["workspace_list", "workspace_write"]})
    family.begin(narrow, wide, DONE, sub=(FOUND,))
    first, second = family.below()
    assert [t.name for t in family.start(first).tools] == ["workspace_list", "submit"]
    refused = family.heard("top")[1]["error"]
    assert (refused["kind"], refused["details"]["problems"][0]["field"]) == ("validation", "tools")

    async def there(runs: Runs) -> bool:
        return await runs.log.head(runs.stream(second)) is not None

    assert not family.on(there), "what was refused was not begun"


def budget(steps: int, iterations: int) -> str:
    return f"max_valid_steps = {steps}\nmax_iterations = {iterations}"


def limited(family: Family, steps: int, *calls: Call, sub: tuple[Call, ...]) -> RunResult:
    path = family.lay_top(*calls, sub=sub)
    path.write_text(path.read_text().replace(budget(20, 20), budget(steps, 20)))
    return family.run(path)


def test_the_budget_is_one(family: Family) -> None:
    """Of 6 steps the first sub-run may use 4 and uses 3; one is its call. What is left cannot carry a second one."""
    ended = limited(family, 6, LOOK, LOOK, READ, sub=(READ, READ, FOUND))
    first, _ = family.below()
    assert family.start(first).budget.max_valid_steps == 4
    assert [told["error"]["kind"] for told in family.heard("top") if "error" in told] == ["budget_exceeded"]
    assert (ended.reason, ended.detail, ended.counters.valid_steps) == ("budget_exhausted", "valid_steps", 3)


def test_one_that_uses_its_budget_up_leaves_enough_to_say_so(family: Family) -> None:
    ended = limited(family, 5, LOOK, DONE, sub=(READ, READ, READ, READ, READ))
    assert (ended.reason, ended.completed_by) == ("completed", "completion_tool")
    (proof,) = family.proofs()
    assert (proof.status, proof.complete, proof.valid_steps) == ("budget_exhausted", False, 3)


ASK = ("ask_user", {"question": "Which way?", "options": [{"label": "left"}, {"label": "right"}]})
OTHER = ("ask_user", {"question": "How far?", "options": [{"label": "near"}, {"label": "far"}]})
THIRD = ("ask_user", {"question": "How fast?", "options": [{"label": "slow"}, {"label": "quick"}]})


def test_S1_19_its_questions_are_rounds_of_the_run_above(family: Family) -> None:
    """One question above and one below are two rounds; a third, above or below, reaches nobody. Its defaults are told as assumptions."""
    waits = family.begin(ASK, LOOK, THIRD, DONE, sub=(OTHER, THIRD, FOUND))
    assert waits.waiting == Waiting("answer", waits.waiting.token if waits.waiting else "")
    family.answer("top", {"choice": "left"})
    waits = family.resume("top")
    (child,) = family.below()
    assert (waits.state, waits.waiting) == ("waiting", Waiting("run", child))
    assert family.asked(child) == [2]
    assert family.answer("top", {"choice": "far"})["answers"] == {"choice": "far"}, "the run that waits is answered"
    assert family.answer("top", {"choice": "near"})["answers"] == {"choice": "far"}, "once"
    ended = family.resume("top")
    assert ended.reason == "completed"
    below, above = family.heard(child)[1], family.heard("top")[-1]
    assert (below["phase"], below["reason"]) == ("defaulted", "confirmation_round_limit")
    assert (above["phase"], above["reason"]) == ("defaulted", "confirmation_round_limit")
    assert family.heard("top")[1]["assumptions"] == [{"title": "How fast?", "answer": "slow"}]


def test_S1_13_what_was_answered_above_is_not_asked_below_nor_the_other_way_round(family: Family) -> None:
    family.begin(ASK, LOOK, DONE, sub=(ASK, FOUND))
    family.answer("top", {"choice": "right"})
    assert family.resume("top").reason == "completed"
    (child,) = family.below()
    assert (family.heard(child)[0]["phase"], family.heard(child)[0]["answers"]) == ("reused", {"choice": "right"})
    family.begin(LOOK, ASK, DONE, sub=(ASK, FOUND), run="other")
    family.answer("other", {"choice": "left"})
    assert family.resume("other").reason == "completed"
    assert family.heard("other")[-1]["answers"] == {"choice": "left"}


def test_it_is_cancelled_with_the_run_above(family: Family) -> None:
    assert family.begin(LOOK, DONE, sub=(ASK, FOUND)).state == "waiting"
    (child,) = family.below()
    assert family.cancel("top").reason == "cancelled"
    assert family.result(child).reason == "cancelled"
    assert [(p.ref, p.status) for p in family.proofs()] == [(child, "cancelled")]
    assert family.run(family.lay("next", OTHER, THIRD, DONE, parent="top")).waiting is not None
    assert family.asked("next") == [2], "its question was pending: the follow-up task has one round left"


async def nothing(*_: Any) -> None:
    """In the place of what a kill keeps from being done."""


def test_it_is_abandoned_with_the_run_above_and_never_goes_on_after_its_end(family: Family) -> None:
    family.begin(LOOK, DONE, sub=(ASK, READ, FOUND))
    (child,) = family.below()
    assert family.on(partial(Runs.abandon, run_id="top", by="person")).reason == "abandoned"
    assert family.result(child).reason == "abandoned"
    family.begin(LOOK, DONE, sub=(ASK, READ, FOUND), run="other")
    (child,) = family.below("other")

    # As after a kill between the two ends: the one below is not found, and nobody ends it.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("polyloop.app.runs.abandon_below", nothing)
        family.on(partial(Runs.abandon, run_id="other", by="person"))
    family.answer(child, {"choice": "left"})
    assert family.resume(child).reason == "cancelled"
    assert len(family.records(child)) < 12, "it read nothing more"


def test_what_it_worked_while_the_run_above_waited_counts_there_too(family: Family) -> None:
    family.begin(LOOK, DONE, sub=(ASK, READ, FOUND))
    family.answer("top", {"choice": "left"})
    assert family.resume("top").reason == "completed"
    (child,), (proof,) = family.below(), family.proofs()
    worked = sum(one.timings.total for one in family.records(child) if isinstance(one, r.Step))
    assert proof.working_ms == pytest.approx(worked, abs=1) != 0
    own = sum(one.timings.total for one in family.records("top") if isinstance(one, r.Step))

    async def state(runs: Runs) -> float:
        return Past(Loaded((await runs.read("top")).sealed)).state.working_ms

    assert family.on(state) == pytest.approx(own + worked, abs=1)


def test_S1_22_a_long_answer_from_below_keeps_its_assumptions(family: Family) -> None:
    long = ("submit", {"summary": "s", "result": '"长\\' * 40_000})
    family.begin(ASK, LOOK, DONE, sub=(OTHER, THIRD, long))
    family.answer("top", {"choice": "left"})
    family.resume("top")
    family.answer("top", {"choice": "far"})
    assert family.resume("top").reason == "completed"
    from polyloop.app.final import final_answer

    told: str = family.on(partial(final_answer, run_id="top", lang="zh"))
    assert "- How fast?：slow\n" in told


def test_a_wait_for_what_is_no_sub_run_is_left_alone(family: Family) -> None:
    """A tool of somebody else's may wait for a run that is none of this store."""
    from polyloop.app.answers import awaits_person
    from polyloop.kernel.objects import Counters

    family.begin(LOOK, DONE, sub=(FOUND,))
    foreign = RunResult("top", "local", "waiting", Counters(), waiting=Waiting("run", "job-1"))
    assert family.on(partial(awaits_person, result=foreign)) is False


def test_one_that_a_person_ended_is_told_as_ended(family: Family) -> None:
    family.begin(LOOK, DONE, sub=(ASK, FOUND))
    (child,) = family.below()
    family.cancel(child)
    assert family.resume("top").reason == "completed"
    assert [(p.ref, p.status, p.complete) for p in family.proofs()] == [(child, "cancelled", False)]


def test_one_that_was_finished_elsewhere_is_taken_as_it_ended(family: Family) -> None:
    family.begin(LOOK, DONE, sub=(ASK, READ, FOUND))
    (child,) = family.below()
    family.answer(child, {"choice": "left"})
    assert family.resume(child).reason == "completed"
    before = len(family.records(child))
    assert family.resume("top").reason == "completed"
    assert len(family.records(child)) == before, "it is only read"
    assert [(p.ref, p.iterations) for p in family.proofs()] == [(child, 3)]


def test_a_wait_for_it_asks_for_the_answer(family: Family) -> None:
    from polyloop.app.final import final_answer

    family.begin(LOOK, DONE, sub=(ASK, FOUND))
    told: str = family.on(partial(final_answer, run_id="top", lang="zh"))
    assert "任务在等您回答一个问题" in told
    assert "1. 回答正在等待的问题" in told
    assert "sub_" not in told


@pytest.mark.parametrize("below", [True, False])
def test_between_the_answer_and_the_resume_nobody_is_told_to_answer(family: Family, below: bool) -> None:
    from polyloop.app.final import final_answer

    family.begin(*((LOOK, DONE) if below else (ASK, DONE)), sub=(ASK, FOUND))
    family.answer("top", {"choice": "left"})
    told: str = family.on(partial(final_answer, run_id="top", lang="zh"))
    assert told.startswith("# 还没有完成\n")
    assert "您的回答已收到，任务可以继续" in told
    assert "1. 让任务继续\n" in told
    assert "回答正在等待的问题" not in told


def test_two_of_one_reply_take_turns(family: Family, tmp_path: Path) -> None:
    """Reads overlap; sub-runs do not: the second counts what the first has used, and the rounds it has asked."""
    calls = [{"id": f"c{n}", "name": "sub_run", "arguments": json.dumps({"task": f"t{n}", "maxSteps": 3})} for n in (1, 2)]
    end = {"id": "c3", "name": "submit", "arguments": '{"summary": "s"}'}
    (tmp_path / "sub.jsonl").write_text(
        "".join(json.dumps({"tool_calls": [{"id": "a", "name": name, "arguments": json.dumps(args)}]}) + "\n" for name, args in (READ, FOUND))
    )
    path = family.lay("top", tools=TOOLS, head='sub_model = "script:sub.jsonl"\nworkspace = "ws"')
    (tmp_path / "top.jsonl").write_text(json.dumps({"tool_calls": calls}) + "\n" + json.dumps({"tool_calls": [end]}) + "\n")
    path.write_text(path.read_text().replace('id = "a"\n', 'id = "a"\nprotocol = "native-tools/1"\n').replace(budget(20, 20), budget(9, 20)))
    assert family.run(path).reason == "completed"
    one, two = (family.start(child).budget for child in family.below())
    assert (one.max_valid_steps, two.max_valid_steps) == (3, 3)
    assert (one.max_iterations, two.max_iterations) == (18, 16)


def test_an_answer_to_a_run_that_asked_through_another_counts_once_also_after_the_end(family: Family) -> None:
    family.begin(LOOK, DONE, sub=(ASK, FOUND))
    family.answer("top", {"choice": "left"})
    assert family.resume("top").reason == "completed"
    assert family.answer("top", {"choice": "right"})["answers"] == {"choice": "left"}


def test_S1_19_a_fork_of_a_sub_run_counts_its_own_questions(family: Family) -> None:
    family.begin(LOOK, DONE, sub=(READ, ASK, OTHER, THIRD, FOUND))
    (child,) = family.below()
    at = next(n for n, one in enumerate(family.records(child)) if isinstance(one, r.Step))
    family.cancel("top")

    async def fork(runs: Runs) -> RunResult:
        return await runs.fork(child, at, "fork", rewire)

    waits = family.on(fork)
    while waits.state == "waiting":
        family.answer("fork", {"start": True})
        waits = family.resume("fork")
    assert waits.reason == "completed"
    assert len(family.asked("fork")) <= 2
    assert family.heard("fork")[-1]["reason"] == "confirmation_round_limit"


@pytest.mark.needs("media")
def test_S1_69_below_a_run_that_sees_one_that_does_not_has_no_eyes(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYLOOP_HOME", str(family.folder))
    (family.folder / "gateway.toml").write_text('[sources."script:top.jsonl"]\nvision = true\n')
    canvas = command(family.folder, "canvas", "new", "--title", "T", "--store", family.store, "--json").said["canvasId"]
    path = family.lay_top(LOOK, DONE, sub=(FOUND,), head=f'canvas = "{canvas}"\n')
    path.write_text(path.read_text().replace('"workspace_*"', '"canvas_*"'))
    assert family.run(path).reason == "completed"
    assert "canvas_inspect_image" in {t.name for t in family.start("top").tools}
    below = {t.name for t in family.start(family.below()[0]).tools}
    assert "canvas_get_state" in below
    assert "canvas_inspect_image" not in below


def test_why_it_cannot_go_on_is_told_above_and_what_is_accepted_there_is_accepted_below(family: Family) -> None:
    """Nobody waits for ever for what can never go on: whoever resumes is told, each time, and nothing is lost meanwhile."""
    script = family.folder / "sub.jsonl"
    own = '"""Peek."""\nimport polyloop\n@polyloop.tool(effect="read")\nasync def peek(q: str) -> str:\n    """{}"""\n    return q\n'
    (family.folder / "own_peek.py").write_text(own.format("One."))
    path = family.lay_top(LOOK, DONE, sub=(ASK, FOUND))
    path.write_text(path.read_text().replace('"workspace_*"', '"own_peek:peek"'))
    family.run(path)
    (child,) = family.below()
    family.answer("top", {"choice": "left"})
    gone = script.rename(family.folder / "gone.jsonl")
    for again in (partial(family.resume, "top"), partial(family.run, path)):
        with pytest.raises(ProblemError, match="cannot read") as refused:
            again()
        assert refused.value.problem.details["run"] == child
    gone.rename(script)
    (family.folder / "own_peek.py").write_text(own.format("Another length."))
    sys.modules.pop("own_peek", None)
    with pytest.raises(ProblemError, match="parameter_drift"):
        family.resume("top")
    assert family.result("top").state == "waiting"
    assert family.resume("top", "tools.peek.description").reason == "completed"
    assert family.result(child).reason == "completed"
