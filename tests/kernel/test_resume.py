"""A run cut at any record and resumed is the run it would have been (R41, R42, R59-R63; kernel.md, Resume).

Scripts are random: replies with one or several decisions, valid, rejected, deferred, failing, under every policy. Each is
run once whole; then for every prefix of its log another process finds that prefix, in a world where the open action has
landed or has not, and goes on.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.kernel import records as r
from polyloop.kernel.machine import State, fold
from polyloop.kernel.objects import RunResult
from polyloop.kernel.seams import Deferred, NotStarted, Outcome
from polyloop.testing import said
from tests.kernel.desk import Desk, Spelled, act, spell, tool

WAITS = ("approved", "denied", "answered")
#: One tool per policy.
POLICIES = {"look": "rerun", "write": "probe", "append": "report_unknown", "pay": "never", "ask": "ask"}
TOOLS = [tool(name, "read" if name == "look" else "write", policy) for name, policy in POLICIES.items()]
TOOLS.append(tool("submit", "write", "probe", completes=True))


class World:
    """What lies outside the log and survives a crash: which keys have landed, and what people have said."""

    def __init__(self, landed: dict[str, Outcome] | None = None) -> None:
        self.landed = dict(landed or {})
        self.effects: dict[str, int] = {}
        self.desk: Desk | None = None

    def deed(self, action: Any) -> Outcome | Deferred:
        do = action.args["do"]
        if do in WAITS and not action.token:
            token = f"t-{action.args['n']}-{action.call}"
            self.desk.log.leave("resolve", token, do, at=self.desk.clock.now_ms())
            return Deferred(token, "answer" if do == "answered" else "approval")
        self.effects[action.key] = self.effects.get(action.key, 0) + 1
        self.landed[action.key] = Outcome(do, (r.Part(text=do),)) if do in ("error", "unknown") else said(f"did {action.args['n']}")
        return self.landed[action.key]

    def word(self, action: Any) -> Outcome | NotStarted:
        return self.landed.get(action.key, NotStarted())


def desk_of(script: list[list[tuple]], world: World, **more: Any) -> Desk:
    lines = [spell(*[_decision(d, n) for d in reply]) for n, reply in enumerate(script)]
    names = [t.name for t in TOOLS]
    desk = Desk(lines, dict.fromkeys(names, world.deed), tools=TOOLS, interpreter=Spelled(), **more)
    desk.actions.words = dict.fromkeys(names, world.word)
    world.desk = desk
    return desk


def _decision(said_: tuple, n: int) -> list[Any]:
    if said_[0] == "reject":
        return ["reject", "unknown_tool", "nope", said_[1]]
    return ["act", said_[0], {"do": said_[1], "n": n}]


def trail(desk: Desk) -> list[tuple]:
    """What was decided and how it went, in order."""
    args = {}
    out = []
    for x in desk.shown():
        if x["kind"] == "model_result":
            args = {}
        elif x["kind"] == "action_intent":
            args[x["call"]] = r.canonical(x["args"])
        elif x["kind"] == "step":
            out.append((x["call"], x["tool"], args.get(x["call"]), x["outcome"], x["tier"], x["valid"]))
    return out


def open_intent(records: list[r.Sealed]) -> r.ActionIntent | None:
    """The action that was running when the process died, if one was."""
    found: dict[int, r.ActionIntent] = {}
    deferred = r.ActionIntent(0, "", "", "", "")
    for s in records:
        body = r.decode(s.kind, s.body)
        if isinstance(body, r.ActionIntent):
            found[body.call] = body
        elif isinstance(body, r.ActionResult):
            found.pop(body.call, None)
        elif isinstance(body, r.ActionDeferred):
            deferred = found.pop(body.call)
        elif isinstance(body, r.ActionResolved) and body.decision == "approved":
            found[body.of] = deferred
    return next(iter(found.values()), None)


def refolded(desk: Desk) -> State:
    state = State()
    for s in desk.log.records:
        state = fold(state, s.seq, s.at, r.decode(s.kind, s.body))
    return state


def crash(whole: Desk, world: World, script: list, count: int, landed: bool) -> tuple[Desk, World]:
    """Another process, and a world in which only what the prefix knows of has happened, and the open action perhaps."""
    prefix = whole.log.records[:count]
    settled = {b.key for b in whole.log.bodies()[:count] if isinstance(b, r.ActionIntent)}
    lost = open_intent(prefix)
    if lost is not None and not (landed and (lost.args["do"] not in WAITS or "action_resolved" in whole.log.kinds[count - 2 : count])):
        settled.discard(lost.key)
    then = World({k: v for k, v in world.landed.items() if k in settled})
    return desk_of(script, then, shelf=whole.log.upto(count), request=whole.request), then


def finish(desk: Desk, world: World) -> RunResult:
    """Resume until the end; a person who is asked looks what has happened."""
    result = desk.resume()
    while result.state == "waiting":
        intent = desk.log.bodies()[int(result.waiting.token.removeprefix("settle:"))]
        desk.log.leave("resolve", result.waiting.token, "finished" if intent.key in world.landed else "approved", at=desk.clock.now_ms())
        result = desk.resume()
    return result


def compare(whole: Desk, ended: RunResult, desk: Desk, then: World, again: RunResult, lost: r.ActionIntent | None) -> None:
    recalls = sum(1 for b in desk.log.of(r.Replay) if b.decision == "recall")
    desk.check()
    assert replace(desk.driver.state, decisions=None) == refolded(desk)
    assert all(n == 1 for key, n in then.effects.items() if key != (lost.key if lost else None) or lost.tool != "look")
    if lost is not None and lost.tool == "pay":
        assert again.reason == "unresolved_action"
        return
    expected = trail(whole)
    if lost is not None and lost.tool == "append":
        expected = [(c, t, a, "unknown", *rest) if a and a == r.canonical(lost.args) and t == "append" else (c, t, a, o, *rest)
                    for c, t, a, o, *rest in expected]  # fmt: skip
    assert trail(desk) == expected
    assert replace(again.counters, iterations=again.counters.iterations - recalls) == ended.counters
    assert (again.reason, again.detail, again.completed_by, again.result) == (ended.reason, ended.detail, ended.completed_by, ended.result)


def at_every_prefix(script: list[list[tuple]], landed: bool, **budget: int) -> None:
    world = World()
    whole = desk_of(script, world, **budget)
    ended = whole.start()
    assert ended.state == "ended"
    for count in range(1, len(whole.log.records)):
        desk, then = crash(whole, world, script, count, landed)
        compare(whole, ended, desk, then, finish(desk, then), open_intent(whole.log.records[:count]))


#: A lost `append` is told as unknown and a lost `ask` waits, which says something else about the rest of their reply: they stand apart.
kinds = st.sampled_from(["ok", "ok", "error", "unknown", *WAITS])
actions = st.one_of(st.tuples(st.sampled_from(["write", "pay"]), kinds), st.tuples(st.just("look"), st.sampled_from(["ok", "error", "unknown"])))
rejections = st.tuples(st.just("reject"), st.sampled_from(["a", "a", "b"]))
appends = st.tuples(st.just("append"), st.sampled_from(["ok", "error", "unknown"]))
alone = st.one_of(st.tuples(st.just("ask"), st.sampled_from(["ok", *WAITS])), appends).map(lambda a: [a])
replies = st.one_of(st.lists(st.one_of(actions, rejections), min_size=1, max_size=4), alone)
scripts = st.lists(replies, min_size=1, max_size=5)


@given(scripts, st.booleans(), st.booleans(), st.integers(1, 6))
@settings(max_examples=1000 if os.environ.get("POLYLOOP_SOAK") else 40)
def test_S2_27_resume_at_every_record_of_any_script_gives_the_same_run(script: list, submits: bool, landed: bool, steps: int) -> None:
    at_every_prefix(script + ([[("submit", "ok")]] if submits else []), landed, valid_steps=steps)


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize(
    "script",
    [
        [[("look", "ok"), ("look", "ok")], [("submit", "ok")]],
        [[("write", "approved"), ("look", "ok")], [("submit", "approved")]],
        [[("look", "ok"), ("reject", "a"), ("write", "ok")], [("reject", "a")], [("reject", "a")], [("reject", "a")]],
        [[("ask", "ok")], [("append", "ok")], [("pay", "ok")], [("submit", "ok")]],
        [[("write", "denied")], [("write", "denied")], [("look", "error")], [("submit", "error")], [("submit", "ok")]],
    ],
    ids=["overlapping reads", "approvals", "a stall", "every policy", "refusals"],
)
def test_resume_at_every_record(script: list, landed: bool) -> None:
    at_every_prefix(script, landed)


@pytest.mark.parametrize("landed", [True, False])
def test_a_second_crash_anywhere_in_the_recovery_changes_nothing(landed: bool) -> None:
    script = [[("write", "ok")], [("reject", "a")], [("look", "ok"), ("write", "approved")], [("submit", "ok")]]
    world = World()
    whole = desk_of(script, world)
    ended = whole.start()
    for first in range(1, len(whole.log.records)):
        once, between = crash(whole, world, script, first, landed)
        finish(once, between)
        merged = World(world.landed | between.landed)
        for second in range(first + 1, len(once.log.records), 2):
            desk, then = crash(once, merged, script, second, landed)
            finish(desk, then)
            assert trail(desk) == trail(whole)
            assert desk.log.bodies()[-1].reason == ended.reason
            assert all(n == 1 for n in then.effects.values())
            desk.check()


def test_a_run_that_has_ended_is_only_read() -> None:
    """R63, N9: decidable from the log alone, and nothing happens twice."""
    desk = Desk([act("look"), act("submit", summary="s", long="x" * 5000)])
    ended = desk.start()
    before, verbs = list(desk.log.records), len(desk.log.verbs)
    for again in (desk.resume(), desk.start()):
        assert again == ended
    assert desk.log.records == before
    assert set(desk.log.verbs[verbs:]) <= {"head", "load", "blobs"}
    assert (len(desk.model.seen), len(desk.actions.done)) == (2, 2)


def test_nothing_stands_after_the_end() -> None:
    desk = Desk([act("submit")])
    desk.start()
    desk.log.leave("cancel")
    assert desk.resume().reason == "completed"
    assert desk.log.kinds.count("run_ended") == 1
    assert desk.log.kinds[-1] == "run_ended"


def test_the_live_state_is_the_folded_one_whatever_the_data() -> None:
    """Large numbers, lone surrogates, long texts: what is read back is what was there."""
    odd = {"n": 123456789012345678901234567890, "f": 1.0, "s": "\ud800", "deep": [[{"a": None}]], "long": "ü" * 4000, "blob": "x", "size": 3}
    desk = Desk([act("look", **odd), act("look", **odd), act("submit", **odd)], {"look": said("\udc00" + "y" * 5000)})
    ended = desk.start()
    assert replace(desk.driver.state, decisions=None) == refolded(desk)
    assert ended.result == odd
    assert desk.resume().result == odd
    assert [a.args for a in desk.actions.done] == [odd] * 3
    assert [s["repeated"] for s in desk.steps()] == [False, True, False]
