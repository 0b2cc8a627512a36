"""The simulated services behind the tools, and the people who approve, answer and settle.

Theory of operation. A dispatched action travels, arrives, takes effect or not, and its answer travels back; each part may
fail on its own, and only the sender waits. The ledger counts effects by key: it is the truth that results are judged by.
`settle` reads the ledger; asked with `fence` it shuts the door to every attempt up to the one named. People read deferrals
from the durable log and leave signals, at any moment: at once, in the instant of a release, after the deadline, twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from polyloop.kernel.objects import Json, ToolSpec
from polyloop.kernel.records import Part
from polyloop.kernel.seams import Action, Deferred, NotStarted, Outcome, Pending, Settled, Signal, Stream, Unknown

from .grammar import MAY_SAY
from .loop import Life

if TYPE_CHECKING:
    from .world import World

SCHEMA: dict[str, Json] = {"type": "object", "properties": {"n": {"type": "integer"}, "text": {"type": "string"}}, "required": ["n"]}


def _tool(name: str, effect: Any, replay: Any, **more: Any) -> ToolSpec:
    return ToolSpec(name, f"{name} a thing", SCHEMA, effect=effect, replay=replay, kind="async", **more)


TOOLS: dict[str, ToolSpec] = {
    t.name: t
    for t in (
        _tool("look", "read", "rerun", max_argument_failures=2),
        _tool("peek", "read", "rerun", timeout_s=6),
        _tool("put", "write", "rerun"),  # the service honours the key
        _tool("save", "write", "probe", timeout_s=9, max_argument_failures=1),
        _tool("send", "write", "report_unknown"),
        _tool("mail", "write", "ask"),
        _tool("burn", "write", "never"),
        _tool("pay", "pay", "probe"),
        _tool("sign", "write", "probe", defers=True),  # after an approval
        _tool("buy", "pay", "probe", defers=True),  # after an approval, then a task
        _tool("make", "write", "probe", defers=True),  # a task
        _tool("inquire", "read", "probe", defers=True),  # a form for a person
        _tool("win", "write", "probe"),  # the environment may say DONE
        _tool("submit", "read", "rerun", completes=True),
    )
}


class Narrow:
    """`seams.Tools`: the tools of one run."""

    def __init__(self, names: Sequence[str]) -> None:
        self.specs: Mapping[str, ToolSpec] = {name: TOOLS[name] for name in names}

    def described(self, name: str) -> Narrow:
        """The same tools, one of them described otherwise."""
        other = Narrow(list(self.specs))
        other.specs = {**self.specs, name: replace(self.specs[name], description=self.specs[name].description + "!")}
        return other

    def problems(self, tool: str, args: Json) -> Sequence[dict[str, Json]]:
        given = cast("dict[str, Json]", args)
        wrong = [k for k in given if k not in ("n", "text")] + ([] if isinstance(given.get("n"), int) else ["n"])
        return [{"path": k, "issue": "is wrong"} for k in wrong]


class Bail(BaseException):
    """What a rude tool raises."""


class Request(Struct, eq=False):
    """A dispatched action on its way."""

    sender: Life
    action: Action
    fate: str
    answer: asyncio.Future[Any]
    lost: bool = False


#: How a dispatch may go wrong, drawn in this order.
FATES = (
    "refused", "raises before", "raises after commit", "reply lost", "request lost", "hangs before", "hangs after commit", "ignores cancel",
    "bails out", "signal unavailable",
)  # fmt: skip


class SimService:
    """The ledger: what really happened, by idempotency key."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.effects: Counter[str] = Counter()
        self.outcomes: dict[str, Outcome] = {}
        self.fenced: dict[str, int] = {}
        self.task_ends: dict[str, float] = {}
        self.requests: dict[Request, None] = {}

    def send(self, sender: Life, action: Action) -> Request:
        world = self.world
        fate = next((f for f in FATES if world.chance(f"tool {f}")), "")
        request = Request(sender, action, fate, world.loop.create_future())
        self.requests[request] = None
        slow = 40.0 if world.chance("tool slow") else 0.4
        world.loop.later(world.delay(slow), self._arrive, request)
        return request

    def _arrive(self, request: Request) -> None:
        self.requests.pop(request)
        if request.lost or request.fate in ("request lost", "hangs before", "raises before", "bails out"):
            answer: Any = {"raises before": RuntimeError("no connection"), "bails out": Bail("rude")}.get(request.fate, Outcome("unknown"))
        else:
            answer = self._act(request.action, request.fate)
        if request.fate.startswith("hangs"):
            self.world.when_calm(self._reply, request, answer)
        else:
            self.world.loop.later(self.world.delay(0.2), self._reply, request, answer)

    def _act(self, action: Action, fate: str) -> Outcome | Deferred | Exception:
        """The instant at which the service does it, or does not."""
        key, tool = action.key, action.tool
        if action.attempt <= self.fenced.get(key, 0):
            return Outcome("not_executed", code="fenced")
        if tool == "inquire":
            return self._wait_for(action, "answer")
        if tool in ("sign", "buy") and not action.approved:
            return self._wait_for(action, "approval")
        if tool == "put" and key in self.outcomes:
            return self.outcomes[key]
        if fate == "refused":
            self.outcomes[key] = Outcome("error", (Part(text="refused"),), code="refused")
            return self.outcomes[key]
        if TOOLS[tool].effect != "read":
            self.effects[key] += 1
            self.world.judge.took_effect(action)
        self.outcomes[key] = self._done(action, fate)
        if tool in ("make", "buy"):
            self.task_ends.setdefault(key, self.world.loop.time() + self.world.delay(20))
            self.world.people.task_ends(action, self.task_ends[key])
            return Deferred(f"t:{key}", "task", self.world.deadline_ms(), dispatched=True)
        if fate == "raises after commit":
            return RuntimeError("connection reset")
        return Outcome("unknown") if fate == "reply lost" else self.outcomes[key]

    def _done(self, action: Action, fate: str) -> Outcome:
        text = (Part(text=f"{self.world.marker(action.scope)} did {action.tool} {action.args['n']}"),)
        if action.tool == "win" and cast(int, action.args["n"]) % 3 == 0:
            return Outcome("ok", text, "DONE", result={"won": action.args["n"]})
        return Outcome("ok", text, "UNAVAILABLE" if fate == "signal unavailable" else "NOT_DONE")

    def _wait_for(self, action: Action, what: Any) -> Deferred:
        token, until = f"{what}:{action.key}", self.world.deadline_ms()
        if self.world.chance("decided before the deferral is logged"):
            self.world.people.decide(Stream(action.scope, action.run_id), token, what)
        return Deferred(token, what, until)

    def _reply(self, request: Request, answer: Any) -> None:
        self.world.crash_maybe(request.sender, "crash before a tool's reply")
        if not request.answer.done():
            request.answer.set_exception(answer) if isinstance(answer, BaseException) else request.answer.set_result(answer)

    def settle(self, action: Action, *, fence: bool, answer: asyncio.Future[Any]) -> None:
        if answer.done():
            return
        key = action.key
        if self.world.chance("settle raises"):
            answer.set_exception(RuntimeError("the service is away"))
        elif self.world.chance("settle cannot tell"):
            answer.set_result(Unknown())
        elif self.world.loop.time() < self.task_ends.get(key, 0):
            answer.set_result(Pending(f"t:{key}", self.world.deadline_ms()))
        elif key in self.outcomes:
            answer.set_result(self.outcomes[key])
        else:
            if fence:
                self.fenced[key] = action.attempt
            answer.set_result(NotStarted())

    def crashed(self, life: Life) -> None:
        for request in self.requests:
            if request.sender is life:
                request.lost = request.lost or self.world.coin()


