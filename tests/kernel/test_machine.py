"""What may follow what in a run's log, and what is to be done next: tables over the pure machine (kernel.md, A step)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from polyloop.kernel import decide as d
from polyloop.kernel import records as r
from polyloop.kernel.history import History, HistoryItem
from polyloop.kernel.machine import IllegalRecord, State, fold
from polyloop.kernel.objects import Budget
from polyloop.kernel.seams import Act, Reject
from tests.kernel.grow import (
    BUDGET,
    CANCEL,
    REPLY,
    RESUMED,
    Due,
    ask,
    deciding,
    deferred,
    ended,
    grown,
    intent,
    rejected,
    resolved,
    result,
    start,
    step,
)

ASKED: list[Due] = [start(), ask]
REPLIED: list[Due] = [*ASKED, REPLY]
ACTING: list[Due] = [*REPLIED, intent()]
WAITING: list[Due] = [*ACTING, deferred()]
CLOSED: list[Due] = [*ACTING, result(), step()]
COMPLETED: list[Due] = [*REPLIED, intent(tool="submit"), result(), step(tool="submit")]

SITUATIONS: dict[str, list[Due]] = {
    "nothing": [],
    "started": [start()],
    "asked": ASKED,
    "replied": REPLIED,
    "acting": ACTING,
    "settled": [*ACTING, result()],
    "waiting": WAITING,
    "approved": [*WAITING, resolved("approved")],
    "answered": [*WAITING, resolved("answered")],
    "finished": [*WAITING, resolved("finished")],
    "denied": [*WAITING, resolved("denied")],
    "expired": [*WAITING, resolved("expired")],
    "withdrawn": [*WAITING, resolved("withdrawn")],
    "first of two": [*ACTING, result(), step(calls=2)],
    "closed": CLOSED,
    "rejected": [*REPLIED, rejected()],
    "completed": COMPLETED,
    "failed": [*ASKED, r.ModelResult(error=r.CallError("down"))],
    "cancelled": [start(), CANCEL],
    "cancelled acting": [*ACTING, CANCEL],
    "ended": [*COMPLETED, ended("completed")],
}

#: What may follow, besides what may always stand between start and end.
FOLLOWS: dict[str, str] = {
    "nothing": "run_started",
    "started": "model_intent",
    "asked": "model_result replay",
    "replied": "action_intent step",
    "acting": "action_intent action_result action_deferred replay",
    "settled": "action_intent step",
    "waiting": "action_resolved",
    "approved": "action_result action_deferred replay",
    "answered": "action_result",
    "finished": "action_result",
    "denied": "action_result",
    "expired": "action_result",
    "withdrawn": "action_result",
    "first of two": "action_intent step",
    "closed": "model_intent",
    "rejected": "model_intent",
    "completed": "",
    "failed": "",
    "cancelled": "",
    "cancelled acting": "action_result action_deferred replay",
    "ended": "",
}
ALWAYS = {"resume_started", "resume_refused", "drift_accepted", "tail_repaired", "cancel_requested", "run_ended"}


def samples(s: State) -> dict[str, r.Record]:
    """One record of each kind, as well fitted to the state as it can be."""
    open_seq = s.ask.seq if s.ask else next((c.intent_seq for c in s.calls if c.intent), 0)
    at = 1 if s.steps else 0
    return {
        "run_started": start(),
        "model_intent": ask(s),
        "model_result": REPLY,
        "action_intent": intent(1 if s.calls else 0),
        "action_result": result(at),
        "action_deferred": deferred(at),
        "action_resolved": resolved(call=at),
        "step": step(at, 2)(s),
        "resume_started": RESUMED,
        "resume_refused": r.ResumeRefused(()),
        "replay": r.Replay(open_seq, "probe", "probe", 1),
        "drift_accepted": r.DriftAccepted(()),
        "tail_repaired": r.TailRepaired(3, "torn"),
        "cancel_requested": CANCEL,
        "run_ended": ended()(s),
    }


def may_stand(s: State, record: r.Record) -> bool:
    try:
        fold(s, s.seq, 2000, record)
    except IllegalRecord:
        return False
    return True


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_may_follow(name: str) -> None:
    state = grown(SITUATIONS[name])
    allowed = set(FOLLOWS[name].split()) | (set() if name in ("nothing", "ended") else ALWAYS)
    assert {kind for kind, record in samples(state).items() if may_stand(state, record)} == allowed


def test_every_kind_has_a_sample() -> None:
    assert samples(grown([start()])).keys() == r.KINDS.keys()


#: Records of a kind that may stand there, but not these.
MISFITS: list[tuple[str, str, Due]] = [
    ("a digest of something else", "started", r.ModelIntent(1, "c", "0" * 64)),
    ("a result of another call", "acting", result(1)),
    ("a deferral of another call", "acting", deferred(1)),
    ("a second intent of one call", "acting", intent(0)),
    ("a resolution with a foreign token", "waiting", r.ActionResolved(0, "t1", "approved")),
    ("a resolution of another call", "waiting", resolved(call=1)),
    ("a replay of something not open", "acting", r.Replay(1, "probe", "probe", 1)),
    ("a replay of another ask", "asked", r.Replay(0, "recall", "recall", 1)),
    ("a second step of one decision", "first of two", step(0, 2)),
    ("a step of another iteration", "settled", lambda s: replace(step()(s), iteration=7)),
    ("completed, and nothing has completed it", "closed", ended("completed")),
    ("completed, in the middle of an iteration", "settled", ended("completed")),
    ("failed, and yet completed", "failed", ended("completed")),
    ("completed, and yet out of budget", "completed", ended("budget_exhausted")),
    ("counters that are not the run's", "completed", lambda s: replace(ended("completed")(s), counters=replace(s.counters, valid_steps=9))),
    ("the end of a run that waits", "waiting", ended("cancelled")),
    ("cancelled, and nobody asked for it", "closed", ended("cancelled")),
]


@pytest.mark.parametrize(("name", "at", "due"), MISFITS, ids=[m[0] for m in MISFITS])
def test_a_misfit_is_illegal(name: str, at: str, due: Due) -> None:
    state = grown(SITUATIONS[at])
    assert not may_stand(state, due(state) if callable(due) else due)


@pytest.mark.parametrize("seq", [0, 2, 3])
def test_a_gap_or_a_repeat_is_illegal(seq: int) -> None:
    """R52: one total order, no gap."""
    with pytest.raises(IllegalRecord):
        fold(grown([start()]), seq, 0, CANCEL)


# --- decide --------------------------------------------------------------------------------------------------------

LATE = 10_000_000
TIMED = Budget(3, 5, wall_clock_s=1)
READ = Act("look", {})
ORPHAN: list[Due] = [*ACTING, RESUMED]


def timed(dues: list[Due]) -> list[Due]:
    return [start(TIMED), *dues[1:]]


# records, decisions, now, command
DECISIONS: list[tuple[str, list[Due], tuple, int, object]] = [
    ("a new run asks", [start()], (), 0, d.AskModel()),
    ("an intent is carried out", ASKED, (), 0, d.CallModel()),
    ("a reply is read", REPLIED, (), 0, d.Interpret()),
    ("a decision is intended first", REPLIED, (Act("write", {}),), 0, d.Intend((0,))),
    ("neighbouring reads are intended together", REPLIED, (READ, READ, Act("write", {})), 0, d.Intend((0, 1))),
    ("reads do not overtake a write", REPLIED, (Act("write", {}), READ, READ), 0, d.Intend((0,))),
    ("an intended action is run", ACTING, (Act("write", {}),), 0, d.Execute((0,))),
    ("a settled action is stepped", [*ACTING, result()], (Act("write", {}),), 0, d.MakeStep(0)),
    ("a rejection is stepped", REPLIED, (Reject("not_json", "no"),), 0, d.MakeStep(0)),
    ("a deferral waits", WAITING, (Act("write", {}),), 0, d.Wait(0)),
    ("a wait ends by its own deadline", [*ACTING, deferred(until=500)], (Act("write", {}),), 400, d.Wait(0, 500)),
    ("a wait has expired", [*ACTING, deferred(until=500)], (Act("write", {}),), 500, d.Resolve(0, "expired")),
    ("the run's deadline comes first", timed([*ACTING, deferred(until=9000)]), (Act("write", {}),), 400, d.Wait(0, 2000)),
    ("overdue while waiting", timed(WAITING), (Act("write", {}),), LATE, d.Resolve(0, "withdrawn")),
    ("cancelled while waiting", [*WAITING, CANCEL], (Act("write", {}),), 0, d.Resolve(0, "withdrawn")),
    ("approved: it is run", [*WAITING, resolved("approved")], (Act("write", {}),), 0, d.Execute((0,))),
    ("answered: it is concluded", [*WAITING, resolved("answered")], (Act("write", {}),), 0, d.Conclude(0)),
    ("denied: it is concluded", [*WAITING, resolved("denied")], (Act("write", {}),), 0, d.Conclude(0)),
    ("what follows a deferral is not executed", WAITING, (Act("write", {}), READ), 0, d.MakeStep(1, "an earlier call of this reply waits")),
    ("an orphan is recovered", ORPHAN, (Act("write", {}),), 0, d.Recover(0)),
    ("an approved orphan is recovered", [*WAITING, resolved("approved"), RESUMED], (Act("write", {}),), 0, d.Recover(0)),
    ("an orphaned ask is asked again", [*ASKED, RESUMED], (), 0, d.RecoverAsk()),
    ("a cancelled ask is dropped", [*ASKED, CANCEL], (), 0, d.DropAsk(sent=False)),
    ("a cancelled orphan ask may have been sent", [*ASKED, RESUMED, CANCEL], (), 0, d.DropAsk(sent=True)),
    ("an overdue ask is dropped", timed(ASKED), (), LATE, d.DropAsk(sent=False)),
    ("the end is written", COMPLETED, (), 0, d.Finish(grown(COMPLETED).end)),
    ("completion outranks a cancel", [*COMPLETED, CANCEL], (), 0, d.Finish(grown(COMPLETED).end)),
    ("a closed iteration goes on", CLOSED, (), 0, d.AskModel()),
    ("a refusal to come changes nothing", [*CLOSED, r.ResumeRefused(())], (), 0, d.AskModel()),
    (
        "an action a cut tail may have held is an orphan",
        [*REPLIED, RESUMED, r.TailRepaired(3, "torn"), intent()],
        (Act("write", {}),),
        0,
        d.Recover(0),
    ),
    ("after the end there is nothing", [*COMPLETED, ended("completed")], (), 0, None),
]


@pytest.mark.parametrize(("dues", "decisions", "now", "command"), [x[1:] for x in DECISIONS], ids=[x[0] for x in DECISIONS])
def test_what_is_to_be_done(dues: list[Due], decisions: tuple, now: int, command: object) -> None:
    state = grown(dues)
    assert d.decide(deciding(state, *decisions) if decisions else state, now) == command


#: When several ends are due, the first of these names it: cancel, then the budgets in the order people would name them.
ENDS: list[tuple[str, list[Due], int, str, str]] = [
    ("cancelled", [start(TIMED), CANCEL], LATE, "cancelled", "why"),
    ("valid steps", [start(Budget(1, 1, wall_clock_s=1)), *CLOSED[1:]], LATE, "budget_exhausted", "valid_steps"),
    ("iterations", [start(Budget(2, 1, wall_clock_s=1)), *CLOSED[1:]], LATE, "budget_exhausted", "iterations"),
    ("wall clock", timed(CLOSED), LATE, "budget_exhausted", "wall_clock"),
    ("nothing yet", timed(CLOSED), 1999, "", ""),
    ("the moment itself", timed(CLOSED), 2000, "budget_exhausted", "wall_clock"),
]


@pytest.mark.parametrize(("dues", "now", "reason", "detail"), [x[1:] for x in ENDS], ids=[x[0] for x in ENDS])
def test_which_end_is_named(dues: list[Due], now: int, reason: str, detail: str) -> None:
    command = d.decide(grown(dues), now)
    assert isinstance(command, d.Finish) == bool(reason)
    assert not isinstance(command, d.Finish) or (command.end.reason, command.end.detail) == (reason, detail)


@pytest.mark.parametrize(("limit", "gives_up"), [(1, True), (2, False), (0, False)])
def test_recoveries_of_one_intent_are_bounded_and_nought_means_unbounded(limit: int, gives_up: bool) -> None:
    again: list[Due] = [RESUMED, r.Replay(3, "probe", "probe", 1), RESUMED]
    state = deciding(grown([start(replace(BUDGET, max_recoveries=limit)), *ACTING[1:], *again]))
    command = d.decide(state, 0)
    assert isinstance(command, d.Finish if gives_up else d.Recover)
    ask_again: list[Due] = [RESUMED, r.Replay(1, "recall", "recall", 1), RESUMED]
    command = d.decide(grown([start(replace(BUDGET, max_recoveries=limit)), ask, *ask_again]), 0)
    assert isinstance(command, d.Finish if gives_up else d.RecoverAsk)


# --- history -------------------------------------------------------------------------------------------------------


def item(text: str) -> HistoryItem:
    return HistoryItem("user", (r.Part(text=text),))


def texts(history: History) -> list[str]:
    return [x.parts[0].text for x in history]


def test_histories_share_one_list_and_each_sees_its_own_prefix() -> None:
    one = History().add(item("a"))
    two = one.add(item("b"))
    assert two._items is one._items
    assert (texts(one), texts(two)) == (["a"], ["a", "b"])
    other = one.add(item("c"))
    assert (texts(one), texts(two), texts(other)) == (["a"], ["a", "b"], ["a", "c"])
    assert other._items is not two._items


def test_a_history_reads_like_a_list() -> None:
    shared = History().add(item("a"))
    history = shared.add(item("b"))
    history.add(item("not ours"))
    assert (len(history), history[-1], history[0:5]) == (2, item("b"), [item("a"), item("b")])
    assert history == History([item("a"), item("b")])
    assert history != shared
    assert history != [item("a"), item("b")]
    for index in (2, -3):
        with pytest.raises(IndexError):
            history[index]
