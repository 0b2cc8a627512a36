"""Documents drawn at random, written and read again: type, level, marks, tables and the nesting of lists are equal."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyloop.contract.problem import ProblemError
from polyloop.formats import Target, losses, read, same_text, write
from polyloop.formats.blocks import Block, Cell, Document, Run, Table
from tests.formats.trees import PIECES, documents, hostile_documents, shape
from tests.formats.word import p, word

DRAWN = 2_000 if os.environ.get("POLYLOOP_SOAK") else 200
FEWER = DRAWN // 4


@settings(max_examples=DRAWN)
@given(documents())
def test_two_hundred_documents_through_word_are_equal(document: Document) -> None:
    assert losses(document, "docx") == ()
    data = write(document, "docx")
    assert shape(read("a.docx", data)) == shape(document)
    same_text(document, "docx", data)


@settings(max_examples=FEWER)
@given(documents())
def test_documents_through_html_are_equal(document: Document) -> None:
    data = write(document, "html")
    assert shape(read("a.html", data)) == shape(document)
    same_text(document, "html", data)


@settings(max_examples=FEWER)
@given(documents())
def test_documents_through_markdown_say_the_same_text(document: Document) -> None:
    same_text(document, "md", write(document, "md"))


@settings(max_examples=FEWER)
@given(documents())
def test_documents_through_pdf_say_the_same_text(document: Document) -> None:
    same_text(document, "pdf", write(document, "pdf"))


def said(text: str, **more: object) -> Block:
    return Block("paragraph", (Run(text, **more),))  # type: ignore[arg-type]  # marks


#: What came back otherwise once.
ONCE: dict[str, tuple[Block, ...]] = {
    "label of an item": (Block("numbered", (Run("a"),), number=1, label="（1）"),),
    "label of a todo": (Block("todo", (Run("a"),), label="1.1"), Block("bulleted", (), label="(a)"), Block("paragraph", (Run("b"),), depth=1)),
    "signs in a name": (Block("image", (Run("a*b_c[d]"),), src="x.png"), Block("file", (Run("a*b_c[d]"),), src="x.png")),
    "picture without name": (Block("bulleted", (Run("a"),)), Block("image", depth=1)),
    "targets of all sorts": (said("a", link="file:///x"), said("b", link="javascript:x"), Block("image", (Run("i"),), src="data:image/png,x")),
    "formula in signs": (Block("formula", (Run("a$$b"),)), Block("formula", (Run("a\n\n$$\nb"),))),
    "raw left open": (Block("raw", (Run("<!-- a"),), info="html"), said("b"), Block("raw", (Run("<script>x"),), info="html"), said("c")),
    "math left open": (Block("raw", (Run("$$ a"),), info="markdown"), said("b"), Block("formula", (Run("c"),))),
    "dashes in an item": (Block("bulleted", (Run("---a"),)), said("b"), said("---")),
    "item zero": (Block("bulleted", (Run("a"),)), Block("numbered", (Run("b"),), depth=1)),
    "items of nothing": (Block("heading", level=1), Block("numbered"), Block("numbered", depth=1), said("a")),
    "blanks alone": (said("\n\u3000"), Block("file", (Run("<!-- b"),), src="x"), said("c")),
    "controls by reference": (Block("raw", (Run("a&#1;b"),), info="html"), said("c&#1;d")),
    "nothing between": (said("-\u200b_ "), Block("code", (Run("---> b"),))),
    "rows of one cell": (Block("table", table=Table(((Cell((Run("a\nb"),), rowspan=2), Cell((Run("c"),))), (Cell((Run("d"),)),)))),),
}  # fmt: skip


@pytest.mark.parametrize("target", ["md", "docx", "html", "pdf"])
@pytest.mark.parametrize("name", ONCE)
def test_what_came_back_otherwise_once(name: str, target: Target) -> None:
    told = Document(ONCE[name])
    same_text(told, target, write(told, target))


def test_what_is_spelled_otherwise_is_named_before() -> None:
    assert {loss.code for loss in losses(Document(ONCE["formula in signs"]), "md")} == {"formula_as_code"}
    assert {loss.code for loss in losses(Document(ONCE["raw left open"]), "md")} == {"raw_as_code"}
    assert {loss.code for loss in losses(Document(ONCE["label of an item"]), "md")} == {"list_label"}


def deep(kind: str, depth: int) -> tuple[Block, ...]:
    return (*(Block("bulleted", (Run("i"),), depth=at) for at in range(depth)), Block(kind, (Run("x"),), depth=depth))  # type: ignore[arg-type]  # given


LESS_DEEP = {
    "in lists": (deep("bulleted", 8), 0), "too deep a list": (deep("todo", 9), 1), "continued": (deep("paragraph", 5), 0),
    "too deep a paragraph": (deep("paragraph", 6), 1), "code in an item": (deep("code", 1), 1),
    "in a quote": ((Block("quote", (Run("q"),)), Block("paragraph", (Run("x"),), depth=1)), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", LESS_DEEP)
def test_what_word_writes_less_deep_is_named(name: str) -> None:
    blocks, count = LESS_DEEP[name]
    told = Document(blocks)
    found = read("a.docx", write(told, "docx"))
    assert [(loss.code, loss.count) for loss in losses(told, "docx")] == ([("nesting", count)] if count else [])
    assert sum(made.depth != block.depth for made, block in zip(found.blocks, blocks, strict=True)) == count


@pytest.mark.parametrize("text", ["---a\nb\n---\nc\n", "- ---a\n\nb\n", "> ---\n> a\n> ---\n", "---\na\n"])
def test_only_lines_of_dashes_at_the_head_are_front_matter(text: str) -> None:
    document = read("a.md", text.encode())
    assert all(block.info != "yaml" for block in document.blocks)
    assert {"a", "b"} & set(text) <= set(document.text)
    assert [block.info for block in read("a.md", b"----\na: b\n----\nc").blocks] == ["yaml", ""]


def test_code_keeps_its_indents_and_blank_lines_through_word() -> None:
    style = '<w:pStyle w:val="Code"/>'
    styles = '<w:style w:type="paragraph" w:styleId="Code"><w:name w:val="Source Code"/></w:style>'
    lines = ["", "def f():", "    if x:", "", "        pass  ", ""]
    data = word(p("a") + "".join(p(line, properties=style) for line in lines) + p("b"), styles=styles)
    assert [(b.type, b.text) for b in read("a.docx", data).blocks] == [
        ("paragraph", "a"), ("code", "def f():\n    if x:\n\n        pass  "), ("paragraph", "b"),
    ]  # fmt: skip
    told = Document((Block("code", (Run("    a\n\n  b"),)), said("c")))
    assert read("a.docx", write(told, "docx")).blocks[0].text == "    a\n\n  b"


@pytest.mark.parametrize("target", ["md", "docx", "html"])
@settings(max_examples=FEWER * 2)
@given(document=hostile_documents())
def test_whatever_a_document_holds_is_in_the_file(target: Target, document: Document) -> None:
    same_text(document, target, write(document, target))


@settings(max_examples=FEWER)
@given(hostile_documents())
def test_whatever_a_document_holds_is_on_the_paper(document: Document) -> None:
    same_text(document, "pdf", write(document, "pdf"))


@settings(max_examples=FEWER)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=20).map("".join))
def test_whatever_is_read_is_written_in_every_format(text: str) -> None:
    for name in ("a.md", "a.html"):
        try:
            document = read(name, text.encode())
        except ProblemError as refused:
            assert refused.problem.details["reason"] == "empty"  # noqa: PT017  # both are right
            continue
        assert name != "a.md" or write(document, "md") == text.encode()
        for target in ("md", "docx", "html"):
            same_text(document, target, write(document, target))
            again = Document(tuple(block.edited() for block in document.blocks))
            same_text(again, target, write(again, target))


@pytest.mark.parametrize("target", ["md", "docx", "html", "pdf"])
def test_a_file_that_says_something_else_is_refused(target: Target) -> None:
    told = Document((Block("paragraph", (Run("first"),)), Block("paragraph", (Run("second"),))))
    for other in (("first",), ("second", "first"), ("first", "second", "third"), ("first", "secund")):
        data = write(Document(tuple(Block("paragraph", (Run(text),)) for text in other)), target)
        with pytest.raises(ProblemError) as wrong:
            same_text(told, target, data)
        assert (wrong.value.problem.kind, wrong.value.problem.stage) == ("task_failed", "verify")
