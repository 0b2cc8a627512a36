"""Real processes, really killed or stopped; real logs, cut anywhere. What was acknowledged is there, and nothing illegal is."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import apsw
import pytest

from polyloop.kernel.records import sha256
from polyloop.kernel.seams import Loaded, StaleFence, Stream
from polyloop.stores.frames import unpack
from polyloop.stores.process import this_process
from polyloop.stores.sqlite import open_log
from tests import outside
from tests.db.shim import copy
from tests.stores.chains import RUN, chain

SOAK = bool(os.environ.get("POLYLOOP_SOAK"))


def appender(store: Path, runs: Sequence[str], name: str, lease_ms: int = 1000) -> subprocess.Popen[str]:
    child = outside.start("-m", "tests.stores.appender", store, ",".join(runs), name, lease_ms, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def ended(child: subprocess.Popen[str]) -> list[list[str]]:
    """The child's lines, split, once it is gone. A line cut by the kill does not count."""
    out, _ = child.communicate(timeout=60)
    return [line.split() for line in out[: out.rfind("\n") + 1].splitlines()]


def acknowledged(lines: list[list[str]]) -> dict[str, int]:
    """The last acknowledged seq of each run."""
    last: dict[str, int] = defaultdict(lambda: -1)
    for run, what, *rest in lines:
        if what == "ack":
            last[run] = max(last[run], int(rest[-1]))
    return last


def read(store: Path, runs: Sequence[str]) -> dict[str, Loaded]:
    """Load each run, every hash and blob checked."""

    async def main() -> dict[str, Loaded]:
        log = open_log(store)
        out: dict[str, Loaded] = {}
        for run in runs:
            stream = Stream("acme", run)
            out[run] = loaded = await log.load(stream)
            texts = [sha256(f"text {s.seq}".encode() * 300) for s in loaded.records]
            found = await log.blobs(stream, texts)
            firsts = {s.seq for s in loaded.records if f"text {s.seq}".encode() * 300 in found.values()}
            assert len(firsts) == len(found)
        await log.close()
        return out

    return asyncio.run(main())


def until_written(store: Path, runs: int) -> None:
    """Wait until so many runs have a record."""
    looking = apsw.Connection(str(store))
    looking.set_busy_timeout(60_000)
    while next(looking.execute("select count(distinct stream) from frame"))[0] < runs:
        time.sleep(0.01)
    looking.close()


@pytest.mark.parametrize("seed", range(40 if SOAK else 5))
def test_log_tail_08_a_killed_process_leaves_what_it_acknowledged(tmp_path: Path, seed: int) -> None:
    """acked <= stored <= acked + 1 batch per run; the chain is legal; the next process goes on from there (log_tail-01)."""
    rng = random.Random(seed)
    store, runs = tmp_path / "store.db", [f"r{i}" for i in range(6)]
    floor: dict[str, int] = defaultdict(lambda: -1)
    for life in range(3):
        child = appender(store, runs, f"h{life}")
        if life == 1:
            until_written(store, 1)
        time.sleep(rng.uniform(0.0, 0.15))
        child.send_signal(signal.SIGKILL)
        lines = ended(child)
        acked = acknowledged(lines)
        for run, loaded in read(store, runs).items():
            assert loaded.torn is None
            last = len(loaded.records) - 1
            low = max(acked[run], floor[run])
            assert low <= last <= low + 3, (run, low, last)
            floor[run] = last
    assert any(last >= 0 for last in floor.values())


def test_processes_share_a_store_and_each_run_has_one_owner_per_epoch(tmp_path: Path) -> None:
    """8 processes want 50 runs; some are killed; every record of an epoch was written by the one that took it."""
    store, runs = tmp_path / "store.db", [f"r{i}" for i in range(50)]
    rng = random.Random(5)
    lines: list[list[str]] = []
    owners: dict[tuple[str, int], str] = {}
    children = [appender(store, rng.sample(runs, 50), f"h{i}") for i in range(8)]
    until_written(store, 50)
    time.sleep(1 if SOAK else 0.1)
    for child in children:
        child.send_signal(signal.SIGKILL)
    for i, child in enumerate(children):
        for run, what, *rest in (found := ended(child)):
            if what == "taken":
                assert owners.setdefault((run, int(rest[0])), f"h{i}") == f"h{i}"
        lines += found
    acked = acknowledged(lines)
    for run, loaded in read(store, runs).items():
        assert len(loaded.records) - 1 >= acked[run]
        for s in loaded.records:
            assert owners.get((run, s.fence), "").encode() in (s.body or b"")
        assert [s.fence for s in loaded.records] == sorted(s.fence for s in loaded.records)
    assert len({run for run, _ in owners}) == 50


