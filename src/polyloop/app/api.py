"""The Python surface: run, resume, cancel, fork, verify over an open store; `run_sync` for code without an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Required, TypedDict, Unpack

from msgspec.structs import replace

from polyloop.gateway.sources import source
from polyloop.kernel.objects import Budget, Request, RunResult
from polyloop.kernel.seams import Actions, Model, Sink
from polyloop.kernel.verify import Verdict
from polyloop.toolbox.permission import Mode
from polyloop.toolbox.registry import Registry

from .loop import carried_out
from .policies import policy_ids, with_policies
from .request_file import read_bytes
from .runs import Runs
from .store import open_runs
from .wiring import PROGRAMS, Wiring, executor, judged

#: What a run may be given as tools: a registry, or the functions of one.
ToolsGiven = Registry | Sequence[Callable[..., Any]]


@asynccontextmanager
async def open_store(where: str | Path = ".polyloop/runs.db", tenant: str = "local", *, dedicated: bool = False) -> AsyncGenerator[Runs]:
    """Open a store and hold runs in it: `async with open_store("runs.db") as store`. Raises ProblemError.

    `dedicated`: the loop lives for these runs alone (a worker, not a web server); it may then wait for the disk itself.
    """
    async with open_runs(str(where), tenant, dedicated=dedicated) as runs, runs.holding():
        yield runs


async def run(
    request: Request,
    *,
    store: Runs,
    model: Model | str,
    tools: ToolsGiven = (),
    actions: Actions | None = None,
    sinks: Sequence[Sink] = (),
    permission_mode: Mode = "auto",
    audit_to: Path | None = None,
) -> RunResult:
    """Run a request to its end, a wait or a stop. The same request under the same id resumes it, or returns its logged result.

    `model`: an object with `async call(request)`, or a source like "script:FILE". `tools`: functions or a Registry.
    `actions`: an executor of your own (an environment); then `tools` says what the model may call.
    Raises ProblemError: validation, conflict (another request under this id), owned_elsewhere, corrupt_store.
    """
    asked, wiring = _wired(request, model, tools, actions, sinks, permission_mode)
    return await store.run(asked, wiring, audit_to)


async def resume(
    request: Request,
    *,
    store: Runs,
    model: Model | str,
    tools: ToolsGiven = (),
    actions: Actions | None = None,
    sinks: Sequence[Sink] = (),
    permission_mode: Mode = "auto",
    accept: Sequence[str] = (),
) -> RunResult:
    """Go on with a run; everything in `request` is compared. Raises ProblemError: not_found, parameter_drift, owned_elsewhere."""
    asked, wiring = _wired(request, model, tools, actions, sinks, permission_mode)
    return await store.resume(await store.like(asked.run_id, asked), wiring, accept)


async def cancel(run_id: str, *, store: Runs, model: Model | str, tools: ToolsGiven = (), reason: str = "") -> RunResult:
    """End a run for good, wherever it is. `model` and `tools` settle what is open if nobody holds it."""
    return await store.cancel(run_id, reason, "caller", lambda asked: _wired(asked, model, tools, None, (), "auto")[1])


async def fork(
    run_id: str, at: int, new_id: str, *, store: Runs, model: Model | str, tools: ToolsGiven = (), budget: Budget | None = None
) -> RunResult:
    """Start a new run from the history of another up to record `at`. Raises ProblemError(validation) inside an iteration."""
    return await store.fork(run_id, at, new_id, lambda asked: _wired(asked, model, tools, None, (), "auto")[1], budget)


async def verify(run_id: str, *, store: Runs, head: str = "") -> Verdict:
    """Recompute every hash and rule of a run's log; `head` = a hash kept from earlier."""
    return await store.verify(run_id, head)


class Given(TypedDict, total=False):
    """What `run` is given beside its request and its store."""

    model: Required[Model | str]
    tools: ToolsGiven
    actions: Actions | None
    sinks: Sequence[Sink]
    permission_mode: Mode
    audit_to: Path | None


def run_sync(request: Request, *, store: str | Path = ".polyloop/runs.db", tenant: str = "local", **wiring: Unpack[Given]) -> RunResult:
    """`run` for code without an event loop, or inside a running one: opens the store, runs on a thread of its own, closes it."""

    async def work() -> RunResult:
        async with open_store(store, tenant, dedicated=True) as opened:
            return await run(request, store=opened, **wiring)

    with ThreadPoolExecutor(1, "polyloop-run") as thread:
        return thread.submit(carried_out, work()).result()


def _wired(
    request: Request, model: Model | str, tools: ToolsGiven, actions: Actions | None, sinks: Sequence[Sink], mode: Mode
) -> tuple[Request, Wiring]:
    registry = tools if isinstance(tools, Registry) else Registry(tools)
    named = source(model, lambda name: read_bytes(Path(name)), PROGRAMS) if isinstance(model, str) else model
    assembly = {"permission_mode": mode, **({"model": model} if isinstance(model, str) else {}), **request.assembly}
    made = executor(registry, mode, actions)
    reads, registry = judged(request, registry)
    wiring = Wiring(named, reads, registry, made, tuple(sinks))
    asked = with_policies(replace(request, assembly=assembly), policy_ids(map(registry.find, registry.specs)))
    return asked, wiring
