"""Several decisions in one reply: which run together, which one after another, which not at all (kernel.md, A step)."""

from __future__ import annotations

import asyncio

import pytest

from polyloop.kernel import records as r
from polyloop.kernel.objects import Counters
from polyloop.kernel.seams import Deferred, Outcome
from polyloop.testing import said
from tests.kernel.desk import LOOK, SUBMIT, TOOLS, WRITE, Desk, Spelled, go, spell, tool

READ_A, READ_B = ["act", "look", {"n": 1}], ["act", "look", {"n": 2}]
WRITE_A, WRITE_B = ["act", "write", {"n": 1}], ["act", "write", {"n": 2}]
END = ["act", "submit", {"summary": "s"}]
BAD = ["reject", "unknown_tool", "nope", "x"]


def desk_of(*decisions, deeds=None, tools=TOOLS, **more) -> Desk:
    return Desk([spell(*decisions)], deeds, tools=tools, interpreter=Spelled(), **more)


class Floor:
    """Notes when each action begins and ends, and lets them overlap if they are allowed to."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def __call__(self, action) -> Outcome:
        name = f"{action.tool}{action.args.get('n', '')}"
        self.notes.append(f"+{name}")
        for _ in range(3):
            await asyncio.sleep(0)
        self.notes.append(f"-{name}")
        return said(name)


@pytest.mark.parametrize(
    ("decisions", "notes"),
    [
        ([READ_A, READ_B], "+look1 +look2 -look1 -look2"),
        ([WRITE_A, WRITE_B], "+write1 -write1 +write2 -write2"),
        ([READ_A, WRITE_A, READ_B], "+look1 -look1 +write1 -write1 +look2 -look2"),
        ([WRITE_A, READ_A, READ_B], "+write1 -write1 +look1 +look2 -look1 -look2"),
        ([READ_A, BAD, READ_B], "+look1 -look1 +look2 -look2"),
    ],
    ids=["reads", "writes", "a write between", "a write before", "a rejection between"],
)
def test_reads_overlap_and_writes_keep_the_order_of_the_reply(decisions, notes) -> None:
    floor = Floor()
    desk = desk_of(*decisions, deeds={"look": floor, "write": floor})
    ended = desk.start()
    assert " ".join(floor.notes) == notes
    assert [s["call"] for s in desk.steps()] == list(range(len(decisions)))
    assert ended.counters == Counters(1, len(decisions) - decisions.count(BAD), decisions.count(BAD))
    desk.check()


def test_at_most_one_write_is_ever_open() -> None:
    desk = desk_of(WRITE_A, READ_A, READ_B, WRITE_B, tools=(LOOK, WRITE, SUBMIT))
    desk.start()
    open_writes = 0
    for body in desk.log.bodies():
        if isinstance(body, r.ActionIntent):
            open_writes += body.effect != "read"
        if isinstance(body, r.ActionResult):
            open_writes = 0
        assert open_writes <= 1


def test_the_record_order_is_intent_result_step_for_each() -> None:
    desk = desk_of(WRITE_A, WRITE_B)
    desk.start()
    assert desk.log.batches[1:4] == [
        ("model_result", "action_intent"),
        ("action_result", "step", "action_intent"),
        ("action_result", "step", "model_intent"),
    ]


def test_a_rejected_call_does_not_stop_the_others() -> None:
    desk = desk_of(BAD, WRITE_A, BAD, READ_A, BAD)
    desk.start()
    assert [s["outcome"] for s in desk.steps()] == ["unknown_tool", "ok", "unknown_tool", "ok", "unknown_tool"]


#: decisions, deeds, budget -> the tiers of the steps, dispatched actions
RESTS = [
    ("over the limit of calls", [READ_A] * 5, {}, {"max_tool_calls_per_iteration": 3}, "GGGHH", 3),
    ("no limit of calls", [READ_A] * 20, {}, {"max_tool_calls_per_iteration": 0}, "G" * 20, 20),
    ("the limit counts rejections too", [BAD, BAD, WRITE_A], {}, {"max_tool_calls_per_iteration": 2}, "BBH", 0),
    ("over the step budget", [READ_A] * 4 + [WRITE_A], {}, {"valid_steps": 3}, "GGGHH", 3),
    ("writes over the step budget", [WRITE_A] * 3, {}, {"valid_steps": 2}, "GGH", 2),
    ("after completion by mark", [END, WRITE_A, READ_A, END], {}, {}, "GHHH", 1),
    ("after completion by the environment", [WRITE_A, END], {"write": said("x", completion="DONE")}, {}, "EH", 1),
    ("after an environment fault", [WRITE_A, WRITE_B], {"write": OSError("gone")}, {}, "FH", 1),
    ("after a submit that failed", [END, WRITE_A], {"submit": Outcome("error")}, {}, "GG", 2),
    ("a rejection after completion", [END, BAD], {}, {}, "GB", 1),
]  # fmt: skip


@pytest.mark.parametrize(("decisions", "deeds", "budget", "tiers", "dispatched"), [x[1:] for x in RESTS], ids=[x[0] for x in RESTS])
def test_the_rest_is_not_executed(decisions, deeds, budget, tiers, dispatched) -> None:
    desk = desk_of(*decisions, deeds=deeds, **budget)
    desk.start()
    assert "".join(s["tier"] for s in desk.steps()) == tiers
    assert len(desk.actions.done) == dispatched
    skipped = [s for s in desk.steps() if s["tier"] == "H"]
    assert all(s["outcome"] == "not_executed" and not s["valid"] and s["timings"]["action"] is None for s in skipped)
    desk.check()


def test_not_executed_counts_as_nothing() -> None:
    """Neither a valid step nor a rejection, and it scores no stall."""
    desk = desk_of(*[READ_A] * 4, max_tool_calls_per_iteration=1)
    assert desk.start().counters == Counters(1, 1)


def test_after_a_deferral_the_rest_is_not_executed() -> None:
    desk = desk_of(READ_A, WRITE_A, READ_B, WRITE_B, deeds={"write": Deferred("t", "approval")})
    assert desk.start().state == "waiting"
    assert [(s["call"], s["tier"]) for s in desk.steps()] == [(0, "G"), (2, "H"), (3, "H")]
    desk.log.leave("resolve", "t", "approved", at=desk.clock.now_ms())
    desk.actions.deeds["write"] = said("written")
    desk.resume()
    assert [(s["call"], s["tier"]) for s in desk.steps()] == [(0, "G"), (2, "H"), (3, "H"), (1, "G")]
    assert [a.args["n"] for a in desk.actions.done if a.tool == "write"] == [1, 1]
    desk.check()


def test_one_of_two_overlapping_reads_waits() -> None:
    """One that has not said that it may: those that have do not overlap (`test_counters`)."""
    box = {1: Deferred("t", "task"), 2: said("second")}
    desk = desk_of(READ_A, READ_B, WRITE_A, deeds={"look": lambda a: box[a.args["n"]]}, tools=(tool("look", replay="probe"), WRITE, SUBMIT))
    assert desk.start().state == "waiting"
    assert [(s["call"], s["tier"]) for s in desk.steps()] == [(2, "H")]
    desk.log.leave("resolve", "t", "finished", at=desk.clock.now_ms())
    desk.actions.words["look"] = said("first")
    desk.resume()
    assert sorted((s["call"], s["tier"], s["valid"]) for s in desk.steps()) == [(0, "G", True), (1, "G", True), (2, "H", False)]
    desk.check()


def test_an_overlapping_read_that_breaks_spoils_no_other() -> None:
    def deed(action):
        raise asyncio.CancelledError if action.args["n"] == 1 else OSError("gone")

    desk = desk_of(READ_A, READ_B, deeds={"look": deed})
    ended = desk.start()
    assert (ended.reason, [s["outcome"] for s in desk.steps()]) == ("environment_fault", ["unknown", "unknown"])
    desk.check()


def test_an_overlapping_read_keeps_its_own_time() -> None:
    """R96: the time of an action is its own, not that of its neighbours."""
    box: list[Desk] = []

    async def deed(action):
        await asyncio.sleep(0)
        if action.args["n"] == 1:
            box[0].clock.advance(0.25)
            return said("slow, and first")
        await asyncio.sleep(0)
        box[0].clock.advance(1)
        return said("slower")

    desk = desk_of(READ_A, READ_B, deeds={"look": deed})
    box.append(desk)
    desk.start()
    assert [s["timings"]["action"] for s in desk.steps()] == [250.0, 1250.0]


def test_an_overlapping_read_that_says_timeout_is_not_taken_for_the_clock() -> None:
    desk = desk_of(READ_A, READ_B, deeds={"look": TimeoutError("the far end")})
    desk.start()
    assert {x["code"] for x in desk.shown() if x["kind"] == "action_result"} == {"executor_exception"}


def test_overlapping_reads_each_have_their_own_limit() -> None:
    async def deed(action):
        await asyncio.sleep(30 if action.args["n"] == 1 else 0)
        return said("quick")

    desk = desk_of(READ_A, READ_B, deeds={"look": deed}, tools=(tool("look", timeout_s=0.05), WRITE, SUBMIT))
    ended = go(desk.starting(), 5)
    assert [(x["status"], x["code"]) for x in desk.shown() if x["kind"] == "action_result"] == [("error", "timeout"), ("ok", "")]
    assert ended.counters.valid_steps == 2


def test_an_overlapping_read_that_does_not_stop_is_left_behind() -> None:
    """Its own limit passes, it does not stop: the run goes on after the grace and names it leaked."""

    async def main() -> Desk:
        gate = asyncio.Event()

        async def deed(action):
            for _ in range(8 if action.args["n"] == 1 else 0):
                try:
                    await asyncio.wait_for(gate.wait(), 5)
                except asyncio.CancelledError:
                    continue
            return said("quick")

        desk = desk_of(READ_A, READ_B, deeds={"look": deed}, tools=(tool("look", timeout_s=0.05), WRITE, SUBMIT))
        await asyncio.wait_for(desk.starting(), 60)
        gate.set()
        return desk

    desk = go(main())
    assert [x["leaked"] for x in desk.shown() if x["kind"] == "action_result"] == [True, False]
    assert desk.log.kinds[-1] == "run_ended"


def test_an_action_for_no_tool_ends_the_run_and_runs_nothing() -> None:
    """An interpreter that names what the registry lacks is at fault; nothing is dispatched, the log says so (R6)."""
    desk = desk_of(["act", "nope"])
    ended = desk.start()
    assert (ended.reason, ended.persisted, desk.actions.done) == ("internal_error", True, [])
    desk.check()


def test_an_interpreter_that_raises_ends_the_run() -> None:
    desk = Desk(["no list"], interpreter=Spelled())
    ended = desk.start()
    assert (ended.reason, ended.error["type"]) == ("internal_error", "JSONDecodeError")
    assert desk.log.kinds == ["run_started", "model_intent", "model_result", "run_ended"]
    desk.check()


def test_a_reply_read_as_nothing_ends_the_run() -> None:
    desk = Desk(["[]"], interpreter=Spelled())
    assert desk.start().reason == "internal_error"
    desk.check()


def test_a_withdrawn_read_is_not_run_with_its_neighbours() -> None:
    needy = tool("needy", max_argument_failures=1)
    bad = ["reject", "args_invalid", "needy", "x"]
    desk = Desk([spell(bad), spell(READ_A, ["act", "needy"], READ_B)], tools=(*TOOLS, needy), interpreter=Spelled())
    desk.start()
    assert [s["outcome"] for s in desk.steps()] == ["args_invalid", "ok", "tool_exhausted", "ok"]
    assert desk.actions.calls("needy") == 0


def test_pictures_and_files_reach_the_model_untouched() -> None:
    parts = (r.Part(text="see"), r.Part("image", blob="ab" * 32, mime="image/png"), r.Part("file", blob="cd" * 32, mime="application/pdf"))
    desk = desk_of(READ_A, deeds={"look": Outcome("ok", parts)})
    desk.start()
    assert desk.model.seen[1].messages[-1].parts[1:] == parts


class Halt(BaseException):
    pass


def test_an_overlapping_read_that_halts_the_process_is_no_outcome() -> None:
    """Control flow of the program is passed on, never recorded as if the tool had said something; the run stays resumable."""
    desk = desk_of(READ_A, READ_B, deeds={"look": lambda a: Halt() if a.args["n"] == 2 else said("x")})
    with pytest.raises(Halt):
        desk.start()
    assert desk.log.kinds[-1] == "action_intent"
    assert desk.log.holder == ""
    desk.actions.deeds["look"] = said("x")
    desk.resume()
    assert [s["outcome"] for s in desk.steps()] == ["ok", "ok"]
