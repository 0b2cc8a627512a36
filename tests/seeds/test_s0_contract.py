"""Seed S0 (document runtime contracts), clause by clause, as far as the operations contract answers for it.

Not here, because other rooms keep them: S0.18 (the shape of an import) and S0.42-S0.44 (safe landing).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from polyloop.contract.evidence import Evidence, Item
from polyloop.contract.operation import shown
from polyloop.contract.paging import Ask, Listing, Page, Seal, walk
from polyloop.contract.problem import KINDS, Problem, ProblemError, as_wire, refusal
from polyloop.contract.receipt import Receipt, StepRecord, compared, proof_of, status_of
from polyloop.contract.session import Issued, Session
from polyloop.contract.task import Ticket, ticket
from tests.contract.toy import PUT, Desk, error, receipt_of

THRICE = {"name": "a", "value": "thrice"}
ASK = Ask(tenant="acme", operation="list", query={"q": "budget"}, limit=2)
SEAL = Seal(b"secret", now_ms=0)


def pages(ask: Ask, *given: Page | Problem) -> Listing:
    process, told, left = walk(ask, SEAL), None, list(given)
    while True:
        try:
            process.send(told)
        except StopIteration as end:
            return end.value
        told = left.pop(0)


def broken(ask: Ask, *given: Page | Problem) -> Problem:
    with pytest.raises(ProblemError) as stop:
        pages(ask, *given)
    return stop.value.problem


THREE = (Page(("a", "b"), "c1", True, 3, "s1"), Page(("c",), None, False, 3, "s1"))
LATE = Problem("invalid_response", "timed out", execution_started=None)


# --- facts, not texts --------------------------------------------------------------------------------------------


def test_S0_1_the_schema_and_the_actual_json_decide() -> None:
    assert receipt_of(Desk(faults=["other_id"]).call("put")).status == "unknown"
    assert error(Desk(faults=["empty_object"]).call("get", {"name": "a"}), "invalid_response")


@pytest.mark.parametrize("reply", ["text_ok", "ok_true", "empty_object"])
def test_S0_2_no_status_is_read_out_of_words(reply: str) -> None:
    assert receipt_of(Desk(faults=[reply]).call("put")).status == "unknown"


@pytest.mark.parametrize("faults", [[], ["403"], ["drop_reply"]])
def test_S0_3_the_target_stays_with_the_receipt_however_it_ends(faults: list[str]) -> None:
    printed, _ = shown(Desk(faults=faults).call("put"))
    receipt = printed["error"]["details"] if "error" in printed else printed
    assert receipt["target"] == {"name": "a"}


def test_S0_4_a_title_is_no_identity() -> None:
    session = Session("auto")
    session.note(Issued("thing", ("n_1",)))
    assert session.unissued({"id": "thing"}, {"id": "n_1"}) == []
    assert [p.issue for p in session.unissued({"id": "thing"}, {"id": "Annual report"})] == ["not_issued"]


@pytest.mark.parametrize("kind", ["not_found", "ambiguous", "pagination"])
def test_S0_5_an_unresolved_target_stops_a_write(kind: str) -> None:
    desk = Desk()
    desk._Prepare = lambda _: Problem(kind, "not resolved")  # type: ignore[method-assign]  # the resolver's word
    error(desk.call("put"), kind)
    assert (desk.requests, desk.shelf.values, desk.ledger) == (0, {}, {})


# --- the five statuses -------------------------------------------------------------------------------------------


def test_S0_6_success_is_all_steps_and_the_proof() -> None:
    receipt = receipt_of(Desk().call("put_thrice", THRICE))
    assert receipt.status == "success"
    assert all(s.status == "success" for s in receipt.steps)
    assert receipt.verification.matched
    assert receipt_of(Desk(readback="differs").call("put")).status == "partial_success"


def test_S0_7_partial_success_shows_its_steps_and_its_compensation() -> None:
    told = receipt_of(Desk(faults=["none", "403"]).call("put_thrice", THRICE)).problem()
    assert [s["status"] for s in told.details["steps"]] == ["success", "failed", "not_started", "not_started"]
    assert told.details["compensation"]["available"] is True
    assert set(told.actions) >= {"inspect_steps", "compensate"}


def test_S0_8_steps_that_succeeded_are_not_replayed() -> None:
    desk = Desk(faults=["none", "403"])
    desk.call("put_thrice", THRICE, key="k1")
    desk.call("put_thrice", THRICE, key="k1")
    assert desk.requests == 2, "the same call again sends nothing"
    assert receipt_of(desk.call("put_thrice", THRICE, continues=desk.ledger["op1"])).status == "success"
    assert sorted(desk.shelf.log) == ["op1/1/write_a", "op3/1/write_b", "op3/1/write_c"]


def test_S0_9_unknown_is_what_cannot_be_told() -> None:
    for fault, done in (("drop_reply", {"a": "1"}), ("drop_request", {})):
        desk = Desk(faults=[fault])
        assert receipt_of(desk.call("put")).status == "unknown"
        assert desk.shelf.values == done


def test_S0_10_after_unknown_the_target_is_read_first() -> None:
    desk, session = Desk(faults=["drop_reply"]), Session("auto")
    told = receipt_of(desk.call("put", PUT, session)).problem()
    assert told.actions[0] == "read_back"
    assert error(desk.call("put", PUT, session), "validation").details["issue"] == "read_first"
    desk.call("get", {"name": "a"}, session)
    assert receipt_of(desk.call("put", PUT, session)).ok


@pytest.mark.parametrize("fault", ["drop_reply", "drop_request", "502", "504", "half_reply", "429_bare"])
def test_S0_11_nothing_unknown_is_ever_sent_again_by_itself(fault: str) -> None:
    desk = Desk(faults=[fault])
    assert receipt_of(desk.call("append", key="k1")).status == "unknown"
    desk.reconcile("op1")
    assert (desk.requests, desk.waits) == (1, [])


def test_S0_12_retryable_needs_the_service_to_say_both() -> None:
    assert receipt_of(Desk(faults=["429_after_2"]).call("append")).status == "retryable"
    assert receipt_of(Desk(faults=["503_not_started"]).call("append")).status == "failed"
    assert receipt_of(Desk(faults=["429_bare"]).call("append")).status == "unknown"


def test_S0_13_one_retry_after_the_time_named() -> None:
    desk = Desk(faults=["429_after_2"] * 5)
    receipt = receipt_of(desk.call("put"))
    assert (receipt.status, desk.waits, desk.requests) == ("retryable", [2], 2)
    assert receipt.problem().retry_after_seconds == 2


def test_S0_14_failed_carries_what_is_needed_to_decide() -> None:
    told = receipt_of(Desk(faults=["409_conflict"]).call("put")).problem()
    assert (told.kind, told.retryable, told.actions) == ("revision_conflict", False, ())
    assert told.details["status"] == "failed"
    assert told.details["failures"][0]["executionStarted"] is False


# --- evidence ----------------------------------------------------------------------------------------------------


def test_S0_15_an_exit_code_of_zero_is_no_evidence() -> None:
    assert proof_of("readback", [compared("transport", "exit 0", "exit 0")]) == ("missing", None)
    assert status_of([StepRecord("write", "success", True)], "missing") == "partial_success"


def test_S0_16_nine_fields_always() -> None:
    nine = {"contractVersion", "ok", "status", "complete", "operation", "steps", "data", "warnings", "compensation"}
    for faults in ([], ["403"], ["drop_reply"], ["429_after_3600"]):
        assert as_wire(receipt_of(Desk(faults=faults).call("put"))).keys() >= nine


def test_S0_17_three_fields_only_when_produced() -> None:
    assert "failures" not in as_wire(receipt_of(Desk().call("put")))
    refused = as_wire(receipt_of(Desk(faults=["403"]).call("put")))
    assert "verification" not in refused
    assert [f["stage"] for f in refused["failures"]] == ["write"]


def test_S0_19_the_business_status_stands_in_the_receipt_alone() -> None:
    printed, exit_code = shown(Desk(faults=["429_after_3600"]).call("put"))
    assert printed.keys() == {"error"}
    assert "status" not in printed["error"]
    assert (printed["error"]["kind"], printed["error"]["details"]["status"], exit_code) == ("rate_limited", "retryable", 11)


def test_S0_20_an_id_alone_proves_nothing() -> None:
    assert receipt_of(Desk(faults=["id_only"]).call("put")).status == "unknown"
    assert ticket("t1", "export", "INIT").complete is False


def test_S0_21_terminal_state_over_read_back_over_transport() -> None:
    ranks = ("transport", "readback", "terminal_state")
    enough = {(v, m): proof_of(v, [compared(m, "x", "x")])[0] == "matched" for v in ranks[1:] for m in ranks}
    assert [k for k, v in enough.items() if v] == [("readback", "readback"), ("readback", "terminal_state"), ("terminal_state", "terminal_state")]


def test_S0_22_a_task_is_done_when_asking_by_its_own_id_says_so() -> None:
    assert receipt_of(Desk().call("bake")).status == "success"
    assert receipt_of(Desk(readback="other_task").call("bake")).status == "partial_success"


def test_S0_23_every_proof_demanded_must_match() -> None:
    both = [compared("terminal_state", "succeeded", "succeeded"), compared("readback", "h1", "h2")]
    assert proof_of("terminal_state", both)[0] == "mismatched"


def test_S0_24_an_unfinished_task_is_not_reported_as_done() -> None:
    receipt = receipt_of(Desk(readback="running").call("bake"))
    assert (receipt.status, receipt.complete) == ("partial_success", False)
    assert [(s.name, s.status) for s in receipt.steps][1] == ("finish", "not_started")
    open_task = Item(ref="t1", type="ticket", run="r1", settled=False, complete=False)
    assert [r.issue for r in Evidence([open_task]).check("r1", {"summary": "done"})] == ["unsettled"]


def test_S0_25_a_matched_read_back_is_not_repeated() -> None:
    desk = Desk()
    desk.call("put", key="k1")
    desk.call("put", key="k1")
    desk.reconcile("op1")
    assert desk.seen.count("Conclude") == 1


# --- listings ----------------------------------------------------------------------------------------------------


def test_S0_26_complete_is_proved() -> None:
    assert pages(ASK, *THREE).complete
    uncounted = [replace(p, total=None) for p in THREE]
    assert not pages(ASK, *uncounted).complete


def test_S0_27_more_to_come_keeps_a_continuation_that_works() -> None:
    first = pages(replace(ASK, all=False), THREE[0])
    assert (first.has_more, first.complete) == (True, False)
    assert pages(replace(ASK, continuation=first.continuation), THREE[1]).items == ("c",)


@pytest.mark.parametrize(("bound", "reason"), [({"max_pages": 1}, "max_pages"), ({"max_items": 2}, "max_items")])
def test_S0_28_truncated_by_a_bound_and_nothing_else(bound: dict[str, int], reason: str) -> None:
    cut = pages(replace(ASK, **bound), THREE[0])
    assert (cut.truncated, cut.stop_reason, cut.complete, cut.has_more) == (True, reason, False, True)


@pytest.mark.parametrize(
    ("reason", "last"),
    [
        ("page_failed", LATE), ("missing_cursor", Page(("c",), "", True)), ("stalled_cursor", Page(("c",), "c1", True)),
        ("cyclic_cursor", Page(("c",), "c0", True)),
    ],
)  # fmt: skip
def test_S0_29_a_broken_listing_keeps_what_was_read(reason: str, last: Page | Problem) -> None:
    told = broken(ASK, Page(("x",), "c0", True), Page(("a", "b"), "c1", True), last)
    assert told.kind == "pagination"
    assert told.details.keys() == {"contractVersion", "status", "complete", "reason", "page", "nextCursor", "count", "items"}
    assert (told.details["status"], told.details["complete"], told.details["reason"], told.details["page"]) == ("partial_success", False, reason, 3)
    assert told.details["items"][:3] == ["x", "a", "b"]


def test_S0_30_a_good_list_has_no_failures_field() -> None:
    assert "failures" not in as_wire(pages(ASK, *THREE))


def test_S0_31_a_timeout_is_not_truncation() -> None:
    told = broken(replace(ASK, max_pages=2), THREE[0], LATE)
    assert (told.details["reason"], "truncated" in told.details) == ("page_failed", False)


@pytest.mark.parametrize(("complete", "against"), [(True, []), (False, ["incomplete"])])
def test_S0_32_only_a_complete_list_is_called_the_whole(complete: bool, against: list[str]) -> None:
    evidence = Evidence([Item(ref="l1", type="list", run="r1", complete=complete)])
    claims = [{"text": "all of them", "evidence": ["l1"], "scope": "all"}]
    assert [r.issue for r in evidence.check("r1", {"summary": "s", "claims": claims})] == against


def test_S0_33_asked_for_all_it_reads_on_to_the_end() -> None:
    assert Ask(tenant="t", operation="o", query={}).all
    assert pages(ASK, *THREE).items == ("a", "b", "c")


def test_S0_34_stopped_early_it_says_what_was_covered() -> None:
    cut = as_wire(pages(replace(ASK, max_pages=1), THREE[0]))
    assert cut["covered"] == {"pages": 1, "items": 2}
    assert cut["requested"] == {"q": "budget", "limit": 2, "all": True, "maxPages": 1, "maxItems": 1000}


@pytest.mark.parametrize(
    ("reason", "other"),
    [("changed_query", {"query": {"q": "bud"}}), ("changed_query", {"query": {}}), ("foreign_cursor", {"operation": "search"})],
)
def test_S0_35_a_continuation_repeats_query_and_filters(reason: str, other: dict[str, Any]) -> None:
    first = pages(replace(ASK, all=False), THREE[0])
    assert broken(replace(ASK, continuation=first.continuation, **other), THREE[1]).details["reason"] == reason


# --- errors ------------------------------------------------------------------------------------------------------


def test_S0_36_the_kinds_that_must_be_told_apart() -> None:
    nine = {
        "validation", "not_found", "ambiguous", "type_mismatch", "revision_conflict", "confirmation_required", "permission_denied",
        "partial_success", "commit_unknown",
    }  # fmt: skip
    assert nine <= set(KINDS)
    reached = {
        error(Desk().call("put", {}), "validation").kind,
        error(Desk().call("put", {**PUT, "expectedRevision": 9}), "revision_conflict").kind,
        error(Desk().call("remove"), "confirmation_required").kind,
        error(Desk().call("put", PUT, Session("read_only")), "permission_denied").kind,
        receipt_of(Desk(readback="differs").call("put")).problem().kind,
        receipt_of(Desk(faults=["drop_reply"]).call("put")).problem().kind,
    }
    assert reached == nine - {"not_found", "ambiguous", "type_mismatch"}  # the subject's resolver tells those (S0.5)


def test_S0_37_stage_retryable_actions_and_details_are_told() -> None:
    printed, _ = shown(Desk(faults=["none", "403"]).call("put_thrice", THRICE))
    told = printed["error"]
    assert told.keys() == {
        "kind", "message", "operation", "stage", "executionStarted", "retryable", "retryAfterSeconds", "actions", "details",
    }  # fmt: skip
    assert (told["stage"], told["operation"], told["retryable"]) == ("write_b", "put_thrice", False)


@pytest.mark.parametrize(("fault", "kind"), [("400", "validation"), ("401", "authentication_required"), ("403", "permission_denied")])
def test_S0_38_permission_authentication_and_arguments_go_straight_to_failed(fault: str, kind: str) -> None:
    desk = Desk(faults=[fault])
    told = receipt_of(desk.call("put")).problem()
    assert (told.kind, told.details["status"], desk.requests) == (kind, "failed", 1)


def test_S0_39_only_a_plain_word_of_the_service_makes_it_retryable() -> None:
    assert refusal(503, {"error": {"executionStarted": False, "retryable": True}}).execution_started is False
    for body in (None, {}, {"error": {}}, {"error": {"executionStarted": "false"}}, {"executionStarted": False}):
        assert refusal(503, body).execution_started is None
    assert receipt_of(Desk(faults=["504"]).call("put")).status == "unknown"


def test_S0_40_not_retryable_does_not_mean_never() -> None:
    desk = Desk(faults=["drop_request"])
    assert receipt_of(desk.call("append", key="k1")).problem().retryable is False
    assert receipt_of(desk.call("append", key="k1")).ok, "once it is proved that nothing began, asking again is fine"


def keys(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        yield from value
        for part in value.values():
            yield from keys(part)
    elif isinstance(value, list):
        for part in value:
            yield from keys(part)


def test_S0_41_no_invented_fields_in_any_answer() -> None:
    answers = [Desk(faults=f).call(op) for op in ("put", "append", "buy", "remove", "bake", "order") for f in ([], ["403"], ["drop_reply"])]
    assert {type(a) for a in answers} == {Receipt, Ticket, Problem}
    hostile = refusal(500, {"error": {"nextCommand": "x", "details": {"suggestedAction": "again", "deep": [{"nextCommand": 1}]}}})
    for answer in (*answers, hostile):
        assert not {"suggestedAction", "nextCommand"} & set(keys(shown(answer)[0]))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(as_wire(receipt_of(answers[0])) | {"nextCommand": "again"}, Receipt)
