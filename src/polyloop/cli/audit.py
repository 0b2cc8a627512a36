"""`polyloop audit FILE...`: documents audited in three phases, with a report whose quotes are proved."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from polyloop.app.audit import Audit, Settings, checked_model, read_inputs
from polyloop.app.audit_documents import URL, names_document, read_document
from polyloop.app.documents import open_documents
from polyloop.app.runs import Runs
from polyloop.audit.report import Point
from polyloop.contract.problem import problem
from polyloop.words.catalog import say

from .frame import Place, carry_out, leave
from .live import progress
from .runs import with_runs

DEFAULT_MODEL: Final = "rules:audit"
ACTIONS: Final = ("retry", "exclude")
ModelOption = Annotated[str | None, typer.Option("--model", help="Model source. [env: POLYLOOP_MODEL; default: rules:audit]")]


def audit(
    place: Place,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE... | retry DIR POINT | exclude DIR POINT",
            help="Files (md, txt, html, docx, pdf, csv, xlsx), or documents by their id or URL.",
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the audit. [default: audit-NAME of the first file]")] = None,
    model: ModelOption = None,
) -> None:
    """Audit documents; the same command goes on after a stop. Retry or exclude a point of an audit by its folder and id."""
    action = files[0] if files[0] in ACTIONS and not Path(files[0]).exists() else ""
    if action:
        report, landed = carry_out(place, lambda: with_runs(place, lambda runs: act(runs, place, action, files[1:])))
    else:
        folder = out or Path(f"audit-{files[0].rpartition('/')[2] if names_document(files[0]) else Path(files[0]).stem}")
        report, landed = carry_out(place, lambda: with_runs(place, lambda runs: begin(runs, place, files, folder, model_named(model))))
    print_report(place, report, landed)
    leave(exit_code(report, landed))


Told = tuple[dict[str, Any], list[Path]]


async def begin(runs: Runs, place: Place, words: list[str], folder: Path, model: str) -> Told:
    """Audit these files and documents in this folder, or go on with it."""
    read = read_inputs([Path(word) for word in words if not names_document(word)])
    if named := list(dict.fromkeys(word for word in words if names_document(word))):
        with open_documents(place.store, place.tenant) as documents:
            read += [await read_document(documents, word) for word in named]
    inputs, documents = tuple(one for one, _ in read), [document for _, document in read]
    source = checked_model(model)
    with Audit(folder, runs) as audit_:
        audit_.begin(Settings(inputs, runs.scope, absolute(place.store), source, place.lang), documents)
        return await _go(audit_, place)


async def act(runs: Runs, place: Place, action: str, words: list[str]) -> Told:
    """Retry or exclude a point."""
    if len(words) != 2:  # noqa: PLR2004  # a folder and a point
        raise problem("validation", f"audit {action} takes a folder and a point", operation="audit", stage="arguments")
    with Audit(_existing(words[0]), runs) as audit_:
        audit_.find(absolute(place.store))
        if action == "retry":
            await audit_.retry(words[1])
            return await _go(audit_, place)
        audit_.exclude(words[1])
        return await _landed(audit_, place)


async def _go(audit_: Audit, place: Place) -> Told:
    whole = await audit_.go(progress(place), None if place.as_json else partial(_tell, place))
    return await _landed(audit_, place) if whole else (await audit_.report(), [])


async def _landed(audit_: Audit, place: Place) -> Told:
    """The report as files, and as a document beside those it is about."""
    report = await audit_.report()
    landed = audit_.land(report)
    if not any(one["file"].startswith(URL) for one in report["inputs"]):
        return report, landed
    with open_documents(place.store, place.tenant) as documents:
        return await audit_.write(report, documents), landed


def model_named(said: str | None) -> str:
    """The model that the option names, else the environment, else the built-in one."""
    return said or os.environ.get("POLYLOOP_MODEL") or DEFAULT_MODEL


def absolute(store: str) -> str:
    return store if "://" in store else str(Path(store).resolve())


def _existing(folder: str) -> Path:
    if not Path(folder).is_dir():
        raise problem("not_found", f"there is no folder {folder}", operation="audit", stage="resolve")
    return Path(folder)


def exit_code(report: dict[str, Any], landed: list[Path]) -> int:
    """0 when the report has landed, 3 when points failed or are excluded, 130 when it was stopped."""
    return 130 if not landed else 0 if report["status"] == "completed" else 3


def print_report(place: Place, report: dict[str, Any], landed: list[Path]) -> None:
    if place.as_json:
        place.print_json(report)
        return
    found = sum(len(point["findings"]) for point in report["points"])
    lines = [say(f"audit.status.{report['status']}", place.lang, found=found), *(f"  {path}" for path in landed)]
    sys.stdout.write("\n".join(lines) + "\n")


def _tell(place: Place, point: Point) -> None:
    text = say("audit.point", place.lang, point=point.id, file=point.file, state=say(f"audit.state.{point.state}", place.lang))
    lines = [text, *(f"  - {wrong}" for wrong in point.problems)]
    lines += [f"  [{say('audit.severity.' + finding['severity'], place.lang)}] {finding['message']}" for finding in point.findings]
    sys.stdout.write("\n".join(lines) + "\n")
