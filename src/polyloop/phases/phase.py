"""What a phase is: an agent run with a budget, tools and prompt of its own, and the files it has to leave behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field

from ..contract.problem import problem
from ..kernel.objects import Agent, Budget, Json, Segment
from ..workspace import Workspace

if TYPE_CHECKING:
    from .flow import PhaseOutcome

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Required(Struct, frozen=True, forbid_unknown_fields=True):
    """What has to be there after an attempt, new or changed by it: a file `path`, or `min_files` files of `dir` that match `pattern`.

    `schema`: JSON Schema that each of them must satisfy. `empty`: a file without content will do.
    """

    path: str = ""
    dir: str = ""
    pattern: str = "*"
    min_files: int = 1
    schema: dict[str, Json] | None = None
    empty: bool = False


class Recovered(Struct, frozen=True):
    """What a recovery function says of itself: where the content came from, and which files it wrote."""

    source: str
    files: tuple[str, ...]


#: (workspace, outcomes of the phases before) -> the segments of the run.
Prompt = Callable[[Workspace, Sequence["PhaseOutcome"]], tuple[Segment, ...]]
#: (workspace, what was wrong) -> what it wrote, or None if it cannot help.
Recover = Callable[[Workspace, Sequence[str]], Recovered | None]
#: (workspace, sha256 by path of the required files) -> what is wrong with their content.
Check = Callable[[Workspace, Mapping[str, str]], Sequence[str]]


class Phase(Struct, frozen=True):
    """One phase. `assembly` is that of its runs (model, tools, ...). `attempts`: how often it may fail before the flow does.

    `recover`: a named function, tried only after a failure. `retry_exhausted`: budget_exhausted and stalled are retried too.
    """

    name: str
    definition: Agent
    budget: Budget
    build_prompt: Prompt
    assembly: dict[str, str]
    required: tuple[Required, ...] = ()
    attempts: int = 1
    recover: tuple[str, Recover] | None = None
    check: Check | None = None
    retry_exhausted: bool = False
    params: dict[str, Json] = field(default_factory=dict[str, Json])
    binding: dict[str, str] = field(default_factory=dict[str, str])
    result_schema: Json = None
    overflow: str = "none"


class Flow(Struct, frozen=True):
    """Phases in their order, for one tenant, in one workspace. Run ids are `flow/phase/attempt`."""

    id: str
    scope: str
    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        """Raises ProblemError (validation)."""
        names = [phase.name for phase in self.phases]
        for name in (self.id, *names):
            if not NAME.fullmatch(name):
                raise _bad(f"a flow or phase is named with up to 100 letters, digits, dots, dashes and underscores, not {name!r}")
        if not names or len(set(names)) < len(names):
            raise _bad("a flow has at least one phase, and no two of one name")
        for phase in self.phases:
            if phase.attempts < 1:
                raise _bad(f"phase {phase.name}: attempts must be at least 1")
            for r in phase.required:
                if bool(r.path) == bool(r.dir) or r.min_files < 1:
                    raise _bad(f"phase {phase.name}: a required output is a path, or a dir with pattern and min_files (at least 1)")


def text_prompt(*segments: Segment) -> Prompt:
    """A prompt that is the same whatever the workspace holds."""

    def prompt(workspace: Workspace, before: Sequence[PhaseOutcome]) -> tuple[Segment, ...]:
        return segments

    return prompt


def _bad(message: str) -> Exception:
    return problem("validation", message, operation="phases", stage="arguments")
