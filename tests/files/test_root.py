"""Nothing leads out of a root: both resolvers under one suite, and the race that path checks lose."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from polyloop.files import FileProblem, Root, write_atomic
from polyloop.files.resolve import FOLDER, Resolver, by_kernel, by_walk, resolver_of

SOAK = bool(os.environ.get("POLYLOOP_SOAK"))
SECRET = b"the secret outside"


@pytest.fixture(params=[by_kernel, by_walk], ids=["kernel", "walk"])
def resolver(request: pytest.FixtureRequest, tmp_path: Path) -> Resolver:
    if request.param is by_kernel:
        fd = os.open(tmp_path, FOLDER)
        if resolver_of(fd) is not by_kernel:
            pytest.skip("needs openat2")
        os.close(fd)
    return request.param


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A folder with something in it, and a secret beside it."""
    (tmp_path / "ws/d/e").mkdir(parents=True)
    (tmp_path / "ws/a.txt").write_bytes(b"alpha")
    (tmp_path / "ws/d/f").write_bytes(b"inside")
    (tmp_path / "ws_secret").mkdir()
    (tmp_path / "ws_secret/a").write_bytes(SECRET)
    (tmp_path / "secret.txt").write_bytes(SECRET)
    return tmp_path / "ws"


@pytest.fixture
def root(ws: Path, resolver: Resolver) -> Iterator[Root]:
    with Root(ws, resolver=resolver) as root:
        yield root


def kind_of(root: Root, path: str) -> str:
    with pytest.raises(FileProblem) as refused:
        root.read_bytes(path, 1000)
    assert SECRET.decode() not in str(refused.value) + str(refused.value.details)
    return refused.value.kind


def test_reading_what_is_there(root: Root) -> None:
    assert root.read_bytes("a.txt", 5) == b"alpha"
    assert root.read_bytes("d/f", 100) == b"inside"
    assert root.checksum("d/f") == (hashlib.sha256(b"inside").hexdigest(), 6)
    with pytest.raises(FileProblem, match="larger than 4 bytes"):
        root.read_bytes("a.txt", 4)
    assert kind_of(root, "nothing") == "not_found"
    assert kind_of(root, "no/thing") == "not_found"
    assert kind_of(root, "a.txt/b") == "type_mismatch"
    assert kind_of(root, "d") == "type_mismatch"


LINKS = [
    ("l", "../secret.txt", "l"),
    ("l", "/etc/passwd", "l"),
    ("l", "a.txt", "l"),  # even one that stays inside: links are not followed
    ("l", "..", "l/secret.txt"),
    ("l", "d", "l/f"),
    ("d/l", "../../ws_secret", "d/l/a"),
    ("l", "/proc/self/root", "l/etc/passwd"),
    ("l", "l", "l"),
    ("l", "nowhere", "l"),
]


@pytest.mark.parametrize(("link", "target", "path"), LINKS, ids=[f"{link}->{target}" for link, target, _ in LINKS])
def test_S2_25_path_escape_01_links_are_never_followed(ws: Path, root: Root, link: str, target: str, path: str) -> None:
    (ws / link).symlink_to(target)
    assert kind_of(root, path) == "permission_denied"
    for write in ({}, {"replace": True}):
        with pytest.raises(FileProblem) as refused:
            write_atomic(root, path, b"x", **write)
        assert refused.value.kind == "permission_denied"


