"""An audit in a folder: inputs read and refused whole, one point per file carried out, the report landed, everything resumable.

Theory of operation. `DIR/.audit/audit.json` says what the audit is of; the same folder with other inputs is a conflict. Each
point has a workspace `DIR/points/<id>` and a flow in the store. How a point stands follows from its flow's log and is never
written by hand. A report file replaces only a file whose digest this audit has noted before it landed it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from polyloop.audit.flow import point_flow
from polyloop.audit.report import TARGETS, Input, Point, State, document_of, report_of
from polyloop.audit.rulebook import OUTPUT
from polyloop.audit.source import DOCUMENT, source_of
from polyloop.contract.problem import Problem, ProblemError, problem
from polyloop.files import FileProblem, Root, read_named, write_atomic
from polyloop.formats import write
from polyloop.formats.apart import read_apart
from polyloop.formats.blocks import Document
from polyloop.formats.limits import MAX_FILE_BYTES
from polyloop.gateway.sources import source
from polyloop.ids import salt, uuid7
from polyloop.kernel.records import sha256
from polyloop.kernel.seams import Sink
from polyloop.phases import Flow, FlowLog, flow_stream
from polyloop.phases.flowlog import RetryAsked
from polyloop.words.catalog import Lang
from polyloop.workspace import Workspace

from .audit_documents import URL, write_report
from .phases import READ_ONLY, carry_out, flow_log
from .request_file import read_bytes
from .runs import Runs, typed
from .wiring import PROGRAMS, workspace_of

if TYPE_CHECKING:
    from polyloop.documents.runtime import DocRuntime

STATE: Final = ".audit"
MANIFEST: Final = "audit.json"
POINTS: Final = "points"
#: The report in all its forms.
REPORTS: Final = ("report.json", *(f"report.{target}" for target in TARGETS))
#: Bytes of lines in one answer: the largest document must be read within the budget of a phase.
ANSWER_BYTES: Final = 512 << 10

#: Another way to hold the workspace of a point.
Other = Callable[[Workspace], Workspace]


class Settings(Struct, frozen=True):
    """What an audit is of and how it is made; the same folder cannot be gone on with under others."""

    inputs: tuple[Input, ...]
    tenant: str
    store: str
    model: str
    lang: Lang


class Manifest(Struct, frozen=True):
    """`landed`: digests of report files that this audit has landed, or was about to; `document`: its report among the documents."""

    flow: str
    settings: Settings
    excluded: tuple[str, ...] = ()
    landed: dict[str, list[str]] = {}
    document: dict[str, Any] = {}


def read_inputs(paths: Sequence[Path]) -> list[tuple[Input, Document]]:
    """The files to be audited, all of them or none. Raises ProblemError naming the file."""
    found: dict[str, tuple[Input, Document]] = {}
    for path in paths:
        name = path.name
        if name in found:
            raise _refused(f"two inputs are named {name}", file=name)
        try:
            data = read_named(path, MAX_FILE_BYTES)
        except FileProblem as error:
            raise problem(error.kind, error.message, operation="audit", stage="read", details={"file": name}) from error
        found[name] = (Input(name, sha256(data)), replace(read_apart(name, data), name=name))
    return list(found.values())


def checked_model(name: str) -> str:
    """The model of an audit, a script by its whole path. Raises ProblemError (validation) before anything is made for it."""
    kind, _, rest = name.partition(":")
    whole = f"script:{Path(rest).resolve()}" if kind == "script" and rest else name
    source(whole, lambda path: read_bytes(Path(path)), PROGRAMS)
    return whole


class Audit:
    """An audit in a folder that nobody else works in meanwhile: `with Audit(...)`. Raises ProblemError."""

    def __init__(self, folder: Path, runs: Runs, other: Other = lambda workspace: workspace) -> None:
        self.folder, self._runs, self._other = folder, runs, other
        self._state = Workspace(folder / STATE)
        self.manifest = Manifest("", Settings((), "", "", "", "zh"))

    def __enter__(self) -> Self:
        self._state.hold()
        return self

    def __exit__(self, *_: object) -> None:
        self._state.close()

    # --- what it is of -------------------------------------------------------------------------------------------

    def begin(self, settings: Settings, documents: Sequence[Document]) -> None:
        """Make the folder this audit's, or find it so. Raises ProblemError (conflict) with the differing fields."""
        if self._state.exists(MANIFEST) is None:
            self._note(Manifest(f"audit-{uuid7()}", settings))
        self._read()
        self._compare(settings)
        with _landing(), Root(self.folder) as root:
            self._standing_report(root, {})  # before anything is worked on, and paid for
        for point, document in zip(self.points(), documents, strict=True):
            self._place(point, source_of(document))

    def find(self, store: str) -> None:
        """Go on with what the folder is of. Raises ProblemError (not_found, corrupt_store), conflict under another store or tenant."""
        self._read()
        self._compare(replace(self.manifest.settings, store=store, tenant=self._runs.scope))

    def _compare(self, settings: Settings) -> None:
        was, now = _fields(self.manifest.settings), _fields(settings)
        fields = [{"path": p, "logged": was.get(p), "offered": now.get(p)} for p in {**was, **now} if was.get(p) != now.get(p)]
        if fields:
            message = f"{self.folder} holds another audit (of other inputs, or under other settings); --out takes another folder"
            raise problem("conflict", message, operation="audit", stage="precondition", details={"fields": fields})

    def _read(self) -> None:
        try:
            self.manifest = msgspec.json.decode(self._state.read_bytes(MANIFEST), type=Manifest)
        except msgspec.DecodeError as error:
            raise problem("corrupt_store", f"{self.folder / STATE / MANIFEST}: {error}", operation="audit", stage="open") from error

    def points(self) -> list[str]:
        return [f"p{number}" for number in range(1, len(self.manifest.settings.inputs) + 1)]

    def _file(self, point: str) -> str:
        return self.manifest.settings.inputs[self.points().index(point)].file

    def _flow(self, point: str) -> Flow:
        s = self.manifest.settings
        return point_flow(self.manifest.flow, self._runs.scope, point, self._file(point), s.lang, self._assembly(point))

    def _assembly(self, point: str) -> dict[str, str]:
        return {
            "base": str(self.folder.resolve()), "model": self.manifest.settings.model, "skills": "audit", "lang": self.manifest.settings.lang,
            "workspace": str(self.folder.resolve() / POINTS / point), "workspace_read_only": json.dumps(READ_ONLY),
            "workspace_answer_bytes": str(ANSWER_BYTES),
        }  # fmt: skip

    def _place(self, point: str, source: bytes) -> None:
        with _landing(), Root(self.folder / POINTS / point, make=True) as root:
            if root.stat(DOCUMENT) is None:
                write_atomic(root, DOCUMENT, source, if_absent=True)
            elif root.checksum(DOCUMENT)[0] != sha256(source):
                raise problem("conflict", f"{point}: {DOCUMENT} is not the document that was given", operation="audit", stage="precondition")

    # --- going on ------------------------------------------------------------------------------------------------

    async def go(self, sinks: Sequence[Sink] = (), told: Callable[[Point], None] | None = None) -> bool:
        """Carry out every point that is not excluded; False when it was stopped in between."""
        for name in self.points():
            if name not in self.manifest.excluded:
                result = await carry_out(self._runs, self._flow(name), self._other(workspace_of(self._assembly(name))), sinks)
                if told is not None:
                    told(await self.point(name))
                if result.state == "interrupted":
                    return False
        return True

    async def retry(self, name: str) -> None:
        """Have a failed or excluded point tried again by the next `go`. Raises ProblemError (validation, not_found)."""
        point = await self.point(self._known(name))
        if point.state not in ("failed", "excluded"):
            raise _refused(f"{name} is {point.state}; only a failed or excluded point is retried", point=name)
        self._note(replace(self.manifest, excluded=tuple(p for p in self.manifest.excluded if p != name)))
        async with flow_log(self._runs, self._flow(name).id) as log:
            for phase in self._flow(name).phases:
                attempts = log.attempts(phase.name)
                if attempts and attempts[-1].ended is not None and attempts[-1].ended.state == "failed":
                    await log.append(RetryAsked(phase.name, "person"))

    def exclude(self, name: str) -> None:
        """Leave a point out of the audit. Raises ProblemError (not_found)."""
        self._note(replace(self.manifest, excluded=tuple(sorted({*self.manifest.excluded, self._known(name)}))))

    def _known(self, name: str) -> str:
        if name not in self.points():
            raise problem("not_found", f"this audit has the points {', '.join(self.points())}, not {name!r}", operation="audit", stage="resolve")
        return name

    # --- how it stands -------------------------------------------------------------------------------------------

    async def point(self, name: str) -> Point:
        """A point as its flow's log tells it."""
        log = FlowLog(self._runs.log, flow_stream(self._runs.scope, self._flow(name).id), self._runs.clock, salt)
        with typed("audit"):
            await log.open()
        state, problems = ("excluded", ()) if name in self.manifest.excluded else _standing(self._flow(name), log)
        point = Point(name, self._file(name), state, problems=problems, runs=tuple(log.runs()))
        if state != "completed":
            return point
        with _landing(), Root(self.folder / POINTS / name) as root:
            return replace(point, findings=tuple(json.loads(root.read_bytes(OUTPUT, MAX_FILE_BYTES))["findings"]))

    async def report(self) -> dict[str, Any]:
        """The wire form `polyloop.audit.v1`."""
        return report_of(self.manifest.flow, self.manifest.settings.inputs, [await self.point(name) for name in self.points()])

    def land(self, report: dict[str, Any]) -> list[Path]:
        """Land the report in all its forms. Raises ProblemError; conflict for a file in the way that is not ours."""
        document = document_of(report, self.manifest.settings.lang)
        forms = (json.dumps(report, ensure_ascii=False, indent=1).encode() + b"\n", *(write(document, target) for target in TARGETS))
        files = dict(zip(REPORTS, forms, strict=True))
        with _landing(), Root(self.folder) as root:
            there = self._standing_report(root, {name: sha256(data) for name, data in files.items()})
            self._note(
                replace(self.manifest, landed={name: sorted({*self.manifest.landed.get(name, ()), sha256(data)}) for name, data in files.items()})
            )
            for name, data in files.items():
                if there.get(name) != sha256(data):
                    write_atomic(root, name, data, if_absent=name not in there, expected_sha256=there.get(name, ""))
        return [self.folder / name for name in files]

    async def write(self, report: dict[str, Any], documents: DocRuntime) -> dict[str, Any]:
        """The report with its place among the documents, where inputs are documents. Raises ProblemError."""
        urls = [one["file"] for one in report["inputs"] if one["file"].startswith(URL)]
        if not urls:
            return report
        text = document_of(report, self.manifest.settings.lang)
        self._note(replace(self.manifest, document=await write_report(documents, self.manifest.flow, text, urls, self.manifest.document)))
        return {**report, "document": {name: value for name, value in self.manifest.document.items() if name != "sha256"}}

    def _standing_report(self, root: Root, due: Mapping[str, str]) -> dict[str, str]:
        """Digests of the report files that are there. Raises ProblemError (conflict) for one that is neither ours nor due."""
        there = {name: root.checksum(name)[0] for name in REPORTS if root.stat(name) is not None}
        for name, digest in there.items():
            if digest not in (due.get(name), *self.manifest.landed.get(name, [])):
                message = f"{self.folder / name} was not written by this audit; it is kept"
                raise problem("conflict", message, operation="audit", stage="landing", details={"file": name})
        return there

    def _note(self, manifest: Manifest) -> None:
        if manifest != self.manifest:
            self._state.write_atomic(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)), replace=True)
            self.manifest = manifest


