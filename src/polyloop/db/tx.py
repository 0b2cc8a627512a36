"""What a piece of work sees of the database (`Tx`), and what a driver must offer the writer (`Session`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Protocol

#: A column value: null, integer, real, text or bytes.
Value = None | int | float | str | bytes
Row = tuple[Any, ...]
Dialect = Literal["sqlite", "postgres"]


class Tx(Protocol):
    """One transaction. Parameters are `?` in every dialect; rows are tuples. Valid only while the work runs.

    `dialect` is for what the standard does not know (searching by words); all other SQL is the same everywhere.
    """

    dialect: ClassVar[Dialect]

    def rows(self, sql: str, /, *params: Value) -> list[Row]:
        """All rows of a query (also of `... returning`)."""
        ...

    def row(self, sql: str, /, *params: Value) -> Row | None:
        """The first row, or None."""
        ...

    def run(self, sql: str, /, *params: Value) -> int:
        """Carry out a statement; the number of rows it changed."""
        ...

    def fill(self, table: str, column: str, row: int, pieces: Sequence[bytes]) -> None:
        """Put bytes, one piece after another, into a column of the row whose `id` this is. Parameters are copied, twice and more; these are not."""
        ...


class Session(Tx, Protocol):
    """One connection of a driver. Every verb raises only the errors of `db.errors`."""

    def configure(self) -> None:
        """Set the connection up for work."""
        ...

    def read_only(self) -> None:
        """From now on it cannot write."""
        ...

    def begin(self) -> None:
        """Begin a write transaction, waiting for other processes up to the busy timeout."""
        ...

    def begin_read(self) -> None:
        """Begin a read transaction: one snapshot for all that follows."""
        ...

    def commit(self) -> None:
        """Make it durable. Raises CommitUnknown unless the failure proves that nothing was committed."""
        ...

    def rollback(self) -> bool:
        """Undo the open transaction, if any; false if the connection cannot be trusted any more."""
        ...

    def savepoint(self) -> None: ...

    def undo(self) -> bool:
        """Back to the savepoint; false if the whole transaction is already lost."""
        ...

    def release(self) -> None: ...

    def bury(self) -> None:
        """Write once, durably, over whatever a failed COMMIT left behind, so that it can never come back."""
        ...

    @property
    def full(self) -> bool:
        """Whether it is time to `fold`."""
        ...

    def fold(self) -> None:
        """Bring what was committed to its final place, as far as nobody is in the way."""
        ...

    def script(self, sql: str) -> None:
        """Carry out several statements without parameters."""
        ...

    def tables(self) -> set[str]: ...

    def abandon(self) -> None:
        """Close without touching the file any more."""
        ...

    def close(self) -> None: ...
