"""A process that appends until it is killed: `python -m tests.stores.appender STORE RUNS HOLDER LEASE_MS`.

It takes each run, goes on where the log ends, and prints `run last_seq` for every append that was acknowledged.
A run that another holder has, or takes away, is left alone.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time

from polyloop.kernel.records import sha256
from polyloop.kernel.seams import Log, OwnedElsewhere, StaleFence, Stream
from polyloop.stores.process import this_process
from polyloop.stores.sqlite import open_log
from tests.stores.chains import chain


async def append(log: Log, run: str, name: str, lease_ms: int) -> None:
    stream = Stream("acme", run)
    try:
        taken = await log.take(stream, this_process(name, time.time_ns() // 1_000_000 + lease_ms))
    except OwnedElsewhere as owned:
        say(f"{run} owned {owned.holder}")
        return
    written = list((await log.load(stream)).records)
    say(f"{run} taken {taken.epoch} {len(written) - 1}")
    while True:
        batch = chain(*(f"{name} {run} {i}" for i in range(1 + len(written) % 3)), after=written, fence=taken.epoch)
        text = f"text {batch[0].seq}".encode() * 300
        try:
            await log.append(stream, batch, taken.epoch, {sha256(text): text})
        except StaleFence:
            say(f"{run} stale {taken.epoch}")
            return
        written += batch
        say(f"{run} ack {taken.epoch} {batch[-1].seq}")
        await asyncio.sleep(0.001)


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


async def main(store: str, runs: str, name: str, lease_ms: str) -> None:
    log = open_log(store)
    say("ready")
    await asyncio.gather(*(append(log, run, name, int(lease_ms)) for run in runs.split(",")))
    await log.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
