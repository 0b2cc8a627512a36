"""A resume under other parameters is refused, field by field, before anything is touched (S2.27, S2.49; R60, R61)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from polyloop.kernel import records as r
from polyloop.kernel.objects import Agent, Budget, Origin, Request, Segment, ToolSpec
from polyloop.kernel.run import NoSuchRun, ParameterDrift, RunExists
from polyloop.kernel.snapshot import PROTOCOL, BadRequest, acceptable
from polyloop.testing import said
from tests.kernel.desk import CLOSED, SUBMIT, WRITE, Desk, act, tool

LIMITED = tool("look", timeout_s=5, result_limit=100)
REQUEST = Request(
    "r1",
    Agent("auditor", "2"),
    Budget(20, 40),
    (Segment("task", text="Do it."), Segment("data", text="x" * 3000), Segment("tools", "system", slot="tools"), Segment("history", slot="history")),
    binding={"case": "7", "gateway.cache_namespace": "acme"},
    params={"temperature": 0, "stop": ["a", "b"]},
    assembly={"model": "script:x", "workspace": "ws"},
    result_schema={"type": "object"},
    parent="p",
    root="q",
    origin=Origin("r0", 5, "ab" * 32),
    history="[]",
)
TOOLS = (LIMITED, WRITE, SUBMIT)


def crashed(request: Request = REQUEST, tools: tuple[ToolSpec, ...] = TOOLS) -> Desk:
    """A run that stopped in the middle of its second action."""
    first = Desk([act("look"), act("write"), act("submit")], request=request, tools=tools)
    first.start()
    return Desk(first.model.lines, request=request, tools=tools, shelf=first.log.upto(9))


def budget(**more: Any) -> Request:
    return replace(REQUEST, budget=replace(REQUEST.budget, **more))


def segments(*more: Segment) -> Request:
    return replace(REQUEST, segments=more)


TASK, DATA, SLOT, HISTORY = REQUEST.segments

#: path, the request offered instead
REQUESTS: list[tuple[str, Request]] = [
    ("definition.id", replace(REQUEST, agent=Agent("other", "2"))),
    ("definition.version", replace(REQUEST, agent=Agent("auditor", "3"))),
    ("definition.interpreter", replace(REQUEST, agent=Agent("auditor", "2", "native-tools/1"))),
    *[(f"budget.{name}", budget(**{name: 17})) for name in Budget.__struct_fields__],
    ("binding.gateway.cache_namespace", replace(REQUEST, binding={"case": "7", "gateway.cache_namespace": "other"})),
    ("binding.gateway.cache_namespace", replace(REQUEST, binding={"case": "7"})),
    ("binding.new", replace(REQUEST, binding={**REQUEST.binding, "new": "x"})),
    ("params.temperature", replace(REQUEST, params={**REQUEST.params, "temperature": 1})),
    ("params.temperature", replace(REQUEST, params={**REQUEST.params, "temperature": 0.0})),
    ("params.stop", replace(REQUEST, params={**REQUEST.params, "stop": ["b", "a"]})),
    ("assembly.workspace", replace(REQUEST, assembly={**REQUEST.assembly, "workspace": "elsewhere"})),
    ("segments.0.task", segments(replace(TASK, text="Do it!"), DATA, SLOT, HISTORY)),
    ("segments.0.task", segments(replace(TASK, role="system"), DATA, SLOT, HISTORY)),
    ("segments.1.data", segments(TASK, replace(DATA, text="y" * 3000), SLOT, HISTORY)),
    ("segments.2.tools", segments(TASK, DATA, replace(SLOT, slot="notice"), HISTORY)),
    ("segments.3.history", segments(TASK, DATA, SLOT)),
    ("segments.4.more", segments(TASK, DATA, SLOT, HISTORY, Segment("more", text="x"))),
    ("overflow", replace(REQUEST, overflow="window(4)")),
    ("result_schema.type", replace(REQUEST, result_schema={"type": "array"})),
    ("parent", replace(REQUEST, parent="other")),
    ("root", replace(REQUEST, root="other")),
    ("origin.seq", replace(REQUEST, origin=Origin("r0", 6, "ab" * 32))),
    ("history", replace(REQUEST, history='[{"role":"user","parts":[]}]')),
]
OTHER: dict[str, Any] = {
    "description": "other words", "schema": {**CLOSED, "properties": {"n": {}}}, "effect": "write", "replay": "ask", "kind": "process",
    "completes": True, "timeout_s": 6, "result_limit": 99, "pollable": True, "max_argument_failures": 3, "defers": True, "retry": True,
    "interruptible": False, "ref": "m:f",
}  # fmt: skip
SPECS: list[tuple[str, tuple[ToolSpec, ...]]] = [
    *[(f"tools.look.{name}", (replace(LIMITED, **{name: other}), WRITE, SUBMIT)) for name, other in OTHER.items()],
    ("tools.write.", (LIMITED, SUBMIT)),
    ("tools.extra.", (*TOOLS, tool("extra"))),
]
CHANGES = [(path, request, TOOLS) for path, request in REQUESTS] + [(path, REQUEST, tools) for path, tools in SPECS]


def test_every_field_is_in_the_table() -> None:
    """Tools by their fields, budgets by theirs, the request by its own; the scope and the run's id are the key itself."""
    assert OTHER.keys() == set(ToolSpec.__struct_fields__) - {"name"}
    named = {path.partition(".")[0] for path, _ in REQUESTS} | {"tools"}
    assert named == set(r.RunStarted.__struct_fields__) - {"protocol", "schema"}


