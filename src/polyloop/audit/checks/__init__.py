"""Deterministic checks of official documents, Chinese and English.

Each rule is a function from a `Reading` of a document to findings; `RULES` is the table of them. Nothing here reads files, keeps state or
changes what it is given: the same document has the same findings in the same order.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from polyloop.audit.checks.amounts import amount_capitals, amount_consistency, number_format
from polyloop.audit.checks.dangling import references
from polyloop.audit.checks.dates import date_format, date_order, date_validity, weekday
from polyloop.audit.checks.finding import Evidence, Finding, Location, Severity
from polyloop.audit.checks.names import abbreviations, organisation_names
from polyloop.audit.checks.numbering import heading_numbering, numbering_style
from polyloop.audit.checks.parts import document_number, document_parts
from polyloop.audit.checks.passages import Reading
from polyloop.audit.checks.punctuation import paired_marks, punctuation_repeat, punctuation_width
from polyloop.audit.checks.repetition import repeated_paragraphs, repeated_words
from polyloop.audit.checks.tables import table_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polyloop.formats.blocks import Document

__all__ = ["MAX_FINDINGS_PER_RULE", "RULES", "Evidence", "Finding", "Location", "Rule", "Severity", "check"]

#: A document full of one fault is told so once, not a hundred thousand times.
MAX_FINDINGS_PER_RULE: Final = 100
#: Nor is every one of a hundred thousand sought: where so many are found, more may be there.
_MAX_COUNTED: Final = 1_000


class Rule(Struct, frozen=True):
    """A check by name. `langs`: languages whose documents it looks at."""

    name: str
    find: Callable[[Reading], Iterator[Finding]]
    langs: tuple[str, ...] = ("zh", "en")

    def check(self, document: Document) -> list[Finding]:
        """Findings of this rule alone."""
        return check(document, [self])


_FUNCTIONS: Final = (
    (document_parts, ("zh", "en")),
    (document_number, ("zh",)),
    (heading_numbering, ("zh", "en")),
    (numbering_style, ("zh", "en")),
    (date_validity, ("zh", "en")),
    (date_format, ("zh", "en")),
    (weekday, ("zh", "en")),
    (date_order, ("zh", "en")),
    (number_format, ("zh", "en")),
    (amount_capitals, ("zh",)),
    (amount_consistency, ("zh", "en")),
    (table_sums, ("zh", "en")),
    (punctuation_width, ("zh", "en")),
    (punctuation_repeat, ("zh", "en")),
    (paired_marks, ("zh", "en")),
    (abbreviations, ("zh", "en")),
    (organisation_names, ("zh",)),
    (references, ("zh", "en")),
    (repeated_words, ("zh", "en")),
    (repeated_paragraphs, ("zh", "en")),
)
RULES: Final[tuple[Rule, ...]] = tuple(Rule(function.__name__, function, langs) for function, langs in _FUNCTIONS)


def check(document: Document, rules: Iterable[Rule] = RULES) -> list[Finding]:
    """All findings of these rules, rule by rule in the order of the table, each rule's in the order it meets them."""
    reading = Reading(document)
    found: list[Finding] = []
    for rule in rules:
        if reading.lang in rule.langs:
            found += _capped(rule.find(reading))
    return found


def _capped(findings: Iterable[Finding]) -> list[Finding]:
    counted = list(islice(findings, _MAX_COUNTED))
    kept = counted[:MAX_FINDINGS_PER_RULE]
    if more := len(counted) - len(kept):
        kept.append(structs.replace(kept[-1], code="more_findings", severity="info", params={"count": str(more)}, related=()))
    return kept
