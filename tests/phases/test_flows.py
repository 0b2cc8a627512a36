"""Flows, end to end: real runs of scripted models, a real store, real files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from polyloop.app.phases import carry_out, flow_log, flow_records
from polyloop.app.runs import Runs
from polyloop.app.store import open_runs
from polyloop.contract.problem import ProblemError
from polyloop.kernel.objects import Agent, Budget, Segment
from polyloop.phases import Flow, FlowResult, Phase, Recovered, Required, text_prompt
from polyloop.phases.flowlog import RetryAsked
from polyloop.workspace import Workspace

Reply = dict[str, Any]
TOOLS = ["workspace_*", "submit"]


def call(tool: str, **args: Any) -> Reply:
    return {"text": json.dumps({"action": {"tool": tool, "args": args}})}


def write(path: str, text: str) -> Reply:
    return call("workspace_write", path=path, text=text, ifAbsent=False)


SUBMIT = call("submit", summary="done")


class Bench:
    """A folder with a store, a workspace and script files; `flow` carries out phases given by their replies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ws = folder / "ws"
        self.ws.mkdir()

    def phase(self, name: str, *replies: Reply, steps: int = 5, tools: Sequence[str] = TOOLS, **more: Any) -> Phase:
        (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in replies))
        assembly = {
            "base": str(self.folder), "model": f"script:{name}.jsonl", "tools": json.dumps(tools), "completes": '["submit"]',
            "permission_mode": "auto", "workspace": str(self.ws), "workspace_read_only": '["data", "attempts"]',
        }  # fmt: skip
        given = {"required": (Required(f"{name}.txt"),), "build_prompt": text_prompt(Segment("task", text=name)), **more}
        return Phase(name, Agent("writer"), Budget(steps, 2 * steps), assembly=assembly, **given)

    def open(self, work: Callable[[Runs], Any]) -> Any:
        async def inside() -> Any:
            async with open_runs(str(self.folder / "runs.db"), "acme", dedicated=True) as runs, runs.holding():
                return await work(runs)

        return asyncio.run(inside())

    def flow(self, *phases: Phase, **more: Any) -> FlowResult:
        ws = Workspace(self.ws, read_only=("data", "attempts"))
        return self.open(lambda runs: carry_out(runs, Flow("f", "acme", phases), ws, **more))

    def kinds(self) -> list[str]:
        return [record["kind"] for record in self.open(lambda runs: flow_records(runs, "f"))]

    def steps(self, run: str) -> int:
        return self.open(lambda runs: runs.read(run)).result.counters.valid_steps


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def states(result: FlowResult) -> list[tuple[str, str, int, bool]]:
    return [(p.phase, p.state, p.attempt, p.skipped) for p in result.phases]


@pytest.mark.parametrize("count", [1, 3, 5])
def test_S2_9_any_number_of_phases(bench: Bench, count: int) -> None:
    phases = [bench.phase(f"p{n}", write(f"p{n}.txt", "x"), SUBMIT) for n in range(count)]
    assert states(bench.flow(*phases)) == [(f"p{n}", "completed", 1, False) for n in range(count)]
    assert states(bench.flow(*phases)) == [(f"p{n}", "completed", 1, True) for n in range(count)]
    assert bench.kinds() == ["phase_started", "phase_ended"] * count


def test_S2_7_a_required_file_that_is_missing_fails_the_phase_though_the_run_completed(bench: Bench) -> None:
    result = bench.flow(bench.phase("plan", SUBMIT), bench.phase("next", SUBMIT))
    assert states(result) == [("plan", "failed", 1, False)]
    assert result.phases[0].reason == "completed"
    assert result.phases[0].problems == ("plan.txt: 0 of 1 required files",)
    assert states(bench.flow(bench.phase("plan", SUBMIT))) == [("plan", "failed", 1, True)]


@pytest.mark.parametrize(("text", "state"), [("old", "failed"), ("new", "completed")])
def test_S2_7_a_stale_file_is_not_of_this_attempt(bench: Bench, text: str, state: str) -> None:
    (bench.ws / "plan.txt").write_text("old")
    result = bench.flow(bench.phase("plan", write("plan.txt", text), SUBMIT))
    assert result.state == state
    if state == "failed":
        assert "not of this attempt" in result.phases[0].problems[0]


