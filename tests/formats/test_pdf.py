"""PDF: lines in the order they stand, paragraphs over line and page ends, places."""

# ruff: noqa: E501 - a row of a table is a line
from __future__ import annotations

from pathlib import Path

import pytest

from polyloop.formats import read, same_text, write
from polyloop.formats.blocks import Block, Document, Run
from polyloop.formats.pdf_in import read_pdf
from polyloop.formats.reflow import Line, grouped_page_lines, paragraph

FIXTURES = Path(__file__).parent / "fixtures"
SOURCE = (Path(__file__).parents[2] / "src/polyloop/audit/sample/notice.md").read_text("utf-8")


def pdf(name: str) -> Document:
    return read(name, (FIXTURES / name).read_bytes())


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("name", ["libreoffice-notice.pdf", "chromium-notice.pdf"])
def test_paragraphs_are_those_of_the_source(name: str) -> None:
    found = {squeezed(block.text) for block in pdf(name).blocks}
    wanted = [squeezed(line.lstrip("# ").removeprefix("附件：")) for line in SOURCE.splitlines() if line and not line.startswith("|")]
    missing = [line for line in wanted if line not in found and f"附件：{line}" not in found]
    assert missing == []


def test_places_are_page_and_line() -> None:
    document = pdf("libreoffice-notice.pdf")
    deadline = next(block for block in document.blocks if block.text.startswith("请各地区"))
    assert deadline.span is not None
    assert (deadline.span.unit, deadline.span.page) == ("line", 2)
    assert deadline.span.end - deadline.span.start == deadline.text.count("\n")
    assert {loss.code: loss.count for loss in document.losses} == {"pdf_layout": 1, "page_margin": 3}


def line(
    text: str, number: int, left: float = 50, right: float = 500, page: int = 1, top: float | None = None, size: float = 12, *, row: bool = False
) -> Line:
    return Line(text, number, page, left, right, size, 700 - 20 * number if top is None else top, row)


def texts(*lines: Line) -> list[str]:
    return [paragraph(group, 0).text for group in grouped_page_lines(lines, 550)]


