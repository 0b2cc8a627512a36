"""Landing a file: whole under its name, or not at all (S0.43, S0.44).

Theory of operation. The bytes go to a temporary file beside the target, made by this writer alone and locked while it
lives; they are synced, read back and compared, and checked for their format if the caller can. Only then the file gets
its name, in one step: by a rename that refuses an existing name, or one that replaces it; then the folder is synced. A
writer that dies before that step leaves the old file and a temporary one, which the next sweep removes. After that step a
failure can no longer be undone: it is commit_unknown.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Callable
from typing import BinaryIO, Final, NamedTuple, Self

from .names import TEMPORARY, FileProblem, parts_of, portable
from .resolve import publish_new
from .root import Root, regular, telling

#: What a write may take the place of: nothing, anything, or exactly the file with this sha256 (64 hex characters).
Over = str
NOTHING: Final = "nothing"
ANYTHING: Final = "anything"
_SHA256: Final = re.compile("[0-9a-f]{64}")
_numbers = itertools.count()


class Landed(NamedTuple):
    """A file that is there now. `created` False = it took the place of another."""

    path: str
    sha256: str
    bytes: int
    created: bool


class Landing:
    """One write, in two steps: entering prepares the temporary file, `publish` gives it its name. Leaving cleans up.

    `check` gets the finished temporary file, reopened, and may raise: then nothing is published. Raises FileProblem.
    """

    def __init__(self, root: Root, path: str, data: bytes, over: Over = NOTHING, check: Callable[[BinaryIO], None] | None = None) -> None:
        self.path, self.sha256, self.size = path, hashlib.sha256(data).hexdigest(), len(data)
        self.temporary = ""
        #: Whether the target did not exist when this was prepared.
        self.created = True
        self._parts = parts_of(path)
        self._root, self._data, self._over, self._check = root, data, over, check
        self._folder = self._file = -1

    def __enter__(self) -> Self:
        try:
            with telling(self.path):
                self._makeable()
                self._folder = self._root.folder(self._parts[:-1])
                old = self._old()
                self._make()
                if old is not None:
                    self.created = False
                    os.fchmod(self._file, stat.S_IMODE(old.st_mode))
                self._fill()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()

    def publish(self) -> Landed:
        """Give the file its name. Raises FileProblem: conflict if the target is not what was expected, commit_unknown after the step."""
        with telling(self.path):
            fcntl.flock(self._folder, fcntl.LOCK_EX)  # writers through here take turns between comparing and publishing
            try:
                created = self._old() is None
                self._compare()
                self._name()
            finally:
                with contextlib.suppress(OSError):  # leaving closes the folder, which lets go of it too
                    fcntl.flock(self._folder, fcntl.LOCK_UN)
        try:
            os.fsync(self._folder)
        except OSError as error:
            raise FileProblem("commit_unknown", self.path, f"it was written, but may not outlive a power cut ({error})") from error
        return Landed(self.path, self.sha256, self.size, created)

    def _makeable(self) -> None:
        """A name that another system could not keep is given to no new file; one that is there already can be written to."""
        try:
            portable(self.path)
        except FileProblem:
            if self._root.stat(self.path) is None:
                raise

    def _old(self) -> os.stat_result | None:
        old = _stat(self._parts[-1], self._folder)
        if old is not None:
            regular(old, self.path)
            if self._over == NOTHING:
                raise FileProblem("conflict", self.path, "it exists already: give its sha256 as the expected one, or say that it may be replaced")
        return old

    def _make(self) -> None:
        while not self.temporary:
            name = f"{TEMPORARY}{os.getpid()}-{next(_numbers)}"
            with contextlib.suppress(FileExistsError):  # a process of this number has left it: take the next
                fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=self._folder)
                self._file, self.temporary = fd, name  # at once: what fails from here on takes it away again
                fcntl.flock(fd, fcntl.LOCK_EX)
                if not os.fstat(fd).st_nlink:  # swept before it was locked
                    os.close(fd)
                    self._file, self.temporary = -1, ""

    def _fill(self) -> None:
        view = memoryview(self._data)
        while view:
            view = view[os.write(self._file, view) :]
        os.fsync(self._file)
        os.lseek(self._file, 0, os.SEEK_SET)
        digest = hashlib.sha256()
        while piece := os.read(self._file, 1 << 20):
            digest.update(piece)
        if digest.hexdigest() != self.sha256:
            raise FileProblem("local_io", self.path, "what was written reads back differently")
        if self._check is not None:
            with os.fdopen(os.open(self.temporary, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder), "rb") as file:
                self._check(file)

    def _compare(self) -> None:
        if self._over in (NOTHING, ANYTHING):
            return
        try:
            found: str | None = self._root.checksum(self.path)[0]
        except FileProblem as problem:
            if problem.kind != "not_found":
                raise
            found = None
        if found != self._over:
            raise FileProblem("conflict", self.path, "it is not the file that was expected", expected=self._over, found=found)

    def _name(self) -> None:
        name = self._parts[-1]
        try:
            if self._over == NOTHING:
                publish_new(self._folder, self.temporary, name)
            else:
                os.rename(self.temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError as error:
            if _stat(self.temporary, self._folder) is not None:
                raise
            raise FileProblem("commit_unknown", self.path, f"it may have been written ({error})") from error
        self.temporary = ""

    def _leave(self) -> None:
        if self.temporary:
            with contextlib.suppress(OSError):  # the next sweep will
                os.unlink(self.temporary, dir_fd=self._folder)
        for fd in (self._file, self._folder):
            if fd >= 0:
                with contextlib.suppress(OSError):  # all of it is synced, and the descriptor is let go whatever is said
                    os.close(fd)
        self._file = self._folder = -1


def has_landed(root: Root, path: str, temporary: str, sha256: str) -> bool | None:
    """Whether a landing that was cut off got its name; it never will after this. None = it cannot be told.

    Its temporary file is still there: it did not (unless it is the same file under both names). Gone: it did, if the
    target holds exactly this content. Raises FileProblem.
    """
    *folders, name = parts_of(path)
    with telling(path):
        try:
            folder = root.folder(tuple(folders), make=False)
        except OSError:  # gone, or a link by now
            return None
        try:
            os.fsync(folder)  # what is found out below stays true
            left, target = _stat(temporary, folder), _stat(name, folder)
            if left is not None:
                os.unlink(temporary, dir_fd=folder)
                return target is not None and os.path.samestat(left, target)
        finally:
            os.close(folder)
    try:
        return root.checksum(path)[0] == sha256 or None
    except FileProblem:
        return None


def _stat(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def over_of(path: str, *, if_absent: bool = False, expected_sha256: str = "", replace: bool = False) -> Over:
    """What may be replaced: nothing unless it is said. Raises FileProblem (validation) if two things are said at once."""
    if if_absent + replace + bool(expected_sha256) > 1:
        raise FileProblem("validation", path, "say one of: if absent, the expected sha256, replace")
    if expected_sha256 and not _SHA256.fullmatch(expected_sha256):
        raise FileProblem("validation", path, "a sha256 is 64 hex characters, in lower case")
    return expected_sha256 or (ANYTHING if replace else NOTHING)


def write_atomic(
    root: Root, path: str, data: bytes, *, if_absent: bool = False, expected_sha256: str = "", replace: bool = False,
    check: Callable[[BinaryIO], None] | None = None,
) -> Landed:  # fmt: skip
    """Write a whole file beneath `root`, its missing folders made. Without a word about it, nothing is ever replaced.

    Raises FileProblem: conflict (it exists, or is not the expected one), permission_denied, validation, local_io (nothing
    has changed), commit_unknown (it may have). S0.42-S0.44.
    """
    with Landing(root, path, data, over_of(path, if_absent=if_absent, expected_sha256=expected_sha256, replace=replace), check) as landing:
        return landing.publish()
