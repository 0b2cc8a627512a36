"""One run's narrow set of tools: what the model sees, what exists, what is checked and what is dispatched are one object.

Theory of operation. A registry is made per run, from functions, ready handlers, globs over a catalogue and references
`module:function`, and never changes; narrowing makes another one (S2.12). `specs`, `problems` and `find` read the same
table, so a tool the model can see is one that can be called, and no other (S2.13).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import problem
from ..kernel.objects import Json, ToolSpec
from ..kernel.seams import Action
from .declare import Declared, Settle, check_rules, declared, spec_of
from .references import FunctionRef, load, ref_of

#: Tools that no glob matches: who wants them must say so by name.
NEVER_BY_GLOB: Final = frozenset({"workspace_exec"})
#: Problems reported for one call at most: the rest would only fill the model's context.
MOST_PROBLEMS: Final = 50


class Handler(Protocol):
    """A ready tool: `run(action)` is a coroutine function that returns what a tool function may return; `settle` likewise."""

    @property
    def spec(self) -> ToolSpec: ...
    @property
    def run(self) -> Callable[[Action], Any]: ...
    @property
    def settle(self) -> Callable[[Action, str | None, bool], Any] | None: ...
    @property
    def idempotent(self) -> bool: ...


class FunctionTool(Struct, frozen=True):
    """A function with its spec; `ref` = where a worker finds it (kind process only)."""

    spec: ToolSpec
    function: Callable[..., Any]
    settle: Settle | None = None
    idempotent: bool = False
    ref: FunctionRef | None = None


Tool = FunctionTool | Handler


class Registry:
    """The tools of one run, in order. Implements `kernel.seams.Tools`."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        """Raises ProblemError (validation): a forbidden declaration, or two different tools of one name."""
        self._tools: dict[str, Tool] = {}
        self._validators: dict[str, Any] = {}
        for given in tools:
            tool = _tool_of(given)
            check_rules(Declared(tool.spec, cast(Any, tool.settle), tool.idempotent))
            if self._tools.setdefault(tool.spec.name, tool) != tool:
                raise _bad(tool.spec.name, f"two tools are named {tool.spec.name}")
        self.specs: Mapping[str, ToolSpec] = MappingProxyType({name: tool.spec for name, tool in self._tools.items()})

    @classmethod
    def resolve(
        cls, names: Sequence[str], catalogue: Mapping[str, Tool | Callable[..., Any]], beside: str = "", completes: Collection[str] = ()
    ) -> Registry:
        """The tools a request names: names and globs of the catalogue, and references `module:function`.

        `beside`: the folder of the request file. `completes` adds to what the tools' own declarations say.
        Raises ProblemError (validation) for an unknown tool and for a glob without match.
        """
        tools = [tool for name in names for tool in _named(name, catalogue, beside)]
        known = {tool.spec.name for tool in tools}
        for name in completes:
            if name not in known:
                raise _bad(name, f"completes names {name}, which is no tool of this run")
        return cls(_completing(tool) if tool.spec.name in completes else tool for tool in tools)

    def narrow(self, names: Sequence[str]) -> Registry:
        """A registry of some of these tools, by names and globs. Raises as `resolve`."""
        return Registry(tool for name in names for tool in _named(name, self._tools, None))

    def find(self, name: str) -> Tool | None:
        """What is dispatched under this name."""
        return self._tools.get(name)

    def problems(self, tool: str, args: Json) -> list[dict[str, Json]]:
        """All that is wrong with `args`, each `{path, issue}` like `{"path": "rows[0].x", "issue": "..."}`; empty = valid."""
        if tool not in self._tools:
            return [{"path": "", "issue": f"there is no tool {tool}"}]
        validator = self._validators.get(tool)
        if validator is None:
            from jsonschema_rs import Draft202012Validator

            validator = self._validators[tool] = Draft202012Validator(self.specs[tool].schema, mask="the value")
        try:
            errors = list(islice(validator.iter_errors(args), MOST_PROBLEMS))
        except UnicodeEncodeError:  # lone surrogates are lawful text, but the validator's own language has no word for them
            errors = list(islice(validator.iter_errors(_encodable(args)), MOST_PROBLEMS))
        return [{"path": path, "issue": issue} for error in errors for path, issue in _issues(error)]


def function_tool(function: Callable[..., Any], ref: FunctionRef | None = None, reference: str = "") -> FunctionTool:
    """A function as a tool. Raises ProblemError (validation) if it cannot be one, or not in a worker process."""
    told = declared(function)
    spec = replace(spec_of(function), ref=reference)
    where = None if spec.kind != "process" else ref or ref_of(function)
    return FunctionTool(spec, function, told.settle, told.idempotent, where)


def _tool_of(given: Tool | Callable[..., Any]) -> Tool:
    return cast(Tool, given) if hasattr(given, "spec") else function_tool(cast(Callable[..., Any], given))


def _named(name: str, catalogue: Mapping[str, Tool | Callable[..., Any]], beside: str | None) -> list[Tool]:
    if name in catalogue:
        return [_tool_of(catalogue[name])]
    if ":" in name and beside is not None:
        function, ref = load(name, beside)
        return [function_tool(function, ref, name)]
    if any(c in name for c in "*?["):
        found = [_tool_of(tool) for known, tool in catalogue.items() if known not in NEVER_BY_GLOB and fnmatchcase(known, name)]
        if not found:
            raise _bad(name, f"no tool matches {name}", catalogue)
        return found
    raise _bad(name, f"unknown tool {name}", catalogue)


def _completing(tool: Tool) -> Tool:
    spec = replace(tool.spec, completes=True)
    return replace(tool, spec=spec) if isinstance(tool, Struct) else _Renewed(spec, tool)


class _Renewed:
    """A handler under another spec."""

    def __init__(self, spec: ToolSpec, handler: Handler) -> None:
        self.spec, self.run, self.settle, self.idempotent = spec, handler.run, handler.settle, handler.idempotent


def _bad(name: str, why: str, known: Collection[str] = ()) -> Exception:
    details = {"tool": name, **({"known": sorted(known)} if known else {})}
    return problem("validation", why, operation="run", stage="arguments", details=details)


def _issues(error: Any) -> Iterator[tuple[str, str]]:
    """One validator error as path and plain words, each missing or surplus field by its own path."""
    path, kind = "", error.kind
    for step in error.instance_path:
        path = _joined(path, step)
    if kind.name == "required":
        yield _joined(path, kind.property), "is missing"
    elif kind.name == "additionalProperties":
        yield from ((_joined(path, name), "is not a declared field") for name in kind.unexpected)
    elif kind.name == "type":
        yield path, f"must be {' or '.join(kind.types)}"
    elif kind.name == "enum":
        yield path, f"must be one of {', '.join(str(option) for option in kind.options)}"
    elif kind.name == "anyOf":
        inner = [found for branch in kind.context for inner in branch for found in _issues(inner)]
        told = dict.fromkeys(issue if at == path else f"{at} {issue}" for at, issue in inner)
        yield path, " or ".join(told)
    else:
        yield path, error.message


def _joined(path: str, step: str | int) -> str:
    if isinstance(step, int):
        return f"{path}[{step}]"
    if step.isidentifier():
        return f"{path}.{step}" if path else step
    return f'{path}["{step}"]'


def _encodable(value: Json) -> Json:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_encodable(v) for v in value]
    return {cast(str, _encodable(k)): _encodable(v) for k, v in value.items()} if isinstance(value, dict) else value
