"""The pipeline's order and gates, told as timelines on the toy service."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from polyloop.contract import leaf
from polyloop.contract.ledger import Entry
from polyloop.contract.problem import FieldProblem, Problem, problem
from polyloop.contract.session import Need, Session
from polyloop.contract.task import Ticket
from tests.contract.toy import PUT, Desk, asks, error, receipt_of

# --- order -------------------------------------------------------------------------------------------------------


def test_S1_3_the_order_of_a_write() -> None:
    desk = Desk()
    receipt = receipt_of(desk.call("put", key="k1"))
    asks(desk, "Recall", "Prepare", "Intend", "Send", "Conclude", "Settle")
    assert receipt.data == {"operationId": "op1", "revision": 1}
    assert receipt.target == {"name": "a"}
    desk.call("get", {"name": "a"}, key="k1")
    asks(desk, "Prepare", "Send", "Conclude")


def test_a_retry_is_recorded_as_an_attempt() -> None:
    desk = Desk(faults=["429_after_0"])
    desk.call("put")
    assert desk.ledger["op1"].attempt == 2
    assert list(desk.shelf.log) == ["op1/2/write"]


def test_wrong_arguments_reach_nobody() -> None:
    desk = Desk()
    told = error(desk.call("put", {"name": "", "value": None, "x": 1}), "validation")
    asks(desk)
    assert told.operation == "put"
    assert [(p["field"], p["issue"]) for p in told.details["problems"]] == [("name", "empty"), ("value", "null"), ("x", "unknown_field")]
    assert (told.details["field"], told.details["attempt"], told.details["maxAttempts"], told.exit_code) == ("name", 1, 3, 2)


def test_the_intent_is_durable_before_the_first_step_and_says_what_a_crash_would_leave() -> None:
    desk = Desk()
    process_answers = desk.answer

    def dying(command: leaf.Command) -> Any:
        if isinstance(command, leaf.Send):
            raise KeyboardInterrupt
        return process_answers(command)

    desk.answer = dying  # type: ignore[method-assign]  # the driver dies at the first step
    with pytest.raises(KeyboardInterrupt):
        desk.call("put")
    left = desk.ledger["op1"]
    assert left.receipt is None
    assert [(s.name, s.status, s.effect) for s in left.steps] == [("write", "unknown", True)]
    desk.answer = process_answers  # type: ignore[method-assign]  # and comes back
    assert desk.reconcile("op1").receipt.status == "retryable"
    assert desk.shelf.write("op1/1/write", "put", "a", "late").kind == "conflict", "a late arrival is fenced off"


def test_a_step_known_done_after_a_crash_is_a_success_once_read_back() -> None:
    desk = Desk(settle="lost")
    desk.call("put")
    assert desk.ledger["op1"].receipt is None
    settled = desk.reconcile("op1")
    assert settled.receipt.status == "success"
    assert desk.ledger["op1"] == settled


def test_the_driver_may_raise_its_problem() -> None:
    desk = Desk()

    def failing(command: leaf.Command) -> Any:
        raise problem("not_found", "no such thing")

    desk.answer = failing  # type: ignore[method-assign]  # every command fails
    told = error(desk.call("put"), "not_found")
    assert told.operation == "put"


def test_S0_5_a_target_not_resolved_stops_a_write_with_no_side_effect() -> None:
    for kind in ("not_found", "ambiguous", "type_mismatch", "pagination"):
        desk = Desk()
        desk._Prepare = lambda _, kind=kind: Problem(kind, "", operation="resolve", details={"candidates": ["a", "b"]})  # type: ignore[method-assign]  # the resolver's word
        told = error(desk.call("put"), kind)
        assert (told.operation, told.details) == ("resolve", {"candidates": ["a", "b"]})
        assert (desk.requests, desk.shelf.values, desk.ledger) == (0, {}, {})


# --- keys --------------------------------------------------------------------------------------------------------


def test_S0_8_the_same_call_again_gets_the_stored_receipt_and_sends_nothing() -> None:
    desk = Desk()
    first = receipt_of(desk.call("append", key="k1"))
    again = receipt_of(desk.call("append", key="k1"))
    assert again == first
    assert (desk.requests, desk.shelf.values) == (1, {"a": "1"})


def test_without_a_key_nothing_is_ever_taken_for_the_same() -> None:
    desk = Desk()
    desk.call("append")
    desk.call("append")
    assert desk.shelf.values == {"a": "11"}


def test_a_key_stands_for_one_request() -> None:
    desk = Desk()
    desk.call("put", key="k1")
    told = error(desk.call("put", {"name": "a", "value": "2"}, key="k1"), "validation")
    assert (told.details["field"], told.details["issue"]) == ("operationKey", "other_arguments")
    assert (told.details["attempt"], told.details["maxAttempts"]) == (0, 3)
    assert desk.shelf.values == {"a": "1"}


def test_a_running_operation_answers_with_its_ticket() -> None:
    desk = Desk()
    desk.ledger["op0"] = Entry(operation_id="op0", operation="put", request="", key="k1")
    desk.call("put", key="k2")
    desk.ledger["op0"] = replace(desk.ledger["op0"], request=desk.ledger["op1"].request)
    pending = desk.call("put", key="k1")
    assert isinstance(pending, Ticket)
    assert (pending.task_id, pending.state, pending.complete, pending.exit_code) == ("op0", "running", False, 10)
    assert desk.requests == 1


@pytest.mark.parametrize(
    ("fault", "requests", "state"),
    [("drop_reply", 1, {"a": "1"}), ("drop_request", 2, {"a": "1"}), ("429_after_3600", 2, {"a": "1"}), ("403", 2, {"a": "1"})],
)
def test_S0_10_S0_11_a_repeated_key_reconciles_first_and_sends_only_what_never_began(fault: str, requests: int, state: dict[str, str]) -> None:
    desk = Desk(faults=[fault])
    assert receipt_of(desk.call("append", key="k1")).status != "success"
    again = receipt_of(desk.call("append", key="k1"))
    assert again.status == "success"
    assert (desk.requests, desk.shelf.values) == (requests, state)
    assert desk.ledger["op1"].attempt == requests
    assert again.data["operationId"] == "op1", "one key, one operation"


def test_an_unknown_that_cannot_be_told_stays_unknown_and_sends_nothing() -> None:
    desk = Desk(faults=["drop_reply"], readback="unreachable")
    desk.call("append", key="k1")
    assert receipt_of(desk.call("append", key="k1")).status == "unknown"
    assert desk.requests == 1


def test_two_calls_with_one_key_at_once() -> None:
    """The second finds the key taken when it writes its intent."""
    desk = Desk()
    desk.call("put", key="k1")
    desk._Recall = lambda _: None  # type: ignore[method-assign]  # it looked before the first wrote
    assert receipt_of(desk.call("put", key="k1")).data["operationId"] == "op1"
    desk.ledger["op1"] = replace(desk.ledger["op1"], receipt=None)
    assert isinstance(desk.call("put", key="k1"), Ticket)
    desk.ledger["op1"] = replace(desk.ledger["op1"], receipt=receipt_of(Desk(faults=["403"]).call("put")))
    assert isinstance(desk.call("put", key="k1"), Ticket), "the other one will make the next attempt"
    assert desk.requests == 1


# --- going on after a partial success ----------------------------------------------------------------------------


def test_S0_8_going_on_starts_at_the_first_step_not_done() -> None:
    desk = Desk(faults=["none", "403"])
    thrice = {"name": "a", "value": "thrice"}
    assert receipt_of(desk.call("put_thrice", thrice)).status == "partial_success"
    rest = receipt_of(desk.call("put_thrice", thrice, continues=desk.ledger["op1"]))
    assert rest.status == "success"
    assert [s.name for s in rest.steps] == ["write_b", "write_c", "verify"]
    assert desk.requests == 4
    assert desk.ledger["op2"].continues == "op1"


def test_S0_8_going_on_with_what_went_on_repeats_no_step() -> None:
    desk = Desk(faults=["none", "403", "none", "403"])
    thrice = {"name": "a", "value": "thrice"}
    desk.call("put_thrice", thrice)
    again = receipt_of(desk.call("put_thrice", thrice, continues=desk.ledger["op1"]))
    assert [(s.name, s.status) for s in again.steps] == [("write_b", "success"), ("write_c", "failed"), ("verify", "not_started")]
    rest = receipt_of(desk.call("put_thrice", thrice, continues=desk.ledger["op2"]))
    assert [s.name for s in rest.steps] == ["write_c", "verify"]
    assert desk.requests == 5


def test_a_write_done_but_not_proved_goes_on_with_the_proof_alone() -> None:
    desk = Desk(readback="differs")
    desk.call("put")
    still = receipt_of(desk.call("put", continues=desk.ledger["op1"]))
    assert (still.status, desk.requests) == ("failed", 1)
    desk.readback = ""
    proved = receipt_of(desk.call("put", continues=desk.ledger["op1"]))
    assert (proved.status, desk.requests) == ("success", 1)


@pytest.mark.parametrize("fault", [[], ["403"], ["drop_reply"]])
def test_only_a_partial_success_can_be_gone_on_with(fault: list[str]) -> None:
    desk = Desk(faults=fault)
    desk.call("put")
    for entry in (desk.ledger["op1"], replace(desk.ledger["op1"], receipt=None), replace(desk.ledger["op1"], operation="append")):
        assert error(desk.call("put", continues=entry), "validation").details["field"] == "continues"


# --- session, permission, precondition ---------------------------------------------------------------------------


def test_S1_88_three_wrong_calls_withdraw_the_operation() -> None:
    desk, session = Desk(), Session("auto")
    attempts = [error(desk.call("put", {"name": "a"}, session), "validation").details["attempt"] for _ in range(3)]
    assert attempts == [1, 2, 3]
    told = error(desk.call("put", PUT, session), "capability_unavailable")
    assert told.details == {"reason": "attempts_exhausted", "attempt": 3, "maxAttempts": 3}
    assert receipt_of(desk.call("append", PUT, session)).ok, "others are not touched"
    assert error(desk.call("put", PUT, Session("auto", session.fresh)), "capability_unavailable"), "and it lasts"


def test_success_clears_the_count_and_conflicts_do_not_add_to_it() -> None:
    desk, session = Desk(), Session("auto")
    desk.call("put", {"name": "a"}, session)
    desk.call("put", {**PUT, "expectedRevision": 7}, session)
    assert session.attempts("put") == 1
    desk.call("put", PUT, session)
    assert session.attempts("put") == 0
    desk.problems = (FieldProblem("name", "invalid_value", "not on this shelf"),)
    assert error(desk.call("put", PUT, session), "validation").details["attempt"] == 1, "wrong by meaning is wrong"


def test_S1_3_read_first_is_asked_for_and_not_counted() -> None:
    desk, session = Desk(), Session("auto")
    desk.needs = (Need("name", "get", "a", token="0"),)
    told = error(desk.call("put", PUT, session), "validation")
    assert (told.details["issue"], told.details["attempt"], told.details["maxAttempts"]) == ("read_first", 0, 3)
    desk.call("get", {"name": "a"}, session)
    assert receipt_of(desk.call("put", PUT, session)).ok


def test_S1_43_after_an_unknown_write_the_target_must_be_read() -> None:
    desk, session = Desk(faults=["drop_reply"]), Session("auto")
    assert receipt_of(desk.call("put", PUT, session)).status == "unknown"
    assert error(desk.call("put", PUT, session), "validation").details["issue"] == "read_first"
    assert receipt_of(desk.call("put", {"name": "b", "value": "1"}, session)).ok
    desk.call("get", {"name": "a"}, session)
    assert receipt_of(desk.call("put", PUT, session)).ok


def test_S1_26_handles_are_checked_before_anything_is_asked() -> None:
    desk, session = Desk(), Session("auto")
    assert error(desk.call("get", {"name": "a", "offset": 7}, session), "validation").details["issue"] == "not_issued"
    asks(desk)
    desk.call("get", {"name": "a", "offset": 0}, session)
    assert desk.call("get", {"name": "a", "offset": 7}, session)["name"] == "a"


def test_S1_48_read_only_writes_nothing() -> None:
    desk, session = Desk(), Session("read_only")
    for op in ("put", "append", "buy", "remove", "bake", "order"):
        told = error(desk.call(op, PUT, session), "permission_denied")
        assert (told.exit_code, told.stage) == (6, "permission")
    assert (desk.requests, desk.ledger) == (0, {})
    assert desk.call("get", {"name": "a"}, session) == {"name": "a", "value": "", "revision": 0}


def test_S1_87_a_stale_write_changes_nothing_and_says_what_changed() -> None:
    desk = Desk()
    desk.call("put", {**PUT, "expectedRevision": 0})
    told = error(desk.call("put", {"name": "a", "value": "2", "expectedRevision": 0}), "revision_conflict")
    assert told.details == {"field": "expectedRevision", "expected": 0, "current": 1, "changed": {"revision": 1}}
    assert desk.shelf.values == {"a": "1"}
    assert receipt_of(desk.call("put", {"name": "a", "value": "2", "expectedRevision": 1.0})).ok


def test_a_plan_is_only_a_plan() -> None:
    desk = Desk()
    plan = desk.call("put_thrice", {"name": "a", "value": "thrice"}, dry_run=True)
    assert plan["executed"] is False
    assert plan["plan"]["steps"] == ["write_a", "write_b", "write_c"]
    asks(desk, "Prepare")


def test_a_plan_of_a_hash_of_another_kind_is_a_mistake() -> None:
    desk = Desk()
    prepare = desk._Prepare
    desk._Prepare = lambda c: replace(prepare(c), current="content:1")  # type: ignore[method-assign]  # a shelf with hashes
    assert error(desk.call("put", {**PUT, "expectedRevision": 3}), "validation").details["issue"] == "wrong_kind"
