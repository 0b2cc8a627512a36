"""Groups that a takeover has to end stay in the holder's row until they are gone."""

from __future__ import annotations

import signal
import subprocess

import pytest

from polyloop.app import holding
from polyloop.kernel.seams import StoreError
from polyloop.stores.memory import MemoryLog
from polyloop.stores.process import started


def test_what_could_not_be_ended_is_told_to_the_next_and_ended_by_the_next_try(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    group = (child.pid, started(child.pid) or 0)
    own = holding.Holding(MemoryLog(), lambda: ((7, 8),))

    def stuck(groups: object) -> None:
        raise StoreError("they do not end")

    with monkeypatch.context() as m:
        m.setattr(holding, "end_groups", stuck)
        with pytest.raises(StoreError):
            own.end_groups((group,))
    assert own.row().groups == ((7, 8), group)
    own.end_groups(())
    assert child.wait(10) == -signal.SIGTERM
    assert own.row().groups == ((7, 8),)
