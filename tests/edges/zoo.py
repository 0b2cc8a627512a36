"""Tools that do not behave, for runs in processes of their own; a copy of this file lies beside the request."""

import asyncio
import os
import subprocess
import sys
import threading
import time

import polyloop

LONG_S = 600


@polyloop.tool(effect="write", kind="async")
async def hang() -> str:
    await asyncio.sleep(LONG_S)
    return "never"


@polyloop.tool(effect="write", kind="async")
async def swallow() -> str:
    while True:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            continue


def tree() -> str:
    """A process with children and grandchildren, one of them in a session of its own."""
    child = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", child])
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    time.sleep(LONG_S)
    return "never"


@polyloop.tool(effect="read", kind="thread")
def thread() -> str:
    time.sleep(LONG_S)
    return "never"


async def silent(key: str, token: str | None, fence: bool) -> None:
    await asyncio.sleep(LONG_S)


@polyloop.tool(effect="write", replay="probe", settle=silent, kind="async")
async def probed() -> str:
    await asyncio.sleep(LONG_S)
    return "never"


@polyloop.tool(effect="read", kind="async")
async def nap(s: float) -> str:
    await asyncio.sleep(s)
    return "slept"


@polyloop.tool(effect="read", kind="async")
async def held(name: str) -> str:
    """Until the test has made a file of this name."""
    while name not in os.listdir():  # noqa: ASYNC110, PTH208
        await asyncio.sleep(0.01)
    return "let go"


@polyloop.tool(effect="read", kind="process", result_limit=4 << 20)
def flood(mb: int) -> str:
    return "x" * (mb << 20)


class Odd:
    pass


class OwnError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


VALUES = {
    "binary": bytes(range(256)) * 4, "not utf-8": b"ok \xff\xfe", "half a character": "a\ud800b", "nul": "\0\x1b[2J", "nan": float("nan"),
    "object": Odd(), "set": {1}, "deep": [[[[[]]]]], "none": None, "huge number": 10**400, "bytes as keys": {b"k": 1}, "empty": "",
}  # fmt: skip
FAULTS = [
    ValueError("v"), KeyError("k"), OSError(28, "No space left"), RuntimeError("\ud800"), AssertionError(), TypeError("t"), IndexError(),
    AttributeError("a"), ZeroDivisionError(), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), RecursionError(), MemoryError(), StopIteration(1),
    StopAsyncIteration(), TimeoutError("slow"), asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(3), GeneratorExit(), OwnError(),
    BaseExceptionGroup("g", [KeyboardInterrupt()]),
]  # fmt: skip


def gives(what: str) -> object:
    return VALUES[what]


@polyloop.tool(effect="write", kind="async")
async def gives_here(what: str) -> object:
    return VALUES[what]


def breaks(number: int) -> str:
    raise FAULTS[number]


@polyloop.tool(effect="write", kind="async")
async def breaks_here(number: int) -> str:
    raise FAULTS[number]


def dies(how: str) -> str:
    if how == "exit":
        os._exit(7)
    threading.Thread(target=lambda: os.kill(os.getpid(), 9)).start()
    time.sleep(LONG_S)
    return "never"
