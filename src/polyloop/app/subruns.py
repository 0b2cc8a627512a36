"""The sub-runs of one run: made from what its log says of it, driven by whoever drives it.

A sub-run is a run like any other, with a log of its own; `root` in its settings tells it from a follow-up task. It is given what the
run above was given, less everything that writes: its reading tools, no grant, no other mode than read_only, and of the budget what is
left there, less one step and one call to end with. The kernel carries out what may wait one by one, so there is never a second beside it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec.structs import replace

from polyloop.contract.problem import FieldProblem, Problem, ProblemError, bad_arguments, problem
from polyloop.dialogue.deeds import facts
from polyloop.dialogue.sub_run import ABOUT, SUB_RUN, SUBMIT, Below, sub_run_id
from polyloop.dialogue.thread import begun_from, below
from polyloop.kernel import records as r
from polyloop.kernel.decide import deadline_ms
from polyloop.kernel.flight import unbroken
from polyloop.kernel.objects import Budget, Request, RunResult, Segment
from polyloop.kernel.run import Past
from polyloop.kernel.seams import Action, Loaded, Signal
from polyloop.kernel.snapshot import request_of

from .wiring import Wiring, rewire, unseen

if TYPE_CHECKING:
    from polyloop.workspace import Workspace

    from .runs import Read, Runs

#: Of a run's assembly, what would let a run below do more than read, or spend; and what is its own.
NOT_BELOW: Final = ("spend", "allow_unconfined_exec", "sub_model")


class SubRuns:
    """Implements `dialogue.sub_run.House`. `workspace` = the run's own, which it holds; `accept` = the differences that whoever resumes

    it accepts, there and below. `stuck` = why the sub-run it waits for could not go on: its caller is told, who alone can do something.
    """

    def __init__(self, runs: Runs, workspace: Workspace | None, audit_to: Path | None, accept: Sequence[str] = ()) -> None:
        self._runs, self._workspace, self._audit_to, self._accept = runs, workspace, audit_to, accept
        self.stuck: ProblemError | None = None

    async def begin(self, action: Action) -> Below | Problem:
        """Begin it, or go on with it if it was begun before."""
        try:
            if await self.look(action) is None:
                request = await self._request(action)
                return await self._driven(action, self._runs.run(request, self._wire(request), self._audit_to))
        except ProblemError as error:
            return error.problem
        return await self.go_on(action)

    async def look(self, action: Action) -> Below | None:
        child = sub_run_id(action.key)
        try:
            read = await self._runs.read(child)
        except ProblemError as error:
            if error.problem.kind != "not_found":
                raise
            return None
        if not begun_from(read.start, action.run_id):
            raise problem("conflict", f"{child} is a run that was not begun from here", operation=SUB_RUN, stage="precondition")
        return _below(read)

    async def end(self, action: Action) -> Below:
        await self._runs.cancel(sub_run_id(action.key), "", action.run_id, self._wire)
        return cast(Below, await self.look(action))

    async def go_on(self, action: Action) -> Below:
        """A run that has ended, or that another process drives, is left as it is."""
        child = sub_run_id(action.key)
        read, head = await self._runs.read(child), await self._runs.head(child)
        if read.result.ended or head.live:
            return _below(read)
        try:
            asked = await self._runs.request(child)
            return await self._driven(action, self._runs.resume(asked, self._wire(asked), self._accept, self._audit_to))
        except ProblemError as error:
            if error.problem.kind == "owned_elsewhere":  # somebody goes on with it in this instant
                return _below(read)
            self.stuck = ProblemError(replace(error.problem, details={**error.problem.details, "run": child}))
            raise

    def _wire(self, request: Request) -> Wiring:
        """In the workspace of the run above, which holds it."""
        return rewire(request, (), self._workspace)

    async def _driven(self, action: Action, work: Awaitable[RunResult]) -> Below:
        """Where the run above is only stopped, the one below is stopped too; where its work is cut short for good, that is its end."""
        child, task = sub_run_id(action.key), asyncio.ensure_future(work)

        def cut() -> None:
            if not self._runs.stop_with(action.run_id, child):
                task.cancel()

        await unbroken(task, cut)
        return cast(Below, await self.look(action))

    # --- what it is started with -------------------------------------------------------------------------------

    async def _request(self, action: Action) -> Request:
        """Raises ProblemError: validation (no tool matches), budget_exceeded."""
        read = await self._runs.read(action.run_id)
        above = request_of(action.run_id, self._runs.scope, read.start, read.look)
        said = above.assembly
        model = said.get("sub_model", said.get("model", ""))
        tools = _tools(read.start, cast("list[str] | None", action.args.get("tools")), unseen(model))
        assembly = {key: value for key, value in said.items() if key not in NOT_BELOW}
        assembly |= {"tools": json.dumps([*tools, SUBMIT], ensure_ascii=False), "completes": "[]", "permission_mode": "read_only"}
        assembly["model"] = model
        return replace(
            above, run_id=sub_run_id(action.key), budget=self._budget(read, action), segments=tuple(_segments(above, str(action.args["task"]))),
            assembly=assembly, result_schema=None, parent=action.run_id, root=above.root or action.run_id, origin=None, history="",
        )  # fmt: skip

    def _budget(self, read: Read, action: Action) -> Budget:
        """What is left of the budget above, less its own action under way there, and one step and call to end."""
        state = Past(Loaded(read.sealed)).state
        budget, used = state.budget, state.used
        under_way = sum(1 for c in state.calls if c.stage != "stepped")
        left = {
            "maxSteps": budget.max_valid_steps - used.valid_steps - under_way - 1,
            "maxIterations": budget.max_iterations - used.iterations - 1,
        }
        if min(left.values()) < 1:
            raise ProblemError(Problem("budget_exceeded", "too little is left of the budget for a sub-run", operation=SUB_RUN, details=left))
        steps, iterations = (min(room, cast(int, action.args.get(name, room))) for name, room in left.items())
        wall = (deadline_ms(state) - self._runs.clock.now_ms()) / 1000 if budget.wall_clock_s else 0
        working = budget.working_time_s - state.working_ms / 1000 if budget.working_time_s else 0
        times = {name: max(s, 0.001) for name, s in (("wall_clock_s", wall), ("working_time_s", working)) if getattr(budget, name)}
        return replace(budget, max_valid_steps=steps, max_iterations=iterations, **cast(Any, times))


def _tools(start: r.RunStarted, wanted: list[str] | None, without: Collection[str]) -> list[str]:
    """The reading tools of the run above, as a request names them, or those of them that are wanted. No sub-run begins another."""
    known = {t.name: t.ref or t.name for t in start.tools if t.effect == "read" and not t.completes and t.name not in (SUB_RUN, *without)}
    found = [name for name in known if wanted is None or any(fnmatchcase(name, one) for one in wanted)]
    unknown = [one for one in wanted or () if not any(fnmatchcase(name, one) for name in known)]
    if unknown:
        raise bad_arguments([FieldProblem("tools", "invalid_value", f"none of your reading tools is {one}") for one in unknown])
    return [known[name] for name in found]


def _segments(above: Request, task: str) -> Iterator[Segment]:
    """What the run above is told by its system, with the task in the place of what it was asked."""
    mine = (Segment("sub_run", "system", ABOUT), Segment("task", "user", task))
    for one in above.segments:
        if mine and (one.slot == "history" or (one.role != "system" and not one.slot)):
            yield from mine
            mine = ()
        if one.slot or one.role == "system":
            yield one
    yield from mine


def _below(read: Read) -> Below:
    assumed = [{"title": title, "answer": answer} for title, answer in facts(read.records, read.look).assumed]
    return Below(read.result, tuple(cast(Any, assumed)), Past(Loaded(read.sealed)).state.working_ms)


async def abandon_below(runs: Runs, read: Read, by: str) -> None:
    """Close what a run has begun below it; what lives in other hands is told to end."""
    for sub in below(read.records):
        head = await runs.log.head(runs.stream(sub))
        if head is None or head.kind == "run_ended" or not begun_from((await runs.read(sub)).start, read.result.run_id):
            continue
        if head.live:
            await runs.log.signal(runs.stream(sub), Signal(0, "cancel", runs.clock.now_ms(), by))
        else:
            await runs.abandon(sub, by)


async def left_behind(runs: Runs, run_id: str) -> bool:
    """Whether this is a sub-run that has not ended, of a run that has. Raises ProblemError(not_found)."""
    if (await runs.head(run_id)).kind == "run_ended":
        return False
    start = (await runs.read(run_id)).start
    above = await runs.log.head(runs.stream(start.parent)) if start.root and start.origin is None and start.parent else None
    return above is not None and above.kind == "run_ended"
