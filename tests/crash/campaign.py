"""Real SIGKILLs of real processes on a store on disk, then: the same end, the same steps, no effect twice.

A warm parent forks one child per attempt. A child is killed either by its parent at a random moment, or by itself at an exact point:
right after a record of some kind was made (`emit`), or right after a batch ending with it became durable (`append`). Attempts go on
until the run ends; its log and the tools' own fsynced files are then compared with those of a run that was never killed.

    python -m tests.crash.campaign --random 300 --each 30
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polyloop
from polyloop.kernel import driver as driver_module
from polyloop.kernel.records import KIND_OF, Part
from polyloop.kernel.seams import Deferred, NotStarted, Outcome, Reply
from polyloop.stores.sqlite import SqliteLog

TAILS = ("model_intent", "model_result", "action_intent", "action_result", "step", "action_deferred", "action_resolved")
#: (tool, arguments) of the script, in order; None = a reply that is refused.
SCRIPT: tuple[tuple[str, dict[str, Any]] | None, ...] = (
    ("look", {"n": 1}),
    ("enter", {"text": "one"}),
    None,
    ("charge", {"text": "approved"}),
    ("enter", {"text": "two"}),
    ("look", {"n": 2}),
    ("note", {"text": "three"}),
    ("enter", {"text": "four"}),
    ("finish", {"text": "done"}),
)


class Model:
    async def call(self, request: Any) -> Reply:
        await asyncio.sleep(0.002)
        said = SCRIPT[request.reply_no - 1]
        tool, args = said or ("no_such_tool", {})
        return Reply(text=json.dumps({"reflection": "r", "plan": "p", "action": {"tool": tool, "args": args}}))


def tools(folder: Path) -> list[Any]:
    """Tools that keep their effects in files of their own; each line is `key text`, synced before it counts."""

    def write(name: str, key: str, text: str) -> None:
        fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, f"{key} {text}\n".encode())
        os.fsync(fd)
        os.close(fd)

    def lines(name: str) -> list[str]:
        path = folder / name
        return path.read_text().splitlines() if path.exists() else []

    async def settle(key: str, token: str | None, fence: bool) -> Any:
        found = any(line.startswith(key) for name in ("enter", "charge") for line in lines(name))
        return Outcome("ok", (Part(text="it is there"),)) if found else NotStarted()

    @polyloop.tool(effect="read", kind="async")
    async def look(n: int) -> str:
        """Look."""
        await asyncio.sleep(0.002)
        return f"seen {n}"

    @polyloop.tool(effect="write", replay="probe", kind="async", settle=settle)
    async def enter(text: str, context: polyloop.ToolContext) -> str:
        """Enter a line."""
        await asyncio.sleep(0.002)
        write("enter", context.key, text)
        await asyncio.sleep(0.002)
        return "it is there"

    @polyloop.tool(effect="write", replay="report_unknown", kind="async")
    async def note(text: str, context: polyloop.ToolContext) -> str:
        """Note a line; nobody can be asked about it."""
        await asyncio.sleep(0.002)
        write("note", context.key, text)
        await asyncio.sleep(0.002)
        return "noted"

    @polyloop.tool(effect="pay", replay="probe", kind="async", settle=settle, defers=True)
    async def charge(text: str, context: polyloop.ToolContext) -> Any:
        """Charge, once a person has said yes."""
        if not (folder / f"approved-{context.key}").exists():
            return Deferred(f"ap-{context.key}", "approval")
        write("charge", context.key, text)
        await asyncio.sleep(0.002)
        return "it is there"

    @polyloop.tool(effect="read", kind="async", completes=True)
    async def finish(text: str) -> str:
        """Finish."""
        return text

    return [look, enter, note, charge, finish]


def arm(point: str, number: int) -> None:
    """Make this process kill itself at the n-th record of a kind: when it is made, or when a batch ending with it is durable."""
    where, _, kind = point.partition(":")
    seen = Counter[str]()

    def count(found: str) -> None:
        if found == kind:
            seen[kind] += 1
            if seen[kind] == number:
                os.kill(os.getpid(), signal.SIGKILL)

    if where == "emit":
        emit = driver_module.Driver.emit

        def emitting(self: Any, record: Any) -> None:
            emit(self, record)
            count(KIND_OF[type(record)])

        driver_module.Driver.emit = emitting  # type: ignore[method-assign]  # the switch this campaign is about
    elif where == "append":
        append = SqliteLog.append

        async def appending(self: Any, stream: Any, records: Any, fence: int, blobs: Any) -> int:
            told = await append(self, stream, records, fence, blobs)
            count(records[-1].kind)
            return told

        SqliteLog.append = appending  # type: ignore[method-assign]  # the switch this campaign is about


def child(folder: Path, point: str, number: int) -> None:
    arm(point, number)

    async def go() -> None:
        async with polyloop.open_store(folder / "runs.db") as store:
            request = polyloop.Request("r", polyloop.Agent("a"), polyloop.Budget(50, 400, max_recoveries=10_000))
            result = await polyloop.run(request, store=store, model=Model(), tools=tools(folder))
            if result.waiting is not None:
                key = result.waiting.token.removeprefix("ap-")
                (folder / f"approved-{key}").touch()
                await store.resolve("r", result.waiting.token, "approved", "test")

    asyncio.run(go())


def attempt(folder: Path, point: str, number: int, kill_after_s: float) -> int:
    """One child; returns its exit status (-9 = killed)."""
    pid = os.fork()
    if pid == 0:
        try:
            child(folder, point, number)
        except BaseException as error:
            sys.stderr.write(f"child failed: {type(error).__name__}: {error}\n")
            os._exit(1)
        os._exit(0)
    if kill_after_s:
        time.sleep(kill_after_s)
        with contextlib.suppress(ProcessLookupError):  # it was quicker
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


async def facts(folder: Path) -> dict[str, Any]:
    """What the log and the tools' files say of a finished run."""
    async with polyloop.open_store(folder / "runs.db") as store:
        read, verdict = await store.read("r"), await store.verify("r")
    from polyloop.kernel.view import materialise

    records = list(materialise(read.sealed, read.look))
    steps = [(x["tool"], json.dumps((x["action"] or {}).get("args"), sort_keys=True), x["outcome"]) for x in records if x["kind"] == "step"]
    recalls = sum(1 for x in records if x["kind"] == "replay" and x["decision"] == "recall")
    effects = {n: [line.split()[0] for line in (folder / n).read_text().splitlines()] for n in ("enter", "note", "charge") if (folder / n).exists()}
    result = read.result
    return {
        "ok": verdict.ok, "reason": result.reason, "by": result.completed_by, "result": result.result, "steps": steps, "recalls": recalls,
        "valid": result.counters.valid_steps, "iterations": result.counters.iterations, "effects": effects,
    }  # fmt: skip


