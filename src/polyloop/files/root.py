"""A folder that nothing leads out of.

Theory of operation. A Root holds a descriptor of the folder. Every path is taken apart lexically, then opened beneath
that descriptor by a resolver that follows no link; whatever is done afterwards is done to the descriptor that was opened,
never to the name again. Only regular files are read or written: a fifo or device is refused without waiting for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

from .names import TEMPORARY, FileProblem, file_problem, parts_of
from .resolve import FOLDER, Resolver, rename_new, resolver_of

#: Folders inside folders that a walk follows.
DEPTH = 100


class Entry(NamedTuple):
    """Something in the folder. `kind` "other" = a link, a special file, or a name nobody can say: shown, never opened."""

    path: str
    kind: str
    bytes: int = 0


class _Found(NamedTuple):
    folder: int
    name: str
    entry: Entry


class Root:
    """A folder, opened. Close it, or use it in a `with`."""

    def __init__(self, folder: str | os.PathLike[str], *, make: bool = False, resolver: Resolver | None = None) -> None:
        """`make`: the folder is made if it is missing. Raises FileProblem."""
        try:
            if make:
                Path(folder).mkdir(parents=True, exist_ok=True)
            self.fd = os.open(folder, FOLDER | os.O_CLOEXEC)
        except OSError as error:
            raise file_problem(error, os.fspath(folder)) from error
        self._resolve = resolver or resolver_of(self.fd)

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):  # nothing was written through it
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, path: str) -> BinaryIO:
        """A regular file, for reading. Raises FileProblem."""
        parts = parts_of(path)
        with telling(path):
            fd = self._resolve(self.fd, parts, os.O_RDONLY | os.O_NONBLOCK)
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return os.fdopen(fd, "rb")
            os.close(fd)
        raise FileProblem("type_mismatch", path, "it is not a regular file")

    def read_bytes(self, path: str, limit: int) -> bytes:
        """The whole file. Raises FileProblem, validation if it has more than `limit` bytes."""
        with self.open(path) as file, telling(path):
            data = file.read(limit + 1)
        if len(data) > limit:
            raise FileProblem("validation", path, f"it is larger than {limit} bytes", limit=limit)
        return data

    def checksum(self, path: str, stop: Callable[[], None] = lambda: None) -> tuple[str, int]:
        """sha256 (hex) and number of bytes. `stop` is called between pieces and may raise. Raises FileProblem."""
        digest, size = hashlib.sha256(), 0
        with self.open(path) as file, telling(path):
            while piece := file.read(1 << 20):
                digest.update(piece)
                size += len(piece)
                stop()
        return digest.hexdigest(), size

    def stat(self, path: str) -> Entry | None:
        """The file or folder of this name, None if there is none. Raises FileProblem for a link or special file."""
        parts = parts_of(path)
        with telling(path):
            try:
                folder = self._resolve(self.fd, parts[:-1], FOLDER)
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                found = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return None
            finally:
                os.close(folder)
        if stat.S_ISDIR(found.st_mode):
            return Entry(path, "folder")
        regular(found, path)
        return Entry(path, "file", found.st_size)

    def folder(self, parts: tuple[str, ...], *, make: bool = True) -> int:
        """A descriptor of the folder, made with its parents if missing. Raises OSError."""
        try:
            return self._resolve(self.fd, parts, FOLDER)
        except FileNotFoundError:
            if not make:
                raise
        here = self._resolve(self.fd, (), FOLDER)
        try:
            for name in parts:
                with contextlib.suppress(FileExistsError):  # just as good
                    os.mkdir(name, dir_fd=here)
                    os.fsync(here)
                there = self._resolve(here, (name,), FOLDER)
                os.close(here)
                here = there
        except BaseException:
            os.close(here)
            raise
        return here

    def move(self, path: str, target: str) -> None:
        """Give a file another name beneath, in one step, its missing folders made. Raises FileProblem, conflict if that name is taken."""
        *folders, name = parts_of(path)
        *homes, new = parts_of(target)
        with telling(path), contextlib.ExitStack() as undo:
            here = self.folder(tuple(folders), make=False)
            undo.callback(os.close, here)
            there = self.folder(tuple(homes))
            undo.callback(os.close, there)
            rename_new(here, name, there, new)
            os.fsync(there)
            os.fsync(here)

    def walk(self, under: str = "") -> Iterator[Entry]:
        """Every file beneath, in a stable order (by names, folder by folder), without those being written. Raises FileProblem."""
        return (found.entry for found in self._walk(under) if not found.name.startswith(TEMPORARY))

    def sweep(self) -> int:
        """Remove what dead writers have left half done; returns how many. A living writer holds a lock on its file."""
        swept = 0
        with contextlib.suppress(FileProblem):  # it goes as far as it can see
            for found in self._walk(""):
                if found.entry.kind == "file" and found.name.startswith(TEMPORARY):
                    swept += _swept(found)
        return swept

    def sweep_beside(self, path: str) -> int:
        """`sweep` for the one folder a file stands in. Raises FileProblem for a path that is none."""
        with telling(path):
            try:
                folder = self._resolve(self.fd, parts_of(path)[:-1], FOLDER)
            except FileNotFoundError:
                return 0
            try:
                with os.scandir(folder) as scan:
                    names = sorted(e.name for e in scan if e.name.startswith(TEMPORARY) and e.is_file(follow_symlinks=False))
                return sum(_swept(_Found(folder, name, Entry(name, "file"))) for name in names)
            finally:
                os.close(folder)

    def _walk(self, under: str) -> Iterator[_Found]:
        parts = parts_of(under) if under else ()
        with telling(under or "."):
            here = self._resolve(self.fd, parts, FOLDER)
            try:
                yield from self._children(here, under + "/" if under else "", len(parts))
            finally:
                os.close(here)

    def _children(self, folder: int, prefix: str, depth: int) -> Iterator[_Found]:
        if depth > DEPTH:
            raise FileProblem("local_io", prefix, f"folders are nested more than {DEPTH} deep")
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda e: e.name)
        for e in entries:
            name = e.name
            path = prefix + name.encode("utf-8", "surrogateescape").decode(errors="replace")
            with contextlib.suppress(FileNotFoundError):  # gone since: then it is not there
                nameable = path == prefix + name and _nameable(name)
                if e.is_dir(follow_symlinks=False) and nameable:
                    there = self._resolve(folder, (name,), FOLDER)
                    try:
                        yield from self._children(there, path + "/", depth + 1)
                    finally:
                        os.close(there)
                elif e.is_file(follow_symlinks=False) and nameable:
                    yield _Found(folder, name, Entry(path, "file", e.stat(follow_symlinks=False).st_size))
                else:
                    yield _Found(folder, name, Entry(path, "other"))


@contextlib.contextmanager
def telling(path: str) -> Generator[None]:
    """What the system says inside is told of this path."""
    try:
        yield
    except OSError as error:
        raise file_problem(error, path) from error


def read_named(path: Path, limit: int) -> bytes:
    """The first `limit` + 1 bytes of a file that a person names; the links in its path are theirs to follow.

    Raises FileProblem; a fifo or device is refused without waiting for it.
    """

    def at_once(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)

    with telling(str(path)), open(path, "rb", opener=at_once) as file:
        regular(os.fstat(file.fileno()), str(path))
        return file.read(limit + 1)


def regular(found: os.stat_result, path: str) -> None:
    """Raises FileProblem unless it is a regular file: permission_denied for a link, type_mismatch else."""
    if stat.S_ISLNK(found.st_mode):
        raise FileProblem("permission_denied", path, "it is a link, and links are not followed")
    if not stat.S_ISREG(found.st_mode):
        raise FileProblem("type_mismatch", path, "it is a folder" if stat.S_ISDIR(found.st_mode) else "it is not a regular file")


def _nameable(name: str) -> bool:
    if name.startswith(TEMPORARY):
        return True
    try:
        return parts_of(name) == (name,)
    except FileProblem:
        return False


def _swept(found: _Found) -> bool:
    with contextlib.suppress(OSError):  # its writer is alive, or it is gone already
        fd = os.open(found.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=found.folder)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(found.name, dir_fd=found.folder)
            return True
        finally:
            os.close(fd)
    return False
