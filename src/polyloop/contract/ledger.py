"""What is known of an operation, and what may be sent again.

key -> one operation id -> attempts -> step id `operation/attempt/step`. The entry is written before the first step (the
intent) with its steps as they would stand if the caller died now, and again with the receipt. Whether a repeated call
sends anything, whether a failure is retried, and which way a reconciliation may turn are three small tables.

Seed: S0.8-S0.13, S0.39, S0.40.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from .receipt import Receipt, Status, StepRecord
from .spend import Charge

Repeat = Literal["stored", "next_attempt", "reconcile", "pending", "other_arguments"]
Retry = Literal["once", "never"]
RETRY_CAP_S: Final = 60.0
#: Waited where the service allows a retry and names no time.
RETRY_DEFAULT_S: Final = 1.0

#: Which way reconciling may turn; a status not named is final. `partial_success` out of `unknown` is a multi-step
#: operation of which one part proved done: anything else would contradict the steps. Never backwards.
RECONCILED: Final[dict[Status, frozenset[Status]]] = {
    "unknown": frozenset({"unknown", "success", "partial_success", "retryable"}),
    "partial_success": frozenset({"success", "partial_success"}),
}


class Entry(Struct, frozen=True, kw_only=True):
    """One operation. `request` = digest of operation and arguments; `target` = what it may have changed; `charge` = its
    money as it stands; receipt None = running.
    """

    operation_id: str
    operation: str
    request: str
    key: str = ""
    attempt: int = 1
    target: dict[str, Any] = field(default_factory=dict[str, Any])
    continues: str = ""
    steps: tuple[StepRecord, ...] = ()
    charge: Charge | None = None
    receipt: Receipt | None = None

    def step_id(self, step: str) -> str:
        return f"{self.operation_id}/{self.attempt}/{step}"

    def next_attempt(self) -> Entry:
        return replace(self, attempt=self.attempt + 1, receipt=None)


def on_repeat(entry: Entry, request: str) -> Repeat:
    """A call came with a key that is taken: what now?"""
    if entry.request != request:
        return "other_arguments"
    receipt = entry.receipt
    if receipt is None:
        return "pending"
    if receipt.status == "unknown":
        return "reconcile"
    return "next_attempt" if receipt.status == "retryable" or (receipt.status == "failed" and not receipt.execution_started) else "stored"


def retry_wait(receipt: Receipt, rule: Retry, tries: int) -> float | None:
    """Seconds to wait before the one bounded retry; None = no retry, the receipt is handed back as it is (S0.13)."""
    if receipt.status != "retryable" or rule == "never" or tries > 0:
        return None
    asked = receipt.problem().retry_after_seconds
    wait = RETRY_DEFAULT_S if asked is None else asked
    return wait if wait <= RETRY_CAP_S else None


def reconciled(entry: Entry, found: Receipt) -> Entry:
    """The entry with what was found out, or as it was if that would turn it backwards."""
    legal = RECONCILED[entry.receipt.status if entry.receipt else "unknown"]
    return replace(entry, receipt=found) if found.status in legal else entry
