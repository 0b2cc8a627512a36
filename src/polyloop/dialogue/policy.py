"""Policy texts: the behavioural clauses of the operation contracts, as a segment of the runs whose tools they are about.

A text changes only together with its version. It grants nothing; what a tool may do is decided where it is carried out.
Seed: S0.1-S0.44 (documents), S1.1-S1.97 (canvas).
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

from msgspec import Struct

from ..contract.problem import problem
from ..words.catalog import Lang

#: id -> version of its texts.
VERSIONS: Final[dict[str, str]] = {"documents": "1", "canvas": "2"}


class Policy(Struct, frozen=True):
    """One text in one language."""

    id: str
    version: str
    lang: Lang
    text: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def mark(self) -> str:
        """What a run's snapshot keeps of it."""
        return f"{self.version} {self.lang} sha256:{self.sha256}"


@cache
def policy(policy_id: str, lang: Lang = "zh") -> Policy:
    """Raises ProblemError (not_found)."""
    if policy_id not in VERSIONS:
        known = sorted(VERSIONS)
        raise problem("not_found", f"there is no policy {policy_id!r}", operation="guide", stage="arguments", details={"known": known})
    text = (files("polyloop.dialogue") / "policies" / f"{policy_id}.{lang}.md").read_text("utf-8")
    return Policy(policy_id, VERSIONS[policy_id], lang, text)
