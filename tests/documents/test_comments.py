"""Comments: where they stand after edits, who says what, how they are listed."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.db import Database
from polyloop.documents import anchors
from polyloop.documents.anchors import AROUND, BUDGET, Texts, made, stands
from tests.documents.office import Office

TEXT = st.text("ab合同 ，", max_size=40)


@given(TEXT, TEXT, TEXT, st.lists(st.tuples(st.booleans(), st.integers(0, 60), st.integers(0, 5), TEXT), max_size=1))
def test_an_edit_beside_a_stretch_leaves_it_where_its_words_are(before: str, quote: str, after: str, edits: list[tuple[bool, int, int, str]]) -> None:
    quote = quote or "x"
    anchor = made("b", before + quote + after, len(before), len(before) + len(quote), 1)
    for left, place, cut, put in edits:
        side = before if left else after
        at = place % (len(side) + 1)
        side = side[:at] + put + side[at + cut :]
        before, after = (side, after) if left else (before, side)
    text = before + quote + after
    found = stands(anchor, [("b", text)])
    assert found.state == "kept"
    assert text[found.start : found.end] == found.quote == quote


@given(TEXT, TEXT, TEXT, TEXT)
def test_whatever_becomes_of_a_block_the_answer_is_one_of_four_and_true(before: str, quote: str, after: str, now: str) -> None:
    anchor = made("b", before + quote + after, len(before), len(before) + len(quote), 1)
    found = stands(anchor, [("a", "other"), ("b", now)])
    if found.state == "gone":
        assert found.quote == quote
    else:
        assert {"a": "other", "b": now}[found.block_id][found.start : found.end] == found.quote
    if found.state == "kept":
        assert found.quote == quote


def test_many_edits_around_a_stretch() -> None:
    text = "第一条 甲方应当在十日内付款。第二条 乙方应当交货。"
    start = text.index("十日内")
    anchor = made("b", text, start, start + 3, 1)
    now = "总则。第一条（付款） 甲方必须在十日内付清货款。第三条 乙方交货并验收。"
    found = stands(anchor, [("b", now)])
    assert (found.state, found.quote, now.index("十日内")) == ("kept", "十日内", found.start)
    changed = stands(anchor, [("b", text.replace("十日内", "三十日之内"))])
    assert (changed.state, changed.quote) == ("changed", "十日之内")
    assert stands(anchor, [("x", "。。" + text)]).state == "gone", "three characters are too few to be sure elsewhere"
    long = made("b", text, start, start + 5, 1)
    assert (stands(long, [("x", text), ("y", "无关")]).state, stands(long, [("x", text), ("y", text)]).state) == ("moved", "gone")
    assert stands(anchor, [("b", text.replace("甲方应当在十日内付款。", ""))]).state in ("gone", "changed")


def test_a_stretch_in_a_long_block_keeps_little_and_is_found(office: Office) -> None:
    text = "".join(f"w{n} " for n in range(20_000))
    at = text.index("w10000 ")
    anchor = made("b", text, at, at + 6, 1)
    assert len(anchor.around) <= 2 * AROUND + 6
    assert stands(anchor, [("b", text)]).start == at
    found = stands(anchor, [("b", "new " + text)])
    assert (found.state, found.start, found.quote) == ("kept", at + 4, "w10000")


WORDS = tuple(f"词{n}合同" for n in range(3_000))
#: Texts in which nothing, everything, or much is said again and again.
LONG = {
    "words": " ".join(f"w{n}" for n in range(20_000)), "chinese": "".join(WORDS), "again": "这是一个很长的段落，用来说明评注的位置。" * 1_500,
    "once": "甲" * 30_000,
}  # fmt: skip


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("far", [True, False])
def test_edits_in_a_long_block_leave_a_stretch_where_its_words_are(kind: str, far: bool) -> None:
    """Far away and close by, in front and behind, several at once."""
    text, quote = LONG[kind], "合同条款甲"
    at = len(text) // 2
    text = text[:at] + quote + text[at:]
    anchor = made("b", text, at, at + len(quote), 1)
    away = at - 5_000 if far else 60
    for front, back in (("X", ""), ("", "X"), ("X" * 700, "Y" * 900), ("", "")):
        now = text[: at - away] + front + text[at - away + 7 : at + 90 + away] + back + text[at + 97 + away :]
        found = stands(anchor, [("b", now)])
        assert (found.state, found.start, found.quote) == ("kept", now.index(quote), quote)
    changed = "X" + text.replace(quote, "合同条款乙")
    found = stands(anchor, [("b", changed)])
    if kind == "once":  # what it stood in is like everything else
        assert found.state in ("changed", "gone")
    elif kind != "again":
        assert (found.state, found.quote) == ("changed", "合同条款")
    assert stands(anchor, [("b", "完全不同。" * 2_000)]).state == "gone"


def test_comments_on_one_block_are_compared_once_and_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []

    class Counting(SequenceMatcher[Any]):
        def __init__(self, junk: None, a: str, b: str, autojunk: bool) -> None:
            compared.append(len(a) * len(b))
            super().__init__(junk, a, b, autojunk)

    monkeypatch.setattr(anchors, "SequenceMatcher", Counting)
    text = "".join(chr(0x4E00 + n) for n in range(980))
    now = "".join("改" if n % 3 == 0 else char for n, char in enumerate(text))
    many = [made("b", text, at, at + 4, 1) for at in range(0, 960, 48)]
    for texts in (Texts([("b", now)]), Texts([(f"b{n}", now + str(n)) for n in range(40)])):
        compared.clear()
        for n, anchor in enumerate(many):
            texts.stands(anchor)
            texts.stands(replace(anchor, block_id=f"b{n}"))
        assert 0 < sum(compared) <= BUDGET
    assert len(compared) <= BUDGET // 900_000


@pytest.fixture
def book(office: Office) -> tuple[Office, str, list[str]]:
    node = office.new("B", "first paragraph\n\nsecond **bold** word\n\nthird\n")
    return office, node, [b["blockId"] for b in office.blocks(node)]


def listed(office: Office, node: str, **args: Any) -> list[dict[str, Any]]:
    answer = office.do("comment_list", {"nodeId": node, **args})
    assert answer["complete"] is True
    return answer["items"]


def test_comments_from_end_to_end(book: tuple[Office, str, list[str]]) -> None:
    office, node, blocks = book
    revision = office.do("inspect", {"nodeId": node})["data"]["revision"]
    office.do("comment_create", {"nodeId": node, "content": "general"})
    placed = office.do("comment_create", {"nodeId": node, "content": "why bold?", "quote": "bold"})
    office.do("comment_create", {"nodeId": node, "content": "this", "blockId": blocks[0], "start": 6, "end": 15})
    assert office.do("inspect", {"nodeId": node})["data"]["revision"] == revision, "a comment is no edit"
    assert (placed["data"]["revision"], placed["verification"]["matched"]) == (revision, True)
    comment = placed["data"]["commentId"]
    office.do("comment_reply", {"nodeId": node, "commentId": comment, "content": "because"}, session="s")
    office.do("update", {"nodeId": node, "command": "str_replace", "old": "second", "new": "the second, quite"})
    office.do("update", {"nodeId": node, "command": "replace", "blockId": blocks[0], "content": "It is another first paragraph now\n", "force": True})
    general, bold, moved = listed(office, node)
    assert "anchor" not in general
    assert (bold["anchor"]["state"], bold["anchor"]["quote"], bold["anchor"]["blockId"]) == ("kept", "bold", blocks[1])
    assert [r["content"] for r in bold["replies"]] == ["because"]
    assert (moved["anchor"]["state"], moved["anchor"]["quote"]) == ("moved", "paragraph")
    office.do("comment_resolve", {"nodeId": node, "commentId": comment})
    assert [c["commentId"] for c in listed(office, node, state="resolved")] == [comment]
    assert comment not in [c["commentId"] for c in listed(office, node, state="open")]
    assert office.do("comment_resolve", {"nodeId": node, "commentId": comment})["warnings"] == ["no_change"]
    office.do("comment_resolve", {"nodeId": node, "commentId": comment, "resolved": False})
    office.do("comment_delete", {"nodeId": node, "commentId": comment})
    office.refused("not_found", "comment_reply", {"nodeId": node, "commentId": comment, "content": "x"})
    assert [c["content"] for c in listed(office, node)] == ["general", "this"]
    office.do("delete", {"nodeId": node})
    office.do("purge", {"nodeId": node})
    assert office.db.look(lambda tx: tx.rows("select 1 from doc_item where tenant = ? and node = ?", office.tenant, node)) == []


def test_what_a_comment_cannot_be_about(book: tuple[Office, str, list[str]]) -> None:
    office, node, blocks = book
    for args, kind in (
        ({"quote": "ir"}, "ambiguous"), ({"quote": "nowhere"}, "not_found"), ({"blockId": "b_none"}, "not_found"),
        ({"blockId": blocks[0], "start": 3, "end": 99}, "validation"), ({"blockId": blocks[0], "start": 5, "end": 3}, "validation"),
        ({"start": 1}, "validation"), ({"quote": "bold", "blockId": blocks[1], "start": 1}, "validation"),
        ({"quote": "bold", "end": 1}, "validation"),
        ({"content": ""}, "validation"), ({"content": "a\0"}, "validation"), ({"content": "x" * 10_001}, "validation"),
        ({"expectedRevision": 9}, "revision_conflict"),
    ):  # fmt: skip
        office.refused(kind, "comment_create", {"nodeId": node, "content": "c", **args})
    assert office.refused("ambiguous", "comment_create", {"nodeId": node, "content": "c", "quote": "ir"})["details"]["count"] == 2
    folder = office.do("create_folder", {"title": "F"})["data"]["nodeId"]
    office.refused("type_mismatch", "comment_create", {"nodeId": folder, "content": "c"})


def test_nobody_speaks_for_another(book: tuple[Office, str, list[str]]) -> None:
    office, node, _ = book
    for user, role in (("ann", "READER"), ("bob", "READER"), ("eve", "EDITOR")):
        office.do("access_grant", {"nodeId": node, "user": user, "role": role})
    comment = office.do("comment_create", {"nodeId": node, "content": "mine"}, user="ann")["data"]["commentId"]
    target = {"nodeId": node, "commentId": comment}
    office.do("comment_reply", {**target, "content": "seen"}, user="bob")
    for op in ("comment_resolve", "comment_delete"):
        office.refused("permission_denied", op, target, user="bob")
    office.do("comment_resolve", target, user="ann")
    office.do("comment_resolve", {**target, "resolved": False}, user="eve")
    [told] = listed(office, node)
    assert (told["author"], [r["author"] for r in told["replies"]]) == ("ann", ["bob"])
    office.do("comment_delete", target, user="ann")


def test_S0_23_two_who_answer_at_once_both_stand(db: Database) -> None:
    """The second is told that the comment has changed, and loses nothing by asking again."""
    office = Office(db, faulty=True)
    node = office.new()
    comment = office.do("comment_create", {"nodeId": node, "content": "c"})["data"]["commentId"]
    other, send = Office(db, office.tenant), office.transport.ask

    def between(request: Any, step_id: str = "") -> Any:
        if step_id and not other.waits:
            other.waits.append(1)
            other.do("comment_reply", {"nodeId": node, "commentId": comment, "content": "first"})
        return send(request, step_id)

    office.transport.ask = between  # type: ignore[method-assign]  # somebody is faster
    reply = {"nodeId": node, "commentId": comment, "content": "second"}
    assert office.receipt("comment_reply", reply).problem().kind == "revision_conflict"
    office.do("comment_reply", reply)
    assert [r["content"] for r in listed(office, node)[0]["replies"]] == ["first", "second"]


@pytest.mark.parametrize("fault", ["lose_reply", "empty_object", "other_node"])
def test_S0_9_a_comment_whose_reply_was_lost_is_there_once(db: Database, fault: str) -> None:
    office = Office(db, faulty=True)
    node = office.new()
    office.transport.faults = [fault]
    receipt = office.receipt("comment_create", {"nodeId": node, "content": "c", "operationKey": "k"})
    assert receipt.status == "unknown"
    assert office.do("reconcile", {"operationId": receipt.data["operationId"]})["status"] == "success"
    assert office.receipt("comment_create", {"nodeId": node, "content": "c", "operationKey": "k"}).ok
    assert len(listed(office, node)) == 1
