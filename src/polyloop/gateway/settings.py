"""`gateway.toml`: per source what it can do, what it costs and what stands in for it; retry, breaker and caps for all."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from polyloop.contract.problem import problem
from polyloop.contract.spend import micro
from polyloop.kernel.records import Usage

#: Tokens a reply is taken to have at most where the request sets no limit: only for what is reserved before the call.
OUTPUT_TOKENS: Final = 4096
#: More tokens than any call has: a number above is no report and no limit.
MOST_TOKENS: Final = 1_000_000_000
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
#: At most a day. Not finite is not a time.
Seconds = Annotated[float, Meta(ge=0, le=86_400)]
#: Names providers use for a limit of the reply's tokens.
LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """Credits: `input` and `output` per million tokens, `call` per call. Whole numbers or decimal text, at most six decimals.

    What is left out costs nothing; one of them is there, so that free is always said.
    """

    input: int | str | None = None
    output: int | str | None = None
    call: int | str | None = None

    def __post_init__(self) -> None:
        given = [amount for amount in (self.input, self.output, self.call) if amount is not None]
        if not given:
            raise ValueError("a price names an amount; what is free says call = 0")
        for amount in given:
            micro(amount)

    def micro(self, said: int, made: int) -> int:
        """Micro-credits for so many tokens, rounded up. A price per million is as many micro-credits per token."""
        exact = Decimal(self.input or 0) * said + Decimal(self.output or 0) * made
        return micro(self.call or 0) + int(exact.to_integral_value(ROUND_CEILING))

    def cost(self, usage: Usage | None) -> int | None:
        """Micro-credits of a call by what was reported; None = it depends on what was not."""
        if not Decimal(self.input or 0) and not Decimal(self.output or 0):
            return micro(self.call or 0)
        if usage is None or usage.input is None or usage.output is None:
            return None
        return self.micro(usage.input, usage.output)


class SourceSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """One source. No price = not known, never free. `stream` = may be asked to answer in pieces, where somebody watches; `key_env`
    names the environment variable with its key; `then` = stand-ins in order.
    """

    tools: bool = True
    vision: bool = False
    stream: bool = True
    concurrency: Count = 64
    price: Price | None = None
    output_tokens: Count = OUTPUT_TOKENS
    key_env: str = ""
    then: tuple[str, ...] = ()


class Retry(Struct, frozen=True, forbid_unknown_fields=True):
    """`attempts` per source; a wait doubles from `first_wait_s`; the whole call ends by `deadline_s`, one attempt by `attempt_s`."""

    attempts: Count = 3
    first_wait_s: Seconds = 0.5
    longest_wait_s: Seconds = 20.0
    attempt_s: Seconds = 300.0
    deadline_s: Seconds = 600.0


class Breaking(Struct, frozen=True, forbid_unknown_fields=True):
    """A source that failed so many times in a row is left alone for `open_s`, then one call tries it."""

    failures: Count = 5
    open_s: Seconds = 30.0


class Caps(Struct, frozen=True, forbid_unknown_fields=True):
    """Credits a tenant, or one session, may ever use; None = no cap. `tenants` are exceptions by name."""

    tenant: int | str | None = None
    session: int | str | None = None
    tenants: dict[str, int | str] = field(default_factory=dict[str, int | str])

    def __post_init__(self) -> None:
        for amount in (self.tenant, self.session, *self.tenants.values()):
            if amount is not None:
                micro(amount)

    def of(self, tenant: str, session: str) -> tuple[tuple[str, int], ...]:
        """The caps that hold, as (session or "" = the whole tenant, micro-credits)."""
        whole = self.tenants.get(tenant, self.tenant)
        each = self.session if session else None
        return tuple((name, micro(amount)) for name, amount in (("", whole), (session, each)) if amount is not None)


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """The file. A source that is not named in it has the defaults."""

    sources: dict[str, SourceSettings] = field(default_factory=dict[str, SourceSettings])
    retry: Retry = Retry()
    breaker: Breaking = Breaking()
    caps: Caps = field(default_factory=Caps)

    def of(self, name: str) -> SourceSettings:
        return self.sources.get(name, _PLAIN)


_PLAIN: Final = SourceSettings()


def parse(name: str, data: bytes) -> Settings:
    """Raises ProblemError(validation) naming the file: not TOML, an unknown field, an amount that is none."""
    try:
        return msgspec.convert(tomllib.loads(data.decode()), Settings)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise problem("validation", f"{name}: {error}", operation="gateway", stage="arguments") from error


def output_limit(params: Mapping[str, object], settings: SourceSettings) -> int:
    """Tokens to reserve for the reply."""
    said = [v for k in LIMITS if isinstance(v := params.get(k), int) and not isinstance(v, bool) and 0 < v <= MOST_TOKENS]
    return max(said, default=settings.output_tokens)
