"""The questions of a run and of the tasks before it, read from their logs and from the answers that were left for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from polyloop.dialogue.questions import Asked
from polyloop.dialogue.thread import Thread, begun_from, below, thread
from polyloop.kernel import records as r
from polyloop.kernel.seams import Log, Stream

#: Tasks before a task that are looked at; two rounds cannot have come from further back than two that asked.
PARENTS: Final = 32


async def thread_of(log: Log, scope: str, run: str, upto: int | None = None, above: int = PARENTS) -> Thread:
    """What the logs of a run, of the tasks before it and of its sub-runs say about its questions. A log that is not there says nothing.

    A sub-run asks in the rounds of the run that began it; a fork goes on with those of the run it comes from, up to the record `upto`
    where it left it.
    """
    stored = await _stored(log, scope, run, upto) if run and above else []
    records = [record for _, record in stored]
    start = next((one for one in records if isinstance(one, r.RunStarted)), None)
    if start is None:
        return Thread()
    answers = await _answers(log, Stream(scope, run), records)
    if start.root and start.origin is None:
        return await _below(log, scope, start.parent, run, lambda failed: thread(records, (), {}, answers, failed), upto, above)
    subs = {sub: await own_thread(log, scope, sub, run) for sub in below(records)}
    return thread(records, await _before(log, scope, start, above), subs, answers)


async def _below(log: Log, scope: str, parent: str, run: str, own: Callable[[str], Thread], upto: int | None, above: int) -> Thread:
    """A sub-run's thread: with all that was asked above it, and what failed there last; for a fork that left it early, as it was when it

    began. `own` = its own one, after that failure.
    """
    begun = next((seq for seq, one in await _stored(log, scope, parent) if run in below([one])), None)
    if begun is None:
        return own("")
    over = await thread_of(log, scope, parent, None if upto is None else begun - 1, above - 1)
    mine = own(over.failed)
    return replace(mine, asked=over.asked if upto is None else over.asked + mine.asked)


async def own_thread(log: Log, scope: str, run: str, above: str = "") -> Thread:
    """What a run's own log says of its own questions, and what was answered; nothing where it is to be a sub-run of `above` and is none."""
    records = [record for _, record in await _stored(log, scope, run)]
    if above and not any(isinstance(one, r.RunStarted) and begun_from(one, above) for one in records[:1]):
        return Thread()
    return thread(records, (), {}, await _answers(log, Stream(scope, run), records))


async def _before(log: Log, scope: str, start: r.RunStarted, above: int) -> tuple[Asked, ...]:
    """The rounds a run begins with: those of the run it is a fork of, or those of a task before it that ended while it asked."""
    if start.origin is not None:
        return (await thread_of(log, scope, start.origin.run, start.origin.seq, above - 1)).asked
    if not start.parent or not await _pending(log, scope, start.parent):
        return ()
    return (await thread_of(log, scope, start.parent, above=above - 1)).asked


async def _pending(log: Log, scope: str, run: str) -> bool:
    """Whether a run, or one below it, ended or waits with a question. The tasks before it are not looked at for it."""
    records = [record for _, record in await _stored(log, scope, run)]
    if thread(records).pending:
        return True
    for sub in below(records):
        if (await own_thread(log, scope, sub, run)).pending:
            return True
    return False


async def _stored(log: Log, scope: str, run: str, upto: int | None = None) -> list[tuple[int, r.Record]]:
    stream = Stream(scope, run)
    if await log.head(stream) is None:
        return []
    sealed = (await log.load(stream)).records
    return [(s.seq, r.decode(s.kind, s.body)) for s in sealed if s.body is not None and (upto is None or s.seq <= upto)]


async def _answers(log: Log, stream: Stream, records: Iterable[r.Record]) -> dict[str, Any]:
    """What was left for the questions of a run: the first word for each."""
    if not any(isinstance(one, r.ActionDeferred) and one.awaited == "answer" for one in records):
        return {}
    said: dict[str, Any] = {}
    for signal in await log.signals(stream, 0):
        if signal.kind == "resolve":
            said.setdefault(signal.token, signal.body if signal.decision == "answered" else None)
    return said
