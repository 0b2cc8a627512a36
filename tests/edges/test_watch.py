"""`polyloop watch`: a run in another process, told as it goes on; and told when nobody runs it any more."""

from __future__ import annotations

import json
import os
import pty
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests import outside
from tests.cli.conftest import TOOLS, Desk, act


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "mytools.py").write_text(TOOLS)
    return Desk(tmp_path)


def begun(desk: Desk, run: str, kind: str) -> None:
    until = time.monotonic() + 60
    while kind not in [x["kind"] for x in desk.records(run)]:
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_run_elsewhere_is_told_to_its_end(desk: Desk) -> None:
    script = [act("look", n=1), act("wait"), act("submit", summary="done")]
    running = desk.start("run", desk.request(script=script, head='run_id = "w"'), "--json")
    begun(desk, "w", "step")
    watching = desk.start("watch", "w")
    first = [watching.stdout.readline() for _ in range(8)]
    (desk.folder / "go").touch()  # what was told before this was told of a run that could not have ended
    out, _ = watching.communicate(timeout=60)
    running.communicate(timeout=60)
    lines = [*first, *out.splitlines()]
    assert watching.returncode == 0
    assert [line.split()[2] for line in lines if line.lstrip().startswith("+")][-4:] == ["->", "<-", "=", "·"]
    assert any("2/20" in line or "3/20" in line for line in lines)
    code, shown = desk.call("watch", "w", "--json")
    *records, result = [json.loads(line) for line in shown.splitlines()]
    assert (code, records, result["reason"]) == (0, desk.records("w"), "completed")


def test_S2_27_a_killed_run_is_told_as_interrupted_and_followed_into_its_next_holder(desk: Desk) -> None:
    script = [act("sleep", s=30), act("submit", summary="done")]
    running = desk.start("run", desk.request(script=script, head='run_id = "k"'), "--json")
    begun(desk, "k", "action_intent")
    watching, staying = desk.start("watch", "k"), desk.start("watch", "k", "--follow")
    told = watching.stdout.readline(), staying.stdout.readline()
    running.send_signal(signal.SIGKILL)
    running.communicate()
    out, _ = watching.communicate(timeout=60)
    assert told == ("k\n", "k\n")
    assert (watching.returncode, "can be resumed" in out) == (130, True)
    assert staying.poll() is None
    assert desk.json("cancel", "k")[0] == 130
    out, _ = staying.communicate(timeout=60)
    assert (staying.returncode, "Cancelled" in out) == (130, True)


def test_a_waiting_run_and_one_that_is_not_there(desk: Desk) -> None:
    script = [act("note", text="x"), act("submit", summary="ok")]
    assert desk.json("run", desk.request(script=script, head='run_id = "a"\npermission_mode = "request_approval"'))[0] == 5
    code, out = desk.call("watch", "a")
    assert (code, "an approval" in out) == (5, True)
    assert desk.call("watch", "none")[0] == 2


def test_on_a_terminal_there_is_a_line_of_what_is_going_on(desk: Desk) -> None:
    running = desk.start("run", desk.request(script=[act("wait"), act("submit", summary="x")], head='run_id = "t"'), "--json")
    begun(desk, "t", "action_intent")
    page, side = pty.openpty()
    watching = outside.start(*outside.POLYLOOP, "watch", "t", "--lang", "en", cwd=desk.folder, stdout=side, env={**os.environ, "TERM": "xterm"})
    os.close(side)
    told = b""
    with suppress(OSError):  # the other side has closed
        while chunk := os.read(page, 65536):
            told += chunk
            if b"wait is running, " in told:
                (desk.folder / "go").touch()
    watching.wait(timeout=60)
    running.communicate(timeout=60)
    os.close(page)
    assert b"wait is running, " in told
    assert b"\x1b[32m" in told
