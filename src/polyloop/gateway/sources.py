"""Model sources by name: `script:FILE`. A source of an unknown kind is refused before a run starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from polyloop.contract.problem import problem
from polyloop.kernel.seams import Model

from . import script

#: Reads a file named in a request; raises ProblemError when it cannot.
ReadFile = Callable[[str], bytes]


def _script(rest: str, read_file: ReadFile) -> Model:
    return script.ScriptModel(script.parse(rest, read_file(rest)))


SOURCES: Final[Mapping[str, Callable[[str, ReadFile], Model]]] = {"script": _script}


def source(name: str, read_file: ReadFile) -> Model:
    """The model a request names, as `KIND:REST`. Raises ProblemError(validation)."""
    kind, _, rest = name.partition(":")
    make = SOURCES.get(kind)
    if make is None or not rest:
        known = ", ".join(f"{k}:" for k in SOURCES)
        raise problem("validation", f"no model source of this kind: {name!r}. Known: {known}", operation="run", stage="arguments")
    return make(rest, read_file)
