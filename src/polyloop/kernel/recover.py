"""What becomes of an action whose outcome was lost, and of one that waited (R62; kernel.md: executor, replay, resume).

Nothing here dispatches an effect: it asks, records and decides. `settle` is the executor's second verb.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace

from . import decide as d
from . import records as r
from .flight import Interrupted
from .machine import INTERRUPTED, Call, End
from .objects import Json
from .outcome import action, deadlines, end, flown_ms, interrupted, settle, stopping
from .records import canonical
from .seams import NotStarted, Outcome, Pending, Settled, Unknown

if TYPE_CHECKING:
    from .driver import Driver


def recover_ask(run: Driver, command: d.RecoverAsk) -> None:
    ask = run.state.ask
    assert ask is not None
    run.emit(r.Replay(ask.seq, "recall", "recall", ask.recoveries + 1))


async def recover(run: Driver, command: d.Recover) -> None:
    await recover_call(run, cast(Call, run.state.call(command.call)))


async def recover_call(run: Driver, call: Call) -> None:
    """By its policy; once the run is stopping nobody waits and nothing is dispatched, but a service can still be asked."""
    policy = cast(r.ActionIntent, call.intent).replay
    chosen = policy if policy == "probe" or not stopping(run) else "report_unknown"
    handled = RECOVER[chosen](run, call, r.Replay(call.intent_seq, policy, "report_unknown", call.recoveries + 1))
    if handled is not None:
        await handled


async def cut_short(run: Driver, why: str, *, leaked: bool = False) -> None:
    """Record what was in flight when it was interrupted. A suspend records nothing: the intent stays open."""
    flying, run.flying = run.flying, None
    if why == "suspend" or flying is None:
        run.suspended = True
        return
    run.take_up_cancel()
    ms = flown_ms(run)
    if not flying:
        run.mark("model", run.flown_at)
        run.emit(r.ModelResult(ms=ms, error=r.CallError(INTERRUPTED, message=why)))
    for call in [cast(Call, run.state.call(index)) for index in flying]:
        if why == "cancel" and call.stage == "open" and cast(r.ActionIntent, call.intent).replay == "probe" and not leaked:
            await recover_call(run, call)
        elif call.stage != "waiting":
            run.emit(interrupted(call, why, ms, leaked=leaked and call.index not in run.landed))


async def inquire(run: Driver, call: Call, token: str | None, *, fence: bool) -> Settled:
    """Ask the service what became of an action. One that breaks, or is cut short by a deadline or a cancel, cannot tell.

    A run that is stopping asks within the grace, and a cancel that comes while it asks makes it ask again, with a fence.
    """
    bounds = ((run.seams.grace_s, "deadline"),) if stopping(run) else deadlines(run)
    run.flying, run.flown_at = (call.index,), run.seams.clock.monotonic()
    try:
        settled = await run.flight.guard(run.seams.actions.settle(action(run, call), token, fence), bounds)
    except Interrupted as cut:
        if cut.why == "suspend":
            raise
        settled = Unknown()
        if cut.why == "cancel" and run.state.cancel is None:
            run.take_up_cancel()
            settled = await inquire(run, call, token, fence=True)
    except Exception:
        settled = Unknown()
    run.flying = None
    return settled


def rerun(run: Driver, call: Call, replay: r.Replay) -> None:
    run.emit(replace(replay, decision="rerun"))


def report_unknown(run: Driver, call: Call, replay: r.Replay) -> None:
    run.emit(replay)
    run.emit(unknown(call, "The process stopped while this action was running."))


def ask_person(run: Driver, call: Call, replay: r.Replay) -> None:
    run.emit(replace(replay, decision="ask"))
    run.emit(r.ActionDeferred(call.index, call.settle_token, "settle", dispatched=True))


def never(run: Driver, call: Call, replay: r.Replay) -> None:
    run.emit(replace(replay, decision="never"))
    error: Json = {"of": call.intent_seq, "tool": cast(r.ActionIntent, call.intent).tool}
    end(run, d.Finish(End("unresolved_action", "never", error=error)))


async def probe(run: Driver, call: Call, replay: r.Replay) -> None:
    """Ask the service by key. Proved not started, and fenced: executed once more, as a new attempt (the seed's `retryable`)."""
    run.emit(replace(replay, decision="probe"))
    await run.flush()
    settled = await inquire(run, call, None, fence=True)
    if isinstance(settled, NotStarted) and not stopping(run):
        run.emit(replace(replay, decision="execute"))
    elif isinstance(settled, Pending):
        run.emit(r.ActionDeferred(call.index, settled.token, settled.awaited, settled.until, dispatched=True))
    else:
        closed(run, call, settled)


def closed(run: Driver, call: Call, settled: Settled) -> None:
    """The result that the service's answer stands for."""
    if isinstance(settled, Outcome):
        settle(run, call, settled, None)
    elif isinstance(settled, NotStarted):
        run.emit(r.ActionResult(call.index, "not_executed", code="withdrawn"))
    else:
        run.emit(unknown(call, "Its outcome could not be found out."))


def unknown(call: Call, text: str) -> r.ActionResult:
    return r.ActionResult(call.index, "unknown", (r.Part(text=text),), code="recovered", interrupted=True)


#: What may be said to each kind of wait. An approval is not answered, a task not approved a second time: such words are not heard.
MAY_SAY: Final[Mapping[r.Awaited, frozenset[str]]] = {
    "approval": frozenset({"approved", "denied", "expired", "withdrawn"}),
    "answer": frozenset({"answered", "denied", "expired", "withdrawn"}),
    "task": frozenset({"finished", "expired", "withdrawn"}),
    "run": frozenset({"finished", "expired", "withdrawn"}),
    "settle": frozenset({"finished", "denied", "approved", "expired", "withdrawn"}),
}
#: What a resolution of the policy `ask` means.
PERSON_SAYS: Final[Mapping[str, tuple[r.Status, str]]] = {
    "finished": ("ok", "A person settled this action as done."),
    "denied": ("not_executed", "A person settled this action as not done."),
}


async def resolve(run: Driver, command: d.Resolve) -> None:
    """What was said in time counts, however late it is read."""
    call = cast(Call, run.state.call(command.call))
    if command.decision == "expired":
        await run.heed()
    if command.decision != "expired" or not run.resolved(call):
        run.resolve(call, cast(r.Decision, command.decision), "kernel")


async def conclude(run: Driver, command: d.Conclude) -> None:
    """The result that a resolution stands for. A dispatched action is asked about; nothing is dispatched here."""
    call = cast(Call, run.state.call(command.call))
    if call.stage == "open":
        withdraw(run, call)
        return
    resolved, deferred = cast(r.ActionResolved, call.resolved), cast(r.ActionDeferred, call.deferred)
    if resolved.decision == "answered":
        run.emit(r.ActionResult(call.index, "ok", reason(run, resolved)))
    elif deferred.awaited == "settle":
        status, text = PERSON_SAYS.get(resolved.decision, ("unknown", "Nobody has said what became of this action."))
        run.emit(r.ActionResult(call.index, status, (r.Part(text=text),), code="settled"))
    elif resolved.decision == "finished" or deferred.dispatched or run.state.suspect:  # a lost frame may have held its approval
        await run.flush()
        closed(run, call, await inquire(run, call, deferred.token, fence=resolved.decision != "finished"))
    else:
        run.emit(r.ActionResult(call.index, "not_executed", reason(run, resolved), code=resolved.decision))


def withdraw(run: Driver, call: Call) -> None:
    """Never dispatched by this holder; by an earlier one perhaps, unless its service has said no."""
    if call.recoveries and cast(r.ActionIntent, call.intent).replay != "probe":
        run.emit(unknown(call, "The process stopped while this action was running."))
    else:
        run.emit(r.ActionResult(call.index, "not_executed", code="withdrawn"))


def reason(run: Driver, resolved: r.ActionResolved) -> tuple[r.Part, ...]:
    """What was said with a resolution, for the model."""
    return () if resolved.evidence is None else (r.Part(text=run.hold(canonical(resolved.evidence).decode())),)


RECOVER: Final[Mapping[str, Callable[[Driver, Call, r.Replay], Awaitable[None] | None]]] = {
    "rerun": rerun,
    "probe": probe,
    "report_unknown": report_unknown,
    "ask": ask_person,
    "never": never,
}
