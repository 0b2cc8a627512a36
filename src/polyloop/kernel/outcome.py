"""How an action is addressed, bounded and concluded: shared by first dispatch and recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from . import decide as d
from . import records as r
from .machine import Call
from .objects import Json
from .seams import Action, Decided, Deferred, Outcome
from .view import args_of

if TYPE_CHECKING:
    from .driver import Driver


#: How a dispatched action came back: its outcome, its fault, or the record that closes it.
Done = Outcome | Deferred | Exception | r.ActionResult


def decision(run: Driver, index: int) -> Decided:
    return cast(tuple[Decided, ...], run.state.decisions)[index]


def action(run: Driver, call: Call) -> Action:
    """The action of an intent, from the log alone: its tools may be gone when it is settled."""
    intent = cast(r.ActionIntent, call.intent)
    args = cast("dict[str, Json]", args_of(intent, run.state.reply, run.look))
    asked = call.deferred if call.deferred and call.deferred.awaited != "settle" else None  # "do it again" is no approval
    approved = asked is not None and call.resolved is not None and call.resolved.decision == "approved"
    token = asked.token if asked else ""
    return Action(intent.tool, args, intent.key, call.index, run.stream.run, run.stream.scope, approved, token, call.attempt)


def timeout_s(run: Driver, call: Call) -> float:
    return run.seams.tools.specs[cast(r.ActionIntent, call.intent).tool].timeout_s


def interruptible(run: Driver, call: Call) -> bool:
    tool = run.state.tool(cast(r.ActionIntent, call.intent).tool)
    return tool is None or tool.interruptible


def stopping(run: Driver) -> bool:
    """True once nothing new may begin: the run is cancelled, or its time is over."""
    return run.state.cancel is not None or bool(d.overdue(run.state, run.seams.clock.now_ms()))


def deadlines(run: Driver, timeout_s: float = 0) -> tuple[tuple[float, str], ...]:
    s, budget = run.state, run.state.budget
    out: list[tuple[float, str]] = []
    if budget.wall_clock_s:
        out.append(((d.deadline_ms(s) - run.seams.clock.now_ms()) / 1000 + 0.002, "deadline"))
    if budget.working_time_s:
        worked_ms = s.working_ms + sum(run.marks.values())
        out.append((budget.working_time_s - worked_ms / 1000 + 0.002, "deadline"))
    if timeout_s:
        out.append((timeout_s, "timeout"))
    return tuple(out)


def flown_ms(run: Driver) -> float:
    return round((run.seams.clock.monotonic() - run.flown_at) * 1000, 1)


def settle(run: Driver, call: Call, outcome: Done, ms: float | None) -> None:
    """Record how an action ended, or that it waits."""
    if isinstance(outcome, r.ActionResult):
        run.emit(outcome)
        return
    if isinstance(outcome, Deferred):
        run.emit(r.ActionDeferred(call.index, outcome.token, outcome.awaited, outcome.until, outcome.dispatched, outcome.prompt))
        return
    if isinstance(outcome, Exception):
        text = r.Part(text=run.hold(f"{type(outcome).__name__}: {outcome}"[:2000]))
        run.emit(r.ActionResult(call.index, "unknown", (text,), "UNAVAILABLE", ms, code="executor_exception"))
        return
    promised = run.seams.actions.promises_completion
    completion = "NOT_DONE" if outcome.completion == "UNAVAILABLE" and not promised else outcome.completion
    parts = tuple(replace(p, text=run.hold(p.text)) if isinstance(p.text, str) and p.text else p for p in outcome.observation)
    if completion == "DONE" and outcome.result is not None:
        run.result = outcome.result
    run.emit(r.ActionResult(call.index, outcome.status, parts, completion, ms, outcome.evidence, outcome.code))


def interrupted(call: Call, why: str, ms: float, *, leaked: bool = False) -> r.ActionResult:
    """What closes an action that was cut short. A read that ran out of its own time has failed; all else may have happened."""
    effect = cast(r.ActionIntent, call.intent).effect
    status = "error" if effect == "read" and why == "timeout" else "unknown"
    note = f"Interrupted ({why}) after {ms:.0f} ms." + (" It did not stop and may still be running." if leaked else "")
    return r.ActionResult(call.index, status, (r.Part(text=note),), ms=ms, code=why, interrupted=True, leaked=leaked)


def end(run: Driver, command: d.Finish) -> None:
    end, adrift = command.end, run.state.adrift
    result = run.result if end.completed_by == "environment" else None
    error: Json = {**cast("dict[str, Json]", end.error or {}), "mayStillLand": list(adrift)} if adrift else end.error
    run.emit(r.RunEnded(end.reason, run.state.counters, end.detail, end.completed_by, end.result_of, result, error))
