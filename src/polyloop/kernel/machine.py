"""The run as a value: `fold(state, seq, at, record) -> state`, pure.

Theory of operation. The log is the state; this file says what each record does to it. An iteration is: ask the model
(model_intent .. model_result), settle each decision of its reply (a `Call` per decision: intent, result, step), close.
`Call.stage` moves only along `MAY_MOVE`; a record that does not fit raises `IllegalRecord`, which is how `verify` and
`load` find a log that no run could have written. Resume is folding the log and asking `decide`; there is no other path.
Decisions themselves are not in the log: they are a pure function of the reply, so `decisions` is only a memory of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from . import records as r
from .history import History, HistoryItem, told, told_apart
from .objects import Budget, Counters, Json, ToolSnapshot
from .records import Record, Text, canonical, sha256
from .seams import Decided
from .snapshot import accept

#: Characters of a rejected reply that stay in the history: a broken reply must not poison the context.
REJECTED_REPLY_CHARS: Final = 2000
#: Code of a model call that was cut short by a cancel or a deadline: a closing record, not an end of its own.
INTERRUPTED: Final = "interrupted"

Stage = Literal["open", "waiting", "resolved", "refused", "settled", "stepped"]
MAY_MOVE: Final[dict[str, frozenset[str]]] = {
    "action_result": frozenset({"open", "resolved", "refused"}),
    "action_deferred": frozenset({"open"}),
    "action_resolved": frozenset({"waiting"}),
}
RESOLVED_STAGE: Final[dict[str, Stage]] = {
    "approved": "open",
    "answered": "resolved",
    "finished": "resolved",
    "denied": "refused",
    "expired": "refused",
    "withdrawn": "refused",
}


class IllegalRecord(ValueError):
    """This record cannot stand at this place of a run's log."""


class Ask(Struct, frozen=True):
    """An open model call. `orphan` = found open by a later holder."""

    seq: int
    call_id: str
    digest: str
    orphan: bool = False
    recoveries: int = 0


class Call(Struct, frozen=True):
    """One decision of the current reply that has left the planning stage."""

    index: int
    stage: Stage
    intent: r.ActionIntent | None = None
    intent_seq: int = -1
    orphan: bool = False
    recoveries: int = 0
    attempt: int = 1
    deferred: r.ActionDeferred | None = None
    resolved: r.ActionResolved | None = None
    result: r.ActionResult | None = None

    @property
    def settle_token(self) -> str:
        """What a person answers to under the policy `ask`. New each time: a late word about one attempt does not settle the next."""
        return f"settle:{self.intent_seq}" + (f":{self.recoveries}" if self.recoveries else "")


class Effect(Struct, frozen=True):
    """What makes two executed actions the same: tool, arguments, observation."""

    tool: str
    args: Json | Text
    observation: tuple[r.Part, ...]


class End(Struct, frozen=True):
    """Why a run is over; what `run_ended` will say."""

    reason: str
    detail: str = ""
    completed_by: str = ""
    result_of: int | None = None
    result: Json = None
    error: Json = None


class State(Struct, frozen=True):
    """Everything `decide` looks at. Built from records only; `decisions` excepted, which the reply gives again."""

    seq: int = 0
    at: int = 0
    start: r.RunStarted | None = None
    started_at: int = 0
    ask: Ask | None = None
    reply: r.ModelResult | None = None
    reply_seq: int = -1
    #: seq of the model_intent of this iteration: the stable part of its actions' keys.
    ask_seq: int = -1
    decisions: tuple[Decided, ...] | None = None
    calls: tuple[Call, ...] = ()
    steps: tuple[r.Step, ...] = ()
    counters: Counters = Counters()
    #: What sub-runs have used of this run's budget.
    below: Counters = Counters()
    replies: int = 0
    working_ms: float = 0.0
    history: History = History()
    digest: str = ""
    argument_failures: dict[str, int] = {}
    #: By token: the last signal that can have been about an earlier wait for it.
    spent: dict[str, int] = {}
    #: Stall guard: the signature of the running streak, and whether this iteration has scored or was valid.
    signature: str = ""
    scored: bool = False
    iteration_valid: bool = False
    last_effect: Effect | None = None
    attempts: int = 0
    cancel: r.CancelRequested | None = None
    end: End | None = None
    #: Intents (seq) whose tool did not stop and may still take effect; whether a cut tail may have held an action of this iteration.
    adrift: tuple[int, ...] = ()
    suspect: bool = False
    ended: r.RunEnded | None = None

    def call(self, index: int) -> Call | None:
        return next((c for c in self.calls if c.index == index), None)

    def tool(self, name: str) -> ToolSnapshot | None:
        return next((t for t in self.start.tools if t.name == name), None) if self.start else None

    @property
    def waiting(self) -> Call | None:
        """The call a waiting run waits for."""
        return next((c for c in self.calls if c.stage == "waiting"), None)

    @property
    def budget(self) -> Budget:
        """Of a run that has started."""
        return cast(r.RunStarted, self.start).budget

    @property
    def used(self) -> Counters:
        """What counts against the budget: its own counters, and those of its sub-runs."""
        own, below = self.counters, self.below
        return replace(own, iterations=own.iterations + below.iterations, valid_steps=own.valid_steps + below.valid_steps)


