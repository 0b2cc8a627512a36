"""Which writes have landed, by the key of the intent: what `settle` proves with (S2.28, S0.39).

Theory of operation. Before a keyed write is published, a line `begin` is made durable: key, attempt, target, digest and
the name of the temporary file. Publishing consumes that file in one step; then a line `done` or, if nothing was published,
`void` follows. So, for a key: no line = it never came to publishing; `begin` and the temporary file still there = not
published; temporary file gone and the target holds exactly this content = it landed; anything else cannot be told. The
log lies in a hidden folder that no tool can name. Its last line may be torn by a kill: then it was never begun.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from typing import Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..files import Root, write_atomic
from . import limits

WRITES: Final = "writes.jsonl"


class Write(Struct, frozen=True):
    """One keyed write. `created` = the target did not exist when it began."""

    key: str
    attempt: int
    path: str
    sha256: str
    bytes: int
    created: bool
    temporary: str
    state: Literal["begin", "done", "void"] = "begin"


class WriteLog:
    """The log of one workspace, in its hidden folder. One holder at a time."""

    def __init__(self, root: Root, folder: str) -> None:
        self._writes: dict[str, Write] = {}
        path, whole = f"{folder}/{WRITES}", False
        if root.stat(path) is not None:
            data = root.read_bytes(path, 1 << 30)
            lines = [line for line in data.splitlines(keepends=True) if line != b"\n"]
            whole = len(lines) <= 2 * limits.LOG_KEYS and data.endswith(b"\n")
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # torn by a kill: it was never begun
                with contextlib.suppress(msgspec.DecodeError):  # left by a write that failed
                    write = msgspec.json.decode(line, type=Write)
                    self._writes.pop(write.key, None)
                    self._writes[write.key] = write
        if not whole:
            self._writes = dict(list(self._writes.items())[-limits.LOG_KEYS :])
            write_atomic(root, path, b"".join(_line(w) for w in self._writes.values()), replace=True)
        hidden = root.folder((folder,))
        try:
            self._fd = os.open(WRITES, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=hidden)
        finally:
            os.close(hidden)

    def of(self, key: str) -> Write | None:
        """The last word on this key."""
        return self._writes.get(key)

    def begun(self) -> list[Write]:
        return [w for w in self._writes.values() if w.state == "begin"]

    def begin(self, write: Write) -> None:
        """Durable when it returns. Raises OSError."""
        self._writes[write.key] = write
        self._append(write)
        os.fdatasync(self._fd)

    def close_write(self, key: str, state: Literal["done", "void"]) -> Write:
        """The end of a write that began. Not synced, and nothing may fail by it: losing this line only means asking the files again."""
        write = self._writes[key] = replace(self._writes[key], state=state)
        with contextlib.suppress(OSError):
            self._append(write)
        return write

    def close(self) -> None:
        os.close(self._fd)

    def _append(self, write: Write) -> None:
        line = _line(write)
        if os.write(self._fd, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _line(write: Write) -> bytes:
    """Begins with a newline too: what a failed write may have left before it stays a line of its own."""
    return b"\n" + json.dumps(msgspec.to_builtins(write), ensure_ascii=False).encode() + b"\n"
