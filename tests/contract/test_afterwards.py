"""Tickets, reads, and finding out afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from polyloop.contract import leaf
from polyloop.contract.operation import drive
from polyloop.contract.receipt import Receipt
from polyloop.contract.session import Read, Session
from polyloop.contract.task import Ticket
from tests.contract.toy import Desk, asks, error, receipt_of

# --- tickets and reads -------------------------------------------------------------------------------------------


def test_S0_22_S0_24_a_submission_is_a_ticket_and_never_done() -> None:
    desk = Desk()
    made = desk.call("order", key="k1")
    assert isinstance(made, Ticket)
    assert (made.task_id, made.state, made.complete, made.exit_code) == ("t-op1/1/submit", "INIT", False, 10)
    assert desk.call("order", key="k1") == made, "a duplicate returns the existing task"
    assert desk.requests == 1
    failed = Desk(faults=["drop_reply"]).call("order")
    assert receipt_of(failed).status == "unknown", "without its ticket it is no ticket"


def test_a_ticket_of_another_task_proves_nothing() -> None:
    receipt = receipt_of(Desk(readback="other_task").call("bake"))
    assert receipt.status == "partial_success"
    assert [(s.name, s.status) for s in receipt.steps] == [("submit", "success"), ("finish", "failed"), ("verify", "not_started")]


@pytest.mark.parametrize(
    ("oven", "finish", "why"),
    [("running", "not_started", None), ("task_failed", "failed", "the oven broke"), ("cancelled", "failed", "the task ended")],
)
def test_a_blocking_task_that_did_not_succeed(oven: str, finish: str, why: str | None) -> None:
    receipt = receipt_of(Desk(readback=oven).call("bake"))
    assert receipt.status == "partial_success"
    assert [s.status for s in receipt.steps] == ["success", finish, "not_started"]
    assert receipt.data["taskId"] == "t-op1/1/submit"
    assert bool(receipt.failures) == bool(why)
    if why:
        assert receipt.failures[0].message.startswith(why)


def test_S1_29_a_reading_that_does_not_keep_its_schema_is_no_reading() -> None:
    desk, session = Desk(faults=["empty_object"]), Session("auto")
    assert error(desk.call("get", {"name": "a"}, session), "invalid_response").operation == "get"
    assert session.fresh == [], "and nothing counts as read"
    assert error(Desk(faults=["403"]).call("get", {"name": "a"}), "permission_denied")
    assert error(Desk(faults=["drop_reply"]).call("get", {"name": "a"}), "invalid_response")


def test_a_result_that_does_not_keep_its_schema_is_not_proved() -> None:
    receipt = receipt_of(Desk(readback="bad_data").call("put"))
    assert (receipt.status, receipt.failures[0].kind) == ("partial_success", "invalid_response")


def test_what_a_response_gives_out_is_noted_for_the_driver_to_store() -> None:
    desk, session = Desk(), Session("auto")
    desk.call("get", {"name": "a"}, session)
    assert any(isinstance(f, Read) for f in session.fresh)


def test_reconciling_a_settled_operation_asks_nothing() -> None:
    desk = Desk()
    desk.call("put")
    desk.seen.clear()
    assert desk.reconcile("op1") == desk.ledger["op1"]
    asks(desk)
    assert isinstance(desk.ledger["op1"].receipt, Receipt)


def test_an_unfinished_task_is_reconciled_to_its_end() -> None:
    desk = Desk(readback="running")
    desk.call("bake")
    assert desk.reconcile("op1").receipt.status == "partial_success"
    desk.readback = "unreachable"
    assert desk.reconcile("op1").receipt.status == "partial_success"
    desk.readback = ""
    done = desk.reconcile("op1").receipt
    assert done.status == "success"
    assert done.verification.method == "terminal_state"
    assert done.data["taskId"] == "t-op1/1/submit"


def test_a_crash_before_the_submission_of_a_blocking_task() -> None:
    desk = Desk(settle="lost", faults=["drop_request"])
    desk.call("bake")
    settled = desk.reconcile("op1").receipt
    assert (settled.status, [s.status for s in settled.steps]) == ("retryable", ["not_started", "not_started", "not_started"])


def test_reconciling_that_cannot_be_recorded_is_told() -> None:
    desk = Desk(faults=["drop_reply"])
    desk.call("put")
    desk.settle = "lost"
    with pytest.raises(Exception, match="COMMIT failed"):
        desk.reconcile("op1")


def test_drive_hands_back_what_a_process_returns() -> None:
    def process() -> Any:
        told = yield leaf.Wait(1)
        return told

    assert drive(process(), lambda _: "told") == "told"
