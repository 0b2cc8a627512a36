"""The handed cases of the area workspace, each by its own input. None may be missing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.workspace import Workspace

CASES = {
    case["id"]: case["minimal_input"]
    for case in map(json.loads, (Path(__file__).parents[1] / "cases/handed.jsonl").read_text().splitlines())
    if case["area"] == "workspace"
}
SECRET = "never shown"


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def kind_of(operation: Callable[..., Any], *args: Any, **more: Any) -> str:
    with pytest.raises(ProblemError) as refused:
        operation(*args, **more)
    assert SECRET not in repr(refused.value.problem)
    return refused.value.problem.kind


def half_written_file_01(ws: Workspace, folder: Path, given: dict[str, Any]) -> None:
    """Kills at every call: tests/files/test_landing.py and test_writelog.py; here a write that dies half-way."""
    old, new = b"1" * 300, b"2" * 9000
    (folder / "f").write_bytes(old)
    script = "import os, sys, polyloop.files.landing as l; from polyloop.files import Root; l.os.fsync = lambda fd: os._exit(9); "
    write = "l.write_atomic(Root(sys.argv[1]), 'f', b'2' * 9000, replace=True)"
    assert subprocess.run([sys.executable, "-c", script + write, str(folder)], check=False).returncode == 9
    assert (folder / "f").read_bytes() == old
    assert [f.path for f in ws.list().files] == ["f"], "the stray temporary file is not listed"
    assert ws.write_atomic("f", new, replace=True).bytes == 9000


def half_written_file_03(ws: Workspace, folder: Path, given: dict[str, Any]) -> None:
    """What a phase needs to tell an empty required file from a written one."""
    (path,) = given["required"]
    assert ws.exists(path) is None
    receipt = ws.write_atomic(path, b"x" * given["written_bytes"])
    found = ws.exists(path)
    assert found is not None
    assert (receipt.bytes, found.bytes) == (0, 0)


def half_written_file_09(ws: Workspace, folder: Path, given: dict[str, Any]) -> None:
    write = "write_atomic(Root(sys.argv[1]), 'f', sys.argv[2].encode() * 3000, replace=True)"
    script = f"import sys; from polyloop.files import *; [{write} for _ in range(20)]"
    writers = [subprocess.Popen([sys.executable, "-c", script, str(folder), word]) for word in ("ab", "c")[: given["writers"]]]
    assert [w.wait() for w in writers] == [0, 0]
    assert (folder / "f").read_bytes() in (b"ab" * 3000, b"c" * 3000)


def path_escape_01(ws: Workspace, folder: Path, given: dict[str, Any]) -> None:
    (folder / "l").symlink_to("../secret.txt")
    assert kind_of(ws.read_lines, "l") == "permission_denied"


def path_escape_02(ws: Workspace, folder: Path, given: dict[str, Any]) -> None:
    (folder.parent / "elsewhere").mkdir()
    (folder / "d").symlink_to(folder.parent / "elsewhere")
    assert kind_of(ws.write_atomic, "d/new.txt", b"x") == "permission_denied"
    assert list((folder.parent / "elsewhere").iterdir()) == []


def path_escape_03(ws: Workspace, folder: Path, given: dict[str, Any]) -> None:
    (folder.parent / "ws_secret").mkdir()
    (folder.parent / "ws_secret/a").write_text(SECRET)
    assert kind_of(ws.read_lines, given["op"].removeprefix("read ")) == "permission_denied"


def path_escape_04(ws: Workspace, folder: Path, given: dict[str, Any]) -> None:
    (folder / "sub").mkdir()
    (folder.parent / "outside.txt").write_text(SECRET)
    assert kind_of(ws.read_lines, given["op"].removeprefix("read ")) == "permission_denied"


def path_escape_06(ws: Workspace, folder: Path, given: dict[str, Any]) -> None:
    """20,000 swaps while ws/d/f is read and ws/d/w written; tests/files/test_root.py tries harder."""
    (folder / "d").mkdir()
    (folder / "d/f").write_text("inside")
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text(SECRET)
    (folder / "link").symlink_to(outside)
    swaps = "import ctypes, os; libc = ctypes.CDLL(None)\nfor _ in range(20000):\n    libc.renameat2(-100, b'd', -100, b'link', 2)"
    swapper = subprocess.Popen([sys.executable, "-c", swaps], cwd=folder)
    outcomes, told = {"inside": 0, "refused": 0}, set()
    while swapper.poll() is None:
        for operation in (lambda: ws.read_lines("d/f").lines, lambda: ws.grep(SECRET, "d").hits, lambda: ws.checksum("d/f")[0]):
            try:
                assert operation() in (("inside",), (), sha(b"inside"))
                outcomes["inside"] += 1
            except ProblemError as refused:
                outcomes["refused"] += 1
                told.add(repr(refused.problem))
    assert [(f.name, f.read_text()) for f in outside.iterdir()] == [("f", SECRET)]
    assert min(outcomes.values()) > 0
    assert SECRET not in str(told)


def path_escape_11(ws: Workspace, folder: Path, given: dict[str, Any]) -> None:
    os.mkfifo(folder / "fifo1")
    for name in given["names"]:
        began = time.monotonic()  # a pipe nobody writes is waited for for ever
        for operation in (ws.read_lines, ws.checksum, ws.exists):
            assert kind_of(operation, name) in ("validation", "type_mismatch")
        assert kind_of(ws.write_atomic, name, b"x", replace=True) in ("validation", "type_mismatch")
        assert time.monotonic() - began < 30


def stale_write_03(ws: Workspace, folder: Path, given: dict[str, Any]) -> None:
    (folder / "f").write_bytes(b"s1")
    read = ws.read_lines("f").sha256
    (folder / "f").write_bytes(b"s2")
    assert kind_of(ws.write_atomic, "f", b"new", expected_sha256=read) == "conflict"
    assert (folder / "f").read_bytes() == b"s2"


@pytest.mark.parametrize("case", CASES)
def test_handed_case(case: str, tmp_path: Path) -> None:
    folder = tmp_path / "ws"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text(SECRET)
    ws = Workspace(folder)
    globals()[case.replace("-", "_")](ws, folder, CASES[case])
    ws.close()
