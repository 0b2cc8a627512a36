"""HTML: one safe page, whole in itself."""

# ruff: noqa: E501 - a row of a table is a line
from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.formats import losses, read, write
from polyloop.formats.blocks import Block, Cell, Document, Run, Table
from tests.formats.test_word import TREE


def page(document: Document) -> str:
    return write(document, "html").decode()


def body(*blocks: Block) -> str:
    return page(Document(blocks)).split("<body>\n")[1].split("</body>")[0]


class Tags(HTMLParser):
    """Every tag with its attributes, and whether they balance."""

    VOID = frozenset({"meta", "br", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize(("text", "lang"), [("# 通知\n\n正文", "zh-CN"), ("# Notice\n\nText", "en")])
def test_the_page_says_its_language_and_title(text: str, lang: str) -> None:
    made = page(read("a.md", text.encode()))
    assert made.startswith(f'<!DOCTYPE html>\n<html lang="{lang}">')
    assert re.search(r"<title>(通知|Notice)</title>", made)


def test_every_kind_of_block() -> None:
    made = page(TREE)
    for expected in (
        "<h1>一、总则</h1>", '<strong>粗</strong><em>斜</em><s>删</s><code>code</code><a href="https://e.cn/?a&amp;b"', "<li>甲<ul>\n<li>乙<p>续</p>\n</li>",
        '<ol start="3">\n<li>三</li>\n<li>四</li>\n</ol>', "<ol>\n<li>一<ol>\n<li>内</li>\n</ol>\n</li>\n<li>二</li>", '<ul class="todo">\n<li>☑ 办</li>\n<li>☐ 未</li>',
        "<blockquote>\n<p>引</p>", '<pre class="code"><code>a\n  b\n</code></pre>', "x&lt;y", "<hr>", "<h6>末</h6>", '<th colspan="2">项</th>', '<td rowspan="2">a</td>',
    ):  # fmt: skip
        assert expected in made


@given(
    st.text(st.sampled_from("<>&\"'/= abscriptonload:javaimgx甲\n"), max_size=40), st.text(st.sampled_from("javascript:/\\ht p.#<>\"'"), max_size=12)
)
def test_no_text_becomes_a_tag_and_no_link_runs(text: str, link: str) -> None:
    blocks = (
        Block("paragraph", (Run(text, link=link),)), Block("code", (Run(text),), info=text), Block("raw", (Run(text),), info="markdown"),
        Block("image", (Run(text),), src=link), Block("table", table=Table(((Cell((Run(text),)),),))), Block("heading", (Run(text),), level=1),
    )  # fmt: skip
    for tag, attributes in Tags(page(Document(blocks, title=text))).found:
        assert tag in {
            "html",
            "head",
            "meta",
            "title",
            "style",
            "body",
            "p",
            "a",
            "pre",
            "code",
            "figure",
            "figcaption",
            "table",
            "tbody",
            "tr",
            "td",
            "h1",
            "br",
        }
        assert not any(name.startswith("on") for name in attributes)
        assert not re.match(r"\s*(javascript|data|vbscript|//)", attributes.get("href") or "", re.IGNORECASE)


def test_raw_html_is_sanitised_and_named() -> None:
    document = read("a.md", b"<div onclick=x><script>alert(1)</script><b>k</b><img src=http://e/x></div>\n\n<!-- c -->\n")
    made = page(document)
    assert "<div><b>k</b></div>" in made
    assert not re.search(r"script>|onclick|<img|<!-- c", made)
    assert [loss.code for loss in losses(document, "html")] == ["raw_sanitised"]


def test_nothing_is_fetched() -> None:
    made = page(read("a.md", '![图](http://e/x.png)\n\n[表](t.xlsx "file")\n'.encode()))
    assert not re.search(r"<(?:img|link|script|iframe)|url\(|@import", made)
    assert '<figcaption><a href="http://e/x.png"' in made


def test_labels_stand_before_their_text() -> None:
    made = body(
        Block("heading", (Run("总则"),), level=2, label="一、"),
        Block("paragraph", (Run("x"),), label="1.2"),
        Block("numbered", (Run("y"),), number=1, label="(a)"),
    )
    assert "<h2>一、总则</h2>" in made
    assert "<p>1.2 x</p>" in made
    assert "<li>(a) y</li>" in made
