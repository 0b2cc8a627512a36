"""The clauses of the third seed that the kernel alone answers, one test each, in its own numbers.

The wide tables stand in tests/kernel; here is what an outsider would try first.
"""

from __future__ import annotations

import ast
import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import polyloop.kernel
from polyloop.kernel import objects, seams
from polyloop.kernel import records as r
from polyloop.kernel.objects import Agent, Budget, Counters, Request, Segment
from polyloop.kernel.run import ParameterDrift
from polyloop.kernel.seams import Deferred, ModelCallFailed, Outcome, Reply, StoreError
from polyloop.testing import ScriptedActions, said
from tests.kernel.desk import SUBMIT, Desk, act, go, tool
from tests.kernel.shelf import Shelf

KERNEL = Path(polyloop.kernel.__file__ or "").parent
NAMESPACE = {"case": "7", "gateway.cache_namespace": "acme", "gateway.tenant_id": "t-1"}
PARAMS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = tool("read", schema=PARAMS)


def names() -> set[str]:
    """Every name the kernel defines or speaks of."""
    found: set[str] = set()
    for file in KERNEL.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            found |= {getattr(node, a) for a in ("id", "attr", "arg", "name") if isinstance(getattr(node, a, None), str)}
    return {part.lower() for name in found for part in name.split("_")}


def request(**more: Any) -> Request:
    return replace(Request("r1", Agent("auditor"), Budget(50, 100), (Segment("task", text="Audit it."),)), **more)


# --- what it is, and what it is not ------------------------------------------------------------------------------


def test_S2_3_S2_8_S2_18_two_unlike_consumers_complete_each_in_its_way() -> None:
    """An environment that says when it is over and knows no submit; a reviewer who submits and whose environment never changes."""
    moves = iter(range(1, 4))
    game = ScriptedActions({"move": lambda _: said("You won.", completion="DONE") if next(moves) == 3 else said("On.")}, promises=True)
    played = Desk([act("move", n=n) for n in range(9)], actions=game, tools=(tool("move", "write"),)).start()
    assert (played.reason, played.completed_by, played.counters.valid_steps) == ("completed", "environment", 3)
    audited = Desk([act("read", path="a"), act("submit", summary="fine")], tools=(READ, SUBMIT)).start()
    assert (audited.reason, audited.completed_by, audited.result) == ("completed", "completion_tool", {"summary": "fine"})


def test_S2_6_S2_9_S2_26_the_kernel_knows_no_workspace_and_no_phases() -> None:
    """Orchestration, required files and the life of a workspace are the consumer's; a prompt is text that was read before."""
    assert names().isdisjoint({"workspace", "phase", "phases", "pes", "checkpoint", "tenant"})
    doors = {"os", "pathlib", "io", "shutil", "tempfile", "subprocess", "socket"}
    for file in KERNEL.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            modules = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not {str(m).partition(".")[0] for m in modules} & doors, file.name


def test_S2_32_the_phase_layers_event_is_not_the_kernels() -> None:
    assert "phase_recovery" not in r.KINDS
    assert not any("phase_recovery" in file.read_text() for file in KERNEL.glob("*.py"))


def test_S2_39_S2_36_no_setting_repeats_a_step_or_counts_what_cannot_be_seen() -> None:
    """No retry, no backoff, no token: budgets count calls of the model seam, executed actions, time."""
    fields = {f for shape in (Budget, Agent, Request, Counters) for f in shape.__struct_fields__}
    assert not [f for f in fields if any(word in f for word in ("retr", "backoff", "token", "cost", "fallback"))]


def test_S2_53_nothing_is_held_in_reserve() -> None:
    """Every seam of the kernel is called by it, and no bag stands open for what may come."""
    protocols = (seams.Model, seams.Actions, seams.Interpreter, seams.Tools)
    verbs = {m for p in protocols for m in vars(p) if not m.startswith("_") and callable(getattr(p, m))}
    code = "".join(f.read_text() for f in KERNEL.glob("*.py") if f.name != "seams.py")
    assert [v for v in verbs if f".{v}(" not in code] == []
    shapes = [s for s in vars(objects).values() if isinstance(s, type) and hasattr(s, "__struct_fields__")]
    assert not [(s.__name__, f) for s in shapes for f in s.__struct_fields__ if f in ("extra", "metadata", "meta", "options", "kwargs")]


# --- budgets and tools per run -------------------------------------------------------------------------------------


