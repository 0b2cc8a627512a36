"""What only the durable store has: a schema, pages, commits, bytes; and its errors as the seam names them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from polyloop.clock import ManualClock
from polyloop.db import Database, Schema
from polyloop.kernel import records as r
from polyloop.kernel.seams import CorruptStore, Holder, Log, NewerSchema, Signal, StoreError, StoreUnknown, Stream
from polyloop.stores.process import this_process
from polyloop.stores.sqlite import LONG_BYTES, SCHEMA, SqliteLog, open_log
from tests.db.shim import FailingDisk
from tests.stores.chains import RUN, batches, chain


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def sql(path: Path, query: str, *params: Any) -> list[tuple[Any, ...]]:
    c = apsw.Connection(str(path))
    try:
        return c.execute(query, params).fetchall()
    finally:
        c.close()


def in_log(path: Path, *work: Any) -> list[Any]:
    """Open the log, await each piece of work on it, close it; errors come back as values."""

    async def main() -> list[Any]:
        log = open_log(path)
        try:
            return [await asyncio.gather(w(log), return_exceptions=True) for w in work]
        finally:
            await log.close()

    return [one for (one,) in asyncio.run(main())]


async def fill(log: Log, *sizes: int) -> list[r.Sealed]:
    out: list[r.Sealed] = []
    for batch in batches(*sizes):
        await log.append(RUN, batch, 0, {})
        out += batch
    return out


def test_what_was_acknowledged_is_there_when_opened_again(path: Path) -> None:
    (written,) = in_log(path, lambda log: fill(log, 1, 2, 3))
    (loaded,) = in_log(f"sqlite:{path}", lambda log: log.load(RUN))
    assert loaded.records == tuple(written)


def test_the_log_appends_after_it_was_opened_again_log_tail_02(path: Path) -> None:
    (written,) = in_log(path, lambda log: fill(log, 2))
    more = chain("later", after=written)
    _, loaded = in_log(path, lambda log: log.append(RUN, more, 0, {}), lambda log: log.load(RUN))
    assert loaded.records == (*written, *more)


def test_a_text_is_stored_once_per_stream(path: Path) -> None:
    text = b"x" * 5000
    named = {r.sha256(text): text}

    async def repeat(log: Log) -> None:
        first = chain("a")
        await log.append(RUN, first, 0, named)
        await log.append(RUN, first, 0, named)
        await log.append(RUN, chain("b", after=first), 0, named)
        await log.append(Stream("acme", "run-2"), chain("c"), 0, named)

    in_log(path, repeat)
    assert sql(path, "select count(*), sum(length(texts)) from frame") == [(3, 2 * len(text))]
    assert sql(path, "select count(*) from blob") == [(2,)]


def test_an_append_updates_no_row_and_costs_one_commit(path: Path) -> None:
    async def main() -> None:
        db = Database.open(path, [SCHEMA])
        log = SqliteLog(db)
        written = await fill(log, 1, 1)
        control = sql(path, "select * from stream")
        before = db.commits
        for n in range(10):
            written += (batch := chain(f"{n}", after=written))
            await log.append(RUN, batch, 0, {})
        assert db.commits - before == 10
        assert sql(path, "select * from stream") == control
        await asyncio.gather(*(log.append(Stream("acme", f"r{n}"), chain("a"), 0, {}) for n in range(100)))
        assert db.commits - before == 11
        await log.close()

    asyncio.run(main())


def test_a_step_stays_near_its_payload_on_disk(path: Path) -> None:
    """1 KB of reply inline and 4 KB of observation: what records, frames and pages add stays below 30 %."""
    reply, steps = "r" * 980, 500

    async def work(log: Log) -> None:
        last: list[r.Sealed] = []
        for n in range(steps):
            observation = f"{n:06}".encode() * 683
            digest = r.sha256(observation)
            intent = r.ActionIntent(0, "observe", "read", "rerun", digest)
            last = sealed(last, r.ModelResult(text=reply, finish_reason="stop"), intent)
            await log.append(RUN, last, 0, {})
            result = r.ActionResult(0, "ok", (r.Part(text=r.BlobRef(digest, len(observation))),), ms=1.0)
            step = r.Step(0, 1, "G", True, n, "ok", r.Counters(n, n), r.Timings(0.1, 0.2, 0.1, 0.3, 0.4, 1.1), "observe")
            last = sealed(last, result, step, r.ModelIntent(n + 1, digest[:32], digest, messages=2 * n))
            await log.append(RUN, last, 0, {digest: observation})

    in_log(path, work)
    assert not path.with_name("store.db-wal").exists()
    assert path.stat().st_size / (steps * (980 + 4098)) < 1.3


def sealed(after: list[r.Sealed], *records: r.Record) -> list[r.Sealed]:
    prev, seq = (after[-1].hash, after[-1].seq + 1) if after else (r.ZERO_HASH, 0)
    out = []
    for record in records:
        out.append(r.seal(prev, seq, 1_700_000_000_000 + seq, 0, f"{seq:032x}", record))
        prev, seq = out[-1].hash, seq + 1
    return out


def test_hostile_input_07_a_text_is_only_ever_text(path: Path, tmp_path: Path) -> None:
    marker = tmp_path / "M"
    payload = {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": f"touch {marker}"}}
    result = r.ModelResult(text="\ud83d lone", items=(payload,))
    batch = [r.seal(r.ZERO_HASH, 0, 1, 0, "00" * 16, result)]
    text = r.text_bytes("\ud83d lone")
    in_log(path, lambda log: log.append(RUN, batch, 0, {r.sha256(text): text}))
    loaded, blobs = in_log(path, lambda log: log.load(RUN), lambda log: log.blobs(RUN, [r.sha256(text)]))
    assert r.decode(loaded.records[0].kind, loaded.records[0].body) == result
    assert r.bytes_text(blobs[r.sha256(text)]) == "\ud83d lone"
    assert not marker.exists()


def test_expired_holders_without_streams_are_swept(path: Path) -> None:
    async def main() -> None:
        clock = ManualClock()
        log = SqliteLog(Database.open(path, [SCHEMA]), clock)

        def holder(name: str) -> Holder:
            return this_process(name, clock.now_ms() + 1000)

        await log.take(RUN, holder("busy"))
        await log.heartbeat(holder("idle"))
        clock.advance(2)
        await log.heartbeat(holder("new"))
        assert sql(path, "select id from holder order by id") == [("busy",), ("new",)]
        await log.take(RUN, holder("new"))
        await log.heartbeat(holder("new"))
        assert sql(path, "select id from holder") == [("new",)]
        await log.close()

    asyncio.run(main())


def test_the_next_poll_stands_in_the_control_row(path: Path) -> None:
    async def main() -> None:
        log = open_log(path)
        taken = await log.take(RUN, this_process("h", 1 << 60))
        await log.release(RUN, taken.epoch, 0, next_poll=77)
        assert sql(path, "select holder, next_poll from stream") == [("", 77)]
        await log.take(RUN, this_process("h", 1 << 60))
        assert sql(path, "select holder, next_poll from stream") == [("h", 0)]
        await log.close()

    asyncio.run(main())


def test_a_newer_store_is_refused_by_name_and_unchanged(path: Path) -> None:
    Database.open(path, [Schema("log", (*SCHEMA.steps, "create table later (id integer) strict;"))]).close()
    before = path.read_bytes()
    with pytest.raises(NewerSchema, match=r"version 2 of log.*version 1"):
        open_log(path)
    assert path.read_bytes() == before


def test_half_written_file_06_an_unreadable_store_is_corrupt_and_unchanged(path: Path) -> None:
    path.write_text('{"agents": {')
    with pytest.raises(CorruptStore):
        open_log(path)
    assert path.read_text() == '{"agents": {'


def test_a_store_that_cannot_be_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        open_log("postgres://nowhere/db")
    with pytest.raises(StoreError):
        open_log(tmp_path)


def test_a_closed_log_says_so(path: Path) -> None:
    log = open_log(path)

    async def main() -> None:
        await log.close()
        await log.close()
        for refused in (log.append(RUN, chain("a"), 0, {}), log.load(RUN), log.head(RUN)):
            with pytest.raises(StoreError, match="closed"):
                await refused

    asyncio.run(main())


def test_unknown_commit_15_a_lost_acknowledgement_is_unknown_and_a_repeat_is_one_record(path: Path) -> None:
    first = chain("a")
    in_log(path, lambda log: log.append(RUN, first, 0, {}))
    second = chain("b", after=first)

    async def main() -> None:
        with FailingDisk(2, "sync"):
            log = open_log(path)
            with pytest.raises(StoreUnknown):
                await log.append(RUN, second, 0, {})
            assert (await log.load(RUN)).records == tuple(first)
            assert await log.append(RUN, second, 0, {}) == 0
            assert await log.append(RUN, second, 0, {}) == 0
            assert (await log.load(RUN)).records == (*first, *second)
            await log.close()

    asyncio.run(main())


def test_a_damaged_signal_or_holder_is_corrupt(path: Path) -> None:
    in_log(path, lambda log: fill(log, 1), lambda log: log.signal(RUN, Signal(0, "poll", 1)))
    in_log(path, lambda log: log.take(RUN, this_process("h", 1 << 60)))
    sql(path, "update signal set body = x'ff'")
    sql(path, "update holder set process_groups = '[['")
    errors = in_log(path, lambda log: log.signals(RUN, 0), lambda log: log.head(RUN), lambda log: log.take(RUN, this_process("i", 1 << 60)))
    assert [type(error) for error in errors] == [CorruptStore] * 3


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[r.Sealed, ...]]:
    path = tmp_path_factory.mktemp("filled") / "store.db"
    texts = {r.sha256(t): t for t in (b"t" * 6000, b"u" * 100)}

    async def work(log: Log) -> None:
        last: list[r.Sealed] = []
        for n in range(30):
            last = chain(f"{n}" * 200, f"{n} again", after=last)
            await log.append(RUN, last, 0, texts if n == 3 else {})

    _, loaded = in_log(path, work, lambda log: log.load(RUN))
    return path, loaded.records


def test_a_damaged_page_never_gives_other_records(filled: tuple[Path, tuple[r.Sealed, ...]], path: Path) -> None:
    whole, records = filled[0].read_bytes(), filled[1]
    corrupt = 0
    for page in range(len(whole) // 4096):
        for filler in (b"\0", b"\xa5"):
            path.write_bytes(whole[: page * 4096] + filler * 4096 + whole[(page + 1) * 4096 :])
            try:
                (loaded,) = in_log(path, lambda log: log.load(RUN))
            except CorruptStore:
                loaded = CorruptStore("at opening")
            if isinstance(loaded, CorruptStore):
                corrupt += 1
            else:
                assert loaded.records == records[: len(loaded.records)]
                assert loaded.torn is not None or loaded.records == records
    assert corrupt >= 10


@pytest.mark.parametrize("sizes", [(10, 20), (LONG_BYTES - 1,), (LONG_BYTES,), (5, 3 * LONG_BYTES, 0, 7), (LONG_BYTES // 2, LONG_BYTES // 2)])
def test_texts_of_any_length_are_read_back(path: Path, sizes: tuple[int, ...]) -> None:
    """Long ones go into their row piece by piece; a batch repeated, and a text that is there already, change nothing."""
    texts = {r.sha256(data): data for data in (bytes([65 + n]) * size for n, size in enumerate(sizes))}
    first, second = batches(1, 1)

    async def written(log: Log) -> dict[str, bytes]:
        for _ in range(2):
            await log.append(RUN, first, 0, texts)
        await log.append(RUN, second, 0, texts)
        return await log.blobs(RUN, list(texts))

    assert in_log(path, written, lambda log: log.blobs(RUN, list(texts))) == [texts, texts]
    assert sql(path, "select sum(length(texts)) from frame") == [(sum(sizes),)]
