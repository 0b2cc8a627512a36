"""The handed cases of area kernel, each by its id, with its own input (tests/cases/handed.jsonl).

Cases that need a process to be killed or a second worker stand in tests/crash and tests/stores; ELSEWHERE says where.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from polyloop.clock import SystemClock
from polyloop.kernel import records as r
from polyloop.kernel.objects import Budget, Segment
from polyloop.kernel.run import ParameterDrift, RunExists
from polyloop.kernel.seams import Deferred, ModelCallFailed, StoreError
from polyloop.testing import said
from tests.kernel.desk import CLOSED, SUBMIT, TOOLS, Desk, Spelled, act, go, spell, tool
from tests.kernel.stuck import Stubborn, hang, others, waited

CASES = {c["id"]: c for c in map(json.loads, (Path(__file__).parents[1] / "cases" / "handed.jsonl").read_text().splitlines())}
DONE = act("submit", summary="s")

#: Cases of this area that are no matter of the kernel alone, and who answers for them.
ELSEWHERE = {
    "duplicate_effect-04": "phases",
    "duplicate_effect-07": "stores, and test_entry here",
    "hostile_input-10": "toolbox",
    "hostile_input-12": "toolbox",
}


def given(case: str) -> dict[str, Any]:
    return CASES[case]["minimal_input"]


def statuses(desk: Desk) -> list[str]:
    return [x["status"] for x in desk.shown() if x["kind"] == "action_result"]


def test_no_case_of_the_kernel_lacks_a_test() -> None:
    here = "".join(re.findall(r"def (test_\w+)", Path(__file__).read_text()))
    ids = {i for i, c in CASES.items() if c["area"] == "kernel"}
    assert {i for i in ids - ELSEWHERE.keys() if i.replace("-", "_") not in here} == set()
    assert ELSEWHERE.keys() <= ids


def test_duplicate_effect_01() -> None:
    """Killed after the tool's result was stored and before the step: the effect is not repeated, wherever the cut lies."""
    whole = Desk([act("append", text="x"), DONE], tools=(*TOOLS, tool("append", "write", "never")))
    whole.start()
    after = whole.log.kinds.index("action_result") + 1
    for count in range(after, len(whole.log.records)):
        desk = Desk(whole.model.lines, tools=(*TOOLS, tool("append", "write", "never")), shelf=whole.log.upto(count))
        desk.actions.words["submit"] = said("in")
        assert desk.resume().reason == "completed"
        assert desk.actions.calls("append") == 0


def test_duplicate_effect_02() -> None:
    """Nothing is called before the start is durable; a start that was refused leaves no trace."""
    desk = Desk([DONE])

    def fail(*_: object) -> None:
        raise StoreError("gone")

    desk.log.before = fail
    stopped = desk.start()
    assert (stopped.persisted, desk.model.seen, desk.log.records) == (False, [], [])


def test_duplicate_effect_05() -> None:
    """A model error late in the run ends it once; the log still shows the one effect."""
    desk = Desk([act("write"), ModelCallFailed("down")])
    assert desk.start().reason == "model_call_failed"
    assert desk.start().reason == "model_call_failed"
    assert (desk.actions.calls("write"), len(desk.model.seen), statuses(desk)) == (1, 2, ["ok"])


def test_duplicate_effect_09() -> None:
    """id=r1 def=A, id=r1 def=B: the second is a conflict, and A still finishes after a crash."""
    whole = Desk([act("look"), DONE])
    whole.start()
    desk = Desk([act("look"), DONE], shelf=whole.log.upto(4))
    definition = desk.request
    desk.request = replace(definition, agent=replace(definition.agent, id="B"))
    with pytest.raises(RunExists):
        desk.start()
    assert len(desk.log.records) == 4
    desk.request = definition
    assert desk.resume().reason == "completed"


def test_duplicate_effect_10() -> None:
    """Stopped during the final text and continued twice: one document, and its result stands in the next prompt."""
    desk = Desk([act("create_doc"), hang, DONE], tools=(*TOOLS, tool("create_doc", "write", "never")), clock=SystemClock())

    async def stopped() -> Any:
        task = asyncio.ensure_future(desk.starting())
        await asyncio.sleep(0.03)
        desk.driver.suspend()
        return await task

    for _ in range(1 + given("duplicate_effect-10")["continue"]):
        assert go(stopped()).state == "interrupted"
    desk.model.lines = [act("create_doc"), DONE]
    assert desk.resume().reason == "completed"
    assert desk.actions.calls("create_doc") == 1
    assert "[create_doc: ok]" in desk.told()


