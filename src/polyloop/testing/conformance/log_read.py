"""Reading, repairing, listing, deleting: one test for each sentence."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from polyloop.kernel import records as r
from polyloop.kernel.seams import Conflict, CorruptStore, Damage, Head, Signal, StaleFence, StoreError, Stream

from .log_bench import FOREIGN, OTHER, RUN, Bench, spec


class Reading:
    @spec
    async def test_a_missing_stream_is_empty(self, b: Bench) -> None:
        loaded = await b.log.load(RUN)
        assert (loaded.records, loaded.torn) == ((), None)
        assert await b.log.head(RUN) is None
        assert await b.log.blobs(RUN, ["0" * 64]) == {}
        assert await b.log.signals(RUN, 0) == []

    @spec
    async def test_a_damaged_last_frame_is_told_of(self, b: Bench) -> None:
        records = await b.written(2, 3, 2)
        b.harm(b.log, RUN, 5, "body", lambda body: body[:-1])
        loaded = await b.log.load(RUN)
        assert loaded.records == tuple(records[:5])
        assert loaded.torn is not None
        assert (loaded.torn.first_seq, loaded.torn.lost_hash) == (5, records[-1].hash)

    @spec
    async def test_damage_before_the_last_frame_is_an_error_that_names_the_record(self, b: Bench) -> None:
        await b.written(2, 3, 2)
        b.harm(b.log, RUN, 2, "body", lambda body: body[:-1] + bytes([body[-1] ^ 1]))
        with pytest.raises(CorruptStore) as caught:
            await b.log.load(RUN)
        assert caught.value.seq == 2

    @spec
    async def test_an_erased_body_keeps_the_chain(self, b: Bench) -> None:
        a, c, d = b.chain("a", "c", "d")
        erased = [a, replace(c, body=None, salt=""), d]
        await b.log.append(RUN, erased, 0, {})
        assert (await b.log.load(RUN)).records == tuple(erased)

    @spec
    async def test_bodies_and_kinds_are_never_interpreted(self, b: Bench) -> None:
        body = b'{"lc":2,"type":"constructor","id":["os","system"],"text":"\\ud83d"}'
        digest = r.digest_of("00" * 16, body)
        kind, at = "kind_of_schema_9", b.clock.now_ms()
        odd = r.Sealed(0, kind, at, 0, "00" * 16, body, digest, r.ZERO_HASH, r.chain_hash(r.ZERO_HASH, 0, kind, at, 0, digest))
        await b.log.append(RUN, [odd], 0, {})
        assert (await b.log.load(RUN)).records == (odd,)
        head = await b.log.head(RUN)
        assert head is not None
        assert head.kind == kind

    @spec
    async def test_repair_cuts_the_damaged_last_frame(self, b: Bench) -> None:
        first = b.chain("a")
        lost, again = b.chain("lost", after=first), b.chain("again", after=first)
        text = {r.sha256(b"text"): b"text"}
        await b.log.append(RUN, first, 0, {})
        await b.log.append(RUN, lost, 0, text)
        b.harm(b.log, RUN, 1, "body", lambda body: body[1:])
        loaded = await b.log.load(RUN)
        assert loaded.torn is not None
        await b.log.repair(RUN, loaded.torn, 0)
        await b.log.repair(RUN, loaded.torn, 0)
        assert await b.log.load(RUN) == loaded  # a holder that dies now leaves the damage for the next one to see
        with pytest.raises(StaleFence):
            await b.log.append(RUN, again, 7, text)
        assert await b.log.load(RUN) == loaded
        await b.log.append(RUN, again, 0, text)
        assert (await b.log.load(RUN)).records == (*first, *again)
        assert await b.log.blobs(RUN, list(text)) == text

    @spec
    async def test_repair_never_cuts_a_good_frame(self, b: Bench) -> None:
        records = await b.written(1, 1, 1)
        for first_seq in (0, 1, 2, 7):
            with pytest.raises(Conflict):
                await b.log.repair(RUN, Damage(first_seq, "so they say", records[-1].hash), 0)
        assert (await b.log.load(RUN)).records == tuple(records)

    @spec
    async def test_repair_needs_the_fence(self, b: Bench) -> None:
        await b.written(1)
        b.harm(b.log, RUN, 0, "body", lambda body: body[1:])
        with pytest.raises(StaleFence):
            await b.log.repair(RUN, Damage(0, "bad"), 1)
        assert (await b.log.load(RUN)).torn is not None

    @spec
    async def test_blobs_come_back_and_missing_ones_are_left_out(self, b: Bench) -> None:
        texts = {r.sha256(t): t for t in (b"", b"one", bytes(range(256)) * 40)}
        first = b.chain("a")
        await b.log.append(RUN, first, 0, texts)
        await b.log.append(RUN, b.chain("b", after=first), 0, texts)
        assert await b.log.blobs(RUN, [*texts, r.sha256(b"never")]) == texts
        assert await b.log.blobs(RUN, []) == {}

    @spec
    async def test_a_damaged_blob_is_an_error(self, b: Bench) -> None:
        digest = r.sha256(b"evidence")
        await b.log.append(RUN, b.chain("a"), 0, {digest: b"evidence"})
        b.harm(b.log, RUN, 0, "texts", lambda data: b"E" + data[1:])
        with pytest.raises(CorruptStore, match=digest):
            await b.log.blobs(RUN, [digest])

    @spec
    async def test_head_tells_where_the_stream_ends(self, b: Bench) -> None:
        created = b.clock.now_ms()
        first = b.chain("a")
        await b.log.append(RUN, first, 0, {})
        b.clock.advance(2)
        await b.log.append(RUN, second := b.chain("b", "c", after=first), 0, {})
        assert await b.log.head(RUN) == Head(3, second[-1].hash, "model_result", "", live=False, created=created, updated=created + 2000)

    @spec
    async def test_streams_are_listed_newest_first_by_pages(self, b: Bench) -> None:
        runs = [f"r{i}" for i in (3, 1, 4, 0, 5, 9, 2)]
        for run in runs:
            await b.written(2, stream=Stream("acme", run))
            await b.written(1, stream=Stream("rival", run))
        seen: list[str] = []
        while page := await b.log.streams("acme", seen[-1] if seen else "", 3):
            assert all(s.scope == "acme" and head.seq == 2 for s, head in page)
            seen += [s.run for s, _ in page]
        assert seen == runs[::-1]
        assert await b.log.streams("nobody") == []
        with pytest.raises(KeyError):
            await b.log.streams("acme", "no such run")

    @spec
    async def test_a_deleted_stream_is_gone_and_only_that(self, b: Bench) -> None:
        text = {r.sha256(b"t"): b"t"}
        for s in (RUN, OTHER, FOREIGN):
            await b.log.append(s, b.chain("a"), 0, text)
            await b.log.signal(s, Signal(0, "poll", 1))
        await b.log.delete(RUN)
        await b.log.delete(RUN)
        assert await b.log.head(RUN) is None
        assert (await b.log.load(RUN)).records == ()
        assert await b.log.blobs(RUN, list(text)) == {}
        assert await b.log.signals(RUN, 0) == []
        for s in (OTHER, FOREIGN):
            assert len((await b.log.load(s)).records) == 1
            assert await b.log.blobs(s, list(text)) == text
        await b.log.append(RUN, b.chain("a new one"), 0, {})
        assert await b.log.signal(RUN, Signal(0, "poll", 1)) == 1

    @spec
    async def test_tenant_leak_09_a_stream_of_another_scope_does_not_exist(self, b: Bench) -> None:
        text = {r.sha256(b"t"): b"t"}
        await b.log.append(RUN, b.chain("secret"), 0, text)
        await b.log.signal(RUN, Signal(0, "poll", 1))
        assert await b.log.head(FOREIGN) is None
        assert (await b.log.load(FOREIGN)).records == ()
        assert await b.log.blobs(FOREIGN, list(text)) == {}
        assert await b.log.signals(FOREIGN, 0) == []
        assert await b.log.moved({FOREIGN: 0}) == []
        with pytest.raises(KeyError):
            await b.log.signal(FOREIGN, Signal(0, "cancel", 1))
        await b.log.delete(FOREIGN)
        await b.log.take(FOREIGN, b.holder("rival's"))
        await b.log.append(FOREIGN, b.chain("their own", fence=1), 1, {})
        assert len((await b.log.load(RUN)).records) == 1
        head = await b.log.head(RUN)
        assert head is not None
        assert head.holder == ""

    @spec
    async def test_a_key_is_two_texts(self, b: Bench) -> None:
        for wrong in (Stream("", "r"), Stream("acme", ""), Stream("acme", "\ud800"), Stream("ac\0me", "r")):
            with pytest.raises(StoreError):
                await b.log.append(wrong, b.chain("a"), 0, {})
        odd = Stream("a\ncme", "r\N{SNOWMAN}'; drop table stream; --")
        await b.written(1, stream=odd)
        assert [s for s, _ in await b.log.streams(odd.scope)] == [odd]
