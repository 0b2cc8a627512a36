"""Logs grown record by record, for tests of the pure machine: a situation is the list of records that leads to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from polyloop.kernel import records as r
from polyloop.kernel.machine import State, fold
from polyloop.kernel.objects import Budget, Counters, DefinitionSnapshot, ToolSnapshot
from polyloop.kernel.seams import Act, Decided

BUDGET = Budget(3, 5)
SEEN = ToolSnapshot("look", "d", "s", "read", "rerun", "async")
WRITTEN = ToolSnapshot("write", "d", "s", "write", "probe", "async")
ENDING = ToolSnapshot("submit", "d", "s", "write", "probe", "async", completes=True)

#: A record, or a function of the state it is to follow.
Due = r.Record | Callable[[State], r.Record]


def start(budget: Budget = BUDGET, **more: Any) -> r.RunStarted:
    return r.RunStarted(DefinitionSnapshot("a", "1", "json-text/1"), 1, budget, tools=(SEEN, WRITTEN, ENDING), **more)


def ask(s: State) -> r.ModelIntent:
    return r.ModelIntent(s.counters.iterations + 1, f"call-{s.seq}", s.digest)


def intent(call: int = 0, tool: str = "write") -> r.ActionIntent:
    return r.ActionIntent(call, tool, "write", "probe", f"key-{call}", {"n": call})


def result(call: int = 0, status: Any = "ok", **more: Any) -> r.ActionResult:
    return r.ActionResult(call, status, (r.Part(text="seen"),), **more)


def deferred(call: int = 0, **more: Any) -> r.ActionDeferred:
    return r.ActionDeferred(call, f"t{call}", more.pop("awaited", "approval"), **more)


def resolved(decision: Any = "approved", call: int = 0) -> r.ActionResolved:
    return r.ActionResolved(call, f"t{call}", decision)


def step(call: int = 0, calls: int = 1, tool: str = "write", tier: str = "G", **more: Any) -> Callable[[State], r.Step]:
    """The step of an action that was executed."""

    def due(s: State) -> r.Step:
        counted = replace(s.counters, valid_steps=s.counters.valid_steps + 1, rejections_consecutive=0, identical_streak=0)
        return r.Step(call, calls, tier, True, s.counters.iterations, "ok", counted, r.Timings(), tool, **more)

    return due


def rejected(call: int = 0, calls: int = 1, code: str = "unknown_tool", signature: str = "sig", streak: int = 1) -> Callable[[State], r.Step]:
    def due(s: State) -> r.Step:
        c = s.counters
        counted = Counters(c.iterations, c.valid_steps, c.rejections_total + 1, c.rejections_consecutive + 1, streak)
        no = r.Rejection(code, "no", signature)
        return r.Step(call, calls, "B", False, c.iterations, code, counted, r.Timings(), "nope", rejection=no)

    return due


RESUMED = r.ResumeStarted(2, "h2", 0)
CANCEL = r.CancelRequested("me", "why")
REPLY = r.ModelResult("reply", finish_reason="stop")


def ended(reason: str = "abandoned", **more: Any) -> Callable[[State], r.RunEnded]:
    return lambda s: r.RunEnded(reason, s.counters, **more)


def grown(dues: Sequence[Due], state: State | None = None) -> State:
    s = State() if state is None else state
    for due in dues:
        record = due(s) if callable(due) else due
        s = fold(s, s.seq, 1000 + s.seq, record)
    return s


def deciding(s: State, *decisions: Decided) -> State:
    """The state once the reply has been read."""
    return replace(s, decisions=decisions or (Act("write", {"n": 0}),))
