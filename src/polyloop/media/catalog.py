"""Which models there are, what each can do and what it costs; which of them fit a wish, and what exactly a choice means.

A model without a price or without a capability for what is wanted is shown as not selectable and never chosen for anybody; nothing is
guessed, joined together or made cheaper. Seed: S1.28, S1.34, S1.35, S1.45, S1.65, S1.66.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..contract.problem import FieldProblem
from ..contract.snapshot import stamp
from ..contract.spend import Quote, micro, vague
from . import limits
from .provider import Mode

MODES: Final = ("image", "video", "audio")
_SIZE: Final = re.compile(r"[1-9][0-9]{0,4}x[1-9][0-9]{0,4}")


def is_word(text: str, most: int) -> bool:
    """Whether it can name something: so many characters that can be seen, without blanks around them."""
    return 0 < len(text) <= most and text.isprintable() and text == text.strip()


class Price(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """One tier. It holds up to this size and length (0 = any); per `task`, or per `second` of the result. Raises ValueError for no amount."""

    tier: str
    credits: str
    unit: Literal["task", "second"] = "task"
    max_width: int = 0
    max_height: int = 0
    max_seconds: float = 0

    def __post_init__(self) -> None:
        micro(self.credits)
        if not is_word(self.tier, limits.LONG_ID):
            raise ValueError(f"price {self.tier[:120]!r}: its tier is no name")
        if limit := vague({"max_width": self.max_width, "max_height": self.max_height, "max_seconds": self.max_seconds}):
            raise ValueError(f"price {self.tier!r}: {limit} is no amount")


class References(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How many of each kind may be given along."""

    image: int = 0
    video: int = 0
    audio: int = 0


