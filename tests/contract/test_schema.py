"""Closed schemas; every problem at once, by field and issue."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.contract.problem import PROBLEMS_MAX
from polyloop.contract.schema import DEPTH_MAX, Shape, closed, exactly_one, not_both, only_with, whole

ADD = {"type": "object", "required": ["type", "id"], "properties": {"type": {"const": "add"}, "id": {"type": "string"}}}
LINK = {"type": "object", "required": ["type", "from"], "properties": {"type": {"const": "link"}, "from": {"type": "string"}}}
ARGS = closed({
    "type": "object",
    "properties": {
        "offset": {"type": "integer", "minimum": 0}, "title": {"type": "string", "maxLength": 5}, "new": {"type": "string", "minLength": 0},
        "mode": {"enum": ["one", "two"]}, "code": {"type": "string", "pattern": "^[a-z]+$"}, "ratio": {"type": "number", "maximum": 1},
        "ops": {"type": "array", "maxItems": 2, "items": {"oneOf": [ADD, LINK]}},
        "ids": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "nest": {"type": "object", "properties": {"deep": {"type": "boolean"}}}, "even": {"type": "integer", "multipleOf": 2},
    },
})  # fmt: skip


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({}, []),
        ({"offset": 0, "title": "abcde", "new": "", "mode": "one", "code": "x", "ratio": 0.5, "map": {"k": "v"}, "nest": {"deep": True}}, []),
        ({"ops": [{"type": "add", "id": "n"}, {"type": "link", "from": "n"}], "ids": ["a"], "either": 3}, []),
        ({"colour": "red", "x": 1}, [("colour", "unknown_field"), ("x", "unknown_field")]),
        ({"offset": None, "title": None}, [("offset", "null"), ("title", "null")]),
        ({"title": "", "code": "", "mode": ""}, [("title", "empty"), ("code", "empty"), ("code", "empty"), ("mode", "empty")]),
        ({"mode": None}, [("mode", "null")]),
        ({"offset": "1", "nest": {"deep": 1}}, [("offset", "wrong_type"), ("nest.deep", "wrong_type")]),
        ({"offset": True}, [("offset", "wrong_type")]),
        ({"offset": 1.5}, [("offset", "wrong_type")]),
        ({"offset": -1, "ratio": 2}, [("offset", "out_of_range"), ("ratio", "out_of_range")]),
        ({"title": "abcdef"}, [("title", "length")]),
        ({"mode": "three"}, [("mode", "invalid_value")]),
        ({"even": 3}, [("even", "invalid_value")]),
        ({"code": "A"}, [("code", "format")]),
        ({"ids": ["a", "a"]}, [("ids", "duplicate")]),
        ({"map": {"k": ""}}, [("map.k", "empty")]),
        ({"nest": {"other": 1}}, [("nest.other", "unknown_field")]),
        ({"ops": [{"type": "add", "id": "a", "x": 1}, {"type": "link"}]}, [("ops[0].x", "unknown_field"), ("ops[1].from", "required")]),
        ({"ops": [{"type": "drop", "id": "a"}]}, [("ops[0].type", "invalid_value")]),
        ({"ops": [{"type": None, "id": "a"}, {"type": "", "id": "a"}]}, [("ops[0].type", "null"), ("ops[1].type", "empty")]),
        ({"ops": [{"type": "link", "id": "n"}]}, [("ops[0].from", "required"), ("ops[0].id", "unknown_field")]),
        ({"ops": [3, {}]}, [("ops[0]", "wrong_type"), ("ops[1].type", "required"), ("ops[1].id", "required")]),
        ({"ops": [{"type": "add", "id": "a"}] * 3}, [("ops", "item_count")]),
        ({"either": []}, [("either", "wrong_type")]),
        (None, [("", "null")]),
        ([], [("", "wrong_type")]),
        ("", [("", "empty")]),
        ({"title": "\ud800"}, [("", "not_json")]),
        ({1: 2}, [("", "not_json")]),
        ({"title": b"x"}, [("", "not_json")]),
        ({"title": object()}, [("", "not_json")]),
    ],
)
def test_S1_24_S1_25_all_problems_by_field_and_issue(value: Any, found: list[tuple[str, str]]) -> None:
    assert sorted((p.field, p.issue) for p in ARGS.problems(value)) == sorted(found)
    assert all(p.message for p in ARGS.problems(value))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"a": 1}, []),
        ({"b": 1, "c": 1}, [("a|b", "exactly_one"), ("b|c", "exclusive")]),
        ({"a": 1, "b": 1}, [("a|b", "exactly_one")]),
        ({"a": 1, "b": 1, "c": 1}, [("a|b", "exactly_one"), ("b|c", "exclusive")]),
        ({"a": 1, "d": 1}, [("e", "required")]),
        ({"a": 1, "d": 1, "e": 1}, []),
        ({}, [("a|b", "exactly_one")]),
    ],
)
def test_S1_28_choices_and_exclusions(value: dict[str, int], found: list[tuple[str, str]]) -> None:
    names = {name: {"type": "integer"} for name in "abcde"}
    shape = closed({"type": "object", "properties": names, "allOf": [exactly_one("a", "b"), not_both("b", "c"), only_with("d", "e")]})
    wrong = {("a|b", "exactly_one")} if value.keys() == {"b", "c"} else set()
    assert {(p.field, p.issue) for p in shape.problems(value)} | wrong == set(found)


def test_less_common_choices() -> None:
    some = Shape({"anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]})
    assert [(p.field, p.issue) for p in some.problems({})] == [("a|b+c", "required")]
    overlap = Shape({"properties": {"x": {"oneOf": [{"type": "integer"}, {"minimum": 3}]}}})
    assert [(p.field, p.issue) for p in overlap.problems({"x": 4})] == [("x", "exactly_one")]
    referred = Shape({"$defs": {"c": exactly_one("a", "b")}, "properties": {"x": {"$ref": "#/$defs/c"}}})
    assert [(p.field, p.issue) for p in referred.problems({"x": {}})] == [("x.a|b", "exactly_one")]
    refused = Shape({"properties": {"x": {"not": {"type": "integer"}}}})
    assert [(p.field, p.issue) for p in refused.problems({"x": 4})] == [("x", "exclusive")]


def test_closing_reaches_everywhere_and_refuses_the_open() -> None:
    conditional = closed({
        "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "object"}},
        "if": {"properties": {"k": {"const": "x"}}}, "then": {"required": ["v"]}, "else": {"properties": {"v": False}},
        "$defs": {"t": {"type": "object"}},
    })  # fmt: skip
    assert [(p.field, p.issue) for p in conditional.problems({"k": "x", "v": {"y": 1}})] == [("v.y", "unknown_field")]
    assert [(p.field, p.issue) for p in conditional.problems({"k": "x"})] == [("v", "required")]
    assert [(p.field, p.issue) for p in conditional.problems({"k": "y", "v": {}})] == [("v", "exclusive")]
    assert conditional.raw["$defs"]["t"]["additionalProperties"] is False
    with pytest.raises(ValueError, match="open"):
        closed({"type": "object", "properties": {"x": {"type": "object", "additionalProperties": True}}})
    assert "additionalProperties" not in ADD, "the subject's own schema is left as it was"


def test_a_flood_of_problems_is_bounded() -> None:
    assert len(ARGS.problems({f"x{n}": n for n in range(PROBLEMS_MAX * 3)})) == PROBLEMS_MAX
    assert len(ARGS.problems({"y" * 10_000: 1})[0].field) == 120
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"map": deep}
    assert [p.issue for p in ARGS.problems(deep)] in ([["not_json"]], ["not_json"])


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_checking_never_raises(value: object) -> None:
    for found in ARGS.problems(value):
        assert found.issue


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists))
def test_whole_numbers_stay_equal(value: object) -> None:
    assert whole(value) == value


def test_whole_makes_an_index_of_two_point_zero() -> None:
    made = whole({"a": [2.0, 2.5, 1e300, True, "2.0", None]})
    assert json.dumps(made) == '{"a": [2, 2.5, 1e+300, true, "2.0", null]}'


def test_the_validator_is_loaded_at_the_first_check() -> None:
    code = "import sys, polyloop.contract.operation, polyloop.contract.evidence; sys.exit('jsonschema_rs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("around", [lambda inner: {"map": inner}, lambda inner: [inner]])
def test_what_nests_too_deep_is_refused_by_name_before_anything_follows_it(around: Any) -> None:
    shape, value, refused = Shape({}), {}, [("", "too_deep")]
    for _ in range(DEPTH_MAX - 1):
        value = around(value)
    assert shape.problems(value) == []
    assert whole(value) == value
    assert [(p.field, p.issue) for p in shape.problems(around(value))] == refused
    for _ in range(500):
        value = around(value)
    assert [(p.field, p.issue) for p in shape.problems(value)] == refused