def test_S2_11_S2_33_one_definition_serves_50_50_and_16_steps() -> None:
    """Budgets hang on the request alone; the definition has none to give or to be overridden."""
    auditor = Agent("auditor")
    assert not [f for f in Agent.__struct_fields__ if "budget" in f or "step" in f]
    with pytest.raises(TypeError):
        Request("r1", auditor)  # type: ignore[call-arg]  # a run without a budget cannot even be asked for
    started = []
    for steps in (50, 50, 16):
        desk = Desk(lambda q: act("read", path=str(q.reply_no)), tools=(READ,), request=request(agent=auditor, budget=Budget(steps, 200)))
        assert desk.start().counters.valid_steps == steps
        started.append(desk.shown()[0])
    assert len({json.dumps(s["definition"]) for s in started}) == 1
    assert [s["budget"]["max_valid_steps"] for s in started] == [50, 50, 16]


@pytest.mark.parametrize("narrow", [("read", "write", "grep"), ("read", "write", "grep", "skill"), ("read", "write", "glob")])
def test_S2_12_S2_13_shown_found_and_dispatched_are_one_registry(narrow: tuple[str, ...]) -> None:
    """What a run's tools leave out is neither shown nor found nor run; each wide-set tool in turn."""
    tools = tuple(tool(name) for name in narrow)
    wide = ("read", "write", "grep", "skill", "glob", "exec")
    slots = (Segment("tools", slot="tools"), Segment("task", text="x"))
    desk = Desk([act(name) for name in wide], tools=tools, request=request(segments=slots, budget=Budget(50, 6)))
    desk.start()
    assert [name for name in wide if f"\n- {name}:" in desk.model.seen[0].messages[0].text] == [n for n in wide if n in narrow]
    assert [s["outcome"] for s in desk.steps()] == ["ok" if n in narrow else "unknown_tool" for n in wide]
    assert [a.tool for a in desk.actions.done] == [n for n in wide if n in narrow]


# --- the protocol --------------------------------------------------------------------------------------------------


def test_S2_14_S2_15_S2_16_json_with_the_two_known_deviations() -> None:
    """In a fence; flattened; and never from "arguments missing" to "empty but valid"."""
    optional = tool("list", schema={"type": "object", "properties": {"glob": {}}, "additionalProperties": False})
    lines = [
        '```json\n{"reflection": "r", "plan": "p", "action": {"tool": "read", "args": {"path": "a"}}}\n```',
        '{"reflection": "r", "plan": "p", "action": {"tool": "read", "path": "b"}}',
        '{"reflection": "r", "plan": "p", "action": {"tool": "read"}}',
        '{"reflection": "r", "plan": "p", "action": {"tool": "list"}}',
        '{"reflection": "r", "plan": "p", "action": {"tool": "list", "args": {}}}',
    ]
    desk = Desk(lines, tools=(READ, optional))
    desk.start()
    assert [(s["outcome"], s["repairs"]) for s in desk.steps()] == [
        ("ok", ["fence"]), ("ok", ["flattened"]), ("args_missing", []), ("args_missing", []), ("ok", []),
    ]  # fmt: skip
    assert [a.args for a in desk.actions.done] == [{"path": "a"}, {"path": "b"}, {}]


def test_S2_17_S2_52_two_counters_and_a_reason_of_its_own() -> None:
    """50 steps of a tool that does not exist: not a step is spent, the loop stops, and not as a used-up budget."""
    desk = Desk(lambda _: act("nope"), request=request(budget=Budget(50, 50)))
    ended = desk.start()
    assert (ended.reason, ended.detail, ended.counters.valid_steps, ended.counters.iterations) == ("stalled", "identical_rejections", 0, 3)
    desk = Desk(lambda q: act("nope", n=q.reply_no), request=request(budget=Budget(50, 50)))
    ended = desk.start()
    assert (ended.reason, ended.detail, ended.counters.valid_steps, ended.counters.iterations) == ("budget_exhausted", "iterations", 0, 50)


def test_S2_50_the_three_branches_and_tools_as_a_compatible_field() -> None:
    """Act, Finish, Reject; a model seam written without `tools` still works."""
    assert {b.__name__ for b in seams.Decided.__args__} == {"Act", "Finish", "Reject"}
    assert seams.ModelRequest("c", (), {}, {}, 1).tools is None

    class Old:
        async def call(self, asked: Any) -> Reply:
            return Reply(act("submit") if asked.messages else "")

    desk = Desk([])
    desk.model = Old()
    assert desk.start().reason == "completed"


# --- completion ----------------------------------------------------------------------------------------------------


