"""Receipts are derived. The table of contract.md, exhaustively, against an oracle written from its text alone."""

from __future__ import annotations

import copy
import itertools
import re

import msgspec
import pytest

from polyloop.contract.problem import KINDS, Problem, as_wire
from polyloop.contract.receipt import (
    RANK,
    Compensation,
    Receipt,
    StepRecord,
    Verification,
    compared,
    derive,
    proof_of,
    status_of,
    step_status,
)  # fmt: skip

STATUSES = {"S": "success", "F": "failed", "U": "unknown", "N": "not_started"}
PROOFS = ("matched", "mismatched", "missing", "not_required")
#: What is told of the first step that is not success.
TOLD = {
    "nothing": None,
    "not started, retry allowed": Problem("rate_limited", "busy", execution_started=False, retryable=True),
    "not started, no retry": Problem("rate_limited", "busy", execution_started=False),
    "started, retry allowed": Problem("rate_limited", "busy", execution_started=True, retryable=True),
    "not known, retry allowed": Problem("rate_limited", "busy", execution_started=None, retryable=True),
}


def steps_of(text: str) -> tuple[StepRecord, ...]:
    """`sUN` -> a read that succeeded, an undetermined effect, an effect not started."""
    return tuple(StepRecord(f"s{n}", STATUSES[c.upper()], effect=c.isupper()) for n, c in enumerate(text))


def failures_of(text: str, told: str) -> tuple[Problem, ...]:
    first = next((n for n, c in enumerate(text) if c not in "Ss"), None)
    why = TOLD[told]
    return () if first is None or why is None else (msgspec.structs.replace(why, stage=f"s{first}"),)


def oracle(text: str, proof: str, told: str) -> str:
    """The table of contract.md, as patterns over the steps; capitals are effect steps."""
    if re.fullmatch("[Ss]*", text) and proof in ("matched", "not_required"):
        return "success"
    if "S" in text:
        return "partial_success"
    if "U" in text:
        return "unknown"
    if re.match("s*[Nn]", text) and told == "not started, retry allowed":
        return "retryable"
    return "failed"


def test_S0_6_to_14_every_row_of_the_table() -> None:
    texts = ["".join(t) for length in range(5) for t in itertools.product("SsFfUuNn", repeat=length)]
    rows = list(itertools.product(texts, PROOFS, TOLD))
    wrong = [row for row in rows if status_of(steps_of(row[0]), row[1], failures_of(row[0], row[2])) != oracle(*row)]
    assert wrong == []
    assert len(rows) > 90_000


@pytest.mark.parametrize(
    ("steps", "proof", "told", "status"),
    [
        ("S", "matched", "nothing", "success"),
        ("s", "not_required", "nothing", "success"),
        ("", "not_required", "nothing", "success"),
        ("S", "mismatched", "nothing", "partial_success"),
        ("S", "missing", "nothing", "partial_success"),
        ("SF", "not_required", "nothing", "partial_success"),
        ("SU", "matched", "nothing", "partial_success"),  # step 2 undetermined, step 1 done: partial, with that step unknown
        ("USs", "missing", "nothing", "partial_success"),  # any confirmed effect, wherever it stands
        ("Sn", "missing", "nothing", "partial_success"),  # submitted, not waited for
        ("SN", "missing", "not started, retry allowed", "partial_success"),
        ("U", "matched", "nothing", "unknown"),  # a proof without a confirmed step proves somebody else's write
        ("sUN", "missing", "nothing", "unknown"),
        ("N", "missing", "not started, retry allowed", "retryable"),
        ("sN", "missing", "not started, retry allowed", "retryable"),
        ("N", "missing", "not started, no retry", "failed"),
        ("N", "missing", "started, retry allowed", "failed"),
        ("N", "missing", "not known, retry allowed", "failed"),
        ("F", "missing", "not started, retry allowed", "failed"),
        ("u", "missing", "nothing", "failed"),  # a read that is undetermined changed nothing
        ("s", "missing", "nothing", "failed"),
    ],
)
def test_named_rows(steps: str, proof: str, told: str, status: str) -> None:
    assert status_of(steps_of(steps), proof, failures_of(steps, told)) == status == oracle(steps, proof, told)


