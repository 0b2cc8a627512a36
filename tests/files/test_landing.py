"""A file lands whole or not at all: by modes, under faults, under SIGKILL at every system call, with several writers."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.files import FileProblem, Root, write_atomic
from polyloop.files.landing import Landing
from polyloop.files.resolve import publish_new
from tests.files.points import sampled

SOAK = bool(os.environ.get("POLYLOOP_SOAK"))
V1, V2 = b"1" * 300, b"2" * 9000


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


MODES: list[tuple[dict[str, Any], bytes | None, str]] = [
    ({}, None, "created"),
    ({}, V1, "conflict"),  # S0.44: no-clobber is the default
    ({"if_absent": True}, None, "created"),
    ({"if_absent": True}, V1, "conflict"),
    ({"replace": True}, None, "created"),
    ({"replace": True}, V1, "replaced"),
    ({"expected_sha256": sha(V1)}, V1, "replaced"),
    ({"expected_sha256": sha(V2)}, V1, "conflict"),
    ({"expected_sha256": sha(V1)}, None, "conflict"),
    ({"expected_sha256": sha(V1).upper()}, V1, "validation"),
    ({"expected_sha256": "abc"}, V1, "validation"),
    ({"expected_sha256": sha(V1), "replace": True}, V1, "validation"),
    ({"if_absent": True, "replace": True}, V1, "validation"),
]


@pytest.mark.parametrize(("said", "old", "becomes"), MODES, ids=[f"{list(s)}-{b}-{i}" for i, (s, _, b) in enumerate(MODES)])
def test_S0_44_a_file_is_replaced_only_when_it_was_said(ws: Path, said: dict[str, Any], old: bytes | None, becomes: str) -> None:
    if old is not None:
        (ws / "f").write_bytes(old)
    with Root(ws) as root:
        if becomes in ("created", "replaced"):
            assert write_atomic(root, "f", V2, **said) == ("f", sha(V2), len(V2), becomes == "created")
            assert (ws / "f").read_bytes() == V2
        else:
            with pytest.raises(FileProblem) as refused:
                write_atomic(root, "f", V2, **said)
            assert refused.value.kind == becomes
            assert refused.value.started is False
            assert ((ws / "f").read_bytes() if old is not None else None) == old
    assert names(ws) == (["f"] if old is not None or becomes == "created" else [])


def test_stale_write_03_a_conflict_tells_what_is_there(ws: Path) -> None:
    (ws / "f").write_bytes(b"s2")
    with Root(ws) as root, pytest.raises(FileProblem) as refused:
        write_atomic(root, "f", b"new", expected_sha256=sha(b"s1"))
    assert refused.value.details == {"path": "f", "expected": sha(b"s1"), "found": sha(b"s2")}
    assert (ws / "f").read_bytes() == b"s2"


def test_S0_42_missing_folders_are_made_and_names_stay_inside(ws: Path) -> None:
    with Root(ws) as root:
        write_atomic(root, "a/b/c/f", b"x")
        write_atomic(root, "a/b/g", b"")
        for bad in ("../f", "/f", "a/../../f", "a/b/c", "a/b/c/f/g"):
            with pytest.raises(FileProblem):
                write_atomic(root, bad, b"x", replace=True)
    assert names(ws) == ["a/b/c/f", "a/b/g"]
    assert [p.name for p in ws.parent.iterdir()] == ["ws"]


def test_a_replaced_file_keeps_its_permissions(ws: Path) -> None:
    (ws / "f").write_bytes(V1)
    (ws / "f").chmod(0o640)
    with Root(ws) as root:
        write_atomic(root, "f", V2, replace=True)
        write_atomic(root, "g", V2)
    assert (ws / "f").stat().st_mode & 0o777 == 0o640
    umask = os.umask(0)
    os.umask(umask)
    assert (ws / "g").stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_failed_format_check_publishes_nothing(ws: Path) -> None:
    def check(file: BinaryIO) -> None:
        assert file.read() == V2
        raise FileProblem("validation", "f", "it is no docx")

    with Root(ws) as root, pytest.raises(FileProblem, match="no docx"):
        write_atomic(root, "f", V2, check=check)
    assert list(ws.iterdir()) == []


def test_two_publishers_agree(ws: Path) -> None:
    """Where a file system has no renameat2, a hard link does the same."""
    folder = os.open(ws, os.O_RDONLY)
    for name in ("t", "old"):
        (ws / name).write_bytes(name.encode())
    with pytest.raises(FileExistsError):
        publish_new(folder, "t", "old")
    publish_new(folder, "t", "new")
    assert names(ws) == ["new", "old"]
    os.close(folder)


def test_without_renameat2_a_link_publishes(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_: object) -> None:
        raise OSError(errno.ENOSYS, "not here")

    monkeypatch.setattr("polyloop.files.resolve._rename_new", without)
    with Root(ws) as root:
        write_atomic(root, "f", V1)
        with pytest.raises(FileProblem, match="exists already"):
            write_atomic(root, "f", V2)
        (ws / "f").unlink()
        with Landing(root, "f", V2) as landing:
            (ws / "f").write_bytes(V1)
            with pytest.raises(FileProblem, match="exists already"):
                landing.publish()
    assert names(ws) == ["f"]
    assert (ws / "f").read_bytes() == V1


# --- faults of the system ----------------------------------------------------------------------------------------


def failing(call: str, at: int, error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = getattr(os, call), iter(range(1000))

    def maybe(*args: Any, **more: Any) -> Any:
        if next(count) == at:
            raise OSError(error, os.strerror(error))
        return real(*args, **more)

    monkeypatch.setattr(os, call, maybe)


FAULTS = [
    ("write", 0, errno.ENOSPC, "local_io"),
    ("fsync", 0, errno.EIO, "local_io"),  # the file
    ("fsync", 1, errno.EIO, "commit_unknown"),  # the folder, after it was published
    ("rename", 0, errno.EIO, "local_io"),
    ("open", 0, errno.EMFILE, "local_io"),
    ("open", 0, errno.EROFS, "local_io"),
    ("open", 0, errno.EACCES, "permission_denied"),
    ("read", 0, errno.EIO, "local_io"),
]


@pytest.mark.parametrize(("call", "at", "error", "kind"), FAULTS, ids=[f"{c}-{a}-{k}" for c, a, _, k in FAULTS])
def test_a_fault_is_typed_and_leaves_the_old_file_or_the_new_one(
    ws: Path, monkeypatch: pytest.MonkeyPatch, call: str, at: int, error: int, kind: str
) -> None:
    (ws / "f").write_bytes(V1)
    with Root(ws) as root, monkeypatch.context() as patch:
        failing(call, at, error, patch)
        with pytest.raises(FileProblem) as refused:
            write_atomic(root, "f", V2, replace=True)
    assert refused.value.kind == kind
    assert refused.value.started is (None if kind == "commit_unknown" else False)
    assert (ws / "f").read_bytes() == (V2 if kind == "commit_unknown" else V1)
    assert names(ws) == ["f"]


def test_a_rename_that_failed_after_it_happened_is_unknown(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.rename

    def lost_reply(*args: Any, **more: Any) -> None:
        real(*args, **more)
        raise OSError(errno.EIO, "lost")

    with Root(ws) as root, monkeypatch.context() as patch:
        patch.setattr(os, "rename", lost_reply)
        with pytest.raises(FileProblem) as refused:
            write_atomic(root, "f", V2, replace=True)
    assert refused.value.kind == "commit_unknown"


def test_what_reads_back_differently_is_not_published(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = iter([b"other", b""])
    with Root(ws) as root, monkeypatch.context() as patch:
        patch.setattr(os, "read", lambda *_: next(pieces))
        with pytest.raises(FileProblem, match="reads back differently"):
            write_atomic(root, "f", V2)
    assert names(ws) == []


def test_half_written_file_01_a_full_disk_changes_nothing(ws: Path) -> None:
    """RLIMIT_FSIZE stands for a full disk: the write really stops half-way."""
    (ws / "f").write_bytes(V1)
    script = (
        "import resource, signal, sys\nfrom polyloop.files import *\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n    write_atomic(Root(sys.argv[1]), 'f', b'2' * 9000, replace=True)\nexcept FileProblem as p:\n    print(p.kind)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(ws)], check=True, capture_output=True, text=True).stdout == "local_io\n"
    assert (ws / "f").read_bytes() == V1
    assert names(ws) == ["f"]


WRITER = """
import sys
from polyloop.files import Root, write_atomic
with Root(sys.argv[1]) as root:
    root.sweep()
    print("start", flush=True)
    write_atomic(root, "d/f", b"2" * 9000, **eval(sys.argv[2]))
