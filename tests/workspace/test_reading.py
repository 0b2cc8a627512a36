"""Lines, searches and globs: the pure parts."""

from __future__ import annotations

import io
import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyloop.contract.problem import ProblemError
from polyloop.workspace import limits
from polyloop.workspace.globs import matches
from polyloop.workspace.reading import Lines, _compiled, json_bytes, read_lines, search


def go_on() -> None: ...


def read(data: bytes, start: int = 1, count: int = 2000) -> Lines:
    return read_lines("f", io.BufferedReader(io.BytesIO(data)), start, count, go_on)  # type: ignore[arg-type]  # as good as a file


@given(st.text(st.sampled_from("a\u4e2d\n\r\u2028\x0b"), max_size=60), st.integers(1, 8), st.integers(1, 8))
def test_lines_end_with_a_newline_and_nothing_else(text: str, start: int, count: int) -> None:
    lines = text.split("\n")[: -1 if text.endswith("\n") or not text else None]
    got = read(text.encode(), start, count)
    assert list(got.lines) == lines[start - 1 : start - 1 + count]
    assert got.total_lines == len(lines)
    assert got.eof == (start - 1 + count >= len(lines) or not lines[start - 1 :])
    assert got.next_start == (None if got.eof else start + len(got.lines))


@given(st.lists(st.integers(0, 9000), max_size=40))
def test_going_on_by_next_start_reads_everything_once(sizes: list[int]) -> None:
    lines = ['"' * size for size in sizes]  # a quote takes two bytes in JSON
    data = "".join(line + "\n" for line in lines).encode()
    seen: list[str] = []
    start: int | None = 1
    while start is not None:
        got = read(data, start)
        assert sum(json_bytes(line) for line in got.lines) <= limits.ANSWER_BYTES
        seen += got.lines
        start = got.next_start
    assert seen == lines


@pytest.mark.parametrize("letter", ["x", "\u4e2d", "\U0001f600", '"'])
def test_a_line_too_long_for_an_answer_shows_its_beginning_and_its_length(letter: str) -> None:
    long = letter * (3 << 20)
    data = f"a\n{long}\nb\n".encode()
    first = read(data)
    assert (first.lines, first.next_start) == (("a",), 2)
    second = read(data, 2)
    assert second.cut_bytes == len(long.encode())
    (shown,) = second.lines
    assert long.startswith(shown)
    assert limits.ANSWER_BYTES // 3 < json_bytes(shown) <= limits.ANSWER_BYTES
    assert (second.next_start, second.total_lines) == (3, 3)
    assert read(data, 3).lines == ("b",)


def test_a_line_that_is_not_utf8_is_named_and_the_others_are_read() -> None:
    data = b"fine\n\xd6\xd0\xce\xc4\nfine too\n"
    assert read(data, 3).lines == ("fine too",)
    with pytest.raises(ProblemError, match="line 2 is not UTF-8") as refused:
        read(data)
    assert refused.value.problem.details == {"path": "f", "line": 2}


def test_long_work_can_be_stopped() -> None:
    class Enough(Exception):
        pass

    def stop() -> None:
        raise Enough

    with pytest.raises(Enough):
        read_lines("f", io.BufferedReader(io.BytesIO(b"\n" * 5000)), 1, 1, stop)  # type: ignore[arg-type]  # as good as a file
    with pytest.raises(Enough):
        search("x", [("f", io.BufferedReader(io.BytesIO(b"a\n")))], 1, stop)  # type: ignore[list-item]  # as good as a file


def test_a_file_that_cannot_be_opened_makes_a_search_incomplete() -> None:
    hits = search("x", [("f", None)], 10, go_on)
    assert (hits.complete, hits.truncated, hits.unreadable_files) == (False, False, 1)


def test_hits_stay_under_the_size_of_an_answer() -> None:
    data = (b"x" * 10_000 + b"\n") * 5000
    hits = search("x", [("f", io.BufferedReader(io.BytesIO(data)))], 1000, go_on)  # type: ignore[list-item]  # as good as a file
    assert (hits.complete, hits.truncated, hits.stop_reason) == (False, True, "size")
    assert 100 < len(hits.hits) < 1000
    assert len(json.dumps([h.text for h in hits.hits])) < limits.ANSWER_BYTES + 1000
    assert all(len(h.text) == limits.HIT_CHARS for h in hits.hits)


PATTERNS = st.text(st.sampled_from("ab.^$*|()\\sAzbB\n"), min_size=1, max_size=8)
TEXTS = st.lists(st.text(st.sampled_from("ab A\u4e2d"), max_size=4), max_size=6)


@given(PATTERNS, TEXTS, st.booleans())
def test_a_search_by_blocks_finds_what_a_search_by_lines_finds(pattern: str, lines: list[str], ended: bool) -> None:
    data = "\n".join(lines).encode() + b"\n" * ended
    try:
        matcher = _compiled(pattern)
    except ProblemError:
        return
    expected = [n for n, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1) if data and matcher.search(line)]
    hits = search(pattern, [("f", io.BufferedReader(io.BytesIO(data)))], 1000, go_on)  # type: ignore[list-item]  # as good as a file
    assert [h.line for h in hits.hits] == expected


GLOBS = [
    ("", "a/b.md", True), ("**", "a/b.md", True), ("*.md", "b.md", True), ("*.md", "a/b.md", True), ("*.md", "a/b.mdx", False),
    ("a/*.md", "a/b.md", True), ("a/*.md", "a/c/b.md", False), ("a/**/*.md", "a/b.md", True), ("a/**/*.md", "a/c/d/b.md", True),
    ("**/b.md", "b.md", True), ("**/c/*", "a/c/x", True), ("**/c/*", "a/c/d/x", False), ("a/**", "a/b/c", True), ("a/**", "b/a/c", False),
    ("/a/b", "a/b", True), ("a/b", "a/b/c", False), ("a/?", "a/b", True), ("a/[bc]", "a/b", True), ("a/[!b]", "a/b", False), ("A.md", "a.md", False),
    ("a/**/b/**/c", "a/x/b/y/z/c", True), ("a/**/b/**/c", "a/x/y/c", False), ("**/**/x", "x", True), ("a/*/**", "a", False),
]  # fmt: skip


@pytest.mark.parametrize(("glob", "path", "hit"), GLOBS)
def test_globs(glob: str, path: str, hit: bool) -> None:
    assert matches(glob, path) is hit


PARTS = st.lists(st.sampled_from(["a", "b", "**", "*", "?b", "ab"]), min_size=2, max_size=4)
NAMES = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=4)


@given(PARTS, NAMES)
def test_globs_agree_with_a_regular_expression(parts: list[str], names: list[str]) -> None:
    words = {"**": "(?:[^/]+/)*", "*": "[^/]*/", "?b": "[^/]b/"}
    expected = re.fullmatch("".join(words.get(p, p + "/") for p in parts), "/".join(names) + "/") is not None
    assert matches("/".join(parts), "/".join(names)) is expected


def test_globs_are_quick_whatever_they_are() -> None:
    began = time.process_time()
    assert not matches("**/a/" * 100 + "x", "a/" * 100 + "b")
    assert not matches("*a" * 50 + "/x", "a" * 200 + "/b")
    assert time.process_time() - began < 1
