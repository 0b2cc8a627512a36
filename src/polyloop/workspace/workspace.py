"""The workspace port: six operations on relative paths, held by one run at a time (S2.5, S2.25).

Theory of operation. The folder is opened beneath a descriptor that nothing leads out of (`files.Root`). Its first use
takes a lock that only one open workspace can have, finishes what a dead holder's write log leaves open, and sweeps its
half-written files; `hold` does so at once. Names that begin with `.polyloop` belong to the product and do not exist for a
run. All operations block; those that can take long call `stop`, which may raise. Errors are ProblemErrors.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Collection, Generator, Iterator
from typing import BinaryIO, Final

from msgspec import Struct

from .. import ids
from ..contract.problem import Problem, ProblemError, problem
from ..files import Entry, FileProblem, Landed, Root, write_atomic
from ..files.landing import Landing, has_landed, over_of
from ..files.names import parts_of
from ..files.resolve import Resolver
from ..files.root import telling
from ..kernel.seams import NotStarted, Unknown
from . import limits
from .globs import matches
from .listing import Page, page
from .reading import Hits, Lines, read_lines, search
from .writelog import Write, WriteLog

RESERVED: Final = ".polyloop"
HIDDEN: Final = ".polyloop-workspace"
Stop = Callable[[], None]


class Receipt(Struct, frozen=True):
    """A file that was written: whole, synced and read back. `created` False = it took the place of another."""

    path: str
    sha256: str
    bytes: int
    created: bool


class _Held(Struct, frozen=True):
    """What a workspace has while it is held."""

    root: Root
    log: WriteLog
    secret: bytes


def _go_on() -> None:
    pass


class Workspace:
    """The workspace in `folder`, made if missing. Nothing is touched before the first operation, or `hold`."""

    def __init__(
        self, folder: str | os.PathLike[str], *, resolver: Resolver | None = None, read_only: Collection[str] = (),
        answer_bytes: int = limits.ANSWER_BYTES,
    ) -> None:  # fmt: skip
        """`read_only`: folders at the top that no write may enter. `answer_bytes`: what the lines of one read may come to."""
        self.folder = os.fspath(folder)
        self.answer_bytes = answer_bytes
        self.read_only = frozenset(name.casefold() for name in read_only)
        self._resolver = resolver
        self._held: _Held | None = None
        #: Writers of this process take turns; it also guards `_held`.
        self._turn = threading.RLock()
        self._fenced: dict[str, int] = {}
        self._let_go: Callable[[], object] = _go_on
        #: Paths in the folder, casefolded, that are the product's.
        self._ours: frozenset[str] = frozenset()

    def keep_out(self, file: str | os.PathLike[str]) -> None:
        """Let a file that the product itself writes, should it lie in the folder, not exist for a run: it would lose its own log."""
        name = os.path.relpath(os.path.realpath(file), os.path.realpath(self.folder)).casefold()
        self._ours |= {name + beside for beside in ("", "-wal", "-shm", "-journal")}

    def hold(self) -> None:
        """Take the workspace. Raises ProblemError owned_elsewhere while another run has it."""
        self._hold()

    def close(self) -> None:
        """Let it go. No operation may be in progress."""
        with self._turn:
            self._held = None
            self._let_go()

    # --- the six operations --------------------------------------------------------------------------------------

    def read_lines(self, path: str, start: int = 1, count: int = limits.LINES_DEFAULT, stop: Stop = _go_on) -> Lines:
        """Lines `start` (from 1) and following, at most `count`. Fewer come back when they would not fit an answer."""
        _within("start", start, 1, 1 << 53)
        _within("count", count, 1, limits.LINES_MAX)
        with self._telling(path) as root, root.open(path) as file:
            return read_lines(path, file, start, count, stop, self.answer_bytes)

    def read_bytes(self, path: str, limit: int = limits.TEXT_BYTES) -> bytes:
        """The whole file. Raises ProblemError, validation if it has more than `limit` bytes."""
        with self._telling(path) as root:
            return root.read_bytes(path, limit)

    def write_atomic(
        self, path: str, data: bytes, *, if_absent: bool = False, expected_sha256: str = "", replace: bool = False, key: str = "", attempt: int = 1
    ) -> Receipt:
        """Write a whole file; missing folders are made. Without a word about it, nothing is replaced (S0.43, S0.44).

        `key`: the write can be settled by it, and the same key with the same content is answered from the log, not written
        again. Raises ProblemError: conflict, permission_denied, validation, local_io (nothing changed), commit_unknown.
        """
        with self._telling(path) as root:
            if parts_of(path)[0].casefold() in self.read_only:
                raise FileProblem("permission_denied", path, "this area can be read, not written")
            over = over_of(path, if_absent=if_absent, expected_sha256=expected_sha256, replace=replace)
            _within("bytes", len(data), 0, limits.TEXT_BYTES)
            if key and (known := self._known(key, path, hashlib.sha256(data).hexdigest())):
                return known
            with Landing(root, path, data, over) as landing, self._turn:
                return Receipt(*(self._publish(landing, key, attempt) if key else landing.publish()))

    def grep(self, pattern: str, under: str = "", limit: int = limits.HITS_DEFAULT, stop: Stop = _go_on) -> Hits:
        """Lines that match the regular expression, in the files under a folder (or one file), in the order of a list."""
        _within("limit", limit, 1, limits.HITS_MAX)
        _within("pattern", len(pattern), 1, limits.PATTERN_CHARS)
        with self._telling(under) as root:
            return search(pattern, self._opened(root, under), limit, stop)

    def list(self, glob: str = "", continuation: str | None = None, stop: Stop = _go_on) -> Page:
        """Files whose path matches the glob, in a stable order, by pages. Links and special files are only counted."""
        _within("glob", len(glob), 0, limits.PATTERN_CHARS)
        found: list[Entry] = []
        others = 0
        with self._telling("") as root:
            for number, entry in enumerate(self._visible(root.walk())):
                if number % 200 == 0:
                    stop()
                if entry.kind != "file":
                    others += 1
                elif matches(glob, entry.path):
                    found.append(entry)
        return page(glob, found, others, continuation, self._hold().secret)

    def exists(self, path: str) -> Entry | None:
        """The file or folder, or None. Raises ProblemError for a link, a special file and a path that leads out."""
        with self._telling(path) as root:
            return root.stat(path)

    def checksum(self, path: str, stop: Stop = _go_on) -> tuple[str, int]:
        """sha256 (hex) and size of a file."""
        with self._telling(path) as root:
            return root.checksum(path, stop)

    def set_aside(self, path: str, sha256: str, target: str) -> bool:
        """Move a file that still has this sha256 to `target`; False if it is gone or another by now. Raises ProblemError (conflict)."""
        with self._problems(), self._turn:
            root = self._hold().root
            found = root.stat(path)
            if found is None or found.kind != "file" or root.checksum(path)[0] != sha256:
                return False
            root.move(path, target)
            return True

    # --- what became of a write ----------------------------------------------------------------------------------

    def settle(self, key: str, attempt: int = 1, *, fence: bool = False) -> Receipt | NotStarted | Unknown:
        """What became of the write with this key; see `writelog`. `fence`: and this attempt can land no more."""
        with self._telling("") as root, self._turn:
            held = self._hold()
            if fence:
                self._fenced[key] = max(attempt, self._fenced.get(key, 0))
            write = held.log.of(key)
            if write is not None and write.state == "begin":
                write = _concluded(root, held.log, write)
                if write is None:
                    return Unknown()
            if write is None or write.state == "void":
                return NotStarted()
            return Receipt(write.path, write.sha256, write.bytes, write.created)

    def _known(self, key: str, path: str, sha256: str) -> Receipt | None:
        write = self._hold().log.of(key)
        if write is None or write.state == "void":
            return None
        if (write.path, write.sha256) != (path, sha256):
            raise problem("validation", "this key belongs to another write", details={"path": path})
        settled = self.settle(key)
        if isinstance(settled, Unknown):
            raise problem("commit_unknown", f"{path!r}: an earlier write with this key may have landed", execution_started=None)
        return settled if isinstance(settled, Receipt) else None

    def _publish(self, landing: Landing, key: str, attempt: int) -> Landed:
        if attempt <= self._fenced.get(key, 0):
            raise problem("conflict", f"{landing.path!r}: this write was called off")
        log = self._hold().log
        try:
            with telling(landing.path):
                log.begin(Write(key, attempt, landing.path, landing.sha256, landing.size, landing.created, landing.temporary))
            landed = landing.publish()
        except FileProblem as failed:
            if failed.started is False:
                log.close_write(key, "void")
            raise
        log.close_write(key, "done")
        return landed

    # --- holding -------------------------------------------------------------------------------------------------

    def _hold(self) -> _Held:
        if self._held is not None:
            return self._held
        with self._turn:
            if self._held is None:
                with contextlib.ExitStack() as undo, self._problems():
                    root = Root(self.folder, make=True, resolver=self._resolver)
                    undo.callback(root.close)
                    lock = _locked(root)
                    undo.callback(os.close, lock)
                    log = WriteLog(root, HIDDEN)
                    undo.callback(log.close)
                    for write in log.begun():
                        _concluded(root, log, write)  # before the sweep takes away what it is told by
                    root.sweep()
                    self._held = _Held(root, log, _secret(root))
                    # Also when it is forgotten: a lock that nobody can give back would shut the next run out.
                    self._let_go = weakref.finalize(self, undo.pop_all().close)
            return self._held

    @contextlib.contextmanager
    def _telling(self, path: str) -> Generator[Root]:
        """The root, for an operation on `path`; its problems become the contract's. Reserved names are refused."""
        with self._problems():
            if path and self._is_ours("/".join(parts_of(path))):
                raise FileProblem("permission_denied", path, f"the log and names that begin with {RESERVED} are not part of the workspace")
            yield self._hold().root

    def _is_ours(self, path: str) -> bool:
        folded = path.casefold()
        return folded.startswith(RESERVED) or folded in self._ours

    def _visible(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        return (e for e in entries if not self._is_ours(e.path))

    @contextlib.contextmanager
    def _problems(self) -> Generator[None]:
        try:
            yield
        except FileProblem as p:
            raise ProblemError(Problem(p.kind, p.message, operation="workspace", execution_started=p.started, details=p.details)) from p

    def _opened(self, root: Root, under: str) -> Iterator[tuple[str, BinaryIO | None]]:
        there = root.stat(under) if under else None
        if there is not None and there.kind == "file":
            yield under, root.open(under)
            return
        for entry in self._visible(root.walk(under)):
            if entry.kind == "file":
                try:
                    file = root.open(entry.path)
                except FileProblem as problem:
                    file = None
                    if problem.kind == "not_found":  # gone since the folder was read
                        continue
                yield entry.path, file


def _within(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        wrong = f"must be from {least} to {most}"
        raise problem("validation", f"{name} {wrong}", operation="workspace", details={"problems": [{"path": name, "issue": wrong}]})


def _concluded(root: Root, log: WriteLog, write: Write) -> Write | None:
    """Find out from the files how a write that began has ended, and log it. None = it cannot be told."""
    landed = has_landed(root, write.path, write.temporary, write.sha256)
    return None if landed is None else log.close_write(write.key, "done" if landed else "void")


def _locked(root: Root) -> int:
    """A descriptor that holds the lock while it is open. Raises ProblemError (owned_elsewhere) if another has it."""
    with telling(HIDDEN):
        hidden = root.folder((HIDDEN,))
        try:
            fd = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=hidden)
        finally:
            os.close(hidden)
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as taken:
                holder = os.read(fd, 20).decode(errors="replace")
                raise problem("owned_elsewhere", f"another run has this workspace (process {holder})", operation="workspace") from taken
            os.ftruncate(fd, 0)
            os.write(fd, str(os.getpid()).encode())
            undo.pop_all()
    return fd


def _secret(root: Root) -> bytes:
    path = f"{HIDDEN}/secret"
    if root.stat(path) is None:
        write_atomic(root, path, ids.salt().encode())
    return root.read_bytes(path, 100)
