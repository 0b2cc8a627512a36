"""HTML pages read: what is shown is kept, everything else is named; what is made to hurt is refused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.contract.problem import ProblemError
from polyloop.formats import read
from polyloop.formats.blocks import Document, Run
from polyloop.words.losses import LOSS_WORDS

FIXTURES = Path(__file__).parent / "fixtures"


def page(body: str) -> Document:
    return read("a.html", body.encode())


def lines(document: Document) -> list[tuple[str, int, str]]:
    return [(b.type, b.depth, b.text) for b in document.blocks]


def lost(body: str) -> dict[str, int]:
    return {loss.code: loss.count for loss in page(f"<p>x</p>{body}").losses if loss.code != "html_layout"}


RICH = [
    ("heading", 0, "采购清单 Purchase list"), ("paragraph", 0, "第一段，含 粗体、斜体、删除、code 与 链接。"),
    ("bulleted", 0, "一级"), ("bulleted", 1, "二级"), ("bulleted", 2, "三级"), ("bulleted", 1, "又二级"), ("todo", 0, "已办"), ("todo", 0, "待办"),
    ("numbered", 0, "第三"), ("numbered", 0, "第四"),
]  # fmt: skip
TABLE = [["名称", "数量", "备注"], ["笔", "12", "好"]]


@pytest.mark.parametrize("maker", ["pandoc", "libreoffice"])
def test_pages_of_other_programs(maker: str) -> None:
    document = read("rich.html", (FIXTURES / f"{maker}-rich.html").read_bytes())
    assert lines(document)[: len(RICH)] == RICH
    assert [b.number for b in document.blocks if b.type == "numbered"][:2] == [3, 4]
    (table,) = [b.table for b in document.blocks if b.table]
    assert table.header_rows == 1
    assert [[cell.text for cell in row] for row in table.rows[:2]] == TABLE
    marked = {run.text: run for run in document.blocks[1].runs}
    assert marked["粗体"].bold
    assert marked["斜体"].italic
    assert marked["删除"].strike
    assert marked["链接"].link == "https://example.org/a?b=1&c=2"
    codes = {loss.code for loss in document.losses}
    assert codes >= {"html_layout", "other_marks"}
    assert codes <= LOSS_WORDS.keys()
    everything = document.text
    for text in ("引用一", "引用二", 'print("a & b")', "图示", "H2O", "脚注内容"):
        assert text in everything, "nothing is dropped"


def test_blocks_and_their_nesting() -> None:
    document = page(
        "<h2>H</h2><ul><li>one<p>para</p><ol start=4><li>four</li><li value=9>nine</li></ol></li>"
        "<li><pre><code class='language-py'>x\n  y</code></pre></li></ul>"
        "<blockquote><blockquote>deep</blockquote>after</blockquote><hr>loose<div>inner</div>tail"
    )
    assert lines(document) == [
        ("heading", 0, "H"), ("bulleted", 0, "one"), ("paragraph", 1, "para"), ("numbered", 1, "four"), ("numbered", 1, "nine"), ("bulleted", 0, ""),
        ("code", 1, "x\n  y"), ("quote", 0, ""), ("quote", 1, "deep"), ("paragraph", 1, "after"), ("divider", 0, ""), ("paragraph", 0, "loose"),
        ("paragraph", 0, "inner"), ("paragraph", 0, "tail"),
    ]  # fmt: skip
    assert [b.number for b in document.blocks if b.type == "numbered"] == [4, 9]
    assert document.blocks[6].info == "py"


def test_blanks_are_those_a_browser_shows() -> None:
    (block,) = page("<p>  a\n   <b> b </b>  c<br>  d <i> </i> </p>").blocks
    assert block.runs == (Run("a "), Run("b ", bold=True), Run("c\nd"))


def test_characters_that_no_text_holds_are_none_of_it() -> None:
    assert page("<p>a&#1;b&#xFFFE;c&#0;</p>").blocks[0].text == "abc\ufffd"


def test_tables_keep_heads_spans_and_sides() -> None:
    (block,) = page(
        "<table><thead><tr><th align=right>a</th><th style='text-align: center'>b</th></tr></thead>"
        "<tr><td rowspan=2>1</td><td>2<br>3</td></tr><tr><td><ul><li>x</li><li>y</li></ul></td></tr>"
        "<tr><td colspan=2>w<table><tr><td>n</td></tr></table></td></tr></table>"
    ).blocks
    assert block.table
    assert (block.table.header_rows, block.table.aligns) == (1, ("right", "center"))
    assert [[(c.text, c.colspan, c.rowspan) for c in row] for row in block.table.rows] == [
        [("a", 1, 1), ("b", 1, 1)], [("1", 1, 2), ("2\n3", 1, 1)], [("x\ny", 1, 1)], [("w\nn", 2, 1)],
    ]  # fmt: skip
    assert not page("<table><tr><td>a</td></tr></table>").blocks[0].table.header_rows  # type: ignore[union-attr]  # it is one


NAMED = [
    ("<script>alert(1)</script><template>x</template>", {"scripts": 2}),
    ("<iframe src=x>in</iframe><object>o</object><video></video>", {"embedded_object": 3}),
    ("<svg><text>drawn</text></svg>", {"drawing": 1}),
    ("<input name=a><select><option>1</select><textarea>t</textarea><button>b</button>", {"form_fields": 4}),
    ("<u>u</u><sub>2</sub>", {"other_marks": 2}),
    ("<a href='javascript:x()'>a</a><a href='  vbscript:x'>b</a><a href='#ok'>c</a><a href='foo:bar'>d</a>", {"unsafe_link": 3}),
    ("<img src='data:image/png;base64,AAAA' alt=p>", {"image_data": 1}),
    ("<p>a <img src=b.png alt=q> c</p>", {"image_data": 1, "inline_image": 1}),
    ("<!-- one --><!-- two -->", {"html_comments": 2}),
    ("<p hidden>h</p>", {"hidden_text": 1}),
    ("<dl><dt>t<dd>d</dl>", {"definition_list": 1}),
    ("<ruby>漢<rt>kan</rt></ruby>", {"ruby": 1}),
]


@pytest.mark.parametrize(("body", "codes"), NAMED, ids=[next(iter(codes)) for _, codes in NAMED])
def test_what_is_not_kept_is_named(body: str, codes: dict[str, int]) -> None:
    assert lost(body) == codes
    text = page(f"<p>x</p>{body}").text
    for hostile in ("alert", "javascript", "base64,AAAA", "drawn"):
        assert hostile not in text
    assert all("javascript" not in run.link for b in page(f"<p>x</p>{body}").blocks for run in b.runs)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("<meta charset=gb2312><p>公文处理</p>".encode("gbk"), "公文处理"),
        ("<p>公文处理办法</p>".encode("gb18030"), "公文处理办法"),
        ("<meta http-equiv=x content='text/html; charset=shift_jis'><p>日本語です</p>".encode("shift_jis"), "日本語です"),
        ("\ufeff<p>bom</p>".encode("utf-16"), "bom"),
        (b"<meta charset=latin-1><p>caf\xe9</p>", "café"),
        ("<meta charset=nonsense><p>é</p>".encode(), "é"),
    ],
)  # fmt: skip
def test_the_encoding_is_found(data: bytes, text: str) -> None:
    document = read("a.html", data)
    assert document.blocks[0].text == text
    assert ("encoding" in {loss.code for loss in document.losses}) == (data.decode("utf-8", "replace").find("\ufffd") >= 0)


HOSTILE = {
    "open": "<div>" * 200_000 + "x", "marks": "<b><i>" * 30_000 + "x", "anchors": "<a href=x>" * 30_000 + "x", "comments": "<!--" * 200_000,
    "less": "<" * 200_000, "attributes": "<p " + "a=b " * 100_000 + ">x</p>", "entities": "&amp" * 100_000, "scripts": "<script>" * 100_000,
    "tables": "<table><tr><td>" * 3_000 + "x", "hrefs": "href" * 100_000, "headless": "<title" * 100_000,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_pages_made_to_be_slow_are_read_or_refused(name: str) -> None:
    began = time.process_time()
    try:
        assert page(f"<p>x</p>{HOSTILE[name]}").blocks
    except ProblemError as refused:
        assert refused.problem.details["reason"] in ("nested_too_deep", "too_many_characters")  # noqa: PT017  # both are right
    assert time.process_time() - began < 20, "and not after minutes"


def test_deep_lists_end_at_a_depth_that_is_named() -> None:
    document = page("<ul><li>a" * 100)
    assert max(b.depth for b in document.blocks) == 40
    assert {loss.code for loss in document.losses} >= {"nested_too_deep"}
    assert sum(b.text == "a" for b in document.blocks) == 100


@given(st.text("<>/abp\"'=&;! ultdirh1", max_size=200))
def test_any_text_is_a_page_or_refused_by_name(text: str) -> None:
    try:
        assert page(text).blocks
    except ProblemError as refused:
        assert refused.problem.details["reason"] == "empty"  # noqa: PT017  # both are right
