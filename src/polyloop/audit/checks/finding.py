"""What a check reports: rule, severity, a message by code with its parameters, and quoted evidence with its place."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

Severity = Literal["error", "warning", "info"]


class Location(Struct, frozen=True, omit_defaults=True):
    """Where a quote stands, counted from 1. `unit` says what `number` counts: line (of the file, or of `page`), paragraph, table, footnote.

    `block` is the place in the block tree, from 0; `row` and `column` are set inside tables.
    """

    unit: str
    number: int
    block: int
    page: int = 0
    row: int = 0
    column: int = 0


class Evidence(Struct, frozen=True):
    """`quote` is verbatim in the document's text, and in the file for md and txt."""

    quote: str
    location: Location


class Finding(Struct, frozen=True, omit_defaults=True):
    """`code` and `params` have their sentence in `words.findings`; `related` holds what the evidence contradicts, when it is elsewhere."""

    rule: str
    severity: Severity
    code: str
    evidence: Evidence
    params: dict[str, str] = field(default_factory=dict[str, str])
    related: tuple[Evidence, ...] = ()
