"""A store of the first schema, kept as it was written: every later version must read it. It is never made anew."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from polyloop.kernel import records as r
from polyloop.kernel.seams import Signal, Stream
from polyloop.stores.process import this_process
from polyloop.stores.sqlite import SqliteLog, open_log

KEPT = Path(__file__).parents[1] / "fixtures" / "log-schema-1.db"
LINES = [json.loads(line) for line in KEPT.with_suffix(".jsonl").read_text().splitlines()]
RUN, OTHER = Stream("acme", "run-1"), Stream("rival", "run-1")
TEXT = b"observation " * 200
AT = 1_700_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copyfile(KEPT, tmp_path / "store.db"))


async def read(log: SqliteLog) -> None:
    for stream in (RUN, OTHER):
        loaded = await log.load(stream)
        assert loaded.torn is None
        shown = [
            {"scope": stream.scope, "run": stream.run, **{f: getattr(s, f) for f in s.__struct_fields__}, "body": s.body and s.body.decode()}
            for s in loaded.records
        ]
        assert shown == [line for line in LINES if line["scope"] == stream.scope]
    assert [r.decode(s.kind, s.body) for s in (await log.load(RUN)).records if s.body is not None][-1].reason == "cancelled"
    assert await log.blobs(RUN, [r.sha256(TEXT)]) == {r.sha256(TEXT): TEXT}
    assert await log.signals(RUN, 0) == [
        Signal(1, "cancel", AT, by="ann"),
        Signal(2, "resolve", AT + 1, "bob", "t", "approved", {"a": [1, "\ud83d"]}),
    ]
    assert await log.head(Stream("acme", "gone")) is None


def test_the_kept_store_reads_as_it_was_written(store: Path) -> None:
    async def main() -> None:
        log = open_log(store)
        await read(log)
        await log.close()

    asyncio.run(main())


def test_the_kept_store_is_taken_over_and_goes_on(store: Path) -> None:
    async def main() -> None:
        log = open_log(store)
        taken = await log.take(RUN, this_process("new", 1 << 60))
        assert (taken.epoch, taken.signal_no, taken.previous, taken.kill) == (2, 2, "h1", ())
        head = await log.head(RUN)
        assert head is not None
        more = r.seal(head.hash, head.seq, AT, 2, "11" * 16, r.CancelRequested("later"))
        await log.append(RUN, [more], 2, {})
        assert (await log.load(RUN)).records[-1] == more
        assert (await log.take(Stream("acme", "gone"), this_process("new", 1 << 60))).epoch == 3
        await log.close()

    asyncio.run(main())
