"""The files of an audit point: plan, findings, output; their schemas, and the proof of their quotes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from polyloop.audit.checks import RULES, check
from polyloop.audit.checks.finding import Evidence, Finding
from polyloop.formats.blocks import Document
from polyloop.kernel.objects import Json
from polyloop.words.findings import say_finding
from polyloop.workspace import Workspace

from .source import DOCUMENT, SOURCE_BYTES, holds, read_source

#: What is looked at together, and written into one file `findings/<group>.json`.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "structure": ("document_parts", "document_number", "heading_numbering", "numbering_style"),
    "dates": ("date_validity", "date_format", "weekday", "date_order"),
    "amounts": ("number_format", "amount_capitals", "amount_consistency", "table_sums"),
    "marks": ("punctuation_width", "punctuation_repeat", "paired_marks"),
    "wording": ("abbreviations", "organisation_names", "references", "repeated_words", "repeated_paragraphs"),
}
_TEXT: Final[dict[str, Json]] = {"type": "string", "minLength": 1}
_EVIDENCE: Final[dict[str, Json]] = {
    "type": "object", "required": ["file", "quote", "location"],
    "properties": {"file": _TEXT, "quote": _TEXT, "location": {"type": ["object", "string"]}},
}  # fmt: skip
_FINDING: Final[dict[str, Json]] = {
    "type": "object", "required": ["rule", "severity", "message", "evidence"],
    "properties": {
        "rule": _TEXT, "severity": {"enum": ["error", "warning", "info"]}, "message": _TEXT, "evidence": _EVIDENCE,
        "related": {"type": "array", "items": _EVIDENCE},
    },
}  # fmt: skip
PLAN_SCHEMA: Final[dict[str, Json]] = {
    "type": "object", "required": ["pointId", "file", "groups"],
    "properties": {
        "pointId": _TEXT, "file": _TEXT,
        "groups": {
            "type": "array", "minItems": 1,
            "items": {
                "type": "object", "required": ["name", "rules"],
                "properties": {"name": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,40}$"}, "rules": {"type": "array", "items": _TEXT}},
            },
        },
    },
}  # fmt: skip
FINDINGS_SCHEMA: Final[dict[str, Json]] = {
    "type": "object", "required": ["pointId", "group", "findings"],
    "properties": {"pointId": _TEXT, "group": _TEXT, "findings": {"type": "array", "items": _FINDING}},
}  # fmt: skip
OUTPUT_SCHEMA: Final[dict[str, Json]] = {
    "type": "object", "required": ["pointId", "file", "counts", "findings"],
    "properties": {"pointId": _TEXT, "file": _TEXT, "counts": {"type": "object"}, "findings": {"type": "array", "items": _FINDING}},
}  # fmt: skip


@lru_cache(maxsize=4)
def found(source: bytes, lang: str) -> dict[str, list[dict[str, Any]]]:
    """Findings by rule, as they stand in a findings file. Pure: the same source has the same findings."""
    document = read_source(source)
    by_rule: dict[str, list[dict[str, Any]]] = {rule.name: [] for rule in RULES}
    for finding in check(document):
        by_rule[finding.rule].append(_wire(finding, document.name, lang))
    return by_rule


def _wire(finding: Finding, file: str, lang: str) -> dict[str, Any]:
    told = {
        "rule": finding.rule,
        "severity": finding.severity,
        "message": say_finding(finding.code, finding.params, lang),
        "evidence": _evidence(finding.evidence, file),
    }
    return told | ({"related": [_evidence(e, file) for e in finding.related]} if finding.related else {})


def _evidence(evidence: Evidence, file: str) -> dict[str, Any]:
    return {"file": file, "quote": evidence.quote, "location": msgspec.to_builtins(evidence.location)}


def written(head: Mapping[str, Any], findings: Iterable[Mapping[str, Any]]) -> str:
    """A JSON object whose findings stand one on a line, so that they can be read page by page."""
    start = json.dumps(head, ensure_ascii=False)[:-1]
    return start + ', "findings": [\n' + ",\n".join(json.dumps(f, ensure_ascii=False) for f in findings) + "\n]}\n"


def counts(findings: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    told = Counter(str(f["severity"]) for f in findings)
    return {severity: told[severity] for severity in ("error", "warning", "info")}


def unproved(workspace: Workspace, outputs: Mapping[str, str]) -> list[str]:
    """Quotes of these files that do not stand in the document. A phase with one has failed (S0.1: nothing done until proved)."""
    document = read_source(workspace.read_bytes(DOCUMENT, SOURCE_BYTES))
    return [wrong for path in sorted(outputs) for wrong in _unproved(document, path, json.loads(workspace.read_bytes(path)))]


def _unproved(document: Document, path: str, value: Mapping[str, Any]) -> list[str]:
    return [
        f"{path}: {finding['rule']}: the quote does not stand in {document.name}: {evidence['quote'][:60]!r} of {evidence['file'][:60]!r}"
        for finding in cast("list[dict[str, Any]]", value["findings"])
        for evidence in (finding["evidence"], *finding.get("related", []))
        if evidence["file"] != document.name or not holds(document, evidence["quote"])
    ]
