"""Comma-separated values and workbooks as tables: values exactly, everything else by name, hostile archives refused."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from polyloop.contract.problem import ProblemError
from polyloop.formats import archive, read, xlsx_in
from polyloop.formats.blocks import Document

FIXTURES = Path(__file__).parent / "fixtures"


def texts(document: Document) -> list[list[list[str]]]:
    return [[[cell.text for cell in row] for row in b.table.rows] for b in document.blocks if b.table]


def codes(document: Document) -> dict[str, int]:
    return {loss.code: loss.count for loss in document.losses}


def reason(name: str, data: bytes) -> str:
    with pytest.raises(ProblemError) as refused:
        read(name, data)
    return refused.value.problem.details["reason"]


# --- csv -------------------------------------------------------------------------------------------------------------

CSV = [
    ("a.csv", "a,b\n1,2\n", [["a", "b"], ["1", "2"]]), ("a.csv", "a;b\n1,5;2\n", [["a", "b"], ["1,5", "2"]]), ("a.tsv", "a,x\tb\n", [["a,x", "b"]]),
    ("a.csv", "a\tb\n1\t2\n", [["a", "b"], ["1", "2"]]), ("a.csv", "a|b\n1|2\n", [["a", "b"], ["1", "2"]]),
    ("a.csv", "one\ntwo\n", [["one"], ["two"]]), ("a.csv", "\ufeffa,b\r\n1,2\r\n", [["a", "b"], ["1", "2"]]),
    ("a.csv", 'x,"say ""hi"", now"\n"two\nlines",\n', [["x", 'say "hi", now'], ["two\nlines", ""]]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "rows"), CSV, ids=[str(n) for n in range(len(CSV))])
def test_values_are_parted_as_they_are_written(name: str, text: str, rows: list[list[str]]) -> None:
    document = read(name, text.encode())
    assert texts(document) == [rows]
    assert document.losses == ()


def test_rows_of_different_lengths_and_other_encodings_are_named() -> None:
    document = read("table.csv", (FIXTURES / "table.csv").read_bytes())
    assert texts(document) == [[["部门", "金额", "说明"], ["一部", "1200,50", '含 "税"'], ["二部", "", "两\n行"], ["三部", "7"]]]
    assert codes(document) == {"ragged_rows": 1}
    assert codes(read("a.csv", "部门,金额\n一部,二\n".encode("gb18030"))) == {"encoding": 1}


def test_a_value_is_as_long_as_it_is() -> None:
    assert texts(read("a.csv", f'a,"{"x" * 200_000}"\n'.encode())) == [[["a", "x" * 200_000]]]
    assert reason("a.csv", f'a,"{"x" * 2_000_001}"\n'.encode()) == "too_many_characters"


def test_what_is_no_table_of_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reason("a.csv", b'a,"open\n') == "corrupt"
    assert reason("a.csv", b'a,"x"y\n') == "corrupt"
    assert reason("a.csv", b"a,b\0\n") == "undecidable_encoding"
    assert reason("a.csv", b",,,\n") == "empty"
    monkeypatch.setattr("polyloop.formats.csv_in.MAX_TABLE_PLACES", 3)
    assert reason("a.csv", b"1,2\n3,4\n") == "too_large"


@example([[";", ";\n;", "="], [";", "=", ";\n;"]])
@given(st.lists(st.lists(st.text("ab,;\"\n 一二'=", min_size=1, max_size=5), min_size=2, max_size=4), min_size=2, max_size=5))
def test_what_a_writer_quotes_comes_back(rows: list[list[str]]) -> None:
    import csv

    width = min(map(len, rows))
    rows = [["头" * n + "a" for n in range(width)], *(row[:width] for row in rows)]
    out = io.StringIO(newline="")
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    assert texts(read("a.csv", out.getvalue().encode())) == [rows]


# --- xlsx ------------------------------------------------------------------------------------------------------------


def book(fill: Any) -> bytes:
    made = openpyxl.Workbook()
    fill(made.active, made)
    out = io.BytesIO()
    made.save(out)
    return out.getvalue()


def test_a_workbook_of_libreoffice_with_every_loss_named() -> None:
    document = read("budget.xlsx", (FIXTURES / "libreoffice-budget.xlsx").read_bytes())
    assert [(b.type, b.text) for b in document.blocks if b.type == "heading"] == [("heading", "预算"), ("heading", "附表")]
    first, second = texts(document)
    assert first == [
        ["项目", "金额", "日期", "完成"], ["租金", "1200.5", "2026-03-01", "TRUE"], ["水电", "0.3", "2026-03-02 08:30:00", "FALSE"],
        ["合计", "1200.8", "", ""], ["", "", "", ""], ["合并\n说明", ""],
    ]  # fmt: skip
    assert second == [["", "", ""], ["", "12345678901234", ""], ["", "", "'=1+1"]]
    (merged,) = [b.table.rows[5][0] for b in document.blocks if b.table and len(b.table.rows) > 5]
    assert (merged.colspan, merged.rowspan) == (3, 1), "as far as there are values"
    assert codes(document) == {"comments": 1, "drawing": 2, "formulas_as_values": 3, "hidden_sheet": 1, "xlsx_layout": 1}


def test_values_are_shown_exactly() -> None:
    values = [1, -2.5, 1e300, 0.1, 10**15 + 0.0, "0012", "#N/A", None, True]
    document = read("a.xlsx", book(lambda sheet, _: (sheet.append(["h"]), *(sheet.append(["x", value]) for value in values))))
    (rows,) = texts(document)
    assert [row[1] for row in rows[1:]] == ["1", "-2.5", "1e+300", "0.1", "1000000000000000", "0012", "#N/A", "", "TRUE"]


def test_a_formula_nobody_computed_is_named() -> None:
    document = read("a.xlsx", book(lambda sheet, _: (sheet.append(["a"]), sheet.append(["=1+1"]), sheet.append(["x"]))))
    assert codes(document) == {"formula_without_value": 1, "formulas_as_values": 1, "xlsx_layout": 1}


def test_merged_cells_cover_their_places() -> None:
    def fill(sheet: Any, _: object) -> None:
        for row in (["a", "b", "c"], ["d", "e", "f"], ["g", "h", "i"]):
            sheet.append(row)
        sheet.merge_cells("A1:B2")

    (block,) = [b for b in read("a.xlsx", book(fill)).blocks if b.table]
    assert block.table
    assert [[(c.text, c.colspan, c.rowspan) for c in row] for row in block.table.rows] == [
        [("a", 2, 2), ("c", 1, 1)], [("f", 1, 1)], [("g", 1, 1), ("h", 1, 1), ("i", 1, 1)],
    ]  # fmt: skip


PLAIN = book(lambda sheet, _: sheet.append(["a", "b"]))


def rezipped(change: Any, data: bytes = PLAIN) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    change(parts)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name, part in parts.items():
            new.writestr(name, part)
    return out.getvalue()


def sheet_of(inner: str) -> bytes:
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    return rezipped(lambda parts: parts.update({"xl/worksheets/sheet1.xml": f"<worksheet {space}>{inner}</worksheet>".encode()}))


REFUSED = {
    "no_zip": (b"PK\x03\x04 and no more", "corrupt"),
    "cut": (PLAIN[: len(PLAIN) // 2], "corrupt"),
    "old": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "corrupt"),
    "locked": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "encrypted"),
    "macros": (rezipped(lambda parts: parts.update({"xl/vbaProject.bin": b"\x01"})), "macros"),
    "entries": (rezipped(lambda parts: parts.update({f"xl/x{n}": b"" for n in range(10_000)})), "archive_too_large"),
    "entities": (rezipped(lambda parts: parts.update({"xl/workbook.xml": b'<!DOCTYPE a [<!ENTITY b "c">]>' + parts["xl/workbook.xml"]})), "corrupt"),
    "no_book": (rezipped(lambda parts: parts.pop("xl/workbook.xml")), "corrupt"),
    "no_sheet": (rezipped(lambda parts: parts.pop("xl/worksheets/sheet1.xml")), "corrupt"),
    "broken": (sheet_of("<sheetData><row>"), "corrupt"),
    "far": (sheet_of('<sheetData><row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'), "too_large"),
    "utf16": (rezipped(lambda parts: parts.update({"xl/workbook.xml": parts["xl/workbook.xml"].decode().encode("utf-16")})), "corrupt"),
    "encoding": (rezipped(lambda parts: parts.update({"xl/a.xml": b'<?xml version="1.0" encoding="cp037"?><a/>'})), "corrupt"),
    "styles": (rezipped(lambda parts: parts.update({"xl/styles.xml": b"<styleSheet><fonts>" + b"<font/>" * 300_001})), "too_large"),
    "row": (sheet_of('<sheetData><row r="1">' + "<c><v>1</v></c>" * 16_385 + "</row></sheetData>"), "too_large"),
    "number": (sheet_of('<sheetData><row r="1"><c r="A1"><v>x</v></c></row></sheetData>'), "corrupt"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_workbook_that_is_none_is_refused_by_name(name: str) -> None:
    data, why = REFUSED[name]
    assert reason("a.xlsx", data) == why


def test_cells_of_nothing_far_to_the_right_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx_in, "MAX_SHEET_CELLS", 16_384 * 20)
    rows = "".join(f'<row r="{n}"><c r="A{n}"><v>1</v></c><c r="XFD{n}" t="str"><v></v></c></row>' for n in range(1, 31))
    assert reason("a.xlsx", sheet_of(f"<sheetData>{rows}</sheetData>")) == "too_large"


def test_a_dimension_that_lies_is_not_believed() -> None:
    document = read("a.xlsx", sheet_of('<dimension ref="A1:XFD1048576"/><sheetData><row r="1"><c r="A1"><v>7</v></c></row></sheetData>'))
    assert texts(document) == [[["7"]]]


def test_merges_that_cover_everything_again_and_again_are_told_once() -> None:
    rows = "".join(f'<row r="{n}"><c r="J{n}"><v>1</v></c></row>' for n in range(1, 101))
    merges = [f'<mergeCell ref="A1:J{100 - n % 50}"/>' for n in range(25_000)]
    (merged,) = [
        b for b in read("a.xlsx", sheet_of(f"<sheetData>{rows}</sheetData><mergeCells>{''.join(merges[:500])}</mergeCells>")).blocks if b.table
    ]
    assert merged.table
    assert (merged.table.rows[0][0].colspan, merged.table.rows[0][0].rowspan) == (10, 100)
    assert reason("a.xlsx", sheet_of(f"<sheetData>{rows}</sheetData><mergeCells>{''.join(merges)}</mergeCells>")) == "too_large"


def test_a_bomb_is_stopped_by_what_comes_out_of_it_and_a_size_that_lies_too(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = rezipped(lambda parts: parts.update({"xl/worksheets/sheet1.xml": b" " * (16 << 20)}))
    assert reason("a.xlsx", bomb) == "archive_too_large"
    seen: list[int] = []
    real = archive._check_size
    monkeypatch.setattr(archive, "_check_size", lambda name, out, packed: (seen.append(out), real(name, out, packed)))
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1 << 20)
    monkeypatch.setattr(xlsx_in.zipfile, "ZipFile", zipfile.ZipFile)
    lying = bytearray(bomb)
    at = lying.rindex(b"xl/worksheets/sheet1.xml") - 46
    lying[at + 24 : at + 28] = (100).to_bytes(4, "little")
    assert reason("a.xlsx", bytes(lying)) in ("archive_too_large", "corrupt")
    assert max(seen) <= (1 << 20) + archive._PIECE_BYTES, "no more than one piece over the limit was unpacked"


@given(st.integers(0, len(PLAIN) - 1), st.binary(min_size=1, max_size=4))
def test_a_damaged_workbook_is_read_or_refused_by_name(at: int, junk: bytes) -> None:
    try:
        assert read("a.xlsx", PLAIN[:at] + junk + PLAIN[at + len(junk) :]).blocks
    except ProblemError as refused:
        assert refused.problem.details["file"] == "a.xlsx"  # noqa: PT017  # both are right


def test_macros_in_a_word_file_are_refused_too() -> None:
    word = (FIXTURES / "pandoc-notice.docx").read_bytes()
    assert reason("a.docx", rezipped(lambda parts: parts.update({"word/vbaProject.bin": b"\x01"}), word)) == "macros"


DECLARED = ['<?xml version="1.0" encoding="{}"?>', "<?xml version='1.0'" + " " * 300 + "encoding = '{}' ?>"]


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("encoding", ["cp037", "utf-16", "utf-7", "cp500"])
def test_a_part_is_parsed_in_the_encoding_it_was_looked_at_in(encoding: str, declared: str) -> None:
    """What is looked for in one encoding could stand there in the other."""
    with zipfile.ZipFile(io.BytesIO(PLAIN)) as made:
        body = made.read("xl/workbook.xml").decode().rpartition("?>")[2]
    head, entity = declared.format(encoding), '<!DOCTYPE a [<!ENTITY b "ha">]>'
    told = (
        (head + body).encode(encoding),
        head.encode() + (entity + body).encode(encoding),
        (head + entity + body).encode(encoding),
        (head + body).encode(),
    )
    for form in told:
        assert reason("a.xlsx", rezipped(lambda parts, form=form: parts.update({"xl/workbook.xml": form}))) == "corrupt"
    whole = (declared.format("UTF-8") + body).encode()
    assert texts(read("a.xlsx", rezipped(lambda parts: parts.update({"xl/workbook.xml": whole})))) == [[["a", "b"]]]
