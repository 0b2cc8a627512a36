"""The questions of a run and of the tasks before it, read from their logs."""

from __future__ import annotations

from typing import Final

from polyloop.dialogue.thread import Thread, thread
from polyloop.kernel import records as r
from polyloop.kernel.seams import Log, Stream

#: Tasks before a task that are looked at; two rounds cannot have come from further back than two that asked.
PARENTS: Final = 32


async def thread_of(log: Log, scope: str, run: str) -> Thread:
    """What the logs of a run and of the tasks before it say about its questions. A log that is not there says nothing."""
    runs: list[list[r.Record]] = []
    while run and len(runs) < PARENTS:
        stream = Stream(scope, run)
        if await log.head(stream) is None:
            break
        runs.append([r.decode(s.kind, s.body) for s in (await log.load(stream)).records if s.body is not None])
        run = next((record.parent for record in runs[-1] if isinstance(record, r.RunStarted)), "")
    so_far = Thread()
    for records in reversed(runs):
        so_far = thread(records, so_far.inherited)
    return so_far
