"""What a person is told of a run whose task has not ended when its log was written: the task as it stands (S1.5, S1.47, S1.90, S1.94)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from polyloop.media import limits
from tests import outside
from tests.media.room import picture, room
from tests.media.test_kills import outside as settings_of
from tests.media.test_runs import FIRST, lay, line

pytestmark = pytest.mark.needs("media")


class Place:
    """A run in a folder whose provider does as it is told; everything about it is asked from outside."""

    def __init__(self, folder: Path, server: Any) -> None:
        self.folder, self.server = folder, server

    def said(self, *words: object) -> Any:
        done = outside.command(self.folder, *words, "--store", "s.db", "--json", "--lang", "en", env=os.environ | {"POLYLOOP_HOME": str(self.folder)})
        return json.loads(done.out)

    def answer(self) -> dict[str, str]:
        """The final answer by its parts; "" = its heading."""
        parts = self.said("show", "r1")["finalAnswer"].split("\n## ")
        return {"": parts[0], **{p.partition("\n")[0].strip(): p.partition("\n")[2].strip() for p in parts[1:]}}

    def moved(self, times: int) -> None:
        """What a worker elsewhere does meanwhile."""
        with room(self.folder, settings_of("replicate", self.server.url("replicate")), canvas="-") as here:
            for _ in range(times):
                here.db.write_sync(lambda tx: tx.run("update task set due = 0 where due < 9000000000000000"))
                here.worker.one()


@contextmanager
def place(folder: Path, fault: str) -> Iterator[Place]:
    from polyloop.testing.media_server import MediaServer

    wish = {**picture(), "size": "256x144", "channelId": "x", "channelModelKey": "owner/m"}
    del wish["logicalModelId"]
    with MediaServer(folder / "log", [fault]) as server:
        (folder / "media.toml").write_text(
            f'[[providers]]\nchannel = "x"\nkind = "replicate"\nurl = "{server.url("replicate")}"\n[[models]]\nchannel = "x"\nkey = "owner/m"\n'
            'name = "X"\nmode = "image"\nsizes = ["256x144"]\nprices = [{ tier = "s", credits = "1" }]\n'
        )
        lay(folder)
        (folder / "replies.jsonl").write_text("".join([*FIRST[:2], line("generate_media", **wish), line("submit", summary="The picture is done")]))
        yield Place(folder, server)


def test_a_run_that_is_cancelled_while_its_task_goes_on_says_so(tmp_path):
    with place(tmp_path, "stuck") as here:
        assert here.said("run", "r.toml")["waiting"]["kind"] == "task"
        here.moved(2)
        here.said("cancel", "r1")
        told = here.answer()
        assert told[""].startswith("# Not done yet"), told
        assert "Nothing was changed" not in told["What was done"]
        assert "Generating media: 1, in progress" in told["Where it stands"]
        assert "unknown" not in told["Where it stands"]
        assert "does not stop with the task" in told["Next step"]
        assert "ask for it anew" not in told["Next step"]


def test_a_waiting_run_tells_that_nobody_knows_of_its_task_and_who_can_find_out(tmp_path):
    with place(tmp_path, "error_after") as here:
        here.said("run", "r.toml")
        here.moved(1)
        told = here.answer()
        assert "outcome unknown" in told["Where it stands"], told
        assert "in progress" not in told["Where it stands"]
        assert told["Next step"].startswith("1. Find out, where the work was sent")
        assert "Come back" not in told["Next step"]
        here.said("cancel", "r1")
        told = here.answer()
        assert told[""].startswith("# Not confirmed")
        assert "Find out, where the work was sent" in told["Next step"]


@pytest.mark.parametrize(
    ("fault", "moves", "word"), [("", 6, "done, the result can be read"), ("fail_late", 6, "failed"), ("stuck", 2, "in progress")]
)
def test_a_waiting_run_tells_its_task_as_it_stands(tmp_path, fault, moves, word):
    with place(tmp_path, fault) as here:
        here.said("run", "r.toml")
        assert "waiting" in here.answer()["Where it stands"] or "in progress" in here.answer()["Where it stands"]
        here.moved(moves)
        told = here.answer()
        assert word in told["Where it stands"] + told["What was done"], told
        assert ("Let the task go on" in told["Next step"]) == (fault != "stuck")
        assert told[""].startswith("# Not done yet" if fault != "fail_late" else "# Not done"), told


def test_a_task_that_ends_after_its_run_was_cancelled_is_told_as_it_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "POLL_MS", 5)
    with place(tmp_path, "") as here:
        here.said("run", "r.toml")
        here.said("cancel", "r1")
        assert "Generating media: 1, " in here.answer()["Where it stands"]
        here.moved(6)
        assert "Generating media: 1, done, the result can be read" in here.answer()["What was done"]


def test_a_run_that_was_given_up_tells_its_task_too(tmp_path):
    with place(tmp_path, "stuck") as here:
        here.said("run", "r.toml")
        here.moved(2)
        here.said("abandon", "r1")
        told = here.answer()
        assert "Generating media: 1, in progress" in told["Where it stands"], told
        assert "ask for it anew" not in told["Next step"]
