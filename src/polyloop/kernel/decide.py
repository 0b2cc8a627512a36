"""What to do next: `decide(state, now) -> command | None`, pure. None = the run has ended.

Theory of operation. Commands that touch the world (CallModel, Execute, Recover, Conclude) are carried out only after
everything decided so far is durable; the others only make records. Order inside an iteration (R31): cancel, budget,
model_intent, call, interpret, per decision in reply order: settle and step; completion, guards, next.
"""

from __future__ import annotations

from typing import cast

from msgspec import Struct

from . import records as r
from .machine import Ask, Call, End, State
from .seams import Act, Reject


class AskModel(Struct, frozen=True):
    """Record the intent to call the model."""


class CallModel(Struct, frozen=True):
    """Call it."""


class Interpret(Struct, frozen=True):
    """Read the reply into decisions."""


class Intend(Struct, frozen=True):
    """Record the intent to run these decisions (several only when all read)."""

    calls: tuple[int, ...]


class Execute(Struct, frozen=True):
    """Run these open actions."""

    calls: tuple[int, ...]


class DropAsk(Struct, frozen=True):
    """Close an open model intent without calling. `sent` = an earlier holder may have sent it."""

    sent: bool


class RecoverAsk(Struct, frozen=True):
    """Ask the model again, under the same call id."""


class Recover(Struct, frozen=True):
    """Handle an orphaned action by its replay policy."""

    call: int


class Resolve(Struct, frozen=True):
    """End a wait from inside: expired or withdrawn."""

    call: int
    decision: str


class Conclude(Struct, frozen=True):
    """Turn a resolution into a result (answer, finished task, refusal)."""

    call: int


class MakeStep(Struct, frozen=True):
    """Write the step record of a decision. `skip` = why it was never executed (tier H)."""

    call: int
    skip: str = ""


class Wait(Struct, frozen=True):
    """Nothing to do until a signal comes or `until` (epoch ms, 0 = none) passes."""

    call: int
    until: int = 0


class Finish(Struct, frozen=True):
    """Write the end."""

    end: End


Command = AskModel | CallModel | Interpret | Intend | Execute | DropAsk | RecoverAsk | Recover | Resolve | Conclude | MakeStep | Wait | Finish


def decide(s: State, now: int) -> Command | None:
    """The next command. `now` is store time in epoch ms."""
    if s.ended is not None:
        return None
    if s.ask is not None:
        return _ask_command(s, now)
    if s.reply is not None:
        return Interpret() if s.decisions is None else _call_command(s, now)
    if s.end is not None:
        return Finish(s.end)
    end = _stop(s, now)
    return Finish(end) if end else AskModel()


def deadline_ms(s: State) -> int:
    """Epoch ms at which the wall clock budget ends, 0 = never."""
    wall = s.budget.wall_clock_s
    return s.started_at + round(wall * 1000) if wall else 0


def overdue(s: State, now: int) -> str:
    """Which time budget is used up, "" = none."""
    if 0 < deadline_ms(s) <= now:
        return "wall_clock"
    working = s.budget.working_time_s
    return "working_time" if 0 < working * 1000 <= s.working_ms else ""


def _stop(s: State, now: int) -> End | None:
    """Cancel, then the budgets, in the order people would name them."""
    if s.cancel is not None:
        return End("cancelled", s.cancel.reason)
    budget, used = s.budget, s.used
    if used.valid_steps >= budget.max_valid_steps:
        return End("budget_exhausted", "valid_steps")
    if used.iterations >= budget.max_iterations:
        return End("budget_exhausted", "iterations")
    time = overdue(s, now)
    return End("budget_exhausted", time) if time else None


def _ask_command(s: State, now: int) -> Command:
    ask = cast(Ask, s.ask)
    if s.cancel is not None or overdue(s, now):
        return DropAsk(sent=ask.orphan)
    if not ask.orphan:
        return CallModel()
    if _exhausted(s, ask.recoveries):
        return Finish(End("unresolved_action", "model_intent", error={"of": ask.seq, "recoveries": ask.recoveries}))
    end = _stop(s, now)
    return Finish(end) if end else RecoverAsk()


