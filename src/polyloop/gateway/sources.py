"""Model sources by name: `script:`, `rules:`, `openai:`, `anthropic:`, `local:`. A source of an unknown kind is refused before a run starts.

Every model a request names is a `GatewayModel` over a `Gateway`, so the defences of bindings hold for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from polyloop.contract.problem import problem
from polyloop.kernel.seams import Model

from . import script
from .anthropic import Anthropic
from .bindings import GatewayModel
from .gateway import Gateway
from .local import Local
from .office import Inside, Maker, Office, Source
from .openai import OpenAI
from .rules import Program, RulesModel
from .settings import SourceSettings

#: Reads a file named in a request; raises ProblemError when it cannot.
ReadFile = Callable[[str], bytes]


def _script(rest: str, read_file: ReadFile) -> Model:
    return script.ScriptModel(script.parse(rest, read_file(rest)))


SOURCES: Final[Mapping[str, Callable[[str, ReadFile], Model]]] = {"script": _script}
#: Sources whose calls leave the process.
REMOTE: Final[Mapping[str, Maker]] = {"openai": OpenAI, "anthropic": Anthropic}


class NamedModel(GatewayModel):
    """A model that a request names. Its gateway is ours; one that a caller has put together stays as it is."""

    gateway: Gateway


def _no_key(_: str) -> str:
    """Before there is an office no call is made: the source is only checked."""
    return ""


def source(name: str, read_file: ReadFile, programs: Mapping[str, Program] = MappingProxyType({})) -> Model:
    """The model a request names, as `KIND:REST`; `programs` are those that `rules:` can name. Raises ProblemError(validation)."""
    return NamedModel(Gateway([_source(name, read_file, programs)]), name)


def _source(name: str, read_file: ReadFile, programs: Mapping[str, Program]) -> Source:
    kind, _, rest = name.partition(":")
    if kind == "rules" and rest in programs:
        return Inside(name, RulesModel(name, programs[rest]))
    if kind in REMOTE and rest:
        return REMOTE[kind](name, SourceSettings(), _no_key)
    if kind == "local":
        return Local(name)
    make = SOURCES.get(kind)
    if make is None or not rest:
        known = ", ".join([*(f"{k}:" for k in (*SOURCES, *REMOTE, "local")), *(f"rules:{program}" for program in programs)])
        raise problem("validation", f"no model source of this kind: {name!r}. Known: {known}", operation="run", stage="arguments")
    return Inside(name, make(rest, read_file))


def seated(model: Model, office: Office) -> Model:
    """A named model in the office of its run: with its settings and key there, and followed by its stand-ins."""
    if not isinstance(model, NamedModel):
        return model
    chain = [s for source in model.gateway.sources for s in _settled(source, office)]
    return NamedModel(Gateway(chain, office), model.model)


def _settled(source: Source, office: Office) -> list[Source]:
    return [_remote(name, office) for name in (source.name, *office.settings.of(source.name).then)] if source.metered else [source]


def _remote(name: str, office: Office) -> Source:
    """Raises ProblemError(validation): a stand-in is a source outside this process."""
    kind, _, rest = name.partition(":")
    if kind not in REMOTE or not rest:
        raise problem("validation", f"{name!r} cannot stand in: it is no source of kind {', '.join(REMOTE)}", operation="gateway", stage="open")
    return REMOTE[kind](name, office.settings.of(name), lambda url: office.key(name, url))
