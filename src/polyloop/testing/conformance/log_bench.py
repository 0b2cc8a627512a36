"""What the tests of the log seam have at hand."""

from __future__ import annotations

import asyncio
import functools
import inspect
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from polyloop.clock import ManualClock
from polyloop.ids import salt
from polyloop.kernel import records as r
from polyloop.kernel.seams import Holder, Log, Stream
from polyloop.stores.process import this_process

RUN = Stream("acme", "run-1")
OTHER = Stream("acme", "run-2")
FOREIGN = Stream("rival", "run-1")
LEASE_MS = 15_000

Change = Callable[[bytes], bytes]
Harm = Callable[[Log, Stream, int, str, Change], None]
MakeLog = Callable[[ManualClock], Log]


class Bench:
    """What a test has at hand: the log, its clock, and short words for chains and holders."""

    def __init__(self, make_log: MakeLog, harm: Harm) -> None:
        self.clock = ManualClock()
        self.log = make_log(self.clock)
        self.harm = harm

    def chain(self, *texts: str, after: Sequence[r.Sealed] = (), fence: int = 0) -> list[r.Sealed]:
        """A batch of model results with these texts, sealed after the last record of `after`."""
        prev, seq = (after[-1].hash, after[-1].seq + 1) if after else (r.ZERO_HASH, 0)
        out: list[r.Sealed] = []
        for text in texts:
            out.append(r.seal(prev, seq, self.clock.now_ms(), fence, salt(), r.ModelResult(text=text)))
            prev, seq = out[-1].hash, seq + 1
        return out

    async def written(self, *batches: int, stream: Stream = RUN) -> list[r.Sealed]:
        """Append batches of so many records to a stream of epoch 0; all its records."""
        out: list[r.Sealed] = []
        for size in batches:
            batch = self.chain(*(f"text {len(out) + i}" for i in range(size)), after=out)
            await self.log.append(stream, batch, 0, {})
            out += batch
        return out

    def holder(self, name: str, lease_ms: int = LEASE_MS, groups: tuple[tuple[int, int], ...] = ()) -> Holder:
        """A holder that is this process."""
        return this_process(name, self.clock.now_ms() + lease_ms, groups)

    def dead(self, name: str, groups: tuple[tuple[int, int], ...] = ()) -> Holder:
        """A holder of this machine whose process is gone, with a lease that still runs."""
        with subprocess.Popen(["true"]) as child:  # noqa: S607
            child.wait()
        return replace(self.holder(name, groups=groups), pid=child.pid)


def spec(test: Callable[[Any, Bench], Awaitable[None]]) -> Callable[..., None]:
    """Run an async test on a bench made of the back end's fixtures."""

    @functools.wraps(test)
    def run(self: Any, make_log: MakeLog, harm: Harm) -> None:
        async def main() -> None:
            bench = Bench(make_log, harm)
            try:
                await test(self, bench)
            finally:
                await bench.log.close()

        asyncio.run(main())

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    vars(run)["__signature__"] = inspect.Signature([inspect.Parameter(n, kind) for n in ("self", "make_log", "harm")])
    return run
