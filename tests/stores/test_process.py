"""Who is alive on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from polyloop.stores import process

pytestmark = pytest.mark.skipif(not process.this_machine().boot, reason="the system does not tell boots and process starts")


def test_this_process_is_alive() -> None:
    me = process.this_process("me", 5, ((1, 2),))
    assert (me.id, me.until, me.groups, me.pid) == ("me", 5, ((1, 2),), os.getpid())
    assert me.boot == process.this_machine().boot
    assert process.alive(me.pid, me.started)


def test_a_child_lives_until_it_is_gone_and_a_zombie_is_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    start = process.started(child.pid)
    assert start is not None
    assert start >= (process.started(os.getpid()) or 0)
    assert process.alive(child.pid, start)
    child.send_signal(signal.SIGSTOP)
    assert process.alive(child.pid, start)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, not reaped
    assert not process.alive(child.pid, start)
    child.wait()
    assert not process.alive(child.pid, start)


def test_another_process_under_the_same_pid_is_another() -> None:
    me = process.this_process("me", 0)
    assert not process.alive(me.pid, me.started - 1)


@pytest.mark.parametrize(("pid", "start"), [(0, 5), (-1, 5), (os.getpid(), 0), (1 << 70, 5)], ids=["none", "negative", "no start", "too large"])
def test_what_cannot_be_told_counts_as_alive(pid: int, start: int) -> None:
    assert process.alive(pid, start)


def test_a_name_may_hold_anything() -> None:
    code = "import ctypes, sys; ctypes.CDLL(None).prctl(15, b') R 1 (x ', 0, 0, 0); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        start = process.started(child.pid)
        assert start is not None
        assert start >= (process.started(os.getpid()) or 0)
        child.communicate()
