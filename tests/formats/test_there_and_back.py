"""Documents drawn at random, written and read again: type, level, marks, tables and the nesting of lists are equal."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings

from polyloop.contract.problem import ProblemError
from polyloop.formats import Target, losses, read, same_text, write
from polyloop.formats.blocks import Block, Document, Run
from tests.formats.trees import documents, shape

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


@pytest.mark.parametrize("target", ["md", "docx", "html", "pdf"])
def test_a_file_that_says_something_else_is_refused(target: Target) -> None:
    told = Document((Block("paragraph", (Run("first"),)), Block("paragraph", (Run("second"),))))
    for other in (("first",), ("second", "first"), ("first", "second", "third"), ("first", "secund")):
        data = write(Document(tuple(Block("paragraph", (Run(text),)) for text in other)), target)
        with pytest.raises(ProblemError) as wrong:
            same_text(told, target, data)
        assert (wrong.value.problem.kind, wrong.value.problem.stage) == ("task_failed", "verify")
