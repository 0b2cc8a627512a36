"""Word files: what is read of them, and that what we write is read by others."""

# ruff: noqa: E501 - a row of a table is a line
from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import docx
import pytest
from docx.oxml.ns import qn

from polyloop.formats import losses, read, write
from polyloop.formats.blocks import Block, Cell, Document, Run, Span, Table, grid
from tests.formats.word import p, r, word

FIXTURES = Path(__file__).parent / "fixtures"
CHINESE_LIST = (
    '<w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="chineseCounting"/><w:lvlText w:val="%1、"/></w:lvl>'
    '<w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="chineseCounting"/><w:lvlText w:val="（%2）"/></w:lvl>'
    '<w:lvl w:ilvl="2"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1.%2.%3"/><w:isLgl/></w:lvl></w:abstractNum>'
    '<w:abstractNum w:abstractNumId="2"><w:lvl w:ilvl="0"><w:start w:val="3"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>'
    '<w:lvl w:ilvl="1"><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="(%2)"/></w:lvl></w:abstractNum>'
    '<w:abstractNum w:abstractNumId="3"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/><w:lvlText w:val="•"/></w:lvl></w:abstractNum>'
    '<w:num w:numId="1"><w:abstractNumId w:val="1"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="2"/></w:num>'
    '<w:num w:numId="3"><w:abstractNumId w:val="3"/></w:num>'
    '<w:num w:numId="4"><w:abstractNumId w:val="2"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num>'
)


def item(text: str, list_id: int, depth: int = 0) -> str:
    return p(text, properties=f'<w:numPr><w:ilvl w:val="{depth}"/><w:numId w:val="{list_id}"/></w:numPr>')


def blocks(body: str, **parts: str) -> list[Block]:
    return list(read("a.docx", word(body, **parts)).blocks)


def lost(body: str, **parts: str) -> dict[str, int]:
    return {loss.code: loss.count for loss in read("a.docx", word(body, **parts)).losses} | {"docx_layout": 1}


def test_numbers_are_computed_as_word_does() -> None:
    body = item("甲", 1) + item("乙", 1, 1) + item("丙", 1, 1) + item("丁", 1, 2) + item("戊", 1) + item("己", 1, 1)
    body += item("a", 2) + item("b", 2, 1) + item("c", 2, 1) + item("d", 2) + item("e", 4) + item("f", 4) + item("g", 3)
    found = [(block.type, block.label, block.number, block.depth, block.text) for block in blocks(body, numbering=CHINESE_LIST)]
    assert found == [
        ("paragraph", "一、", 0, 0, "甲"), ("paragraph", "（一）", 0, 0, "乙"), ("paragraph", "（二）", 0, 0, "丙"), ("paragraph", "1.2.1", 0, 0, "丁"),
        ("paragraph", "二、", 0, 0, "戊"), ("paragraph", "（一）", 0, 0, "己"),
        ("numbered", "", 3, 0, "a"), ("numbered", "(a)", 1, 1, "b"), ("numbered", "(b)", 2, 1, "c"), ("numbered", "", 4, 0, "d"),
        ("numbered", "", 1, 0, "e"), ("numbered", "", 2, 0, "f"), ("bulleted", "", 0, 0, "g"),
    ]  # fmt: skip


def test_headings_by_style_outline_and_chain() -> None:
    styles = (
        '<w:style w:type="paragraph" w:styleId="1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="mine"><w:name w:val="Mine"/><w:basedOn w:val="1"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="o"><w:name w:val="O"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="T"><w:name w:val="Title"/></w:style>'
        '<w:style w:type="paragraph" w:styleId="loop"><w:name w:val="Loop"/><w:basedOn w:val="loop"/></w:style>'
    )
    names = ["T", "1", "mine", "o", "loop", "none"]
    body = "".join(p("标题", properties=f'<w:pStyle w:val="{name}"/>') for name in names) + p("d", properties='<w:outlineLvl w:val="3"/>')
    found = read("a.docx", word(body, styles=styles))
    assert [(block.type, block.level) for block in found.blocks] == [
        ("heading", 1), ("heading", 1), ("heading", 1), ("heading", 3), ("paragraph", 0), ("paragraph", 0), ("heading", 4),
    ]  # fmt: skip
    assert found.title == "标题"
    assert [block.span for block in found.blocks][:2] == [Span("paragraph", 1, 1), Span("paragraph", 2, 2)]


