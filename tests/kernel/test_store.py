"""The log is part of the run: what it cannot take stops the run, and what it has taken is enough to go on (S2.30; R42-R44, R52)."""

from __future__ import annotations

import pytest

from polyloop.kernel import records as r
from polyloop.kernel.seams import Deferred, NotStarted, OwnedElsewhere, StaleFence, StoreError, StoreUnknown
from polyloop.testing import ScriptedActions, said
from tests.kernel.desk import Desk, Spelled, act, spell, tool
from tests.kernel.shelf import Shelf

SCRIPT = [act("look", n=1), act("nope"), act("write", n=2, long="x" * 3000), act("submit", summary="s")]
#: Appends of the whole run: the start, two per step (one for the rejected one).
APPENDS = 8


class Spied(Desk):
    """Notes, after each append, whether a seam has been called since."""

    def calls(self) -> int:
        return len(self.model.seen) + len(self.actions.done) + len(self.actions.asked)


def failing(number: int, fault: Exception, *, kept: bool) -> tuple[Spied, list[int]]:
    """A desk whose log fails at its n-th append; `kept` = the batch is there all the same."""
    desk, calls = Spied(SCRIPT), []

    def fail(n: int, _: object) -> None:
        if n == number:
            calls.append(desk.calls())
            raise fault

    if kept:
        desk.log.after = fail
    else:
        desk.log.before = fail
    return desk, calls


FAULTS = [(StoreError("disk full"), False), (StoreUnknown("commit"), False), (StoreUnknown("commit"), True), (StaleFence("taken"), False)]


@pytest.mark.parametrize("number", range(1, APPENDS + 1))
@pytest.mark.parametrize(("fault", "kept"), FAULTS, ids=["refused", "unknown, not there", "unknown, there", "stale"])
def test_S2_30_a_store_that_fails_stops_the_run(number: int, fault: StoreError, kept: bool) -> None:
    """R44: for every n; no later seam call, never completed, and the real log goes on well."""
    desk, calls = failing(number, fault, kept=kept)
    stopped = desk.start()
    assert (stopped.state, stopped.persisted, stopped.result, stopped.completed_by) == ("interrupted", False, None, "")
    assert stopped.reason == ("owned_elsewhere" if isinstance(fault, StaleFence) else "store_failed")
    assert stopped.error["message"] == str(fault)
    assert [desk.calls()] == calls
    assert len(desk.log.batches) == number - (not kept)

    after = Desk(SCRIPT, shelf=desk.log.upto(len(desk.log.records)))
    landed = {a.key for a in desk.actions.done}
    after.actions.words = dict.fromkeys(("write", "submit"), lambda a: said("landed") if a.key in landed else NotStarted())
    ended = after.resume() if desk.log.records else after.start()
    assert (ended.reason, ended.persisted, ended.result) == ("completed", True, {"summary": "s"})
    done = [a.args.get("n") for a in desk.actions.done + after.actions.done if a.tool == "write"]
    assert done == [2]
    after.check()


def test_the_whole_run_takes_the_appends_counted_here() -> None:
    desk = Desk(SCRIPT)
    desk.start()
    assert len(desk.log.batches) == APPENDS


@pytest.mark.parametrize("number", range(2, APPENDS + 1))
def test_what_is_told_of_a_stopped_run_is_what_stands_in_its_log(number: int) -> None:
    """A head that is not in the log could never be verified against."""
    desk, _ = failing(number, StoreError("disk full"), kept=False)
    stopped = desk.start()
    last = desk.log.records[-1]
    assert (stopped.last_seq, stopped.head_hash) == (last.seq, last.hash)


def test_a_run_that_has_ended_is_told_as_ended_even_if_letting_go_fails() -> None:
    desk = Desk([act("submit")])

    def fail() -> None:
        raise StoreError("gone")

    desk.log.on_release = fail
    ended = desk.start()
    assert (ended.reason, ended.persisted) == ("completed", True)


@pytest.mark.parametrize("verb", ["signals", "release"])
def test_a_store_that_fails_between_appends_stops_the_run(verb: str) -> None:
    desk = Desk([act("write"), act("submit")], {"write": Deferred("t", "approval")})

    def fail(*_: object) -> None:
        raise StoreError("gone")

    if verb == "release":
        desk.log.on_release = fail
    else:
        desk.log.leave("poll")
        desk.log.before = lambda *_: setattr(desk.log, "signals", fail) or desk.log.leave("poll")
    stopped = desk.start()
    assert (stopped.state, stopped.reason, stopped.persisted) == ("interrupted", "store_failed", False)


# --- order -----------------------------------------------------------------------------------------------------


class Durable(ScriptedActions):
    """Looks at the log at the time of each dispatch."""

    def __init__(self, log: Shelf, deeds=None) -> None:
        super().__init__(deeds)
        self.log, self.found = log, []

    async def execute(self, action):
        intents = [b for b in self.log.of(r.ActionIntent) if b.key == action.key]
        self.found.append(len(intents))
        return await super().execute(action)


