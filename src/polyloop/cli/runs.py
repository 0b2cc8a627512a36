"""Commands of runs: run, resume, cancel, settle, abandon, fork, runs, show, log, verify, export, tools, schema."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from msgspec.structs import replace

from polyloop.app.answers import awaits_person
from polyloop.app.approvals import PERSON
from polyloop.app.export import FORMATS, chain, land
from polyloop.app.final import final_answer, final_of
from polyloop.app.request_file import load
from polyloop.app.runs import PAGE_RUNS, SETTLE_DECISIONS, Read, Runs
from polyloop.app.store import open_runs, read_runs
from polyloop.app.wiring import catalogue_specs, request_for, rewire, wire
from polyloop.contract.problem import problem
from polyloop.kernel.objects import Request, RunResult
from polyloop.kernel.records import canonical
from polyloop.kernel.view import materialise
from polyloop.views.page import run_page
from polyloop.words.catalog import Lang, say

from .frame import EXIT_ASKED, Place, T, carry_out, command_line, exit_code, leave, outcome, run_json
from .live import progress
from .timeline import print_timeline

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Run id.")]
AuditOption = Annotated[Path | None, typer.Option("--audit-to", help="Also write model steps and tool calls to this file.")]


async def with_runs(place: Place, work: Callable[[Runs], Coroutine[Any, Any, T]]) -> T:
    """Open the store, be a holder, heed Ctrl-C: the first stops the run (resumable), the second leaves at once."""
    async with open_runs(place.store, place.tenant, dedicated=True) as runs:
        loop = asyncio.get_running_loop()
        stops = 0

        def stop() -> None:
            nonlocal stops
            stops += 1
            if stops > 1:
                os._exit(130)
            sys.stderr.write(say("run.suspending", place.lang) + "\n")
            runs.suspend()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        async with runs.holding():
            return await work(runs)


def _drive(place: Place, work: Callable[[Runs], Coroutine[Any, Any, RunResult]]) -> None:
    async def told(runs: Runs) -> tuple[RunResult, str, int]:
        result = await work(runs)
        # What the log could not take is not in it: there is nothing to tell the truth from.
        answer = await final_answer(runs, result.run_id, place.lang) if result.persisted else ""
        return result, answer, EXIT_ASKED if await awaits_person(runs, result) else exit_code(result)

    report(place, *carry_out(place, lambda: with_runs(place, told)))


def report(place: Place, result: RunResult, answer: str, code: int) -> None:
    """Print an outcome, and the answer for a person, and leave with its exit code."""
    if place.as_json:
        place.print_json({**run_json(result), "finalAnswer": answer or None})
    else:
        sys.stdout.write("\n".join([*outcome_lines(place, result, code), *(("", answer) if answer else ("",))]))
    leave(code)


def outcome_lines(place: Place, result: RunResult, code: int) -> list[str]:
    lines = [f"{result.run_id}: {outcome(result, place.lang)}"]
    if result.result is not None:
        lines.append(canonical(result.result).decode())
    if result.error is not None:
        lines.append(canonical(result.error).decode())
    lines.append(f"head {result.head_hash}")
    if code in (5, 10, 130) and not result.ended:
        lines.append(say("run.resume_with", place.lang, command=command_line(place, "resume", result.run_id)))
    return lines


def run(
    place: Place,
    request: Annotated[Path, typer.Argument(metavar="REQUEST.toml", help="The request file.")],
    model: Annotated[str | None, typer.Option("--model", help="Model source, if the file names none.")] = None,
    max_steps: Annotated[int | None, typer.Option("--max-steps", help="budget.max_valid_steps, if the file has none.")] = None,
    max_iterations: Annotated[int | None, typer.Option("--max-iterations", help="budget.max_iterations, if the file has none.")] = None,
    run_id: Annotated[str | None, typer.Option("--run-id", help="run_id, if the file has none.")] = None,
    audit_to: AuditOption = None,
) -> None:
    """Run a request; the same command resumes it, or prints its result once it has ended."""

    async def work(runs: Runs) -> RunResult:
        plan = load(request, {"model": model, "max_steps": max_steps, "max_iterations": max_iterations, "run_id": run_id})
        if plan.fork_of is not None:
            return await runs.run(await forked(runs, plan.fork_of, request_for(plan)), wire(plan, progress(place)), audit_to)
        return await runs.run(request_for(plan), wire(plan, progress(place)), audit_to)

    _drive(place, work)


async def forked(runs: Runs, fork_of: str, request: Request) -> Request:
    """The plan's own request, continuing from another run's history."""
    run_id, _, at = fork_of.rpartition("@")
    if not run_id or not at.isdigit():
        raise problem("validation", f"fork_of is RUN@SEQ, not {fork_of!r}", operation="run", stage="arguments")
    source = await runs.fork_request(run_id, int(at), request.run_id, request.budget)
    return replace(request, origin=source.origin, history=source.history)


def resume(
    place: Place,
    run_id: RunArgument,
    request: Annotated[Path | None, typer.Option("--request", help="Compare against this request file.")] = None,
    accept: Annotated[
        list[str] | None, typer.Option("--accept", help="Accept a difference at this path (description, timeout_s, result_limit).")
    ] = None,
    audit_to: AuditOption = None,
) -> None:
    """Go on with a run. Without --request it is rebuilt from the log and its tools are found again."""

    async def work(runs: Runs) -> RunResult:
        if request is None:
            asked = await runs.request(run_id)
            return await runs.resume(asked, rewire(asked, progress(place)), accept or (), audit_to)
        plan = load(request, {})
        asked = await runs.like(run_id, request_for(plan))
        return await runs.resume(asked, wire(plan, progress(place)), accept or (), audit_to)

    _drive(place, work)


def cancel(
    place: Place,
    run_id: RunArgument,
    reason: Annotated[str, typer.Option("--reason", help="Kept in the log.")] = "",
) -> None:
    """End a run for good: its holder is told to, or the run is ended here if nobody holds it."""
    _drive(place, lambda runs: runs.cancel(run_id, reason, PERSON, rewire))


def abandon(
    place: Place,
    run_id: RunArgument,
) -> None:
    """Close an interrupted or waiting run that nobody will go on with."""
    _drive(place, lambda runs: runs.abandon(run_id, PERSON))


def fork(
    place: Place,
    run_id: RunArgument,
    at: Annotated[int, typer.Option("--at", help="Sequence number of the step to continue from.")],
    new_id: Annotated[str, typer.Option("--run-id", help="Id of the new run.")],
) -> None:
    """Start a new run from the history of another."""
    _drive(place, lambda runs: runs.fork(run_id, at, new_id, lambda asked: rewire(asked, progress(place))))


def settle(
    place: Place,
    run_id: RunArgument,
    call: Annotated[int, typer.Option("--call", help="Index of the call in its reply (0 for the first).")],
    as_: Annotated[str, typer.Option("--as", help="done, not-done or retry.")],
) -> None:
    """Say what became of an action whose outcome only a person can find out."""

    async def work() -> None:
        if as_ not in SETTLE_DECISIONS:
            raise problem("validation", f"--as is one of {', '.join(SETTLE_DECISIONS)}, not {as_!r}", operation="settle", stage="arguments")
        async with open_runs(place.store, place.tenant) as runs:
            await runs.settle(run_id, call, as_, PERSON)

    carry_out(place, work)
    if place.as_json:
        place.print_json({"runId": run_id, "call": call, "as": as_})
    else:
        sys.stdout.write(say("settle.done", place.lang) + "\n")


def runs_(
    place: Place,
    continuation: Annotated[str, typer.Option("--continuation", help="Where the previous page stopped.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="Runs on a page.")] = PAGE_RUNS,
) -> None:
    """List runs, newest first."""

    async def work() -> tuple[list[dict[str, Any]], bool]:
        async with read_runs(place.store, place.tenant) as runs:
            listed, more = await runs.list(continuation, limit)
        keys = ("runId", "state", "createdAt", "updatedAt", "reason")
        return [dict(zip(keys, (x.run_id, x.state, x.created, x.updated, x.reason or None), strict=True)) for x in listed], more

    rows, more = carry_out(place, work)
    following = cast(str, rows[-1]["runId"]) if more else None
    if place.as_json:
        complete = not more and not continuation
        place.print_json({"runs": rows, "complete": complete, "hasMore": more, "continuation": following})
        return
    lines = [f"{row['runId']}  {row['state']:<12}{row['reason'] or ''}" for row in rows] or [say("list.none", place.lang)]
    if following:
        lines.append(say("list.more", place.lang, continuation=following))
    sys.stdout.write("\n".join(lines) + "\n")


def show(
    place: Place,
    run_id: RunArgument,
) -> None:
    """What a run did: settings, steps, outcome."""

    async def work() -> Any:
        async with read_runs(place.store, place.tenant) as runs:
            read = await runs.read(run_id)
            return read, await final_of(runs, read, place.lang)

    read, answer = carry_out(place, work)
    records = list(materialise(read.sealed, read.look))
    if place.as_json:
        place.print_json(
            {**run_json(read.result), "finalAnswer": answer or None, "started": records[0], "steps": [x for x in records if x["kind"] == "step"]}
        )
    else:
        print_timeline(place, read.result, records)
        sys.stdout.write("\n" + answer if answer else "")


def log(
    place: Place,
    run_id: RunArgument,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="One record a line.")] = False,
) -> None:
    """Print a run's records, texts in full: one JSON object a line, or (--json) one object."""

    async def work() -> list[dict[str, Any]]:
        async with read_runs(place.store, place.tenant) as runs:
            read = await runs.read(run_id)
        return list(materialise(read.sealed, read.look))

    records = carry_out(place, work)
    if place.as_json and not jsonl:
        place.print_json({"runId": run_id, "records": records})
        return
    for record in records:
        sys.stdout.write(canonical_line(record))