SCHEMA = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("required", "files", "wrong"),
    [
        (Required("a.json", schema=SCHEMA), {"a.json": '{"n": 1}'}, ""),
        (Required("a.json", schema=SCHEMA), {"a.json": '{"n": "1"}'}, "a.json: n:"),
        (Required("a.json", schema=SCHEMA), {"a.json": '{"n": 1'}, "it is no JSON"),
        (Required("a.json", schema=SCHEMA), {"a.json": "[" * 200_000}, "it is nested too deeply"),
        (Required("a.json", schema={"type": "array", "items": {"type": "integer"}}), {"a.json": "[" * 900 + "]" * 900}, "a.json: "),
        (Required("a.json"), {"a.json": " \n"}, "it is empty"),
        (Required("a.json", empty=True), {"a.json": ""}, ""),
        (Required(dir="out", pattern="*.json", min_files=2), {"out/a.json": "1", "out/b.json": "2"}, ""),
        (Required(dir="out", pattern="*.json", min_files=2), {"out/a.json": "1", "out/b.txt": "2", "out/x/c.json": "3"}, "1 of 2 required"),
    ],
)
def test_required_outputs(bench: Bench, required: Required, files: Mapping[str, str], wrong: str) -> None:
    replies = [write(path, text) for path, text in files.items()]
    result = bench.flow(bench.phase("plan", *replies, SUBMIT, required=(required,)))
    assert (result.state == "completed") == (not wrong)
    assert all(wrong in text for text in result.phases[0].problems)


def test_S2_21_a_retry_keeps_the_log_and_the_files_of_attempt_1(bench: Bench) -> None:
    """The script counts replies per run, so both attempts begin alike: the first one is made to fail by its check."""
    tries: list[int] = []

    def check(workspace: Workspace, outputs: Mapping[str, str]) -> Sequence[str]:
        tries.append(1)
        return [] if len(tries) > 1 else ["not yet"]

    phase = bench.phase("plan", write("plan.txt", "x"), write("notes.txt", "y"), SUBMIT, attempts=2, check=check)
    result = bench.flow(phase)
    assert states(result) == [("plan", "completed", 2, False)]
    assert (bench.ws / "attempts/1/plan.txt").read_text() == "x"
    assert (bench.ws / "attempts/1/notes.txt").read_text() == "y"
    assert bench.steps("f/plan/1") == bench.steps("f/plan/2") == 3
    assert bench.kinds() == ["phase_started", "phase_ended"] * 2


@pytest.mark.parametrize(("asked", "attempts"), [(False, 1), (True, 3)])
def test_a_used_up_budget_is_retried_only_when_asked(bench: Bench, asked: bool, attempts: int) -> None:
    phase = bench.phase("plan", *[write("plan.txt", "x")] * 4, steps=2, attempts=3, retry_exhausted=asked)
    result = bench.flow(phase)
    assert (result.state, result.phases[0].attempt, result.phases[0].reason) == ("failed", attempts, "budget_exhausted")


def test_a_retry_asked_for_by_a_person_gives_one_more_series_of_attempts(bench: Bench) -> None:
    phase = bench.phase("plan", SUBMIT)
    assert bench.flow(phase).phases[0].attempt == 1

    async def ask(runs: Runs) -> None:
        async with flow_log(runs, "f") as log:
            await log.append(RetryAsked("plan", "person"))

    bench.open(ask)
    assert states(bench.flow(phase)) == [("plan", "failed", 2, False)]
    assert states(bench.flow(phase)) == [("plan", "failed", 2, True)]


def test_S2_32_a_recovery_is_named_recorded_told_and_marked(bench: Bench) -> None:
    def recover(workspace: Workspace, problems: Sequence[str]) -> Recovered:
        workspace.write_atomic("plan.txt", b"from the draft")
        return Recovered("draft.txt", ("plan.txt",))

    told: list[str] = []
    phase = bench.phase("plan", write("draft.txt", "d"), SUBMIT, recover=("from_draft", recover))
    result = bench.flow(phase, noted=lambda kind, _: told.append(kind))
    assert (result.state, result.phases[0].recovered) == ("completed", "from_draft")
    assert told == ["phase_started", "phase_recovery_started", "phase_recovery", "phase_ended"] == bench.kinds()
    [record] = [r for r in bench.open(lambda runs: flow_records(runs, "f")) if r["kind"] == "phase_recovery"]
    assert (record["recovery"], record["source"], list(record["checksums"])) == ("from_draft", "draft.txt", ["plan.txt"])
    kinds = [s.kind for s in bench.open(lambda runs: runs.read("f/plan/1")).sealed]
    assert "phase_recovery" not in kinds