def test_S2_28_an_intent_is_durable_before_its_effect() -> None:
    """R42, also for each of several calls; the model's intent likewise."""
    log, models = Shelf(), []
    both = spell(["act", "look", {"n": 1}], ["act", "look", {"n": 2}], ["act", "write"])

    def model(request):
        models.append([b.call_id for b in log.of(r.ModelIntent)][-1] == request.call_id)
        return both if len(models) == 1 else spell(["act", "submit"])

    desk = Desk(model, shelf=log, actions=Durable(log), interpreter=Spelled())
    desk.start()
    assert models == [True, True]
    assert desk.actions.found == [1, 1, 1, 1]


def test_two_commits_per_step() -> None:
    """[model_result, action_intent] and [action_result, step, next model_intent | run_ended]."""
    desk = Desk([act("look", n=n) for n in range(50)] + [act("submit")], valid_steps=60, iterations=60)
    desk.start()
    assert len(desk.log.batches) == 1 + 2 * 51
    assert set(desk.log.batches[1:-1]) == {("model_result", "action_intent"), ("action_result", "step", "model_intent")}
    assert desk.log.batches[-1] == ("action_result", "step", "run_ended")


def test_a_rejection_takes_one_commit() -> None:
    desk = Desk([act("nope", n=n) for n in range(9)], iterations=9)
    desk.start()
    assert set(desk.log.batches[1:-1]) == {("model_result", "step", "model_intent")}


@pytest.mark.parametrize("path", ["mark", "environment", "final answer"])
def test_S2_37_the_end_follows_the_settled_action(path: str) -> None:
    """R33: action_result, step, run_ended; R37: by which path, and the result."""
    if path == "final answer":
        desk = Desk([spell(["finish", "42"])], interpreter=Spelled())
    else:
        desk = Desk([act("submit", summary="s")], {"submit": said("x", completion="DONE" if path == "environment" else "NOT_DONE", result=[1])})
    ended = desk.start()
    expected = {
        "mark": ("completion_tool", {"summary": "s"}),
        "environment": ("environment", [1]),
        "final answer": ("final_answer", '[["finish", "42"]]'),
    }
    assert (ended.completed_by, ended.result) == expected[path]
    assert desk.log.kinds[-2:] == ["step", "run_ended"]
    assert path == "final answer" or desk.log.kinds[-3] == "action_result"
    assert desk.resume() == ended


def test_time_in_the_store_is_told_apart() -> None:
    desk = Desk([act("look"), act("submit")])
    desk.log.before = lambda *_: desk.clock.advance(0.5)
    desk.start()
    assert [s["timings"]["store"] for s in desk.steps()] == [1000.0, 1000.0]


class Halt(BaseException):
    pass


# --- holders ---------------------------------------------------------------------------------------------------


def test_one_holder_at_a_time() -> None:
    desk = Desk([act("submit")])
    desk.log.holder = "another"
    with pytest.raises(OwnedElsewhere):
        desk.start()
    assert (desk.log.records, desk.model.seen) == ([], [])


def test_a_zombie_writes_nothing_more() -> None:
    """R57: another holder has taken the run in the meantime."""
    desk = Desk([act("look"), act("submit")])

    def taken(_: object):
        desk.log.epoch, desk.log.holder = 7, "another"
        return said("x")

    desk.actions.deeds["look"] = taken
    stopped = desk.start()
    assert (stopped.reason, stopped.persisted, len(desk.model.seen)) == ("owned_elsewhere", False, 1)
    assert desk.log.holder == "another"
    assert {s.fence for s in desk.log.records} == {1}


def test_each_holder_writes_under_its_own_fence() -> None:
    desk = Desk([act("look"), act("submit")], {"look": SystemExit("killed")})
    with pytest.raises(SystemExit):
        desk.start()
    desk.log.holder = ""
    desk.actions.deeds["look"] = said("x")
    desk.resume()
    assert [s.fence for s in desk.log.records] == sorted(s.fence for s in desk.log.records)
    assert {s.fence for s in desk.log.records} == {1, 2}


def test_a_fault_nobody_foresaw_leaves_no_holder() -> None:
    """Whatever ends a visit, the run can be taken by the next one."""
    for fault in (SystemExit, Halt):
        desk = Desk([act("look"), act("submit")], {"look": fault()})
        with pytest.raises(fault):
            desk.start()
        assert desk.log.holder == ""
        desk.actions.deeds["look"] = said("x")
        assert desk.resume().reason == "completed"


def test_a_result_that_is_there_is_not_lost_by_a_suspend() -> None:
    """What is known is written down before the run is left: nothing that happened goes unrecorded."""
    desk = Desk([act("pay"), act("submit")], tools=(tool("pay", "pay", "never"), tool("submit", "write", completes=True)))

    def deed(_: object):
        desk.driver.suspended = True  # the moment in which a watcher's suspend meets a result that is already there
        return said("paid")

    desk.actions.deeds["pay"] = deed
    assert desk.start().state == "interrupted"
    assert [x["status"] for x in desk.shown() if x["kind"] == "action_result"] == ["ok"]
    ended = desk.resume()
    assert (ended.reason, desk.actions.calls("pay")) == ("completed", 1)
