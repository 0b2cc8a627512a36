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

import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..contract.problem import problem
from ..contract.spend import micro
from .catalog import EMBEDDED, Catalog, Model


class Named(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One provider. `graph` = the workflow of a ComfyUI server, in API form."""

    channel: str
    kind: str
    url: str
    key_env: str = ""
    graph: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


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
        found = msgspec.convert(_camel(tomllib.loads(data.decode())), _File)
        for model in found.models:
            for price in model.prices:
                micro(price.credits)
    except (ValueError, msgspec.ValidationError) as error:
        raise problem("validation", f"{name}: {error}", operation="media", stage="settings") from error
    models = (*EMBEDDED, *found.models)
    selections = [str(sorted(m.selection.items())) for m in models]
    channels = [p.channel for p in found.providers]
    if len(set(selections)) < len(models) or len({*channels, "studio", "local"}) < len(channels) + 2:
        raise problem("validation", f"{name}: a model or a channel is named twice", operation="media", stage="settings")
    if strangers := {m.channel for m in found.models} - set(channels):
        raise problem("validation", f"{name}: no provider is set up for {', '.join(sorted(strangers))}", operation="media", stage="settings")
    return Settings(found.providers, Catalog(models))


#: Fields of a model as people write them in TOML, and as they are called on the wire.
_WIRE = {"logical_id": "logicalId", "default_seconds": "defaultSeconds", "prompt_chars": "promptChars", "max_width": "maxWidth",
         "max_height": "maxHeight", "max_seconds": "maxSeconds"}  # fmt: skip


def _camel(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_WIRE.get(str(name), str(name)): _camel(part) for name, part in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # whatever TOML holds
    return [_camel(part) for part in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]  # as above