def fold(state: State, seq: int, at: int, record: Record) -> State:
    """The state after one more record. Raises IllegalRecord."""
    if seq != state.seq:
        raise IllegalRecord(f"record {seq} where {state.seq} was due")
    if state.ended is not None:
        raise IllegalRecord(f"record {seq} after the end")
    if (state.start is None) != isinstance(record, r.RunStarted):
        raise IllegalRecord(f"{r.KIND_OF[type(record)]} at {seq}")
    return replace(_FOLDS[type(record)](state, at, record), seq=seq + 1, at=at)


def _need(condition: object, state: State, what: str) -> None:
    if not condition:
        raise IllegalRecord(f"{what} at {state.seq}")


def _started(s: State, at: int, rec: r.RunStarted) -> State:
    return replace(s, start=rec, started_at=at, digest=sha256(canonical([rec.segments, [t.schema for t in rec.tools], rec.history])))


def _model_intent(s: State, at: int, rec: r.ModelIntent) -> State:
    _need(s.ask is None and s.reply is None, s, "model_intent inside an iteration")
    _need(s.end is None and s.cancel is None, s, "model_intent of a run that is to end")
    _need(rec.digest == s.digest, s, "model_intent with a foreign digest")
    counters = replace(s.counters, iterations=s.counters.iterations + 1)
    return replace(s, ask=Ask(s.seq, rec.call_id, rec.digest), ask_seq=s.seq, counters=counters, scored=False, iteration_valid=False)


def _model_result(s: State, at: int, rec: r.ModelResult) -> State:
    _need(s.ask, s, "model_result without an intent")
    if rec.error is None:
        return replace(s, ask=None, reply=rec, reply_seq=s.seq, replies=s.replies + 1)
    refund = 0 if rec.error.sent else 1
    counters = replace(s.counters, iterations=s.counters.iterations - refund)
    if rec.error.code == INTERRUPTED:
        return replace(s, ask=None, working_ms=s.working_ms + rec.ms, counters=counters)
    error: Json = {"code": rec.error.code, "message": rec.error.message, "sent": rec.error.sent, "key": rec.error.key}
    return replace(s, ask=None, end=s.end or End("model_call_failed", rec.error.code, error=error), counters=counters)


def _put(s: State, call: Call) -> State:
    others = tuple(c for c in s.calls if c.index != call.index)
    return replace(s, calls=(*others, call))


def _moving(s: State, index: int, kind: str) -> Call:
    call = s.call(index)
    _need(call and call.stage in MAY_MOVE[kind], s, f"{kind} of call {index}")
    return cast(Call, call)


def _action_intent(s: State, at: int, rec: r.ActionIntent) -> State:
    going = s.end is None and s.cancel is None and not any(c.deferred for c in s.calls)
    _need(s.reply and going and rec.call >= 0 and s.call(rec.call) is None, s, "action_intent")
    return _put(s, Call(rec.call, "open", rec, s.seq, orphan=s.suspect))


def _action_result(s: State, at: int, rec: r.ActionResult) -> State:
    call = _moving(s, rec.call, "action_result")
    adrift = (call.intent_seq,) if rec.leaked and cast(r.ActionIntent, call.intent).effect != "read" else ()
    below = Counters(s.below.iterations + sum(e.iterations for e in rec.evidence), s.below.valid_steps + sum(e.valid_steps for e in rec.evidence))
    worked = sum(e.working_ms for e in rec.evidence) if rec.ms is None else 0.0  # else it is in the time of the action
    s = replace(s, adrift=s.adrift + adrift, below=below, working_ms=s.working_ms + worked)
    return _put(s, replace(call, stage="settled", result=rec, orphan=False))


