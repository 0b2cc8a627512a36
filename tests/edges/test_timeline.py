"""What a person is shown of a run: every record in its place, raw beside repaired, and nothing foreign that acts on the terminal."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.cli.cells import fit, pad, plain, width
from polyloop.cli.timeline import NOTES, Timeline
from polyloop.kernel.objects import Budget
from polyloop.kernel.records import KINDS, ToolCall
from polyloop.kernel.seams import ModelCallFailed, Outcome, Reply
from polyloop.testing import said
from tests.kernel.desk import Desk, act
from tests.kernel.test_native_runs import calls, native


def page(desk: Desk, columns: int = 120, *, colours: bool = False) -> list[str]:
    """All lines of a run, as `show` prints them."""
    desk.start()
    records: list[dict[str, Any]] = desk.shown()
    timeline = Timeline("en", columns, styled=colours)
    settings = timeline.settings(records[0])
    rows = [line for record in records for line in timeline.feed(record)]
    result = desk.resume()
    return [*settings, *timeline.bars(records[0], result, records[-1]["at"]), *rows, *timeline.outcome(result)]


def test_S2_21_a_repaired_reply_stands_beside_what_was_read() -> None:
    fenced = f"```json\n{act('look', n=1)}\n```"
    lines = page(Desk([fenced, act("submit")]))
    at = next(i for i, line in enumerate(lines) if "repairs: fence" in line)
    left, right = lines[at + 2].split(" | ")
    assert left.strip().startswith("```json {")
    assert right.startswith('{"reflection"')
    assert [word.strip() for word in lines[at + 1].split(" | ")] == ["raw", "read as"]


def test_a_repair_far_inside_is_shown_where_it_is() -> None:
    broken = act("look", n="x" * 4000).replace('"args"', '"args" /* why */')
    lines = page(Desk([broken, act("submit")]))
    row = next(line for line in lines if "/* why" in line and " | " in line)
    assert "…" in row.split(" | ")[1]


def test_the_order_is_reply_intent_result_step() -> None:
    rows = [line.split()[2] for line in page(Desk([act("look"), act("nope"), act("submit")])) if line.lstrip().startswith("+")]
    assert rows == ["#1", "->", "<-", "=", "#2", "=", "#3", "->", "<-", "=", "·"]


def test_every_kind_of_record_has_its_place() -> None:
    assert set(NOTES) | set(Timeline("en", 120).readers) | {"run_started"} == set(KINDS)


def test_budgets_are_bars() -> None:
    lines = page(Desk([act("look"), act("submit")], request=replace(Desk.ask_for(), budget=Budget(4, 8, wall_clock_s=60, working_time_s=30))))
    assert any("valid steps   [############------------]  2/4" in line for line in lines)
    assert any("model calls   [######------------------]  2/8" in line for line in lines)
    assert sum("seconds" in line for line in lines) == 2


def test_what_failed_says_how() -> None:
    def never(request: Any) -> Any:
        raise ModelCallFailed("refused", sent=False, message="no key")

    unsent = page(Desk(never))
    assert any("refused (not sent) no key" in line for line in unsent)
    unknown = page(Desk([act("write"), act("submit")], {"write": Outcome("unknown", said("?").observation, code="timeout")}))
    assert any("<- unknown (timeout)" in line for line in unknown)
    refused = page(Desk([act("nope"), act("submit")]))
    assert any(line.strip().startswith("unknown_tool: ") for line in refused)
    erased = Timeline("en", 120).feed({"seq": 3, "at": 5, "kind": "step", "erased": True})
    assert erased[0].split() == ["+0.005", "3", "erased"]


EVIL = "\x1b[2J\x1b]0;owned\x07\u202e\u2066\x9b31m\u2028\x00 \r\n fine"


@pytest.mark.parametrize("colours", [False, True])
def test_foreign_text_moves_no_cursor_and_hides_nothing(colours: bool) -> None:
    lines = page(Desk([act("look", n=EVIL), EVIL, act(EVIL), act("submit", summary=EVIL)], {"look": said(EVIL)}), colours=colours)
    lines += page(native([Reply(EVIL, tool_calls=(ToolCall("c", EVIL, EVIL),)), calls(("submit", {}))]), colours=colours)
    for line in lines:
        bare = line
        if colours:
            for code in ("31", "32", "33", "2", "0"):
                bare = bare.replace(f"\x1b[{code}m", "")
        assert not [c for c in bare if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")], line
    assert any("\\u001b[2J" in line for line in lines)


@pytest.mark.parametrize("columns", [60, 120])
def test_no_line_is_wider_than_the_page(columns: int) -> None:
    wide = "文" * 500
    for line in page(Desk([act("look", n=wide), f"```\n{act('look', n=wide)}\n```", "x" * 5000, act("submit")], {"look": said(wide)}), columns)[4:-2]:
        assert width(line) <= columns, line


@given(st.text(), st.integers(2, 40))
def test_a_text_fits(text: str, columns: int) -> None:
    shown = fit(text, columns)
    assert width(shown) <= columns
    assert width(pad(shown, columns)) == columns
    if not shown.endswith("…"):
        assert shown == plain(text)


def test_times_of_long_runs() -> None:
    timeline = Timeline("en", 120)
    at = {0: "+0.000", 1_500: "+1.500", 999_999: "+999.999", 1_000_000: "+0:16:40", 90_061_000: "+25:01:01"}
    for ms, shown in at.items():
        (line,) = timeline.feed({"seq": 1, "at": ms, "kind": "cancel_requested", "by": "cli", "reason": ""})
        assert line.split()[0] == shown
