"""Carry out the commands of an iteration: ask, call, interpret, intend, execute, step, end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from . import decide as d
from . import records as r
from . import recover
from .context import messages
from .flight import Interrupted
from .machine import INTERRUPTED, Call
from .objects import Json
from .outcome import Done, action, deadlines, decision, end, flown_ms, interrupted, interruptible, settle, timeout_s
from .records import Text, canonical, sha256
from .recover import cut_short
from .seams import Act, Deferred, ModelCallFailed, ModelRequest, Outcome, Reply
from .steps import make_step
from .view import answer_of

if TYPE_CHECKING:
    from .driver import Driver

#: Interpreters whose source is given the tools as such, not as text.
NATIVE: Final = frozenset({"native-tools/1"})


def ask(run: Driver, command: d.AskModel) -> None:
    s = run.state
    call_id = sha256(canonical([run.stream.scope, run.stream.run, s.seq, "model"]))[:32]
    run.emit(r.ModelIntent(s.counters.iterations + 1, call_id, s.digest, messages=len(s.history)))


async def call_model(run: Driver, command: d.CallModel) -> None:
    await run.flush()
    s, clock = run.state, run.seams.clock
    ask, start = s.ask, cast(r.RunStarted, s.start)
    assert ask is not None
    if run.halting:
        return
    began = clock.monotonic()
    specs = run.seams.tools.specs
    view = messages(s, specs, run.look)
    tools = tuple(specs.values()) if start.definition.interpreter in NATIVE else None
    request = ModelRequest(ask.call_id, view, start.params, start.binding, s.replies + 1, tools)
    run.mark("assemble", began)
    run.flying, run.flown_at = (), clock.monotonic()
    try:
        reply = await run.flight.guard(run.seams.model.call(request), deadlines(run))
        run.mark("model", run.flown_at)
        record = result_of(run, reply)
    except ModelCallFailed as failed:
        run.mark("model", run.flown_at)
        record = r.ModelResult(ms=flown_ms(run), error=r.CallError(failed.code, failed.sent, failed.key, failed.message[:2000]))
    except Interrupted as cut:
        await cut_short(run, cut.why)
        return
    except Exception as fault:
        record = r.ModelResult(ms=flown_ms(run), error=r.CallError("model_exception", message=f"{type(fault).__name__}: {fault}"[:2000]))
    run.flying = None
    run.emit(record)


def result_of(run: Driver, reply: Reply) -> r.ModelResult:
    hold = run.hold
    calls = tuple(r.ToolCall(c.id, c.name, hold(cast(str, c.arguments))) for c in reply.tool_calls)
    return r.ModelResult(
        hold(reply.text), hold(reply.reasoning), calls, reply.items, reply.finish_reason, reply.usage, reply.served_by,
        reply.cached, reply.attempts, flown_ms(run),
    )  # fmt: skip


def interpret(run: Driver, command: d.Interpret) -> None:
    reply = cast(r.ModelResult, run.state.reply)
    began = run.seams.clock.monotonic()
    calls = tuple(r.ToolCall(c.id, c.name, run.look(c.arguments)) for c in reply.tool_calls)
    given = Reply(run.look(reply.text), run.look(reply.reasoning), calls, reply.items, reply.finish_reason)
    decisions = run.seams.interpreter.interpret(given, run.seams.tools)
    run.mark("interpret", began)
    run.state = replace(run.state, decisions=decisions)


def intend(run: Driver, command: d.Intend) -> None:
    for index in command.calls:
        act = cast(Act, decision(run, index))
        spec = run.seams.tools.specs[act.tool]
        key = sha256(canonical([run.stream.scope, run.stream.run, run.state.ask_seq, index]))[:32]
        args, args_text = kept_args(run, act)
        run.emit(r.ActionIntent(index, act.tool, spec.effect, spec.replay, key, args, args_text))


def kept_args(run: Driver, act: Act) -> tuple[Json, Text]:
    """Inline when short, nothing when the reply says them already, a text of their own when repaired."""
    body = canonical(act.args)
    if len(body) < r.INLINE_BYTES:
        return act.args, ""
    return (None, "") if act.plain else (None, run.hold(body.decode()))


async def execute(run: Driver, command: d.Execute) -> None:
    await run.flush()
    if run.halting:
        return
    run.flying, run.flown_at = command.calls, run.seams.clock.monotonic()
    calls = [cast(Call, run.state.call(i)) for i in command.calls]
    try:
        if len(calls) == 1:
            bounds = deadlines(run, timeout_s(run, calls[0]))
            work = run.flight.guard(executed(run, calls[0]), bounds, patient=not interruptible(run, calls[0]))
            outcomes = [await timed(run, work)]
        else:
            outcomes = await run.flight.guard(overlapped(run, calls), deadlines(run))
    except Interrupted as cut:
        await cut_short(run, cut.why)
        return
    run.flying = None
    for call, (outcome, ms) in zip(calls, outcomes, strict=True):
        settle(run, call, outcome, ms)


def executed(run: Driver, call: Call) -> Awaitable[Outcome | Deferred]:
    return run.seams.actions.execute(action(run, call))


async def timed(run: Driver, work: Awaitable[Outcome | Deferred]) -> tuple[Done, float]:
    """The outcome or the fault, and the milliseconds since dispatch."""
    try:
        outcome: Done = await work
    except Exception as fault:
        outcome = fault
    return outcome, flown_ms(run)


async def overlapped(run: Driver, calls: Sequence[Call]) -> list[tuple[Done, float]]:
    """Reads side by side. All are waited for, also when they are cut short: one that goes on must be named."""
    run.landed.clear()
    found = await asyncio.gather(*(bounded(run, c) for c in calls), return_exceptions=True)
    for fault in found:
        if isinstance(fault, BaseException):
            raise fault
    return [one for one in found if not isinstance(one, BaseException)]


async def bounded(run: Driver, call: Call) -> tuple[Done, float]:
    """One of several: after its own limit it has the grace to stop, then it is left behind."""
    task = asyncio.ensure_future(timed(run, executed(run, call)))
    late = False
    try:
        await asyncio.wait({task}, timeout=timeout_s(run, call) or None)
        late = not task.done() and task.cancel()
        await asyncio.wait({task}, timeout=run.seams.grace_s)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task})
        run.landed.add(call.index)
        raise
    if late and (not task.done() or task.cancelled()):
        ms = flown_ms(run)
        return interrupted(call, "timeout", ms, leaked=not task.done()), ms
    return (RuntimeError("the work cancelled itself"), flown_ms(run)) if task.cancelled() else task.result()


def drop_ask(run: Driver, command: d.DropAsk) -> None:
    run.emit(r.ModelResult(error=r.CallError(INTERRUPTED, command.sent, "", "the run stopped")))


def make_step_record(run: Driver, command: d.MakeStep) -> None:
    call = run.state.call(command.call)
    step = make_step(run.state, command.call, command.skip, run.timings(call))
    if isinstance(step.raw_output, str):
        step = replace(step, raw_output=run.hold(step.raw_output))
    if call is not None and call.intent is not None:
        tool = run.state.tool(call.intent.tool)
        if tool and tool.completes and call.result and call.result.status == "ok" and call.result.completion != "DONE":
            run.result = action(run, call).args
    if step.outcome == "final_answer":
        run.result = answer_of(cast(r.RunStarted, run.state.start), run.look(cast(r.ModelResult, run.state.reply).text))
    run.emit(step)


PERFORM: Final[Mapping[type, Callable[[Driver, Any], Awaitable[None] | None]]] = {
    d.AskModel: ask,
    d.CallModel: call_model,
    d.Interpret: interpret,
    d.Intend: intend,
    d.Execute: execute,
    d.DropAsk: drop_ask,
    d.RecoverAsk: recover.recover_ask,
    d.Recover: recover.recover,
    d.Resolve: recover.resolve,
    d.Conclude: recover.conclude,
    d.MakeStep: make_step_record,
    d.Finish: end,
}
