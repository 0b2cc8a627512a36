"""How a holder comes to a run: races at the start, torn frames, old process groups, texts of an earlier run (kernel.md, Resume)."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from polyloop.kernel.flight import unbroken
from polyloop.kernel.history import carried, carried_text
from polyloop.kernel.objects import Agent, Budget, Origin, Request, Segment
from polyloop.kernel.run import RunExists, resume, start
from polyloop.kernel.seams import CorruptStore, Damage, StoreError, Taken
from polyloop.kernel.snapshot import BadRequest, request_of, snapshot
from polyloop.testing import MemoryStore, said
from tests.kernel.desk import STREAM, Desk, act, go

DONE = act("submit", summary="s")
LINES = [act("look"), DONE]


class Hidden(Desk):
    """A desk that does not see the run at first: somebody else is starting or ending it at the same moment."""

    def hide(self, looks: int) -> None:
        head = self.log.head
        left = [None] * looks

        async def late(stream):
            return left.pop() if left else await head(stream)

        self.log.head = late


def test_two_starts_at_once_are_one_run() -> None:
    """Handed case duplicate_effect-07: the second finds what the first has written, and adds no start of its own."""
    first = Desk(LINES)
    first.start()
    second = Hidden(LINES, shelf=first.log.upto(2))
    second.hide(1)
    assert second.start().reason == "completed"
    assert second.log.kinds.count("run_started") == 1
    second.check()


def test_another_request_at_once_is_a_conflict() -> None:
    first = Desk(LINES)
    first.start()
    second = Hidden(LINES, shelf=first.log.upto(2), valid_steps=7)
    second.hide(1)
    with pytest.raises(RunExists):
        second.start()
    assert second.log.holder == ""


def test_a_run_that_ends_while_it_is_being_taken_is_only_read() -> None:
    first = Desk(LINES)
    ended = first.start()
    second = Desk(LINES, shelf=first.log.upto(len(first.log.records)))
    head, looks = second.log.head, [2, 1]

    async def early(stream):
        found = await head(stream)
        return replace(found, kind="step") if looks and looks.pop() else found

    second.log.head = early
    again = second.resume()
    assert (again.reason, again.head_hash, second.log.records) == (ended.reason, ended.head_hash, first.log.records)
    assert second.log.holder == ""


def test_the_old_holders_processes_are_ended_before_anything_is_asked() -> None:
    """An orphaned worker would land its effect after the takeover."""
    first = Desk([act("write"), DONE])
    first.start()
    desk = Desk([act("write"), DONE], shelf=first.log.upto(4))
    order: list[object] = []
    desk.actions.words["write"] = lambda _: order.append("asked") or said("landed")

    async def take(*_) -> Taken:
        desk.log.holder, desk.log.epoch = "h1", 2
        return Taken(2, 0, ((17, 99),), "dead")

    desk.log.take = take
    go(resume(STREAM, desk.request, desk.seams("h1", order.append)))
    assert order == [((17, 99),), "asked"]


@pytest.mark.parametrize("enter", [resume, start])
def test_a_run_whose_old_processes_do_not_end_is_held_on_to(enter) -> None:
    """Let go, it would be taken next time by somebody who finds no processes to end."""
    first = Desk([act("write"), DONE])
    first.start()
    desk = Hidden([act("write"), DONE], shelf=first.log.upto(4))
    desk.hide(enter is start)

    def kill(groups: object) -> None:
        raise StoreError("they do not end")

    with pytest.raises(StoreError, match="do not end"):
        go(enter(*[STREAM] * (enter is resume), desk.request, desk.seams("h1", kill)))
    assert desk.log.holder == "h1"
    assert len(desk.log.records) == 4
    assert desk.actions.asked == []


def test_a_first_frame_that_was_torn_is_begun_anew() -> None:
    """It was never acknowledged, so nobody was told of the run (handed case duplicate_effect-02)."""
    desk = Desk(LINES)
    desk.log.torn = Damage(0, "checksum", "ff" * 32)
    assert desk.start().reason == "completed"
    assert desk.log.kinds[:2] == ["run_started", "tail_repaired"]
    assert desk.log.torn is None
    desk.check()


def test_a_log_without_a_start_is_damaged() -> None:
    desk = Hidden(LINES)
    other = Desk(LINES)
    other.start()
    desk.log.records = []

    async def head(_):
        return await type(other.log).head(other.log, STREAM)

    desk.log.head = head
    with pytest.raises(CorruptStore):
        desk.resume()
    assert desk.log.holder == ""


def test_a_request_can_be_rebuilt_from_its_run() -> None:
    request = Request(
        "r1", Agent("a", "2", "json-text/1"), Budget(5, 9, wall_clock_s=1.5), (Segment("t", "system", "x" * 3000), Segment("h", slot="history")),
        {"a": "b"}, {"n": [1]}, {"m": "n"}, result_schema={"type": "object"}, parent="p", root="q", origin=Origin("r0", 1, "ab"), history="[]",
    )  # fmt: skip
    texts: dict[str, str] = {}
    logged = snapshot(request, Desk([]).tools.specs, lambda t: texts.setdefault(t, t))
    assert request_of("r1", "local", logged, str) == request


# --- continuing another run ----------------------------------------------------------------------------------------


def test_the_history_of_another_run_is_carried_over() -> None:
    """Texts in full, in order, before this run's own; and once more from there."""
    first = Desk([act("look", long="x" * 3000), DONE], {"look": said("seen " * 500)})
    first.start()
    text = carried_text("", first.driver.state.history, first.driver.look)
    assert carried("") == []
    request = Request("r1", Agent("a"), Budget(5, 9), (Segment("task", text="Go on."),), origin=Origin("r0", 6, "ab"), history=text)
    second = Desk([act("write"), DONE], request=request)
    second.start()
    shown = [m.text for m in second.model.seen[1].messages]
    assert shown[0] == "Go on."
    assert shown[1] == act("look", long="x" * 3000)
    assert shown[2] == "[look: ok]\nseen " + "seen " * 499
    assert shown[5:] == [act("write"), "[write: ok]\nwrite"]
    again = carried(carried_text(text, second.driver.state.history, second.driver.look))
    assert len(again) == 8
    assert carried_text("", type(second.driver.state.history)(), str) == ""


