"""What may be sent again, and which way reconciling may turn."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from polyloop.contract.ledger import RETRY_CAP_S, RETRY_DEFAULT_S, Entry, on_repeat, reconciled, retry_wait
from polyloop.contract.problem import Problem
from polyloop.contract.receipt import Receipt, StepRecord, compared, derive


def receipt(status: str, **told: Any) -> Receipt:
    step = {"success": "success", "partial_success": "success", "unknown": "unknown", "retryable": "not_started"}.get(status, "failed")
    why = {"execution_started": False, "retryable": status == "retryable"} | told
    failures = [] if status in ("success", "partial_success") else [Problem("rate_limited", "busy", stage="write", **why)]
    proofs = [compared("readback", "x", "x")] if status == "success" else []
    made = derive("toy.operation.v1", "put", [StepRecord("write", step, True)], failures, "readback", proofs, {})
    assert made.status == status
    return made


STATUSES = ("success", "partial_success", "unknown", "retryable", "failed")


@pytest.mark.parametrize(
    ("stored", "repeat"),
    [
        (None, "pending"),
        (receipt("success"), "stored"),
        (receipt("partial_success"), "stored"),
        (receipt("failed", execution_started=True), "stored"),
        (receipt("failed", execution_started=None), "stored"),
        (receipt("failed"), "next_attempt"),
        (receipt("retryable"), "next_attempt"),
        (receipt("unknown"), "reconcile"),
    ],
)
def test_S0_8_same_key_same_arguments(stored: Receipt | None, repeat: str) -> None:
    entry = Entry(operation_id="op1", operation="put", request="r1", receipt=stored)
    assert on_repeat(entry, "r1") == repeat
    assert on_repeat(entry, "r2") == "other_arguments"


@pytest.mark.parametrize(
    ("status", "rule", "tries", "after", "wait"),
    [
        ("retryable", "once", 0, 0, 0),
        ("retryable", "once", 0, 2, 2),
        ("retryable", "once", 0, None, RETRY_DEFAULT_S),
        ("retryable", "once", 0, RETRY_CAP_S, RETRY_CAP_S),
        ("retryable", "once", 0, RETRY_CAP_S + 1, None),
        ("retryable", "once", 1, 0, None),
        ("retryable", "never", 0, 0, None),
        ("failed", "once", 0, 0, None),
        ("unknown", "once", 0, 0, None),
        ("partial_success", "once", 0, None, None),
        ("success", "once", 0, None, None),
    ],
)
def test_S0_13_one_bounded_retry(status: str, rule: str, tries: int, after: float | None, wait: float | None) -> None:
    assert retry_wait(receipt(status, retry_after_seconds=after), rule, tries) == wait


def test_never_backwards() -> None:
    legal = {
        ("unknown", "unknown"), ("unknown", "success"), ("unknown", "partial_success"), ("unknown", "retryable"),
        ("partial_success", "success"), ("partial_success", "partial_success"),
    }  # fmt: skip
    for before, found in itertools.product(("unknown", "partial_success"), STATUSES):
        entry = Entry(operation_id="op1", operation="put", request="r1", receipt=receipt(before))
        turned = reconciled(entry, receipt(found))
        assert turned == (replace(entry, receipt=receipt(found)) if (before, found) in legal else entry)
    running = Entry(operation_id="op1", operation="put", request="r1")
    assert reconciled(running, receipt("success")).receipt == receipt("success")
    assert reconciled(running, receipt("failed")) == running


def test_step_ids_name_operation_attempt_and_step() -> None:
    entry = Entry(operation_id="op1", operation="put", request="r1", receipt=receipt("retryable"))
    assert entry.step_id("write") == "op1/1/write"
    assert entry.next_attempt().step_id("write") == "op1/2/write"
    assert entry.next_attempt().receipt is None
