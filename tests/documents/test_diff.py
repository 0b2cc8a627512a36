"""Diffs: what they say is what happened, whatever the edits; and a page a person can read."""

from __future__ import annotations

import random
from difflib import SequenceMatcher
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.documents import diff
from polyloop.documents.content import Kept
from polyloop.documents.diff import BUDGET, Budget, changes, page, told, words
from polyloop.formats.blocks import Block, Run
from tests.documents.office import Office


def kept(name: str, text: str) -> Kept:
    return Kept(name, "", "", Block("paragraph", (Run(text),)))


SIDE = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.text("xyz 合同", max_size=12)), max_size=8, unique_by=lambda pair: pair[0])


@given(SIDE, SIDE)
def test_both_sides_can_be_told_from_the_changes(one: list[tuple[str, str]], other: list[tuple[str, str]]) -> None:
    before, after = [kept(*pair) for pair in one], [kept(*pair) for pair in other]
    found = changes(before, after)
    assert [c.after for c in found if c.after] == after, "every block there is now, in its order"
    assert sorted(c.before.id for c in found if c.before) == sorted(k.id for k in before), "every block there was, once"
    for c in found:
        assert (c.kind == "added") == (c.before is None)
        assert (c.kind == "removed") == (c.after is None)
        if c.before and c.after and c.kind != "changed":
            assert c.before.block == c.after.block
    assert all(c.kind == "same" for c in changes(before, before))


@given(st.text("ab 合同，", max_size=40), st.text("ab 合同，", max_size=40))
def test_both_texts_can_be_told_from_the_words(before: str, after: str) -> None:
    found = words(before, after)
    assert "".join(text for mark, text in found if mark != "+") == before
    assert "".join(text for mark, text in found if mark != "-") == after


def test_texts_too_long_to_compare_are_replaced() -> None:
    assert [mark for mark, _ in words("a " * 3_000, "b " * 3_000)] == ["-", "+", "="]


def versions(office: Office, node: str, *edits: dict[str, Any]) -> dict[str, Any]:
    office.do("version_save", {"nodeId": node})
    for edit in edits:
        office.do("update", {"nodeId": node, "force": True, **edit})
    office.do("version_save", {"nodeId": node})
    return office.do("version_diff", {"nodeId": node, "from": 1, "to": 2})["data"]


def test_what_edits_did(office: Office) -> None:
    node = office.new("D", "# Head\n\none two\n\nthree\n\nfour\n")
    head, one, three, four = (b["blockId"] for b in office.blocks(node))
    told = versions(
        office, node, {"command": "str_replace", "old": "two", "new": "2"}, {"command": "move", "blockId": four, "afterBlockId": head},
        {"command": "delete", "blockId": three}, {"command": "append", "content": "new\n"},
    )  # fmt: skip
    assert told["counts"] == {"same": 1, "added": 1, "removed": 1, "changed": 1, "moved": 1}
    by_kind = {c["kind"]: c for c in told["changes"]}
    assert by_kind["changed"] == {"kind": "changed", "blockId": one, "type": "paragraph", "words": [["=", "one "], ["-", "two"], ["+", "2"]]}
    assert (by_kind["moved"]["blockId"], by_kind["removed"]["text"], by_kind["added"]["text"]) == (four, "three", "new")


def test_what_was_written_anew_is_told_by_what_it_says(office: Office) -> None:
    node = office.new("D", "first paragraph\n\nsecond paragraph\n\nlast\n")
    told = versions(office, node, {"command": "overwrite", "content": "first paragraph\n\nsecond, longer paragraph\n\nlast\n\nmore\n"})
    assert told["counts"] == {"same": 2, "added": 1, "removed": 0, "changed": 1, "moved": 0}
    office.refused("not_found", "version_diff", {"nodeId": node, "from": 1, "to": 9})
    back = office.do("version_diff", {"nodeId": node, "from": 2, "to": 1})["data"]
    assert back["counts"] == {"same": 2, "added": 0, "removed": 1, "changed": 1, "moved": 0}