def _exhausted(s: State, recoveries: int) -> bool:
    return 0 < s.budget.max_recoveries <= recoveries


def _call_command(s: State, now: int) -> Command:
    for index in range(len(s.decisions or ())):
        call = s.call(index)
        command = _planned(s, index, now) if call is None else _begun(s, call, now)
        if command is not None:
            return command
    raise AssertionError("an iteration with nothing left is closed by its last step")


def _begun(s: State, call: Call, now: int) -> Command | None:
    if call.stage == "stepped":
        return None
    if call.stage == "settled":
        return MakeStep(call.index)
    if call.stage in ("resolved", "refused"):
        return Conclude(call.index)
    if call.stage == "waiting":
        return _waiting(s, call, now)
    if call.orphan:
        if _exhausted(s, call.recoveries):
            return Finish(End("unresolved_action", "max_recoveries", error={"of": call.intent_seq, "recoveries": call.recoveries}))
        return Recover(call.index)
    if s.cancel is not None or overdue(s, now):
        return Conclude(call.index)
    return Execute(tuple(c.index for c in s.calls if c.stage == "open" and not c.orphan))


def _waiting(s: State, call: Call, now: int) -> Command:
    """Later decisions of the reply are not executed; then the wait may end from inside."""
    for index in range(call.index + 1, len(s.decisions or ())):
        if s.call(index) is None:
            return MakeStep(index, "an earlier call of this reply waits")
    deferred = cast(r.ActionDeferred, call.deferred)
    if s.cancel is not None or overdue(s, now):
        return Resolve(call.index, "withdrawn")
    if 0 < deferred.until <= now:
        return Resolve(call.index, "expired")
    ends = [t for t in (deferred.until, deadline_ms(s)) if t]
    return Wait(call.index, min(ends, default=0))


def _planned(s: State, index: int, now: int) -> Command:
    decision = (s.decisions or ())[index]
    if not isinstance(decision, Act):
        return MakeStep(index)
    skip = _skip(s, index, now)
    if skip:
        return MakeStep(index, skip)
    if withdrawn(s, decision):
        return MakeStep(index)
    return Intend(_reads_from(s, index) or (index,))


def withdrawn(s: State, decision: Act | Reject) -> bool:
    """True when the tool was withdrawn after too many argument failures (seed S1.88)."""
    tool = s.tool(decision.tool)
    return bool(tool and 0 < tool.max_argument_failures <= s.argument_failures.get(decision.tool, 0))


def _skip(s: State, index: int, now: int) -> str:
    budget = s.budget
    running = sum(1 for c in s.calls if c.stage in ("open", "settled"))
    if s.cancel is not None:
        return "the run is cancelled"
    if s.end is not None:
        return "the run is complete"
    if s.used.valid_steps + running >= budget.max_valid_steps:
        return "the step budget is used up"
    if index >= budget.max_tool_calls_per_iteration > 0:
        return "too many calls in one reply"
    return "the time budget is used up" if overdue(s, now) else ""


def _reads_from(s: State, first: int) -> tuple[int, ...]:
    """The run of reads starting at `first` that may overlap; empty when `first` is no read.

    One that may wait stands alone: nobody is asked two things at once (S1.15).
    """
    budget, out = s.budget, list[int]()
    room = budget.max_valid_steps - s.used.valid_steps
    limit = budget.max_tool_calls_per_iteration or len(s.decisions or ())
    for index in range(first, len(s.decisions or ())):
        decision = (s.decisions or ())[index]
        tool = s.tool(decision.tool) if isinstance(decision, Act) else None
        if not tool or tool.effect != "read" or tool.completes or tool.defers or s.call(index) or len(out) >= room or index >= limit:
            break
        if isinstance(decision, Act) and withdrawn(s, decision):
            break
        out.append(index)
    return tuple(out)
