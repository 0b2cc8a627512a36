"""Both stores keep every sentence of the log seam."""

from __future__ import annotations

import apsw
import pytest

from polyloop.clock import ManualClock
from polyloop.db import Database
from polyloop.kernel.seams import Log, Stream
from polyloop.stores.memory import MemoryLog
from polyloop.stores.sqlite import SCHEMA, SqliteLog
from polyloop.testing.conformance.log import Change, Harm, LogConformance, MakeLog


class TestMemory(LogConformance):
    @pytest.fixture
    def make_log(self) -> MakeLog:
        return MemoryLog

    @pytest.fixture
    def harm(self) -> Harm:
        def rewrite(log: Log, stream: Stream, first_seq: int, place: str, change: Change) -> None:
            assert isinstance(log, MemoryLog)
            kept = log.kept[stream.scope, stream.run]
            if place == "body":
                kept.frames = [(*f[:3], change(f[3])) if f[0] == first_seq else f for f in kept.frames]
            else:
                kept.blobs = {d: (at, change(data) if at == first_seq else data) for d, (at, data) in kept.blobs.items()}

        return rewrite


class TestSqlite(LogConformance):
    @pytest.fixture
    def make_log(self, tmp_path) -> MakeLog:
        def make(clock: ManualClock) -> Log:
            return SqliteLog(Database.open(tmp_path / "store.db", [SCHEMA]), clock)

        return make

    @pytest.fixture
    def harm(self, tmp_path) -> Harm:
        def rewrite(log: Log, stream: Stream, first_seq: int, place: str, change: Change) -> None:
            c = apsw.Connection(str(tmp_path / "store.db"))
            where = "where first_seq = ? and stream = (select id from stream where scope = ? and run = ?)"
            key = (first_seq, stream.scope, stream.run)
            ((old,),) = c.execute(f"select {place} from frame {where}", key).fetchall()
            c.execute(f"update frame set {place} = ? {where}", (change(old), *key))
            c.close()

        return rewrite
