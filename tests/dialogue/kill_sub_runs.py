"""Runs with a sub-run, killed beside each of their commits and gone on with: `python -m tests.dialogue.kill_sub_runs FOLDER`.

Every life is a forked process that ends by SIGKILL before or after its n-th commit, whichever run it belongs to. Prints, for each
death, what the two logs say in the end.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from polyloop.kernel import records as r
from polyloop.stores.sqlite import SqliteLog
from tests.dialogue.chain import DONE
from tests.dialogue.test_sub_runs import ASK, FOUND, LOOK, READ, Family

SUB = (READ, ASK, FOUND)


def life(family: Family, kill_at: int, *, after: bool) -> None:
    """Go on with the run until it has ended; a person answers whatever is asked. Killed at that commit, if there are so many."""
    whole, commits = SqliteLog.append, 0

    async def append(self: SqliteLog, *given: Any) -> int:
        nonlocal commits
        commits += 1
        if commits == kill_at and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        number = await whole(self, *given)
        if commits == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    SqliteLog.append = append  # type: ignore[method-assign]  # the process that dies is the subject
    path = family.folder / "top.toml"
    ran = family.run(path)
    while not ran.ended:
        if ran.waiting is not None and ran.waiting.kind == "run" and family.asked(ran.waiting.token):
            family.answer("top", {"choice": "left"})
        ran = family.run(path)


def forked(family: Family, kill_at: int, *, after: bool) -> bool:
    """Whether that life was killed."""
    pid = os.fork()
    if not pid:
        try:
            life(family, kill_at, after=after)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def told(family: Family) -> dict[str, Any]:
    (child,) = family.below()
    starts = [type(one) for one in family.records(child)].count(r.RunStarted)
    ends = [one.reason for run in ("top", child) for one in family.records(run) if isinstance(one, r.RunEnded)]
    proofs = [[p.ref == child, p.status, p.valid_steps] for p in family.proofs()]
    return {"starts": starts, "ends": ends, "proofs": proofs, "asked": family.asked(child), "heard": len(family.heard("top"))}


def main() -> None:
    found, n, step = list[dict[str, Any]](), 1, int(sys.argv[2])
    killed = True
    while killed:
        for after in (False, True):
            folder = Path(sys.argv[1]) / f"{n}-{after}"
            folder.mkdir(parents=True)
            family = Family(folder)
            family.lay_top(LOOK, DONE, sub=SUB)
            killed = forked(family, n, after=after)
            if killed:
                assert not forked(family, 0, after=False)
                found.append(told(family))
        n += step
    print(json.dumps(found))


if __name__ == "__main__":
    main()
