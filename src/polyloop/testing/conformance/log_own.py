"""Owning, releasing, signalling: one test for each sentence."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from polyloop.kernel.seams import Conflict, OwnedElsewhere, Signal, StaleFence, Stream, Taken

from .log_bench import LEASE_MS, OTHER, RUN, Bench, spec

GROUPS = ((4242, 17), (4243, 18))


class Owning:
    @spec
    async def test_take_creates_the_stream_and_raises_the_epoch(self, b: Bench) -> None:
        assert await b.log.take(RUN, b.holder("h")) == Taken(1, 0)
        head = await b.log.head(RUN)
        assert head is not None
        assert (head.seq, head.hash, head.kind, head.holder, head.live) == (0, "0" * 64, "", "h", True)
        await b.log.append(RUN, b.chain("a", fence=1), 1, {})
        assert (await b.log.take(RUN, b.holder("h"))).epoch == 2

    @spec
    async def test_take_raises_the_epoch_of_a_stream_of_fence_0(self, b: Bench) -> None:
        records = await b.written(2)
        assert (await b.log.take(RUN, b.holder("h"))).epoch == 1
        with pytest.raises(StaleFence):
            await b.log.append(RUN, b.chain("b", after=records), 0, {})
        await b.log.append(RUN, b.chain("b", after=records, fence=1), 1, {})

    @spec
    async def test_a_live_holder_keeps_others_out(self, b: Bench) -> None:
        h = b.holder("h")
        await b.log.take(RUN, h)
        with pytest.raises(OwnedElsewhere) as caught:
            await b.log.take(RUN, b.holder("other"))
        assert (caught.value.holder, caught.value.until) == ("h", h.until)

    @spec
    async def test_an_expired_lease_is_taken_over(self, b: Bench) -> None:
        await b.log.take(RUN, b.holder("h"))
        b.clock.advance(LEASE_MS / 1000)
        head = await b.log.head(RUN)
        assert head is not None
        assert not head.live
        assert await b.log.take(RUN, b.holder("other")) == Taken(2, 0, previous="h")

    @spec
    async def test_lease_05_a_heartbeat_renews_the_lease(self, b: Bench) -> None:
        await b.log.take(RUN, b.holder("h"))
        for _ in range(5):
            b.clock.advance(LEASE_MS / 1000 - 1)
            await b.log.heartbeat(b.holder("h"))
            with pytest.raises(OwnedElsewhere):
                await b.log.take(RUN, b.holder("other"))

    @spec
    async def test_a_dead_process_is_taken_over_at_once_and_its_groups_named(self, b: Bench) -> None:
        await b.log.take(RUN, b.dead("h"))
        await b.log.heartbeat(b.dead("h", GROUPS))
        assert await b.log.take(RUN, b.holder("other")) == Taken(2, 0, GROUPS, "h")

    @spec
    async def test_a_taker_that_dies_hands_on_the_groups_it_was_to_end(self, b: Bench) -> None:
        await b.log.take(RUN, b.dead("h", GROUPS))
        await b.log.take(RUN, replace(b.dead("second", ((3, 4),)), pid=1, started=1))
        taken = await b.log.take(RUN, b.holder("third"))
        assert (taken.epoch, set(taken.kill), taken.previous) == (3, {*GROUPS, (3, 4)}, "second")

    @spec
    async def test_a_reused_pid_is_another_process(self, b: Bench) -> None:
        h = b.holder("h", groups=GROUPS)
        await b.log.take(RUN, replace(h, started=h.started - 1))
        assert await b.log.take(RUN, b.holder("other")) == Taken(2, 0, GROUPS, "h")

    @spec
    async def test_a_pid_of_another_boot_says_nothing(self, b: Bench) -> None:
        await b.log.take(RUN, replace(b.dead("h", GROUPS), boot="another boot"))
        with pytest.raises(OwnedElsewhere):
            await b.log.take(RUN, b.holder("other"))
        b.clock.advance(LEASE_MS / 1000)
        assert await b.log.take(RUN, b.holder("other")) == Taken(2, 0, (), "h")

    @spec
    async def test_lease_01_a_stale_writer_of_the_same_name_is_refused(self, b: Bench) -> None:
        first = await b.log.take(RUN, replace(b.dead("worker", GROUPS), until=b.clock.now_ms() + LEASE_MS))
        second = await b.log.take(RUN, b.holder("worker"))
        assert second == Taken(2, 0, GROUPS, "worker")
        done = b.chain("ok", fence=second.epoch)
        await b.log.append(RUN, done, second.epoch, {})
        with pytest.raises(StaleFence):
            await b.log.append(RUN, b.chain("failed", after=done, fence=first.epoch), first.epoch, {})
        assert (await b.log.load(RUN)).records == tuple(done)

    @spec
    async def test_the_same_process_takes_again_and_loses_no_group(self, b: Bench) -> None:
        await b.log.take(RUN, b.holder("h", groups=GROUPS))
        assert await b.log.take(RUN, b.holder("h", groups=GROUPS)) == Taken(2, 0, (), "h")

    @spec
    async def test_a_take_shortens_no_lease_and_drops_no_group(self, b: Bench) -> None:
        started = b.holder("h")
        b.clock.advance(10)
        await b.log.heartbeat(b.holder("h", groups=GROUPS))
        await b.log.take(RUN, started)
        b.clock.advance(10)
        with pytest.raises(OwnedElsewhere):
            await b.log.take(RUN, b.holder("other"))
        b.clock.advance(10)
        await b.log.take(OTHER, b.holder("h"))
        with pytest.raises(OwnedElsewhere):
            await b.log.take(RUN, b.holder("other"))
        b.clock.advance(LEASE_MS / 1000)
        assert await b.log.take(RUN, replace(b.holder("other"), pid=1)) == Taken(2, 0, GROUPS, "h")

    @spec
    async def test_take_tells_the_last_signal(self, b: Bench) -> None:
        await b.written(1)
        for _ in range(3):
            await b.log.signal(RUN, Signal(0, "poll", 1))
        assert (await b.log.take(RUN, b.holder("h"))).signal_no == 3

    @spec
    async def test_release_lets_go(self, b: Bench) -> None:
        taken = await b.log.take(RUN, b.holder("h"))
        assert await b.log.release(RUN, taken.epoch, 0, next_poll=5)
        head = await b.log.head(RUN)
        assert head is not None
        assert (head.holder, head.live) == ("", False)
        assert await b.log.take(RUN, b.holder("other")) == Taken(2, 0)

    @spec
    async def test_release_fails_when_a_signal_has_come(self, b: Bench) -> None:
        taken = await b.log.take(RUN, b.holder("h"))
        await b.log.signal(RUN, Signal(0, "resolve", 1, "", "t"))
        assert not await b.log.release(RUN, taken.epoch, 0)
        with pytest.raises(OwnedElsewhere):
            await b.log.take(RUN, b.holder("other"))
        assert await b.log.release(RUN, taken.epoch, 1)

    @spec
    async def test_a_stale_release_changes_nothing(self, b: Bench) -> None:
        await b.log.take(RUN, b.dead("h"))
        await b.log.take(RUN, b.holder("other"))
        await b.log.signal(RUN, Signal(0, "poll", 1))
        assert await b.log.release(RUN, 1, 0)
        assert await b.log.release(Stream("acme", "never"), 1, 0)
        head = await b.log.head(RUN)
        assert head is not None
        assert (head.holder, head.live) == ("other", True)

    @spec
    async def test_signals_are_numbered_from_1_and_come_back(self, b: Bench) -> None:
        for s in (RUN, OTHER):
            await b.written(1, stream=s)
        sent = [
            Signal(0, "cancel", 11, by="ann"),
            Signal(0, "resolve", 12, "\ud83d", "t", "approved", {"a": [1, None, "\ud83d", {"lc": 2}]}),
            Signal(0, "suspend", 13),
        ]
        assert [await b.log.signal(RUN, s) for s in sent] == [1, 2, 3]
        assert await b.log.signal(OTHER, sent[0]) == 1
        stored = [replace(s, no=no) for no, s in enumerate(sent, 1)]
        assert [await b.log.signals(RUN, after) for after in range(4)] == [stored, stored[1:], stored[2:], []]

    @spec
    async def test_a_signal_needs_a_stream(self, b: Bench) -> None:
        with pytest.raises(KeyError):
            await b.log.signal(RUN, Signal(0, "cancel", 1))
        assert await b.log.head(RUN) is None

    @spec
    async def test_moved_names_the_streams_with_newer_signals(self, b: Bench) -> None:
        streams = [Stream("acme", f"r{i}") for i in range(4)]
        for s in streams:
            await b.written(1, stream=s)
        for s in (streams[1], streams[1], streams[3]):
            await b.log.signal(s, Signal(0, "poll", 1))
        since = dict.fromkeys(streams, 0)
        assert sorted(s.run for s in await b.log.moved({**since, Stream("acme", "never"): 0})) == ["r1", "r3"]
        assert await b.log.moved({streams[1]: 1, streams[3]: 1, streams[0]: 0}) == [streams[1]]
        assert await b.log.moved({}) == []

    @spec
    async def test_deleting_retires_every_fence(self, b: Bench) -> None:
        old = await b.log.take(RUN, b.holder("h"))
        await b.log.delete(RUN)
        new = await b.log.take(RUN, b.holder("other"))
        assert new.epoch > old.epoch
        with pytest.raises(StaleFence):
            await b.log.append(RUN, b.chain("late", fence=old.epoch), old.epoch, {})
        assert await b.log.release(RUN, old.epoch, 0)
        with pytest.raises(OwnedElsewhere):
            await b.log.take(RUN, b.holder("h"))

    @spec
    async def test_a_holder_may_hold_many(self, b: Bench) -> None:
        h = b.holder("h")
        epochs = [(await b.log.take(Stream("acme", f"r{i}"), h)).epoch for i in range(5)]
        assert epochs == [1] * 5
        await b.log.release(Stream("acme", "r0"), 1, 0)
        b.clock.advance(1)
        await b.log.heartbeat(b.holder("h"))
        with pytest.raises(OwnedElsewhere):
            await b.log.take(Stream("acme", "r1"), b.holder("other"))
        with pytest.raises(Conflict):
            await b.log.append(Stream("acme", "r2"), b.chain("c", after=b.chain("a"), fence=1), 1, {})