@pytest.mark.parametrize(("path", "request_", "tools"), CHANGES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CHANGES)])
def test_S2_49_any_other_parameter_is_refused(path: str, request_: Request, tools: tuple[ToolSpec, ...]) -> None:
    """The field is named, no seam is touched, and the log holds the refusal once."""
    desk = crashed()
    desk.request, desk.tools.specs = request_, {t.name: t for t in tools}
    before = list(desk.log.records)
    for _ in range(2):
        with pytest.raises(ParameterDrift) as drift:
            desk.resume()
        assert all(f["path"].startswith(path) for f in drift.value.fields), drift.value.fields
        assert all(f["logged"] != f["offered"] or type(f["logged"]) is not type(f["offered"]) for f in drift.value.fields)
    assert (desk.model.seen, desk.actions.done, desk.actions.asked) == ([], [], [])
    assert desk.log.records[:-1] == before
    assert desk.log.kinds[-1] == "resume_refused"
    assert desk.log.bodies()[-1].fields == tuple(drift.value.fields)
    desk.check()


def test_other_differences_are_another_refusal() -> None:
    desk = crashed()
    for offered in (budget(max_iterations=41), budget(max_iterations=42), budget(max_iterations=42)):
        desk.request = offered
        with pytest.raises(ParameterDrift):
            desk.resume()
    assert desk.log.kinds.count("resume_refused") == 2


def test_a_refused_run_goes_on_with_the_right_parameters() -> None:
    desk = crashed()
    desk.request = budget(max_iterations=41)
    with pytest.raises(ParameterDrift):
        desk.resume()
    desk.request = REQUEST
    assert desk.resume().reason == "completed"
    desk.check()


def test_all_differences_are_named_at_once() -> None:
    desk = crashed()
    desk.request = replace(budget(max_iterations=41), binding={})
    with pytest.raises(ParameterDrift) as drift:
        desk.resume()
    assert [f["path"] for f in drift.value.fields] == ["budget.max_iterations", "binding.case", "binding.gateway.cache_namespace"]
    assert drift.value.fields[1] == {"path": "binding.case", "logged": "7", "offered": None}
    assert "binding.case" in str(drift.value)


def test_what_is_equal_in_the_log_is_no_drift() -> None:
    """0 reads back as 0.0: the same codec on both sides."""
    request = replace(REQUEST, budget=Budget(20, 40, wall_clock_s=0.0), params={"temperature": 0, "stop": ["a", "b"], "odd": "\ud800"})
    desk = crashed(request)
    assert desk.resume().reason == "completed"


def test_segments_come_from_the_log() -> None:
    """R: the prompt is not rebuilt; what the model sees after the resume is what it would have seen."""
    whole = Desk([act("look"), act("write"), act("submit")], request=REQUEST, tools=TOOLS)
    whole.start()
    desk = crashed()
    desk.actions.words["write"] = said("write")
    desk.resume()
    assert [m.text for m in desk.model.seen[-1].messages] == [m.text for m in whole.model.seen[-1].messages]


def test_without_a_request_nothing_is_compared() -> None:
    """How a cancelled run is brought to its end by anybody."""
    desk = crashed()
    desk.request = None
    desk.tools.specs = {}
    desk.log.leave("cancel")
    assert desk.resume().reason == "cancelled"
    desk.check()


# --- accepting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["description", "timeout_s", "result_limit"])
def test_a_person_may_accept_what_the_model_reads_and_limits(name: str) -> None:
    """Recorded; later resumes compare against what was accepted."""
    desk = crashed()
    desk.tools.specs = {t.name: t for t in (replace(LIMITED, **{name: OTHER[name]}), WRITE, SUBMIT)}
    path = f"tools.look.{name}"
    desk.actions.words["write"] = SystemExit("killed")
    with pytest.raises(SystemExit):
        desk.resume([path])
    (accepted,) = desk.log.of(r.DriftAccepted)
    assert [f["path"] for f in accepted.fields] == [path]
    assert desk.log.kinds[9:12] == ["resume_started", "drift_accepted", "replay"]
    desk.actions.words["write"] = said("landed")
    desk.log.holder = ""
    assert desk.resume().reason == "completed"
    assert desk.resume().reason == "completed"
    old = desk.tools.specs
    desk.tools.specs = {t.name: t for t in TOOLS}
    with pytest.raises(ParameterDrift):
        desk.resume()
    desk.tools.specs = old
    desk.check()


