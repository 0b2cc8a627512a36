"""Names as outsiders may give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.files import Root, write_atomic
from polyloop.files.folder import Folder
from polyloop.files.names import FileProblem, parts_of, portable

GOOD = [
    "a",
    "a/b",
    "a.b-c_d e",
    "...",
    "..a",
    "a..",
    "-rf",
    "~",
    "$HOME",
    "ab:c/d",
    "\u4e2d\u6587/\u62a5\u544a.md",
    "n" * 255,
    "/".join(["d" * 100] * 40),
    "\U0001f600",
]
BAD = [
    ("", "validation"), (".", "validation"), ("./a", "validation"), ("a/./b", "validation"), ("a//b", "validation"), ("x/", "validation"),
    ("a\x00b", "validation"), ("a\nb", "validation"), ("a\x7f", "validation"), ("a\x85", "validation"), ("a\\b", "validation"),
    ("..\\a", "validation"), ("n" * 256, "validation"), ("\u4e2d" * 86, "validation"), ("a/" * 2100 + "b", "validation"), ("n" * 3000, "validation"),
    ("\ud800", "validation"), ("a\udc80", "validation"), (".polyloop-tmp-1", "validation"), ("a/.polyloop-tmp-", "validation"),
    ("..", "permission_denied"), ("../a", "permission_denied"), ("a/../b", "permission_denied"), ("sub/../../outside.txt", "permission_denied"),
    ("/etc/passwd", "permission_denied"), ("/", "permission_denied"), ("//a", "permission_denied"),
    ("C:/a", "permission_denied"), ("c:a", "permission_denied"),
]  # fmt: skip


@pytest.mark.parametrize("path", GOOD, ids=lambda p: p[:20])
def test_good_names_come_apart(path: str) -> None:
    assert "/".join(parts_of(path)) == path


@pytest.mark.parametrize(("path", "kind"), BAD, ids=[repr(p[:20]) for p, _ in BAD])
def test_S2_25_bad_names_are_refused_typed(path: str, kind: str) -> None:
    with pytest.raises(FileProblem) as refused:
        parts_of(path)
    assert refused.value.kind == kind
    assert len(str(refused.value)) < 500
    refused.value.details["path"].encode()  # whatever it was, it can be told


DEVICES = [
    "con", "CON", "Aux.txt", "nul.tar.gz", "prn .md", "com1", "COM9.docx", "lpt0", "com\u00b9", "LPT\u00b3.pdf", "conin$", "CONOUT$.log", "clock$",
    "con:x",
]  # fmt: skip
ENDINGS = ["a.", "a..", "...", "a ", "a.txt ", "a. ", " "]
ORDINARY = ["console", "con-1.md", "aux_.txt", "a.con", "com10", "com", "lptx", "null", "icon", " a", ".con", "\u4e2d.md", "auxiliary.pdf"]


@pytest.mark.parametrize("name", [*DEVICES, *ENDINGS])
@pytest.mark.parametrize("path", ["{}", "a/{}", "{}/a.md"])
def test_S2_25_a_file_gets_no_name_that_another_system_cannot_keep(path: str, name: str) -> None:
    whole = path.format(name)
    with pytest.raises(FileProblem) as refused:
        portable(whole)
    assert refused.value.kind == "validation"
    with pytest.raises(FileProblem) as refused:
        Folder("/nowhere").check(whole, write=True)
    assert refused.value.kind == "validation"
    Folder("/nowhere").check(whole)  # one that is there already can be read
    assert "/".join(parts_of(whole)) == whole


@pytest.mark.parametrize("name", ORDINARY)
def test_a_name_that_only_looks_like_a_device_is_taken(name: str) -> None:
    assert portable(f"a/{name}") == ("a", name)


@pytest.mark.parametrize("path", ["con", "aux/a.md", "report.", "report "])
@pytest.mark.parametrize("said", [{}, {"replace": True}, {"expected_sha256": "0" * 64}], ids=str)
def test_S0_42_no_file_lands_under_such_a_name(tmp_path: Path, path: str, said: dict[str, Any]) -> None:
    with Root(tmp_path) as root, pytest.raises(FileProblem) as refused:
        write_atomic(root, path, b"new", **said)
    assert refused.value.kind == "validation"
    assert not list(tmp_path.iterdir())


def test_a_file_of_such_a_name_that_is_there_already_can_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "aux.c").write_bytes(b"old")
    with Root(tmp_path) as root:
        assert not write_atomic(root, "aux.c", b"new", replace=True).created
    assert (tmp_path / "aux.c").read_bytes() == b"new"


@given(st.text(st.sampled_from("ab./\\:\x00\n\u4e2d\ud800")))
def test_a_name_is_taken_as_it_is_or_refused(path: str) -> None:
    try:
        parts = parts_of(path)
    except FileProblem:
        return
    assert "/".join(parts) == path
    assert parts
    assert not {"", ".", ".."} & set(parts)
    assert not set("\\\x00\n\ud800") & set(path)
