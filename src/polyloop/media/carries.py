"""What each kind of provider can carry of a wish. A model in `media.toml` that claims more is refused where it is written: what is not sent
would be approved, and paid, all the same. Seed: S1.34, S1.66.

| kind | modes | references | quality, length, sound |
|---|---|---|---|
| openai | image | images | quality |
| fal, replicate | all | all | all |
| comfyui | all | none | what its workflow has a place for |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct

from ..contract.problem import is_object
from .catalog import MODES, Model


class Carries(Struct, frozen=True):
    """`modes` it makes, kinds of `references` it takes, and whether it is told a length and to make sound."""

    modes: tuple[str, ...]
    references: tuple[str, ...]
    timed: bool = True


KINDS: Final[Mapping[str, Carries]] = {
    "openai": Carries(("image",), ("image",), timed=False), "fal": Carries(MODES, MODES), "replicate": Carries(MODES, MODES),
    "comfyui": Carries(MODES, ()),
}  # fmt: skip


def beyond(kind: str, graph: Mapping[str, Any], model: Model) -> str:
    """What of this model a provider of this kind (with this workflow) is never told; "" = it is told everything."""
    can = KINDS[kind]
    places = _texts(graph) if kind == "comfyui" else None
    needs = {
        "mode": (model.mode not in can.modes, "$prompt", True),
        "references": (any(getattr(model.references, name) for name in set(MODES) - set(can.references)), "", False),
        "seconds": (bool(model.seconds[1]) and not can.timed, "$seconds", bool(model.seconds[1])),
        "sound": (model.sound and not can.timed, "$sound", model.sound),
        "qualities": (False, "$quality", bool(model.qualities)),
        "sizes": (False, "$width", bool(model.sizes)), "sizes (height)": (False, "$height", bool(model.sizes)),
        "splits": (bool(model.splits), "", False),  # that is done on this machine
    }  # fmt: skip
    return next((name for name, (no, place, wanted) in needs.items() if no or (places is not None and wanted and place not in places)), "")


def _texts(graph: Any) -> set[str]:
    """Every text in a workflow that stands alone, as a place for what is asked does."""
    if isinstance(graph, str):
        return {graph}
    parts = graph.values() if is_object(graph) else cast("list[Any]", graph) if isinstance(graph, list) else ()
    return {text for part in parts for text in _texts(part)}
