"""Everything a run needs, on one desk: a shelf for its log, scripts for model and tools, a clock moved by hand.

    desk = Desk([act("look"), act("submit", summary="done")])
    result = desk.start()

`Spelled` is a small interpreter for tests that need decisions no JSON text would give: a reply is a JSON list of
`["act", tool, args]`, `["reject", code, tool, subject]` and `["finish", text]`, one per decision.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any

from polyloop.kernel import run
from polyloop.kernel.driver import Driver, Seams
from polyloop.kernel.json_text import JsonText
from polyloop.kernel.objects import Agent, Budget, Request, RunResult, Segment, ToolSpec
from polyloop.kernel.records import bytes_text
from polyloop.kernel.seams import Act, Decided, Finish, Holder, Interpreter, Reject, Reply, Stream, Tools
from polyloop.kernel.verify import verify
from polyloop.kernel.view import materialise
from polyloop.testing import ManualClock, ScriptedActions, ScriptedModel, Toolset
from tests.kernel.shelf import Shelf
from tests.kernel.stuck import Idle

STREAM = Stream("local", "r1")
CLOSED = {"type": "object", "properties": {}, "additionalProperties": True}


def tool(name: str, effect: str = "read", replay: str = "", **more: Any) -> ToolSpec:
    """A tool of kind async; reads are rerun, others probed, unless it says otherwise."""
    more.setdefault("schema", CLOSED)
    more.setdefault("kind", "async")
    return ToolSpec(name, f"The tool {name}.", effect=effect, replay=replay or ("rerun" if effect == "read" else "probe"), **more)


LOOK = tool("look")
WRITE = tool("write", "write")
SUBMIT = tool("submit", "write", completes=True)
TOOLS = (LOOK, WRITE, SUBMIT)


def act(name: str, /, **args: Any) -> str:
    """A reply of json-text/1 that needs no repair."""
    return json.dumps({"reflection": "r", "plan": "p", "action": {"tool": name, "args": args}})


def spell(*decisions: list[Any]) -> str:
    return json.dumps(decisions)


class Spelled:
    """Reads replies that spell their decisions."""

    name = "json-text/1"

    def interpret(self, reply: Reply, tools: Tools) -> tuple[Decided, ...]:
        return tuple(self._one(*said) for said in json.loads(reply.text))

    def _one(self, branch: str, *rest: Any) -> Decided:
        if branch == "act":
            return Act(rest[0], rest[1] if len(rest) > 1 else {}, plain=False)
        if branch == "finish":
            return Finish(rest[0])
        code, name, subject = (*rest, "", "")[:3]
        return Reject(code, f"{code}!", name, str(subject))


class Desk:
    """One run on one shelf. `start` and `resume` are whole visits of one holder; `world` survives crashes."""

    def __init__(
        self,
        lines: Sequence[Any] | Callable[..., Any] = (),
        deeds: Mapping[str, Any] | None = None,
        *,
        tools: Sequence[ToolSpec] = TOOLS,
        shelf: Shelf | None = None,
        actions: ScriptedActions | None = None,
        interpreter: Interpreter | None = None,
        clock: Any = None,
        sinks: Sequence[Any] = (),
        grace_s: float = 0.1,
        request: Request | None = None,
        **budget: Any,
    ) -> None:
        self.log = Shelf() if shelf is None else shelf
        self.model = ScriptedModel(lines)
        self.actions = actions or ScriptedActions(deeds)
        self.tools = Toolset(*tools)
        self.interpreter = interpreter or JsonText()
        self.clock = clock or ManualClock()
        self.sinks = tuple(sinks)
        self.grace_s = grace_s
        self.request = request or self.ask_for(**budget)
        self.salts = count()
        self.driver: Driver | None = None
        self.visitors = count(1)

    @staticmethod
    def ask_for(valid_steps: int = 20, iterations: int = 40, **budget: Any) -> Request:
        return Request("r1", Agent("a"), Budget(valid_steps, iterations, **budget), (Segment("task", text="Do it."),))

    def seams(self, holder: str, kill: Callable[[Sequence[tuple[int, int]]], None] = lambda _: None) -> Seams:
        return Seams(
            self.log, self.model, self.interpreter, self.tools, self.actions, self.clock, lambda: f"{next(self.salts):032x}",
            Holder(holder, "host", "boot", 1, 1, 1 << 60), self.sinks, self.grace_s, kill, self._watch,
        )  # fmt: skip

    def _watch(self, driver: Driver) -> None:
        self.driver = driver

    async def starting(self) -> RunResult:
        return await run.start(self.request, self.seams(f"h{next(self.visitors)}"))

    async def resuming(self, accepted: Sequence[str] = ()) -> RunResult:
        seams = self.seams(f"h{next(self.visitors)}")
        return await run.resume(STREAM, self.request, seams, accepted)

    def start(self) -> RunResult:
        return go(self.starting())

    def resume(self, accepted: Sequence[str] = ()) -> RunResult:
        return go(self.resuming(accepted))

    def shown(self) -> list[dict[str, Any]]:
        """The log as people see it."""
        texts = {d: bytes_text(b) for d, b in self.log.texts.items()}
        return list(materialise(self.log.records, lambda t: t if isinstance(t, str) else texts[t.blob]))

    def steps(self) -> list[dict[str, Any]]:
        return [x for x in self.shown() if x["kind"] == "step"]

    def told(self, call: int = -1) -> str:
        """All that the model was shown at one of its calls."""
        return "\n".join(m.text for m in self.model.seen[call].messages)

    def check(self) -> None:
        """The log is whole and legal, and nobody is left holding the run."""
        verdict = verify(self.log.records, self.log.texts)
        assert verdict.ok, verdict.problem
        assert self.log.holder == ""


def go(work: Awaitable[Any], within_s: float = 20) -> Any:
    """Run one visit in an event loop of its own; afterwards no task of it may be left."""

    async def main() -> Any:
        async with asyncio.timeout(within_s):
            return await work

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(Idle())) as runner:
        return runner.run(main())
