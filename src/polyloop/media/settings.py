"""`media.toml`: which providers there are beside the embedded one, and which models they have. No secret stands in it, only the name of
the environment variable that holds one.

    [[providers]]
    channel = "fal"
    kind = "fal"                       # openai | fal | replicate | comfyui
    url = "https://queue.fal.run"
    key_env = "FAL_KEY"

    [[models]]
    channel = "fal"
    key = "fal-ai/flux/dev"
    name = "Flux"
    mode = "image"
    prices = [{ tier = "standard", credits = "2.5" }]
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ..contract.problem import problem
from ..contract.snapshot import digest
from . import limits
from .carries import KINDS, beyond
from .catalog import EMBEDDED, Catalog, Model, is_word

#: Characters of an address.
_URL_CHARS: Final = 2_000


class Named(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One provider. `graph` = the workflow of a ComfyUI server, in API form. Raises ValueError for a kind or an address that is none."""

    channel: str
    kind: str
    url: str
    key_env: str = ""
    graph: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])

    @property
    def told(self) -> dict[str, str]:
        """Who is meant, as it is shown: another kind, address or workflow is another provider."""
        return {"kind": self.kind, "url": self.url, **({"workflow": digest(self.graph)[:16]} if self.graph else {})}

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"provider {self.channel!r}: there is no kind {self.kind!r}, but {', '.join(KINDS)}")
        for field, text in {"channel": self.channel, **({"key_env": self.key_env} if self.key_env else {})}.items():
            if not is_word(text, limits.LONG_ID) or (field == "key_env" and "=" in text):
                raise ValueError(f"provider {self.channel[:120]!r}: {field} is no name: {text[:120]!r}")
        parts = urlsplit(self.url)
        if not is_word(self.url, _URL_CHARS) or " " in self.url or not _is_host(parts.hostname or ""):
            raise ValueError(f"provider {self.channel!r}: no address of a provider: {self.url[:120]!r}")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or parts.username or parts.query or parts.fragment:
            raise ValueError(f"provider {self.channel!r}: no address of a provider: {self.url[:120]!r}")
        if (self.kind == "comfyui") != bool(self.graph):
            raise ValueError(f"provider {self.channel!r}: a comfyui server has a graph, and no other has one")
        if not _sendable(self.graph):
            raise ValueError(f"provider {self.channel!r}: its graph holds what is no JSON")


def _sendable(graph: dict[str, Any]) -> bool:
    """Whether it can be said in JSON."""
    try:
        json.dumps(graph, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _is_host(name: str) -> bool:
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    providers: tuple[Named, ...] = ()
    models: tuple[Model, ...] = ()


class Settings(Struct, frozen=True):
    """What `media.toml` says; without one, the embedded provider alone."""

    providers: tuple[Named, ...] = ()
    catalog: Catalog = Catalog()


def parse(name: str, data: bytes) -> Settings:
    """Raises ProblemError(validation) naming the file and what is wrong in it."""
    try:
        found = msgspec.convert(_wired(tomllib.loads(data.decode())), _File)
    except RecursionError as error:
        raise problem("validation", f"{name}: it is nested too deeply", operation="media", stage="settings") from error
    except (ValueError, msgspec.ValidationError) as error:
        raise problem("validation", f"{name}: {error}", operation="media", stage="settings") from error
    models = (*EMBEDDED, *found.models)
    selections = [str(sorted(m.selection.items())) for m in models]
    channels = [p.channel for p in found.providers]
    if len(set(selections)) < len(models) or len({*channels, "studio", "local"}) < len(channels) + 2:
        raise problem("validation", f"{name}: a model or a channel is named twice", operation="media", stage="settings")
    if strangers := {m.channel for m in found.models} - set(channels):
        raise problem("validation", f"{name}: no provider is set up for {', '.join(sorted(strangers))}", operation="media", stage="settings")
    named = {p.channel: p for p in found.providers}
    for model in found.models:
        if more := beyond(named[model.channel].kind, named[model.channel].graph, model):
            why = f"{name}: model {model.name!r} claims {more}, of which a provider of kind {named[model.channel].kind} is told nothing"
            raise problem("validation", why, operation="media", stage="settings", details={"model": model.name, "field": more})
    return Settings(found.providers, Catalog(models, {p.channel: p.told for p in found.providers}))


#: Fields of a model as people write them in TOML, and as they are called on the wire.
_WIRE = {"logical_id": "logicalId", "default_seconds": "defaultSeconds", "prompt_chars": "promptChars", "max_width": "maxWidth",
         "max_height": "maxHeight", "max_seconds": "maxSeconds"}  # fmt: skip


def _wired(told: dict[str, Any]) -> dict[str, Any]:
    """The names of its models only: what a provider is given (a workflow) is its own."""
    return {**told, "models": _camel(told["models"])} if "models" in told else told


def _camel(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_WIRE.get(str(name), str(name)): _camel(part) for name, part in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # whatever TOML holds
    return [_camel(part) for part in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]  # as above