@pytest.mark.parametrize(("path", "request_", "tools"), CHANGES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CHANGES)])
def test_what_a_run_is_can_never_be_accepted(path: str, request_: Request, tools: tuple[ToolSpec, ...]) -> None:
    if path.rpartition(".")[2] in ("description", "timeout_s", "result_limit") and path.startswith("tools.look."):
        assert acceptable(path)
        return
    desk = crashed()
    desk.request, desk.tools.specs = request_, {t.name: t for t in tools}
    with pytest.raises(ParameterDrift) as drift:
        desk.resume()
    everything = [str(f["path"]) for f in drift.value.fields] + [path]
    with pytest.raises(ParameterDrift):
        desk.resume(everything)
    assert (desk.model.seen, desk.actions.done) == ([], [])


def test_accepting_one_difference_does_not_accept_another() -> None:
    desk = crashed()
    desk.tools.specs = {t.name: t for t in (replace(LIMITED, timeout_s=6, effect="write"), WRITE, SUBMIT)}
    with pytest.raises(ParameterDrift) as drift:
        desk.resume(["tools.look.timeout_s"])
    assert [f["path"] for f in drift.value.fields] == ["tools.look.effect"]


def test_accepting_what_does_not_differ_changes_nothing() -> None:
    desk = crashed()
    assert desk.resume(["tools.look.timeout_s", "binding.case", "nonsense"]).reason == "completed"
    assert "drift_accepted" not in desk.log.kinds


# --- starting under a used id --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [False, True])
def test_another_request_under_a_used_id_is_a_conflict_and_no_record(ended: bool) -> None:
    """Handed case duplicate_effect-09."""
    desk = crashed()
    if ended:
        desk.resume()
    before, calls = list(desk.log.records), len(desk.model.seen)
    desk.request = budget(max_iterations=41)
    with pytest.raises(RunExists) as conflict:
        desk.start()
    assert [f["path"] for f in conflict.value.fields] == ["budget.max_iterations"]
    assert (desk.log.records, len(desk.model.seen), desk.log.holder) == (before, calls, "")
    if ended:
        with pytest.raises(ParameterDrift):
            desk.resume()
        assert desk.log.records == before


def test_the_same_request_under_a_used_id_resumes() -> None:
    desk = crashed()
    assert desk.start().reason == "completed"
    assert desk.log.kinds.count("run_started") == 1


def test_there_must_be_a_run_to_resume() -> None:
    desk = Desk([])
    with pytest.raises(NoSuchRun):
        desk.resume()
    assert desk.log.holder == ""


# --- the snapshot ------------------------------------------------------------------------------------------------


def test_S2_33_S2_47_the_start_record_answers_what_this_run_used() -> None:
    """R4, R50, R83: budget and binding field by field, from the log alone."""
    started = crashed().shown()[0]
    assert started["budget"] == {name: getattr(REQUEST.budget, name) for name in Budget.__struct_fields__}
    assert started["binding"] == {"case": "7", "gateway.cache_namespace": "acme"}
    assert started["params"] == {"temperature": 0, "stop": ["a", "b"]}
    assert [t["name"] for t in started["tools"]] == ["look", "write", "submit"]
    assert (started["protocol"], started["schema"], started["definition"]["id"]) == (PROTOCOL, 1, "auditor")
    assert [s["name"] for s in started["segments"]] == ["task", "data", "tools", "history"]


BAD: list[tuple[str, Request]] = [
    ("budget.max_valid_steps", budget(max_valid_steps=0)),
    ("budget.max_iterations", budget(max_iterations=0)),
    ("budget.wall_clock_s", budget(wall_clock_s=-1)),
    ("binding.n", replace(REQUEST, binding={"n": 1})),
    ("binding.my_api_key", replace(REQUEST, binding={"my_api_key": "x"})),
    ("assembly.n", replace(REQUEST, assembly={"n": None})),
    ("params", replace(REQUEST, params={"n": float("nan")})),
    ("params", replace(REQUEST, params={"n": float("inf")})),
    ("params", replace(REQUEST, params={"n": {1: 2}})),
    ("params", replace(REQUEST, params={"n": {"a", "b"}})),
    ("segments.history", segments(HISTORY, HISTORY)),
    *[
        ("overflow", replace(REQUEST, overflow=policy))
        for policy in ("", "window", "window(0)", "window(-1)", "cap_observation(9)", "cap_observation(0999)", "None")
    ],
]


@pytest.mark.parametrize(("path", "request_"), BAD, ids=[f"{i}-{b[0]}" for i, b in enumerate(BAD)])
def test_a_bad_request_starts_nothing_and_names_its_field(path: str, request_: Request) -> None:
    desk = Desk([act("submit")], request=request_, tools=TOOLS)
    with pytest.raises(BadRequest) as bad:
        desk.start()
    assert bad.value.path == path
    assert (desk.log.records, desk.log.holder) == ([], "")
