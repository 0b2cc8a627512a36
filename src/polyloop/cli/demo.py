"""`polyloop demo [FILE]`: the main job before your eyes. A document is audited, its worker is killed in the middle of a write,
another process goes on, and the log shows what happened.

Nothing is staged but the moment: the worker's disk is slow at the findings (`slow_audit`), so that the kill meets an open intent.
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

from polyloop.app.audit import checked_model, read_inputs
from polyloop.app.phases import flow_records
from polyloop.app.store import read_runs
from polyloop.clock import SystemClock
from polyloop.contract.problem import problem
from polyloop.kernel.view import materialise
from polyloop.words.catalog import say

from .audit import DEFAULT_MODEL, ModelOption, absolute, model_named
from .frame import Place, carry_out, command_line, run_json

#: The first write that is one of these is interrupted.
VICTIMS: Final = "findings/*.json"
#: How long it may take the built-in model, and any other, to come there.
PATIENCE_S: Final = 60.0
PATIENCE_WITH_A_MODEL_S: Final = 1800.0
#: Longer than that: the worker never gets past its slow write by itself.
PAUSE_S: Final = 3600
SHOWN_FINDINGS: Final = 5
#: The other demonstration, unless there is a file of that name.
CANVAS: Final = Path("canvas")


def demo(
    place: Place,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A document of yours (md, txt, docx, pdf); else the shipped sample.")] = None,
    folder: Annotated[Path, typer.Option("--dir", help="Folder to work in.")] = Path("polyloop-demo"),
    model: ModelOption = None,
) -> None:
    """Audit a document, kill the worker with SIGKILL in the middle of a write, go on, show the proof. Offline, in seconds.

    `polyloop demo canvas`: a storyboard, and a picture, a clip and a sound for it.
    """
    if file is not None and file == CANVAS and not file.exists():
        _canvas(place, folder.resolve())
        return
    with as_file(files("polyloop.audit") / "sample" / "notice.md") as sample:
        facts = carry_out(place, lambda: story(place, file or sample, folder.resolve(), model_named(model)))
    if place.as_json:
        place.print_json(facts)


def _canvas(place: Place, base: Path) -> None:
    from . import demo_canvas

    def tell(code: str, **values: object) -> None:
        if not place.as_json:
            sys.stdout.write(say(f"canvasdemo.{code}", place.lang, **values) + "\n")
            sys.stdout.flush()

    store = absolute(place.store) if place.store_named else ""
    facts = carry_out(place, lambda: demo_canvas.story(store, demo_canvas.new_folder(base), place.tenant, place.lang, tell))
    if place.as_json:
        place.print_json(facts)


async def story(place: Place, file: Path, folder: Path, model: str) -> dict[str, Any]:
    """Play it and tell it. Returns the facts. Raises ProblemError: the file cannot be read, or it did not go as it should."""

    def tell(code: str, **values: object) -> None:
        if not place.as_json:
            sys.stdout.write(say(f"demo.{code}", place.lang, **values) + "\n")
            sys.stdout.flush()

    place.store, out = _prepared(place, file, folder, model)
    tell("begin" if model == DEFAULT_MODEL else "begin_with", file=file.name, model=model)
    worker = await asyncio.create_subprocess_exec(*_worker(place, file, out, model))
    victim = await _victim(worker, out, PATIENCE_S if model == DEFAULT_MODEL else PATIENCE_WITH_A_MODEL_S)
    worker.send_signal(signal.SIGKILL)
    status = await worker.wait()
    tell("killed", pid=worker.pid, status=status, file=victim)
    run_id = await _interrupted(place, out)
    tail = (await _records(place, run_id))[-1]
    tell("tail", kind=tail["kind"], seq=tail["seq"])
    report = await _resumed(place, file, out, model)
    records = await _records(place, run_id)
    replays = [record for record in records if record["kind"] == "replay"]
    for replay in replays:
        tell("replay", policy=replay["policy"], of=replay["of"])
    receipts = _receipts(out, victim)
    tell("once", file=victim, receipts=receipts)
    async with read_runs(place.store, place.tenant) as runs:
        result = run_json((await runs.read(run_id)).result)
        verdicts = {run: await runs.verify(run) for run in report["runs"]}
    tell("verified", runs=len(verdicts), records=sum(v.records for v in verdicts.values()))
    for run, verdict in verdicts.items():
        tell("head", run=run.partition("/")[2], head=verdict.head_hash)
    _tell_findings(tell, report)
    tell("look", report=out / "report.html", command=command_line(place, "show", run_id))
    if not (tail["kind"] == "action_intent" and replays and receipts == 1 and all(v.ok for v in verdicts.values())):
        raise problem("task_failed", "the demonstration did not go as it should", operation="demo", details={"result": result, "tail": tail})
    return {
        "schema": "polyloop.demo.v1", "runId": run_id, "workerStatus": status, "tailAfterKill": tail["kind"], "replays": replays,
        "entries": receipts, "result": result, "report": report, "dir": str(out),
        "verify": {run: {"ok": v.ok, "records": v.records, "headHash": v.head_hash} for run, v in verdicts.items()},
    }  # fmt: skip


def _prepared(place: Place, file: Path, folder: Path, model: str) -> tuple[str, Path]:
    """The store and a new folder for this demonstration; earlier ones stay. Raises ProblemError: an unreadable file, an unknown model."""
    read_inputs([file])
    checked_model(model)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise problem("local_io", f"{folder}: {error.strerror}", operation="demo", stage="precondition") from error
    number = next(n for n in range(1, 1 << 20) if not (folder / f"audit-{n}").exists())
    return absolute(place.store) if place.store_named else str(folder / "runs.db"), folder / f"audit-{number}"


def _worker(place: Place, file: Path, out: Path, model: str) -> list[str]:
    slow = [sys.executable, "-m", "polyloop.cli.slow_audit", VICTIMS, str(PAUSE_S)]
    return [*slow, str(file), str(out), place.store, place.tenant, place.lang, model]


async def _victim(worker: asyncio.subprocess.Process, out: Path, patience_s: float) -> str:
    """The file that has landed and of which nobody has been told yet: it stands in the point's workspace, the worker is held up."""
    clock = SystemClock()
    until = clock.monotonic() + patience_s
    while not (found := await asyncio.to_thread(lambda: sorted((out / "points/p1").glob(VICTIMS)))):
        if clock.monotonic() > until or worker.returncode is not None:
            if worker.returncode is None:
                worker.kill()
            await worker.wait()
            told = f" ({'; '.join(_problems(out))})" if _problems(out) else ""
            raise problem("task_failed", f"the worker did not come as far as the write that was to be interrupted{told}", operation="demo")
        await asyncio.sleep(0.01)
    return found[0].relative_to(out / "points/p1").as_posix()


