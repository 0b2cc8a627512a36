"""The only door to the file system: paths confined to a folder, files that land whole or not at all.

Everything a tool, model or document names goes through a `Root`. Its faults are `FileProblem`s, whose `kind` is one of
the contract's kinds; who speaks to the outside makes a Problem of them.
"""

from .landing import Landed, write_atomic
from .names import FileProblem
from .root import Entry, Root, read_named

__all__ = ["Entry", "FileProblem", "Landed", "Root", "read_named", "write_atomic"]
