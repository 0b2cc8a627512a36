"""Carrying out a flow: phase after phase, attempt after attempt, going on wherever an earlier process stopped.

Theory of operation. For each phase the flow's log says what there is. Ended with its required outputs intact, and not
older than the phase before it: skipped. Started and not ended: the run itself is resumed (the kernel compares everything;
the prompt is the one it was started with). Else the next attempt: files of the last one are set aside, checksums are
taken, then a run starts. After a run, its files are judged; a named recovery may help, and is told in a record of its own.
Everything here can be repeated after a kill: intents are records, and each step looks at what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct

from ..kernel.objects import Request, RunResult
from ..workspace import Workspace
from .flowlog import Attempt, FlowLog, PhaseEnded, PhaseRecovery, PhaseRecoveryStarted, PhaseStarted
from .phase import Flow, Phase
from .required import ASIDE, Judgement, checksums, fresh, judge

#: A run that ended so would most likely end so again.
HOPELESS: Final = frozenset({"budget_exhausted", "stalled", "cancelled", "abandoned"})

State = Literal["completed", "failed", "interrupted"]


class PhaseOutcome(Struct, frozen=True):
    """How a phase stands. `reason` is the last run's, `recovered` the recovery that helped, `seq` the place in the flow's log."""

    phase: str
    state: State
    attempt: int
    run: str
    reason: str = ""
    problems: tuple[str, ...] = ()
    outputs: dict[str, str] = {}
    recovered: str = ""
    skipped: bool = False
    seq: int = -1
    result: RunResult | None = None


class FlowResult(Struct, frozen=True):
    """How a flow stands: its phases as far as they came."""

    flow: str
    phases: tuple[PhaseOutcome, ...]
    whole: bool

    @property
    def state(self) -> State:
        return "completed" if self.whole else self.phases[-1].state


class Drive(Protocol):
    """How runs are carried out: the application's part."""

    @property
    def stopped(self) -> bool:
        """Whether nothing more is to be started."""
        ...

    async def logged(self, run_id: str) -> Request | None:
        """The request a run was started with, None if there is none."""
        ...

    async def go(self, request: Request) -> RunResult:
        """Start a run, or resume it, or tell its logged result. Everything in the request is compared."""
        ...


async def run_flow(flow: Flow, workspace: Workspace, log: FlowLog, drive: Drive) -> FlowResult:
    """As far as it goes. The workspace is held by the caller, and passes from phase to phase. Raises ProblemError."""
    done: list[PhaseOutcome] = []
    for phase in flow.phases:
        done.append(await _PhaseRunner(flow, phase, workspace, log, drive, tuple(done)).carry_out())
        if done[-1].state != "completed":
            break
    return FlowResult(flow.id, tuple(done), done[-1].state == "completed")


