"""REQUEST.toml (interface.md, Runs): read, checked, and made into plain values. Paths in it are relative to it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from polyloop.contract.problem import ProblemError, problem
from polyloop.contract.spend import micro, vague
from polyloop.files import FileProblem, read_named
from polyloop.journal.carry import is_name
from polyloop.kernel.objects import Agent, Budget, Json, Segment

#: Largest request, script line file or segment file, bytes.
FILE_BYTES = 16 << 20
#: How an overflow policy is written in a request file: `window:20` for the kernel's window(20).
_OVERFLOW: Final = re.compile(r"^(\w+):(\d+)$")


#: What the names of segments begin with that a run is given by its tools.
POLICY: Final = "policy."


class SegmentTable(Struct, forbid_unknown_fields=True):
    name: str
    role: str = "user"
    text: str | None = None
    file: str | None = None
    slot: Literal["", "history", "tools", "notice"] = ""


class SpendTable(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a run may spend without asking. Credits as a number or a decimal text; `max_size` as WxH."""

    credits: int | str
    tasks: int = 0
    modes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    max_seconds: float = 0
    max_size: str = ""

    def __post_init__(self) -> None:
        micro(self.credits)
        if field := vague({"tasks": self.tasks, "max_seconds": self.max_seconds}):
            raise ValueError(f"{field} is no amount")
        if self.max_size and not re.fullmatch(r"[1-9][0-9]{0,4}x[1-9][0-9]{0,4}", self.max_size):
            raise ValueError("max_size is written WIDTHxHEIGHT")
        if unnamed := next((name for name in (*self.modes, *self.models, *self.tiers) if not is_name(name)), None):
            raise ValueError(f"{unnamed!r} is no name")


class RequestFile(Struct, forbid_unknown_fields=True):
    """The file as written. `model` may be left to the command line."""

    agent: Agent
    budget: dict[str, Any] = field(default_factory=dict[str, Any])
    run_id: str | None = None
    model: str | None = None
    sub_model: str | None = None
    tools: tuple[str, ...] = ()
    completes: tuple[str, ...] = ()
    workspace: str | None = None
    permission_mode: Literal["read_only", "request_approval", "auto"] | None = None
    canvas: str | None = None
    skills: tuple[str, ...] = ()
    lang: str | None = None
    fork_of: str | None = None
    parent: str = ""
    spend: SpendTable | None = None
    binding: dict[str, str] = field(default_factory=dict[str, str])
    model_params: dict[str, Any] = field(default_factory=dict[str, Any])
    segments: tuple[SegmentTable, ...] = ()
    result_schema: dict[str, Any] | None = None
    overflow: str = "none"
    allow_unconfined_exec: bool = False


class Plan(Struct, frozen=True):
    """A request with everything decided but the wiring: what the command line and the file say together."""

    base: Path
    agent: Agent
    budget: Budget
    segments: tuple[Segment, ...]
    model: str
    tools: tuple[str, ...]
    completes: tuple[str, ...]
    binding: dict[str, str]
    params: dict[str, Json]
    run_id: str | None = None
    workspace: str | None = None
    permission_mode: str = "auto"
    canvas: str | None = None
    spend: str = ""
    lang: str | None = None
    fork_of: str | None = None
    #: The model of sub-runs (None = the run's own).
    sub_model: str | None = None
    #: The run whose task this one follows up ("" = none): what was asked there is not asked again.
    parent: str = ""
    skills: tuple[str, ...] = ()
    result_schema: Json = None
    overflow: str = "none"
    allow_unconfined_exec: bool = False


def refuse(message: str, **details: Json) -> ProblemError:
    return problem("validation", message, operation="run", stage="arguments", details=details)


def read_bytes(path: Path, limit: int = FILE_BYTES, operation: str = "run") -> bytes:
    """A file named by a person, whole. Raises ProblemError when it is missing, no regular file, too large or not readable."""
    try:
        data = read_named(path, limit)
    except FileProblem as error:
        raise problem("validation", f"cannot read {error.message}", operation=operation, stage="arguments") from error
    if len(data) > limit:
        raise problem("validation", f"{path} is larger than {limit} bytes", operation=operation, stage="arguments")
    return data


