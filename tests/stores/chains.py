"""Chains of records for the tests of stores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from polyloop.kernel import records as r
from polyloop.kernel.seams import Stream

RUN = Stream("acme", "run-1")
_salts = count(1)


def chain(*texts: str, after: Sequence[r.Sealed] = (), fence: int = 0, at: int = 1_700_000_000_000) -> list[r.Sealed]:
    """A batch of model results with these texts, sealed after the last record of `after`."""
    prev, seq = (after[-1].hash, after[-1].seq + 1) if after else (r.ZERO_HASH, 0)
    out: list[r.Sealed] = []
    for text in texts:
        out.append(r.seal(prev, seq, at + seq, fence, f"{next(_salts):032x}", r.ModelResult(text=text)))
        prev, seq = out[-1].hash, seq + 1
    return out


def batches(*sizes: int, fence: int = 0) -> list[list[r.Sealed]]:
    """Consecutive batches of so many records."""
    out: list[list[r.Sealed]] = []
    flat: list[r.Sealed] = []
    for size in sizes:
        out.append(chain(*(f"text {len(flat) + i}" for i in range(size)), after=flat, fence=fence))
        flat += out[-1]
    return out