class SimTools:
    """`seams.Actions` as one process sees it."""

    def __init__(self, service: SimService, life: Life, *, promises_completion: bool) -> None:
        self.service, self.life, self.promises_completion = service, life, promises_completion

    async def execute(self, action: Action) -> Outcome | Deferred:
        world = self.service.world
        if not self.life.alive:
            await world.loop.create_future()
        world.judge.dispatched(self.life, action)
        request = self.service.send(self.life, action)
        world.crash_maybe(self.life, "crash at a dispatch")
        if request.fate == "ignores cancel":
            return await stubborn(request.answer)
        outcome = await request.answer
        world.judge.heard(self.life, action)
        return outcome

    async def settle(self, action: Action, token: str | None, fence: bool = False) -> Settled:  # noqa: FBT001, FBT002  # the seam's signature
        world = self.service.world
        answer = world.loop.create_future()
        if not self.life.alive:
            await answer
        if world.chance("settle hangs"):
            world.when_calm(lambda: self.service.settle(action, fence=fence, answer=answer))
        else:
            world.loop.later(world.delay(0.3), lambda: self.service.settle(action, fence=fence, answer=answer))
        return await (stubborn(answer) if world.chance("settle ignores cancel") else answer)


async def stubborn(answer: asyncio.Future[Any]) -> Any:
    """Wait for it, whoever asks to stop."""
    while True:
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            await asyncio.sleep(5.0)


