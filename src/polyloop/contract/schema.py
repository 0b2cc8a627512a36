"""Closed schemas, and all problems of a value at once, each with its field and the name of the issue.

Leaf schemas are plain JSON Schema (2020-12). `closed` shuts them: no undeclared fields, and no "" where a text is
declared, unless the schema says so itself; null fits no type, so neither can stand for "absent". Nothing is coerced.
The validator is loaded at the first check. Seed: S0.1, S1.24, S1.25, S1.28, S1.29, S1.88.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from .problem import PROBLEMS_MAX, FieldProblem, is_object

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

TEXT_CHARS_MAX: Final = 120
#: Lists and objects in one another; more than this no reader of ours follows.
DEPTH_MAX: Final = 256
#: Integers up to here survive a double.
EXACT_MAX: Final = 2**53

#: Issue names by schema keyword; keywords not named: `invalid_value`. More issues: null, empty, not_json, and those of rules.
ISSUES: Final[dict[str, str]] = {
    "required": "required", "dependentRequired": "required", "additionalProperties": "unknown_field", "type": "wrong_type",
    "minimum": "out_of_range", "maximum": "out_of_range", "exclusiveMinimum": "out_of_range", "exclusiveMaximum": "out_of_range",
    "minLength": "length", "maxLength": "length", "pattern": "format", "format": "format", "minItems": "item_count",
    "maxItems": "item_count", "uniqueItems": "duplicate", "oneOf": "exactly_one", "not": "exclusive", "falseSchema": "exclusive",
}  # fmt: skip


def exactly_one(*names: str) -> dict[str, Any]:
    """A schema fragment: one of these fields, and only one."""
    return {"oneOf": [{"required": [name]} for name in names]}


def not_both(*names: str) -> dict[str, Any]:
    """A schema fragment: these fields exclude one another."""
    return {"allOf": [{"not": {"required": list(pair)}} for pair in itertools.combinations(names, 2)]}


def only_with(name: str, *others: str) -> dict[str, Any]:
    """A schema fragment: `name` may only stand where `others` stand."""
    return {"dependentRequired": {name: list(others)}}


class Shape:
    """A schema ready to check values. `raw` is the schema itself, for models, tools and documentation."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self._validator: Validator | None = None

    def problems(self, value: object) -> list[FieldProblem]:
        """All problems (at most PROBLEMS_MAX), empty = valid. Never raises, whatever `value` is."""
        if self._validator is None:
            import jsonschema_rs

            self._validator = jsonschema_rs.Draft202012Validator(self.raw)
        try:
            msgspec.json.encode(value)
            if _deeper(value, DEPTH_MAX):
                return [FieldProblem("", "too_deep", f"at most {DEPTH_MAX} lists and objects in one another")]
            every = (p for e in self._validator.iter_errors(value) for p in _read(e, self.raw))
            found = list(dict.fromkeys(itertools.islice(every, PROBLEMS_MAX)))
        except (ValueError, TypeError, RecursionError) as error:  # odd types or keys, lone surrogates, too deep
            return [FieldProblem("", "not_json", str(error)[:TEXT_CHARS_MAX])]
        wrong = [p for p in found if not p.field and p.issue in ("null", "wrong_type")]
        return wrong or found


def _deeper(value: object, limit: int) -> bool:
    """Do more than `limit` lists and objects stand in one another? Level by level, so no depth is too much to ask about."""
    level = [value]
    for _ in range(limit + 1):
        nested: list[Any] = [part for part in level if isinstance(part, dict | list)]
        if not nested:
            return False
        level = [inner for part in nested for inner in (part.values() if is_object(part) else part)]
    return True


