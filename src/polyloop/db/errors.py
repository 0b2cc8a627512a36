"""What can go wrong at the SQL door. Unless a class says otherwise, nothing was written."""

from __future__ import annotations


class DbError(Exception):
    """The database could not do it: disk full, I/O error, no permission. Nothing was written."""


class Busy(DbError):
    """Another process held the write lock for longer than the busy timeout."""


class ConstraintFailed(DbError):
    """The statement would break a constraint (unique, not null, check, type)."""


class Closed(DbError):
    """The database was closed before the work could be done."""


class CommitUnknown(DbError):
    """A COMMIT failed and nothing proves that it was rolled back: it may be there. A later read on this database settles it."""


class Damaged(DbError):
    """The file is not a database, is not ours, or is damaged. It is left as it is, never replaced by an empty one."""


class NewerSchema(DbError):
    """The store was written by a later version. It is refused unchanged."""

    def __init__(self, component: str, found: int, known: int) -> None:
        super().__init__(f"the store has version {found} of {component}; this program knows version {known}")
        self.component, self.found, self.known = component, found, known
