"""The ways a file cannot be read, each a typed problem that names the file.

`details.reason` is a closed list. What is wrong with the content of a well-typed file is `validation`; content that is not of the type
its name claims is `type_mismatch`; a library that is not installed is `capability_unavailable`.
"""

from __future__ import annotations

from typing import Final, Literal

from polyloop.contract.problem import Kind, Problem, ProblemError

Reason = Literal[
    "unknown_format", "too_large", "too_many_characters", "archive_too_large", "empty", "encrypted", "no_text", "corrupt",
    "undecidable_encoding", "library_missing", "macros", "nested_too_deep", "too_costly",
]  # fmt: skip

_KIND: Final[dict[Reason, Kind]] = {
    "unknown_format": "type_mismatch",
    "too_large": "validation",
    "too_many_characters": "validation",
    "archive_too_large": "validation",
    "empty": "validation",
    "encrypted": "validation",
    "no_text": "validation",
    "corrupt": "type_mismatch",
    "undecidable_encoding": "type_mismatch",
    "library_missing": "capability_unavailable",
    "macros": "validation",
    "nested_too_deep": "validation",
    "too_costly": "validation",
}


def unreadable(name: str, reason: Reason, message: str) -> ProblemError:
    """`raise unreadable("a.docx", "corrupt", "it is cut off")`."""
    return ProblemError(Problem(_KIND[reason], f"{name}: {message}", stage="read", details={"file": name, "reason": reason}))