def whole(value: Any) -> Any:
    """Plain data with 2.0 written as 2: to JSON they are one number, to an index they are not."""
    if is_object(value):
        return {name: whole(part) for name, part in value.items()}
    if isinstance(value, list):
        return [whole(part) for part in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_MAX else value


def closed(raw: dict[str, Any]) -> Shape:
    """A shape for arguments. Raises ValueError for an object that is declared open."""
    return Shape(_shut(raw))


def _shut(schema: Any) -> Any:
    if not is_object(schema):
        return schema  # true, false
    shut = dict(schema)
    for keyword in ("properties", "$defs"):
        if keyword in shut:
            shut[keyword] = {name: _shut(part) for name, part in shut[keyword].items()}
    for keyword in ("oneOf", "anyOf", "allOf"):
        if keyword in shut:
            shut[keyword] = [_shut(part) for part in shut[keyword]]
    for keyword in ("items", "additionalProperties", "then", "else"):
        if keyword in shut:
            shut[keyword] = _shut(shut[keyword])
    if shut.get("type") == "object":
        shut.setdefault("properties", {})  # without it the validator cannot name what is not declared
        if shut.setdefault("additionalProperties", False) is True:
            raise ValueError("an arguments schema may not be open")
    if shut.get("type") == "string" and not {"enum", "const"} & shut.keys():
        shut.setdefault("minLength", 1)
    return shut


def _read(error: ValidationError, raw: dict[str, Any]) -> Iterator[FieldProblem]:
    """One schema error in our words; a choice is read as the branch that was meant."""
    kind, path = error.kind.name, list(error.instance_path)
    facts = error.kind.as_dict()
    issue = ISSUES.get(kind, "invalid_value")
    match kind:
        case "required":
            yield FieldProblem(_field([*path, facts["property"]]), issue, "required")
        case "additionalProperties":
            yield from (FieldProblem(_field([*path, name]), issue, "not declared") for name in facts["unexpected"])
        case "oneOf" | "anyOf":
            yield from _choice(error, raw)
        case "not":
            names = facts["schema"].get("required", [])
            yield FieldProblem(_field([*path, "|".join(names)]) if names else _field(path), issue, "may not stand together")
        case "falseSchema":
            yield FieldProblem(_field(path), issue, "may not stand here")
        case _:
            yield FieldProblem(_field(path), _absent(error) or issue, error.message[:TEXT_CHARS_MAX])


def _choice(error: ValidationError, raw: dict[str, Any]) -> Iterator[FieldProblem]:
    branches: Any = raw
    for part in error.schema_path:
        branches = branches[part]
    path, issue = list(error.instance_path), "exactly_one" if error.kind.name == "oneOf" else "required"
    if all(branch.keys() == {"required"} for branch in branches):
        names = "|".join("+".join(branch["required"]) for branch in branches)
        yield FieldProblem(_field([*path, names]), issue, "one of them must stand")
        return
    context = cast("list[list[ValidationError]]", error.kind.as_dict()["context"])
    marks = [next((e for e in errors if e.kind.name == "const"), None) for errors in context]
    meant = [errors for errors, mark in zip(context, marks, strict=True) if errors and not mark]
    if meant:
        for inner in min(meant, key=len):
            yield from _read(inner, raw)
    elif first := next(filter(None, marks), None):
        names = ", ".join(str(mark.kind.as_dict()["expected_value"]) for mark in marks if mark)
        yield FieldProblem(_field(first.instance_path), _absent(first) or "invalid_value", f"one of: {names}")
    else:
        yield FieldProblem(_field(path), issue, "fits more than one of the forms")


def _absent(error: ValidationError) -> str | None:
    """The issue of a value that someone meant as "nothing"."""
    return {None: "null", "": "empty"}.get(error.instance) if isinstance(error.instance, str | None) else None


def _field(path: Iterable[str | int]) -> str:
    """`ops[1].patch`"""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")[:TEXT_CHARS_MAX]


def published(wire: type[Any]) -> bytes:
    """The JSON Schema of a wire type, byte for byte the same at every call."""
    return (json.dumps(msgspec.json.schema(wire), indent=2, sort_keys=True) + "\n").encode()
