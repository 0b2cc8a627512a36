"""What becomes of an action whose outcome was lost, and of one that waited (R62; kernel.md: executor, replay, resume).

Nothing here dispatches an effect: it asks, records and decides. `settle` is the executor's second verb.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from . import decide as d
from . import records as r
from .machine import Call, End
from .objects import Json
from .outcome import action, deadlines, end, settle
from .records import canonical
from .seams import NotStarted, Outcome, Pending

if TYPE_CHECKING:
    from .driver import Driver


async def recover_ask(run: Driver, command: d.RecoverAsk) -> None:
    ask = run.state.ask
    assert ask is not None
    run.emit(r.Replay(ask.seq, "recall", "recall", ask.recoveries + 1))


async def recover(run: Driver, command: d.Recover) -> None:
    call = cast(Call, run.state.call(command.call))
    intent = cast(r.ActionIntent, call.intent)
    policy = intent.replay
    if run.state.cancel is not None and policy != "probe":
        policy = "report_unknown"
    await RECOVER[policy](run, call, r.Replay(call.intent_seq, intent.replay, "report_unknown", call.recoveries + 1))


async def rerun(run: Driver, call: Call, replay: r.Replay) -> None:
    run.emit(decided(replay, "rerun"))


async def report_unknown(run: Driver, call: Call, replay: r.Replay) -> None:
    run.emit(replay)
    note = r.Part(text="The process stopped while this action was running.")
    run.emit(r.ActionResult(call.index, "unknown", (note,), code="recovered", interrupted=True))


async def ask_person(run: Driver, call: Call, replay: r.Replay) -> None:
    run.emit(decided(replay, "ask"))
    run.emit(r.ActionDeferred(call.index, f"settle:{call.intent_seq}", "settle", dispatched=True))


async def never(run: Driver, call: Call, replay: r.Replay) -> None:
    run.emit(decided(replay, "never"))
    error: Json = {"of": call.intent_seq, "tool": cast(r.ActionIntent, call.intent).tool}
    end(run, d.Finish(End("unresolved_action", "never", error=error)))


async def probe(run: Driver, call: Call, replay: r.Replay) -> None:
    """Ask the service by key. Proved not started: executed once more, as a new attempt (the seed's `retryable`)."""
    run.emit(decided(replay, "probe"))
    await run.flush()
    fence = run.state.cancel is not None
    settled = await run.flight.guard(run.seams.actions.settle(action(run, call), None, fence), deadlines(run))
    if isinstance(settled, NotStarted) and run.state.cancel is None:
        run.emit(decided(replay, "execute"))
    elif isinstance(settled, NotStarted):
        run.emit(r.ActionResult(call.index, "not_executed", code="withdrawn"))
    elif isinstance(settled, Pending):
        run.emit(r.ActionDeferred(call.index, settled.token, settled.awaited, settled.until, dispatched=True))
    elif isinstance(settled, Outcome):
        settle(run, call, settled, None)
    else:
        note = r.Part(text="The process stopped while this action was running, and the service cannot tell.")
        run.emit(r.ActionResult(call.index, "unknown", (note,), code="recovered", interrupted=True))


async def resolve(run: Driver, command: d.Resolve) -> None:
    deferred = cast(r.ActionDeferred, cast(Call, run.state.call(command.call)).deferred)
    run.emit(r.ActionResolved(command.call, deferred.token, cast(r.Decision, command.decision), "kernel"))


async def conclude(run: Driver, command: d.Conclude) -> None:
    """The result that a resolution stands for. A dispatched action is asked about; nothing is dispatched here."""
    call = cast(Call, run.state.call(command.call))
    if call.phase == "open":
        run.emit(r.ActionResult(call.index, "not_executed", code="withdrawn"))
        return
    resolved, deferred = cast(r.ActionResolved, call.resolved), cast(r.ActionDeferred, call.deferred)
    if resolved.decision == "answered":
        text = run.hold(canonical(resolved.evidence).decode())
        run.emit(r.ActionResult(call.index, "ok", (r.Part(text=text),)))
    elif resolved.decision == "finished" and deferred.awaited == "settle":
        run.emit(r.ActionResult(call.index, "ok", (r.Part(text="A person settled this action as done."),), code="settled"))
    elif resolved.decision == "finished" or deferred.dispatched and deferred.awaited != "settle":
        await ask_service(run, call, resolved.decision)
    else:
        why = () if resolved.evidence is None else (r.Part(text=run.hold(canonical(resolved.evidence).decode())),)
        run.emit(r.ActionResult(call.index, "not_executed", why, code=resolved.decision))


async def ask_service(run: Driver, call: Call, decision: str) -> None:
    await run.flush()
    token = cast(r.ActionDeferred, call.deferred).token
    fence = decision != "finished"
    settled = await run.flight.guard(run.seams.actions.settle(action(run, call), token, fence), deadlines(run))
    if isinstance(settled, Outcome):
        settle(run, call, settled, None)
    elif isinstance(settled, NotStarted):
        run.emit(r.ActionResult(call.index, "not_executed", code="withdrawn"))
    else:
        note = r.Part(text="Its outcome could not be found out.")
        run.emit(r.ActionResult(call.index, "unknown", (note,), code=decision, interrupted=True))


def decided(replay: r.Replay, decision: str) -> r.Replay:
    return replace(replay, decision=decision)


RECOVER: Final[Mapping[str, Callable[[Driver, Call, r.Replay], Awaitable[None]]]] = {
    "rerun": rerun,
    "probe": probe,
    "report_unknown": report_unknown,
    "ask": ask_person,
    "never": never,
}
