"""The simulated model: a script of replies, valid, damaged and pointless, and a line that drops them. The interpreters are real."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import TYPE_CHECKING

from polyloop.kernel.json_text import JsonText
from polyloop.kernel.native_tools import NativeTools
from polyloop.kernel.objects import Json
from polyloop.kernel.records import ToolCall
from polyloop.kernel.seams import Decided, Interpreter, ModelCallFailed, ModelRequest, Reply, Stream, Tools

from .loop import Life
from .service import stubborn

if TYPE_CHECKING:
    from .world import World


class Broken(Exception):
    """What an interpreter with a bug raises."""


class Fragile:
    """An interpreter with a bug: a certain word breaks it."""

    def __init__(self, sound: Interpreter) -> None:
        self.name, self._sound = sound.name, sound

    def interpret(self, reply: Reply, tools: Tools) -> tuple[Decided, ...]:
        if reply.text == "break":
            raise Broken(reply.text)
        return self._sound.interpret(reply, tools)


INTERPRETERS: dict[str, Interpreter] = {sound.name: Fragile(sound) for sound in (JsonText(), NativeTools())}


def script(rng: Random, protocol: str, tools: list[str], marker: str) -> list[Reply]:
    """What this model will say, in order. Some ask for the completing tool early, some never."""
    wild = rng.choice((0.05, 0.3, 0.8))
    write = _native if protocol == "native-tools/1" else _text
    replies: list[Reply] = []
    for k in range(14):
        last = k > 3 and rng.random() < 0.25
        replies.append(write(rng, tools, f"{marker} {k}", wild, last=last))
    if rng.random() < 0.15:  # some models are stuck
        at = rng.randrange(1, 6)
        replies[at:] = [replies[at]] * 8
    return replies


def _args(rng: Random) -> dict[str, Json]:
    args: dict[str, Json] = {"n": rng.randrange(9)}
    if rng.random() < 0.08:
        args["text"] = "long " * 300
    return args


def _text(rng: Random, tools: list[str], said: str, wild: float, *, last: bool) -> Reply:
    tool = "submit" if last and "submit" in tools else rng.choice(tools)
    whole = json.dumps({"reflection": said, "plan": "go on", "action": {"tool": tool, "args": _args(rng)}})
    if rng.random() < wild / 20:
        return Reply(text="break")
    if rng.random() >= wild:
        return Reply(text=whole if rng.random() < 0.7 else f"```json\n{whole}\n```")
    return rng.choice(
        (
            Reply(text=whole[: rng.randrange(len(whole))]),
            Reply(text=whole, finish_reason="length"),
            Reply(text=whole.replace('"args"', '"argz"')),
            Reply(text=json.dumps({"action": {"tool": tool}})),
            Reply(text='{"action": {"tool": "dig", "args": {}}}'),
            Reply(text=json.dumps({"action": {"tool": tool, "args": {"n": "one"}}})),
            Reply(text=whole + "\n" + whole.replace(said, "other").replace('"n"', '"m"')),
            Reply(text=f"I think {said} \ud800 is best."),
            Reply(text=f"Sure: {whole[:-1]},}}"),
        )
    )


def _native(rng: Random, tools: list[str], said: str, wild: float, *, last: bool) -> Reply:
    if last and "submit" not in tools:
        return Reply(text=f"final {said}")
    if rng.random() < wild / 10:
        return Reply(text=rng.choice(("", "break", said)))
    names = ["submit"] if last else [rng.choice([*tools, "look", "peek"]) for _ in range(rng.choice((1, 1, 2, 3, 4)))]
    calls: list[ToolCall] = []
    for i, name in enumerate(names):
        bad = rng.random() < wild
        calls.append(
            ToolCall(
                f"c{i * (rng.random() > wild / 20)}",
                "dig" if bad and rng.random() < 0.5 else name,
                "{" if bad and rng.random() < 0.5 else json.dumps(_args(rng)),
            )
        )
    return Reply(text=said, tool_calls=tuple(calls))


class SimModel:
    """`seams.Model` as one process sees it."""

    def __init__(self, world: World, life: Life, stream: Stream, replies: list[Reply]) -> None:
        self.world, self.life, self.stream, self.replies = world, life, stream, replies

    async def call(self, request: ModelRequest) -> Reply:
        world = self.world
        answer = world.loop.create_future()
        if not self.life.alive:
            await answer
        world.judge.asked_model(self.life, self.stream, request)
        world.crash_maybe(self.life, "crash at a model call")
        if world.chance("model not reached"):
            world.judge.not_sent(self.stream)
            raise ModelCallFailed("connect", sent=False)
        if world.chance("model hangs"):
            world.when_calm(_wake, answer)
        else:
            slow = 30.0 if world.chance("model slow") else 1.0
            world.loop.later(world.delay(slow), _wake, answer)
        await (stubborn(answer) if world.chance("model ignores cancel") else answer)
        world.crash_maybe(self.life, "crash before a model's reply")
        if world.chance("model fails"):
            raise ModelCallFailed("overloaded")
        if world.chance("model raises"):
            raise ValueError("the adapter has a bug")
        return self.replies[(request.reply_no - 1) % len(self.replies)]


def _wake(answer: asyncio.Future[None]) -> None:
    if not answer.done():
        answer.set_result(None)