# --- leaving and coming --------------------------------------------------------------------------------------------


def test_unbroken_work_ends_with_its_loop() -> None:
    """When the loop is closed under it there is nobody left to wait: no task may be left pending in silence."""

    async def main() -> str:
        gate = asyncio.Event()
        waiting = unbroken(gate.wait())
        waiting.send(None)
        waiting.close()
        gate.set()
        await asyncio.sleep(0)
        return "left"

    assert go(main()) == "left"


def test_unbroken_work_tells_its_own_fault() -> None:
    async def fails() -> None:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        go(unbroken(fails()))


# --- a real store --------------------------------------------------------------------------------------------------


def test_the_shipped_memory_store_keeps_the_same_log() -> None:
    """Shelf is strict, but it is ours: the product's own log must say the same of the same run."""
    lines = [act("look", long="x" * 3000), act("nope"), act("write"), DONE]
    ours = Desk(lines)
    told = ours.start()

    async def main():
        desk = Desk(lines, shelf=MemoryStore())
        result = await desk.starting()
        again = await start(desk.request, desk.seams("h2"))
        return result, again, (await desk.log.load(STREAM)).records

    result, again, records = go(main())
    assert (result, again) == (told, told)
    assert list(records) == ours.log.records


BAD = [
    (Segment("x", slot="tool"), "segments.x"),
    (Segment("x", text="both", slot="tools"), "segments.x"),
]


@pytest.mark.parametrize(("segment", "path"), BAD, ids=["an unknown slot", "a slot with text"])
def test_a_segment_that_says_nothing_known_is_refused(segment: Segment, path: str) -> None:
    desk = Desk([DONE], request=Request("r1", Agent("a"), Budget(1, 1), (segment,)))
    with pytest.raises(BadRequest) as bad:
        desk.start()
    assert bad.value.path == path


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_budget_that_is_no_number_is_refused(number: float) -> None:
    desk = Desk([DONE], wall_clock_s=number)
    with pytest.raises(BadRequest) as bad:
        desk.start()
    assert bad.value.path == "budget.wall_clock_s"