def test_tracked_changes_are_read_as_accepted() -> None:
    body = (
        "<w:p>" + r("甲") + f"<w:ins>{r('加')}</w:ins><w:del><w:r><w:delText>删</w:delText></w:r></w:del>" + r("乙") + "</w:p>"
        + p("前", properties="<w:rPr><w:del/></w:rPr>") + p("后")
        + f"<w:p><w:moveFrom>{r('旧')}</w:moveFrom>{r('丙')}<w:moveTo>{r('新')}</w:moveTo></w:p>"
        + "<w:tbl><w:tr><w:tc>" + p("留") + "</w:tc></w:tr><w:tr><w:trPr><w:del/></w:trPr><w:tc>" + p("去") + "</w:tc></w:tr></w:tbl>"
        + p("尾", properties="<w:rPr><w:del/></w:rPr>")
    )  # fmt: skip
    assert [block.text for block in blocks(body)] == ["甲加乙", "前后", "丙新", "留", "尾"]
    assert lost(body)["tracked_changes"] == 7


def test_links_fields_breaks_and_marks() -> None:
    field = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
    body = p(
        f'<w:hyperlink r:id="h">{r("站")}</w:hyperlink>', f'<w:hyperlink w:anchor="x">{r("锚")}</w:hyperlink>',
        field.format("begin"), '<w:r><w:instrText> HYPERLINK "http://f" </w:instrText></w:r>', field.format("separate"), r("域"), field.format("end"),
        field.format("begin"), "<w:r><w:instrText> PAGE </w:instrText></w:r>", field.format("separate"), r("7"), field.format("end"),
        '<w:r><w:t>a</w:t><w:br/><w:t>b</w:t><w:tab/><w:noBreakHyphen/><w:br w:type="page"/></w:r>',
        r("粗", "<w:b/>"), r("不", '<w:b w:val="0"/>'), r("斜", "<w:i/><w:strike/>"), r("线", '<w:u w:val="single"/>'),
    )  # fmt: skip
    document = read("a.docx", word(body, {"h": ("hyperlink", "https://e.cn/?a=1&amp;b=2")}))
    assert [(run.text, run.link) for run in document.blocks[0].runs][:3] == [("站", "https://e.cn/?a=1&b=2"), ("锚", "#x"), ("域", "http://f")]
    assert document.blocks[0].text == "站锚域7a\nb\t-粗不斜线"
    marked = {run.text: (run.bold, run.italic, run.strike) for run in document.blocks[0].runs}
    assert (marked["粗"], marked["不"], marked["斜"]) == ((True, False, False), (False, False, False), (False, True, True))
    assert {loss.code for loss in document.losses} == {"docx_layout", "other_marks"}