def _fields(settings: Settings) -> dict[str, Any]:
    """Its fields by path, each input by its place."""
    told = cast("dict[str, Any]", msgspec.to_builtins(settings))
    return {f"inputs[{at}].{name}": value for at, one in enumerate(told.pop("inputs")) for name, value in one.items()} | told


def _standing(flow: Flow, log: FlowLog) -> tuple[State, tuple[str, ...]]:
    """State of a point, and what was wrong if it failed."""
    state: State = "pending"
    for phase in flow.phases:
        attempts = log.attempts(phase.name)
        if not attempts:
            break
        ended = attempts[-1].ended
        if ended is None or log.asked(phase.name, attempts[-1].seq):
            return "running", ()
        if ended.state == "failed":
            return "failed", tuple(f"{phase.name}: {wrong}" for wrong in ended.problems)
        state = "completed" if phase is flow.phases[-1] else "running"
    return state, ()


@contextmanager
def _landing() -> Generator[None]:
    """File problems as the one typed error."""
    try:
        yield
    except FileProblem as error:
        p = Problem(error.kind, error.message, operation="audit", stage="landing", execution_started=error.started, details=error.details)
        raise ProblemError(p) from error


def _refused(message: str, **details: str) -> ProblemError:
    return problem("validation", message, operation="audit", stage="arguments", details=details)