TABLE = [
    ("a full line runs on", [line("甲" * 37, 1), line("乙乙", 2, right=74)], ["甲" * 37 + "\n乙乙"]),
    ("a short line ends", [line("甲" * 37, 1), line("乙", 2, right=74), line("丙", 3, right=74)], ["甲" * 37 + "\n乙", "丙"]),
    ("an indent begins", [line("甲" * 37, 1), line("乙乙", 2, left=74)], ["甲" * 37, "乙乙"]),
    ("a number begins", [line("甲" * 37, 1), line("（二）乙", 2)], ["甲" * 37, "（二）乙"]),
    ("another size begins", [line("甲" * 37, 1), line("乙乙", 2, size=16)], ["甲" * 37, "乙乙"]),
    ("a wide gap begins", [line("甲" * 37, 1), line("乙乙", 2, top=600)], ["甲" * 37, "乙乙"]),
    ("over the page", [line("甲" * 37, 30), line("乙乙", 1, page=2, right=74)], ["甲" * 37 + "\n乙乙"]),
    ("under a bullet", [line("1. " + "甲" * 36, 1), line("乙乙", 2, left=68, right=90)], ["1. " + "甲" * 36 + "\n乙乙"]),
    ("a word that would have fitted", [line("The end of it", 1, right=300), line("Next line of the full width here", 2)], ["The end of it", "Next line of the full width here"]),
    ("a word that would not", [line("The end of it is somewhere near", 1, right=470), line("extraordinarily far from the beginning", 2)],
     ["The end of it is somewhere near\nextraordinarily far from the beginning"]),
    ("a word with a hyphen at the line end", [line("The parties agree-", 1, right=150), line("ment ends here", 2, right=120)], ["The parties agree-\nment ends here"]),
    ("a dash at the line end", [line("The parties -", 1, right=150), line("ment ends here", 2, right=120)], ["The parties -", "ment ends here"]),
    ("rows of a table", [line("a b", 1, row=True), line("c d", 2, row=True)], ["a b", "c d"]),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "wanted"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_lines_to_paragraphs(lines: list[Line], wanted: list[str]) -> None:
    assert texts(*lines, line("满" * 37, 99, page=9, size=30))[:-1] == wanted


def test_a_paragraph_over_a_page_end_knows_where_it_turned() -> None:
    block = paragraph([line("a", 30), line("b", 31), line("c", 1, page=2)], 0)
    assert block.span is not None
    assert (block.span.page, block.span.start, block.span.end_page, block.span.end, block.span.turn) == (1, 30, 2, 1, 2)


def pages(*texts: list[str]) -> bytes:
    """A small PDF in a standard font, a text line per entry."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids: list[str] = []
    for lines in texts:
        stream = "BT /F 12 Tf 50 750 Td 15 TL " + " ".join(f"({each}) '" for each in lines) + " ET"
        objects.append(f"<</Length {len(stream)}>>stream\n{stream}\nendstream")
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 3 0 R>>>>/Contents {len(objects)} 0 R>>")
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(kids)}>>"
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj{content}endobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    return (
        out
        + f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{len(out)}\n%%EOF".encode()
    )


def test_page_numbers_and_running_heads_are_left_out_and_named() -> None:
    data = pages(*[["Annual report", f"Text of page {number} ends here.", f"- {number} -"] for number in range(1, 5)])
    document = read_pdf("a.pdf", data)
    assert [block.text for block in document.blocks] == [f"Text of page {number} ends here." for number in range(1, 5)]
    assert {loss.code: loss.count for loss in document.losses} == {"pdf_layout": 1, "page_margin": 8}


def margins(*texts: list[str]) -> tuple[list[str], int]:
    document = read_pdf("a.pdf", pages(*texts))
    return [line for block in document.blocks for line in block.text.split("\n")], sum(e.count for e in document.losses if e.code == "page_margin")


VALUES = [
    ([["Sum", "9800", "2024", "12%"]], ["Sum", "9800", "2024", "12%"], 0),
    ([["Sum", "7", "8"], ["Other", "8", "9"]], ["Sum", "7", "8", "Other", "8", "9"], 0),
    ([["a", "12%"], ["b", "13%"], ["c", "14%"]], ["a", "12%", "b", "13%", "c", "14%"], 0),
    ([["a", "-1"]], ["a", "-1"], 0),
    ([["a", "100"], ["b", "100"], ["c", "100"]], ["a", "100", "b", "100", "c", "100"], 0),
    ([["a", "- 1 -"]], ["a"], 1),
    ([["2024", "a", "9800", "1"], ["2025", "b", "9801", "2"]], ["2024", "a", "9800", "2025", "b", "9801"], 2),
    ([["a", "45"], ["b", "46"], ["c", "47"]], ["a", "b", "c"], 3),
    ([["a", "Page 1 of 2"], ["b", "Page 2 of 2"]], ["a", "b"], 2),
    ([["a", "1/3"]], ["a", "1/3"], 0),
]


@pytest.mark.parametrize(("given", "kept", "dropped"), VALUES, ids=[str(each[0]) for each in VALUES])
def test_only_page_numbers_are_taken_for_them(given: list[list[str]], kept: list[str], dropped: int) -> None:
    assert margins(*given) == (kept, dropped)


WORDS = "Each party shall deliver a well-documented, long-term, end-to-end plan and a state-of-the-art method, audit-ready and risk-free. "


@pytest.mark.parametrize("more", range(6))
def test_hyphens_at_line_ends_stay_and_end_their_line(more: int) -> None:
    told = "x" * more + WORDS * 4
    document = Document((Block("paragraph", (Run(told),)),))
    data = write(document, "pdf")
    same_text(document, "pdf", data)
    (block,) = read("a.pdf", data).blocks
    assert any(run.text.endswith("-") for run in block.runs), "a line ends so"
    for target in ("docx", "html"):
        assert read(f"a.{target}", write(Document((block,)), target)).blocks[0].text == told.strip(), "and is set without a blank"


def test_a_hyphen_that_only_shows_where_a_word_is_broken_is_not_set() -> None:
    document = Document((Block("paragraph", (Run(WORDS.replace("-", "\xad") * 4),)),))
    same_text(document, "pdf", write(document, "pdf"))


def test_a_page_without_text_is_named() -> None:
    document = read_pdf("a.pdf", pages(["One."], [], ["Three."]))
    assert [(loss.code, loss.detail) for loss in document.losses] == [("pdf_layout", ""), ("page_without_text", "2")]
    assert [block.span.page for block in document.blocks if block.span] == [1, 3]