def canonical_line(record: dict[str, Any]) -> str:
    """A record as one line; header fields first, lone surrogates as escapes."""
    return json.dumps(record, ensure_ascii=True, separators=(",", ":")) + "\n"


def verify(
    place: Place,
    run_id: RunArgument,
    head: Annotated[str, typer.Option("--head", help="A head hash kept from earlier.")] = "",
) -> None:
    """Recompute every hash and rule of a run's log."""

    async def work() -> Any:
        async with read_runs(place.store, place.tenant) as runs:
            return await runs.verify(run_id, head)

    v = carry_out(place, work)
    if place.as_json:
        found = None if v.problem is None else {"kind": v.problem.kind, "seq": v.problem.seq, "message": v.problem.message}
        place.print_json({"ok": v.ok, "records": v.records, "ended": v.ended, "headHash": v.head_hash, "erased": v.erased, "problem": found})
    else:
        lines = [
            say("verify.ok", place.lang, records=v.records) if v.ok else say("verify.bad", place.lang, seq=v.problem.seq, message=v.problem.message)
        ]
        if v.erased:
            lines.append(say("verify.erased", place.lang, erased=v.erased))
        sys.stdout.write("\n".join([*lines, f"head {v.head_hash}"]) + "\n")
    raise typer.Exit(0 if v.ok else 1)


