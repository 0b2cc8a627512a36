"""Appending: one test for each sentence of `Log.append`."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from polyloop.kernel import records as r
from polyloop.kernel.seams import Conflict, Signal, StaleFence, StoreError, Stream

from .log_bench import OTHER, RUN, Bench, spec


class Appending:
    @spec
    async def test_a_batch_is_read_back_as_it_was_written(self, b: Bench) -> None:
        records = await b.written(1, 3, 2)
        assert (await b.log.load(RUN)).records == tuple(records)

    @spec
    async def test_append_returns_the_last_signal_number(self, b: Bench) -> None:
        first = b.chain("a")
        assert await b.log.append(RUN, first, 0, {}) == 0
        await b.log.signal(RUN, Signal(0, "poll", 1))
        await b.log.signal(RUN, Signal(0, "cancel", 2))
        assert await b.log.append(RUN, b.chain("b", after=first), 0, {}) == 2

    @spec
    async def test_a_repeated_append_is_stored_once(self, b: Bench) -> None:
        first = b.chain("a", "b")
        second = b.chain("c", after=first)
        for batch in (first, first, second, second, first):
            assert await b.log.append(RUN, batch, 0, {}) == 0
        assert (await b.log.load(RUN)).records == (*first, *second)

    @spec
    async def test_conflict_when_the_stream_ends_elsewhere(self, b: Bench) -> None:
        first = b.chain("a", "b")
        await b.log.append(RUN, first, 0, {})
        for wrong in (
            b.chain("another at seq 0"),
            b.chain("another at seq 1", after=first[:1]),
            b.chain("over a gap", after=[*first, *b.chain("missing", after=first)]),
            b.chain("after another record", after=b.chain("a", "another")),
            [*first, *b.chain("a longer batch", after=first)],
        ):
            with pytest.raises(Conflict):
                await b.log.append(RUN, wrong, 0, {})
        assert (await b.log.load(RUN)).records == tuple(first)

    @spec
    async def test_stale_fence_when_the_fence_is_not_the_epoch(self, b: Bench) -> None:
        await b.log.take(RUN, b.holder("h"))
        taken = await b.log.take(RUN, b.holder("h"))
        first = b.chain("a", fence=taken.epoch)
        await b.log.append(RUN, first, taken.epoch, {})
        for fence in (0, taken.epoch - 1, taken.epoch + 1):
            for batch in (b.chain("b", after=first, fence=fence), first):
                with pytest.raises(StaleFence):
                    await b.log.append(RUN, batch, fence, {})
        assert (await b.log.load(RUN)).records == tuple(first)

    @spec
    async def test_fence_0_creates_a_stream_at_seq_0_only(self, b: Bench) -> None:
        with pytest.raises(Conflict):
            await b.log.append(RUN, b.chain("b", after=b.chain("a")), 0, {})
        with pytest.raises(StaleFence):
            await b.log.append(RUN, b.chain("a", fence=1), 1, {})
        assert await b.log.head(RUN) is None
        await b.written(1)
        assert await b.log.head(RUN) is not None

    @spec
    async def test_a_batch_must_be_a_chain(self, b: Bench) -> None:
        a, c = b.chain("a", "c")
        for wrong in ([], [a, a], [a, replace(c, prev=r.ZERO_HASH)], [a, replace(c, seq=2)], [replace(a, salt="xyz")]):
            with pytest.raises(StoreError):
                await b.log.append(RUN, wrong, 0, {})
        assert await b.log.head(RUN) is None

    @spec
    async def test_a_refused_append_writes_no_blob(self, b: Bench) -> None:
        await b.written(1)
        with pytest.raises(Conflict):
            await b.log.append(RUN, b.chain("x"), 0, {r.sha256(b"t"): b"t"})
        assert await b.log.blobs(RUN, [r.sha256(b"t")]) == {}

    @spec
    async def test_appends_at_the_same_time_fail_alone(self, b: Bench) -> None:
        streams = [Stream("acme", f"r{i}") for i in range(40)]
        for s in streams[::4]:
            await b.written(1, stream=s)
        batches = [b.chain("same time") for _ in streams]
        done = await asyncio.gather(*(b.log.append(s, batch, 0, {}) for s, batch in zip(streams, batches, strict=True)), return_exceptions=True)
        assert [type(d) for d in done] == [Conflict if i % 4 == 0 else int for i in range(40)]
        for i, s in enumerate(streams):
            assert len((await b.log.load(s)).records) == 1, i

    @spec
    async def test_the_same_batch_twice_at_the_same_time_is_one_frame(self, b: Bench) -> None:
        batch = b.chain("a", "b")
        assert await asyncio.gather(*(b.log.append(RUN, batch, 0, {}) for _ in range(5))) == [0] * 5
        assert (await b.log.load(RUN)).records == tuple(batch)

    @spec
    async def test_a_cancelled_append_happens_whole_or_not_at_all(self, b: Bench) -> None:
        batch = b.chain("a", "b", "c")
        waiting = asyncio.ensure_future(b.log.append(RUN, batch, 0, {}))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await b.written(1, stream=OTHER)
        assert (await b.log.load(RUN)).records in ((), tuple(batch))
