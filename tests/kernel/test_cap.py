"""What is cut of an observation for the model: the end of a text, the inside of a receipt or a list; the log keeps all of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from polyloop.kernel.cap import CUT_MARK, capped
from polyloop.kernel.history import carried_text
from polyloop.kernel.seams import Reply
from polyloop.testing import said
from tests.kernel.desk import Desk, act
from tests.kernel.test_native_runs import calls, native

RECEIPT: dict[str, Any] = {
    "contractVersion": "doc.receipt.v1", "ok": True, "status": "success", "complete": True, "operation": "doc.fetch",
    "steps": [{"name": "read", "status": "success"}], "data": {"revision": "r7", "contentSha256": "ab" * 32, "content": "x" * 9000},
}  # fmt: skip
LIST: dict[str, Any] = {
    "contractVersion": "doc.list.v1", "status": "success", "count": 300, "complete": True, "hasMore": False, "continuation": "c" * 120,
    "items": [{"nodeId": f"n{i:08}", "title": "a title"} for i in range(300)],
}  # fmt: skip


def test_a_text_is_cut_at_its_end_and_says_so() -> None:
    assert capped("a" * 1000, 1000) == "a" * 1000
    assert capped("a" * 1001, 1000) == "a" * 1000 + CUT_MARK


def test_a_receipt_stays_json_and_keeps_all_but_its_data() -> None:
    shown = json.loads(capped(json.dumps(RECEIPT), 1000))
    assert {**shown, "data": 0} == {**RECEIPT, "data": 0}
    assert {**shown["data"], "content": 0} == {**RECEIPT["data"], "content": 0}
    assert shown["data"]["content"].endswith("x" + CUT_MARK)
    assert len(capped(json.dumps(RECEIPT), 1000)) <= 1000


def test_S0_27_a_list_with_a_cut_is_not_complete() -> None:
    shown = json.loads(capped(json.dumps(LIST), 2000))
    *items, mark = shown["items"]
    assert items == LIST["items"][: len(items)]
    assert len(items) >= 10
    assert mark == f"{CUT_MARK} {len(items)} of 300"
    assert {**shown, "items": 0} == {**LIST, "items": 0, "complete": False}


@pytest.mark.parametrize(
    "text",
    [
        '{"data": ' + "1" * 2000,  # no JSON
        json.dumps({"note": "y" * 3000}),  # nothing that may be cut
        json.dumps({"data": {f"k{i}": "v" * 100 for i in range(40)}}),  # too much even of what is kept
        "{" * 3000,
        '{"data": "\\ud800' + "z" * 2000,
    ],
)
def test_what_does_not_fit_in_any_other_way_is_cut_as_text(text: str) -> None:
    assert capped(text, 1000) == text[:1000] + CUT_MARK


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=60))
def test_a_cap_is_kept_and_never_more_than_cuts(data: Any) -> None:
    whole = {"status": "success", "complete": True, "data": data}
    text = json.dumps(whole, ensure_ascii=False)
    shown = capped(text, 60)
    assert len(shown) <= 60 + len(CUT_MARK)
    assert capped(text, 60) == shown
    if not shown.endswith(CUT_MARK):
        assert {**json.loads(shown), "data": 0} == {**whole, "data": 0}


LONG = json.dumps(RECEIPT)


def test_the_policy_caps_observations_and_nothing_else() -> None:
    """The reply, its arguments and the first line of what is told are whole; the log is whole; a resume and a fork show the same."""
    lines = [act("look", note="n" * 3000), act("look", n=2), act("submit")]
    request = replace(Desk.ask_for(), overflow="cap_observation(1000)")
    desk = Desk(lines, {"look": said(LONG)}, request=request)
    desk.start()
    _, reply, told, *_ = desk.model.seen[1].messages
    assert reply.text == lines[0]
    assert told.text == "[look: ok]\n" + capped(LONG, 1000)
    results = [x for x in desk.shown() if x["kind"] == "action_result"]
    assert results[0]["observation"][0]["text"] == LONG
    again = Desk(lines, {"look": said(LONG)}, request=request, shelf=desk.log.upto(8))
    again.resume()
    assert [m.text for m in again.model.seen[-1].messages] == [m.text for m in desk.model.seen[-1].messages]
    kept = carried_text("", desk.driver.state.history, desk.driver.look)
    fork = Desk([act("submit")], request=replace(request, history=kept))
    fork.start()
    assert [m.text for m in fork.model.seen[0].messages][:4] == [m.text for m in desk.model.seen[-1].messages][:4]


def test_the_policy_under_native_calls_keeps_calls_and_results_paired() -> None:
    desk = native([calls(("look", {}), ("nope", {})), calls(("submit", {}))], {"look": said(LONG)})
    desk.request = replace(desk.request, overflow="cap_observation(1000)")
    desk.start()
    _, reply, seen, refused = desk.model.seen[1].messages
    assert [c.id for c in reply.tool_calls] == [seen.call_id, refused.call_id]
    assert len(seen.text) < 1100
    assert refused.text.startswith("[rejected: unknown_tool]")


def test_an_answer_that_is_no_json_is_its_text() -> None:
    """As after an erasure, or by an interpreter that asks for none."""
    desk = native([Reply("No sum.")], tools=())
    desk.request = replace(desk.request, result_schema={"type": "string"})
    assert desk.start().result == "No sum."


def test_S0_24_a_final_answer_must_fit_what_the_run_asks_for() -> None:
    """A mismatch is told and the run goes on; the result is the value, read back from the log as it was."""
    from polyloop.kernel.native_tools import NativeTools

    def problems(value: Any) -> list[dict[str, Any]]:
        return [] if isinstance(value, dict) and "sum" in value else [{"path": "sum", "issue": "is needed"}]

    answers = ["The sum is 3.", '{"total": 3}', '```json\n{"sum": 3}\n```', '{"sum": 3}']
    desk = native([Reply(text) for text in answers], tools=())
    desk.interpreter = NativeTools(problems)
    desk.request = replace(desk.request, result_schema={"required": ["sum"]})
    ended = desk.start()
    assert (ended.reason, ended.completed_by, ended.result) == ("completed", "final_answer", {"sum": 3})
    assert [(s["tier"], s["outcome"], s["valid"]) for s in desk.steps()] == [("C", "args_invalid", False)] * 3 + [("G", "final_answer", False)]
    assert [s["raw_output"] for s in desk.steps()] == answers
    assert "sum: is needed" in desk.told()
    assert desk.resume() == ended
    desk.check()