def test_duplicate_effect_11_event_handler_04_event_handler_06() -> None:
    """A listener that raises: one effect, the same model calls, the run goes on (the whole zoo: test_events)."""
    for fault in (ValueError, SystemExit, GeneratorExit, asyncio.CancelledError):

        def listener(_: object, fault: type[BaseException] = fault) -> None:
            raise fault

        desk = Desk([act("write"), DONE], sinks=(listener,))
        assert desk.start().reason == "completed"
        assert (desk.actions.calls("write"), len(desk.model.seen)) == (1, 2)


def test_cancellation_leak_01_cancellation_leak_10() -> None:
    """Cancelled in a tool that ticks: no tick after the grace, state cancelled, no pending task, other runs unaffected."""
    ticks: list[float] = []

    async def ticking(_: object) -> None:
        while True:
            ticks.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.01)

    async def main() -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        rest = [asyncio.ensure_future(Desk([lambda _: asyncio.sleep(0.1, DONE)], clock=SystemClock()).starting()) for _ in range(3)]
        task = asyncio.ensure_future(desk.starting())
        await asyncio.sleep(given("cancellation_leak-01")["cancel_at_ms"] / 1000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        ended = loop.time()
        assert [(await t).reason for t in rest] == ["completed"] * 3
        return ended, len(others())

    desk = Desk([act("look")], {"look": ticking}, clock=SystemClock())
    ended, left = go(main())
    assert (max(ticks) <= ended, left, desk.log.bodies()[-1].reason) == (True, 0, "cancelled")


def test_cancellation_leak_02() -> None:
    """The run ends by submit while a read beside it hangs on: it is over before the end is written."""
    late = Stubborn(0.2)
    slow = tool("slow", timeout_s=0.03)
    desk = Desk([spell(["act", "look"], ["act", "slow"], ["act", "submit"])], {"slow": late}, tools=(*TOOLS, slow), interpreter=Spelled(),
                clock=SystemClock(), grace_s=0.5)  # fmt: skip
    assert go(desk.starting()).reason == "completed"
    assert late.ended
    assert [s["outcome"] for s in desk.steps()] == ["ok", "ok", "ok"]


def test_cancellation_leak_03() -> None:
    """Every intent gets a closing record; what may still run is named."""
    desk = Desk([spell(["act", "look", {"n": 1}], ["act", "look", {"n": 2}])], interpreter=Spelled(), clock=SystemClock(), grace_s=0.05)
    desk.actions.deeds["look"] = lambda a: (hang if a.args["n"] == 1 else Stubborn(0.3))(a)

    async def main() -> None:
        task = asyncio.ensure_future(desk.starting())
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    go(main())
    assert statuses(desk) == ["unknown", "unknown"]
    assert [x["leaked"] for x in desk.shown() if x["kind"] == "action_result"] == [False, True]


def test_stuck_loop_01() -> None:
    """A tool outside the registry, fifty times: its own reason, the name in the log, no valid step."""
    case = given("stuck_loop-01")
    (registered,) = case["registry"]
    for guard, reason in ((3, "stalled"), (0, "budget_exhausted")):
        desk = Desk(lambda _: act("get_item"), tools=(tool(registered),), iterations=case["iteration_cap"], max_identical_rejections=guard)
        ended = desk.start()
        assert (ended.reason, ended.counters.valid_steps) == (reason, 0)
        assert ended.detail == ("identical_rejections" if guard else "iterations")
        assert {s["tool"] for s in desk.steps()} == {"get_item"}


def test_stuck_loop_02() -> None:
    """The same valid call with the same empty result: valid steps all, flagged, and the step budget ends it."""
    desk = Desk(lambda _: act("look", q="x"), {"look": said("")}, valid_steps=given("stuck_loop-02")["n"], iterations=500)
    ended = desk.start()
    assert (ended.reason, ended.detail, ended.counters.valid_steps) == ("budget_exhausted", "valid_steps", 172)
    assert sum(s["repeated"] for s in desk.steps()) == 171


def test_stuck_loop_05() -> None:
    """A parameter is missing for ever: model calls = cap exactly."""
    write_file = tool("write_file", "write", schema={**CLOSED, "required": ["text"]})
    desk = Desk(lambda _: act("write_file", path="a"), tools=(write_file,), iterations=11, max_identical_rejections=0)
    assert (desk.start().detail, len(desk.model.seen), desk.actions.done) == ("iterations", 11, [])


def test_budget_01_budget_02() -> None:
    """The budget is looked at before each start, also of calls that overlap: never one too many."""
    for name, steps, calls in (
        ("write", given("budget-01")["tool_budget"], 8),
        ("look", given("budget-02")["remaining"], given("budget-02")["parallel"]),
    ):
        desk = Desk([spell(*[["act", name, {"n": n}] for n in range(calls)])], interpreter=Spelled(), valid_steps=steps)
        ended = desk.start()
        assert (ended.reason, ended.detail) == ("budget_exhausted", "valid_steps")
        assert (desk.actions.calls(name), [s["tier"] for s in desk.steps()].count("H")) == (steps, calls - steps)


def test_budget_06_budget_07() -> None:
    """At the cap: not completed, no result, the last call is not the answer, and the log so far is there."""
    for cap, case in ((given("budget-06")["iteration_cap"], "look"), (given("budget-07")["iteration_cap"], "exists")):
        desk = Desk(lambda _, n=case: given("budget-07")["last_reply"] if n == "exists" else act(n), tools=(*TOOLS, tool("exists")), iterations=cap)
        ended = desk.start()
        assert (ended.reason, ended.detail, ended.completed_by, ended.result) == ("budget_exhausted", "iterations", "", None)
        assert len(desk.steps()) == cap


def test_budget_08() -> None:
    """A limit stops a tool that would go on for ten minutes: the end is there within it and the grace."""
    desk = Desk([act("look")], {"look": hang}, clock=SystemClock(), wall_clock_s=0.1, grace_s=0.2)

    async def main() -> float:
        began = waited()
        await desk.starting()
        return waited() - began

    assert go(main()) < 0.6
    assert desk.log.bodies()[-1].detail == "wall_clock"


def test_budget_10() -> None:
    """One definition, 50, 50 and 16 steps: each run stops at its own number, and its snapshot shows it."""
    one = Desk([]).request
    definition = one.agent
    for steps in given("budget-10")["budgets"]:
        desk = Desk(lambda q: act("look", n=q.reply_no), request=replace(one, budget=Budget(steps, 200)))
        ended = desk.start()
        assert (ended.counters.valid_steps, desk.shown()[0]["budget"]["max_valid_steps"]) == (steps, steps)
        assert desk.request.agent is definition


def test_event_handler_01() -> None:
    seen: list[Any] = []

    def once(event: Any) -> None:
        if event.type == "run_started":
            raise RuntimeError
        seen.append(event)

    desk = Desk([DONE], sinks=(once,))
    assert desk.start().reason == "completed"
    assert [(e.type, e.dropped) for e in seen] == [("step", 1), ("run_ended", 0)]


def test_event_handler_03(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyloop.kernel.events.CLOSE_S", 0.1)
    desk = Desk([DONE], sinks=(hang,))

    async def main() -> float:
        began = waited()
        await desk.starting()
        return waited() - began

    assert go(main()) < 0.4


def test_resume_drift_01_resume_drift_05() -> None:
    """A renamed tool, another namespace, budget, tool set, prompt: each alone names its field before any call."""
    request = replace(Desk([]).request, binding={"gateway.cache_namespace": "acme"})
    whole = Desk([act("foo"), DONE], request=request, tools=(tool("foo"), SUBMIT))
    whole.start()
    changes: dict[str, tuple[Any, Any]] = {
        "tools.foo": (request, (tool("bar"), SUBMIT)),
        "binding.gateway.cache_namespace": (replace(request, binding={"gateway.cache_namespace": "other"}), (tool("foo"), SUBMIT)),
        "budget.max_iterations": (replace(request, budget=Budget(20, 41)), (tool("foo"), SUBMIT)),
        "tools.extra": (request, (tool("foo"), SUBMIT, tool("extra"))),
        "segments.0.task": (replace(request, segments=(Segment("task", text="Do that."),)), (tool("foo"), SUBMIT)),
    }
    for path, (offered, tools) in changes.items():
        desk = Desk(whole.model.lines, request=offered, tools=tools, shelf=whole.log.upto(4))
        with pytest.raises(ParameterDrift) as drift:
            desk.resume()
        assert any(str(f["path"]).startswith(path) for f in drift.value.fields)
        assert (desk.model.seen, desk.actions.done, desk.log.kinds[4:]) == ([], [], ["resume_refused"])


def test_resume_drift_02() -> None:
    """Answered yes, then no: the second never takes effect in silence, and the first is what the run went on with."""
    desk = Desk([act("write"), DONE], {"write": Deferred("t", "answer")})
    desk.start()
    for answer in given("resume_drift-02")["resume"]:
        desk.log.leave("resolve", "t", "answered", answer, at=desk.clock.now_ms())
        desk.resume()
    assert [b.evidence for b in desk.log.of(r.ActionResolved)] == ["yes"]
