"""The step record of a settled decision: its tier, its rejection, the counters after it. Pure."""

from __future__ import annotations

from typing import Final, cast

from msgspec.structs import replace

from . import records as r
from .decide import withdrawn
from .machine import Call, State, effect_of
from .objects import Counters
from .records import Rejection, Step, Timings, canonical, sha256
from .seams import Act, Decided, Finish, Reject

#: Tier of a rejection by its code; all others are A (not interpretable).
TIER_BY_CODE: Final[dict[str, str]] = {
    "unknown_tool": "B", "args_missing": "C", "args_invalid": "C", "denied": "D", "tool_exhausted": "D", "not_executed": "H",
}  # fmt: skip
#: Rejection and message for a result "not_executed", by its code. The codes of TIER_BY_CODE stand for themselves.
REFUSALS: Final[dict[str, tuple[str, str]]] = {
    **{code: (code, "The action was refused. It was not executed.") for code in TIER_BY_CODE},
    "expired": ("denied", "Nobody approved this action in time. It was not executed."),
    "withdrawn": ("not_executed", "The action was withdrawn before it was executed."),
}


def make_step(s: State, index: int, skip: str, timings: Timings) -> Step:
    """The step record for decision `index` of the current reply."""
    decisions = cast(tuple[Decided, ...], s.decisions)
    decision, call = decisions[index], s.call(index)
    rejection = _rejection(s, decision, call, skip)
    valid = rejection is None and call is not None
    counters = account(s, rejection, valid=valid)
    if rejection is not None:
        rejection = _warned(s, rejection, counters)
    return Step(
        call=index,
        calls=len(decisions),
        tier=_tier(rejection, call),
        valid=valid,
        iteration=s.counters.iterations,
        outcome=_outcome(decision, rejection, call),
        counters=counters,
        timings=timings,
        tool="" if isinstance(decision, Finish) else decision.tool,
        raw_output=decision.raw_output,
        repairs=decision.repairs,
        rejection=rejection,
        repeated=valid and call is not None and _repeats(s, call),
    )


def _rejection(s: State, decision: Decided, call: Call | None, skip: str) -> Rejection | None:
    if isinstance(decision, Finish):
        return None
    if call is not None and call.result is not None:
        if call.result.status != "not_executed":
            return None
        code, message = REFUSALS.get(call.result.code, ("not_executed", "The action was not executed."))
        return Rejection(code, message, _signature(s, code, decision))
    if skip:
        return Rejection("not_executed", f"Not executed: {skip}.", "")
    if withdrawn(s, decision) and (isinstance(decision, Act) or decision.code.startswith("args_")):
        message = f"{decision.tool} was withdrawn after too many calls with wrong arguments. Do without it."
        return Rejection("tool_exhausted", message, _signature(s, "tool_exhausted", decision))
    reject = cast(Reject, decision)  # an action without a result has no step
    return Rejection(reject.code, reject.message, _signature(s, reject.code, reject))


def _signature(s: State, code: str, decision: Act | Reject) -> str:
    """What the stall guard compares; "" = it does not look: argument failures of a tool with its own limit are counted apart."""
    tool = s.tool(decision.tool)
    if code == "not_executed" or (tool and tool.max_argument_failures and code.startswith("args_")):
        return ""
    if isinstance(decision, Act):
        subject: object = decision.args
    else:
        subject = "" if code == "tool_exhausted" else decision.subject
    return sha256(canonical([code, decision.tool, subject]))[:16]


def _tier(rejection: Rejection | None, call: Call | None) -> str:
    if rejection is not None:
        return TIER_BY_CODE.get(rejection.code, "A")
    if call is None or call.result is None:
        return "G"
    return {"DONE": "E", "UNAVAILABLE": "F", "NOT_DONE": "G"}[call.result.completion]


def _outcome(decision: Decided, rejection: Rejection | None, call: Call | None) -> str:
    if rejection is not None:
        return rejection.code
    if isinstance(decision, Finish):
        return "final_answer"
    return call.result.status if call and call.result else "unknown"


def account(s: State, rejection: Rejection | None, *, valid: bool) -> Counters:
    """Counters after a step. A signature scores once per iteration, and not beside a valid step (S2.17, S2.52)."""
    c = s.counters
    if valid:
        return replace(c, valid_steps=c.valid_steps + 1, rejections_consecutive=0, identical_streak=0)
    if rejection is None or rejection.code == "not_executed":
        return c
    c = replace(c, rejections_total=c.rejections_total + 1)
    if not rejection.signature or s.scored or s.iteration_valid:
        return c
    streak = c.identical_streak + 1 if rejection.signature == s.signature else 1
    return replace(c, rejections_consecutive=c.rejections_consecutive + 1, identical_streak=streak)


def _warned(s: State, rejection: Rejection, counters: Counters) -> Rejection:
    limit = s.budget.max_identical_rejections
    if not rejection.signature or limit <= 1 or counters.identical_streak != limit - 1:
        return rejection
    names = ", ".join(t.name for t in cast(r.RunStarted, s.start).tools)
    return replace(rejection, message=f"{rejection.message} This is the same mistake again; once more ends the run. Tools: {names}.")


def _repeats(s: State, call: Call) -> bool:
    tool = s.tool(call.intent.tool) if call.intent else None
    return bool(tool and not tool.pollable and s.last_effect is not None and effect_of(s, call) == s.last_effect)
