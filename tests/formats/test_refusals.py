"""What cannot be read is refused whole, with a typed problem that names the file."""

from __future__ import annotations

import io
import struct
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.contract.problem import Problem, ProblemError
from polyloop.formats import archive, read, write
from polyloop.formats.blocks import Block, Document, Run
from polyloop.formats.limits import MAX_CHARACTERS, MAX_FILE_BYTES
from tests.formats.word import archive as packed
from tests.formats.word import p, word

FIXTURES = Path(__file__).parent / "fixtures"
WORD = (FIXTURES / "pandoc-notice.docx").read_bytes()
PDF = (FIXTURES / "chromium-policy.pdf").read_bytes()


def refused(name: str, data: bytes) -> tuple[str, str]:
    with pytest.raises(ProblemError) as caught:
        read(name, data)
    problem = caught.value.problem
    assert problem.details["file"] == name
    assert name in problem.message
    assert problem.execution_started is False
    return problem.kind, problem.details["reason"]


def encrypted_zip() -> bytes:
    data = bytearray(packed({"word/document.xml": "x"}))
    data[6] |= 1
    central = data.index(b"PK\x01\x02")
    data[central + 8] |= 1
    return bytes(data)


def tried(name: str, data: bytes) -> Document | Problem:
    try:
        return read(name, data)
    except ProblemError as error:
        return error.problem


