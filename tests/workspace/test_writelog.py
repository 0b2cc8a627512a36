"""What the write log can prove: after real kills, after other hands, after damage."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.kernel.seams import NotStarted, Unknown
from polyloop.workspace import Workspace, limits
from polyloop.workspace.workspace import HIDDEN, Receipt
from tests.files.points import sampled

OLD, NEW = b"old" * 100, b"new" * 3000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ws"


def opened(folder: Path) -> Workspace:
    ws = Workspace(folder)
    ws.hold()
    return ws


def settled(folder: Path, key: str = "k") -> object:
    ws = Workspace(folder)
    try:
        return ws.settle(key)
    finally:
        ws.close()


def log_of(folder: Path) -> Path:
    return folder / HIDDEN / "writes.jsonl"


WRITER = """
import sys
from polyloop.workspace import Workspace
ws = Workspace(sys.argv[1])
ws.hold()
print("start", flush=True)
ws.write_atomic("d/f", b"new" * 3000, key="k", **eval(sys.argv[2]))
print("end", flush=True)
"""


def strace(folder: Path, said: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["strace", *options, sys.executable, "-c", WRITER, str(folder), said], check=False, capture_output=True)


@pytest.mark.needs("strace")
@pytest.mark.parametrize("old", [OLD, None], ids=["replace", "new"])
def test_S2_28_after_a_kill_at_any_call_the_log_knows_whether_it_landed(folder: Path, old: bytes | None) -> None:
    """Never `unknown` when only the writer died: landed if and only if the file is the new one."""
    calls, said = "write,fsync,fdatasync,rename,renameat,renameat2,unlinkat,flock,openat2,close", "{}" if old is None else "{'replace': True}"

    def prepare() -> None:
        subprocess.run(["rm", "-rf", folder], check=True)
        (folder / "d").mkdir(parents=True)
        opened(folder).close()  # its first opening writes too
        if old is not None:
            (folder / "d/f").write_bytes(old)

    prepare()
    trace = folder.parent / "trace"
    assert strace(folder, said, "-o", str(trace), "-e", f"trace={calls}").returncode == 0
    lines = [line.split("(")[0] if "write(1," not in line else line for line in trace.read_text().splitlines()]
    begin = next(i for i, line in enumerate(lines) if re.match(r"write\(1, .start", line))
    end = next(i for i, line in enumerate(lines) if re.match(r"write\(1, .end", line))
    lines = [line.split("(")[0] for line in lines]
    points = [(lines[i], lines[: i + 1].count(lines[i])) for i in range(begin + 1, end)]
    assert len(points) > 10
    seen = set()
    for call, number in sampled(points):
        prepare()
        strace(folder, said, "-o", os.devnull, "-e", f"inject={call}:signal=SIGKILL:when={number}")
        found = (folder / "d/f").read_bytes() if (folder / "d/f").exists() else None
        assert found in (old, NEW)
        what = settled(folder)
        assert isinstance(what, Receipt) == (found == NEW), (call, number, what)
        assert isinstance(what, NotStarted) == (found != NEW)
        if isinstance(what, Receipt):
            assert what.created == (old is None)
        assert [p.name for p in (folder / "d").iterdir()] == (["f"] if found else [])
        ws = Workspace(folder)
        assert ws.write_atomic("d/f", NEW, replace=True, key="k", attempt=2).bytes == len(NEW), "the one retry ends well"
        ws.close()
        seen.add(found == NEW)
    assert seen == {True, False}


def unfinished(folder: Path) -> Path:
    """A write that began and whose process died before it was published; returns its temporary file."""
    said = "{'replace': True}"
    (folder / "d").mkdir(parents=True)
    script = WRITER.replace("ws.write_atomic", "import os, polyloop.files.landing as l\nl.os.rename = lambda *a, **k: os._exit(1)\nws.write_atomic")
    subprocess.run([sys.executable, "-c", script, str(folder), said], check=False, capture_output=True)
    (left,) = (folder / "d").iterdir()
    assert left.name.startswith(".polyloop-tmp-")
    return left


def test_the_temporary_file_proves_that_nothing_was_published(folder: Path) -> None:
    unfinished(folder)
    assert settled(folder) == NotStarted()
    assert list((folder / "d").iterdir()) == []


def test_without_its_temporary_file_only_the_content_can_tell(folder: Path) -> None:
    unfinished(folder).unlink()
    (folder / "d/f").write_bytes(b"by another hand")
    assert settled(folder) == Unknown()
    (folder / "d/f").write_bytes(NEW)
    assert isinstance(settled(folder), Receipt)
    (folder / "d/f").write_bytes(b"changed later")
    assert isinstance(settled(folder), Receipt), "once known, it stays known"


def test_where_the_folder_is_gone_nothing_can_be_told(folder: Path) -> None:
    unfinished(folder).unlink()
    (folder / "d").rmdir()
    assert settled(folder) == Unknown()
    ws = Workspace(folder)
    with pytest.raises(ProblemError) as refused:
        ws.write_atomic("d/f", NEW, key="k", replace=True)
    assert refused.value.problem.kind == "commit_unknown"
    ws.close()


def test_a_begun_write_whose_folder_is_a_link_by_now_does_not_shut_the_workspace(folder: Path, tmp_path: Path) -> None:
    unfinished(folder).unlink()
    (folder / "d").rmdir()
    (folder / "d").symlink_to(tmp_path)
    assert settled(folder) == Unknown()


@pytest.mark.parametrize("written", [0, 30, 1000])
def test_a_line_that_cannot_be_logged_stops_the_write_and_harms_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch, written: int) -> None:
    ws = opened(folder)
    receipt = ws.write_atomic("f", NEW, key="k1")
    real = os.write

    def full_disk(fd: int, data: bytes) -> int:
        if b'"key"' not in bytes(data[:10]):
            return real(fd, data)
        if written == 0:
            raise OSError(28, "no space")
        return real(fd, data[:written]) if written < len(data) else real(fd, data) - 1

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full_disk)
        with pytest.raises(ProblemError) as refused:
            ws.write_atomic("g", NEW, key="k2")
    assert (refused.value.problem.kind, refused.value.problem.execution_started) == ("local_io", False)
    assert not (folder / "g").exists()
    assert ws.settle("k2") == NotStarted()
    after = ws.write_atomic("h", NEW, key="k3")
    ws.close()
    assert (settled(folder, "k1"), settled(folder, "k3")) == (receipt, after)
    assert settled(folder, "k2") in (NotStarted(), Unknown())


def test_a_publication_by_link_that_was_cut_between_its_two_names_has_landed(folder: Path) -> None:
    left = unfinished(folder)
    os.link(left, folder / "d/f")
    assert isinstance(settled(folder), Receipt)
    assert [p.name for p in (folder / "d").iterdir()] == ["f"]


def test_a_failed_sync_after_publishing_is_unknown_until_it_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ws = opened(folder)
    real, count = os.fsync, iter(range(100))

    def failing(fd: int) -> None:
        if next(count) == 1:  # 0 = the file, 1 = the folder
            raise OSError(5, "io")
        real(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(ProblemError) as refused:
            ws.write_atomic("f", NEW, key="k")
    assert (refused.value.problem.kind, refused.value.problem.execution_started) == ("commit_unknown", None)
    assert isinstance(ws.settle("k"), Receipt)
    ws.close()


def test_a_torn_last_line_was_never_begun(folder: Path) -> None:
    ws = Workspace(folder)
    receipt = ws.write_atomic("f", NEW, key="k1")
    ws.close()
    whole = log_of(folder).read_bytes()
    for cut in range(1, 60, 7):
        log_of(folder).write_bytes(whole + whole.splitlines(keepends=True)[0].replace(b"k1", b"k2")[:-cut])
        assert settled(folder, "k2") == NotStarted()
        assert settled(folder, "k1") == receipt


def test_the_log_stays_short(folder: Path) -> None:
    opened(folder).close()
    line = '{"key":"%d","attempt":1,"path":"f","sha256":"x","bytes":1,"created":true,"temporary":"t","state":"done"}\n'
    log_of(folder).write_text("".join(line % n for n in range(3 * limits.LOG_KEYS)))
    assert isinstance(settled(folder, str(3 * limits.LOG_KEYS - 1)), Receipt)
    assert log_of(folder).read_text().count("{") == limits.LOG_KEYS
    assert settled(folder, "0") == NotStarted()


def test_a_workspace_whose_own_folder_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (folder / HIDDEN).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProblemError) as refused:
        Workspace(folder).hold()
    assert refused.value.problem.kind == "permission_denied"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_failed_hold_lets_go_of_everything(folder: Path) -> None:
    opened(folder).close()
    log_of(folder).unlink()
    log_of(folder).mkdir()
    before = sorted(Path("/proc/self/fd").iterdir())
    for _ in range(3):
        with pytest.raises(ProblemError):
            Workspace(folder).hold()
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_a_dead_holder_holds_nothing(folder: Path) -> None:
    script = "import sys; from polyloop.workspace import Workspace; w = Workspace(sys.argv[1]); w.hold(); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(ProblemError, match=f"process {holder.pid}") as refused:
        Workspace(folder).hold()
    assert refused.value.problem.kind == "owned_elsewhere"
    holder.kill()
    holder.communicate()
    opened(folder).close()


def test_a_forgotten_workspace_does_not_shut_the_next_one_out(folder: Path) -> None:
    opened(folder)
    gc.collect()
    opened(folder).close()
