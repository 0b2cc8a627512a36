"""Records of logs as evidence: `RUN@SEQ` names one record of a run of this tenant, as the log itself numbers it (S0.24)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from polyloop.contract.evidence import Item
from polyloop.kernel import records as r
from polyloop.kernel.seams import Log, Sealed, Stream
from polyloop.kernel.snapshot import is_name

#: Runs one submission may cite records of; those of further ones are unknown to it.
RUNS_CITED: Final = 20
SEQ_DIGITS: Final = 15


async def cited_records(log: Log, scope: str, refs: Iterable[str]) -> list[Item]:
    """The records among `refs` that are there. A result that is no success supports nothing; other records say only that they happened."""
    wanted: dict[str, set[int]] = {}
    for ref in refs:
        run, _, seq = ref.rpartition("@")
        if is_name(run) and seq.isascii() and seq.isdecimal() and len(seq) <= SEQ_DIGITS and (run in wanted or len(wanted) < RUNS_CITED):
            wanted.setdefault(run, set()).add(int(seq))
    found: list[Item] = []
    for run, seqs in wanted.items():
        stream = Stream(scope, run)
        if await log.head(stream) is not None:
            found += [_item(run, sealed) for sealed in (await log.load(stream)).records if sealed.seq in seqs]
    return found


def _item(run: str, sealed: Sealed) -> Item:
    complete = None
    if sealed.kind == "action_result" and sealed.body is not None:
        complete = cast(r.ActionResult, r.decode(sealed.kind, sealed.body)).status == "ok"
    return Item(ref=f"{run}@{sealed.seq}", type="record", run=run, complete=complete)
