"""Cells generated from a published schema: every way in which arguments can be wrong, and what must be named.

`cells` changes valid examples in one place each, by what the schema says of that place. `weakened` is the schema with one
constraint left out, once for every constraint it has: a table of cells is whole when each of these lets at least one cell
through, or names something else. Nothing here knows an operation; examples that together use every field do.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

Path = tuple[str | int, ...]
#: Keywords that hold schemas and are no constraints of their own.
_HOLDERS = {"properties", "items", "then", "else", "if", "allOf", "$defs"}
#: Keywords that say something to people only, or only help to tell what is wrong.
_SILENT = {"description", "title", "default", "$schema"}
#: One value of each type, the last of them text.
_ODD: dict[str, Any] = {"boolean": True, "integer": 7, "number": 0.5, "array": [], "object": {}, "string": "odd"}


class Cell(NamedTuple):
    """Arguments with one thing wrong. `field` and `issue` are what must be named; an issue of "" = whichever fits."""

    value: Any
    field: str
    issue: str
    why: str


def named(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def changed(value: Any, path: Path, new: Any = None, *, drop: bool = False) -> Any:
    """A copy of `value` with one place changed, added, or dropped."""
    if not path:
        return new
    out = copy.deepcopy(value)
    here = out
    for part in path[:-1]:
        here = here[part]
    if drop:
        del here[path[-1]]
    else:
        here[path[-1]] = new
    return out


def _places(schema: Any, value: Any, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any], Any]]:
    """Every place of a value with the schema that speaks of it: of a choice, the branch with the same marks."""
    for branch in schema.get("oneOf", []):
        marks = {name: part["const"] for name, part in branch.get("properties", {}).items() if "const" in part}
        if marks and isinstance(value, dict) and all(value.get(name) == mark for name, mark in marks.items()):
            yield from _places(branch, value, path)
            return
    yield path, schema, value
    if isinstance(value, dict):
        for name, part in schema.get("properties", {}).items():
            if name in value and isinstance(part, dict):
                yield from _places(part, value[name], (*path, name))
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        for number, part in enumerate(value[:1]):
            yield from _places(schema["items"], part, (*path, number))


def cells(schema: dict[str, Any], examples: list[dict[str, Any]]) -> Iterator[Cell]:
    """Every cell of a schema, each once."""
    seen: set[str] = set()
    for example in examples:
        for cell in _cells(schema, example, examples):
            if (mark := repr(cell.value)) not in seen:
                seen.add(mark)
                yield cell


def _cells(schema: dict[str, Any], example: dict[str, Any], examples: list[dict[str, Any]]) -> Iterator[Cell]:
    for path, here, value in _places(schema, example):
        field = named(path)
        if path:
            yield Cell(changed(example, path, None), field, "null", "null")
            yield from (Cell(changed(example, path, odd), field, issue, "bound") for odd, issue in _beyond(here, value))
        types = here.get("type")
        if types in _ODD:
            alike = {"integer", "number"} if types == "number" else {types}
            yield from (Cell(changed(example, path, odd), field, "wrong_type", "type") for t, odd in _ODD.items() if t not in alike)
        if isinstance(value, dict):
            yield Cell(changed(example, (*path, "surplus"), 1), named((*path, "surplus")), "unknown_field", "surplus")
            for name in value:
                if name in here.get("required", ()):
                    yield Cell(changed(example, (*path, name), drop=True), named((*path, name)), "required", "missing")
                else:
                    yield Cell(changed(example, (*path, name), drop=True), named((*path, name)), "", "left out")
    for other in examples:
        for name in other.keys() - example.keys():
            yield Cell({**example, name: other[name]}, name, "", "beside")


def _beyond(here: dict[str, Any], value: Any) -> Iterator[tuple[Any, str]]:
    """Values just over each limit of this place."""
    if here.get("type") == "string" and here.get("minLength"):
        yield "", "empty"
    if "maxLength" in here:
        yield "x" * (here["maxLength"] + 1), "length"
    if "pattern" in here:
        yield "\n\0", "format"
    if "enum" in here or "const" in here:
        yield "none of these", "invalid_value"
        yield "", "empty"
        yield 7, "invalid_value"
    for name, step in (("minimum", -1), ("maximum", 1), ("exclusiveMinimum", 0), ("exclusiveMaximum", 0)):
        if name in here:
            yield here[name] + step, "out_of_range"
    if "multipleOf" in here:
        yield here["multipleOf"] / 2, "invalid_value"
    if here.get("minItems"):
        yield [], "item_count"
    if "maxItems" in here and value:
        yield [_other(value[0], n) for n in range(here["maxItems"] + 1)], "item_count"
    if here.get("uniqueItems") and value:
        yield [value[0], value[0]], "duplicate"
    if here.get("minProperties"):
        yield {}, "invalid_value"


def _other(item: Any, number: int) -> Any:
    """Another item like this one, so that a list of many says nothing about doubles."""
    return f"{item}{number}"[-80:] if isinstance(item, str) else item


def weakened(schema: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The schema without one constraint, for each it has: a keyword, or one name of a list of required names."""
    if not isinstance(schema, dict):
        return
    for keyword, part in schema.items():
        here = (*path, keyword)
        if keyword in _SILENT or (keyword == "minLength" and part == 0):
            continue
        if keyword == "required":
            for name in part:
                yield (*here, name), {**schema, keyword: [n for n in part if n != name]}
        elif keyword == "dependentRequired":
            for name in part:
                yield (*here, name), {**schema, keyword: {n: p for n, p in part.items() if n != name}}
        elif keyword == "if":
            continue  # it says when, not what
        elif keyword in _HOLDERS:
            for key, inner in part.items() if keyword in ("properties", "$defs") else enumerate(part) if isinstance(part, list) else [("", part)]:
                if inner is False:
                    yield (*here, key), {**schema, keyword: {n: p for n, p in part.items() if n != key}}
                for deep, less in weakened(inner, (*here, key) if key != "" else here):
                    yield deep, {**schema, keyword: changed(part, (key,), less) if key != "" else less}
        else:
            yield here, {name: p for name, p in schema.items() if name != keyword}
            if keyword in ("oneOf", "anyOf"):
                for number, inner in enumerate(part):
                    for deep, less in weakened(inner, (*here, number)):
                        yield deep, {**schema, keyword: changed(part, (number,), less)}
