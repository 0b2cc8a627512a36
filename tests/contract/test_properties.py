"""Whatever happens on the way: at most one effect per operation, no success without it, nothing sent after an unknown."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from polyloop.contract.operation import shown
from polyloop.contract.receipt import Receipt
from polyloop.contract.spend import balance
from polyloop.contract.task import Ticket
from tests.contract.toy import FAULTS, Desk, receipt_of

ROUNDS = 4000 if os.environ.get("POLYLOOP_SOAK") else 150
faults = st.lists(st.sampled_from(["none", "deliver_twice", *FAULTS]), max_size=6)
settles = st.sampled_from(["", "", "lost", "lost_committed", "lost_rolled_back", "rolled_back"])
readbacks = st.sampled_from(["", "", "differs", "lost", "transport_only", "bad_data"])


@settings(max_examples=ROUNDS)
@given(faults, settles, readbacks, st.sampled_from(["network", "atomic"]), st.integers(1, 4))
def test_one_key_one_effect(way: list[str], settle: str, readback: str, transport: str, calls: int) -> None:
    """An append, called again and again with its key until it is settled: it is done once or not at all."""
    if transport == "network" and settle.endswith("rolled_back"):
        settle = "lost"  # only an atomic driver can roll back
    desk = Desk(transport, faults=way, settle=settle, readback=readback)
    answers = [desk.call("append", {"name": "a", "value": "x"}, key="k1") for _ in range(calls)]
    assert desk.shelf.values.get("a", "") in ("", "x")
    for answer in answers:
        assert isinstance(answer, Receipt | Ticket)
        if isinstance(answer, Receipt) and answer.ok:
            assert desk.shelf.values == {"a": "x"}
            assert answer.verification.matched
    last = answers[-1]
    if isinstance(last, Receipt) and last.status in ("failed", "retryable"):
        assert desk.shelf.values == {}, "what is told as not done is not done"
    assert desk.requests <= 2 * calls


@settings(max_examples=ROUNDS)
@given(faults, st.sampled_from(["network", "atomic"]))
def test_parts_are_told_as_they_are(way: list[str], transport: str) -> None:
    desk = Desk(transport, faults=way)
    receipt = receipt_of(desk.call("put_thrice", {"name": "a", "value": "thrice"}))
    for step in receipt.steps[:3]:
        done = step.name.removeprefix("write_") in desk.shelf.values
        assert {"success": done, "failed": not done, "not_started": not done}.get(step.status, True)
    if transport == "atomic":
        assert set(desk.shelf.values) in (set(), set("abc")), "all or nothing"
        assert receipt.status not in ("partial_success", "unknown")


@settings(max_examples=ROUNDS)
@given(faults, st.integers(1, 4))
def test_paid_work_is_paid_once_or_not_at_all(way: list[str], calls: int) -> None:
    desk = Desk(faults=way)
    answers = [desk.call("buy", key="k1") for _ in range(calls)]
    money = balance(desk.charges)
    assert money.held_micro + money.spent_micro in (0, 3_000_000)
    status = {"success": (0, 3_000_000), "unknown": (3_000_000, 0), "partial_success": (3_000_000, 0)}.get(receipt_of(answers[-1]).status, (0, 0))
    assert (money.held_micro, money.spent_micro) == status


@given(faults, readbacks, st.sampled_from(["put", "append", "put_thrice", "buy", "remove", "bake", "order"]))
def test_the_exit_code_follows_what_is_printed(way: list[str], readback: str, op: str) -> None:
    printed, code = shown(Desk(faults=way, readback=readback).call(op))
    if code == 0:
        assert (printed["status"], printed["ok"], printed["complete"]) == ("success", True, True)
    elif code == 10:
        assert printed["contractVersion"] == "task.v1"
    else:
        status = printed["error"]["details"].get("status")
        assert code == {"partial_success": 3, "unknown": 4, "retryable": 11}.get(status, code)