#: What a person says to a wait, and what only one says who is confused.
SAYS = {"approval": ("approved", "approved", "denied"), "answer": ("answered", "answered", "denied")}
NONSENSE = ("approved", "answered", "finished", "nonsense")


class People:
    """Everyone outside: they see the log and leave signals."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.open: dict[Stream, tuple[str, str]] = {}
        self.answered: set[str] = set()
        self.silent: set[str] = set()

    def deferred(self, stream: Stream, token: str, awaited: str, until: int) -> None:
        """A deferral has become durable."""
        world = self.world
        self.open[stream] = (token, awaited)
        self.answered.discard(token)
        wait_s = world.delay(30.0)
        if awaited == "settle":
            wait_s += 60  # looks after everything on its way has arrived
        elif until and world.chance("decided after the deadline"):
            wait_s = max(0.0, (until - world.now_ms()) / 1000) + world.delay(5)
        elif awaited in SAYS and world.chance("nobody decides"):
            self.silent.add(token)
            return
        if awaited != "task":  # of which the service tells
            world.loop.later(wait_s, self.decide, stream, token, awaited)
            if world.chance("decided twice"):
                world.loop.later(wait_s + world.delay(3), self.decide, stream, token, awaited, "again")

    def at_the_moment(self, verb: str, stream: Stream) -> None:
        """A batch is just being committed, or the run let go."""
        if verb == "append":
            for kind in ("cancel", "suspend"):
                if self.world.chance(f"{kind} in the moment of a commit"):
                    self.stop(stream, kind)
            return
        token, awaited = self.open.get(stream, ("", ""))
        if awaited in SAYS and token not in self.answered and self.world.chance("decided in the moment of release"):
            self.decide(stream, token, awaited)

    def task_ends(self, action: Action, when: float) -> None:
        stream, token = Stream(action.scope, action.run_id), f"t:{action.key}"
        said = Signal(0, "resolve", 0, "service", token, "finished") if self.world.coin() else Signal(0, "poll", 0, "service")
        self.world.loop.later(when - self.world.loop.time() + 0.01, self.world.store.signal, stream, said)

    def stop(self, stream: Stream, kind: Any) -> None:
        self.world.store.signal(stream, Signal(0, kind, 0, "person"))
        if kind == "cancel":
            self.world.judge.docket(stream).cancelled_at = self.world.loop.time()

    def decide(self, stream: Stream, token: str, awaited: str, again: str = "") -> None:
        words = SAYS.get(awaited) or self._found(stream, token)
        if not words or (token in self.answered and not again):
            return
        if self.world.chance("says what makes no sense"):
            self.world.loop.later(self.world.delay(20), self.decide, stream, token, awaited)
            decision = self.world.pick([word for word in NONSENSE if word not in MAY_SAY[awaited]])
        else:
            decision = self.world.pick(words)
            self.answered.add(token)
        body: Json = {"said": self.world.marker(stream.scope)} if decision == "answered" else None
        self.world.note("decides", f"{token} {decision}")
        self.world.store.signal(stream, Signal(0, "resolve", 0, "person", token, decision, body))

    def _found(self, stream: Stream, token: str) -> tuple[str, ...]:
        """What a person finds who looks what became of an action; nothing if its records have rotted meanwhile."""
        key = self.world.judge.key_of(stream, token)
        return () if key is None else ("finished",) if self.world.service.effects[key] else ("denied", "approved")
