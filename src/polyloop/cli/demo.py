"""`polyloop demo [FILE]`: the main job before your eyes. A document is audited, its worker is killed in the middle of a write,
another process goes on, and the log shows what happened.

Nothing is staged but the moment: the worker's disk is slow at one file (`slow_audit`), so that the kill meets an open intent.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from polyloop.app.store import read_runs
from polyloop.clock import SystemClock
from polyloop.contract.problem import problem
from polyloop.formats import read
from polyloop.kernel.view import materialise
from polyloop.words.catalog import say

from .frame import Place, carry_out, run_json

#: The write that is interrupted.
VICTIM: Final = "findings/amounts.json"
PATIENCE_S: Final = 60.0
PAUSE_S: Final = 120
SHOWN_FINDINGS: Final = 5


def demo(
    place: Place,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A document of yours (md, txt, docx, pdf); else the shipped sample.")] = None,
    folder: Annotated[Path, typer.Option("--dir", help="Folder to work in.")] = Path("polyloop-demo"),
) -> None:
    """Audit a document, kill the worker with SIGKILL in the middle of a write, go on, show the proof. Offline, in seconds."""
    with as_file(files("polyloop.audit") / "sample" / "notice.md") as sample:
        facts = carry_out(place, lambda: story(place, file or sample, folder.resolve()))
    if place.as_json:
        place.print_json(facts)


async def story(place: Place, file: Path, folder: Path) -> dict[str, Any]:
    """Play it and tell it. Returns the facts. Raises ProblemError: the file cannot be read, or it did not go as it should."""

    def tell(code: str, **values: object) -> None:
        if not place.as_json:
            sys.stdout.write(say(f"demo.{code}", place.lang, **values) + "\n")
            sys.stdout.flush()

    store, out = _prepared(file, folder)
    tell("begin", file=file.name)
    worker = await asyncio.create_subprocess_exec(*_worker(place, file, out, store))
    status = await _killed(worker, out / "points/p1" / VICTIM)
    tell("killed", pid=worker.pid, status=status, file=VICTIM)
    run_id = f"{json.loads((out / '.audit/audit.json').read_bytes())['flow']}.p1/execute/1"
    tail = (await _records(place, store, run_id))[-1]
    tell("tail", kind=tail["kind"], seq=tail["seq"])
    report = await _resumed(place, file, out, store)
    records = await _records(place, store, run_id)
    replays = [record for record in records if record["kind"] == "replay"]
    for replay in replays:
        tell("replay", policy=replay["policy"], of=replay["of"])
    receipts = _receipts(out)
    tell("once", file=VICTIM, receipts=receipts)
    async with read_runs(store, place.tenant) as runs:
        result = run_json((await runs.read(run_id)).result)
        verdicts = {run: await runs.verify(run) for run in report["runs"]}
    tell("verified", runs=len(verdicts), records=sum(v.records for v in verdicts.values()))
    for run, verdict in verdicts.items():
        tell("head", run=run.partition("/")[2], head=verdict.head_hash)
    _tell_findings(tell, report)
    tell("look", report=out / "report.html", folder=folder, run=run_id)
    if not (tail["kind"] == "action_intent" and replays and receipts == 1 and all(v.ok for v in verdicts.values())):
        raise problem("task_failed", "the demonstration did not go as it should", operation="demo", details={"result": result, "tail": tail})
    return {
        "schema": "polyloop.demo.v1", "runId": run_id, "workerStatus": status, "tailAfterKill": tail["kind"], "replays": replays,
        "entries": receipts, "result": result, "report": report, "dir": str(out),
        "verify": {run: {"ok": v.ok, "records": v.records, "headHash": v.head_hash} for run, v in verdicts.items()},
    }  # fmt: skip


def _prepared(file: Path, folder: Path) -> tuple[str, Path]:
    """The store and a new folder for this demonstration; earlier ones stay. Raises ProblemError if the file cannot be read."""
    try:
        read(file.name, file.read_bytes())
    except OSError as error:
        raise problem("not_found", f"{file}: {error.strerror}", operation="demo", stage="read") from error
    folder.mkdir(parents=True, exist_ok=True)
    number = next(n for n in range(1, 1 << 20) if not (folder / f"audit-{n}").exists())
    return str(folder / "runs.db"), folder / f"audit-{number}"


def _worker(place: Place, file: Path, out: Path, store: str) -> list[str]:
    return [sys.executable, "-m", "polyloop.cli.slow_audit", VICTIM, str(PAUSE_S), str(file), str(out), store, place.tenant, place.lang]


async def _killed(worker: asyncio.subprocess.Process, victim: Path) -> int:
    """Kill the worker once the file has landed and nobody has been told; its wait status."""
    clock = SystemClock()
    until = clock.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(victim.exists):
        if clock.monotonic() > until or worker.returncode is not None:
            if worker.returncode is None:
                worker.kill()
            raise problem("task_failed", "the worker did not come as far as the write that was to be interrupted", operation="demo")
        await asyncio.sleep(0.01)
    worker.send_signal(signal.SIGKILL)
    return await worker.wait()


async def _resumed(place: Place, file: Path, out: Path, store: str) -> dict[str, Any]:
    """The same audit in another process, to its end."""
    words = ["audit", str(file), "--out", str(out), "--model", "rules:audit", "--json"]
    command = [sys.executable, "-m", "polyloop.cli.main", *words, "--store", store, "--tenant", place.tenant, "--lang", place.lang]
    pipe = asyncio.subprocess.PIPE
    worker = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out_text, err_text = await worker.communicate()
    if worker.returncode:
        raise problem("task_failed", f"the audit did not end well: {(out_text or err_text).decode()}", operation="demo")
    return json.loads(out_text)


async def _records(place: Place, store: str, run_id: str) -> list[dict[str, Any]]:
    async with read_runs(store, place.tenant) as runs:
        found = await runs.read(run_id)
    return list(materialise(found.sealed, found.look))


def _receipts(out: Path) -> int:
    """How often the interrupted file was written, by the workspace's own log of writes."""
    lines = (out / "points/p1/.polyloop-workspace/writes.jsonl").read_text().splitlines()
    writes = [json.loads(line) for line in lines if line]
    return len({write["key"] for write in writes if write["path"] == VICTIM and write["state"] == "done"})


def _tell_findings(tell: Any, report: dict[str, Any]) -> None:
    findings = [finding for point in report["points"] for finding in point["findings"]]
    told = Counter(finding["severity"] for finding in findings)
    tell("found", found=len(findings), errors=told["error"], warnings=told["warning"] + told["info"])
    for finding in findings[:SHOWN_FINDINGS]:
        tell("finding", message=finding["message"], quote=" ".join(finding["evidence"]["quote"].split()))
    if len(findings) > SHOWN_FINDINGS:
        tell("more", more=len(findings) - SHOWN_FINDINGS)
