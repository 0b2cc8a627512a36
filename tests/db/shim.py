"""A disk that fails: an apsw VFS over the system's own, which lets the k-th read, write or sync go wrong.

    with FailingDisk(5, "write", "eio") as disk: ...       # `disk.at_fault` = a copy of the files as they were at that instant

Kinds: `eio` writes nothing, `torn` writes half and fails, `full` writes half and says that the disk is full. A sync that fails
has done nothing. With `ever`, all later ones fail too.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Self

import apsw


class FailingDisk(apsw.VFS):
    def __init__(self, k: int, call: str, kind: str = "eio", *, ever: bool = False, store: Path | None = None, images: Path | None = None) -> None:
        self.k, self.call, self.kind, self.ever = k, call, kind, ever
        self.store, self.images = store, images
        self.count = 0
        self.failed = 0
        self.at_fault: Path | None = None
        #: Serial numbers of the opened files that were synced, in order.
        self.synced: list[int] = []
        self.opened = 0
        super().__init__("failing-disk", "unix", makedefault=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unregister()

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)

    def due(self, call: str) -> bool:
        """Whether this call is the one to fail."""
        if call != self.call or self.k <= 0:
            return False
        self.count += 1
        if self.count != self.k and not (self.ever and self.count > self.k):
            return False
        self.failed += 1
        return True

    def photograph(self) -> None:
        """Keep the files as a crash at this instant would leave them."""
        if self.failed == 1 and self.store is not None and self.images is not None:
            self.at_fault = copy(self.store, self.images / "at-fault")


class _File(apsw.VFSFile):
    def __init__(self, disk: FailingDisk, name: Any, flags: list[int]) -> None:
        self.disk = disk
        disk.opened += 1
        self.number = disk.opened
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if not self.disk.due("write"):
            super().xWrite(data, offset)
            return
        if self.disk.kind != "eio":
            super().xWrite(data[: len(data) // 2], offset)
        self.disk.photograph()
        raise apsw.exception_for(apsw.SQLITE_FULL if self.disk.kind == "full" else apsw.SQLITE_IOERR_WRITE)

    def xRead(self, amount: int, offset: int) -> bytes:
        if self.disk.due("read"):
            raise apsw.exception_for(apsw.SQLITE_IOERR_READ)
        return super().xRead(amount, offset)

    def xSync(self, flags: int) -> None:
        self.disk.synced.append(self.number)
        if not self.disk.due("sync"):
            super().xSync(flags)
            return
        self.disk.photograph()
        raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)


def copy(store: Path, folder: Path) -> Path:
    """The store's files as a crash would leave them: the database and its log, without the index that dies with the processes."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("", "-wal"):
        source, target = Path(f"{store}{suffix}"), folder / f"{store.name}{suffix}"
        target.unlink(missing_ok=True)
        if source.exists():
            shutil.copyfile(source, target)
    return folder / store.name
