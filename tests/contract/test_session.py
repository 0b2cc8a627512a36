"""Sessions: permission, handles, reading first, argument failures; all a fold over facts."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from polyloop.contract.session import Blocked, Cleared, Fact, Issued, Missed, Need, Read, Session, permission


@pytest.mark.parametrize(
    ("mode", "effect", "confirm", "granted", "verdict"),
    [
        ("read_only", "read", False, False, "allow"),
        ("read_only", "write", False, True, "deny"),
        ("read_only", "pay", False, True, "deny"),
        ("request_approval", "read", True, False, "allow"),
        ("request_approval", "write", False, True, "ask"),
        ("request_approval", "pay", False, True, "ask"),
        ("auto", "read", True, False, "allow"),
        ("auto", "write", False, False, "allow"),
        ("auto", "write", True, True, "ask"),
        ("auto", "pay", False, True, "allow"),
        ("auto", "pay", False, False, "ask"),
        ("auto", "pay", True, True, "ask"),
    ],
)
def test_S1_48_S1_49_S1_50_permission(mode: str, effect: str, confirm: bool, granted: bool, verdict: str) -> None:
    assert permission(mode, effect, confirm=confirm, granted=granted) == verdict


def test_confirm_and_a_missing_grant_never_widen() -> None:
    order = ["allow", "ask", "deny"]
    for mode, effect in itertools.product(("read_only", "request_approval", "auto"), ("read", "write", "pay")):
        free = permission(mode, effect, confirm=False, granted=True)
        for confirm, granted in itertools.product((True, False), repeat=2):
            assert order.index(permission(mode, effect, confirm=confirm, granted=granted)) >= order.index(free)


def issues(session: Session, kinds: dict[str, str], arguments: dict[str, object]) -> list[tuple[str, str]]:
    return [(p.field, p.issue) for p in session.unissued(kinds, arguments)]


def test_S1_26_only_what_a_response_gave_out_is_an_id() -> None:
    session = Session("auto")
    session.note(Issued("thing", ("t1", "t2")))
    kinds = {"id": "thing", "ids": "thing"}
    assert issues(session, kinds, {"id": "t1", "ids": ["t1", "t2"], "other": "x"}) == []
    assert issues(session, kinds, {"id": "The Title", "ids": ["t2", "3"]}) == [("id", "not_issued"), ("ids", "not_issued")]
    assert issues(Session("auto", lasting=False), kinds, {"id": "anything"}) == []


def test_S1_32_an_offset_is_zero_or_was_given_out_for_this_snapshot() -> None:
    session = Session("auto")
    session.note(Issued("offset", (40,), under="board", snapshot="content:1"))
    handles = session.handles
    assert handles.check("offset", "offset", 0, "board", "content:1") == []
    assert handles.check("offset", "offset", 40, "board", "content:1") == []
    assert [p.issue for p in handles.check("offset", "offset", 2, "board", "content:1")] == ["not_issued"]  # a page number
    assert [p.issue for p in handles.check("offset", "offset", 40, "board", "content:2")] == ["not_issued"]  # another snapshot
    assert [p.issue for p in handles.check("offset", "offset", 40, "other", "content:1")] == ["not_issued"]


def test_S1_33_only_the_latest_ids_are_valid() -> None:
    session = Session("auto")
    session.note(Issued("line", ("r1",), "t", "h1"), Issued("line", ("r2",), "t", "h1"))
    assert session.handles.knows("line", "r1", "t")
    assert session.handles.knows("line", "r2", "t", "h1")
    session.note(Issued("line", ("r9",), "t", "h2"))
    assert [session.handles.knows("line", r, "t") for r in ("r1", "r2", "r9")] == [False, False, True]


def unread(session: Session, *needs: Need, target: str = "") -> list[tuple[str, str]]:
    return [(p.field, p.issue) for p in session.unread(needs, target)]


def test_S1_3_read_first() -> None:
    session = Session("auto")
    need = Need("rowId", "lines", "t", level=2, token="h1")
    assert unread(session, need) == [("rowId", "read_first")]
    session.note(Read("lines", "t", 1, "h1"))
    assert unread(session, need) == [("rowId", "read_first")]  # seen, but not whole
    session.note(Read("lines", "t", 2, "h1"), Read("lines", "t", 1, "h1"))
    assert unread(session, need) == []  # a lesser reading of the same state takes nothing back
    session.note(Read("lines", "t", 1, "h2"))
    assert unread(session, need, Need("x", "types")) == [("rowId", "read_first"), ("x", "read_first")]
    assert unread(session, Need("x", "lines", "t")) == []  # at any state
    assert unread(Session("auto", lasting=False), need) == []


def test_S1_43_after_an_unknown_write_only_after_reading() -> None:
    session = Session("auto")
    session.note(Blocked("board", "an earlier write there is unknown"))
    assert unread(session, target="board") == [("", "read_first")]
    assert unread(session, target="other") == []
    session.note(Read("state", "other"))
    assert unread(session, target="board") == [("", "read_first")]
    session.note(Read("state", "board"))
    assert unread(session, target="board") == []
    session.note(Blocked("board", "x"))
    assert unread(Session("auto", session.fresh, lasting=False), target="board") == []


def test_S1_88_argument_failures_are_counted_per_operation() -> None:
    session = Session("auto")
    session.note(Missed("a"), Missed("a"), Missed("b"))
    assert (session.attempts("a"), session.attempts("b"), session.attempts("c")) == (2, 1, 0)
    session.note(Cleared("a"), Cleared("c"))
    assert (session.attempts("a"), session.attempts("b")) == (0, 1)


def test_a_session_is_a_fold_over_its_facts_as_stored() -> None:
    facts: list[Fact] = [
        Issued("thing", ("t1", 4)), Issued("line", ("r1",), "t", "h1"), Read("lines", "t", 2, "h1"), Missed("a"), Blocked("board", "x"),
        Missed("b"), Cleared("b"),
    ]  # fmt: skip
    one = Session("auto")
    one.note(*facts)
    assert one.fresh == facts
    stored = msgspec.json.decode(msgspec.json.encode(one.fresh), type=list[Fact])
    two = Session("auto", stored)
    assert two.fresh == []
    assert two.handles.knows("thing", "t1")
    assert two.handles.knows("thing", 4)
    assert unread(two, Need("f", "lines", "t", 2, "h1"), target="board") == [("", "read_first")]
    assert (two.attempts("a"), two.attempts("b")) == (1, 0)


def test_S1_26_what_was_given_is_what_was_issued_at_that_snapshot() -> None:
    session = Session("auto")
    session.note(Issued("row", ("a", "b"), "t", "h1"), Issued("row", ("c",), "t", "h1"))
    assert session.handles.given("row", "t", "h1") == {"a", "b", "c"}
    assert session.handles.given("row", "t", "h2") == session.handles.given("row", "u", "h1") == frozenset()
    session.note(Issued("row", ("d",), "t", "h2"))
    assert session.handles.given("row", "t", "h2") == {"d"}
    assert session.handles.given("row", "t", "h1") == frozenset()