class Model(Struct, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """`channel` = the provider's name in the settings; either `logical_id` names it, or channel and key together. `sizes` as "WxH".

    Raises ValueError for sizes, lengths and numbers that are none.
    """

    name: str
    mode: Mode
    channel: str
    key: str
    logical_id: str = ""
    sizes: tuple[str, ...] = ()
    seconds: tuple[float, float] = (0, 0)
    default_seconds: float = 0
    sound: bool = False
    qualities: tuple[str, ...] = ()
    prompt_chars: int = limits.PROMPT
    references: References = References()
    prices: tuple[Price, ...] = ()
    synthetic: bool = False
    splits: str = ""

    def __post_init__(self) -> None:
        least, most = self.seconds
        counts = {"prompt_chars": self.prompt_chars, **{name: getattr(self.references, name) for name in MODES}}
        if wrong := next((size for size in self.sizes if not _SIZE.fullmatch(size)), ""):
            raise ValueError(f"model {self.name!r}: a size is WIDTHxHEIGHT, not {wrong!r}")
        if wrong := self._unnamed():
            raise ValueError(f"model {self.name[:120]!r}: {wrong}")
        if wrong := next((size for size in self.sizes if not _fits(size)), ""):
            raise ValueError(f"model {self.name!r}: no result may have {wrong} pixels")
        if most and not (least or self.default_seconds):
            raise ValueError(f"model {self.name!r}: its seconds begin above 0, or it has default_seconds")
        if not 0 <= least <= most <= limits.SECONDS or (self.default_seconds and not least <= self.default_seconds <= most):
            raise ValueError(f"model {self.name!r}: seconds go from the least to the most, {limits.SECONDS} at most; the default lies between")
        if not most and (wrong := next((price.tier for price in self.prices if price.unit == "second"), None)) is not None:
            raise ValueError(f"model {self.name!r}: price {wrong!r} is per second, and it has no seconds")
        most_of = {"prompt_chars": limits.PROMPT, **dict.fromkeys(MODES, limits.REFERENCES)}
        if wrong := next((name for name, most in most_of.items() if counts[name] > most), ""):
            raise ValueError(f"model {self.name!r}: {wrong} is {most_of[wrong]} at most")
        if wrong := "prompt_chars" if self.prompt_chars < 1 else vague(counts):
            raise ValueError(f"model {self.name!r}: {wrong} is no amount")

    def _unnamed(self) -> str:
        """Which of its names is none, "" = all are: what no call can say, nobody could choose."""
        named = {"name": (self.name, limits.TITLE), "channel": (self.channel, limits.LONG_ID), "key": (self.key, limits.LONG_ID)}
        named |= {"logical_id": (self.logical_id, limits.LONG_ID)} if self.logical_id else {}
        wrong = next((field for field, (text, most) in named.items() if not is_word(text, most)), "")
        wrong = wrong or ("qualities" if not all(is_word(quality, limits.QUALITY) for quality in self.qualities) else "")
        return f"its {wrong} is no name" if wrong else ""

    @property
    def selection(self) -> dict[str, str]:
        return {"logicalModelId": self.logical_id} if self.logical_id else {"channelId": self.channel, "channelModelKey": self.key}


def _fits(size: str) -> bool:
    width, height = map(int, size.split("x"))
    return max(width, height) <= limits.SIDE_PX and width * height <= limits.PIXELS


class Wish(Struct, frozen=True, kw_only=True):
    """What is asked of a model, made whole: every default stands here."""

    mode: Mode
    width: int = 0
    height: int = 0
    seconds: float = 0
    sound: bool = False
    quality: str = ""


#: Methods of taking a picture apart on this machine: chosen like models, free of charge.
_SPLITS: Final = (("colour-regions", "Regions by colour"), ("text-layer", "Text and background"), ("point-cut", "Objects around points"))
#: The studio in this package, and the methods. Credits are the unit of a person's grant.
EMBEDDED: Final[tuple[Model, ...]] = (
    Model(
        name="Studio picture", mode="image", channel="studio", key="image", logical_id="studio-image", synthetic=True, references=References(image=8),
        sizes=("1024x1024", "512x512", "1024x576", "576x1024", "1280x720", "2048x2048"),
        prices=(
            Price(tier="standard", credits="1", max_width=1024, max_height=1024), Price(tier="large", credits="4", max_width=2048, max_height=2048),
        ),
    ),
    Model(
        name="Studio clip", mode="video", channel="studio", key="video", logical_id="studio-video", synthetic=True, references=References(image=8),
        sizes=("640x360", "360x640", "1280x720"), seconds=(1, 10), default_seconds=2, sound=True,
        prices=(Price(tier="standard", credits="1", unit="second"),),
    ),
    Model(
        name="Studio sound", mode="audio", channel="studio", key="audio", logical_id="studio-audio", synthetic=True, seconds=(1, 30),
        default_seconds=4, prices=(Price(tier="standard", credits="0.5", unit="second"),),
    ),
    *(
        Model(
            name=name, mode="image", channel="local", key=key, logical_id=f"local-{key}", splits=key, references=References(image=1),
            prices=(Price(tier="local", credits="0"),),
        )
        for key, name in _SPLITS
    ),
)  # fmt: skip


class Catalog:
    """All models of a place, by their selections."""

    def __init__(self, models: Sequence[Model] = EMBEDDED, makers: Mapping[str, Mapping[str, str]] | None = None) -> None:
        """`makers` = by channel, who that is (kind, url, the hash of a workflow), as shown to whoever approves; none for what is embedded."""
        self.models, self.makers = tuple(models), dict(makers or {})
        self.hash = stamp("models", [m.selection | {"prices": [[p.tier, p.credits, p.unit] for p in m.prices]} for m in self.models])

    def chosen(self, arguments: Mapping[str, Any]) -> Model | None:
        asked = {name: arguments[name] for name in ("logicalModelId", "channelId", "channelModelKey") if name in arguments}
        return next((model for model in self.models if model.selection == asked), None)

    def candidates(self, mode: Mode, kinds: Sequence[str]) -> list[tuple[Model, str]]:
        """The models of a mode that take these references, each with why it cannot be chosen ("" = it can)."""
        fitting = [m for m in self.models if m.mode == mode and not unfit(m, kinds) and not (m.splits and not kinds)]
        return [(m, "price_missing" if not m.prices else "capability_missing" if _vague(m) else "") for m in fitting]


def _vague(model: Model) -> bool:
    """Whether its sizes or lengths are not known."""
    return not model.splits and ((model.mode != "audio" and not model.sizes) or (model.mode != "image" and not model.seconds[1]))


def unfit(model: Model, kinds: Sequence[str]) -> str:
    """The kind of reference there are too many of for this model, "" = they fit."""
    return next((kind for kind, count in Counter(kinds).items() if count > getattr(model.references, kind, 0)), "")


def wish(model: Model, arguments: Mapping[str, Any]) -> tuple[Wish, list[FieldProblem]]:
    """What the arguments mean for this model. The problems name what it cannot do; nothing is moved to the nearest it can."""
    out, problems = Wish(mode=model.mode), list[FieldProblem]()
    size, length, quality = arguments.get("size"), arguments.get("durationSeconds"), arguments.get("quality")
    if size is not None and size not in model.sizes:
        problems.append(FieldProblem("size", "unsupported", f"one of: {', '.join(model.sizes)}" if model.sizes else "this model has no sizes"))
    elif model.sizes:
        width, _, height = str(size or model.sizes[0]).partition("x")
        out = replace(out, width=int(width), height=int(height))
    if length is not None and not (model.seconds[1] and model.seconds[0] <= length <= model.seconds[1]):
        problems.append(
            FieldProblem("durationSeconds", "unsupported", f"{model.seconds[0]} to {model.seconds[1]}" if model.seconds[1] else "it has no length")
        )
    elif model.seconds[1]:
        out = replace(out, seconds=float(length or model.default_seconds or model.seconds[0]))
    if quality is not None and quality not in model.qualities:
        problems.append(FieldProblem("quality", "unsupported", f"one of: {', '.join(model.qualities)}" if model.qualities else "it has no qualities"))
    sound = arguments.get("videoGenerateAudio", model.sound)
    if sound and not model.sound:
        problems.append(FieldProblem("videoGenerateAudio", "unsupported", "this model makes no sound"))
    return replace(out, quality=quality or "", sound=bool(sound)), problems


def quoted(model: Model, asked: Wish) -> Quote | None:
    """What it costs at most: the first tier that holds. None = no price is known: a price by the second is none for what has no length."""
    for price in model.prices:
        if price.unit == "second" and not asked.seconds:
            continue
        held = ((asked.width, price.max_width), (asked.height, price.max_height), (asked.seconds, price.max_seconds))
        if any(limit and value > limit for value, limit in held):
            continue
        amount = micro(price.credits) if price.unit == "task" else -int(-micro(price.credits) * asked.seconds // 1)
        return Quote(
            amount_micro=amount, mode=asked.mode, model=named(model), tier=price.tier, seconds=asked.seconds, width=asked.width, height=asked.height
        )
    return None


def named(model: Model) -> str:
    """A model in one word, as grants name it."""
    return model.logical_id or f"{model.channel}/{model.key}"


def told(model: Model, issue: str) -> dict[str, Any]:
    """A candidate as model_list tells it."""
    tiers = [
        {"tier": p.tier, "credits": p.credits, "unit": p.unit, "maxWidth": p.max_width, "maxHeight": p.max_height, "maxSeconds": p.max_seconds}
        for p in model.prices
    ]
    return {
        "name": model.name, "mode": model.mode, "capability": {
            "sizes": list(model.sizes), "durationSeconds": list(model.seconds) if model.seconds[1] else None, "qualities": list(model.qualities),
            "generateAudio": model.sound, "promptMaxChars": model.prompt_chars, "references": {k: getattr(model.references, k) for k in MODES},
        },
        "selection": model.selection, "selectable": not issue, "synthetic": model.synthetic, "priceConfigured": bool(model.prices),
        "priceTiers": tiers, "defaults": {"size": model.sizes[0] if model.sizes else None, "durationSeconds": model.default_seconds or None},
        **({"method": model.splits} if model.splits else {}), **({"issue": issue} if issue else {}),
    }  # fmt: skip
