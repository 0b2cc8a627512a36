"""Declaring a tool: the decorator, the rules it is held to, and what a tool may ask of its own call.

Theory of operation. A tool is an annotated Python function. `@tool(...)` says what the signature cannot: its effect on
the world, what to do with a call whose outcome was lost, how it may be stopped. The rules are checked where the tool is
declared, all of them at once, so that a forbidden combination never reaches a run (S2.28). The function itself stays
as it was. Its closed schema is made from its annotations by `spec_of`, once a registry asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast, get_args, overload

from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import problem
from ..kernel.objects import Effect, Kind, Replay, ToolSpec

F = TypeVar("F", bound=Callable[..., Any])
#: `settle(key, token, fence)`: what became of the call with this key? See `tool`.
Settle = Callable[[str, str | None, bool], Any]

#: Parameter names that the text protocol uses itself: a flattened call could not be told from its wrapper.
RESERVED: Final = frozenset({"tool", "args"})
_MARK: Final = "__polyloop_tool__"
_REPLAY_BY_EFFECT: Final[dict[str, Replay]] = {"read": "rerun", "write": "report_unknown", "pay": "never"}
# Code flags of the interpreter: `inspect` is too heavy for a decorator.
_COROUTINE, _GENERATORS = 0x80, 0x20 | 0x200


class ToolFunction(Protocol):
    """The attributes of a plain function."""

    __name__: str
    __qualname__: str
    __module__: str
    __doc__: str | None
    __code__: Any
    __globals__: dict[str, Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


class Declared(Struct, frozen=True):
    """How a function was declared. The schema is still empty; see `spec_of`."""

    spec: ToolSpec
    settle: Settle | None = None
    idempotent: bool = False


_CHOICES: Final = {"effect": get_args(Effect), "replay": get_args(Replay), "kind": get_args(Kind)}
#: What is forbidden, and what to do instead.
RULES: Final[tuple[tuple[Callable[[Declared], bool], str], ...]] = (
    (
        lambda d: d.spec.effect == "write" and d.spec.replay == "rerun" and not d.idempotent,
        "effect write may be rerun only if the service honours the key (ToolContext.key): then say idempotent=True",
    ),
    (lambda d: d.spec.effect == "pay" and d.spec.replay not in ("probe", "ask", "never"), "effect pay needs replay probe, ask or never"),
    (lambda d: d.spec.defers and d.spec.replay != "probe", "a tool that defers needs replay probe"),
    (lambda d: d.spec.replay == "probe" and d.settle is None, "replay probe needs settle=, a function (key, token, fence)"),
    (
        lambda d: d.spec.kind == "thread" and d.spec.effect != "read" and d.spec.interruptible,
        "a thread cannot be stopped: a write or pay tool of kind thread must say interruptible=False",
    ),
    (lambda d: d.spec.timeout_s < 0, "timeout_s must not be negative (0 = none)"),
    (lambda d: d.spec.result_limit < 1, "result_limit is a number of bytes, at least 1"),
    (lambda d: d.spec.max_argument_failures < 0, "max_argument_failures must not be negative (0 = no limit)"),
)


def check_rules(declared: Declared) -> None:
    """Raises ProblemError (validation) naming the tool and every rule it breaks."""
    spec = declared.spec
    wrong = [f"{name} must be one of {', '.join(allowed)}" for name, allowed in _CHOICES.items() if getattr(spec, name) not in allowed]
    wrong += [says for broken, says in RULES if broken(declared)]
    wrong += [f"a parameter may not be named {name!r}" for name in sorted(RESERVED & spec.parameters)]
    if wrong:
        raise problem("validation", f"tool {spec.name}: {'; '.join(wrong)}", details={"tool": spec.name, "rules": wrong})


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *, effect: Effect = ..., replay: Replay | None = ..., kind: Kind | None = ..., completes: bool = ..., settle: Settle | None = ...,
    timeout_s: float = ..., result_limit: int = ..., pollable: bool = ..., max_argument_failures: int = ..., defers: bool = ...,
    interruptible: bool = ..., idempotent: bool = ...,
) -> Callable[[F], F]: ...  # fmt: skip
def tool(
    function: Callable[..., Any] | None = None, /, *, effect: Effect = "write", replay: Replay | None = None, kind: Kind | None = None,
    completes: bool = False, settle: Settle | None = None, timeout_s: float = 0, result_limit: int = 65536, pollable: bool = False,
    max_argument_failures: int = 0, defers: bool = False, interruptible: bool = True, idempotent: bool = False,
) -> Any:  # fmt: skip
    """Declare a function as a tool; it is returned unchanged.

    `effect`: read, write or pay. `replay`: what a resume does with a call whose outcome was lost; default: probe if there is
    a `settle`, else rerun (read), report_unknown (write), never (pay). `kind`: async for an `async def`, else process (a warm
    worker that can be killed) or thread. `settle(key, token, fence)` tells what became of a call: Outcome, NotStarted,
    Pending or Unknown; plain data = it succeeded with this observation; None = the service cannot tell. `timeout_s` 0 = none.
    `result_limit`: bytes of observation kept. `idempotent`: the service honours the key, so a write may be rerun.

    Raises ProblemError (validation) for forbidden combinations, all of them at once (S2.18, S2.28).
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        plain = _function(function)
        spec = ToolSpec(
            plain.__name__, "", {}, effect, replay or ("probe" if settle else _REPLAY_BY_EFFECT.get(effect, "report_unknown")),
            kind or _kind(plain), completes, timeout_s, result_limit, pollable, max_argument_failures, defers, interruptible=interruptible,
        )  # fmt: skip
        made = Declared(spec, settle, idempotent)
        check_rules(made)
        _check_function(plain, spec)
        setattr(function, _MARK, made)
        return function

    return declare if function is None else declare(function)


def declared(function: Callable[..., Any]) -> Declared:
    """How the function was declared. An undecorated one: effect write, replay report_unknown, kind process or async."""
    marked = getattr(function, _MARK, None)
    if marked is None:
        plain = _function(function)
        marked = Declared(ToolSpec(plain.__name__, "", {}, kind=_kind(plain)))
        _check_function(plain, marked.spec)
    return cast(Declared, marked)


def spec_of(function: Callable[..., Any]) -> ToolSpec:
    """The tool's spec: its name, docstring and closed JSON Schema from its annotations (S2.13).

    Raises ProblemError (validation) naming the parameter whose annotation is missing or not supported.
    """
    from .schema import schema_of, signature_of

    plain = _function(function)
    text = "\n".join(line.strip() for line in (plain.__doc__ or "").strip().splitlines())
    return replace(declared(function).spec, description=text, schema=schema_of(plain.__name__, signature_of(function)))


def _function(function: Callable[..., Any]) -> ToolFunction:
    if not hasattr(function, "__code__"):
        raise problem("validation", f"a tool is a function, not {type(function).__name__}: wrap it in one")
    return cast(ToolFunction, function)


def _kind(function: ToolFunction) -> Kind:
    return "async" if function.__code__.co_flags & _COROUTINE else "process"


def _check_function(function: ToolFunction, spec: ToolSpec) -> None:
    code, wrong = function.__code__, ""
    if code.co_flags & _GENERATORS:
        wrong = "a generator cannot be a tool: return the whole value"
    elif (spec.kind == "async") != bool(code.co_flags & _COROUTINE):
        wrong = "kind async is for async def, and for nothing else"
    elif reserved := RESERVED & set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
        wrong = f"a parameter may not be named {min(reserved)!r}"
    if wrong:
        raise problem("validation", f"tool {spec.name}: {wrong}", details={"tool": spec.name, "rules": [wrong]})