@pytest.mark.parametrize("before", ["its write", "its record", "the end of the phase"])
def test_S2_32_a_recovery_that_was_killed_is_marked_all_the_same(bench: Bench, before: str) -> None:
    """Killed at any moment of a recovery, the phase is gone on with, the output marked, and the recovery recorded once."""

    class Killed(BaseException):
        pass

    calls: list[int] = []

    def recover(workspace: Workspace, problems: Sequence[str]) -> Recovered:
        calls.append(1)
        assert problems == ("plan.txt: 0 of 1 required files",)
        if before == "its write" and len(calls) == 1:
            raise Killed
        workspace.write_atomic("plan.txt", b"from the draft", replace=True)
        if before == "its record" and len(calls) == 1:
            raise Killed
        return Recovered("draft.txt", ("plan.txt",))

    def noted(kind: str, _: object) -> None:
        if before == "the end of the phase" and kind == "phase_recovery":
            raise Killed

    phase = bench.phase("plan", write("draft.txt", "d"), SUBMIT, recover=("from_draft", recover))
    with pytest.raises(Killed):
        bench.flow(phase, noted=noted)
    result = bench.flow(phase)
    assert (result.state, result.phases[0].attempt, result.phases[0].recovered) == ("completed", 1, "from_draft")
    assert bench.kinds() == ["phase_started", "phase_recovery_started", "phase_recovery", "phase_ended"]


@pytest.mark.needs("confinement")
@pytest.mark.parametrize(
    ("script", "wrong"), [("truncate -s 17M plan.txt", "it is larger than"), ("printf '\\377\\376{\\0}\\0' > plan.txt", "no JSON in UTF-8")]
)
def test_a_file_that_cannot_be_judged_fails_its_phase_and_not_the_flow(bench: Bench, script: str, wrong: str) -> None:
    make = call("workspace_exec", argv=["sh", "-c", script])
    result = bench.flow(bench.phase("plan", make, SUBMIT, tools=[*TOOLS, "workspace_exec"], required=(Required("plan.txt", schema={}),)))
    assert (result.state, wrong in str(result.phases[0].problems)) == ("failed", True)


def test_outputs_that_were_changed_afterwards_are_made_again_and_so_is_all_that_rests_on_them(bench: Bench) -> None:
    phases = [bench.phase(name, write(f"{name}.txt", name), SUBMIT) for name in ("a", "b")]
    bench.flow(*phases)
    (bench.ws / "a.txt").write_text("meddled with")
    assert states(bench.flow(*phases)) == [("a", "completed", 2, False), ("b", "completed", 2, False)]
    assert (bench.ws / "attempts/1/b.txt").read_text() == "b"
    assert states(bench.flow(*phases)) == [("a", "completed", 2, True), ("b", "completed", 2, True)]


def test_S2_47_every_run_carries_its_tenant(bench: Bench) -> None:
    bench.flow(bench.phase("plan", write("plan.txt", "x"), SUBMIT))
    binding = bench.open(lambda runs: runs.request("f/plan/1")).binding
    assert binding == {"gateway.cache_namespace": "acme", "gateway.tenant_id": "acme"}


@pytest.mark.needs("confinement")
def test_S2_12_a_file_made_by_a_program_counts_and_only_where_the_phase_has_that_tool(bench: Bench) -> None:
    make = call("workspace_exec", argv=["sh", "-c", "echo x > plan.txt; echo x > data/in.txt"])
    (bench.ws / "data").mkdir()
    result = bench.flow(bench.phase("plan", make, SUBMIT, tools=[*TOOLS, "workspace_exec"]), bench.phase("next", make, SUBMIT))
    assert states(result) == [("plan", "completed", 1, False), ("next", "failed", 1, False)]
    assert list((bench.ws / "data").iterdir()) == []
    codes = [json.loads(s.body or b"").get("rejection") for s in bench.open(lambda runs: runs.read("f/next/1")).sealed if s.kind == "step"]
    assert codes[0]["code"] == "unknown_tool"


def test_areas_that_were_given_cannot_be_written(bench: Bench) -> None:
    (bench.ws / "data").mkdir()
    replies = [write(path, "x") for path in ("data/in.txt", "Data/in.txt", "attempts/1/a.txt", "plan.txt")]
    assert bench.flow(bench.phase("plan", *replies, SUBMIT)).state == "completed"
    assert sorted(p.name for p in bench.ws.iterdir()) == [".polyloop-workspace", "data", "plan.txt"]
    assert list((bench.ws / "data").iterdir()) == []


def test_a_flow_is_not_a_run(bench: Bench) -> None:
    bench.flow(bench.phase("plan", write("plan.txt", "x"), SUBMIT))
    page, _ = bench.open(lambda runs: runs.list())
    assert [listed.run_id for listed in page] == ["f/plan/1"]


@pytest.mark.parametrize("bad", ["", "a/b", ".", "x" * 101, "a b"])
def test_names_that_would_not_make_run_ids(bench: Bench, bad: str) -> None:
    with pytest.raises(ProblemError) as caught:
        Flow(bad, "acme", (bench.phase("plan"),))
    assert caught.value.problem.kind == "validation"


def test_S2_5_a_workspace_that_another_has_is_refused(bench: Bench) -> None:
    other = Workspace(bench.ws)
    other.hold()
    with pytest.raises(ProblemError) as caught:
        bench.flow(bench.phase("plan", SUBMIT))
    assert caught.value.problem.kind == "owned_elsewhere"
    other.close()