def load(path: Path, given: Mapping[str, Any]) -> Plan:
    """Read a request file; `given` fills in what it leaves out (model, max_steps, max_iterations, run_id).

    Raises ProblemError(validation): not UTF-8, not TOML, an unknown or repeated field, a budget missing or in the wrong place.
    """
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise refuse(f"{path} is not UTF-8 (byte {error.start})") from error
    try:
        table = tomllib.loads(text)
        file = msgspec.convert(table, RequestFile)
    except RecursionError as error:
        raise refuse(f"{path} is nested too deeply") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise refuse(f"{path}: {error}{_hint(str(error))}") from error
    return _plan(path, file, given)


def _hint(message: str) -> str:
    if "$.agent" in message and ("max_" in message or "budget" in message):
        return ". A budget stands in [budget], never under [agent]: it belongs to the run"
    return ""


def _plan(path: Path, file: RequestFile, given: Mapping[str, Any]) -> Plan:
    base = path.resolve().parent
    budget = _merged("budget", file.budget, {"max_valid_steps": given.get("max_steps"), "max_iterations": given.get("max_iterations")})
    top = _merged("", {"model": file.model, "run_id": file.run_id}, {"model": given.get("model"), "run_id": given.get("run_id")})
    if top["model"] is None:
        raise refuse(f"{path}: no model; name one in the file or with --model")
    try:
        checked = msgspec.convert(budget, Budget)
    except msgspec.ValidationError as error:
        raise refuse(f"{path}: [budget]: {error}", field="budget") from error
    return Plan(
        base=base,
        agent=file.agent,
        budget=checked,
        segments=tuple(_segment(base, s) for s in file.segments),
        model=top["model"],
        tools=file.tools,
        completes=file.completes,
        binding=file.binding,
        params=file.model_params,
        run_id=top["run_id"],
        workspace=file.workspace,
        permission_mode=file.permission_mode or "auto",
        canvas=file.canvas,
        spend="" if file.spend is None else msgspec.json.encode(file.spend, order="sorted").decode(),
        lang=file.lang,
        fork_of=file.fork_of,
        sub_model=file.sub_model,
        parent=file.parent,
        skills=file.skills,
        result_schema=file.result_schema,
        overflow=_OVERFLOW.sub(r"\1(\2)", file.overflow),
        allow_unconfined_exec=file.allow_unconfined_exec,
    )


def _merged(table: str, said: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Two places may not both set a field: one place answers what this run used."""
    out = dict(said)
    for name, value in given.items():
        if value is None:
            continue
        if out.get(name) is not None:
            raise refuse(f"{table + '.' if table else ''}{name} stands in the request file; it cannot be given again", field=name)
        out[name] = value
    return out


def _segment(base: Path, s: SegmentTable) -> Segment:
    if s.name.startswith(POLICY):
        raise refuse(f"segment {s.name}: names that begin with {POLICY} are those of policy texts", field=f"segments.{s.name}")
    if s.text is not None and s.file is not None:
        raise refuse(f"segment {s.name}: text and file exclude each other", field=f"segments.{s.name}")
    if s.slot:
        if s.text is not None or s.file is not None:
            raise refuse(f"segment {s.name}: a slot has no text of its own", field=f"segments.{s.name}")
        return Segment(s.name, s.role, "", s.slot)
    if s.file is not None:
        try:
            return Segment(s.name, s.role, read_bytes(base / s.file).decode())
        except UnicodeDecodeError as error:
            raise refuse(f"segment {s.name}: {s.file} is not UTF-8 (byte {error.start})") from error
    if s.text is None:
        raise refuse(f"segment {s.name}: text, file or slot is needed", field=f"segments.{s.name}")
    return Segment(s.name, s.role, s.text)
