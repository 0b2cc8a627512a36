"""Files made to wear their reader out: refused by name, in little time, by a process that can be lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from threading import Event

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.formats import apart, limits, read, same_text, write
from polyloop.formats.apart import read_apart
from polyloop.formats.blocks import Block, Document
from polyloop.formats.limits import MAX_NESTING
from tests.formats.word import archive, p, word

#: A form that draws itself.
ENDLESS = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 5 0 R/Resources<</XObject<</A 4 0 R>>>>>>endobj\n"
    b"4 0 obj<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</A 4 0 R>>>>/Length 15>>stream\n/A Do /A Do    \nendstream endobj\n"
    b"5 0 obj<</Length 5>>stream\n/A Do\nendstream endobj\ntrailer<</Root 1 0 R>>\n"
)


def reason(name: str, data: bytes) -> str:
    with pytest.raises(ProblemError) as caught:
        read_apart(name, data)
    assert name in caught.value.problem.message
    return str(caught.value.problem.details.get("reason"))


def test_what_is_read_apart_is_what_is_read_here() -> None:
    data = word(p("one") + p("two"))
    assert read_apart("a.docx", data) == read("a.docx", data)
    assert reason("a.docx", data[:-30]) == "corrupt"
    assert reason("a.docx", word(p(""))) == "empty"


def changed(monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    """What is different in the reader's process."""
    monkeypatch.setattr(apart, "RUN", f"import os, polyloop.formats as f, polyloop.formats.limits as l; {change}; {apart.RUN}")


def test_a_file_that_grows_without_end_in_its_reader_costs_that_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """This one takes all memory there is where it is read in the process itself."""
    changed(monkeypatch, f"l.READER_MEMORY_BYTES = {200 << 20}")
    assert reason("a.pdf", ENDLESS) in ("corrupt", "too_costly")


@pytest.mark.parametrize("reader", ["[0] * 10**10", "sum(iter(int, 1))"])
def test_a_reader_out_of_time_or_memory_is_told_as_too_costly(monkeypatch: pytest.MonkeyPatch, reader: str) -> None:
    changed(monkeypatch, f"l.READER_CPU_S = 1; f.read = lambda *_: {reader}")
    assert reason("a.docx", word(p("x"))) == "too_costly"


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        *((f"os.kill(os.getpid(), {int(number)})", "type_mismatch") for number in (signal.SIGSEGV, signal.SIGABRT)),
        *((f"os.kill(os.getpid(), {int(number)})", "capability_unavailable") for number in (signal.SIGKILL, signal.SIGTERM)),
        ("os._exit(1)", "capability_unavailable"),
    ],
)  # fmt: skip
def test_only_a_reader_that_broke_down_over_a_file_speaks_against_it(monkeypatch: pytest.MonkeyPatch, end: str, kind: str) -> None:
    """One that was ended from outside has found nothing wrong, and another may read it."""
    changed(monkeypatch, f"f.read = lambda *_: {end}")
    with pytest.raises(ProblemError) as caught:
        read_apart("a.docx", word(p("x")))
    assert (caught.value.problem.kind, caught.value.problem.execution_started) == (kind, False)


def test_a_reader_writes_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "out"
    changed(monkeypatch, f"f.read = lambda *_: os.write(os.open({str(path)!r}, os.O_CREAT | os.O_WRONLY), b'x')")
    with pytest.raises(ProblemError, match="File too large"):
        read_apart("a.docx", word(p("x")))
    assert path.stat().st_size == 0


def test_a_reader_ends_with_who_asked_for_it(tmp_path: Path) -> None:
    """A worker that is killed leaves nobody behind who goes on computing."""
    note, file = tmp_path / "begun", tmp_path / "a.docx"
    file.write_bytes(word(p("x")))
    change = (
        f"import time, pathlib, polyloop.formats as f; f.read = lambda *_: (pathlib.Path({str(note)!r}).write_text(''), time.sleep(600));"
        " import polyloop.formats.apart as a; a._LIMITS = ()"
    )
    script = "import sys, polyloop.formats.apart as a; a.RUN = sys.argv[1] + '; ' + a.RUN; a.read_apart('a.docx', open(sys.argv[2], 'rb').read())"
    with subprocess.Popen([sys.executable, "-c", script, change, str(file)]) as asking:
        until(note.exists)
        (child,) = Path(f"/proc/{asking.pid}/task/{asking.pid}/children").read_text().split()
        asking.kill()
    until(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().rpartition(")")[2])


