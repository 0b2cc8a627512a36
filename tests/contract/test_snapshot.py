"""Typed states and what a stale write is told."""

from __future__ import annotations

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.contract.snapshot import changes, digest, kind_of, require_current, stamp, wrong_kind


def test_a_digest_does_not_depend_on_order_and_depends_on_all_else() -> None:
    assert digest({"a": 1, "b": [1, "\u4e2d"]}) == digest({"b": [1, "\u4e2d"], "a": 1})
    assert len({digest(v) for v in ({}, [], None, "", 0, False, {"a": None}, {"a": ""}, [[]], 1, "1")}) == 11


def test_hashes_are_typed() -> None:
    assert stamp("content", {"a": 1}).startswith("content:")
    assert kind_of(stamp("media", 1)) == "media"
    assert kind_of(7) == "revision"


def test_S1_87_a_stale_write_says_what_changed() -> None:
    require_current("expectedRevision", None, 5, {})
    require_current("expectedRevision", 5, 5, {})
    with pytest.raises(ProblemError) as error:
        require_current("expectedRevision", 4, 5, {"updated": ["b1"]})
    stale = error.value.problem
    assert (stale.kind, stale.stage, stale.exit_code, stale.execution_started) == ("revision_conflict", "precondition", 7, False)
    assert stale.details == {"field": "expectedRevision", "expected": 4, "current": 5, "changed": {"updated": ["b1"]}}


@pytest.mark.parametrize(
    ("expected", "current", "wrong"),
    [
        ("media:1", "content:1", True), ("content:0", "content:1", False), (4, "content:1", True), ("content:1", 4, True), (4, 5, False),
        (None, 5, False), (5, None, False), ("free text", "content:1", True),
    ],
)  # fmt: skip
def test_a_hash_of_another_kind_is_a_mistake_and_not_stale(expected: str | int | None, current: str | int | None, wrong: bool) -> None:
    assert [p.issue for p in wrong_kind("snapshotHash", expected, current)] == ["wrong_kind"] * wrong


def test_what_changed() -> None:
    before, after = {"a": "1", "b": "1", "c": "1"}, {"b": "2", "c": "1", "d": "1"}
    assert changes(before, after) == {"added": ["d"], "updated": ["b"], "removed": ["a"]}
    assert changes(before, before) == {"added": [], "updated": [], "removed": []}
