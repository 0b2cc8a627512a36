"""`polyloop watch RUN`: what a run does while it does it, read from its log; the run may be in any process, and is not touched."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated, Any, Final

import typer

from polyloop.app.final import final_of
from polyloop.app.runs import Read, Runs
from polyloop.app.store import read_runs
from polyloop.clock import SystemClock
from polyloop.kernel.objects import RunResult
from polyloop.kernel.view import materialise
from polyloop.words.catalog import say

from .cells import fit
from .frame import Place, carry_out, exit_code, run_json
from .timeline import Timeline, columns, print_lines, styled

#: Seconds between two looks at the end of the log; after a long read it is this many times as long as the read.
POLL_S: Final = 0.2
REST: Final = 4
FOLLOW: Final = "Stay while no process runs it, until it has ended."


def watch(
    place: Place,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Run id.")],
    follow: Annotated[bool, typer.Option("--follow", help=FOLLOW)] = False,
) -> None:
    """Show a run as it goes on, until it has ended or nobody runs it. With --json: one record a line, at last the result."""

    async def work() -> RunResult:
        async with read_runs(place.store, place.tenant) as runs:
            return await _Watch(place, runs, run_id, follow=follow).until_it_stops()

    try:
        result = carry_out(place, work)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    raise typer.Exit(exit_code(result))


class _Watch:
    """One look after the other; `seen` records have been told."""

    def __init__(self, place: Place, runs: Runs, run_id: str, *, follow: bool) -> None:
        self.place, self.runs, self.run_id, self.stays = place, runs, run_id, follow
        self.timeline = Timeline(place.lang, columns(), styled=styled())
        self.clock = SystemClock()
        self.seen = 0
        self.flying: dict[int, dict[str, Any]] = {}  # what is open, by call; -1 = the model

    async def until_it_stops(self) -> RunResult:
        while True:
            began = self.clock.monotonic()
            head = await self.runs.head(self.run_id)
            read = await self.runs.read(self.run_id)
            last = self._tell(read)
            if read.result.ended or not (head.live or self.stays):
                await self._close(read, last)
                return read.result
            await self._moved((len(read.sealed), head.live), last, REST * (self.clock.monotonic() - began))

    def _tell(self, read: Read) -> dict[str, Any]:
        """Print what is new; returns the last record."""
        records: list[dict[str, Any]] = list(materialise(read.sealed, read.look))
        lines: list[str] = []
        if not self.seen:
            lines = [self.run_id, *self.timeline.settings(records[0])]
        for record in records[self.seen :]:
            self._note(record)
            lines += self.timeline.feed(record)
        if self.place.as_json:
            lines = [json.dumps(record, separators=(",", ":")) for record in records[self.seen :]]
        self._status("")
        print_lines(lines)
        self.seen = len(records)
        self.start = records[0]
        return records[-1]

    def _note(self, record: dict[str, Any]) -> None:
        if record["kind"] == "model_intent":
            self.flying = {-1: record}
        elif record["kind"] == "action_intent":
            self.flying[record["call"]] = record
        elif record["kind"] == "model_result":
            self.flying = {}
        elif record["kind"] in ("action_result", "action_deferred"):
            self.flying.pop(record["call"], None)

    async def _moved(self, known: tuple[int, bool], last: dict[str, Any], rest_s: float) -> None:
        """Wait until the log has grown or the run has changed hands."""
        await asyncio.sleep(rest_s)
        while True:
            head = await self.runs.head(self.run_id)
            if (head.seq, head.live) != known:
                return
            self._status(self._doing((self.clock.now_ms() - last["at"]) // 1000) if head.live else say("watch.idle", self.place.lang))
            await asyncio.sleep(POLL_S)

    def _doing(self, seconds: int) -> str:
        for call, record in self.flying.items():
            if call < 0:
                return say("watch.model", self.place.lang, iteration=record["iteration"], seconds=seconds)
            return say("watch.action", self.place.lang, tool=record["tool"], seconds=seconds)
        return ""

    def _status(self, text: str) -> None:
        """The last line of a terminal, written over and over."""
        if sys.stdout.isatty() and not self.place.as_json:
            sys.stdout.write(f"\r\x1b[K{fit(text, self.timeline.columns)}")
            sys.stdout.flush()

    async def _close(self, read: Read, last: dict[str, Any]) -> None:
        self._status("")
        answer = await final_of(self.runs, read, self.place.lang)
        if self.place.as_json:
            self.place.print_json({**run_json(read.result), "finalAnswer": answer or None})
        else:
            lines = [*self.timeline.bars(self.start, read.result, last["at"]), *self.timeline.outcome(read.result)]
            print_lines([*lines, "", answer.rstrip()] if answer else lines)