def until(holds: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if holds():
            return
        Event().wait(0.01)
    raise AssertionError("it never came to that")


def test_text_boxes_inside_one_another_are_read_once() -> None:
    """Each level once made all below it come again."""
    deep = p("end")
    for level in range(MAX_NESTING - 5):
        deep = f"<w:p><w:r><w:t>{level}</w:t></w:r><w:r><w:pict><w:txbxContent>{deep}</w:txbxContent></w:pict></w:r></w:p>"
    blocks = read("a.docx", word(deep)).blocks
    assert [block.text for block in blocks] == [*map(str, reversed(range(MAX_NESTING - 5))), "end"]


def test_what_stands_too_deep_is_named() -> None:
    deep = p("end")
    for _ in range(MAX_NESTING * 3):
        deep = f"<w:p><w:r><w:pict><w:txbxContent>{deep}</w:txbxContent></w:pict></w:r></w:p>"
    assert {loss.code for loss in read("a.docx", word(p("kept") + deep)).losses} >= {"nested_too_deep"}


def with_entries(*entries: tuple[zipfile.ZipInfo | str, str]) -> bytes:
    out = BytesIO(word(p("x")))
    with zipfile.ZipFile(out, "a") as made:
        for name, data in entries:
            made.writestr(name, data)
    return out.getvalue()


def link(name: str) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo(name)
    made.external_attr = 0o120777 << 16
    return made


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "entry", ["word/document.xml", "WORD/document.xml", "../../evil", "/etc/passwd", "word\\..\\evil", link("word/link")], ids=str
)  # fmt: skip
def test_parts_that_lead_out_or_come_twice_are_refused(entry: zipfile.ZipInfo | str) -> None:
    assert reason("a.docx", with_entries((entry, "x"))) == "corrupt"


_RELS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="a" Type="{}" Target="{}"/></Relationships>'
)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("word/_rels/x.rels", _RELS.format("http://schemas.microsoft.com/office/2006/relationships/vbaProject", "evil.bin")),
        ("[Content_Types].xml", '<Types><Override PartName="/a" ContentType="application/vnd.ms-word.document.macroEnabled.main+xml"/></Types>'),
        ("xl/macrosheets/sheet2.xml", "<a/>"),
        ("word/vbaProject.bin", "x"),
    ],
)  # fmt: skip
def test_macros_under_any_name_are_refused(name: str, data: str) -> None:
    assert reason("a.docx", with_entries((name, data))) == "macros"


def test_a_link_to_a_page_about_macros_is_none() -> None:
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"
    assert read("a.docx", with_entries(("word/_rels/x.rels", _RELS.format(kind, "https://x.org/vbaProject")))).blocks


def test_more_elements_than_a_document_can_mean_are_refused_before_they_are_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyloop.formats.docx_parts.MAX_XML_TAGS", 1_000)
    with pytest.raises(ProblemError, match="more than 1000 elements"):
        read("a.docx", word("<w:p/>" * 1_001))
    assert limits.MAX_XML_TAGS >= 3 * limits.MAX_CHARACTERS // 2, "a document of short runs fits"


def test_a_line_of_markers_takes_one_look_at_each() -> None:
    """It took a look at each for each: hours for a file of two million."""
    assert [block.type for block in read("a.md", b">" * 200_000 + b" x").blocks] == ["raw"]


def test_empty_items_inside_one_another_are_written_and_read_as_nothing() -> None:
    """An export of them found text that nobody wrote, and failed."""
    document = Document((Block("heading", level=1), Block("numbered"), Block("numbered", depth=1)))
    same_text(document, "md", write(document, "md"))
    assert [block.text for block in read("a.md", b"x\n\n1. 2. 3.\n\n1. 2) \n\n1.5 2.\n").blocks if block.text] == ["x", "1.5 2."]


@pytest.mark.parametrize("charset", ["undefined", "unicode_escape", "punycode", "idna", "utf-7", "rot13", "hex", "zlib"])
def test_a_page_in_an_encoding_of_no_page_is_taken_for_what_it_is(charset: str) -> None:
    data = f"<meta charset={charset}><p>hello \\ud800".encode()
    assert [block.text for block in read("a.html", data).blocks] == ["hello \\ud800"]


def test_ends_that_end_nothing_do_not_hide_how_deep_a_page_is() -> None:
    assert reason("a.html", b"<b></zzz>" * 3_000 + b"x") == "nested_too_deep"
    drawn = b"<p>before</p><svg>" + b'<path d="M0 0"/>' * 3_000 + b"</svg><p>after</p>"
    assert [block.text for block in read("a.html", drawn).blocks] == ["before", "after"]


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.md", "a.html"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_no_text_holds_nul_whatever_mark_it_bears(name: str, encoding: str) -> None:
    assert reason(name, "a,b\0\n1,2\n".encode(encoding)) == "undecidable_encoding"


def test_archives_of_nothing_are_refused() -> None:
    assert reason("a.docx", archive({})) == "corrupt"