def _action_deferred(s: State, at: int, rec: r.ActionDeferred) -> State:
    return _put(s, replace(_moving(s, rec.call, "action_deferred"), stage="waiting", deferred=rec, orphan=False))


def _action_resolved(s: State, at: int, rec: r.ActionResolved) -> State:
    call = _moving(s, rec.of, "action_resolved")
    deferred = cast(r.ActionDeferred, call.deferred)
    _need(deferred.token == rec.token, s, "action_resolved with a foreign token")
    s = replace(s, spent={**s.spent, rec.token: rec.signal})
    retry = rec.decision == "approved" and deferred.awaited == "settle"
    return _put(s, replace(call, stage=RESOLVED_STAGE[rec.decision], resolved=rec, orphan=s.suspect, attempt=call.attempt + retry))


def _step(s: State, at: int, rec: r.Step) -> State:
    call = s.call(rec.call)
    _need(s.reply and 0 <= rec.call < rec.calls and (call is None or call.stage == "settled"), s, "step of an unsettled action")
    _need(rec.iteration == s.counters.iterations, s, "step of another iteration")
    scored = rec.rejection.signature if rec.rejection and not (s.scored or s.iteration_valid) else ""
    done = replace(call, stage="stepped") if call else Call(rec.call, "stepped")
    s = _put(s, done)
    s = replace(
        s,
        steps=(*s.steps, rec),
        counters=rec.counters,
        working_ms=s.working_ms + rec.timings.total,
        argument_failures=_argument_failures(s, rec),
        signature=scored or ("" if rec.valid else s.signature),
        scored=s.scored or bool(scored),
        iteration_valid=s.iteration_valid or rec.valid,
        last_effect=effect_of(s, done) if rec.valid else s.last_effect,
        end=s.end or _end_of(s, rec, call),
    )
    return _close(s, rec) if len(s.steps) == rec.calls else s


def _argument_failures(s: State, rec: r.Step) -> dict[str, int]:
    tool = s.tool(rec.tool)
    counted = tool and tool.max_argument_failures and rec.rejection and rec.rejection.code in ("args_missing", "args_invalid")
    return {**s.argument_failures, rec.tool: s.argument_failures.get(rec.tool, 0) + 1} if counted else s.argument_failures


def effect_of(s: State, call: Call) -> Effect | None:
    """What the action of a call did."""
    if call.intent is None or call.result is None:
        return None
    intent, reply = call.intent, cast(r.ModelResult, s.reply)
    unrepaired = reply.tool_calls[call.index].arguments if call.index < len(reply.tool_calls) else reply.text
    args = intent.args if intent.args is not None else intent.args_text or unrepaired
    return Effect(intent.tool, args, call.result.observation)


def _end_of(s: State, rec: r.Step, call: Call | None) -> End | None:
    """Completion: the environment first, then the completion mark, then a final answer; then faults (R31-R36)."""
    if rec.outcome == "final_answer":
        return End("completed", "", "final_answer", s.reply_seq)
    if call is None or call.result is None or call.intent is None:
        return None
    if call.result.completion == "DONE":
        return End("completed", "", "environment", result_of=None)
    tool = s.tool(call.intent.tool)
    if tool and tool.completes and call.result.status == "ok":
        return End("completed", "", "completion_tool", call.intent_seq)
    return End("environment_fault", call.result.code or "completion_unavailable") if rec.tier == "F" else None


def _close(s: State, last: r.Step) -> State:
    """The iteration is over: its messages join the history, its guards are read."""
    s = _extend(s)
    budget, counters = s.budget, s.counters
    end = s.end
    if end is None and 0 < budget.max_identical_rejections <= counters.identical_streak:
        end = End("stalled", "identical_rejections")
    if end is None and 0 < budget.max_consecutive_rejections <= counters.rejections_consecutive:
        end = End("stalled", "consecutive_rejections")
    return replace(s, end=end, reply=None, decisions=None, calls=(), steps=(), suspect=False)


def _extend(s: State) -> State:
    reply = cast(r.ModelResult, s.reply)
    broken = all(step.rejection is not None for step in s.steps)
    parts = (r.Part(text=reply.text),) if reply.text else ()
    calls = told_apart(reply.tool_calls)
    items = [HistoryItem("assistant", parts, calls, cap=REJECTED_REPLY_CHARS if broken else 0)]
    for step in sorted(s.steps, key=lambda x: x.call):
        call = s.call(step.call)
        native = calls[step.call].id if step.call < len(calls) else ""
        result = call.result if call else None
        items.append(HistoryItem("tool" if native else "user", told(step, result), call_id=native))
    history, digest = s.history, s.digest
    for item in items:
        history = history.add(item)
        digest = sha256(digest.encode() + canonical(item))
    return replace(s, history=history, digest=digest)


