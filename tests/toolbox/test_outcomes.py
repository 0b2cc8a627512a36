"""What a return or an exception means, and how observations are capped."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.contract.problem import problem
from polyloop.kernel.objects import ToolSpec
from polyloop.kernel.records import BlobRef, Part, canonical, text_bytes
from polyloop.kernel.seams import Deferred, NotStarted, Outcome, Pending, Unknown
from polyloop.toolbox.calls import decode_answer, encode_answer
from polyloop.toolbox.outcomes import capped, lost, raised, returned, settled, with_printed
from tests.toolbox import zoo

READ = ToolSpec("x", "", {}, effect="read")
WRITE = replace(READ, effect="write")
PAY = replace(READ, effect="pay", defers=True, replay="probe")


def text_of(outcome: Any) -> str:
    return "".join(p.text for p in outcome.observation)


VALUES = [
    (None, "null"), (True, "true"), (1.5, "1.5"), (10**30, "1" + "0" * 30), ("", ""), ("caf\u00e9", "caf\u00e9"), ("a\ud800", "a\ud800"),
    ({"b": [1, None], "a": "\u4e2d"}, '{"b":[1,null],"a":"\u4e2d"}'), ((1, (2,)), "[1,[2]]"), ({1}, "[1]"), (zoo.Point(1), '{"x":1,"y":0.5}'),
    (b"plain", "plain"), (bytearray(b"x"), "x"), (memoryview(b"x"), "x"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "shown"), VALUES, ids=[repr(v).partition(" at 0x")[0] for v, _ in VALUES])
def test_text_and_plain_data_are_shown_as_they_are(value: object, shown: str) -> None:
    outcome = returned(value, WRITE)
    assert isinstance(outcome, Outcome)
    assert (outcome.status, text_of(outcome), outcome.code) == ("ok", shown, "")


class Hostile:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("do not look")


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


def test_a_value_that_cannot_be_shown_does_not_hide_that_the_call_returned() -> None:
    """A read is its value, so it failed; a write has happened, and repeating it would be the greater lie."""
    for value in (object(), float("nan"), {1: 2}, {"x": float("inf")}, CYCLE, Hostile(), Unknown, lambda: 1):
        read, write = returned(value, READ), returned(value, WRITE)
        assert isinstance(read, Outcome)
        assert isinstance(write, Outcome)
        assert (read.status, write.status) == ("error", "ok")
        assert read.code == write.code == "unserialisable"
        assert "The call returned, but its value cannot be shown" in text_of(write)


@given(st.binary(max_size=300), st.integers(40, 4000))
def test_bytes_that_are_not_text_are_kept_exactly(data: bytes, limit: int) -> None:
    outcome = returned(b"\xff" + data, replace(READ, result_limit=limit))
    assert isinstance(outcome, Outcome)
    view, *rest = outcome.observation
    assert "are not UTF-8" in view.text or view.full_size
    assert sum(len(text_bytes(p.text)) for p in outcome.observation if isinstance(p.text, str)) <= limit
    whole = b"\xff" + data
    if limit >= 4000:
        assert base64.b64decode(rest[0].text) == whole
    for exact in rest:
        if len(exact.text) % 4 == 0 and exact.text:
            assert whole.startswith(base64.b64decode(exact.text))
        if exact.text and base64.b64decode(exact.text[: len(exact.text) // 4 * 4]) != whole:
            assert exact.full_size


def test_cut_bytes_tell_of_the_whole() -> None:
    data = b"\xff" * 100_000
    view, exact = returned(data, replace(READ, result_limit=8000)).observation  # type: ignore[union-attr]  # an outcome
    assert (exact.full_size, exact.full_sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert base64.b64decode(exact.text) == data[:999]
    assert "100000 bytes that are not UTF-8" in view.text


@given(st.text(st.characters(codec=None), max_size=200), st.integers(1, 300))
def test_a_cut_stays_under_the_limit_at_a_character_boundary_and_says_so(text: str, limit: int) -> None:
    (part,) = capped((Part(text=text),), limit)
    data = text_bytes(text)
    assert isinstance(part.text, str)
    assert len(text_bytes(part.text)) <= limit
    if len(data) <= limit:
        assert part == Part(text=text)
        return
    assert (part.full_size, part.full_sha256) == (len(data), hashlib.sha256(data).hexdigest())
    shown = re.sub(r"\n\[cut: only the beginning of \d+ bytes is shown\]$", "", part.text)
    assert text.startswith(shown)
    assert capped((part,), limit) == (part,), "cutting twice changes nothing"


def test_several_parts_share_the_limit_and_images_pass() -> None:
    parts = capped((Part(text="a" * 60), Part("image", blob="d", mime="image/png"), Part(text="b" * 60)), 100)
    assert [p.text for p in parts] == ["a" * 60, "", "b" * 40]
    assert parts[2].full_size == 60


def test_a_tools_own_outcome_passes_checked_and_capped() -> None:
    assert returned(Outcome("error", (Part(text="mine"),), code="c"), WRITE) == Outcome("error", (Part(text="mine"),), code="c")
    big = returned(Outcome("ok", (Part(text="x" * 100),)), replace(WRITE, result_limit=50))
    assert isinstance(big, Outcome)
    assert len(big.observation[0].text) == 50  # type: ignore[arg-type]  # an inline text
    for broken in (Outcome("fine"), Outcome("ok", ("text",)), Outcome("ok", result=object()), Outcome("ok", result=float("nan"))):  # type: ignore[arg-type]  # broken on purpose
        assert (returned(broken, WRITE).status, returned(broken, READ).status) == ("unknown", "error")  # type: ignore[union-attr]  # an outcome


def test_only_a_tool_that_says_so_may_defer() -> None:
    deferred = Deferred("t", "task", 7, dispatched=True, prompt={"a": 1})
    assert returned(deferred, PAY) == deferred
    undeclared = returned(deferred, WRITE)
    assert isinstance(undeclared, Outcome)
    assert (undeclared.status, undeclared.code) == ("unknown", "undeclared_deferral")
    assert returned(Deferred("t", "nothing"), PAY).status == "unknown"  # type: ignore[union-attr, arg-type]  # broken on purpose


@pytest.mark.parametrize("name", zoo.EXCEPTIONS)
def test_an_exception_is_the_tools_own_word_that_it_failed(name: str) -> None:
    outcome = raised(zoo.made(name), WRITE)
    assert outcome.status == ("unknown" if name == "unknown" else "error")
    assert 0 < len(text_of(outcome)) <= 5000
    canonical(outcome)  # it can be recorded


def test_the_text_of_failures() -> None:
    assert text_of(raised(zoo.ToolFailed("no such account"), READ)) == "no such account"
    assert text_of(raised(ValueError("bad"), READ)) == "ValueError: bad"
    told = raised(problem("not_found", "no file", details={"path": "x"}), READ)
    assert told.code == "not_found"
    assert '"details": {"path": "x"}' in text_of(told)
    assert text_of(raised(problem("conflict", "odd", details={"o": object()}), READ))


def test_a_lost_worker_is_unknown_only_where_something_may_have_changed() -> None:
    assert (lost(READ, "signal 9").status, lost(WRITE, "signal 9").status, lost(PAY, "signal 9").status) == ("error", "unknown", "unknown")
    assert "signal 9" in text_of(lost(WRITE, "signal 9"))
    assert "read it back" in text_of(lost(WRITE, "signal 9"))


def test_what_was_printed_is_a_part_of_its_own() -> None:
    assert with_printed(Outcome("ok"), READ, "") == Outcome("ok")
    assert [p.text for p in with_printed(Outcome("ok", (Part(text="v"),)), READ, "p").observation] == ["v", "\n[printed]\np"]


def test_settle_results() -> None:
    for same in (NotStarted(), Pending("t"), Unknown(), Outcome("error", code="x")):
        assert settled(same, PAY) == same
    assert settled(None, PAY) == Unknown()
    assert settled({"id": 1}, PAY) == Outcome("ok", (Part(text='{"id":1}'),))
    for unusable in (object(), Deferred("t", "task")):
        assert settled(unusable, PAY) == Unknown()


ANSWERS = [
    Outcome("ok", (Part(text="a\ud800\n"), Part(), Part(text="\0é\U0001f600")), result={"n": 10**30}),
    Deferred("t", "run", 3, prompt=[1]), NotStarted(), Pending("t"), Unknown(),
]  # fmt: skip


@pytest.mark.parametrize("value", ANSWERS, ids=lambda v: type(v).__name__)
def test_answers_survive_the_wire(value: Any) -> None:
    assert decode_answer(bytearray(encode_answer(value))) == value


def test_what_a_worker_sends_that_is_no_answer_is_refused() -> None:
    whole = encode_answer(ANSWERS[0])
    for cut in (b"", b"{}", b"\n", b"{}\n", whole.replace(b'"sizes":[', b'"sizes":[9,'), whole.replace(b'"Outcome"', b'"Odd"')):
        with pytest.raises((ValueError, TypeError, KeyError)):
            decode_answer(bytearray(cut))


def test_a_tool_cannot_point_at_a_text_that_it_does_not_give() -> None:
    """The log would name a text that nobody has, and the run could never be gone on with."""
    for spec, status in ((READ, "error"), (WRITE, "unknown")):
        outcome = returned(Outcome("ok", (Part(text=BlobRef("0" * 64, 5)),)), spec)
        assert isinstance(outcome, Outcome)
        assert (outcome.status, outcome.code) == (status, "unserialisable")