def ended(folder: Path) -> bool:
    return asyncio.run(_state(folder)) == "ended"


async def _state(folder: Path) -> str:
    async with polyloop.open_store(folder / "runs.db") as store:
        return (await store.read("r")).result.state


def problems(found: dict[str, Any], clean: dict[str, Any]) -> list[str]:
    """Where a killed run differs from one that was never killed."""
    out = [f"{k}: {found[k]!r}, not {clean[k]!r}" for k in ("ok", "reason", "by", "result", "valid") if found[k] != clean[k]]
    for (tool, args, status), (tool0, args0, status0) in zip(found["steps"], clean["steps"], strict=False):
        lost = tool == "note" and status == "unknown"
        if (tool, args) != (tool0, args0) or (status != status0 and not lost):
            out.append(f"step {tool} {args} {status}, not {tool0} {args0} {status0}")
    if len(found["steps"]) != len(clean["steps"]):
        out.append(f"{len(found['steps'])} steps, not {len(clean['steps'])}")
    if found["iterations"] != clean["iterations"] + found["recalls"]:
        out.append(f"{found['iterations']} iterations with {found['recalls']} recalls, not {clean['iterations']}")
    for name, keys in found["effects"].items():
        doubled = [k for k, n in Counter(keys).items() if n > 1]
        if doubled:
            out.append(f"{name}: effects twice for {doubled}")
        if name != "note" and len(keys) != len(clean["effects"][name]):
            out.append(f"{name}: {len(keys)} effects, not {len(clean['effects'][name])}")
    return out


def campaign(random_kills: int, each: int, seed: int) -> dict[str, Any]:
    """Run until there were enough kills of every kind. Returns counts and problems."""
    rng, kills, runs, bad = random.Random(seed), Counter[str](), 0, list[str]()
    root = Path(tempfile.mkdtemp(prefix="polyloop-crash-"))
    try:
        clean_folder = root / "clean"
        clean_folder.mkdir()
        while attempt(clean_folder, "", 0, 0.0) == 0 and not ended(clean_folder):
            pass
        clean = asyncio.run(facts(clean_folder))
        wanted = {f"{where}:{kind}": each for kind in TAILS for where in ("emit", "append")} | {"random": random_kills}
        wanted |= {f"append:{kind}": 0 for kind in ("model_result", "action_result", "step")}  # never the last record of a batch
        while any(kills[k] < n for k, n in wanted.items()):
            folder = root / f"r{runs}"
            folder.mkdir()
            runs += 1
            done = False
            while not done:
                short = [k for k, n in wanted.items() if kills[k] < n]
                point = rng.choice(short) if short else ""
                status = attempt(folder, point, rng.randint(1, 3), rng.uniform(0.005, 0.09) if point == "random" else 0.0)
                if status == -signal.SIGKILL:
                    kills[point] += 1
                elif status != 0:
                    bad.append(f"run {runs}: a child left with {status}")
                done = status == 0 and ended(folder)
            bad += [f"run {runs}: {p}" for p in problems(asyncio.run(facts(folder)), clean)]
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return {"kills": dict(sorted(kills.items())), "total": sum(kills.values()), "runs": runs, "problems": bad}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", type=int, default=300)
    parser.add_argument("--each", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    told = campaign(asked.random, asked.each, asked.seed)
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
    sys.exit(1 if told["problems"] else 0)
