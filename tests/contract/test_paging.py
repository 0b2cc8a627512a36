"""Listings: coverage is proved, faults are typed and keep what was read."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.contract.paging import KIND_BY_REASON, MAX_ITEMS, MAX_PAGES, Ask, Fetch, Listing, Page, Seal, walk
from polyloop.contract.problem import Problem, ProblemError, as_wire

ASK = Ask(tenant="acme", operation="list", query={"under": "c1"}, limit=2)
SEAL = Seal(b"secret", now_ms=1000, ttl_ms=500)
Answerer = Callable[[Fetch], Page | Problem]


def run(ask: Ask, answer: Answerer, seal: Seal = SEAL) -> tuple[Listing, list[Fetch]]:
    process, told, asked = walk(ask, seal), None, list[Fetch]()
    while True:
        try:
            asked.append(process.send(told))
        except StopIteration as end:
            return end.value, asked
        told = answer(asked[-1])


def serve(items: Sequence[Any], snapshot: str = "s1", *, total: int | None = -1) -> Answerer:
    """A good service: cursors are positions in one snapshot."""

    def answer(fetch: Fetch) -> Page:
        start = int(fetch.cursor or 0)
        end = start + fetch.limit
        count = len(items) if total == -1 else total
        return Page(tuple(items[start:end]), str(end) if end < len(items) else None, end < len(items), count, snapshot)

    return answer


def script(*pages: Page | Problem) -> Answerer:
    left = list(pages)
    return lambda _: left.pop(0)


def broken(ask: Ask, answer: Answerer, seal: Seal = SEAL) -> Problem:
    with pytest.raises(ProblemError) as error:
        run(ask, answer, seal)
    return error.value.problem


def test_S0_26_complete_is_a_proof() -> None:
    listing, asked = run(ASK, serve("abcde"))
    assert as_wire(listing) == {
        "contractVersion": "doc.list.v1", "status": "success", "items": list("abcde"), "count": 5, "complete": True, "hasMore": False,
        "truncated": False, "stopReason": None, "continuation": None, "covered": {"pages": 3, "items": 5},
        "requested": {"under": "c1", "limit": 2, "all": True, "maxPages": 20, "maxItems": 1000},
    }  # fmt: skip
    assert [(f.cursor, f.limit, f.snapshot) for f in asked] == [("", 2, ""), ("2", 2, "s1"), ("4", 2, "s1")]


@pytest.mark.parametrize(
    ("pages", "complete"),
    [
        ([Page(())], False),  # the service does not count
        ([Page((), total=0)], True),  # one page is one state
        ([Page(("a",), total=1)], True),
        ([Page(("a",), "c", total=2), Page(("b",), total=2)], False),  # two pages of no named state
        ([Page(("a",), "c", total=2, snapshot="s"), Page(("b",), total=2, snapshot="s")], True),
        ([Page(("a",), "c", snapshot="s"), Page(("b",), snapshot="s")], False),
    ],
)
def test_S0_26_what_is_not_proved_is_not_complete(pages: list[Page], complete: bool) -> None:
    listing, _ = run(ASK, script(*pages))
    assert (listing.complete, listing.has_more, listing.truncated) == (complete, False, False)


def test_S0_27_one_page_keeps_its_continuation_and_is_not_truncated() -> None:
    listing, asked = run(replace(ASK, all=False), serve("abc"))
    assert (listing.items, listing.has_more, listing.truncated, listing.stop_reason, listing.complete) == (("a", "b"), True, False, None, False)
    assert listing.continuation
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("bounds", "items", "stop"),
    [
        ({"max_pages": 2}, 4, "max_pages"), ({"max_items": 3}, 3, "max_items"), ({"max_items": 4}, 4, "max_items"),
        ({"max_pages": 3}, 5, None), ({"max_items": 5}, 5, None), ({"max_items": 9, "max_pages": 9}, 5, None),
    ],
)  # fmt: skip
def test_S0_28_only_bounds_truncate_and_the_rest_follows_exactly(bounds: dict[str, int], items: int, stop: str | None) -> None:
    """At, below and above a page boundary; resumed, the chain ends complete because it began at the beginning."""
    first, _ = run(replace(ASK, **bounds), serve("abcde"))
    assert (first.count, first.stop_reason, first.truncated, first.complete) == (items, stop, stop is not None, stop is None)
    if stop:
        rest, _ = run(replace(ASK, continuation=first.continuation), serve("abcde"))
        assert (*first.items, *rest.items) == tuple("abcde")
        assert (rest.complete, rest.covered.items) == (True, 5)


def test_S0_33_all_pages_by_default_within_bounds() -> None:
    assert (ASK.all, ASK.max_pages, ASK.max_items) == (True, MAX_PAGES, MAX_ITEMS) == (True, 20, 1000)


def test_a_continuation_without_its_beginning_proves_nothing() -> None:
    """The chain carries what it covered: the tail alone never counts as the whole."""
    first, _ = run(replace(ASK, max_pages=1), serve("abcde"))
    tail = broken(replace(ASK, continuation=first.continuation), serve("abcde", total=3))
    assert tail.details["reason"] == "count_mismatch"


KEYS = {"contractVersion", "status", "complete", "reason", "page", "nextCursor", "count", "items"}
BUSY = Problem("rate_limited", "busy", execution_started=False, retryable=True, retry_after_seconds=0)
LATE = Problem("invalid_response", "timed out", execution_started=None)


@pytest.mark.parametrize(
    ("name", "pages", "reason", "page", "items", "again"),
    [
        ("a page fails", [Page(("a",), "c1", snapshot="s"), LATE], "page_failed", 2, ["a"], "c1"),
        ("the first page fails", [LATE], "page_failed", 1, [], None),
        ("a page is refused", [Page(("a",), "c1"), Problem("permission_denied", "no")], "page_failed", 2, ["a"], "c1"),
        ("no cursor though there is more", [Page(("a",), None, True)], "missing_cursor", 1, ["a"], None),
        ("an empty cursor", [Page(("a",), "")], "missing_cursor", 1, ["a"], None),
        ("an empty cursor later", [Page(("a",), "c1"), Page(("b",), "", True)], "missing_cursor", 2, ["a", "b"], None),
        ("the same cursor", [Page(("a", "b"), "c1"), Page(("a", "b"), "c1")], "stalled_cursor", 2, ["a", "b"], "c1"),
        ("two cursors in turn", [Page(("a",), "c1"), Page(("b",), "c2"), Page(("a",), "c1")], "cyclic_cursor", 3, ["a", "b"], "c2"),
        ("three in turn", [Page(("a",), "1"), Page(("b",), "2"), Page(("c",), "3"), Page(("a",), "1")], "cyclic_cursor", 4, ["a", "b", "c"], "3"),
        ("another state", [Page(("a",), "c1", snapshot="s1"), Page(("b",), snapshot="s2")], "snapshot_changed", 2, ["a"], "c1"),
        ("too many", [Page(("a", "b", "c"))], "page_size_exceeded", 1, [], None),
        ("fewer than counted", [Page(("a",), total=2)], "count_mismatch", 1, ["a"], None),
        ("more than counted", [Page(("a", "b"), "c1", total=1)], "count_mismatch", 1, ["a", "b"], None),
    ],
)
def test_S0_29_a_broken_listing_is_one_typed_error(name: str, pages: list[Any], reason: str, page: int, items: list[str], again: str | None) -> None:
    told = broken(ASK, script(*pages))
    assert (told.kind, told.exit_code, told.stage, told.operation) == ("pagination", 3, "pagination", "list")
    assert told.details.keys() == KEYS
    assert told.details | {"nextCursor": None} == {
        "contractVersion": "doc.list.v1", "status": "partial_success", "complete": False, "reason": reason, "page": page,
        "nextCursor": None, "count": len(items), "items": items,
    }  # fmt: skip
    cursor = told.details["nextCursor"]
    assert (json.loads(base64.urlsafe_b64decode(cursor.split(".")[0] + "=="))["cursor"] if cursor else None) == again


def test_reading_again_is_safe_so_a_failed_page_says_when() -> None:
    told = broken(ASK, script(Page(("a",), "c1"), BUSY))
    assert (told.retryable, told.retry_after_seconds, told.execution_started) == (True, 0, False)
    rest, _ = run(replace(ASK, continuation=told.details["nextCursor"]), script(Page(("b",), total=2)))
    assert (rest.items, rest.covered.items) == (("b",), 2)


@pytest.mark.parametrize("kind", ["validation", "not_found", "permission_denied", "type_mismatch"])
def test_a_refused_first_page_is_that_refusal(kind: str) -> None:
    assert broken(ASK, script(Problem(kind, "no"))) == Problem(kind, "no")


def test_S0_31_a_timeout_is_never_truncation() -> None:
    assert "truncated" not in broken(replace(ASK, max_pages=2), script(Page(("a",), "c1"), LATE)).details


def test_an_unexpected_duplicate_is_an_error() -> None:
    ask = replace(ASK, identity="id")
    told = broken(ask, script(Page(({"id": 1}, {"id": 2}), "c1"), Page(({"id": 2},))))
    assert (told.details["reason"], told.details["count"]) == ("duplicate_item", 2)
    assert broken(ask, script(Page(({"id": 1}, {"id": 1})))).details["reason"] == "duplicate_item"
    assert run(ask, script(Page(({"id": 1}, {"id": 2}), total=2)))[0].complete


def token(**changes: Any) -> str:
    found = run(replace(ASK, max_pages=1, **changes), serve("abc"))[0].continuation
    assert found
    return found


def forge(text: str) -> str:
    body, mark = text.split(".")
    payload = json.loads(base64.urlsafe_b64decode(body + "=="))
    payload["items"] = 0
    return base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=") + "." + mark


@pytest.mark.parametrize(
    ("reason", "kind", "exit_code", "continuation", "now"),
    [
        ("tampered_cursor", "validation", 2, lambda: "bogus", 1000),
        ("tampered_cursor", "validation", 2, lambda: "\u4e2d.\u6587", 1000),
        ("tampered_cursor", "validation", 2, lambda: "a.b", 1000),
        ("tampered_cursor", "validation", 2, lambda: token() + ".x", 1000),
        ("tampered_cursor", "validation", 2, lambda: forge(token()), 1000),
        ("foreign_cursor", "validation", 2, lambda: token(tenant="other"), 1000),
        ("foreign_cursor", "validation", 2, lambda: token(operation="search"), 1000),
        ("changed_query", "validation", 2, lambda: token(query={"under": "c1", "kind": "x"}), 1000),
        ("changed_query", "validation", 2, lambda: token(query={}), 1000),
        ("expired_cursor", "pagination", 3, token, 1500),
    ],
)
def test_S0_35_a_continuation_goes_on_with_its_own_question_only(
    reason: str, kind: str, exit_code: int, continuation: Callable[[], str], now: int
) -> None:
    told = broken(replace(ASK, continuation=continuation()), serve("abc"), replace(SEAL, now_ms=now))
    assert (told.kind, told.exit_code, told.details["reason"]) == (kind, exit_code, reason)
    assert told.details.keys() == KEYS
    assert (told.details["items"], told.details["count"], told.details["complete"]) == ([], 0, False)


def test_another_key_did_not_sign_it() -> None:
    told = broken(replace(ASK, continuation=token()), serve("abc"), Seal(b"other", 1000))
    assert told.details["reason"] == "tampered_cursor"


def test_every_reason_is_reached_above() -> None:
    reached = {
        "page_failed", "missing_cursor", "stalled_cursor", "cyclic_cursor", "snapshot_changed", "page_size_exceeded", "count_mismatch",
        "duplicate_item", "tampered_cursor", "foreign_cursor", "changed_query", "expired_cursor",
    }  # fmt: skip
    assert set(KIND_BY_REASON) == reached


@given(st.integers(0, 30), st.integers(1, 7), st.integers(1, 4), st.integers(1, 9))
def test_any_chain_covers_exactly_the_scope(count: int, limit: int, max_pages: int, max_items: int) -> None:
    items, seen, continuation = list(range(count)), list[int](), ""
    for _ in range(40):
        ask = replace(ASK, limit=limit, max_pages=max_pages, max_items=max_items, continuation=continuation)
        listing, asked = run(ask, serve(items))
        seen += listing.items
        assert len(asked) <= max_pages
        assert listing.count <= max_items
        assert listing.complete == (not listing.has_more) == (seen == items)
        if listing.complete:
            break
        assert listing.truncated
        continuation = listing.continuation or ""
    assert seen == items
