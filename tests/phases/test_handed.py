"""The handed cases of area phases, each by its own input. None may be missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyloop.app.phases import carry_out
from polyloop.app.runs import Runs
from polyloop.kernel.seams import Event
from polyloop.phases import Flow, FlowResult, Phase, Required
from polyloop.workspace import Workspace
from tests.phases.test_flows import SUBMIT, Bench, call, states, write

CASES = {
    case["id"]: case["minimal_input"]
    for case in map(json.loads, (Path(__file__).parents[1] / "cases/handed.jsonl").read_text().splitlines())
    if case["area"] == "phases"
}


def stopped_after(bench: Bench, steps: int, *phases: Phase) -> FlowResult:
    """Carry out a flow whose process is told to stop after so many steps."""

    async def work(runs: Runs) -> FlowResult:
        seen: list[str] = []

        def stop(event: Event) -> None:
            seen.extend([event.type] if event.type == "step" else [])
            if len(seen) == steps:
                runs.suspend()

        return await carry_out(runs, Flow("f", "acme", phases), Workspace(bench.ws, read_only=("data", "attempts")), (stop,))

    return bench.open(work)


def false_success_01(bench: Bench, given: dict[str, Any]) -> None:
    """The run completed and says it wrote the list."""
    (path,) = given["required"]
    result = bench.flow(bench.phase("plan", call("submit", summary=f"wrote {path}"), required=(Required(path),)))
    assert (result.state, result.phases[0].reason, path in result.phases[0].problems[0]) == ("failed", "completed", True)


def false_success_02(bench: Bench, given: dict[str, Any]) -> None:
    """Six workers: each in a flow and a workspace of its own."""
    required = tuple(map(Required, given["required"]))
    failed = []
    for number in range(given["n"]):
        bench.folder.joinpath(str(number)).mkdir()
        own = Bench(bench.folder / str(number))
        failed.append(own.flow(own.phase("work", SUBMIT, required=required)).phases[0])
    assert [(p.state, p.problems) for p in failed] == [("failed", ("report.md: 0 of 1 required files",))] * 6


def false_success_04(bench: Bench, given: dict[str, Any]) -> None:
    """One verdict: the phase's, the flow's and the log's are the same, told now and told again."""
    phase = bench.phase("plan", write("plan.txt", "x"), SUBMIT, check=lambda *_: [given["check"]])
    first, again = bench.flow(phase), bench.flow(phase)
    assert [(r.state, r.phases[0].state, r.phases[0].problems) for r in (first, again)] == [("failed", "failed", ("missing",))] * 2
    ends = [json.loads(s.body or b"") for s in bench.open(lambda runs: runs.read("f/plan/1")).sealed if s.kind == "run_ended"]
    assert [end["reason"] for end in ends] == ["completed"], "the run ended well, which is not the phase's verdict"


def false_success_05(bench: Bench, given: dict[str, Any]) -> None:
    """A run of three steps without an end is gone on with; the next phase begins after it."""
    steps = [write("plan.txt", "x"), *(call("workspace_exists", path=f"{n}") for n in range(3)), SUBMIT]
    phases = (bench.phase("plan", *steps), bench.phase("next", write("next.txt", "x"), SUBMIT))
    stopped = stopped_after(bench, 3, *phases)
    assert (states(stopped), bench.kinds()) == ([("plan", "interrupted", 1, False)], ["phase_started"])
    assert states(bench.flow(*phases)) == [("plan", "completed", 1, False), ("next", "completed", 1, False)]
    assert bench.steps("f/plan/1") == len(steps)


def tool_scope_01(bench: Bench, given: dict[str, Any]) -> None:
    """What the model is shown, what exists and what is dispatched are one set."""
    tools = ["workspace_read_lines", "workspace_write", "workspace_list", "submit"]
    phase = bench.phase(given["phase"], call("skill_search", query="x"), write("summarise.txt", "x"), SUBMIT, tools=tools)
    assert bench.flow(phase).state == "completed"
    sealed = bench.open(lambda runs: runs.read(f"f/{given['phase']}/1")).sealed
    records = [(s.kind, json.loads(s.body or b"")) for s in sealed]
    assert [tool["name"] for tool in records[0][1]["tools"]] == tools
    assert next(body["rejection"]["code"] for kind, body in records if kind == "step") == "unknown_tool"
    assert [body["tool"] for kind, body in records if kind == "action_intent"] == ["workspace_write", "submit"]


def tool_scope_03(bench: Bench, given: dict[str, Any]) -> None:
    """A malformed plan fails the phase that made it; the one that would read it makes no model call, it has not even a run."""
    ((path, text),) = given.items()
    required = (Required(path, schema={"type": "object", "required": ["items"]}),)
    phases = (bench.phase("plan", write(path, text), SUBMIT, required=required), bench.phase("execute", write("execute.txt", "x"), SUBMIT))
    result = bench.flow(*phases)
    assert (states(result), path in result.phases[0].problems[0]) == ([("plan", "failed", 1, False)], True)
    page, _ = bench.open(lambda runs: runs.list())
    assert [listed.run_id for listed in page] == ["f/plan/1"]


@pytest.mark.parametrize("case", CASES)
def test_handed_case(case: str, tmp_path: Path) -> None:
    carried: Callable[[Bench, dict[str, Any]], None] = globals()[case.replace("-", "_")]
    carried(Bench(tmp_path), CASES[case])