def export(
    place: Place,
    run_id: RunArgument,
    format_: Annotated[str, typer.Option("--format", help="chain, jsonl or html.")],
    out: Annotated[str | None, typer.Option("--out", help="File to write (never over an existing one).")] = None,
) -> None:
    """Write a run's log for others to check (chain), for programs (jsonl) or for people (html, one self-contained page)."""

    async def work() -> bytes:
        if format_ not in FORMATS:
            raise problem("validation", f"--format is one of {', '.join(FORMATS)}, not {format_!r}", operation="export", stage="arguments")
        async with read_runs(place.store, place.tenant) as runs:
            read = await runs.read(run_id)
        data = exported(read, format_, place.lang)
        if out is not None:
            land(out, data)
        return data

    data = carry_out(place, work)
    if out is None:
        sys.stdout.buffer.write(data)
    elif place.as_json:
        place.print_json({"runId": run_id, "format": format_, "file": str(out), "bytes": len(data)})
    else:
        sys.stdout.write(say("exported", place.lang, path=out) + "\n")


def exported(read: Read, format_: str, lang: Lang) -> bytes:
    """A run's log in one of FORMATS."""
    if format_ == "chain":
        return chain(read.sealed)
    records = materialise(read.sealed, read.look)
    return run_page(records, lang) if format_ == "html" else "".join(map(canonical_line, records)).encode()


def tools(
    place: Place,
) -> None:
    """The tools this build ships."""
    specs = catalogue_specs()
    if place.as_json:
        names = ("name", "description", "effect", "replay", "kind", "completes")
        place.print_json({"tools": [{name: getattr(t, name) for name in names} for t in specs]})
    else:
        sys.stdout.write("".join(f"{t.name:<24}{t.effect:<7}{t.description.splitlines()[0]}\n" for t in specs))


def schema(
    place: Place,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Name of a shipped tool.")],
) -> None:
    """The argument schema of a tool, as the model sees it and as it is checked."""

    async def work() -> dict[str, Any]:
        for spec in catalogue_specs():
            if spec.name == tool:
                return spec.schema
        raise problem("not_found", f"this build has no tool {tool!r}", operation="schema", stage="resolve")

    place.print_json(carry_out(place, work))
