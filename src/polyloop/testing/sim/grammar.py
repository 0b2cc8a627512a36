"""Which logs are legal: an automaton written from the design page, apart from the kernel.

Theory of operation. It reads batches as plain JSON, keeps the little it must remember and refuses the first record that has
no business where it stands. It shares no code with `kernel.machine` and `kernel.decide`, so that an error there cannot hide
here. It knows: the chain and fences, resume_started never alone, intents before results, one write at a time, waits and
their resolutions, counters and guards, budgets, and for every end reason what must have come before it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from polyloop.kernel.records import Sealed

Body = dict[str, Any]
ZERO = {"iterations": 0, "valid_steps": 0, "rejections_total": 0, "rejections_consecutive": 0, "identical_streak": 0}
EXECUTED = ("ok", "error", "unknown")
MAY_SAY = {
    "approval": {"approved", "denied", "expired", "withdrawn"},
    "answer": {"answered", "denied", "expired", "withdrawn"},
    "task": {"finished", "expired", "withdrawn"},
    "run": {"finished", "expired", "withdrawn"},
    "settle": {"finished", "denied", "approved", "expired", "withdrawn"},
}
RECOVERY = {
    "rerun": {"rerun", "report_unknown"},
    "probe": {"probe", "execute"},
    "report_unknown": {"report_unknown"},
    "ask": {"ask", "report_unknown"},
    "never": {"never", "report_unknown"},
}
TIERS = {"unknown_tool": "B", "args_missing": "C", "args_invalid": "C", "denied": "D", "tool_exhausted": "D", "not_executed": "H"}


class Illegal(Exception):
    """This record cannot stand here."""


class Call:
    """One action of the open reply."""

    def __init__(self, seq: int, intent: Body) -> None:
        self.seq, self.intent = seq, intent
        self.state = "open"  # open, waiting, answered, refused, settled
        self.orphan = False
        self.recoveries = 0
        self.probed = False
        self.wait: Body = {}
        self.decision = ""
        self.status = ""
        self.completion = ""


def need(condition: object, why: str) -> None:
    if not condition:
        raise Illegal(why)


class Grammar:
    """One log being read. `accept` raises Illegal."""

    def __init__(self) -> None:
        self.seq, self.prev, self.at, self.fence = 0, "0" * 64, 0, -1
        self.budget: Body = {}
        self.tools: dict[str, Body] = {}
        self.began = 0
        self.counters = dict(ZERO)
        self.below: Counter[str] = Counter()  # what sub-runs have used
        self.attempts = 0
        self.ask: Body | None = None
        self.ask_orphan, self.ask_recoveries = False, 0
        self.replied = False
        self.calls: dict[int, Call] = {}
        self.stepped: set[int] = set()
        self.scored = self.was_valid = False
        self.signature = ""
        self.keys: set[str] = set()
        self.cancelled = False
        self.must_end: tuple[str, str] | None = None
        self.failures: Counter[str] = Counter()  # wrong arguments, by tool
        self.suspect = False  # a lost frame may have held an action of this iteration
        self.last: tuple[str, Body] = ("", {})
        self.ended = False

    def accept(self, batch: Sequence[Sealed], bodies: Sequence[Body]) -> None:
        kinds = [s.kind for s in batch]
        need(len({s.fence for s in batch}) == 1 and batch[0].fence >= self.fence, "fences run backwards")
        if batch[0].fence > self.fence:
            need(kinds[0] in ("run_started", "resume_started", "resume_refused"), f"a new holder begins with {kinds[0]}")
        need("resume_started" not in kinds[1:] and kinds != ["resume_started"], "resume_started is alone or late")
        if kinds[0] == "resume_started":
            need(batch[0].fence > self.fence, "resumed twice under one fence")
        for sealed, body in zip(batch, bodies, strict=True):
            self._chained(sealed)
            need(not self.ended, f"{sealed.kind} after the end")
            need(self.budget or sealed.kind == "run_started", f"{sealed.kind} before the start")
            getattr(self, f"_{sealed.kind}")(body, sealed)
            self.last = (sealed.kind, body)
            self.seq, self.prev, self.at, self.fence = self.seq + 1, sealed.hash, sealed.at, sealed.fence

    def _chained(self, s: Sealed) -> None:
        need(s.seq == self.seq and s.prev == self.prev and s.at >= self.at, f"record {s.seq} does not follow")
        digest = hashlib.sha256(s.salt.encode() + (s.body or b"")).hexdigest()
        text = f"{s.prev}\n{s.seq}\n{s.kind}\n{s.at}\n{s.fence}\n{digest}"
        need(hashlib.sha256(text.encode()).hexdigest() == s.hash, f"record {s.seq} has a false hash")

    # --- one rule for each kind ------------------------------------------------------------------------------------

    def _run_started(self, body: Body, s: Sealed) -> None:
        need(s.seq == 0, "started twice")
        self.budget, self.began = body["budget"], s.at
        self.tools = {t["name"]: t for t in body.get("tools", ())}

    def _model_intent(self, body: Body, s: Sealed) -> None:
        need(self.ask is None and not self.replied, "asked inside an iteration")
        need(self.must_end is None and not self.cancelled, "asked after a reason to end")
        c = self.counters
        need(all(c[name] + self.below[name] < self.budget[f"max_{name}"] for name in ("iterations", "valid_steps")), "asked over budget")
        c["iterations"] += 1
        need(body["iteration"] == c["iterations"], "miscounted iteration")
        self.ask, self.ask_orphan, self.ask_recoveries = {**body, "seq": s.seq}, False, 0
        self.scored = self.was_valid = False

    def _model_result(self, body: Body, s: Sealed) -> None:
        need(self.ask is not None, "a reply nobody asked for")
        error = body.get("error")
        if error is None:
            need(not self.ask_orphan, "the reply to an orphaned call, not asked again")
            self.replied, self.calls, self.stepped = True, {}, set()
        elif error["code"] != "interrupted":
            self.must_end = ("model_call_failed", error["code"])
        self.counters["iterations"] -= 1 if error and not error.get("sent", True) else 0
        self.ask = None

    def _action_intent(self, body: Body, s: Sealed) -> None:
        need(self.replied and body["call"] not in self.calls and body["call"] not in self.stepped, "an intent out of place")
        need(not self.cancelled and self.must_end is None, "an intent after a reason to end")
        open_calls = [c for c in self.calls.values() if c.state != "settled"]
        need(all(c.state == "open" and c.intent["effect"] == "read" for c in open_calls), "an intent beside an open write or a wait")
        need(not open_calls or body["effect"] == "read", "a write beside open reads")
        running = len(self.calls.keys() - self.stepped)
        need(self.counters["valid_steps"] + self.below["valid_steps"] + running < self.budget["max_valid_steps"], "an intent over budget")
        need(self.budget["max_tool_calls_per_iteration"] in (0, *range(body["call"] + 1, 99)), "too many calls")
        need(body["key"] not in self.keys, "a key used twice")
        tool = self.tools[body["tool"]]
        limit = tool.get("max_argument_failures", 0)
        need(not 0 < limit <= self.failures[body["tool"]], "an intent of a withdrawn tool")
        need((tool["effect"], tool["replay"]) == (body["effect"], body["replay"]), "an intent that differs from the snapshot")
        self.keys.add(body["key"])
        self.calls[body["call"]] = call = Call(s.seq, body)
        call.orphan = self.suspect

    def _action_result(self, body: Body, s: Sealed) -> None:
        call = self.calls.get(body["call"])
        need(call and call.state in ("open", "answered", "refused") and not call.orphan, "a result out of place")
        assert call is not None
        status = body["status"]
        if call.state == "refused" and not call.wait.get("dispatched") and not self.suspect:
            need(status == "not_executed", "an action refused before dispatch has an outcome")
        if call.state == "answered" and call.decision == "answered":
            need(status == "ok", "an answer that is not ok")
        call.state, call.status, call.completion = "settled", status, body.get("completion", "NOT_DONE")
        for cited in body.get("evidence", ()):
            self.below.update({name: cited.get(name, 0) for name in ("iterations", "valid_steps")})

    def _action_deferred(self, body: Body, s: Sealed) -> None:
        call = self.calls.get(body["call"])
        need(call and call.state == "open" and not call.orphan, "a deferral out of place")
        assert call is not None
        call.state, call.wait = "waiting", body

    def _action_resolved(self, body: Body, s: Sealed) -> None:
        call = self.calls.get(body["of"])
        need(call and call.state == "waiting" and call.wait["token"] == body["token"], "a resolution out of place")
        assert call is not None
        decision = call.decision = body["decision"]
        need(decision in MAY_SAY[call.wait["awaited"]], f"{decision} does not resolve {call.wait['awaited']}")
        call.orphan = self.suspect and decision == "approved"
        call.state = {"approved": "open", "answered": "answered", "finished": "answered"}.get(decision, "refused")

    def _step(self, body: Body, s: Sealed) -> None:
        index, call, rejection = body["call"], self.calls.get(body["call"]), body.get("rejection")
        need(self.replied and index not in self.stepped and index < body["calls"], "a step out of place")
        need(call is None or call.state == "settled", "a step of an open action")
        need(body["iteration"] == self.counters["iterations"], "a step of another iteration")
        executed = call is not None and call.status in EXECUTED
        need(body["valid"] == executed and (rejection is None) == (executed or body["outcome"] == "final_answer"), "validity is not execution")
        self._count(rejection, executed=executed)
        need({**ZERO, **body["counters"]} == self.counters, f"counters {body['counters']} are not {self.counters}")
        if rejection is not None:
            need(body["tier"] == TIERS.get(rejection["code"], "A"), f"tier {body['tier']} for {rejection['code']}")
            self.failures[body.get("tool", "")] += rejection["code"].startswith("args_")
        elif call is not None:
            need(body["tier"] == {"DONE": "E", "UNAVAILABLE": "F", "NOT_DONE": "G"}[call.completion], f"tier {body['tier']} for {call.completion}")
        self.stepped.add(index)
        self.must_end = self.must_end or self._completes(body, call)
        if len(self.stepped) == body["calls"]:
            self._close()

    def _count(self, rejection: Body | None, *, executed: bool) -> None:
        c = self.counters
        if executed:
            c["valid_steps"] += 1
            c["rejections_consecutive"] = c["identical_streak"] = 0
            self.was_valid, self.signature = True, ""
        elif rejection is not None and rejection["code"] != "not_executed":
            c["rejections_total"] += 1
            if rejection["signature"] and not self.scored and not self.was_valid:
                c["rejections_consecutive"] += 1
                c["identical_streak"] = c["identical_streak"] + 1 if rejection["signature"] == self.signature else 1
                self.scored, self.signature = True, rejection["signature"]

    def _completes(self, body: Body, call: Call | None) -> tuple[str, str] | None:
        if body["outcome"] == "final_answer":
            return ("completed", "final_answer")
        if call is None or call.status == "not_executed":
            return None
        if call.completion == "DONE":
            return ("completed", "environment")
        if call.status == "ok" and self.tools[call.intent["tool"]].get("completes"):
            return ("completed", "completion_tool")
        return ("environment_fault", "") if call.completion == "UNAVAILABLE" else None

    def _close(self) -> None:
        self.replied, self.calls, self.stepped, self.suspect = False, {}, set(), False
        budget, c = self.budget, self.counters
        for limit, count in (("max_identical_rejections", "identical_streak"), ("max_consecutive_rejections", "rejections_consecutive")):
            if self.must_end is None and 0 < budget[limit] <= c[count]:
                self.must_end = ("stalled", limit.removeprefix("max_"))

    def _resume_started(self, body: Body, s: Sealed) -> None:
        self.attempts += 1
        need((body["attempt"], body["head"]) == (self.attempts, s.seq - 1), "miscounted attempt or head")
        self.ask_orphan = self.ask is not None
        for call in self.calls.values():
            call.orphan = call.state == "open"
            call.probed = False

    def _resume_refused(self, body: Body, s: Sealed) -> None:
        need(self.last != ("resume_refused", body), "the same refusal twice")

    def _replay(self, body: Body, s: Sealed) -> None:
        decision, limit = body["decision"], self.budget["max_recoveries"]
        if self.ask is not None and body["of"] == self.ask["seq"]:
            need(self.ask_orphan and decision == "recall", "a recall of a call that is not orphaned")
            self.ask_orphan, self.ask_recoveries = False, self.ask_recoveries + 1
            self.counters["iterations"] += 1
            need(self.counters["iterations"] + self.below["iterations"] <= self.budget["max_iterations"], "a recall over budget")
            need(limit == 0 or self.ask_recoveries <= limit, "one recall too many")
            return
        call = next((c for c in self.calls.values() if c.seq == body["of"]), None)
        need(call and call.state == "open", "a replay of no open action")
        assert call is not None
        need(decision in RECOVERY[call.intent["replay"]], f"{decision} under policy {call.intent['replay']}")
        stopping = self.cancelled or self.budget["working_time_s"] or 0 < self.budget["wall_clock_s"] * 1000 <= s.at - self.began
        need(decision != "report_unknown" or call.intent["replay"] == decision or stopping, "reported unknown against its policy")
        stopped = decision == "probe" and self.cancelled  # a cancel in flight asks the service before it gives up
        need(call.probed if decision == "execute" else call.orphan or stopped, f"{decision} of an action that is not orphaned")
        call.recoveries += decision != "execute"
        need(limit == 0 or call.recoveries <= limit or (stopped and not call.orphan), "one recovery too many")
        call.orphan, call.probed = False, decision == "probe"

    def _drift_accepted(self, body: Body, s: Sealed) -> None:
        need(self.last[0] in ("resume_started", "tail_repaired"), "drift accepted out of place")

    def _tail_repaired(self, body: Body, s: Sealed) -> None:
        need(self.last[0] in ("run_started", "resume_started"), "a repair out of place")
        self.suspect = self.ask is not None or self.replied
        for call in self.calls.values():
            call.orphan = call.state == "open"

    def _cancel_requested(self, body: Body, s: Sealed) -> None:
        need(not self.cancelled, "cancelled twice")
        self.cancelled = True

    def _run_ended(self, body: Body, s: Sealed) -> None:
        self.ended = True
        reason, detail = body["reason"], body.get("detail", "")
        need({**ZERO, **body["counters"]} == self.counters, "the end miscounts")
        if reason in ("abandoned", "internal_error"):
            return
        if reason == "unresolved_action":
            need(self._unresolved(detail), "unresolved, but nothing is open")
            return
        open_ask = self.ask_orphan and (reason, detail) == ("budget_exhausted", "iterations")  # asking again would cost more than is left
        need((self.ask is None or open_ask) and not self.replied, f"{reason} with something open")
        if self.must_end is not None:
            due, how = self.must_end
            need(reason == due and how in ("", body.get("completed_by") or detail), f"{reason} where {self.must_end} was due")
            return
        c, b = Counter(self.counters) + self.below, self.budget
        causes = {
            ("cancelled", ""): self.cancelled,
            ("budget_exhausted", "valid_steps"): c["valid_steps"] >= b["max_valid_steps"],
            ("budget_exhausted", "iterations"): c["iterations"] >= b["max_iterations"],
            ("budget_exhausted", "wall_clock"): 0 < b["wall_clock_s"] * 1000 <= s.at - self.began,
            ("budget_exhausted", "working_time"): b["working_time_s"] > 0,
        }
        need(causes.get((reason, "" if reason == "cancelled" else detail)), f"{reason}({detail}) without a cause")
        need(not self.cancelled or reason == "cancelled", "a cancel was overlooked")

    def _unresolved(self, detail: str) -> bool:
        limit = self.budget["max_recoveries"]
        if detail == "model_intent":
            return self.ask is not None and 0 < limit <= self.ask_recoveries
        if detail == "never":
            return any(c.intent["replay"] == "never" and c.state == "open" for c in self.calls.values())
        return any(c.state == "open" and 0 < limit <= c.recoveries for c in self.calls.values())
