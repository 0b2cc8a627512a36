"""Approvals: bound to one plan, decided once, consumed once."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from polyloop.contract.approval import MOVES, Approval, Plan, at, decide, differences, turn
from polyloop.contract.problem import ProblemError, as_wire
from polyloop.contract.spend import Quote

PLAN = Plan(operation="make", arguments="a1", target={"id": "n1"}, resolved={"size": "1x1"}, snapshot="content:1", quote=Quote(5), assets=("s1",))
STATES = ("requested", "approved", "rejected", "expired", "superseded", "cancelled", "consumed")


def approval(state: str = "requested", until: int = 100) -> Approval:
    return Approval(id="p1", plan=PLAN, until=until, state=state)


def test_the_hash_binds_everything() -> None:
    others = [
        replace(PLAN, operation="x"), replace(PLAN, arguments="x"), replace(PLAN, target={}), replace(PLAN, resolved={}),
        replace(PLAN, snapshot="content:2"), replace(PLAN, quote=Quote(6)), replace(PLAN, quote=None), replace(PLAN, assets=("s2",)),
        replace(PLAN, settings={"size": "2x2"}),
    ]  # fmt: skip
    assert len({PLAN.hash, *(o.hash for o in others)}) == 1 + len(others)
    assert replace(PLAN, target={"id": "n1"}).hash == PLAN.hash
    assert differences(PLAN, replace(PLAN, snapshot="content:2", quote=Quote(6))) == ("snapshot", "quote")
    assert differences(PLAN, PLAN) == ()
    assert set(as_wire(PLAN)) == {"operation", "arguments", "target", "resolved", "snapshot", "quote", "assets", "settings"}


def test_every_move() -> None:
    legal = {
        ("requested", "approved"), ("requested", "rejected"), ("requested", "expired"), ("requested", "superseded"), ("requested", "cancelled"),
        ("approved", "consumed"), ("approved", "expired"), ("approved", "superseded"), ("approved", "cancelled"),
    }  # fmt: skip
    assert set(MOVES) == set(STATES)
    for state, to in itertools.product(STATES, STATES):
        if (state, to) in legal:
            assert turn(approval(state), to).state == to
        else:
            with pytest.raises(ProblemError) as error:
                turn(approval(state), to)
            assert error.value.problem.kind == "conflict"


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("decision", ["approved", "rejected"])
@pytest.mark.parametrize("now", [99, 100])
def test_deciding_twice_is_a_no_op_and_the_opposite_a_conflict(state: str, decision: str, now: int) -> None:
    standing = approval(state)
    settled = {"consumed": "approved"}.get(state, state)
    expired = now >= 100 and state in ("requested", "approved")
    if settled == decision and not expired:
        assert decide(standing, decision, by="ann", now_ms=now) == standing
    elif state == "requested" and not expired:
        decided = decide(standing, decision, by="ann", now_ms=now, reason="because")
        assert (decided.state, decided.by, decided.reason, decided.plan) == (decision, "ann", "because", PLAN)
    else:
        with pytest.raises(ProblemError, match="cannot become"):
            decide(standing, decision, by="ann", now_ms=now)


def test_a_person_may_change_the_offer_which_is_quoted_again() -> None:
    offer = replace(PLAN, settings={"size": "2x2"}, quote=Quote(9))
    assert decide(approval(), "approved", by="ann", now_ms=0, plan=offer).plan == offer


def test_expiry_touches_only_what_is_open() -> None:
    assert [at(approval(s), 100).state for s in STATES] == ["expired", "expired", *STATES[2:]]
    assert [at(approval(s), 99).state for s in STATES] == list(STATES)
