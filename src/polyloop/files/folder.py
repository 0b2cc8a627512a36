"""A folder as one caller may use it: where it is, and what in it is not the caller's. Plain data, so that work can be gone on with elsewhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from .names import FileProblem, parts_of, portable
from .root import Root

#: Names at the top that begin so belong to the product.
RESERVED: Final = ".polyloop"


class Folder(NamedTuple):
    """`read_only`: folders at the top that no write may enter; `kept_out`: paths in it that are the product's. Both casefolded."""

    path: str
    read_only: tuple[str, ...] = ()
    kept_out: tuple[str, ...] = ()

    def opened(self) -> Root:
        """Raises FileProblem."""
        return Root(self.path)

    def read(self, path: str, limit: int) -> bytes:
        """A whole regular file of at most `limit` bytes. Raises FileProblem (S0.42)."""
        self.check(path)
        with self.opened() as root:
            return root.read_bytes(path, limit)

    def check(self, path: str, *, write: bool = False) -> None:
        """Raises FileProblem: permission_denied for what leads out, is the product's, or may not be written; validation for no name."""
        parts = portable(path) if write else parts_of(path)
        folded = path.casefold()
        if folded.startswith(RESERVED) or folded in self.kept_out:
            raise FileProblem("permission_denied", path, f"the store and names that begin with {RESERVED} are the product's own")
        if write and parts[0].casefold() in self.read_only:
            raise FileProblem("permission_denied", path, "this area can be read, not written")


def folder_of(path: str, *, read_only: tuple[str, ...] = (), store: str = "") -> Folder:
    """The folder of this name, with the store file kept out should it lie inside."""
    whole = os.path.realpath(path)
    name = os.path.relpath(os.path.realpath(store), whole).casefold() if store and Path(store).exists() else ""
    beside = tuple(name + ending for ending in ("", "-wal", "-shm", "-journal")) if name else ()
    return Folder(whole, tuple(area.casefold() for area in read_only), beside)