def test_tables_keep_heads_and_spans() -> None:
    def cell(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr>{p(text)}</w:tc>"

    wide, tall = cell("宽", '<w:gridSpan w:val="2"/>'), cell("高", '<w:vMerge w:val="restart"/>')
    rows = [
        f"<w:tr><w:trPr><w:tblHeader/></w:trPr>{wide}{tall}</w:tr>",
        f"<w:tr>{cell('1')}{cell('2')}{cell('', '<w:vMerge/>')}</w:tr>",
        f"<w:tr><w:trPr><w:gridBefore w:val='1'/></w:trPr>{cell('3')}<w:sdt><w:sdtContent>{cell('4')}</w:sdtContent></w:sdt></w:tr>",
    ]
    nested = f"<w:tc>{p('外')}<w:tbl><w:tr><w:tc>{p('内')}</w:tc></w:tr></w:tbl>{p('')}</w:tc>"
    body = f"<w:tbl>{''.join(rows)}</w:tbl><w:tbl><w:tr>{nested}</w:tr></w:tbl>"
    found = blocks(body)
    assert found[0].table == Table(
        (
            (Cell((Run("宽"),), colspan=2), Cell((Run("高"),), rowspan=2)),
            (Cell((Run("1"),)), Cell((Run("2"),))),
            (Cell(), Cell((Run("3"),)), Cell((Run("4"),))),
        ),
        header_rows=1,
    )
    assert grid(found[0].table) == [[(0, 0), (0, 0), (0, 1)], [(1, 0), (1, 1), (0, 1)], [(2, 0), (2, 1), (2, 2)]]
    assert found[0].span == Span("table", 1, 1)
    assert found[1].text == "外\n内"
    assert lost(body)["nested_table"] == 1


def test_what_is_not_text_of_the_body_is_named() -> None:
    drawing = '<w:r><w:drawing><wp:inline><wp:docPr id="1" name="图1" descr="厂区"/><a:blip r:embed="i"/></wp:inline></w:drawing></w:r>'
    box = "<w:r><mc:AlternateContent><mc:Choice><w:drawing><w:txbxContent>{0}</w:txbxContent></w:drawing></mc:Choice><mc:Fallback><w:pict><w:txbxContent>{0}</w:txbxContent></w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    body = (
        p("正文", drawing) + p("题", box.format(p("框内"))) + p("<w:r><w:object/></w:r>", "x") + p('<w:r><w:sym w:char="F0FC"/></w:r>', "y")
        + p("<m:oMath><m:r><m:t>E=mc</m:t></m:r></m:oMath>") + p("<w:ruby><w:rt>" + r("han") + "</w:rt><w:rubyBase>" + r("汉") + "</w:rubyBase></w:ruby>")
        + p("目录1", properties='<w:pStyle w:val="TOC1"/>') + p("<w:r><w:drawing/></w:r>", "z")
        + '<w:p><w:r><w:pict><v:rect xmlns:o="urn:schemas-microsoft-com:office:office" o:hr="t"/></w:pict></w:r></w:p>'
        + p(r("注") + '<w:r><w:footnoteReference w:id="2"/></w:r>')
    )  # fmt: skip
    parts = {
        "styles": '<w:style w:type="paragraph" w:styleId="TOC1"><w:name w:val="toc 1"/></w:style>',
        "footnotes": f'<w:footnote w:type="separator" w:id="0">{p("")}</w:footnote><w:footnote w:id="2">{p("脚注")}</w:footnote>',
        "comments": f'<w:comment w:id="1">{p("批")}</w:comment><w:comment w:id="2">{p("注")}</w:comment>',
    }
    data = word(body, {"i": ("image", "media/i.png"), "hd": ("header", "header9.xml")}, **parts)
    document = read("a.docx", data)
    assert [(block.type, block.text) for block in document.blocks] == [
        ("paragraph", "正文"), ("image", "厂区"), ("paragraph", "题"), ("paragraph", "框内"), ("paragraph", "x"), ("paragraph", "y"),
        ("formula", "E=mc"), ("paragraph", "汉"), ("paragraph", "z"), ("divider", ""), ("paragraph", "注"), ("paragraph", "脚注"),
    ]  # fmt: skip
    assert document.blocks[1].src == "word/media/i.png"
    assert {loss.code: loss.count for loss in document.losses} == {
        "comments": 2, "contents_table": 1, "docx_layout": 1, "drawing": 1, "embedded_object": 1, "footnote_position": 1, "formula_layout": 1,
        "image_data": 1, "ruby": 1, "symbol_font": 1, "text_box_position": 1,
    }  # fmt: skip


ALTERNATIVES = "<mc:AlternateContent><mc:Choice>{}</mc:Choice><mc:Fallback>{}</mc:Fallback></mc:AlternateContent>"


