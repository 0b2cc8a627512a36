"""Tools that behave in every way a tool may: the animals of the tool zoo. Workers load this file."""

from __future__ import annotations

import asyncio
import ctypes
import dataclasses
import datetime as dt
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from polyloop.contract.problem import problem
from polyloop.kernel.records import Part
from polyloop.kernel.seams import Deferred, NotStarted, Outcome, Pending, Unknown
from polyloop.toolbox import ToolContext, ToolFailed, tool


class Row(TypedDict):
    x: int
    note: Annotated[str, "a remark"]


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.5


@tool(effect="read")
def shapes(point: Point, rows: list[Row], mode: Literal["fast", "slow"] = "fast", limit: int | None = None) -> dict[str, object]:
    """Show what arrived.

    Types survive the journey.
    """
    return {"point": repr(point), "rows": rows, "mode": mode, "limit": repr(limit)}


def plain(text: str) -> str:
    """An undecorated function."""
    return text


@tool(effect="read")
def whoami(context: ToolContext) -> list[object]:
    return [context.key, context.run_id, context.call, context.cancelled]


@tool(effect="read")
def give(what: str) -> object:
    return {
        "none": None, "text": "caf\u00e9 \U0001f600", "bytes": "plain \u4e2d".encode(), "raw": b"ab\xff\x00\xfe", "tuple": (1, (2, 3)),
        "date": dt.date(2026, 1, 2), "point": Point(1), "nan": float("nan"), "keys": {1: 2}, "object": object(), "surrogate": "a\ud800b",
        "outcome": Outcome("error", (Part(text="said so"),), code="mine"), "broken": Outcome("fine"), "deferred": Deferred("t", "task"),
        "big": 10**30,
    }[what]  # fmt: skip


@tool(effect="write")
def give_object() -> object:
    return object()


@tool(effect="pay", replay="never")
def defer_undeclared() -> Deferred:
    return Deferred("t", "task", dispatched=True)


def settle_by_key(key: str, token: str | None, fence: bool) -> object:
    return {
        "done": {"done": token, "fence": fence}, "none": None, "not": NotStarted(), "pending": Pending("t2"), "unknown": Unknown(),
        "odd": object(),
    }.get(key) or (1 / 0 if key == "raise" else os._exit(3) if key == "die" else None)  # fmt: skip


@tool(effect="pay", settle=settle_by_key, defers=True)
def charge(cents: int) -> object:
    return Deferred(f"charge-{cents}", "task", until=7, dispatched=True)


class Odd(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class OddBase(BaseException):
    pass


EXCEPTIONS = {
    "value": lambda: ValueError("bad"), "odd": Odd, "odd_base": lambda: OddBase("base"), "exit": lambda: SystemExit(0),
    "exit_text": lambda: SystemExit("bye"), "keyboard": KeyboardInterrupt, "generator": GeneratorExit, "cancelled": asyncio.CancelledError,
    "stop": lambda: StopIteration(3), "stop_async": StopAsyncIteration, "memory": MemoryError, "recursion": RecursionError,
    "os": lambda: OSError(5, "io"), "timeout": TimeoutError, "unicode": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad byte"),
    "group": lambda: ExceptionGroup("several", [ValueError("one")]), "failed": lambda: ToolFailed("no such account"),
    "failed_empty": ToolFailed, "problem": lambda: problem("not_found", "no file", details={"path": "x"}),
    "unknown": lambda: problem("commit_unknown", "sent, no reply", execution_started=None),
    "surrogate": lambda: ValueError("\ud800"), "long": lambda: ValueError("x" * 1_000_000), "class": lambda: OddBase,
}  # fmt: skip


def made(name: str) -> BaseException:
    error = EXCEPTIONS[name]()
    return error() if isinstance(error, type) else error


@tool(effect="write")
def throw(name: str) -> None:
    raise made(name)


@tool(effect="write")
async def throw_async(name: str) -> None:
    await asyncio.sleep(0)
    raise made(name)


@tool(effect="read", kind="thread")
def throw_in_thread(name: str) -> None:
    raise made(name)


def die(how: str) -> None:
    """End the process in the middle of the call."""
    print("so far", flush=True)
    if how == "exit":
        os._exit(3)
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "segfault":
        ctypes.string_at(0)
    elif how == "thread":
        threading.Thread(target=os._exit, args=(4,)).start()
        time.sleep(10)


@tool(effect="read")
def die_reading(how: str) -> None:
    die(how)


@tool(effect="read", result_limit=1000)
def flood(size: int, how: str = "text") -> object:
    return {"text": lambda: "\u4e2d" * (size // 3), "bytes": lambda: b"\xff" * size, "json": lambda: ["x" * 1000] * (size // 1000)}[how]()


@tool(effect="read")
def chatter(size: int, fail: bool = False) -> str:
    print("said \u4e2d")
    print("x" * size)
    sys.stderr.write("e" * size + "last words\n")
    subprocess.run(["echo", "child"], check=True)
    if fail:
        raise ToolFailed("failed")
    return "value"


@tool(effect="write")
def hang(folder: str, tree: str = "none") -> None:
    """Leave a pid file per process, start a tree, and hang."""
    Path(folder, f"worker-{os.getpid()}").touch()
    script = f"import os,time,pathlib; pathlib.Path({folder!r}, f'child-{{os.getpid()}}').touch(); time.sleep(600)"
    if tree == "group":
        subprocess.Popen([sys.executable, "-c", script])
    if tree == "away":  # a child that leaves the session, and one it orphans
        again = f"import subprocess,sys; subprocess.Popen([sys.executable, '-c', {script!r}], start_new_session=True)"
        subprocess.Popen([sys.executable, "-c", again], start_new_session=True)
    if tree == "deaf":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if tree == "fork" and os.fork() == 0:
        Path(folder, f"child-{os.getpid()}").touch()
    time.sleep(600)


@tool(effect="read")
def fork_and_return() -> str:
    os.fork()
    return "once"


@tool(effect="write")
def garble(what: str) -> None:
    """Write into the protocol's own socket."""
    for fd in range(3, 64):
        try:
            socket.socket(fileno=os.dup(fd)).sendall(what.encode())
        except OSError:
            continue


@tool(effect="read")
def where() -> list[object]:
    return [os.getpid(), str(Path.cwd())]


@tool(effect="read")
def read_stdin() -> str:
    return repr(sys.stdin.read())


@tool(effect="write")
def append(path: str, line: str, delay_s: float = 0.0) -> str:
    time.sleep(delay_s)
    with Path(path).open("a") as f:
        f.write(line + "\n")
    return "appended"


@tool(effect="read", kind="thread")
def wait_for_stop(folder: str, context: ToolContext) -> str:
    while not context.cancelled:
        time.sleep(0.01)
    Path(folder, "stopped").touch()
    return "stopped"


@tool(effect="write", kind="thread", interruptible=False)
def slow_write(path: str) -> str:
    time.sleep(0.3)
    Path(path).write_text("whole")
    return "written"


@tool(effect="read")
async def wait_forever(folder: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        Path(folder, "cleaned").touch()  # noqa: ASYNC240  # quick


async def settle_async(key: str, token: str | None, fence: bool) -> object:
    await asyncio.sleep(0)
    return settle_by_key(key, token, fence)


@tool(effect="write", settle=settle_async)
async def async_probed() -> str:
    return "ok"


@tool(effect="read", kind="thread", replay="probe", settle=settle_by_key)
def thread_probed() -> str:
    return "ok"
