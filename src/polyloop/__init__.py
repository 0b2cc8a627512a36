"""PolyLoop: a durable agent runtime. Nothing is called done until it has been proved, and nothing that happened goes unrecorded."""

from .app.api import cancel, fork, open_store, resume, run, run_sync, verify
from .contract.problem import Problem, ProblemError
from .kernel.objects import Agent, Budget, Request, RunResult, Segment, ToolSpec
from .kernel.seams import Actions, Clock, Deferred, Interpreter, Log, Model, ModelCallFailed, Outcome, Reply, Tools
from .toolbox import ToolContext, ToolFailed, tool
from .toolbox.registry import Registry

__all__ = [
    "Actions", "Agent", "Budget", "Clock", "Deferred", "Interpreter", "Log", "Model", "ModelCallFailed", "Outcome", "Problem",
    "ProblemError", "Registry", "Reply", "Request", "RunResult", "Segment", "ToolContext", "ToolFailed", "ToolSpec", "Tools", "cancel",
    "fork", "open_store", "resume", "run", "run_sync", "tool", "verify",
]  # fmt: skip
