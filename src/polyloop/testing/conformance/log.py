"""The log seam: one test for each sentence of `polyloop.kernel.seams.Log`.

A back end runs it by subclassing `LogConformance` in a test module and giving two fixtures: `make_log(clock) -> Log`, a log over a
fresh store, asked once per test; and `harm(log, stream, first_seq, place, change)`, which rewrites stored bytes behind the log's
back (`place` is "body" or "texts" of the frame that begins at first_seq). Time is a `ManualClock`; holders are real processes of
this machine.
"""

from __future__ import annotations

from .log_append import Appending
from .log_bench import Change, Harm, MakeLog
from .log_own import Owning
from .log_read import Reading

__all__ = ["Change", "Harm", "LogConformance", "MakeLog"]


class LogConformance(Appending, Reading, Owning):
    """The whole suite."""