def test_path_escape_02_a_target_that_does_not_exist_yet_is_no_way_out(ws: Path, root: Root, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (ws / "d2").symlink_to(tmp_path / "elsewhere")
    for path in ("d2/new.txt", "d2/deep/new.txt"):
        with pytest.raises(FileProblem) as refused:
            write_atomic(root, path, b"x")
        assert refused.value.kind == "permission_denied"
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("path", ["../ws_secret/a", "d/../../secret.txt", "/etc/passwd", ".."])
def test_path_escape_03_and_04_no_string_is_compared(root: Root, path: str) -> None:
    assert kind_of(root, path) == "permission_denied"


def test_path_escape_11_odd_files_are_refused_at_once(ws: Path, root: Root) -> None:
    os.mkfifo(ws / "fifo1")
    with socket.socket(socket.AF_UNIX) as listener:
        folder = os.open(ws, FOLDER)
        listener.bind(f"/proc/self/fd/{folder}/socket1")  # the path of a socket is short
        os.close(folder)
        began = time.monotonic()  # a pipe nobody writes is waited for for ever
        for name in ("fifo1", "socket1", "d"):
            assert kind_of(root, name) == "type_mismatch"
            with pytest.raises(FileProblem) as refused:
                write_atomic(root, name, b"x", replace=True)
            assert refused.value.kind == "type_mismatch"
        for name in ("fifo1", "socket1"):
            with pytest.raises(FileProblem):
                root.stat(name)
        assert time.monotonic() - began < 30
    assert stat.S_ISFIFO((ws / "fifo1").stat().st_mode)


def test_a_device_is_refused(root: Root) -> None:
    with Root("/dev") as devices:
        assert kind_of(devices, "null") == "type_mismatch"


def test_stat_tells_files_folders_and_nothing(root: Root) -> None:
    assert root.stat("a.txt") == ("a.txt", "file", 5)
    assert root.stat("d/e") == ("d/e", "folder", 0)
    assert [root.stat(p) for p in ("no", "no/no", "a.txt/x")] == [None] * 3


def test_walk_is_stable_whole_and_shows_what_it_cannot_open(ws: Path, root: Root) -> None:
    (ws / "d/l").symlink_to("/etc")
    (ws / "B").write_bytes(b"12")
    os.mkfifo(ws / "d/pipe")
    (ws / ".polyloop-tmp-9-9").write_bytes(b"half")
    (ws / os.fsdecode(b"bad\xff")).touch()
    (ws / "new\nline").mkdir()
    (ws / "new\nline/x").write_bytes(b"")
    assert list(root.walk()) == [
        ("B", "file", 2), ("a.txt", "file", 5), ("bad\ufffd", "other", 0), ("d/f", "file", 6), ("d/l", "other", 0), ("d/pipe", "other", 0),
        ("new\nline", "other", 0),
    ]  # fmt: skip
    assert list(root.walk("d")) == [("d/f", "file", 6), ("d/l", "other", 0), ("d/pipe", "other", 0)]
    for path, kind in (("../ws_secret", "permission_denied"), ("d/l", "permission_denied"), ("no", "not_found"), ("a.txt", "type_mismatch")):
        with pytest.raises(FileProblem) as refused:
            list(root.walk(path))
        assert refused.value.kind == kind


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_walk_has_a_bottom_and_leaves_no_descriptor_open(ws: Path, root: Root) -> None:
    (ws / "/".join("x" * 105)).mkdir(parents=True)
    before = open_files()
    with pytest.raises(FileProblem, match="nested"):
        list(root.walk())
    walk = root.walk("d")
    next(walk)
    walk.close()  # type: ignore[attr-defined]  # a generator
    for _ in range(50):
        root.stat("d/f")
        kind_of(root, "no/thing")
        kind_of(root, "d")
    assert open_files() == before


def test_where_the_kernel_cannot_paths_are_walked(ws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(*_: object) -> int:
        raise OSError(errno.ENOSYS, "not here")

    fd = os.open(ws, FOLDER)
    assert resolver_of(fd) in (by_kernel, by_walk)
    monkeypatch.setattr("polyloop.files.resolve.by_kernel", without)
    assert resolver_of(fd) is by_walk
    monkeypatch.setattr(sys, "platform", "darwin")
    assert resolver_of(fd) is by_walk
    os.close(fd)


def test_a_root_that_is_missing_or_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    for path, kind in ((tmp_path / "no", "not_found"), (tmp_path / "f", "type_mismatch")):
        with pytest.raises(FileProblem) as refused:
            Root(path)
        assert refused.value.kind == kind
    with Root(tmp_path / "x/y", make=True) as made:
        assert list(made.walk()) == []
    made.close()


SWAPPER = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
while True:
    for _ in range(100):
        if libc.renameat2(-100, b"d", -100, b"link", 2):
            raise OSError(ctypes.get_errno(), "exchange")
"""


def test_path_escape_06_a_folder_swapped_for_a_link_wins_nothing(ws: Path, root: Root, tmp_path: Path) -> None:
    """Another process changes ws/d between a folder and a link to the outside, as fast as it can."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(SECRET)
    (ws / "link").symlink_to(outside)
    counts = {"inside": 0, "refused": 0, "written": 0, "not written": 0}
    kinds = set()
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER], cwd=ws, stdout=subprocess.PIPE)
    try:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"ready\n"
        while min(counts.values()) < (1000 if SOAK else 15) or sum(counts.values()) < 3000:
            try:
                assert root.read_bytes("d/f", 100) == b"inside"
                counts["inside"] += 1
            except FileProblem as problem:
                kinds.add(problem.kind)
                counts["refused"] += 1
            if sum(counts.values()) % 16 == 0:
                try:
                    write_atomic(root, "d/w", b"x", replace=True)
                    counts["written"] += 1
                except FileProblem as problem:
                    kinds.add(problem.kind)
                    counts["not written"] += 1
        assert swapper.poll() is None
    finally:
        swapper.kill()
        swapper.communicate()
    assert [(f.name, f.read_bytes()) for f in outside.iterdir()] == [("f", SECRET)]
    assert kinds <= {"permission_denied", "type_mismatch"}  # the latter: a link when opened, a folder when looked at
    print(counts)  # pytest -s shows how hard it was tried