class _PhaseRunner:
    def __init__(self, flow: Flow, phase: Phase, workspace: Workspace, log: FlowLog, drive: Drive, done: Sequence[PhaseOutcome]) -> None:
        self.flow, self.phase, self.workspace, self.log, self.drive, self.done = flow, phase, workspace, log, drive, done
        self.result: RunResult | None = None

    async def carry_out(self) -> PhaseOutcome:
        while True:
            attempts = self.log.attempts(self.phase.name)
            last = attempts[-1] if attempts else None
            if last is None or last.ended is not None:
                if last is not None and (stands := self._stands(attempts, last)):
                    return stands
                if self.drive.stopped:
                    return PhaseOutcome(self.phase.name, "interrupted", last.number if last else 0, last.run if last else "")
                last = await self._begin(last)
            result = await self._go(last)
            if not result.ended:
                return PhaseOutcome(self.phase.name, "interrupted", last.number, last.run, result.reason or result.state, result=result)
            self.result = result
            await self._end(last, result)

    def _stands(self, attempts: Sequence[Attempt], last: Attempt) -> PhaseOutcome | None:
        """The outcome that is there already; None = another attempt is due."""
        ended = last.ended
        assert ended is not None
        if ended.state == "completed":
            before = self.done[-1].seq if self.done else -1
            now = checksums(self.workspace)
            if last.seq < before or any(now.get(path) != sha256 for path, sha256 in ended.outputs.items()):
                return None
        elif self._again(attempts, last, ended):
            return None
        return PhaseOutcome(
            self.phase.name, ended.state, last.number, last.run, ended.reason, ended.problems, ended.outputs, ended.recovered,
            skipped=self.result is None, seq=last.seq, result=self.result,
        )  # fmt: skip

    def _again(self, attempts: Sequence[Attempt], last: Attempt, ended: PhaseEnded) -> bool:
        if self.log.asked(self.phase.name, last.seq):
            return True
        failed = 0
        for attempt in reversed(attempts):
            if attempt.ended is None or attempt.ended.state != "failed" or (failed and self.log.asked(self.phase.name, attempt.seq)):
                break
            failed += 1
        return failed < self.phase.attempts and (ended.reason not in HOPELESS or self.phase.retry_exhausted)

    async def _begin(self, last: Attempt | None) -> Attempt:
        number = 1
        if last is not None and last.ended is not None:
            number = last.number + 1
            for path, sha256 in last.ended.files.items():
                self._set_aside(path, sha256, last.number)
        run = f"{self.flow.id}/{self.phase.name}/{number}"
        before = checksums(self.workspace)
        await self.log.append(PhaseStarted(self.phase.name, number, run, before))
        return Attempt(number, run, before, len(self.log.records) - 1)

    def _set_aside(self, path: str, sha256: str, number: int) -> None:
        """Below `attempts/<n>/`; below the phase's name there, if another phase has set aside a file of that name."""
        target = f"{ASIDE}/{number}/{path}"
        if self.workspace.exists(target) is not None:
            target = f"{ASIDE}/{number}/{self.phase.name}/{path}"
        self.workspace.set_aside(path, sha256, target)

    async def _go(self, attempt: Attempt) -> RunResult:
        phase = self.phase
        logged = await self.drive.logged(attempt.run)
        segments = logged.segments if logged is not None else phase.build_prompt(self.workspace, self.done)
        # Asked anew: from the cache the next attempt would get the very replies that failed the one before.
        again = {"gateway.cache": "refresh"} if attempt.number > 1 else {}
        binding = {**again, **phase.binding, "gateway.cache_namespace": self.flow.scope, "gateway.tenant_id": self.flow.scope}
        return await self.drive.go(
            Request(
                attempt.run, phase.definition, phase.budget, segments, binding, phase.params, phase.assembly, self.flow.scope,
                result_schema=phase.result_schema, overflow=phase.overflow,
            )
        )  # fmt: skip

    async def _end(self, attempt: Attempt, result: RunResult) -> None:
        found = self._judged(attempt, result)
        recovered = await self._recovered(attempt, found.problems)
        if recovered:
            found = self._judged(attempt, None)
        state: Literal["completed", "failed"] = "failed" if found.problems else "completed"
        made = fresh(attempt.before, checksums(self.workspace))
        files = {path: sha256 for path, sha256 in made.items() if path not in attempt.before or path in found.outputs}
        await self.log.append(
            PhaseEnded(self.phase.name, attempt.number, attempt.run, state, result.reason, found.problems, found.outputs, files, recovered)
        )

    async def _recovered(self, attempt: Attempt, problems: tuple[str, ...]) -> str:
        """The name of the recovery that helped, now or before a kill; "" if none did or none was needed."""
        started, helped = self.log.recovery(self.phase.name, attempt.number)
        if helped is not None:
            return helped.recovery
        if self.phase.recover is None or (started is None and not problems):
            return ""
        name, recover = self.phase.recover
        if started is None:
            started = PhaseRecoveryStarted(self.phase.name, attempt.number, name, problems)
            await self.log.append(started)
        if (wrote := recover(self.workspace, started.problems)) is None:
            return ""
        sums = {path: self.workspace.checksum(path)[0] for path in wrote.files}
        await self.log.append(PhaseRecovery(self.phase.name, attempt.number, name, wrote.source, sums))
        return name

    def _judged(self, attempt: Attempt, result: RunResult | None) -> Judgement:
        """The files of this attempt; a run that did not complete is a problem by itself."""
        found = judge(self.phase.required, attempt.before, checksums(self.workspace), self.workspace)
        problems = found.problems
        if not problems and self.phase.check is not None:
            problems = tuple(self.phase.check(self.workspace, found.outputs))
        if result is not None and result.reason != "completed":
            problems = (f"the run ended: {result.reason}{f' ({result.detail})' if result.detail else ''}", *problems)
        return Judgement(found.outputs, problems)
