"""The log that fails where it is told to."""

from __future__ import annotations

import asyncio

import pytest

from polyloop.kernel.seams import StoreError, StoreUnknown
from polyloop.testing.stores import FaultyLog, MemoryStore
from tests.stores.chains import RUN, batches


def test_appends_fail_as_told_and_all_else_is_the_log_s_own() -> None:
    async def main() -> None:
        kept = MemoryStore()
        log = FaultyLog(kept, {1: "error", 3: "before", 5: "after"})
        first, second, third = batches(1, 2, 1)
        with pytest.raises(StoreError) as caught:
            await log.append(RUN, first, 0, {})
        assert not isinstance(caught.value, StoreUnknown)
        assert await log.head(RUN) is None
        await log.append(RUN, first, 0, {})
        with pytest.raises(StoreUnknown):
            await log.append(RUN, second, 0, {})
        assert (await log.load(RUN)).records == tuple(first)
        await log.append(RUN, second, 0, {})
        with pytest.raises(StoreUnknown):
            await log.append(RUN, third, 0, {})
        assert (await log.load(RUN)).records == (*first, *second, *third)
        assert log.appends == 5
        assert await kept.load(RUN) == await log.load(RUN)

    asyncio.run(main())
