"""Plain text: encodings, lines and paragraphs."""

from __future__ import annotations

import pytest

from polyloop.formats import read, write
from polyloop.formats.blocks import Span

NOTICE = "江州市数据局关于开展登记工作的通知\n\n各区县人民政府：\n\n请于2025年3月28日前报送。联系电话：12345。\n"
ENCODINGS = [
    ("utf-8", b"", ""), ("utf-8", b"\xef\xbb\xbf", ""), ("utf-16-le", b"\xff\xfe", "utf-16-le"), ("utf-16-be", b"\xfe\xff", "utf-16-be"),
    ("utf-32-le", b"\xff\xfe\x00\x00", "utf-32-le"), ("gb18030", b"", "gb18030"), ("gbk", b"", "gb18030"),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "mark", "lost"), ENCODINGS)
def test_encodings_are_recognised(encoding: str, mark: bytes, lost: str) -> None:
    for name in ("a.txt", "a.md"):
        document = read(name, mark + NOTICE.encode(encoding))
        assert [block.text for block in document.blocks] == [line for line in NOTICE.split("\n") if line]
        assert [(loss.code, loss.detail) for loss in document.losses] == ([("encoding", lost)] if lost else [])


@pytest.mark.parametrize("text", ["中", "〇〇年", "①项目（2024）——“甲”…", "镕、喆、堃是人名，报告全文如下，请予审阅并批准实施。"])
def test_short_and_unusual_gb18030(text: str) -> None:
    assert read("a.txt", text.encode("gb18030")).text == text


def test_a_mark_at_the_head_of_markdown_stays_in_its_bytes() -> None:
    data = "\ufeff# 标题\n".encode()
    document = read("a.md", data)
    assert (document.blocks[0].type, document.title) == ("heading", "标题")
    assert write(document, "md") == data


def test_each_line_is_a_paragraph() -> None:
    document = read("a.txt", "　　第一段很长，说了一件事。\n　　第二段也说了一件事。\n第三段\r\n\r\n\r\n第四段".encode())
    assert [block.text for block in document.blocks] == ["　　第一段很长，说了一件事。", "　　第二段也说了一件事。", "第三段", "第四段"]
    assert [block.span for block in document.blocks] == [Span("line", number, number) for number in (1, 2, 3, 6)]
    assert (
        "".join(block.source or "" for block in document.blocks) == "　　第一段很长，说了一件事。\n　　第二段也说了一件事。\n第三段\r\n\r\n\r\n第四段"
    )


WRAPPED_EN = (
    "The council met on Tuesday to consider the report on flood defences that had\n"
    "been prepared by the engineers, and agreed that the works on the river wall\n"
    "should begin in the spring.\n"
    "1. The wall will be raised by half a metre along the whole of the north bank of\n"
    "the river.\n"
    "2. The cost will be met from reserves.\n"
)
WRAPPED_ZH = (
    "会议听取了市住房城乡建设局关于老旧小区改造计划的汇报，认为该项工作\n"
    "事关民生，要坚持先民生后提升的原则，把好事办好，并同意该局提出的改造\n"
    "计划。\n"
    "一、要加快工程进度，确保年底前完成全部改造任务，并同步建立健全各项长\n"
    "效管理机制。\n"
)


@pytest.mark.parametrize(("text", "starts"), [(WRAPPED_EN, ["The", "1.", "2."]), (WRAPPED_ZH, ["会议", "一、"])])
def test_hard_wrapped_lines_are_joined_and_keep_their_ends(text: str, starts: list[str]) -> None:
    document = read("a.txt", text.encode())
    assert [block.text[: len(start)] for block, start in zip(document.blocks, starts, strict=True)] == starts
    assert "\n".join(block.text for block in document.blocks) + "\n" == text
    joined = write(document, "md").decode()
    assert "\n" in joined


def test_wraps_are_no_breaks_in_other_formats() -> None:
    page = write(read("a.txt", WRAPPED_ZH.encode()), "html").decode()
    assert "该项工作事关民生" in page
    page = write(read("a.txt", WRAPPED_EN.encode()), "html").decode()
    assert "that had been prepared" in page
    again = read("a.docx", write(read("a.txt", WRAPPED_EN.encode()), "docx"))
    assert "that had been prepared" in again.text
