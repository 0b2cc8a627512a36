"""Events are lossy notices: whatever a sink does, the run and its log are as they are without one (S2.20, S2.30, S2.31; R45-R47)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from polyloop.kernel import events as ev
from polyloop.kernel import records as r
from polyloop.kernel.seams import Deferred, Event, StoreError
from polyloop.testing import said
from tests.kernel.desk import Desk, act, go
from tests.kernel.stuck import waited

LINES = [act("look", n=1), act("nope"), "```json\n" + act("write", n=2) + "\n```", act("submit", summary="s")]
MARKER = "MARKER-REMOVED-BY-REPAIR"


def bare(desk: Desk) -> list[dict[str, Any]]:
    """The log without times, salts and hashes."""
    return [{k: v for k, v in x.items() if k not in ("at", "prev", "hash")} for x in desk.shown()]


def heard(*sinks: Any, lines: Any = LINES) -> tuple[Desk, Any]:
    desk = Desk(lines, sinks=sinks)
    return desk, desk.start()


@pytest.fixture(name="quick")
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ev, "CLOSE_S", 0.05)


class Halt(BaseException):
    pass


class CallableSink:
    def __init__(self) -> None:
        self.seen: list[Event] = []

    async def __call__(self, event: Event) -> None:
        self.seen.append(event)


def raises(fault: type[BaseException]) -> Any:
    def sink(_: Event) -> None:
        raise fault

    return sink


def raises_later(fault: type[BaseException]) -> Any:
    async def sink(_: Event) -> None:
        await asyncio.sleep(0)
        raise fault

    return sink


async def hangs(_: Event) -> None:
    await asyncio.sleep(600)


async def stubborn(_: Event) -> None:
    for _i in range(3):
        try:
            await asyncio.sleep(0.03)
        except asyncio.CancelledError:
            continue


def returns_awaitable(_: Event) -> Any:
    return asyncio.sleep(0)


def blocks(_: Event) -> None:
    threading.Event().wait(0.5)


def alters(event: Event) -> None:
    event.body.clear()


FAULTS = [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, Halt]
ZOO: dict[str, Any] = {
    **{f"raises {f.__name__}": raises(f) for f in FAULTS},
    **{f"raises {f.__name__} later": raises_later(f) for f in FAULTS},
    "hangs": hangs, "blocks": blocks, "returns an awaitable": returns_awaitable, "alters what it gets": alters, "callable": CallableSink(),
    "is not callable the right way": lambda: None,
}  # fmt: skip


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", ZOO)
def test_S2_20_S2_30_no_sink_touches_the_run(name: str) -> None:
    """Handed cases event_handler-04, -06, duplicate_effect-11: result, log and call counts equal those without a sink."""
    alone, result = heard()
    desk, told = heard(ZOO[name])
    assert bare(desk) == bare(alone)
    assert (told.reason, told.counters, told.result) == (result.reason, result.counters, result.result)
    assert (len(desk.model.seen), len(desk.actions.done)) == (len(alone.model.seen), len(alone.actions.done))
    desk.check()


@pytest.mark.parametrize("sink", [hangs, blocks], ids=["hangs", "blocks"])
def test_a_hanging_sink_costs_its_bound_once(sink: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """event_handler-03: the run ends within its normal time plus the sink bound; the bound is shared, not summed."""
    monkeypatch.setattr(ev, "CLOSE_S", 0.2)

    async def main() -> float:
        desk = Desk(LINES, sinks=(sink, sink, sink))
        began = waited()
        await desk.starting()
        return waited() - began

    assert go(main()) < 0.5


def test_one_sink_does_not_keep_another_waiting() -> None:
    good = CallableSink()
    heard(raises(ValueError), good)
    assert len(good.seen) == 6


def test_S2_31_one_event_per_finished_step_with_the_whole_record() -> None:
    """R46: no more, no less; the body is the step record as the log shows it."""
    sink = CallableSink()
    desk, _ = heard(sink)
    assert [e.type for e in sink.seen] == ["run_started", *["step"] * 4, "run_ended"]
    shown = {x["seq"]: {k: v for k, v in x.items() if k not in ("seq", "kind", "at", "fence", "prev", "hash")} for x in desk.shown()}
    for event in sink.seen[1:-1]:
        assert event.body == shown[event.seq]
        assert (event.run_id, event.scope, event.dropped) == ("r1", "local", 0)
    assert sink.seen[-1].body["reason"] == "completed"


def test_S2_31_events_do_not_carry_the_raw_reply() -> None:
    """R47: what repair took away is in the log and in no event."""
    sink = CallableSink()
    desk, _ = heard(sink, lines=[f"<think>{MARKER}</think>\n```json\n{act('look', n=1)}\n```", act("submit", summary="x" * 3000)])
    assert any(MARKER in str(x) for x in desk.shown() if x["kind"] == "model_result")
    assert not [e for e in sink.seen if MARKER in str(e)]
    assert sink.seen[1].body["raw_output"] == act("look", n=1)
    assert sink.seen[1].body["repairs"] == ["think", "fence"]
    assert sink.seen[2].body["action"]["args"] == {"summary": "x" * 3000}


def test_events_come_after_their_records_are_durable() -> None:
    found = []
    desk = Desk(LINES)

    async def sink(event: Event) -> None:
        found.append(event.seq < len(desk.log.records))

    desk.sinks = (sink,)
    desk.start()
    assert found == [True] * 6


def test_an_event_of_a_record_that_was_lost_is_never_sent() -> None:
    sink = CallableSink()
    desk = Desk(LINES, sinks=(sink,))

    def fail(number: int, _: object) -> None:
        if number == 3:
            raise StoreError("gone")

    desk.log.before = fail
    desk.start()
    assert [e.type for e in sink.seen] == ["run_started"]


def test_waiting_and_resuming_are_told() -> None:
    sink = CallableSink()
    desk = Desk(
        [act("write"), act("submit")], {"write": lambda a: said("x") if a.approved else Deferred("t", "approval", prompt={"q": 1})}, sinks=(sink,)
    )
    desk.start()
    assert [e.type for e in sink.seen] == ["run_started", "waiting"]
    assert sink.seen[-1].body["prompt"] == {"q": 1}
    desk.resume()
    assert len(sink.seen) == 2
    desk.log.leave("resolve", "t", "approved", at=desk.clock.now_ms())
    desk.resume()
    assert [e.type for e in sink.seen[2:]] == ["resumed", "step", "step", "run_ended"]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_fault_is_counted_and_told_with_the_next_event(kind: str) -> None:
    """event_handler-01: later events are offered, and the counter says how many were lost."""
    seen: list[Event] = []

    def plain(event: Event) -> None:
        if event.type == "run_started":
            raise ValueError
        seen.append(event)

    async def later(event: Event) -> None:
        plain(event)

    heard(plain if kind == "plain" else later)
    assert [(e.type, e.dropped) for e in seen] == [("step", 1), *[("step", 0)] * 3, ("run_ended", 0)]


def test_a_full_queue_drops_and_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ev, "QUEUE_EVENTS", 2)
    seen: list[Event] = []
    gate = threading.Event()

    def slow(event: Event) -> None:
        gate.wait(5)
        seen.append(event)

    desk = Desk([act("look", n=n) for n in range(9)] + [act("submit")], sinks=(slow,))
    desk.actions.deeds["submit"] = lambda _: gate.set() or asyncio.sleep(0.1, said("x"))
    desk.start()
    assert len(seen) + sum(e.dropped for e in seen) == 12
    assert sum(e.dropped for e in seen) >= 6
    assert seen[-1].type == "run_ended"


def test_a_sink_that_will_not_stop_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ev, "CLOSE_S", 0.05)

    async def main() -> tuple[Desk, float]:
        desk = Desk(LINES, sinks=(stubborn,))
        began = waited()
        await desk.starting()
        return desk, waited() - began

    desk, seconds = go(main())
    assert seconds < 0.5
    assert desk.log.kinds[-1] == "run_ended"


def test_without_a_sink_the_audit_is_complete() -> None:
    """R38, R48: every model call and every tool call stands in the log with its intent and its result."""
    desk, _ = heard()
    kinds = desk.log.kinds
    assert kinds.count("model_intent") == kinds.count("model_result") == kinds.count("step") == 4
    assert kinds.count("action_intent") == kinds.count("action_result") == 3
    assert {type(b) for b in desk.log.bodies()} <= set(r.KINDS.values())