def test_of_alternatives_the_first_is_read_wherever_they_stand() -> None:
    both = ALTERNATIVES.format
    inner = both(both(p("一"), p("二")), p("三"))
    assert [block.text for block in blocks(inner + p("后"))] == ["一", "后"]
    assert [block.text for block in blocks(p(both(r("一"), r("二")), both(f"<w:hyperlink>{r('三')}</w:hyperlink>", r("四"))))] == ["一三"]
    box = (
        "<w:r>"
        + both(f"<w:drawing><w:txbxContent>{p('框')}</w:txbxContent></w:drawing>", f"<w:pict><w:txbxContent>{p('框')}</w:txbxContent></w:pict>")
        + "</w:r>"
    )
    table = f"<w:tbl><w:tr><w:tc>{p('格', box)}</w:tc></w:tr></w:tbl>"
    assert [block.text for block in blocks(table)] == ["格\n框"]
    assert lost(table) == {"docx_layout": 1, "text_box_position": 1}
    assert [block.text for block in blocks(both("", p("二")) + p("后"))] == ["后"]


def test_what_is_hidden_is_read_and_named() -> None:
    assert [block.text for block in blocks(p("明", r("暗", "<w:vanish/>")))] == ["明暗"]
    assert lost(p("明", r("暗", "<w:vanish/>"))) == {"docx_layout": 1, "hidden_text": 1}
    rows = "".join(
        f"<w:tr><w:tc><w:tcPr><w:vMerge{start}/></w:tcPr>{p(text)}</w:tc></w:tr>"
        for text, start in (("上", ' w:val="restart"'), ("下", ""), ("", ""))
    )
    (block,) = blocks(f"<w:tbl>{rows}</w:tbl>")
    assert block.table == Table(((Cell((Run("上\n下"),), rowspan=3),), (), ()))
    assert lost(f"<w:tbl>{rows}</w:tbl>") == {"docx_layout": 1, "hidden_text": 1}


def test_a_link_runs_over_line_ends_and_tabs() -> None:
    body = p('<w:hyperlink w:anchor="x"><w:r><w:t>a</w:t><w:br/><w:t>b</w:t><w:tab/><w:t>c</w:t></w:r></w:hyperlink>')
    assert blocks(body)[0].runs == (Run("a\nb\tc", link="#x"),)
    assert read("a.html", b"<p><a href='#x'><b>a<br>b</b></a><br>c</p>").blocks[0].runs == (Run("a\nb", bold=True, link="#x"), Run("\nc"))


def test_headers_are_no_text_and_named() -> None:
    document = read("a.docx", word(p("文"), {"hd": ("header", "hd.xml")}, header1=p("页眉")))
    assert document.text == "文"
    assert "header_footer" in {loss.code for loss in document.losses}


def test_todo_code_quote_and_continued_items() -> None:
    names = [("C", "Source Code"), ("Q", "Quote"), ("F", "Formula"), ("L", "List Continue 2"), ("B", "List Bullet 2")]
    styles = "".join(f'<w:style w:type="paragraph" w:styleId="{key}"><w:name w:val="{name}"/></w:style>' for key, name in names)
    styled = lambda key, text: p(text, properties=f'<w:pStyle w:val="{key}"/>')  # noqa: E731 - four letters for a table
    body = (
        styled("C", "a = 1")
        + styled("C", "b = 2")
        + styled("Q", "引")
        + styled("C", "c")
        + p("☑ 办")
        + p("☐ 未")
        + styled("F", "x+y")
        + styled("L", "续")
    )
    body += p("点", properties='<w:pStyle w:val="B"/><w:numPr><w:numId w:val="3"/></w:numPr>')
    found = [(block.type, block.text, block.done, block.depth) for block in blocks(body, styles=styles, numbering=CHINESE_LIST)]
    assert found == [
        ("code", "a = 1\nb = 2", False, 0), ("quote", "引", False, 0), ("code", "c", False, 0), ("todo", "办", True, 0), ("todo", "未", False, 0),
        ("formula", "x+y", False, 0), ("paragraph", "续", False, 2), ("bulleted", "点", False, 1),
    ]  # fmt: skip


