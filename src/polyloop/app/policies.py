"""Policy texts in a run: its tools bring them, its snapshot names them, and a resume is offered those of today.

A tool says which policy it comes under (`policy`, an attribute of its handler). The text stands in a segment of its own before
all others; id, version, language and digest stand in the assembly. A changed policy is a difference in both: drift.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final, cast

from msgspec.structs import replace

from polyloop.dialogue.policy import VERSIONS, policy
from polyloop.kernel.objects import Request, Segment
from polyloop.toolbox.registry import Tool
from polyloop.words.catalog import lang_of

from .request_file import POLICY
from .skills import refrozen

#: Before a policy's id: names of segments, keys of the assembly.
PREFIX: Final = POLICY


def policy_ids(tools: Iterable[object]) -> list[str]:
    """The policies these tools come under, each once."""
    return list(dict.fromkeys(filter(None, (cast("str", getattr(tool, "policy", "")) for tool in tools))))


def matching(names: Iterable[str], known: dict[str, Tool]) -> list[Tool]:
    """The shipped tools that a request's names and globs mean."""
    return [tool for name in names for shipped, tool in known.items() if fnmatchcase(shipped, name)]


def with_policies(request: Request, ids: Iterable[str]) -> Request:
    """The request with these policies as they are today, in its own language, and no other; the same again changes nothing."""
    lang = lang_of(request.assembly.get("lang", ""))
    texts = [policy(one, lang) for one in ids]
    before = {name for name in request.assembly if name.startswith(PREFIX)}
    own = tuple(s for s in request.segments if s.name not in before)
    assembly = {name: value for name, value in request.assembly.items() if name not in before}
    return replace(
        request,
        segments=(*(Segment(PREFIX + p.id, "system", p.text) for p in texts), *own),
        assembly=assembly | {PREFIX + p.id: p.mark for p in texts},
    )


def renewed(request: Request) -> Request:
    """A logged request as it would be made today: with the policies and skills it names, as they are now."""
    request = refrozen(request)
    named = [name.removeprefix(PREFIX) for name in request.assembly if name.startswith(PREFIX)]
    return with_policies(request, [one for one in named if one in VERSIONS]) if named else request