def test_S2_37_the_mark_is_looked_at_after_the_action_is_settled() -> None:
    """A submit that fails does not end the run; one that waits does not either, until it has been done."""
    outcomes = iter([Outcome("error"), Outcome("unknown"), Deferred("t", "approval"), said("in")])
    desk = Desk([act("submit", n=n) for n in range(3)], {"submit": lambda _: next(outcomes)})
    assert desk.start().state == "waiting"
    desk.log.leave("resolve", "t", "approved", at=desk.clock.now_ms())
    ended = desk.resume()
    assert (ended.completed_by, ended.result, desk.log.kinds[-3:]) == ("completion_tool", {"n": 2}, ["action_result", "step", "run_ended"])


@pytest.mark.parametrize("signal", ["NOT_DONE", "UNAVAILABLE"])
def test_S2_38_an_executor_whose_signal_is_never_there_is_normal(signal: Any) -> None:
    """Fifty steps, no fault; the first draft would have ended each run of GovDoc at its first step."""
    deeds = dict.fromkeys(("look", "submit"), said("x", completion=signal))
    desk = Desk([act("look", n=n) for n in range(49)] + [act("submit")], deeds, valid_steps=50, iterations=50)
    ended = desk.start()
    assert (ended.reason, ended.completed_by, ended.counters.valid_steps) == ("completed", "completion_tool", 50)
    assert {s["tier"] for s in desk.steps()} == {"G"}


def test_S2_38_a_promised_signal_that_is_missing_is_a_fault() -> None:
    desk = Desk([act("look")], actions=ScriptedActions({"look": said("x", completion="UNAVAILABLE")}, promises=True))
    assert (desk.start().reason, desk.steps()[0]["tier"]) == ("environment_fault", "F")


# --- the log is the audit --------------------------------------------------------------------------------------------


def test_S2_19_S2_28_three_things_in_three_places() -> None:
    """The model's own words, the repaired text, the source of a recovery: all in the log, none in a channel that may lose it."""
    raw = '```\n{"reflection": "r", "plan": "p", "action": {"tool": "write", "args": {"n": 1}}}\n```'
    first = Desk([raw, act("submit")])
    first.start()
    desk = Desk([raw, act("submit")], shelf=first.log.upto(4))
    desk.actions.words["write"] = said("landed")
    desk.resume()
    shown = {x["kind"]: x for x in reversed(desk.shown())}
    assert shown["model_result"]["text"] == raw
    assert (shown["step"]["raw_output"], shown["step"]["repairs"]) == (raw[4:-4], ["fence"])
    assert (shown["replay"]["of"], shown["replay"]["policy"], shown["action_result"]["status"]) == (3, "probe", "ok")
    kinds = desk.log.kinds
    assert kinds.count("model_intent") == kinds.count("model_result") == kinds.count("action_intent") == kinds.count("action_result") == 2


def test_S2_29_S2_30_an_export_is_put_around_the_log_and_its_failure_stops_the_run() -> None:
    """A wrapper mirrors each append; events may fail, it may not."""

    class Mirror(Shelf):
        def __init__(self, limit: int) -> None:
            super().__init__()
            self.out: list[str] = []
            self.limit = limit

        async def append(self, *given: Any) -> int:
            if len(self.out) + len(given[1]) > self.limit:
                raise StoreError("the audit's disk is full")
            self.out += [s.kind for s in given[1]]
            return await super().append(*given)

    whole = Desk([act("look"), act("submit")], shelf=Mirror(99))
    assert whole.start().reason == "completed"
    assert whole.log.out == whole.log.kinds
    stopped = Desk([act("look"), act("submit")], shelf=Mirror(6))
    ended = stopped.start()
    assert (ended.state, ended.persisted, len(stopped.model.seen)) == ("interrupted", False, 1)


def test_S2_20_S2_31_events_may_be_lost_and_carry_whole_steps() -> None:
    seen: list[Any] = []

    def sink(event: Any) -> None:
        seen.append(event)
        raise RuntimeError

    desk = Desk([act("look"), act("submit")], sinks=(sink,))
    assert desk.start().reason == "completed"
    assert [e.body["tool"] for e in seen if e.type == "step"] == ["look", "submit"]
    assert [e.body["counters"]["valid_steps"] for e in seen if e.type == "step"] == [1, 2]


def test_S2_27_the_library_writes_the_end_and_the_log_alone_decides() -> None:
    """Another process, without memory or code of the first: ended or not, why, by what, with which result."""
    desk = Desk([act("look"), act("submit", findings=[1, 2])])
    desk.start()
    for count in range(1, len(desk.log.records)):
        assert r.KIND_OF[type(desk.log.bodies()[count - 1])] != "run_ended"
    reader = Desk([], shelf=desk.log.upto(len(desk.log.records)))
    told = reader.resume()
    assert (told.ended, told.reason, told.completed_by, told.result) == (True, "completed", "completion_tool", {"findings": [1, 2]})
    assert (reader.model.seen, reader.actions.done) == ([], [])


