"""Carrying out a run's actions over its registry: coroutines in the loop, functions in killable workers or in threads.

Theory of operation. `execute` dispatches once and turns whatever happens into an Outcome; only the run's own
cancellation comes out of it, and only when nothing of the call is running any more: a worker's process tree is killed
and reaped, a thread is waited for (S2.22, S2.23). Cancellation that nobody asked for is the tool's own exception. Time
limits are the kernel's: it cancels. `settle` never dispatches; a tool without a settle function cannot tell.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Final, cast

from ..files.threads import in_thread
from ..kernel.records import Part, canonical
from ..kernel.seams import Action, Deferred, Outcome, Settled, Unknown
from .calls import Answer, Ask, Call
from .context import ToolContext
from .outcomes import lost, raised, returned, settled, with_printed
from .references import FunctionRef
from .registry import FunctionTool, Handler, Registry
from .schema import arguments, signature_of
from .worker import Home, WorkerPool

#: Seconds a cancelled read in a thread is waited for; longer, and the process could never exit.
PATIENCE_S: Final = 30.0
#: Codes of outcomes that say nothing about the call that was asked for.
_NO_ANSWER: Final = ("worker_died", "tool_unavailable")
#: Bytes of an answer beside the observation.
_OVERHEAD: Final = 1 << 20


class ToolActions:
    """Implements `kernel.seams.Actions`: tools of no environment, so the completion signal is never there by nature (tier G)."""

    promises_completion = False

    def __init__(self, registry: Registry, workdir: str | os.PathLike[str] = ".", workers: WorkerPool | None = None) -> None:
        """`workdir`: where process tools run. `workers`: a pool to share; without one, a pool of its own, ended by `aclose`."""
        self._registry = registry
        self._workdir = str(Path(workdir).absolute())
        self._shared = workers is not None
        self._workers = workers or WorkerPool()

    async def execute(self, action: Action) -> Outcome | Deferred:
        """Dispatch once. Every fault of the tool is an Outcome."""
        tool = self._registry.find(action.tool)
        if tool is None:
            return Outcome("not_executed", (Part(text=f"There is no tool {action.tool}."),), code="unknown_tool")
        if isinstance(tool, FunctionTool) and tool.ref is not None:
            return cast("Outcome | Deferred", await self._in_worker(tool, tool.ref, action))
        asked = _cancellations()
        try:
            return returned(await self._called(tool, action), tool.spec)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _cancellations() > asked:
                raise
            return raised(error, tool.spec)

    async def settle(self, action: Action, token: str | None, fence: bool = False) -> Settled:  # noqa: FBT001, FBT002  # the seam's signature
        """What became of `action.key`, by the tool's own settle function; Unknown if it has none or fails."""
        tool = self._registry.find(action.tool)
        if tool is None or tool.settle is None:
            return Unknown()
        if isinstance(tool, FunctionTool) and tool.ref is not None and not iscoroutinefunction(tool.settle):
            answer = await self._in_worker(tool, tool.ref, action, Ask(token, fence))
            return Unknown() if isinstance(answer, Deferred) or (isinstance(answer, Outcome) and answer.code in _NO_ANSWER) else answer
        asked = _cancellations()
        try:
            return settled(await self._asked(tool, action, token, fence=fence), tool.spec)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _cancellations() > asked:
                raise
            return Unknown()

    def groups(self) -> tuple[tuple[int, int], ...]:
        """Process groups for the holder row."""
        return self._workers.groups()

    async def aclose(self) -> None:
        """End the workers of its own pool."""
        if not self._shared:
            await self._workers.aclose()

    async def _called(self, tool: FunctionTool | Handler, action: Action) -> object:
        if not isinstance(tool, FunctionTool):
            return await tool.run(action)
        stop = threading.Event()
        context = ToolContext(action.key, action.run_id, action.call, stop.is_set)
        given = arguments(signature_of(tool.function), action.args, context)
        if tool.spec.kind == "async":
            try:
                return await tool.function(**given)
            finally:
                stop.set()
        patience = None if not tool.spec.interruptible else PATIENCE_S
        return await in_thread(lambda: tool.function(**given), stop.set, patience)

    async def _asked(self, tool: FunctionTool | Handler, action: Action, token: str | None, *, fence: bool) -> object:
        ask = cast(Callable[..., Any], tool.settle)
        given = (action.key, token, fence) if isinstance(tool, FunctionTool) else (action, token, fence)
        if isinstance(tool, FunctionTool) and not iscoroutinefunction(ask):
            return await in_thread(lambda: ask(*given), lambda: None, PATIENCE_S)
        return await cast(Awaitable[object], ask(*given))

    async def _in_worker(self, tool: FunctionTool, ref: FunctionRef, action: Action, ask: Ask | None = None) -> Answer:
        spec = tool.spec
        call = Call(ref, spec.effect, spec.result_limit, spec.defers, action.key, action.run_id, action.call, action.args, ask)
        try:
            reply = await self._workers.exchange(Home(self._workdir, ref.folder), canonical(call), spec.result_limit + _OVERHEAD)
        except OSError as why:  # no worker could be started: nothing has begun
            answer = Outcome("error", (Part(text=f"The tool could not be started: {why}"),), code="tool_unavailable")
        else:
            answer = lost(spec, reply.ended) if reply.answer is None else reply.answer
            if isinstance(answer, Outcome):
                answer = with_printed(answer, spec, reply.out if answer.status == "ok" else reply.out + reply.err)
        return answer


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0