CASES = [
    ("a.xyz", b"x", "type_mismatch", "unknown_format"),
    ("noending", b"x", "type_mismatch", "unknown_format"),
    ("a.doc", b"x", "type_mismatch", "unknown_format"),
    ("a.md", b"", "validation", "empty"),
    ("a.txt", b" \r\n\t\n", "validation", "empty"),
    ("a.docx", word(p("")), "validation", "empty"),
    ("a.md", b"x" * (MAX_FILE_BYTES + 1), "validation", "too_large"),
    ("a.txt", b"x" * (MAX_CHARACTERS + 1), "validation", "too_many_characters"),
    ("a.docx", word("".join(p("x" * 1000) for _ in range(MAX_CHARACTERS // 1000 + 1))), "validation", "too_many_characters"),
    ("a.docx", b"not a zip", "type_mismatch", "corrupt"),
    ("a.docx", PDF, "type_mismatch", "corrupt"),
    ("a.pdf", WORD, "type_mismatch", "corrupt"),
    ("a.docx", WORD[: len(WORD) // 2], "type_mismatch", "corrupt"),
    ("a.docx", packed({"a.txt": "x"}), "type_mismatch", "corrupt"),
    ("a.docx", packed({"_rels/.rels": "<a/>", "word/document.xml": "<a/>"}), "type_mismatch", "corrupt"),
    ("a.docx", word("<w:p>").replace(b"", b""), "type_mismatch", "corrupt"),
    ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "type_mismatch", "corrupt"),
    ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "validation", "encrypted"),
    ("a.docx", encrypted_zip(), "validation", "encrypted"),
    ("a.pdf", (FIXTURES / "encrypted.pdf").read_bytes(), "validation", "encrypted"),
    ("a.pdf", (FIXTURES / "scan.pdf").read_bytes(), "validation", "no_text"),
    ("a.pdf", PDF[: len(PDF) // 3], "type_mismatch", "corrupt"),
    ("a.pdf", b"%PDF-1.7\nrubbish", "type_mismatch", "corrupt"),
    ("a.txt", "中文".encode("utf-16-le"), "type_mismatch", "undecidable_encoding"),
    ("a.txt", "中文内容".encode()[:-1] + b"\x00", "type_mismatch", "undecidable_encoding"),
    ("a.txt", "これは日本語の文章です。漢字も含みます。".encode("shift_jis"), "type_mismatch", "undecidable_encoding"),
    ("a.txt", "這是一份繁體中文的公文，請各單位遵照辦理。".encode("big5"), "type_mismatch", "undecidable_encoding"),
    ("a.txt", "Ceci est un texte français avec des lettres accentuées éàèù.".encode("latin-1"), "type_mismatch", "undecidable_encoding"),
    ("a.txt", "Это русский текст без метки.".encode("cp1251"), "type_mismatch", "undecidable_encoding"),
    ("a.txt", b"\xff\xfe\x00\xd8", "type_mismatch", "undecidable_encoding"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data", "kind", "reason"), CASES, ids=[f"{row[3]}-{at}" for at, row in enumerate(CASES)])
def test_refused(name: str, data: bytes, kind: str, reason: str) -> None:
    assert refused(name, data) == (kind, reason)


def bomb(size: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made, made.open("word/document.xml", "w") as member:
        for _ in range(size >> 20):
            member.write(b" " * (1 << 20))
    return out.getvalue()


def test_an_archive_that_swells_is_stopped_by_what_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused("a.docx", bomb(16 << 20)) == ("validation", "archive_too_large")
    monkeypatch.setattr(archive, "MAX_UNPACK_RATIO", 10**9)
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 4 << 20)
    assert refused("a.docx", bomb(8 << 20)) == ("validation", "archive_too_large")


def test_an_archive_whose_headers_lie_is_stopped_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1 << 20)
    data = bytearray(bomb(8 << 20))
    central = data.index(b"PK\x01\x02")
    struct.pack_into("<I", data, central + 24, 100)
    assert refused("a.docx", bytes(data))[1] in ("archive_too_large", "corrupt")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_packings_are_refused_before_a_byte_comes_out(method: int, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as made:
        made.writestr("word/document.xml", bytes(1 << 16))

    def opened(*_: object) -> None:
        raise AssertionError("it was unpacked")

    monkeypatch.setattr(zipfile.ZipFile, "open", opened)
    assert refused("a.docx", out.getvalue()) == ("type_mismatch", "corrupt")


VBA = '<Types><Override PartName="/xl/a.bin" ContentType="application/vnd.ms-office.vbaProject"/></Types>'
PROGRAMS: list[dict[str, str | bytes]] = [
    {"xl/macrosheets/sheet2.xml": "<a/>"}, {"xl/macrosheets/intlsheet1.xml": "<a/>"}, {"XL/Macrosheets/x.xml": "<a/>"}, {"word/vbaProject.bin": "x"},
    {"[Content_Types].xml": VBA}, {"[Content_Types].xml": VBA.encode("utf-16")},
]  # fmt: skip


@pytest.mark.parametrize("parts", PROGRAMS, ids=[next(iter(each)) + str(at) for at, each in enumerate(PROGRAMS)])
def test_programs_inside_are_refused_by_whatever_name(parts: dict[str, str | bytes]) -> None:
    for name in ("a.docx", "a.xlsx"):
        assert refused(name, packed(parts)) == ("validation", "macros")


def test_too_many_entries() -> None:
    assert refused("a.docx", packed({f"x{at}": "" for at in range(4_001)})) == ("validation", "archive_too_large")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_entities_are_refused_in_any_encoding(encoding: str) -> None:
    laugh = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;">]>'
    files = zipped(word(p("x")))
    body = bytes(files["word/document.xml"]).decode()
    files["word/document.xml"] = (laugh + body).encode(encoding)
    assert refused("a.docx", packed(files)) == ("type_mismatch", "corrupt")
    files["word/document.xml"] = f'<?xml version="1.0" encoding="{encoding.upper()}"?>{body}'.encode(encoding)
    if encoding != "utf-16-le":  # without its mark it is no UTF-16 that a package may hold
        assert [block.text for block in read("a.docx", packed(files)).blocks] == ["x"]


def zipped(data: bytes) -> dict[str, str | bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as made:
        return {name: made.read(name) for name in made.namelist()}


def test_deep_nesting_ends() -> None:
    deep = "<w:sdt><w:sdtContent>" * 120 + p("x") + "</w:sdtContent></w:sdt>" * 120
    document = read("a.docx", word(p("y") + deep))
    assert [block.text for block in document.blocks] == ["y"]
    assert {loss.code for loss in document.losses} == {"docx_layout", "nested_too_deep"}
    assert read("a.md", ("> " * 2_000 + "x\n" + "- " * 2_000 + "y").encode()).text.count("x") == 1


@given(st.integers(0, len(WORD) - 1), st.binary(min_size=1, max_size=4), st.integers(1, len(WORD)))
def test_a_damaged_word_file_is_read_or_refused_by_name(at: int, junk: bytes, length: int) -> None:
    for data in (WORD[:at] + junk + WORD[at + len(junk) :], WORD[:length]):
        outcome = tried("a.docx", data)
        assert outcome.details["file"] == "a.docx" if isinstance(outcome, Problem) else outcome.blocks


@given(st.integers(0, len(PDF) - 1), st.binary(min_size=1, max_size=4), st.integers(1, len(PDF)))
def test_a_damaged_pdf_is_read_or_refused_by_name(at: int, junk: bytes, length: int) -> None:
    for data in (PDF[:at] + junk + PDF[at + len(junk) :], PDF[:length]):
        outcome = tried("a.pdf", data)
        assert outcome.details["file"] == "a.pdf" if isinstance(outcome, Problem) else outcome.blocks


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    for name in ("a.txt", "a.md"):
        outcome = tried(name, data)
        assert outcome.details["reason"] in ("undecidable_encoding", "empty") if isinstance(outcome, Problem) else outcome.blocks


@pytest.mark.parametrize(("module", "name", "data"), [("markdown_it", "a.md", b"# x"), ("pypdfium2", "a.pdf", PDF)])
def test_a_missing_library_is_a_missing_capability(monkeypatch: pytest.MonkeyPatch, module: str, name: str, data: bytes) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ProblemError) as caught:
        read(name, data)
    assert (caught.value.problem.kind, caught.value.problem.details["reason"]) == ("capability_unavailable", "library_missing")


def test_a_missing_library_for_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nh3", None)
    with pytest.raises(ProblemError) as caught:
        write(Document((Block("paragraph", (Run("x"),)),)), "html")
    assert caught.value.problem.kind == "capability_unavailable"
