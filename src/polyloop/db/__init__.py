"""The narrow SQL door of documents, canvas, media, ledger and log. See `database`."""

from .database import Database
from .errors import Busy, Closed, CommitUnknown, ConstraintFailed, Damaged, DbError, NewerSchema
from .schema import Schema
from .tx import Row, Tx, Value

__all__ = [
    "Busy", "Closed", "CommitUnknown", "ConstraintFailed", "Damaged", "Database", "DbError", "NewerSchema", "Row", "Schema", "Tx", "Value",
]  # fmt: skip