def test_many_changes_are_told_in_parts(office: Office) -> None:
    node = office.new("D", "\n\n".join(f"p{n}" for n in range(30)))
    versions(office, node, {"command": "overwrite", "content": "\n\n".join(f"q {n} new" for n in range(30))})
    seen: list[Any] = []
    args: dict[str, Any] = {"nodeId": node, "from": 1, "to": 2, "maxChanges": 7}
    while True:
        answer = office.do("version_diff", args)
        seen += answer["data"]["changes"]
        if answer["complete"]:
            break
        args["offset"] = answer["data"]["nextOffset"]
    assert seen == office.do("version_diff", {**args, "offset": 0, "maxChanges": 200})["data"]["changes"]


class Reader(HTMLParser):
    """What of the page is struck, marked, and plain; every tag must be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: dict[str, str] = {"ins": "", "del": ""}
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.text:
            self.text[self.open[-1]] += data


def test_the_page_shows_what_went_and_came_and_nothing_acts(office: Office) -> None:
    hostile = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    node = office.new("<b>T</b>", "\n\n".join([*(f"same {n}" for n in range(20)), "old words here"]))
    last = office.blocks(node)[-1]["blockId"]
    office.do("version_save", {"nodeId": node})
    code = [{"type": "code", "runs": [{"text": hostile}]}]
    office.do("update", {"nodeId": node, "command": "insert_after", "blockId": last, "content": code, "format": "blocks"})
    office.do("update", {"nodeId": node, "command": "str_replace", "old": "old words", "new": "new words"})
    office.do("version_save", {"nodeId": node})
    html = office.do("version_diff", {"nodeId": node, "from": 1, "to": 2, "format": "html"})["data"]["content"]
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    assert reader.tags == {"html", "head", "meta", "title", "style", "body", "h1", "div", "ins", "del"}
    assert (reader.text["del"], hostile in reader.text["ins"], "new" in reader.text["ins"]) == ("old", True, True)
    assert "same 3" not in html, "long unchanged stretches are left out"
    assert "⋯ 18" in html
    assert "http" not in html


def test_a_long_document_is_compared_in_bounded_work() -> None:
    odds = random.Random(1)
    before = [kept(f"b{n}", f"text {n}") for n in range(5_000)]
    after = [k for k in before if odds.random() > 0.01] + [kept(f"c{n}", f"new {n}") for n in range(50)]
    found = changes(before, after)
    assert [c.after for c in found if c.after] == after
    assert page("t", found).count("<div") < 1_500


def test_one_comparison_has_one_budget_however_many_pairs_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks written anew, each so different that it must be compared; on the page as in the data."""
    compared: list[int] = []

    class Counting(SequenceMatcher[Any]):
        def get_matching_blocks(self) -> list[Any]:
            compared.append(len(self.a) * len(self.b))
            return super().get_matching_blocks()

    monkeypatch.setattr(diff, "SequenceMatcher", Counting)
    letters = "".join(chr(0x4E00 + n) for n in range(400))
    before = [kept(f"a{n}", letters) for n in range(40)]
    after = [kept(f"b{n}", letters[::-1][:120] + letters[120:-1] + "完") for n in range(40)]
    budget = Budget(BUDGET * 3 // 100)
    found = changes(before, after, budget)
    html, data = page("t", found, budget), [told(change, budget) for change in found]
    assert sum(compared) <= BUDGET * 3 // 100 + 40 * 40
    assert [c.after for c in found if c.after] == after
    assert [c.before for c in found if c.before and c.kind != "same"] == before
    assert html.count("<ins>") >= 40
    assert len(data) == len(found)


def test_what_both_texts_begin_and_end_with_costs_nothing() -> None:
    """An edit in a text of any length is told word by word, and known as an edit."""
    text = " ".join(f"w{n}" for n in range(20_000))
    now = text.replace("w10000 ", "new ")
    budget = Budget(10)
    assert [part for part in words(text, now, budget) if part[0] != "="] == [("-", "w10000"), ("+", "new")]
    (change,) = changes([kept("a", text)], [kept("b", now)], budget)
    assert change.kind == "changed"
