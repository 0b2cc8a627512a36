"""PolyLoop: a durable agent runtime. Nothing is called done until it has been proved, and nothing that happened goes unrecorded."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app.api import cancel, fork, open_store, resume, run, run_sync, verify
    from .contract.problem import Problem, ProblemError
    from .kernel.objects import Agent, Budget, Request, RunResult, Segment, ToolSpec
    from .kernel.seams import Actions, Clock, Deferred, Interpreter, Log, Model, ModelCallFailed, ModelRequest, Outcome, Reply, Tools
    from .toolbox import ToolContext, ToolFailed, tool
    from .toolbox.registry import Registry

__all__ = [
    "Actions", "Agent", "Budget", "Clock", "Deferred", "Interpreter", "Log", "Model", "ModelCallFailed", "ModelRequest", "Outcome",
    "Problem", "ProblemError", "Registry", "Reply", "Request", "RunResult", "Segment", "ToolContext", "ToolFailed", "ToolSpec", "Tools", "cancel",
    "fork", "open_store", "resume", "run", "run_sync", "tool", "verify",
]  # fmt: skip

#: Where each public name lives. Loaded when first used: declaring a tool in a worker must not load the runtime.
_HOMES = {
    "app.api": ("cancel", "fork", "open_store", "resume", "run", "run_sync", "verify"),
    "contract.problem": ("Problem", "ProblemError"),
    "kernel.objects": ("Agent", "Budget", "Request", "RunResult", "Segment", "ToolSpec"),
    "kernel.seams": ("Actions", "Clock", "Deferred", "Interpreter", "Log", "Model", "ModelCallFailed", "ModelRequest", "Outcome", "Reply", "Tools"),
    "toolbox": ("ToolContext", "ToolFailed", "tool"),
    "toolbox.registry": ("Registry",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


if not TYPE_CHECKING:  # a checker that sees it takes every misspelt name for one of ours

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
