"""Reading lines and searching them. Lines end with a newline and nothing else; their bytes are shown exactly or refused."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, BinaryIO

from msgspec import Struct

from ..contract.problem import problem
from . import limits

Stop = Callable[[], None]
#: What makes an anchor mean the whole text, or flags that may: then every line is looked at by itself.
_LINEWISE = re.compile(r"\\[AzZ]|\(\?[^:P)i]|\(\?i[^):]")


class Lines(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Lines `start`, `start` + 1, ... of a file, without their newlines. `sha256` is that of the whole file.

    `next_start`: where to go on, None at the end. `cut_bytes`: the only line shown is longer than an answer may be;
    only its beginning is shown, and this is its whole length.
    """

    path: str
    start: int
    lines: tuple[str, ...]
    total_lines: int
    eof: bool
    sha256: str
    next_start: int | None = None
    cut_bytes: int | None = None


class Hit(Struct, frozen=True):
    """A line that matches; `text` is its beginning."""

    path: str
    line: int
    text: str


class Hits(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a search found. `complete` = every text file in scope was searched to its end. `binary_files` are no text;

    `unreadable_files` could not be opened, so the search is not complete.
    """

    hits: tuple[Hit, ...]
    complete: bool
    truncated: bool
    files: int
    binary_files: int = 0
    unreadable_files: int = 0
    stop_reason: str | None = None


def json_bytes(value: str) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) + 1


def read_lines(path: str, file: BinaryIO, start: int, count: int, stop: Stop, answer_bytes: int = limits.ANSWER_BYTES) -> Lines:
    """Streams: memory is bounded by the answer, not by the file. Raises ProblemError (type_mismatch) for other than UTF-8."""
    digest = hashlib.sha256()
    shown: list[str] = []
    number, room, cut, full = 0, answer_bytes, None, False
    for line, size in _lines(file, answer_bytes, digest.update):
        number += 1
        if number % 1000 == 0:
            stop()
        if number < start or len(shown) >= count or full:
            continue
        text = _text(path, number, line, whole=size == len(line))
        room -= json_bytes(text)
        if room < 0 and shown:
            full = True
            continue
        if room < 0 or size > len(line):
            text, cut = _fitting(text, answer_bytes), size
        shown.append(text)
    following = start + len(shown)
    eof = following > number
    return Lines(path, start, tuple(shown), number, eof, digest.hexdigest(), None if eof else following, cut)


def _lines(file: BinaryIO, keep: int, seen: Callable[[bytes], object] = lambda _: None) -> Iterable[tuple[bytes, int]]:
    """(the first `keep` bytes of the line, its whole length), without the newline."""
    line, size, open_line = b"", 0, False
    while piece := file.readline(limits.LINE_BYTES):
        seen(piece)
        open_line = not piece.endswith(b"\n")
        body = piece if open_line else piece[:-1]
        if len(line) < keep:
            line = (line + body)[:keep]
        size += len(body)
        if not open_line:
            yield line, size
            line, size = b"", 0
    if open_line:
        yield line, size


def _text(path: str, number: int, line: bytes, *, whole: bool) -> str:
    while not whole and line and line[-1] & 0xC0 == 0x80:  # noqa: PLR2004  # the last character may be cut
        line = line[:-1]
    if not whole and line and line[-1] >= 0xC0:  # noqa: PLR2004  # its first byte
        line = line[:-1]
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise problem("type_mismatch", f"{path!r}: line {number} is not UTF-8 text", details={"path": path, "line": number}) from error


def _fitting(text: str, answer_bytes: int) -> str:
    while json_bytes(text) > answer_bytes:
        text = text[: len(text) * answer_bytes // json_bytes(text)]
    return text


def search(pattern: str, files: Iterable[tuple[str, BinaryIO | None]], limit: int, stop: Stop) -> Hits:
    """Lines matching a regular expression of linear time. Raises ProblemError (validation) for a bad pattern."""
    matcher = _compiled(pattern)
    # Finds where a line may match, in a whole block at once; what it finds is looked at again, line by line.
    finder = _compiled("(?m)" + pattern if _LINEWISE.search(pattern) is None else "")
    hits: list[Hit] = []
    searched, binary, unreadable, room = 0, 0, 0, limits.ANSWER_BYTES
    for path, file in files:
        if file is None:
            unreadable += 1
            continue
        with file:
            if _is_binary(file):
                binary += 1
                continue
            searched += 1
            for number, line in _matching(file, finder, matcher, stop):
                hit = Hit(path, number, line[: 4 * limits.HIT_CHARS].decode(errors="replace")[: limits.HIT_CHARS])
                room -= json_bytes(hit.text) + json_bytes(path) + 30
                stopped = "limit" if len(hits) == limit else "size" if room < 0 and hits else ""
                if stopped:
                    return Hits(tuple(hits), False, True, searched, binary, unreadable, stopped)  # noqa: FBT003  # by its fields
                hits.append(hit)
    return Hits(tuple(hits), not unreadable, False, searched, binary, unreadable)  # noqa: FBT003  # by its fields


def _is_binary(file: BinaryIO) -> bool:
    head = file.read(limits.BINARY_BYTES)
    file.seek(0)
    return b"\x00" in head


def _matching(file: BinaryIO, finder: Any, matcher: Any, stop: Stop) -> Iterable[tuple[int, bytes]]:
    number = 1
    while block := file.read(limits.LINE_BYTES):
        if not block.endswith(b"\n"):
            block += file.readline(limits.LINE_BYTES)
        stop()
        at = seen = 0
        while at < len(block) and (found := finder.search(block, at)) is not None:
            begin, end = block.rfind(b"\n", 0, found.start()) + 1, block.find(b"\n", found.start())
            line = block[begin:] if end < 0 else block[begin:end]
            number += block.count(b"\n", seen, begin)
            at, seen = begin + len(line) + 1, begin
            if matcher.search(line) is not None:
                yield number, line
            if number % 1000 == 0:
                stop()
        number += block.count(b"\n", seen)


def _compiled(pattern: str) -> Any:
    try:
        re2: Any = import_module("re2")
    except ImportError as missing:
        raise problem("capability_unavailable", "searching needs the package google-re2") from missing
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0] if error.args else ""
        text = why.decode(errors="replace") if isinstance(why, bytes) else "it is not valid Unicode"
        wrong = f"the pattern cannot be used ({text}); look-around and back-references are not supported"
        raise problem("validation", wrong, details={"problems": [{"path": "pattern", "issue": wrong}]}) from error