def test_lease_01_a_holder_that_slept_past_its_lease_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    child = appender(store, ["r"], "sleeper")
    until_written(store, 1)
    stop_between_transactions(child, store)
    try:
        time.sleep(1.1)  # longer than its lease
        written = asyncio.run(take_over_and_write(store))
    finally:
        child.send_signal(signal.SIGCONT)
    lines = ended(child)
    assert lines[-1] == ["r", "stale", "1"]
    loaded = read(store, ["r"])["r"]
    assert loaded.records[-1].hash == written
    assert acknowledged(lines)["r"] == loaded.records[-1].seq - 1


def stop_between_transactions(child: subprocess.Popen[str], store: Path) -> None:
    """A process stopped inside a transaction would hold the write lock for as long as it sleeps."""
    c = apsw.Connection(str(store))
    while True:
        child.send_signal(signal.SIGSTOP)
        try:
            c.execute("begin immediate; rollback")
            break
        except apsw.BusyError:
            child.send_signal(signal.SIGCONT)
            time.sleep(0.01)
    c.close()


async def take_over_and_write(store: Path) -> str:
    log, stream = open_log(store), Stream("acme", "r")
    taken = await log.take(stream, this_process("successor", 1 << 60))
    assert (taken.epoch, taken.previous) == (2, "sleeper")
    batch = chain("ended ok", after=(await log.load(stream)).records, fence=2)
    await log.append(stream, batch, 2, {})
    with pytest.raises(StaleFence):
        await log.append(stream, chain("late", after=batch, fence=1), 1, {})
    await log.close()
    return batch[-1].hash


def test_lease_04_a_killed_holder_is_taken_over_at_once(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    child = appender(store, ["r"], "victim", lease_ms=600_000)
    until_written(store, 1)
    child.send_signal(signal.SIGKILL)
    ended(child)
    asyncio.run(take_over(store))


async def take_over(store: Path) -> None:
    log = open_log(store)
    assert (await log.take(Stream("acme", "r"), this_process("heir", 1 << 60))).previous == "victim"
    await log.close()


@pytest.mark.timeout(900)
def test_log_tail_01_a_write_ahead_log_cut_anywhere_gives_a_legal_prefix(tmp_path: Path) -> None:
    """Each cut of the -wal file opens, gives whole batches from the first on, never fewer for a longer file, and can go on."""
    store = tmp_path / "life" / "store.db"

    async def fill() -> Path:
        log = open_log(store)
        last = []
        for n in range(4):
            last = chain(*(f"{n} {i}" for i in range(n + 1)), after=last)
            await log.append(RUN, last, 0, {sha256(b"t" * 3000 * n): b"t" * 3000 * n})
        image = copy(store, tmp_path / "image")
        await log.close()
        return image

    image = asyncio.run(fill())
    wal, base = Path(f"{image}-wal").read_bytes(), image.read_bytes()
    ends = [32 + 4120 * n for n in range(len(wal) // 4120 + 1)]
    cuts = sorted({*range(0, len(wal), 1 if SOAK else 499), *(end + d for end in ends for d in (-1, 0, 1, 24))})
    found: list[tuple[str, ...]] = []
    for cut in cuts:
        image.write_bytes(base)
        Path(f"{image}-wal").write_bytes(wal[:cut])
        found.append(asyncio.run(going_on(image)) if cut in ends else hashes(image))
    assert all(found[-1][: len(prefix)] == prefix for prefix in found)
    assert [len(prefix) for prefix in found] == sorted(len(prefix) for prefix in found)
    assert {len(prefix) for prefix in found} == {0, 1, 3, 6, 10}


def hashes(store: Path) -> tuple[str, ...]:
    """What SQLite recovers, verified."""
    c = apsw.Connection(str(store))
    c.execute("pragma synchronous = off")
    loaded = unpack(c.execute("select first_seq, last_seq, last_hash, body from frame order by first_seq").fetchall())
    c.close()
    assert loaded.torn is None
    return tuple(s.hash for s in loaded.records)


async def going_on(store: Path) -> tuple[str, ...]:
    """What a process finds that opens the store and appends."""
    log = open_log(store)
    loaded = await log.load(RUN)
    assert loaded.torn is None
    more = chain("and on", after=loaded.records)
    await log.append(RUN, more, 0, {})
    assert (await log.load(RUN)).records == (*loaded.records, *more)
    await log.close()
    return tuple(s.hash for s in loaded.records)
