"""One run's narrow set of tools: what the model sees, what exists, what is checked and what is dispatched are one object.

Theory of operation. A registry is made per run, from functions, ready handlers, globs over a catalogue and references
`module:function`, and never changes; narrowing makes another one (S2.12). `specs`, `problems` and `find` read the same
table, so a tool the model can see is one that can be called, and no other (S2.13).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import problem
from ..contract.schema import Shape
from ..kernel.objects import Json, ToolSpec
from ..kernel.seams import Action
from .declare import Declared, Settle, check_rules, declared, spec_of
from .references import FunctionRef, load, ref_of

#: Tools that no glob matches: who wants them must say so by name.
NEVER_BY_GLOB: Final = frozenset({"workspace_exec"})
#: Names of shipped tools whose records are read again as what they are: no function may put others there.
SHIPPED_ALONE: Final = frozenset({"ask_user", "sub_run"})


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

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = (), completes: Collection[str] = ()) -> None:
        """`completes` adds to what the tools say of themselves.

        Raises ProblemError (validation): a forbidden declaration, two different tools of one name, `completes` without its tool.
        """
        self._tools: dict[str, Tool] = {}
        self._shapes: dict[str, Shape] = {}
        for given in tools:
            tool = _tool_of(given)
            if isinstance(tool, FunctionTool) and tool.spec.name in SHIPPED_ALONE:
                raise _bad(tool.spec.name, f"{tool.spec.name} is a shipped tool, and no function is given its name")
            check_rules(Declared(tool.spec, cast(Any, tool.settle), tool.idempotent))
            if self._tools.setdefault(tool.spec.name, tool) != tool:
                raise _bad(tool.spec.name, f"two tools are named {tool.spec.name}")
        for name in completes:
            if name not in self._tools:
                raise _bad(name, f"completes names {name}, which is no tool of this run")
        specs = {name: replace(tool.spec, completes=tool.spec.completes or name in completes) for name, tool in self._tools.items()}
        self.specs: Mapping[str, ToolSpec] = MappingProxyType(specs)

    @classmethod
    def resolve(
        cls, names: Sequence[str], catalogue: Mapping[str, Tool | Callable[..., Any]], beside: str = "", completes: Collection[str] = ()
    ) -> Registry:
        """The tools a request names: names and globs of the catalogue, and references `module:function`.

        `beside`: the folder of the request file.
        Raises ProblemError (validation) for an unknown tool and for a glob without match, and as the constructor.
        """
        return cls((tool for name in names for tool in _named(name, catalogue, beside)), completes)

    def narrow(self, names: Sequence[str]) -> Registry:
        """A registry of some of these tools, by names and globs. Raises as `resolve`."""
        tools = [tool for name in names for tool in _named(name, self._tools, None)]
        return Registry(tools, [tool.spec.name for tool in tools if self.specs[tool.spec.name].completes])

    def giving(self, schema: dict[str, Json]) -> Registry:
        """These tools with `result` of each that completes needed and of this schema, as the model sees it and as it is checked.

        Raises ProblemError (validation): a schema that is none, a tool that completes and has no `result`.
        """
        out = Registry(self._tools.values())
        given = {name: replace(spec, schema=_giving(name, spec.schema, schema)) for name, spec in self.specs.items() if spec.completes}
        out.specs = MappingProxyType({**self.specs, **given})
        return out

    def find(self, name: str) -> Tool | None:
        """What is dispatched under this name."""
        return self._tools.get(name)

    def problems(self, tool: str, args: Json) -> list[dict[str, Json]]:
        """All that is wrong with `args`, each `{path, issue}` like `{"path": "rows[0].x", "issue": "..."}`; empty = valid."""
        if tool not in self._tools:
            return [{"path": "", "issue": f"there is no tool {tool}"}]
        shape = self._shapes.get(tool) or self._shapes.setdefault(tool, Shape(self.specs[tool].schema))
        return problems_of(shape, args)


def problems_of(shape: Shape, value: Json) -> list[dict[str, Json]]:
    """All that is wrong with a value, each `{path, issue}`."""
    return [{"path": p.field, "issue": p.message or p.issue} for p in shape.problems(value)]


def usable(schema: dict[str, Json]) -> Shape:
    """A result's schema, ready to check values. Raises ProblemError (validation) if it is none."""
    shape = Shape(schema)
    try:
        shape.problems(None)
    except Exception as why:  # the validator's own error has no common base
        raise bad_result(str(why)) from why
    return shape


def bad_result(why: str) -> Exception:
    return problem("validation", f"result_schema: {why}", operation="run", stage="arguments", details={"field": "result_schema"})


def _giving(name: str, own: dict[str, Json], schema: dict[str, Json]) -> dict[str, Json]:
    """The arguments of a tool that completes, its `result` needed and, beside what the tool itself asks of it, of this schema."""
    properties = cast("dict[str, Json]", own.get("properties", {}))
    if "result" not in properties:
        raise bad_result(f"{name} completes the run and has no parameter `result`")
    defined = {key: schema[key] for key in ("$defs", "definitions") if key in schema}  # references start from the root
    inner: dict[str, Json] = {key: value for key, value in schema.items() if key not in defined}
    mine = {key: value for key, value in cast("dict[str, Json]", properties["result"]).items() if key != "description"}
    result: Json = {"allOf": [cast(Json, mine), inner]} if mine else inner
    needed = dict.fromkeys([*cast("list[str]", own.get("required", [])), "result"])
    shape: dict[str, Json] = {**own, **defined, "properties": {**properties, "result": result}, "required": [*needed]}
    usable(shape)
    return shape


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


def _bad(name: str, why: str, known: Collection[str] = ()) -> Exception:
    details = {"tool": name, **({"known": sorted(known)} if known else {})}
    return problem("validation", why, operation="run", stage="arguments", details=details)