# --- context, retries, bindings --------------------------------------------------------------------------------------


def test_S2_34_content_is_handed_over_and_only_order_and_slots_are_the_kernels() -> None:
    """No callable can be passed in where text belongs: assembling the context is no seam."""
    assert not [f for f in Request.__struct_fields__ if "build" in f or "callback" in f or "assembler" in f]
    segments = (Segment("b", text="second by name, first by place"), Segment("a", text="then this"))
    desk = Desk([act("submit")], request=request(segments=segments))
    desk.start()
    assert [m.text for m in desk.model.seen[0].messages] == [s.text for s in segments]


def test_S2_35_S2_45_a_failed_call_is_called_once_and_an_unsent_one_costs_nothing() -> None:
    """Failover inside a call is one call; the kernel repeats none; what never left uses no budget and ends at step 0."""
    desk = Desk([Reply(act("look"), attempts=3), Reply(act("submit"), attempts=1)], iterations=2)
    assert desk.start().counters.iterations == 2
    desk = Desk(lambda _: ModelCallFailed("binding_rejected", sent=False, key="parent_call_id", message="write gateway.parent_call_id"))
    ended = desk.start()
    assert (ended.reason, ended.counters, len(desk.model.seen)) == ("model_call_failed", Counters(), 1)
    assert "parent_call_id" in json.dumps(ended.error)


def test_S2_40_S2_43_S2_44_the_binding_reaches_the_seam_as_it_is() -> None:
    """Nothing read, added, filled in or encoded, prefixed or not; a trace id is there only if it was bound."""
    for binding in (NAMESPACE, {**NAMESPACE, "gateway.session_id": "trace/ü "}, {}):
        desk = Desk([act("look"), act("submit")], request=request(binding=binding))
        desk.start()
        assert [dict(q.binding) for q in desk.model.seen] == [binding, binding]
        assert desk.shown()[0]["binding"] == binding


def test_S2_42_S2_47_S2_49_the_namespace_is_the_runs_seen_afterwards_and_never_changed() -> None:
    """By binding, per run; readable from the start record; another one on resume is drift that names it."""
    whole = Desk([act("look"), act("submit")], request=request(binding=NAMESPACE))
    whole.start()
    assert whole.shown()[0]["binding"]["gateway.cache_namespace"] == "acme"
    offered = request(binding={**NAMESPACE, "gateway.cache_namespace": "other"})
    desk = Desk([act("look"), act("submit")], request=offered, shelf=whole.log.upto(4))
    with pytest.raises(ParameterDrift) as drift:
        desk.resume()
    assert drift.value.fields == [{"path": "binding.gateway.cache_namespace", "logged": "acme", "offered": "other"}]
    assert desk.model.seen == []


# --- cancelling, time --------------------------------------------------------------------------------------------


def test_S2_22_S2_23_a_cancel_from_outside_reaches_a_call_and_a_tool() -> None:
    """It comes by the log's control row; whatever is in flight is cut, released and written down."""
    released: list[str] = []

    async def held(_: object) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            released.append("released")

    for lines, deeds in (([held], {}), ([act("look")], {"look": held})):
        desk = Desk(lines, deeds)

        async def main(desk: Desk = desk) -> Any:
            task = asyncio.ensure_future(desk.starting())
            await asyncio.sleep(0.02)
            desk.log.leave("cancel", by="somebody else")
            await desk.driver.heed()
            return await task

        assert go(main()).reason == "cancelled"
        desk.check()
    assert released == ["released", "released"]


def test_S2_24_who_has_lost_the_lease_writes_nothing_more() -> None:
    desk = Desk([act("look"), act("submit")])
    desk.actions.deeds["look"] = lambda _: setattr(desk.log, "epoch", 9) or said("x")
    stopped = desk.start()
    assert (stopped.reason, stopped.persisted) == ("owned_elsewhere", False)
    assert "action_result" not in desk.log.kinds


def test_S2_51_the_time_of_a_tool_is_its_own() -> None:
    """Milliseconds of the executor alone; null in the tiers where none ran."""
    desk = Desk([act("nope"), act("look"), act("submit")])
    desk.actions.deeds["look"] = lambda _: desk.clock.advance(0.2) or said("x")
    desk.start()
    assert [s["timings"]["action"] for s in desk.steps()] == [None, 200.0, 0.0]
