"""Names as outsiders may give them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.files.names import FileProblem, parts_of

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
