"""The questions of a run and of the tasks before it, read from their logs."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from polyloop.dialogue.thread import Thread, below, thread
from polyloop.kernel import records as r
from polyloop.kernel.seams import Log, Stream

#: Tasks before a task that are looked at; two rounds cannot have come from further back than two that asked.
PARENTS: Final = 32


async def thread_of(log: Log, scope: str, run: str, above: int = PARENTS) -> Thread:
    """What the logs of a run, of the tasks before it and of its sub-runs say about its questions. A log that is not there says nothing.

    A sub-run asks in the rounds of the run that began it.
    """
    records = await _records(log, scope, run) if run and above else []
    start = next((one for one in records if isinstance(one, r.RunStarted)), None)
    if start is None:
        return Thread()
    earlier = await thread_of(log, scope, start.parent, above - 1)
    if start.root and run in below(await _records(log, scope, start.parent)):  # a fork of a sub-run is none
        return replace(thread(records), asked=earlier.asked)
    subs = {sub: thread(await _records(log, scope, sub)) for sub in below(records)}
    return thread(records, earlier.inherited, subs)


async def _records(log: Log, scope: str, run: str) -> list[r.Record]:
    stream = Stream(scope, run)
    if await log.head(stream) is None:
        return []
    return [r.decode(s.kind, s.body) for s in (await log.load(stream)).records if s.body is not None]
