"""The report of an audit: one value for programs, and the same as a document for people, in Markdown, HTML and Word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from polyloop.audit.checks.finding import Location
from polyloop.formats import Target
from polyloop.formats.blocks import Block, Cell, Document, Run, Table
from polyloop.words.catalog import Lang, say
from polyloop.words.findings import say_place, say_rule

SCHEMA: Final = "polyloop.audit.v1"
TARGETS: Final[tuple[Target, ...]] = ("md", "html", "docx")
State = Literal["pending", "running", "completed", "failed", "excluded"]


class Input(Struct, frozen=True):
    """A document that is audited: the name of its file, and its content."""

    file: str
    sha256: str


class Point(Struct, frozen=True):
    """A point as it stands. `problems` say why it failed."""

    id: str
    file: str
    state: State
    findings: tuple[dict[str, Any], ...] = ()
    problems: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()


def report_of(flow: str, inputs: Sequence[Input], points: Sequence[Point]) -> dict[str, Any]:
    """The wire form `polyloop.audit.v1`. `status`: completed, partial (some points failed or are excluded), running."""
    states = {point.state for point in points}
    status = "running" if states & {"pending", "running"} else "completed" if states == {"completed"} else "partial"
    return {
        "schema": SCHEMA, "flow": flow, "inputs": [msgspec.to_builtins(one) for one in inputs],
        "points": [
            {
                "pointId": p.id, "file": p.file, "state": p.state, "findings": list(p.findings),
                **({"problems": list(p.problems)} if p.problems else {}),
            }
            for p in points
        ],
        "runs": [run for point in points for run in point.runs], "status": status,
    }  # fmt: skip


def document_of(report: Mapping[str, Any], lang: Lang) -> Document:
    """The report as a document."""
    title = say("audit.title", lang, files="、".join(one["file"] for one in report["inputs"]) if lang == "zh" else _named(report))
    return Document(tuple(_blocks(report, title, lang)), title=title)


def _named(report: Mapping[str, Any]) -> str:
    return ", ".join(one["file"] for one in report["inputs"])


def _blocks(report: Mapping[str, Any], title: str, lang: Lang) -> Iterator[Block]:
    yield _text("heading", title, level=1)
    found = sum(len(point["findings"]) for point in report["points"])
    yield _text("paragraph", say(f"audit.status.{report['status']}", lang, found=found))
    heads = tuple(say(f"audit.column.{name}", lang) for name in ("file", "state", "found", "sha256"))
    sums = {one["file"]: one["sha256"] for one in report["inputs"]}
    rows = [(p["file"], say(f"audit.state.{p['state']}", lang), str(len(p["findings"])), sums[p["file"]]) for p in report["points"]]
    yield Block("table", table=Table(tuple(tuple(Cell((Run(text),)) for text in row) for row in (heads, *rows)), header_rows=1))
    for point in report["points"]:
        yield from _point(point, lang)
    yield _text("heading", say("audit.proof", lang), level=2)
    for run in report["runs"]:
        yield Block("bulleted", (Run(run, code=True),))
    yield _text("paragraph", say("audit.verify", lang))


def _point(point: Mapping[str, Any], lang: Lang) -> Iterator[Block]:
    yield _text("heading", point["file"], level=2)
    for wrong in point.get("problems", ()):
        yield _text("bulleted", wrong)
    if point["state"] == "completed" and not point["findings"]:
        yield _text("paragraph", say("audit.nothing", lang))
    for number, finding in enumerate(point["findings"], 1):
        severity = say(f"audit.severity.{finding['severity']}", lang)
        yield Block(
            "paragraph",
            (
                Run(f"{number}. [{severity}] {say_rule(str(finding['rule']), lang)}", bold=True),
                Run(say("audit.colon", lang) + str(finding["message"])),
            ),
        )
        for evidence in (finding["evidence"], *finding.get("related", ())):
            yield Block("quote", (Run(str(evidence["quote"])),))
            yield _text("paragraph", f"—— {evidence['file']}{_place(evidence['location'], lang)}")


def _place(location: object, lang: Lang) -> str:
    """A model may say a place in its own words."""
    try:
        at = msgspec.convert(location, Location)
        told = say_place(lang, at.unit, at.number, at.page, at.row, at.column)
    except (msgspec.ValidationError, KeyError):
        told = location if isinstance(location, str) else ""
    return (", " if lang == "en" else "，") + told if told else ""


def _text(kind: Literal["heading", "paragraph", "bulleted"], text: str, level: int = 0) -> Block:
    return Block(kind, (Run(text),), level=level)