TREE = Document((
    Block("heading", (Run("一、总则"),), level=1),
    Block("paragraph", (Run("正文 "), Run("粗", bold=True), Run("斜", italic=True), Run("删", strike=True), Run("code", code=True), Run("链", link="https://e.cn/?a&b"))),
    Block("bulleted", (Run("甲"),)), Block("bulleted", (Run("乙"),), depth=1), Block("paragraph", (Run("续"),), depth=2),
    Block("numbered", (Run("三"),), number=3), Block("numbered", (Run("四"),), number=4), Block("paragraph", (Run("隔"),)),
    Block("numbered", (Run("一"),), number=1), Block("numbered", (Run("内"),), number=1, depth=1), Block("numbered", (Run("二"),), number=2),
    Block("todo", (Run("办"),), done=True), Block("todo", (Run("未"),)), Block("quote", (Run("引"),)), Block("code", (Run("a\n  b"),)),
    Block("formula", (Run("x<y"),)), Block("divider"), Block("heading", (Run("末"),), level=9),
    Block("table", table=Table(((Cell((Run("项"),), colspan=2),), (Cell((Run("a"),), rowspan=2), Cell((Run("1"),))), (Cell((Run("2"),)),)), 1)),
))  # fmt: skip


def test_what_we_write_reads_back() -> None:
    again = read("a.docx", write(TREE, "docx"))
    plain = [(b.type, b.runs, b.level, b.depth, b.number, b.label, b.done, b.table) for b in again.blocks]
    assert plain == [(b.type, b.runs, b.level, b.depth, b.number, b.label, b.done, b.table) for b in TREE.blocks]
    assert write(TREE, "docx") == write(TREE, "docx")
    assert losses(TREE, "docx") == ()


def test_what_we_write_names_chinese_fonts_and_opens_elsewhere() -> None:
    opened = docx.Document(io.BytesIO(write(TREE, "docx")))
    fonts = [style.element.rPr.rFonts.get(qn("w:eastAsia")) for style in opened.styles if style.name in ("Heading 1", "Source Code")]
    assert fonts == ["SimHei", "SimSun"]
    defaults = opened.styles.element.find(qn("w:docDefaults"))
    assert defaults.find(f".//{qn('w:rFonts')}").get(qn("w:eastAsia")) == "SimSun"
    assert [each.text for each in opened.paragraphs[:3]] == ["一、总则", "正文 粗斜删code链", "甲"]
    assert opened.tables[0].cell(0, 0).text == opened.tables[0].cell(0, 1).text == "项"
    assert opened.tables[0].cell(1, 0).text == opened.tables[0].cell(2, 0).text == "a"


@pytest.mark.needs("soffice")
def test_what_we_write_is_read_by_libreoffice(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(write(TREE, "docx"))
    profile = f"-env:UserInstallation=file://{tmp_path}/profile"
    command = [
        shutil.which("soffice") or "soffice",
        profile,
        "--headless",
        "--convert-to",
        "txt:Text (encoded):UTF8",
        "--outdir",
        str(tmp_path),
        str(tmp_path / "a.docx"),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=100)
    text = (tmp_path / "a.txt").read_text("utf-8-sig")
    for expected in ("一、总则", "正文 粗斜删code链", "3. 三", "4. 四", "1. 一", "2. 二", "办", "a\n  b", "x<y"):
        assert expected in text


def test_unsafe_links_and_controls_do_not_leave() -> None:
    made = Document((Block("paragraph", (Run("a\x00\x0b\ud800b", link="javascript:alert(1)"), Run("<&>\"'\ufffe"))),))
    again = read("a.docx", write(made, "docx"))
    assert [(run.text, run.link) for run in again.blocks[0].runs] == [("ab<&>\"'", "")]
    assert [loss.code for loss in losses(made, "docx")] == ["control_characters", "unsafe_link"]