@pytest.mark.parametrize(
    ("verify", "offered", "proof"),
    [
        ("none", [], "not_required"),
        ("readback", [], "missing"),
        ("readback", [("transport", "x", "x")], "missing"),
        ("readback", [("readback", "x", "x")], "matched"),
        ("readback", [("readback", "x", "y")], "mismatched"),
        ("readback", [("readback", "", "")], "mismatched"),
        ("readback", [("terminal_state", "done", "done")], "matched"),
        ("terminal_state", [("readback", "x", "x")], "missing"),
        ("terminal_state", [("terminal_state", "done", "done")], "matched"),
        ("terminal_state", [("terminal_state", "done", "done"), ("readback", "x", "y")], "mismatched"),
        ("readback", [("terminal_state", "done", "failed"), ("readback", "x", "x")], "mismatched"),
    ],
)
def test_S0_21_S0_23_proof_ranks_and_a_mismatch_outweighs_every_match(verify: str, offered: list[tuple[str, str, str]], proof: str) -> None:
    found, shown = proof_of(verify, [compared(*o) for o in offered])
    assert found == proof
    assert (shown is not None) == (proof in ("matched", "mismatched"))


def test_S0_21_the_order_of_ranks() -> None:
    assert sorted(RANK, key=lambda m: RANK[m]) == ["transport", "readback", "terminal_state"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("started", [True, False, None])
@pytest.mark.parametrize("effect", [True, False])
def test_S0_38_S0_39_what_a_failed_answer_proves(kind: str, started: bool | None, effect: bool) -> None:
    """Written out once more from the contract's words, for every kind."""
    status = step_status(Problem(kind, "", execution_started=started), effect=effect)
    if kind in ("validation", "permission_denied", "authentication_required"):
        assert status == "failed"
    elif kind in ("commit_unknown", "invalid_response", "partial_success", "corrupt_store"):
        assert status == ("unknown" if effect else "failed")
    elif started is False:
        assert status == "not_started"
    elif kind in ("rate_limited", "local_io"):
        assert status == ("unknown" if effect else "failed")
    else:
        assert status == "failed"


def sample(text: str = "S", told: str = "nothing", *, matched: bool = True, **more: object) -> Receipt:
    proofs = [compared("readback", "h", "h" if matched else "g", 4)]
    return derive("toy.operation.v1", "put", steps_of(text), failures_of(text, told), "readback", proofs, {"operationId": "op1"}, **more)


def test_S0_16_S0_17_nine_fields_always_and_three_only_when_produced() -> None:
    nine = {"contractVersion", "ok", "status", "complete", "operation", "steps", "data", "warnings", "compensation"}
    bare = derive("toy.operation.v1", "look", steps_of("s"), (), "none", (), {})
    assert as_wire(bare).keys() == nine
    full = sample("SN", "not started, no retry", target={"id": "n1"})
    assert as_wire(full).keys() == nine | {"target", "failures", "verification"}
    assert as_wire(full)["steps"] == [{"name": "s0", "status": "success", "effect": True}, {"name": "s1", "status": "not_started", "effect": True}]
    assert as_wire(full)["compensation"] == {"available": False, "reason": ""}
    assert as_wire(sample())["verification"] == {"method": "readback", "matched": True, "expected": "h", "observed": "h", "atRevision": 4}


def test_complete_is_ok_is_success() -> None:
    for text, told in itertools.product(["S", "SN", "U", "N", "F", "s", ""], TOLD):
        receipt = sample(text, told)
        assert receipt.ok == receipt.complete == (receipt.status == "success")


def test_a_receipt_cannot_be_written_by_hand() -> None:
    with pytest.raises(TypeError, match="pipeline"):
        Receipt(status="success")


def test_a_stored_receipt_reads_back_and_one_that_lies_does_not() -> None:
    wire = as_wire(sample("SN", "not started, no retry"))
    assert as_wire(msgspec.convert(wire, Receipt)) == wire
    for lie in (
        {"status": "success", "ok": True, "complete": True}, {"ok": True}, {"complete": True}, {"status": "unknown"}, {"status": "failed"},
        {"nextCommand": "again"}, {"verification": {**wire["verification"], "matched": False}},
    ):  # fmt: skip
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(copy.deepcopy(wire) | lie, Receipt)
    unproved = as_wire(sample()) | {"verification": {"method": "readback", "matched": False, "expected": "h", "observed": "g"}}
    with pytest.raises(msgspec.ValidationError, match="the steps say partial_success"):
        msgspec.convert(unproved, Receipt)
    with pytest.raises(ValueError, match="tokens"):
        Verification("readback", True, "a", "b")


@pytest.mark.parametrize(
    ("steps", "told", "matched", "kind", "exit_code", "stage", "actions"),
    [
        ("SN", "not started, no retry", True, "partial_success", 3, "s1", ("inspect_steps", "continue")),
        ("S", "nothing", False, "partial_success", 3, "verify", ("inspect_steps", "continue")),
        ("U", "nothing", True, "commit_unknown", 4, "s0", ("read_back", "reconcile")),
        ("N", "not started, retry allowed", True, "rate_limited", 11, "s0", ("repeat",)),
        ("N", "not started, no retry", True, "rate_limited", 1, "s0", ()),
        ("F", "nothing", True, "task_failed", 1, "s0", ()),
    ],
)
def test_the_one_error_of_a_non_success(
    steps: str, told: str, matched: bool, kind: str, exit_code: int, stage: str, actions: tuple[str, ...]
) -> None:
    receipt = sample(steps, told, matched=matched)
    error = receipt.problem()
    assert (error.kind, error.exit_code, error.stage, error.actions) == (kind, exit_code, stage, actions)
    assert error.details == as_wire(receipt)
    assert error.retryable == (receipt.status == "retryable")


def test_S0_7_the_error_of_a_partial_success_offers_its_compensation() -> None:
    undo = Compensation(available=True, reason="it was made just now", operation="remove", arguments={"id": "n1"}, expected=4)
    error = sample("SN", compensation=undo).problem()
    assert error.actions == ("inspect_steps", "continue", "compensate")
    assert error.details["compensation"] == {
        "available": True, "reason": "it was made just now", "operation": "remove", "arguments": {"id": "n1"}, "expected": 4,
    }  # fmt: skip


@pytest.mark.parametrize("missing", ["operation", "arguments", "expected"])
def test_a_compensation_can_be_executed_or_is_none(missing: str) -> None:
    whole = {"available": True, "operation": "remove", "arguments": {}, "expected": 4}
    with pytest.raises(ValueError, match="names its operation"):
        Compensation(**{k: v for k, v in whole.items() if k != missing})


@pytest.mark.parametrize(("steps", "offered"), [("S", True), ("SN", True), ("U", False), ("N", False), ("F", False)])
def test_only_what_was_done_can_be_taken_back(steps: str, offered: bool) -> None:
    undo = Compensation(available=True, operation="remove", arguments={}, expected=4)
    receipt = sample(steps, compensation=undo)
    assert receipt.compensation.available is offered
    if not receipt.ok:
        assert ("compensate" in receipt.problem().actions) is offered


@pytest.mark.parametrize(
    ("steps", "told", "started"),
    [
        ("S", "nothing", True), ("U", "nothing", True), ("sU", "nothing", True), ("N", "nothing", False), ("s", "nothing", False),
        ("F", "started, retry allowed", True), ("F", "not known, retry allowed", True), ("F", "not started, no retry", False),
        ("fN", "started, retry allowed", False),
    ],
)  # fmt: skip
def test_whether_execution_started(steps: str, told: str, started: bool) -> None:
    assert sample(steps, told).execution_started is started
