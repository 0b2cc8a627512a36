"""The judge sees every event of a world and says the first thing that is wrong.

I1 legal log prefix · I2 effects per intent · I3 durable intent before the deed · I4 budgets · I5 one end, nothing after it ·
I6 refolded = live state · I7 order of fences · I8 scopes do not cross · I9 sinks change nothing (see `world.twin`) ·
approval before dispatch · a visit leaves the run free · what is returned is what is logged · no stranded run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from polyloop.kernel import records as r
from polyloop.kernel.history import History
from polyloop.kernel.machine import State, fold
from polyloop.kernel.objects import Json, RunResult
from polyloop.kernel.records import Sealed
from polyloop.kernel.run import ParameterDrift, RunExists
from polyloop.kernel.seams import Action, CorruptStore, Event, ModelRequest, Stream
from polyloop.kernel.verify import verify

from .grammar import MAY_SAY, Grammar, Illegal
from .loop import Life

if TYPE_CHECKING:
    from .world import World

#: Store time at second 0 of every world.
EPOCH_MS = 1_700_000_000_000
NO_HISTORY = History()


class Intent(Struct, eq=False):
    """A durable action intent and what has become of it. `recorded`: the log says how it went, or that it waits."""

    seq: int
    tool: str
    effect: str
    replay: str
    status: str = ""
    args: Json = None
    by_person: bool = False
    zombie: bool = False
    recorded: bool = False
    resolved: dict[str, str] = {}

    def __str__(self) -> str:
        return f"{self.tool} at {self.seq}"


class Docket(Struct, eq=False):
    """What the judge knows of one run: the log as read, and what was done in its name.

    `calls`: call index -> key, of the open reply · `waits`: token -> until, awaited · `spent`: token -> last signal used up ·
    `heard`: keys whose outcome the holder was given · `lost`: keys that stood in a frame that rotted; `rots` such frames.
    """

    grammar: Grammar = field(default_factory=Grammar)
    state: State = State()
    epoch: int = 0
    keys: dict[str, Intent] = {}
    calls: dict[int, str] = {}
    waits: dict[str, tuple[int, str]] = {}
    spent: dict[str, int] = {}
    model_calls: int = 0
    result: tuple[str, Json] | None = None
    end: dict[str, Any] = {}
    cancelled_at: float = 0.0
    heard: set[str] = set()
    lost: set[str] = set()
    rots: int = 0


class Judge:
    """`fail` stops the world at the first breach."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.dockets: dict[Stream, Docket] = {}
        self.ends: Counter[str] = Counter()

    def docket(self, stream: Stream) -> Docket:
        return self.dockets.setdefault(stream, Docket())

    def need(self, condition: object, invariant: str, what: str) -> None:
        if not condition:
            self.world.fail(invariant, what)

    # --- the log ---------------------------------------------------------------------------------------------------

    def taken(self, stream: Stream, epoch: int) -> None:
        self.docket(stream).epoch = epoch
        self.docket(stream).heard.clear()

    def appended(self, stream: Stream, records: Sequence[Sealed], blobs: Mapping[str, bytes], fence: int, live: State | None) -> None:
        docket = self.docket(stream)
        self.world.note("append", stream.scope, f"{records[0].seq}-{records[-1].seq} fence {fence}", *[s.kind for s in records])
        self.need(fence == docket.epoch, "I7", f"an append under fence {fence} while epoch {docket.epoch} holds the run")
        for foreign in self.world.foreign_markers(stream):
            inside = [s.seq for s in records if foreign in (s.body or b"")] or [d for d, text in blobs.items() if foreign in text]
            self.need(not inside, "I8", f"{foreign} in {inside}")
        self._read(stream, docket, records)
        if live is not None and self.world.failure is None:
            self.need(self.same(docket.state, live), "I6", "the refolded state is not the live one")

    def _read(self, stream: Stream, docket: Docket, records: Sequence[Sealed]) -> None:
        bodies = [json.loads(s.body or b"{}") for s in records]
        try:
            docket.grammar.accept(records, bodies)
            for s in records:
                docket.state = fold(docket.state, s.seq, s.at, r.decode(s.kind, s.body or b""))
        except Illegal as illegal:
            self.world.fail("I5" if "after the end" in str(illegal) else "I1", str(illegal))
            return
        except ValueError as wrong:
            self.world.fail("I1", f"the kernel cannot read what it wrote: {wrong!r}")
            return
        for s, body in zip(records, bodies, strict=True):
            if (look := getattr(self, f"_{s.kind}", None)) is not None:
                look(stream, docket, s, body)

    def rewound(self, stream: Stream, frames: Sequence[Sequence[Sealed]]) -> None:
        """The last frame has rotted: what it said counts no more, what was done does."""
        old = self.dockets.pop(stream)
        docket = self.docket(stream)
        docket.epoch, docket.model_calls, docket.rots, docket.result = old.epoch, old.model_calls, old.rots + 1, old.result
        for frame in frames:
            self._read(stream, docket, frame)
        for key, intent in docket.keys.items():
            was = old.keys[key]
            intent.zombie, intent.by_person, intent.args = was.zombie, was.by_person, was.args
        docket.lost = old.lost | (old.keys.keys() - docket.keys.keys())

    def same(self, a: State, b: State) -> bool:
        whole = replace(a, decisions=None, history=NO_HISTORY) == replace(b, decisions=None, history=NO_HISTORY)
        return whole and list(a.history) == list(b.history)

    def _model_result(self, stream: Stream, docket: Docket, s: Sealed, body: dict[str, Any]) -> None:
        docket.calls = {}

    def _action_intent(self, stream: Stream, docket: Docket, s: Sealed, body: dict[str, Any]) -> None:
        docket.keys[body["key"]] = Intent(s.seq, body["tool"], body["effect"], body["replay"])
        docket.calls[body["call"]] = body["key"]

    def _action_deferred(self, stream: Stream, docket: Docket, s: Sealed, body: dict[str, Any]) -> None:
        docket.keys[docket.calls[body["call"]]].recorded = True
        docket.waits[body["token"]] = body.get("until", 0), body["awaited"]
        self.world.people.deferred(stream, body["token"], body["awaited"], body.get("until", 0))

    def _action_resolved(self, stream: Stream, docket: Docket, s: Sealed, body: dict[str, Any]) -> None:
        intent, token, decision = docket.keys[docket.calls[body["of"]]], body["token"], body["decision"]
        intent.resolved[token] = decision
        intent.by_person = intent.by_person or token.startswith("settle:")
        until, awaited = docket.waits[token]
        signals = self.world.store.shelf(stream).signals[docket.spent.get(token, 0) :]
        said = [g for g in signals if g.token == token and g.decision in MAY_SAY[awaited]]
        docket.spent[token] = body.get("signal", 0)
        if decision in ("approved", "denied", "answered"):
            timely = said and said[0].decision == decision and not 0 < until < said[0].at
            self.need(timely, "approval", f"nobody said {decision} to {token} in time")
        elif decision == "expired" and said and not self.world.skew:
            self.need(said[0].decision == "expired" or said[0].at > until, "approval", f"{said[0].decision} came in time and was overlooked")

    def _action_result(self, stream: Stream, docket: Docket, s: Sealed, body: dict[str, Any]) -> None:
        key = docket.calls[body["call"]]
        intent, effects = docket.keys[key], self.world.service.effects[key]
        intent.status, intent.recorded = body["status"], True
        if intent.effect == "read" or (intent.by_person and intent.zombie):
            return
        if intent.status == "ok":
            self.need(effects == 1, "I2", f"{intent} is ok with {effects} effects")
        elif intent.status in ("error", "not_executed"):
            self.need(effects == 0, "I2", f"{intent} is {intent.status} with {effects} effects")

    def _run_ended(self, stream: Stream, docket: Docket, s: Sealed, body: dict[str, Any]) -> None:
        docket.end = body
        self._in_time(docket)
        how = f"({body.get('completed_by') or body.get('detail')})" if body["reason"] in SPLIT else ""
        self.ends[body["reason"] + how] += 1

    def _in_time(self, docket: Docket) -> None:
        """Once nothing is wrong any more, a run that was cancelled or is out of time has a minute to end."""
        world, wall_s = self.world, docket.grammar.budget["wall_clock_s"]
        if not world.calm or world.skew:
            return
        began_s = (docket.grammar.began - EPOCH_MS) / 1000
        for due_s, why in ((docket.cancelled_at, "cancelled"), (began_s + wall_s if wall_s else 0, "out of time")):
            late_s = world.loop.time() - max(due_s, world.calm_at)
            self.need(not due_s or late_s < 60, "late", f"{why} {late_s:.0f} s ago, and ends only now")

    def event(self, stream: Stream, event: Event) -> None:
        durable = event.seq < len(self.world.store.shelf(stream).records) or self.docket(stream).rots
        self.need(durable, "events", f"{event.type} is told and not durable")

    # --- deeds -------------------------------------------------------------------------------------------------------

    def asked_model(self, life: Life, stream: Stream, request: ModelRequest) -> None:
        docket = self.docket(stream)
        self.world.note("model", stream.scope, request.reply_no)
        ask, zombie = docket.grammar.ask, self.world.is_zombie(life, stream)
        self.need(zombie or (ask is not None and ask["call_id"] == request.call_id), "I3", "a model call without a durable intent")
        self.need(zombie or request.reply_no == docket.state.replies + 1, "I4", f"reply {request.reply_no} is asked for after {docket.state.replies}")
        docket.model_calls += 1
        limit = docket.grammar.budget["max_iterations"] + docket.rots
        self.need(docket.model_calls <= limit, "I4", f"{docket.model_calls} model calls of {limit}")
        for foreign in self.world.foreign_markers(stream):
            self.need(all(foreign.decode() not in m.text for m in request.messages), "I8", f"{foreign} is shown to the model")

    def not_sent(self, stream: Stream) -> None:
        self.docket(stream).model_calls -= 1

    def dispatched(self, life: Life, action: Action) -> None:
        stream = Stream(action.scope, action.run_id)
        docket = self.docket(stream)
        self.world.note("dispatch", action.scope, action.tool, action.key[:6], f"attempt {action.attempt} approved {action.approved}")
        intent = docket.keys.get(action.key)
        if intent is None:
            return self.world.fail("I3", f"{action.tool} is dispatched without a durable intent")
        intent.args = action.args
        if self.world.is_zombie(life, stream):
            intent.zombie = True
            return None
        self.need(not intent.status and not docket.grammar.ended, "I3", f"{intent} is dispatched again after its result")
        approved = not action.approved or intent.resolved.get(action.token) == "approved"
        self.need(approved, "approval", f"{intent} is dispatched before its approval is durable")
        return None

    def took_effect(self, action: Action) -> None:
        docket, effects = self.docket(Stream(action.scope, action.run_id)), self.world.service.effects[action.key]
        self.world.note("effect", action.scope, action.tool, action.key[:6], effects)
        intent = docket.keys.get(action.key)
        if intent is None:
            known = action.key in docket.lost and effects == 1
            return self.need(known, "I3", f"{action.tool} takes effect without a durable intent")
        if intent.by_person and intent.zombie:
            return None  # a person decided; what a stopped process did later nobody could know
        self.need(effects <= 1, "I2", f"{intent} took effect {effects} times under {intent.replay}")
        self.need(intent.status not in ("not_executed", "error"), "I2", f"{intent} takes effect after its result said {intent.status}")
        return None

    # --- what comes back ---------------------------------------------------------------------------------------------

    def heard(self, life: Life, action: Action) -> None:
        """The kernel has been given the outcome of this action."""
        stream = Stream(action.scope, action.run_id)
        intent = self.docket(stream).keys.get(action.key)
        if intent is not None and intent.effect != "read" and not self.world.is_zombie(life, stream):
            self.docket(stream).heard.add(action.key)

    def left(self, life: Life, stream: Stream) -> None:
        """A visit is over, and the store has not failed it."""
        shelf, docket = self.world.store.shelf(stream), self.docket(stream)
        self.need(shelf.ended or shelf.holder != life.name, "stranded", f"the visit is over and {life.name} still holds the run")
        for key in docket.heard:
            self.need(docket.keys[key].recorded, "unrecorded", f"{docket.keys[key]} has answered, and the log does not say so")
        docket.heard.clear()

    def visited(self, stream: Stream, outcome: Any, *, drifted: bool, allowed: tuple[type[BaseException], ...]) -> None:
        if isinstance(outcome, ParameterDrift | RunExists):
            self.need(drifted, "drift", f"refused without a difference: {outcome}")
        elif isinstance(outcome, RunResult):
            self.need(not drifted, "drift", "a run with other parameters was let in")
            self.returned(stream, outcome)
        else:
            damaged = isinstance(outcome, CorruptStore) and self.world.store.shelf(stream).records  # else the first frame was torn
            self.need(isinstance(outcome, allowed) and not damaged, "raised", repr(outcome))

    def returned(self, stream: Stream, result: RunResult) -> None:
        shelf = self.world.store.shelf(stream)
        self.world.note("returned", stream.scope, result.state, result.reason, result.detail)
        if not result.persisted:
            self.need(result.state == "interrupted", "returned", f"not persisted, yet {result.state}")
        elif result.ended:
            self.need(shelf.ended and result.head_hash == shelf.hash, "returned", f"{result.reason} is returned and not in the log")
            docket = self.docket(stream)
            said = (result.reason, result.result)
            docket.result = docket.result or said
            self.need(said == docket.result, "returned", f"{said} is returned after {docket.result}")
            self.need(self._is_result(docket, result), "returned", f"{result.reason} {result.completed_by} with {result.result}")

    def _is_result(self, docket: Docket, result: RunResult) -> bool:
        """Whether this is what completed the run: the arguments of the completing call, the environment's word, the last reply."""
        if result.completed_by == "completion_tool":
            return result.result == next(i.args for i in docket.keys.values() if i.seq == docket.end["result_of"])
        if result.completed_by == "final_answer":
            return self.world.marker(result.scope) in str(result.result)
        return result.result == docket.end.get("result")

    def verdict(self) -> None:
        """After the faults have stopped: every run has ended or rests where only an outsider can help."""
        for stream in self.world.streams:
            shelf, docket = self.world.store.shelf(stream), self.docket(stream)
            if shelf.ended:
                continue
            call = docket.state.waiting
            wait = call.deferred if call else None
            rests = wait and not wait.until and wait.token in self.world.people.silent and not docket.grammar.budget["wall_clock_s"]
            self.need(rests, "stranded", f"{stream.scope} after {docket.grammar.last[0]} waits for {wait}")

    def close(self) -> None:
        """Nobody's fault went unheard; what has ended is verified like any log, from its bytes alone."""
        for fault in self.world.loop.unheard() if self.world.calm else ():  # before that somebody may yet come to it
            self.world.fail("raised", f"nobody heard {fault!r}")
        for stream in self.world.streams:
            shelf = self.world.store.shelf(stream)
            if shelf.ended and self.world.seed % 4 == 0:
                verdict = verify(shelf.records, shelf.blobs, shelf.hash)
                self.need(verdict.ok and verdict.ended, "verify", str(verdict.problem))

    def key_of(self, stream: Stream, token: str) -> str | None:
        """The key of the action a person is asked about (`settle:SEQ`, `settle:SEQ:AGAIN`)."""
        seq = int(token.split(":")[1])
        return next((key for key, intent in self.docket(stream).keys.items() if intent.seq == seq), None)


SPLIT = ("completed", "budget_exhausted", "stalled")
