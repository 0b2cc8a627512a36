"""A sentence for each kind of loss, in Chinese and English."""

from __future__ import annotations

from typing import Final

LOSS_WORDS: Final[dict[str, tuple[str, str]]] = {
    "cell_blocks": ("单元格内的列表、标题等按行保留", "lists, headings and the like inside cells are kept as lines"),
    "chart_sheets": ("图表工作表未读取", "chart sheets are not read"),
    "code_language": ("代码块的语言标记未保留", "the language of code blocks is not kept"),
    "comments": ("批注未读取", "comments are not read"),
    "contents_table": ("自动目录未读取", "the generated table of contents is not read"),
    "control_characters": ("控制字符未写出", "control characters are not written"),
    "definition_list": ("定义列表按段落保留", "definition lists are kept as paragraphs"),
    "docx_layout": ("字体、字号、颜色、对齐和分页未保留", "fonts, sizes, colours, alignment and page breaks are not kept"),
    "drawing": ("图形未保留", "drawn shapes are not kept"),
    "embedded_object": ("嵌入对象未读取", "embedded objects are not read"),
    "encoding": ("原文编码不是 UTF-8，写回时为 UTF-8", "the source is not UTF-8; it is written as UTF-8"),
    "file_as_link": ("附件块写成链接", "attached files are written as links"),
    "footnote_position": ("脚注和尾注放在文末，正文中的位置未保留", "notes follow the text; their places in it are not kept"),
    "form_fields": ("表单控件未读取", "form fields are not read"),
    "formula_as_code": ("含有公式标记的公式写成代码块", "formulas that hold the formula signs are written as code"),
    "formula_layout": ("公式只保留文字", "formulas are kept as text only"),
    "formula_without_value": ("没有计算结果的公式读作空", "formulas without a computed value are read as empty"),
    "formulas_as_values": ("公式只保留计算结果", "formulas are kept as their values"),
    "header_footer": ("页眉页脚未读取", "headers and footers are not read"),
    "heading_too_deep": ("第七级及更深的标题按六级写出", "headings below level 6 are written as level 6"),
    "hidden_sheet": ("隐藏的工作表也已读取", "hidden sheets are read too"),
    "hidden_text": ("隐藏的内容也已读取", "hidden content is read too"),
    "html_comments": ("网页注释未读取", "comments of the markup are not read"),
    "html_layout": ("网页样式和版面未保留", "styles and layout of the page are not kept"),
    "image_data": ("图片内容未保留，只保留位置和名称", "pictures are kept by place and name, not by content"),
    "inline_html": ("行内 HTML 按文字保留", "inline HTML is kept as text"),
    "inline_image": ("行内图片按链接保留", "inline images are kept as links"),
    "italic": ("斜体未保留", "italics are not kept"),
    "labelled_item": ("编号写明的列表项按段落写出", "items whose number is spelled out are written as paragraphs"),
    "list_label": ("列表编号样式改为数字", "list numbers are written in digits"),
    "merged_cells": ("合并单元格拆开写出", "merged cells are written apart"),
    "nested_table": ("单元格内的表格按文字保留", "tables inside cells are kept as text"),
    "nested_too_deep": ("嵌套过深的内容未读取", "content nested too deeply is not read"),
    "nesting": ("列表和引用内的块按较浅的层级写出", "blocks inside lists and quotes are written less deep"),
    "other_marks": ("下划线、上下标等标记未保留", "underline, superscript and the like are not kept"),
    "page_margin": ("页码和重复的页眉页脚行已略去", "page numbers and repeated lines at page edges are left out"),
    "page_without_text": ("该页没有文字，可能是扫描件", "a page holds no text; it may be a scan"),
    "pdf_layout": ("PDF 按文字行读取，表格、标题级别和图片未保留", "PDF is read as lines of text: tables, heading levels and pictures are not kept"),
    "ragged_rows": ("各行列数不同，按原样保留", "rows of different lengths are kept as they are"),
    "raw_as_code": ("原样保留的内容按代码写出", "raw content is written as code"),
    "raw_sanitised": ("原样保留的内容经过安全过滤", "raw content is sanitised"),
    "ruby": ("注音未保留", "ruby text is not kept"),
    "scripts": ("脚本未读取", "scripts are not read"),
    "symbol_font": ("符号字体中的字符未读取", "characters of symbol fonts are not read"),
    "table_without_heads": ("表头按一行写出", "the table is written with one head row"),
    "text_box_position": ("文本框内容放在所在段落之后", "text boxes follow the paragraph that they hang on"),
    "tracked_changes": ("修订按接受后的结果读取", "tracked changes are read as accepted"),
    "unsafe_link": ("不安全的链接只保留文字", "unsafe links are kept as text"),
    "xlsx_layout": ("单元格格式、数字格式、列宽和条件格式未保留", "cell styles, number formats, column widths and conditional formats are not kept"),
}  # fmt: skip


def say_loss(code: str, lang: str, count: int = 1, detail: str = "") -> str:
    """The sentence of a loss, zh or en, with how often and where."""
    zh = lang == "zh"
    times = (f"（{count}）" if zh else f" ({count})") if count > 1 else ""
    instance = (f"：{detail}" if zh else f": {detail}") if detail else ""
    return LOSS_WORDS[code][0 if zh else 1] + times + instance