"""
#: Those that a landing makes.
LANDING = ("write", "fsync", "rename", "renameat", "renameat2", "unlinkat", "openat2", "flock", "close", "fchmod")
CALLS = "openat,openat2,write,fsync,lseek,read,rename,renameat,renameat2,unlinkat,mkdirat,flock,fstat,newfstatat,fchmod,close"


def struck(ws: Path, said: str) -> list[tuple[str, int]]:
    """The system calls of the landing itself, each with its number among its kind in the whole process."""
    log = ws.parent / "strace"
    subprocess.run(["strace", "-o", log, "-e", f"trace={CALLS}", sys.executable, "-B", "-c", WRITER, ws, said], check=True, capture_output=True)
    lines = log.read_text().splitlines()
    begin = max(i for i, line in enumerate(lines) if line.startswith("write(1, "))
    points = [
        (line.split("(")[0], sum(other.startswith(line.split("(")[0] + "(") for other in lines[: i + 1])) for i, line in enumerate(lines) if i > begin
    ]
    return [p for p in points if p[0] in LANDING][:40]


@pytest.mark.needs("strace")
@pytest.mark.parametrize("old", [V1, None], ids=["replace", "new"])
def test_S0_43_a_failure_at_every_call_leaves_nothing_or_the_old_bytes(ws: Path, old: bytes | None) -> None:
    """The call is refused by the system; the writer ends by itself, with a typed problem, and leaves no other file."""
    said = "{'replace': True}" if old is not None else "{}"
    (ws / "d").mkdir()
    told: dict[str, str] = {}
    for call, number in sampled(struck(ws, said)):
        for path in (ws / "d").iterdir():
            path.unlink()
        if old is not None:
            (ws / "d/f").write_bytes(old)
        inject = f"inject={call}:error=EIO:when={number}"
        done = subprocess.run(
            ["strace", "-o", os.devnull, "-e", inject, sys.executable, "-B", "-c", WRITER, ws, said], check=False, capture_output=True, text=True
        )
        found = (ws / "d/f").read_bytes() if (ws / "d/f").exists() else None
        problem = re.search(r"FileProblem: (\w+)", done.stderr)
        told[problem[1] if problem else "done" if done.returncode == 0 else "other"] = f"{call} {number}: {done.stderr[-300:]}"
        landed = done.returncode == 0 or (problem and problem[1] == "commit_unknown")
        assert found == (b"2" * 9000 if landed else old), (call, number, done.stderr[-300:])
        if call != "unlinkat":  # then the next sweep takes it away
            assert names(ws) == (["d/f"] if found is not None else []), (call, number)
    assert "local_io" in told
    assert "other" not in told, told["other"]


@pytest.mark.needs("strace")
@pytest.mark.parametrize("old", [V1, None], ids=["replace", "new"])
def test_half_written_file_01_a_kill_at_every_call_leaves_the_old_or_the_new(ws: Path, old: bytes | None) -> None:
    """The same writer is killed at each of its system calls from `start` on, until one gets through."""
    said = "{'replace': True}" if old is not None else "{}"
    (ws / "d").mkdir()
    seen = set()
    for call, number in sampled(struck(ws, said)):
        for path in (ws / "d").iterdir():
            path.unlink()
        if old is not None:
            (ws / "d/f").write_bytes(old)
        inject = f"inject={call}:signal=SIGKILL:when={number}"
        killed = subprocess.run(
            ["strace", "-o", os.devnull, "-e", inject, sys.executable, "-B", "-c", WRITER, ws, said], check=False, capture_output=True
        )
        found = (ws / "d/f").read_bytes() if (ws / "d/f").exists() else None
        assert found in (old, b"2" * 9000)
        seen.add(found)
        with Root(ws) as root:
            listed = [entry.path for entry in root.walk()]
            assert listed in (["d/f"], [] if found is None else ["d/f"]), "a stray temporary file is not listed"
            root.sweep()
        assert names(ws) == (["d/f"] if found is not None else [])
        assert killed.returncode != 0 or found == b"2" * 9000
    assert seen == {old, b"2" * 9000}


def test_half_written_file_09_two_writers_leave_one_whole_text(ws: Path) -> None:
    script = (
        "import sys\nfrom polyloop.files import *\nwith Root(sys.argv[1]) as root:\n"
        "    for _ in range(int(sys.argv[3])):\n        write_atomic(root, 'f', sys.argv[2].encode() * 50000, replace=True)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(ws), word, "300" if SOAK else "40"]) for word in ("abc", "x")]
    seen = set()
    while any(w.poll() is None for w in writers):
        if (ws / "f").exists():
            seen.add((ws / "f").read_bytes())
    assert [w.returncode for w in writers] == [0, 0]
    assert seen <= {b"abc" * 50000, b"x" * 50000}
    assert names(ws) == ["f"]


def test_only_one_of_many_writers_creates_a_file(ws: Path) -> None:
    script = (
        "import sys\nfrom polyloop.files import *\nwith Root(sys.argv[1]) as root:\n    for n in range(60):\n        try:\n"
        "            write_atomic(root, f'f{n}', sys.argv[2].encode())\n            print(n)\n"
        "        except FileProblem as p:\n            assert p.kind == 'conflict'\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(ws), str(w)], stdout=subprocess.PIPE, text=True) for w in range(3)]
    won = [w.communicate()[0].split() for w in writers]
    assert sorted(n for mine in won for n in mine) == sorted(str(n) for n in range(60))
    assert all((ws / f"f{n}").read_text() == str(w) for w, mine in enumerate(won) for n in mine)


def test_compare_and_write_by_many_loses_nothing(ws: Path) -> None:
    """Each adds one to a number, by expected digest: writers through here take turns."""
    script = (
        "import sys\nfrom hashlib import sha256\nfrom polyloop.files import *\nwith Root(sys.argv[1]) as root:\n    done = 0\n    while done < 25:\n"
        "        old = root.read_bytes('n', 100)\n        try:\n"
        "            write_atomic(root, 'n', str(int(old) + 1).encode(), expected_sha256=sha256(old).hexdigest())\n            done += 1\n"
        "        except FileProblem as p:\n            assert p.kind == 'conflict', p\n"
    )
    (ws / "n").write_text("0")
    writers = [subprocess.Popen([sys.executable, "-c", script, str(ws)]) for _ in range(3)]
    assert [w.wait() for w in writers] == [0] * 3
    assert (ws / "n").read_text() == "75"


# --- leftovers ---------------------------------------------------------------------------------------------------


def test_leftovers_of_the_dead_are_swept_and_the_living_are_left_alone(ws: Path) -> None:
    (ws / "d").mkdir()
    (ws / "d/.polyloop-tmp-1-1").write_bytes(b"half")
    (ws / ".polyloop-tmp-folder").mkdir()
    with Root(ws) as root, Landing(root, "f", V1) as landing:
        assert root.sweep() == 1
        assert names(ws) == [landing.temporary]
        assert list(root.walk()) == []
        landing.publish()
    assert names(ws) == ["f"]


def test_a_temporary_name_in_the_way_is_stepped_over(ws: Path) -> None:
    with Root(ws) as root:
        with Landing(root, "a", V1) as landing:
            head, _, number = landing.temporary.rpartition("-")
        for n in range(int(number) + 1, int(number) + 4):
            (ws / f"{head}-{n}").write_bytes(b"someone's")
        write_atomic(root, "f", V1)
    assert (ws / "f").read_bytes() == V1
    assert len(names(ws)) == 4


def test_a_file_swept_before_it_was_locked_is_made_again(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., int] = os.open
    count = iter(range(100))

    def swept(path: Any, flags: int, *args: Any, **more: Any) -> int:
        fd = real(path, flags, *args, **more)
        if flags & os.O_EXCL and next(count) == 0:
            os.unlink(path, dir_fd=more["dir_fd"])
        return fd

    with Root(ws) as root, monkeypatch.context() as patch:
        patch.setattr(os, "open", swept)
        write_atomic(root, "f", V1)
    assert names(ws) == ["f"]


@given(st.binary(max_size=2000), st.binary(max_size=2000))
def test_what_is_written_is_what_is_read(tmp_path_factory: pytest.TempPathFactory, first: bytes, second: bytes) -> None:
    with Root(tmp_path_factory.mktemp("ws")) as root:
        landed = write_atomic(root, "f", first)
        again = write_atomic(root, "f", second, expected_sha256=landed.sha256)
        assert root.read_bytes("f", 2000) == second
        assert root.checksum("f") == (again.sha256, again.bytes) == (sha(second), len(second))
