"""Carry out commands through the seams; make records; keep them durable before anything is visible.

Theory of operation. `emit` seals and folds a record at once but only queues it; `flush` appends the queue as one batch.
Every command that touches the world flushes first, so an intent is durable before its effect and the two commits of a
step are [model_result, action_intent] and [action_result, step, next model_intent | run_ended] (S2.28, R42). A store
that cannot take a batch stops the run: no later seam call, never "completed" (R44).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from . import decide as d
from . import records as r
from .context import look_up, messages
from .events import Events
from .flight import Abandoned, Flight, Interrupted
from .machine import INTERRUPTED, Call, End, State, fold
from .objects import Json
from .records import BlobRef, Record, Sealed, Text, canonical, sha256, text_bytes
from .seams import (
    Act, Action, Actions, Clock, Decided, Deferred, Entropy, Holder, Interpreter, Log, Model, ModelCallFailed, ModelRequest,
    NotStarted, Outcome, Pending, Reply, Signal, Sink, StaleFence, StoreError, StoreUnknown, Stream, Tools, Unknown,
)  # fmt: skip
from .steps import make_step
from .view import step_view

#: Seconds that cancelled work may take to stop before it is left behind.
GRACE_S: Final = 2.0
NATIVE: Final = frozenset({"native-tools/1"})


class Seams(Struct, frozen=True):
    """What a run is wired to."""

    log: Log
    model: Model
    interpreter: Interpreter
    tools: Tools
    actions: Actions
    clock: Clock
    entropy: Entropy
    holder: Holder
    sinks: tuple[Sink, ...] = ()
    grace_s: float = GRACE_S


class Driver:
    """One holder's hand on one run."""

    def __init__(self, stream: Stream, seams: Seams, fence: int = 0) -> None:
        self.stream = stream
        self.seams = seams
        self.fence = fence
        self.state = State()
        self.prev = r.ZERO_HASH
        self.pending: list[Sealed] = []
        self.blobs: dict[str, bytes] = {}
        self.texts: dict[str, str] = {}
        self.look = look_up(self.texts)
        self.signal_seen = 0
        self.resolutions: dict[str, Signal] = {}
        self.failure: StoreError | None = None
        self.cancel: r.CancelRequested | None = None
        self.suspended = False
        self.result: Json = None
        self.flight = Flight(seams.grace_s, self._leaked)
        self.events = Events(seams.sinks)
        self._flying: tuple[int, ...] | None = None
        self._flown_at = 0.0
        self._done: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._marks: dict[str, float] = {}

    # --- records ---------------------------------------------------------------------------------------------

    def emit(self, record: Record) -> None:
        """Give the record its place; it becomes durable with the next flush."""
        at = max(self.seams.clock.now_ms(), self.state.at)
        sealed = r.seal(self.prev, self.state.seq, at, self.fence, self.seams.entropy(), record)
        if self.seams.sinks:
            self._announce(sealed, record)
        self.state = fold(self.state, sealed.seq, at, record)
        self.prev = sealed.hash
        self.pending.append(sealed)

    def hold(self, text: str) -> Text:
        """Keep a long text as a blob, a short one as it is."""
        if len(text) < r.INLINE_BYTES // 4:
            return text
        data = text_bytes(text)
        if len(data) < r.INLINE_BYTES:
            return text
        digest = sha256(data)
        self.blobs[digest] = data
        self.texts[digest] = text
        return BlobRef(digest, len(data))

    async def flush(self) -> None:
        """Make everything emitted durable, then let it be seen, then heed what outsiders have left."""
        if self.pending:
            batch, blobs = self.pending, self.blobs
            started = self.seams.clock.monotonic()
            signal_no = await self.seams.log.append(self.stream, batch, self.fence, blobs)
            self._mark("store", started)
            self.pending, self.blobs = [], {}
            self.events.publish()
            if signal_no > self.signal_seen:
                await self.heed()

    async def heed(self) -> None:
        """Read new signals: cancel, suspend, resolutions of what the run waits for."""
        for signal in await self.seams.log.signals(self.stream, self.signal_seen):
            self.signal_seen = max(self.signal_seen, signal.no)
            if signal.kind == "cancel":
                self.cancel = self.cancel or r.CancelRequested(signal.by, str(signal.body or ""))
                self.flight.want("cancel")
            elif signal.kind == "suspend":
                self.suspend()
            elif signal.kind == "resolve":
                self.resolutions.setdefault(signal.token, signal)

    def suspend(self) -> None:
        """Stop without an end; the run stays resumable."""
        self.suspended = True
        self.flight.want("suspend")

    def _mark(self, name: str, started: float) -> None:
        self._marks[name] = self._marks.get(name, 0.0) + (self.seams.clock.monotonic() - started) * 1000

    def _timings(self, call: Call | None) -> r.Timings:
        marks = {k: round(v, 1) for k, v in self._marks.items()}
        action = call.result.ms if call and call.result else None
        total = round(sum(marks.values()) + (action or 0.0), 1)
        self._marks = {}
        return r.Timings(action=action, total=total, **marks)

    # --- the loop --------------------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Run until the end, a wait, a suspend or a store failure; the outcome is in `state`, `failure`, `suspended`."""
        self._done = asyncio.get_running_loop().create_future()
        self._go(self._loop())
        native: asyncio.CancelledError | None = None
        while not self._done.done():
            try:
                await asyncio.shield(self._done)
            except asyncio.CancelledError as cancelled:
                native = cancelled
                self.suspend() if self.cancel else self._cancel_natively()
        await self.events.close()
        self._done.result()
        if native is not None:
            raise native

    def _cancel_natively(self) -> None:
        self.cancel = r.CancelRequested("caller", "the calling task was cancelled")
        self.flight.want("cancel")

    def _go(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(self._finish(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, work: Awaitable[None]) -> None:
        done = cast("asyncio.Future[None]", self._done)
        try:
            await work
        except Abandoned:
            return
        except StoreError as failure:
            self.failure = failure
            self.suspended = True
        except Interrupted:
            self.suspended = True
        except BaseException as fault:
            if not done.done():
                done.set_exception(fault)
            return
        if not done.done():
            done.set_result(None)

    async def _loop(self) -> None:
        while not self.suspended:
            if self.cancel is not None and self.state.cancel is None and self.state.ended is None:
                self.emit(self.cancel)
                self.flight.heeded()
            command = d.decide(self.state, self.seams.clock.now_ms())
            if command is None or isinstance(command, d.Wait):
                if command is None or await self._rest(command):
                    await self.flush()
                    return
            else:
                await self._perform(command)

    async def _perform(self, command: d.Command) -> None:
        work = _PERFORM[type(command)](self, command)
        if work is not None:
            await work

    async def _rest(self, command: d.Wait) -> bool:
        """True when the run may be left waiting. A resume that found nothing new writes nothing."""
        call = cast(Call, self.state.call(command.call))
        news = len(self.pending) != 1 or self.pending[0].kind != "resume_started"
        if news:
            await self.flush()
        if self._resolved(call) or self.suspended or (self.cancel and not self.state.cancel):
            return self.suspended
        if await self._polled(call):
            return False
        if not await self.seams.log.release(self.stream, self.fence, self.signal_seen, command.until):
            await self.heed()
            return False
        if not news:
            self.pending = []
        return True

    def _resolved(self, call: Call) -> bool:
        deferred = cast(r.ActionDeferred, call.deferred)
        signal = self.resolutions.get(deferred.token)
        if signal is None:
            return False
        late = 0 < deferred.until < signal.at
        decision = "expired" if late else signal.decision
        self.emit(r.ActionResolved(call.index, deferred.token, cast(r.Decision, decision), signal.by, signal.body))
        return True

    async def _polled(self, call: Call) -> bool:
        """Ask the service about a dispatched action once per visit."""
        deferred = cast(r.ActionDeferred, call.deferred)
        if deferred.awaited not in ("task", "run"):
            return False
        settled = await self.flight.guard(self.seams.actions.settle(self._action(call), deferred.token))
        if isinstance(settled, Pending | Unknown):
            return False
        self.emit(r.ActionResolved(call.index, deferred.token, "finished", "poll"))
        return True

    # --- commands --------------------------------------------------------------------------------------------

    def _ask(self, command: d.AskModel) -> None:
        s = self.state
        call_id = sha256(canonical([self.stream.scope, self.stream.run, s.seq, "model"]))[:32]
        self.emit(r.ModelIntent(s.counters.iterations + 1, call_id, s.digest, messages=len(s.history)))

    async def _call_model(self, command: d.CallModel) -> None:
        await self.flush()
        s, clock = self.state, self.seams.clock
        ask, start = s.ask, cast(r.RunStarted, s.start)
        assert ask is not None
        if self.suspended:
            return
        began = clock.monotonic()
        specs = self.seams.tools.specs
        view = messages(s, specs, self.look)
        tools = tuple(specs.values()) if start.definition.interpreter in NATIVE else None
        request = ModelRequest(ask.call_id, view, start.params, start.binding, s.replies + 1, tools)
        self._mark("assemble", began)
        self._flying, self._flown_at = (), clock.monotonic()
        try:
            reply = await self.flight.guard(self.seams.model.call(request), self._deadlines())
            self._mark("model", self._flown_at)
            record = self._result_of(reply)
        except ModelCallFailed as failed:
            self._mark("model", self._flown_at)
            record = r.ModelResult(ms=self._flown_ms(), error=r.CallError(failed.code, failed.sent, failed.key, failed.message[:2000]))
        except Interrupted as cut:
            return self._cut_short(cut.why)
        except Exception as fault:
            record = r.ModelResult(ms=self._flown_ms(), error=r.CallError("model_exception", True, "", f"{type(fault).__name__}: {fault}"[:2000]))
        self._flying = None
        self.emit(record)

    def _result_of(self, reply: Reply) -> r.ModelResult:
        hold = self.hold
        calls = tuple(r.ToolCall(c.id, c.name, hold(cast(str, c.arguments))) for c in reply.tool_calls)
        return r.ModelResult(
            hold(reply.text), hold(reply.reasoning), calls, reply.items, reply.finish_reason, reply.usage, reply.served_by,
            reply.cached, reply.attempts, self._flown_ms(),
        )  # fmt: skip

    def _flown_ms(self) -> float:
        return round((self.seams.clock.monotonic() - self._flown_at) * 1000, 1)

    def _deadlines(self, timeout_s: float = 0) -> tuple[tuple[float, str], ...]:
        s, start = self.state, cast(r.RunStarted, self.state.start)
        out: list[tuple[float, str]] = []
        if start.budget.wall_clock_s:
            out.append(((d.deadline_ms(s) - self.seams.clock.now_ms()) / 1000 + 0.002, "deadline"))
        if start.budget.working_time_s:
            out.append((start.budget.working_time_s - s.working_ms / 1000 + 0.002, "deadline"))
        if timeout_s:
            out.append((timeout_s, "timeout"))
        return tuple(out)

    def _interpret(self, command: d.Interpret) -> None:
        reply = cast(r.ModelResult, self.state.reply)
        began = self.seams.clock.monotonic()
        calls = tuple(r.ToolCall(c.id, c.name, self.look(c.arguments)) for c in reply.tool_calls)
        given = Reply(self.look(reply.text), self.look(reply.reasoning), calls, reply.items, reply.finish_reason)
        decisions = self.seams.interpreter.interpret(given, self.seams.tools)
        self._mark("interpret", began)
        self.state = replace(self.state, decisions=decisions)

    def _intend(self, command: d.Intend) -> None:
        for index in command.calls:
            act = cast(Act, self._decision(index))
            spec = self.seams.tools.specs[act.tool]
            key = sha256(canonical([self.stream.scope, self.stream.run, self.state.ask_seq, index]))[:32]
            args, args_text = self._kept_args(act)
            self.emit(r.ActionIntent(index, act.tool, spec.effect, spec.replay, key, args, args_text))

    def _kept_args(self, act: Act) -> tuple[Json, Text]:
        """Inline when short, nothing when the reply says them already, a text of their own when repaired."""
        body = canonical(act.args)
        if len(body) < r.INLINE_BYTES:
            return act.args, ""
        return (None, "") if act.plain else (None, self.hold(body.decode()))

    def _decision(self, index: int) -> Decided:
        return cast(tuple[Decided, ...], self.state.decisions)[index]

    def _action(self, call: Call) -> Action:
        intent, act = cast(r.ActionIntent, call.intent), cast(Act, self._decision(call.index))
        approved = call.resolved is not None and call.resolved.decision == "approved"
        token = call.deferred.token if call.deferred else ""
        return Action(intent.tool, act.args, intent.key, call.index, self.stream.run, self.stream.scope, approved, token, call.attempt)

    async def _execute(self, command: d.Execute) -> None:
        await self.flush()
        if self.suspended or (self.cancel and not self.state.cancel):
            return
        self._flying, self._flown_at = command.calls, self.seams.clock.monotonic()
        calls = [cast(Call, self.state.call(i)) for i in command.calls]
        try:
            if len(calls) == 1:
                timeout_s = self._timeout_s(calls[0])
                outcomes = [await self._outcome(self.flight.guard(self._executed(calls[0]), self._deadlines(timeout_s)))]
            else:
                outcomes = await self.flight.guard(self._overlapped(calls), self._deadlines())
        except Interrupted as cut:
            return self._cut_short(cut.why)
        ms = self._flown_ms()
        self._flying = None
        for call, outcome in zip(calls, outcomes, strict=True):
            self._settle(call, outcome, ms)

    def _executed(self, call: Call) -> Awaitable[Outcome | Deferred]:
        return self.seams.actions.execute(self._action(call))

    async def _outcome(self, work: Awaitable[Outcome | Deferred]) -> Outcome | Deferred | Exception:
        try:
            return await work
        except Exception as fault:
            return fault

    async def _overlapped(self, calls: Sequence[Call]) -> list[Outcome | Deferred | Exception]:
        """Reads side by side, each under its own timeout."""

        async def one(call: Call) -> Outcome | Deferred | Exception:
            try:
                async with asyncio.timeout(self._timeout_s(call) or None):
                    return await self._executed(call)
            except TimeoutError:
                return Outcome("error", (r.Part(text="The tool did not answer in time."),), code="timeout")
            except Exception as fault:
                return fault

        return list(await asyncio.gather(*(one(c) for c in calls)))

    def _timeout_s(self, call: Call) -> float:
        return self.seams.tools.specs[cast(r.ActionIntent, call.intent).tool].timeout_s

    def _settle(self, call: Call, outcome: Outcome | Deferred | Exception, ms: float | None) -> None:
        """Record how an action ended, or that it waits."""
        if isinstance(outcome, Deferred):
            self.emit(r.ActionDeferred(call.index, outcome.token, outcome.awaited, outcome.until, outcome.dispatched, outcome.prompt))
            return
        if isinstance(outcome, Exception):
            text = r.Part(text=self.hold(f"{type(outcome).__name__}: {outcome}"[:2000]))
            self.emit(r.ActionResult(call.index, "unknown", (text,), "UNAVAILABLE", ms, code="executor_exception"))
            return
        promised = self.seams.actions.promises_completion
        completion = "NOT_DONE" if outcome.completion == "UNAVAILABLE" and not promised else outcome.completion
        parts = tuple(replace(p, text=self.hold(p.text)) if isinstance(p.text, str) and p.text else p for p in outcome.observation)
        if completion == "DONE" and outcome.result is not None:
            self.result = outcome.result
        self.emit(r.ActionResult(call.index, outcome.status, parts, completion, ms, outcome.evidence, outcome.code))

    def _cut_short(self, why: str, leaked: bool = False) -> None:
        """Record what was in flight when it was interrupted. A suspend records nothing: the intent stays open."""
        flying, self._flying = self._flying, None
        if why == "suspend" or flying is None:
            self.suspended = True
            return
        if why == "cancel" and self.cancel is not None and self.state.cancel is None:
            self.emit(self.cancel)
            self.flight.heeded()
        ms = self._flown_ms()
        if not flying:
            self._mark("model", self._flown_at)
            self.emit(r.ModelResult(ms=ms, error=r.CallError(INTERRUPTED, True, "", why)))
            return
        for index in flying:
            intent = cast(r.ActionIntent, cast(Call, self.state.call(index)).intent)
            note = f"Interrupted ({why}) after {ms:.0f} ms." + (" It did not stop and may still be running." if leaked else "")
            status = "error" if intent.effect == "read" else "unknown"
            self.emit(r.ActionResult(index, status, (r.Part(text=note),), "NOT_DONE", ms, (), why, True, leaked))

    def _leaked(self, why: str) -> None:
        async def go_on() -> None:
            self._cut_short(why, leaked=True)
            await self._loop()

        self._go(go_on())

    def _drop_ask(self, command: d.DropAsk) -> None:
        self.emit(r.ModelResult(error=r.CallError(INTERRUPTED, command.sent, "", "the run stopped")))

    # --- recovery and resolution -------------------------------------------------------------------------------

    async def _recover_ask(self, command: d.RecoverAsk) -> None:
        ask = self.state.ask
        assert ask is not None
        self.emit(r.Replay(ask.seq, "recall", "recall", ask.recoveries + 1))

    async def _recover(self, command: d.Recover) -> None:
        call = cast(Call, self.state.call(command.call))
        intent = cast(r.ActionIntent, call.intent)
        policy = intent.replay
        if self.state.cancel is not None and policy != "probe":
            policy = "report_unknown"
        await _RECOVER[policy](self, call, r.Replay(call.intent_seq, intent.replay, "report_unknown", call.recoveries + 1))

    async def _rerun(self, call: Call, replay: r.Replay) -> None:
        self.emit(replace_decision(replay, "rerun"))

    async def _report_unknown(self, call: Call, replay: r.Replay) -> None:
        self.emit(replay)
        note = r.Part(text="The process stopped while this action was running.")
        self.emit(r.ActionResult(call.index, "unknown", (note,), code="recovered", interrupted=True))

    async def _ask_person(self, call: Call, replay: r.Replay) -> None:
        self.emit(replace_decision(replay, "ask"))
        self.emit(r.ActionDeferred(call.index, f"settle:{call.intent_seq}", "settle", dispatched=True))

    async def _never(self, call: Call, replay: r.Replay) -> None:
        self.emit(replace_decision(replay, "never"))
        error: Json = {"of": call.intent_seq, "tool": cast(r.ActionIntent, call.intent).tool}
        self._end(d.Finish(End("unresolved_action", "never", error=error)))

    async def _probe(self, call: Call, replay: r.Replay) -> None:
        """Ask the service by key. Proved not started: executed once more, as a new attempt (the seed's `retryable`)."""
        self.emit(replace_decision(replay, "probe"))
        await self.flush()
        fence = self.state.cancel is not None
        settled = await self.flight.guard(self.seams.actions.settle(self._action(call), None, fence), self._deadlines())
        if isinstance(settled, NotStarted) and self.state.cancel is None:
            self.emit(replace_decision(replay, "execute"))
        elif isinstance(settled, NotStarted):
            self.emit(r.ActionResult(call.index, "not_executed", code="withdrawn"))
        elif isinstance(settled, Pending):
            self.emit(r.ActionDeferred(call.index, settled.token, settled.awaited, settled.until, dispatched=True))
        elif isinstance(settled, Outcome):
            self._settle(call, settled, None)
        else:
            note = r.Part(text="The process stopped while this action was running, and the service cannot tell.")
            self.emit(r.ActionResult(call.index, "unknown", (note,), code="recovered", interrupted=True))

    async def _resolve(self, command: d.Resolve) -> None:
        deferred = cast(r.ActionDeferred, cast(Call, self.state.call(command.call)).deferred)
        self.emit(r.ActionResolved(command.call, deferred.token, cast(r.Decision, command.decision), "kernel"))

    async def _conclude(self, command: d.Conclude) -> None:
        """The result that a resolution stands for. A dispatched action is asked about; nothing is dispatched here."""
        call = cast(Call, self.state.call(command.call))
        if call.phase == "open":
            self.emit(r.ActionResult(call.index, "not_executed", code="withdrawn"))
            return
        resolved, deferred = cast(r.ActionResolved, call.resolved), cast(r.ActionDeferred, call.deferred)
        if resolved.decision == "answered":
            text = self.hold(canonical(resolved.evidence).decode())
            self.emit(r.ActionResult(call.index, "ok", (r.Part(text=text),)))
        elif resolved.decision == "finished" and deferred.awaited == "settle":
            self.emit(r.ActionResult(call.index, "ok", (r.Part(text="A person settled this action as done."),), code="settled"))
        elif resolved.decision == "finished" or deferred.dispatched and deferred.awaited != "settle":
            await self._ask_service(call, resolved.decision)
        else:
            self.emit(r.ActionResult(call.index, "not_executed", code=resolved.decision))

    async def _ask_service(self, call: Call, decision: str) -> None:
        await self.flush()
        token = cast(r.ActionDeferred, call.deferred).token
        fence = decision != "finished"
        settled = await self.flight.guard(self.seams.actions.settle(self._action(call), token, fence), self._deadlines())
        if isinstance(settled, Outcome):
            self._settle(call, settled, None)
        elif isinstance(settled, NotStarted):
            self.emit(r.ActionResult(call.index, "not_executed", code="withdrawn"))
        else:
            note = r.Part(text="Its outcome could not be found out.")
            self.emit(r.ActionResult(call.index, "unknown", (note,), code=decision, interrupted=True))

    def _make_step(self, command: d.MakeStep) -> None:
        call = self.state.call(command.call)
        step = make_step(self.state, command.call, command.skip, self._timings(call))
        if isinstance(step.raw_output, str):
            step = replace(step, raw_output=self.hold(step.raw_output))
        if call is not None and call.intent is not None:
            tool = self.seams.tools.specs[call.intent.tool]
            if tool.completes and call.result and call.result.status == "ok":
                self.result = cast(Act, self._decision(call.index)).args
        if step.outcome == "final_answer":
            self.result = self.look(cast(r.ModelResult, self.state.reply).text)
        self.emit(step)

    def _end(self, command: d.Finish) -> None:
        end = command.end
        result = self.result if end.completed_by == "environment" else None
        self.emit(r.RunEnded(end.reason, self.state.counters, end.detail, end.completed_by, end.result_of, result, end.error))

    # --- events ------------------------------------------------------------------------------------------------

    def _announce(self, sealed: Sealed, record: Record) -> None:
        body = step_view(record, self.state, self.look) if isinstance(record, r.Step) else None
        self.events.queue(self.stream, sealed, record, body)


def replace_decision(replay: r.Replay, decision: str) -> r.Replay:
    return replace(replay, decision=decision)


_PERFORM: Final[Mapping[type, Callable[[Driver, Any], Awaitable[None] | None]]] = {
    d.AskModel: Driver._ask,  # pyright: ignore[reportPrivateUsage]
    d.CallModel: Driver._call_model,  # pyright: ignore[reportPrivateUsage]
    d.Interpret: Driver._interpret,  # pyright: ignore[reportPrivateUsage]
    d.Intend: Driver._intend,  # pyright: ignore[reportPrivateUsage]
    d.Execute: Driver._execute,  # pyright: ignore[reportPrivateUsage]
    d.DropAsk: Driver._drop_ask,  # pyright: ignore[reportPrivateUsage]
    d.RecoverAsk: Driver._recover_ask,  # pyright: ignore[reportPrivateUsage]
    d.Recover: Driver._recover,  # pyright: ignore[reportPrivateUsage]
    d.Resolve: Driver._resolve,  # pyright: ignore[reportPrivateUsage]
    d.Conclude: Driver._conclude,  # pyright: ignore[reportPrivateUsage]
    d.MakeStep: Driver._make_step,  # pyright: ignore[reportPrivateUsage]
    d.Finish: Driver._end,  # pyright: ignore[reportPrivateUsage]
}
_RECOVER: Final[Mapping[str, Callable[[Driver, Call, r.Replay], Awaitable[None]]]] = {
    "rerun": Driver._rerun,  # pyright: ignore[reportPrivateUsage]
    "probe": Driver._probe,  # pyright: ignore[reportPrivateUsage]
    "report_unknown": Driver._report_unknown,  # pyright: ignore[reportPrivateUsage]
    "ask": Driver._ask_person,  # pyright: ignore[reportPrivateUsage]
    "never": Driver._never,  # pyright: ignore[reportPrivateUsage]
}