def _resume_started(s: State, at: int, rec: r.ResumeStarted) -> State:
    calls = tuple(replace(c, orphan=True) if c.stage == "open" else c for c in s.calls)
    ask = replace(s.ask, orphan=True) if s.ask else None
    return replace(s, attempts=s.attempts + 1, calls=calls, ask=ask)


def _replay(s: State, at: int, rec: r.Replay) -> State:
    again = rec.decision in ("recall", "rerun", "execute")
    counts = 0 if rec.decision == "execute" else 1
    if s.ask and s.ask.seq == rec.of:
        counters = replace(s.counters, iterations=s.counters.iterations + 1) if again else s.counters
        return replace(s, ask=replace(s.ask, orphan=not again, recoveries=s.ask.recoveries + 1), counters=counters)
    call = next((c for c in s.calls if c.intent_seq == rec.of and c.stage == "open"), None)
    _need(call, s, "replay of no open intent")
    call = cast(Call, call)
    attempt = call.attempt + (1 if again else 0)
    return _put(s, replace(call, orphan=not again, recoveries=call.recoveries + counts, attempt=attempt))


def _tail_repaired(s: State, at: int, rec: r.TailRepaired) -> State:
    calls = tuple(replace(c, attempt=c.attempt + 1) if c.stage == "open" else c for c in s.calls)  # the frame may have held one more
    return replace(s, calls=calls, suspect=s.ask is not None or s.reply is not None)


def _drift_accepted(s: State, at: int, rec: r.DriftAccepted) -> State:
    try:
        return replace(s, start=accept(cast(r.RunStarted, s.start), rec.fields))
    except (KeyError, ValueError) as wrong:
        raise IllegalRecord(f"drift_accepted at {s.seq}: {wrong}") from wrong


def _same(s: State, at: int, rec: Record) -> State:
    return s


def _cancel_requested(s: State, at: int, rec: r.CancelRequested) -> State:
    return replace(s, cancel=s.cancel or rec)


def _run_ended(s: State, at: int, rec: r.RunEnded) -> State:
    _need(_may_end(s, rec.reason), s, f"run_ended {rec.reason}")
    _need(rec.counters == s.counters, s, "run_ended with other counters")
    return replace(s, ended=rec)


def _may_end(s: State, reason: str) -> bool:
    """Two reasons come from outside the iteration, one from an open intent, all others need a closed one and their cause."""
    if reason in ("abandoned", "internal_error"):
        return True
    if reason == "unresolved_action":
        return s.waiting is None and (s.ask is not None or s.reply is not None)
    if s.reply is not None or (s.ask is not None and not s.ask.orphan):
        return False
    if s.end is not None:
        return reason == s.end.reason
    return reason == "budget_exhausted" or (reason == "cancelled" and s.cancel is not None)


_FOLDS: Final[dict[type, Callable[[State, int, Any], State]]] = {
    r.RunStarted: _started, r.ModelIntent: _model_intent, r.ModelResult: _model_result, r.ActionIntent: _action_intent,
    r.ActionResult: _action_result, r.ActionDeferred: _action_deferred, r.ActionResolved: _action_resolved, r.Step: _step,
    r.ResumeStarted: _resume_started, r.ResumeRefused: _same, r.Replay: _replay, r.DriftAccepted: _drift_accepted,
    r.TailRepaired: _tail_repaired, r.CancelRequested: _cancel_requested, r.RunEnded: _run_ended,
}  # fmt: skip


def texts_of(record: Record) -> Iterator[Text]:
    """Every text of a record that may live in a blob."""
    if isinstance(record, r.ModelResult):
        yield from (record.text, record.reasoning, *(t.arguments for t in record.tool_calls))
    elif isinstance(record, r.ActionResult):
        yield from (p.text for p in record.observation)
    elif isinstance(record, r.ActionIntent):
        yield record.args_text
    elif isinstance(record, r.Step):
        if isinstance(record.raw_output, str | r.BlobRef):
            yield record.raw_output
    elif isinstance(record, r.RunStarted):
        yield record.history
        yield from (p.text for seg in record.segments for p in seg.parts)
