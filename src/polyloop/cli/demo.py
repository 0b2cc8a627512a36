"""`polyloop demo`: a run is killed in the middle of a write, resumed by another process, and proved."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from polyloop.contract.problem import problem
from polyloop.words.catalog import say

from .frame import Place, carry_out

FILES: Final = ("request.toml", "replies.jsonl", "ledger_tools.py")
#: Seconds to wait for the write that is to be interrupted.
PATIENCE_S: Final = 60.0


def demo(
    place: Place,
    folder: Annotated[Path, typer.Option("--dir", help="Folder to work in.")] = Path("polyloop-demo"),
) -> None:
    """A run killed with SIGKILL in the middle of a write, resumed, verified. Offline, in seconds."""

    async def work() -> dict[str, Any]:
        return story(place, folder.resolve())

    told = carry_out(place, work)
    if place.as_json:
        place.print_json(told)


def story(place: Place, folder: Path) -> dict[str, Any]:
    """Play it and tell it. Returns the facts."""

    def tell(code: str, **values: object) -> None:
        if not place.as_json:
            sys.stdout.write(say(f"demo.{code}", place.lang, **values) + "\n")
            sys.stdout.flush()

    _prepare(folder)
    ledger, run_id = folder / "ledger.txt", f"demo-{time.strftime('%H%M%S')}-{os.getpid()}"
    tell("begin", run=run_id)
    worker = subprocess.Popen(_command("run", "request.toml", "--run-id", run_id, "--json"), cwd=folder, stdout=subprocess.DEVNULL)
    _wait_for_entries(worker, ledger, 2)
    worker.send_signal(signal.SIGKILL)
    status = worker.wait()
    tell("killed", pid=worker.pid, status=status)
    _, log = _run("log", run_id, "--jsonl", folder=folder)
    tail = [json.loads(line)["kind"] for line in log.splitlines()][-1]
    tell("tail", kind=tail)
    code, out = _run("resume", run_id, "--json", folder=folder)
    result = json.loads(out)
    _, log = _run("log", run_id, "--jsonl", folder=folder)
    records = [json.loads(line) for line in log.splitlines()]
    replays = [x for x in records if x["kind"] == "replay"]
    for replay in replays:
        tell("replay", policy=replay["policy"], of=replay["of"])
    for record in records:
        if record["kind"] == "step":
            tell("step", seq=record["seq"], tool=record["tool"], outcome=record["outcome"], repairs=", ".join(record["repairs"]) or "-")
    entries = ledger.read_text().splitlines()
    tell("ended", reason=result["reason"], entries=len(entries), unique=len(set(entries)))
    verified, out = _run("verify", run_id, "--head", result["headHash"], "--json", folder=folder)
    verdict = json.loads(out)
    tell("verified", records=verdict["records"], head=verdict["headHash"])
    tell("look", folder=folder, run=run_id)
    if code or verified or tail != "action_intent" or len(entries) != 3 or not replays:
        raise problem("task_failed", "the demonstration did not go as it should", operation="demo", details={"result": result, "tail": tail})
    facts = {"runId": run_id, "workerStatus": status, "tailAfterKill": tail, "replays": replays, "entries": len(entries)}
    return {"schema": "polyloop.demo.v1", **facts, "result": result, "verify": verdict, "dir": str(folder)}


def _prepare(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ledger.txt").unlink(missing_ok=True)
    for name in FILES:
        with resources.as_file(resources.files("polyloop.demo") / name) as shipped:
            shutil.copyfile(shipped, folder / name)


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "polyloop.cli.main", *words, "--store", "runs.db", "--tenant", "local"]


def _run(*words: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(_command(*words), cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def _wait_for_entries(worker: subprocess.Popen[bytes], ledger: Path, count: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while not ledger.exists() or ledger.read_text().count("\n") < count:
        if time.monotonic() > until or worker.poll() is not None:
            raise problem("task_failed", "the worker did not come as far as the write that was to be interrupted", operation="demo")
        time.sleep(0.01)
