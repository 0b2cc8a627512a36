"""PDF files we set: the text is exactly the tree's, the paper shows it, and what could not be shown is named before."""

from __future__ import annotations

import difflib
import os
import subprocess
from pathlib import Path

import pypdfium2 as pdfium  # pyright: ignore[reportMissingTypeStubs]  # the library ships none
import pytest
from PIL import Image

from polyloop.contract.problem import ProblemError
from polyloop.formats import losses, read, same_text, write
from polyloop.formats.blocks import Block, Cell, Document, Run, Table
from polyloop.formats.check import squeezed
from polyloop.formats.font import characters

FIXTURES = Path(__file__).parent / "fixtures"
NOTICE = read("notice.md", (Path(__file__).parents[2] / "src/polyloop/audit/sample/notice.md").read_bytes())


def document(*blocks: Block) -> Document:
    return Document(blocks)


def text(content: str, **more: object) -> Block:
    return Block("paragraph", (Run(content, **more),))  # type: ignore[arg-type]  # marks


def pages(data: bytes, scale: float) -> list[Image.Image]:
    """Each page as a grey picture."""
    opened = pdfium.PdfDocument(data)
    return [page.render(scale=scale).to_pil().convert("L") for page in opened]


def ink(picture: Image.Image) -> int:
    return sum(count for shade, count in enumerate(picture.histogram()) if shade < 128)


def test_every_character_of_the_font_comes_back_as_itself_and_leaves_ink() -> None:
    known = sorted(characters())
    assert len(known) > 8_000
    assert {"审", "龘", "A", "é", "，"} - set(known) == {"龘"}
    rows = [known[at : at + 60] for at in range(0, len(known), 60)]
    whole = document(*(text("".join(row)) for row in rows))
    data = write(whole, "pdf")
    same_text(whole, "pdf", data)
    sample = [char for char in "审计通知采购公文处理办法" if char in known]
    shades = {char: ink(pages(write(document(text(char * 20)), "pdf"), 1)[0]) for char in sample}
    assert all(shade > 200 for shade in shades.values()), "a box, or nothing, would show"
    assert len(set(shades.values())) > len(sample) // 2, "and not the same box for each"


def test_the_text_is_the_trees_without_line_ends_and_the_bytes_are_always_the_same() -> None:
    data = write(NOTICE, "pdf")
    assert write(NOTICE, "pdf") == data
    same_text(NOTICE, "pdf", data)
    numbers = "".join(f"{b.number}." if b.type == "numbered" else "" for b in NOTICE.blocks)
    assert sorted(squeezed(read("n.pdf", data).text)) == sorted(squeezed(NOTICE.text + numbers))


@pytest.mark.needs("pdftotext")
def test_another_reader_finds_the_same_text(tmp_path: Path) -> None:
    (tmp_path / "n.pdf").write_bytes(write(NOTICE, "pdf"))
    told = subprocess.run(["pdftotext", "-raw", tmp_path / "n.pdf", "-"], check=True, capture_output=True, text=True).stdout
    assert squeezed(told) == squeezed("".join((f"{b.number}." if b.type == "numbered" else "") + b.label + b.text for b in NOTICE.blocks))


@pytest.mark.needs("tesseract")
def test_the_paper_is_read_back_by_eye(tmp_path: Path) -> None:
    """Recognised at 200 dpi; only Chinese characters are compared, because marks of a line are no text."""
    told = [b for b in NOTICE.blocks if not b.table][:16]
    wanted = "".join(char for char in "".join(b.text for b in told) if "\u4e00" <= char <= "\u9fff")
    assert len(wanted) > 200
    (picture,) = pages(write(document(*told), "pdf"), 200 / 72)
    picture.save(tmp_path / "page.png")
    words = ["tesseract", tmp_path / "page.png", "-", "-l", "chi_sim", "--psm", "6"]
    found = subprocess.run(words, check=True, capture_output=True, text=True, env={**os.environ, "OMP_THREAD_LIMIT": "1"}).stdout
    seen = "".join(char for char in found if "\u4e00" <= char <= "\u9fff")
    same = sum(block.size for block in difflib.SequenceMatcher(None, wanted, seen, autojunk=False).get_matching_blocks())
    assert same / len(wanted) >= 0.98, f"{same} of {len(wanted)}"


def test_what_the_font_lacks_is_named_and_nothing_is_written() -> None:
    wrong = document(
        text("好 \U0001f600"), Block("table", table=Table(((Cell((Run("龘"),)),),))), Block("heading", (Run("x"),), level=1, label="\u0e01")
    )
    with pytest.raises(ProblemError) as refused:
        write(wrong, "pdf")
    assert (refused.value.problem.kind, refused.value.problem.details["characters"]) == (
        "validation",
        ["U+1F600 \U0001f600", "U+9F98 龘", "U+0E01 \u0e01"],
    )
    same_text(document(text("a\u200bb\u00adc\td")), "pdf", write(document(text("a\u200bb\u00adc\td")), "pdf"))


def test_hostile_text_is_text() -> None:
    """Nothing of it is markup to the typesetter."""
    hostile = '#read("/etc/passwd") $x$ *b* _i_ `c` <l> @r \\ // /* */ #{} [x] = h - i + n / t ~ -- --- ... "q" \'q\' https://e.x <!-- -->'
    told = document(
        text(hostile), Block("code", (Run(hostile),)), Block("heading", (Run(hostile, bold=True, code=True, link="https://a/#)"),), level=9)
    )
    same_text(told, "pdf", write(told, "pdf"))


def test_tables_of_all_shapes() -> None:
    cell = Cell((Run("甲"),))
    shapes = (
        Table(((cell, cell), (cell,))), Table(((Cell((Run("宽"),), colspan=2), cell), (cell, cell, cell)), 1), Table(((),)),
        Table(((Cell((Run("高"),), rowspan=9), cell), (cell,)), aligns=("right", "center")),
        Table(((Cell((Run("长" * 3_000),)), cell),)), Table(((Cell(()),),)),
    )  # fmt: skip
    for shape in shapes:
        told = document(Block("table", table=shape), text("后"))
        same_text(told, "pdf", write(told, "pdf"))


def test_long_text_runs_over_pages_and_an_empty_document_is_a_blank_one() -> None:
    told = document(*(Block("bulleted", (Run(f"第{n}项 " + "内容" * 30),), depth=n % 5) for n in range(200)))
    data = write(told, "pdf")
    assert len(pages(data, 0.2)) > 5
    same_text(told, "pdf", data)
    same_text(document(), "pdf", write(document(), "pdf"))


def test_losses_are_named() -> None:
    told = document(text("x", italic=True), text("y", link="javascript:x"), Block("image", (Run("p"),), src="p.png"), Block("raw", (Run("<b>"),)))
    assert {loss.code for loss in losses(told, "pdf")} == {"italic", "unsafe_link", "image_data", "raw_as_code"}