def _problems(out: Path) -> list[str]:
    """What was wrong with an audit that ended too early."""
    landed = out / "report.json"
    points: list[dict[str, Any]] = json.loads(landed.read_bytes())["points"] if landed.exists() else []
    return [wrong for point in points for wrong in point.get("problems", ())]


async def _resumed(place: Place, file: Path, out: Path, model: str) -> dict[str, Any]:
    """The same audit in another process, to its end."""
    words = ["audit", str(file), "--out", str(out), "--model", model, "--json"]
    command = [sys.executable, "-m", "polyloop.cli.main", *words, "--store", place.store, "--tenant", place.tenant, "--lang", place.lang]
    pipe = asyncio.subprocess.PIPE
    worker = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    out_text, err_text = await worker.communicate()
    if worker.returncode:
        raise problem("task_failed", f"the audit did not end well: {(out_text or err_text).decode()}", operation="demo")
    return json.loads(out_text)


async def _interrupted(place: Place, out: Path) -> str:
    """The run that was begun last, by the flow's own log."""
    flow = json.loads((out / ".audit/audit.json").read_bytes())["flow"]
    async with read_runs(place.store, place.tenant) as runs:
        return [record["run"] for record in await flow_records(runs, f"{flow}.p1") if record["kind"] == "phase_started"][-1]


async def _records(place: Place, run_id: str) -> list[dict[str, Any]]:
    async with read_runs(place.store, place.tenant) as runs:
        found = await runs.read(run_id)
    return list(materialise(found.sealed, found.look))


def _receipts(out: Path, victim: str) -> int:
    """How often the interrupted file was written, by the workspace's own log of writes."""
    lines = (out / "points/p1/.polyloop-workspace/writes.jsonl").read_text().splitlines()
    writes = [json.loads(line) for line in lines if line]
    return len({write["key"] for write in writes if write["path"] == victim and write["state"] == "done"})


def _tell_findings(tell: Any, report: dict[str, Any]) -> None:
    findings = [finding for point in report["points"] for finding in point["findings"]]
    told = Counter(finding["severity"] for finding in findings)
    tell("found", found=len(findings), errors=told["error"], warnings=told["warning"] + told["info"])
    for finding in findings[:SHOWN_FINDINGS]:
        tell("finding", message=finding["message"], quote=" ".join(finding["evidence"]["quote"].split()))
    if len(findings) > SHOWN_FINDINGS:
        tell("more", more=len(findings) - SHOWN_FINDINGS)
