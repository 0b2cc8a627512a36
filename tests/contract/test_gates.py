"""Approvals and money on the way through the pipeline."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from polyloop.contract.approval import decide
from polyloop.contract.leaf import taking_back
from polyloop.contract.problem import ProblemError
from polyloop.contract.session import Session
from polyloop.contract.spend import Grant, Quote, balance
from tests.contract.toy import NOW, OPS, PUT, Desk, error, receipt_of

# --- approvals ---------------------------------------------------------------------------------------------------


def approve(desk: Desk, decision: str = "approved", **more: Any) -> None:
    desk.approvals[-1] = decide(desk.approvals[-1], decision, by="ann", now_ms=NOW, **more)


def test_S1_49_a_write_waits_for_its_approval_and_consumes_it_once() -> None:
    desk, session = Desk(), Session("request_approval")
    told = error(desk.call("put", PUT, session), "confirmation_required")
    assert (told.exit_code, told.stage, told.actions) == (5, "approval", ("approve",))
    assert told.details["planId"] == desk.approvals[0].id
    assert told.details["plan"]["resolved"] == PUT
    assert desk.requests == 0
    assert error(desk.call("put", PUT, session), "confirmation_required").details["planId"] == desk.approvals[0].id, "asked once"
    approve(desk)
    assert receipt_of(desk.call("put", PUT, session)).ok
    assert desk.approvals[0].state == "consumed"
    assert error(desk.call("put", PUT, session), "confirmation_required").details["planId"] != desk.approvals[0].id, "a new one is a new question"


def test_an_approval_is_for_exactly_what_was_shown() -> None:
    desk, session = Desk(), Session("request_approval")
    plan = error(desk.call("put", PUT, session), "confirmation_required").details["planId"]
    approve(desk)
    error(desk.call("put", {"name": "a", "value": "2"}, session), "confirmation_required")
    desk.shelf.revision = 9
    told = error(desk.call("put", PUT, session, plan_id=plan), "confirmation_required")
    assert told.details["changed"] == ["snapshot"]
    assert {a.id: a.state for a in desk.approvals}[plan] == "superseded"
    assert desk.requests == 0
    again = error(desk.call("put", PUT, session, plan_id=plan), "confirmation_required")
    assert again.details["changed"] == ["snapshot"], "a superseded plan stays so"


def test_the_plan_of_another_call_is_neither_used_nor_harmed() -> None:
    desk, session = Desk(), Session("request_approval")
    plan = error(desk.call("put", PUT, session), "confirmation_required").details["planId"]
    approve(desk)
    told = error(desk.call("append", PUT, session, plan_id=plan), "validation")
    assert (told.details["field"], told.details["issue"]) == ("plan", "other_arguments")
    assert desk.approvals[0].state == "approved"
    assert receipt_of(desk.call("put", PUT, session, plan_id=plan)).ok


def test_a_refusal_is_final_for_that_plan() -> None:
    desk, session = Desk(), Session("request_approval")
    desk.call("put", PUT, session)
    approve(desk, "rejected", reason="not today")
    told = error(desk.call("put", PUT, session), "permission_denied")
    assert (told.message, told.exit_code) == ("not today", 6)
    approve_by_person = desk.call("put", PUT, session, approved_by="ann")
    assert receipt_of(approve_by_person).ok, "the person may think again"


def test_an_expired_approval_is_asked_for_again() -> None:
    desk, session = Desk(), Session("request_approval")
    desk.call("put", PUT, session)
    approve(desk)
    desk.approvals[0] = replace(desk.approvals[0], until=NOW)
    assert error(desk.call("put", PUT, session), "confirmation_required").details["planId"] != desk.approvals[0].id


def test_a_yes_with_the_call_approves_and_consumes_in_one() -> None:
    desk = Desk()
    told = error(desk.call("remove"), "confirmation_required")
    assert told.exit_code == 5
    desk.call("put")
    assert receipt_of(desk.call("remove", approved_by="ann")).ok
    assert [a.state for a in desk.approvals] == ["superseded", "consumed"]
    assert desk.approvals[-1].by == "ann"
    desk.confirm = True
    assert error(desk.call("put"), "confirmation_required"), "the case at hand may want a person too"


def test_what_the_person_changed_is_what_is_done() -> None:
    desk, session = Desk(), Session("request_approval")
    desk.call("buy", PUT, session)
    shown = desk.approvals[0].plan
    offer = replace(shown, settings={"tier": "big"}, resolved={**shown.resolved, "tier": "big"}, quote=replace(shown.quote, tier="big"))
    approve(desk, plan=offer)
    assert receipt_of(desk.call("buy", PUT, session)).ok
    assert desk.approvals[0].state == "consumed"


# --- taking back -------------------------------------------------------------------------------------------------


def test_S0_7_a_compensation_is_an_operation_and_refuses_once_the_target_moved_on() -> None:
    desk = Desk()
    undo = receipt_of(desk.call("put")).compensation
    arguments = taking_back(OPS["remove"], undo)
    assert arguments["expectedRevision"] == 1
    desk.call("put", {"name": "a", "value": "2"})
    assert error(desk.call("remove", arguments, approved_by="ann"), "revision_conflict")
    assert desk.shelf.values == {"a": "2"}
    undo = receipt_of(desk.call("put")).compensation
    assert receipt_of(desk.call("remove", taking_back(OPS["remove"], undo), approved_by="ann")).ok
    assert desk.shelf.values == {}


def test_nothing_to_take_back() -> None:
    for op, undo in (
        (OPS["remove"], receipt_of(Desk(faults=["403"]).call("put")).compensation),
        (OPS["append"], receipt_of(Desk().call("put")).compensation),
        (replace(OPS["remove"], based_on=""), receipt_of(Desk().call("put")).compensation),
    ):
        with pytest.raises(ProblemError) as stop:
            taking_back(op, undo)
        assert stop.value.problem.kind == "conflict"


# --- money -------------------------------------------------------------------------------------------------------


def test_S1_50_auto_spends_only_inside_a_grant() -> None:
    desk = Desk()
    assert receipt_of(desk.call("buy")).ok
    assert [(c.kind, c.source, c.amount_micro) for c in desk.charges] == [("reserve", "g1", 3_000_000), ("settle", "g1", 3_000_000)]
    desk.price = 8_000_000
    told = error(desk.call("buy"), "confirmation_required")
    assert told.details["plan"]["quote"]["amountMicro"] == 8_000_000
    approve(desk)
    assert receipt_of(desk.call("buy")).ok
    assert desk.charges[-1].source == desk.approvals[0].id, "beyond the grant the approval pays"


@pytest.mark.parametrize(
    ("faults", "kind", "held"), [(["403"], "refund", 0), (["drop_reply"], "uncertain", 3_000_000), (["429_after_0"], "refund", 0)]
)
def test_money_follows_the_status(faults: list[str], kind: str, held: int) -> None:
    desk = Desk(faults=faults)
    desk.call("buy", key="k1")
    assert (desk.charges[-1].kind, balance(desk.charges).held_micro) == (kind, held)
    assert receipt_of(desk.call("buy", key="k1")).ok
    assert balance(desk.charges).held_micro == 0
    assert balance(desk.charges).spent_micro == 3_000_000, "whatever happened, it is paid once"


def test_the_real_cost_is_what_is_settled() -> None:
    desk = Desk()
    conclude = desk._Conclude
    desk._Conclude = lambda c: replace(conclude(c), cost_micro=1_000_000)  # type: ignore[method-assign]  # the service says what it took
    desk.call("buy")
    assert desk.charges[-1].amount_micro == 1_000_000


def test_paid_work_that_costs_nothing_or_has_no_grant() -> None:
    desk = Desk()
    prepare = desk._Prepare
    desk._Prepare = lambda c: replace(prepare(c), quote=Quote(0))  # type: ignore[method-assign]  # free of charge
    assert receipt_of(desk.call("buy")).ok
    assert desk.charges[-1].amount_micro == 0
    desk.grants = [Grant(id="g2", credits_micro=10**9, modes=("video",))]
    assert error(desk.call("buy"), "confirmation_required")
