"""The ticket and its machine."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from polyloop.contract.problem import Problem, ProblemError, as_wire
from polyloop.contract.task import MOVES, PHASES, TERMINAL, Ticket, move, ticket

DOC = ("INIT", "PROCESSING", "SUCCESS", "FAILED", "CANCELLED", "EXPIRED")
MEDIA = ("queued", "running", "unknown", "succeeded", "failed", "cancelled", "expired")


def test_both_vocabularies_run_on_one_machine() -> None:
    assert {*DOC, *MEDIA} == set(PHASES)
    assert set(PHASES.values()) == set(MOVES)


def test_S0_22_legal_moves() -> None:
    """The picture, written out: a terminal state is never reopened, the unknown is found out."""
    legal = {
        "waiting": "running failed cancelled expired", "running": "waiting unknown succeeded failed cancelled expired",
        "unknown": "running succeeded failed cancelled expired", "succeeded": "", "failed": "", "cancelled": "", "expired": "",
    }  # fmt: skip
    for names in (DOC, MEDIA):
        for state, to in itertools.product(names, names):
            if state == to or PHASES[to] in legal[PHASES[state]].split():
                assert move(state, to) == to
            else:
                with pytest.raises(ProblemError, match="cannot become") as error:
                    move(state, to)
                assert error.value.problem.details == {"state": state, "to": to}
    with pytest.raises(ProblemError):
        move("queued", "whatever")
    with pytest.raises(ProblemError):
        move("whatever", "queued")


@pytest.mark.parametrize("state", sorted(PHASES))
@pytest.mark.parametrize("result", [None, {}, {"url": "x"}])
def test_S0_24_complete_needs_success_and_a_result(state: str, result: dict[str, str] | None) -> None:
    made = ticket("t1", "export", state, result=result)
    assert made.complete == (state in ("SUCCESS", "succeeded") and result is not None)
    assert made.terminal == (PHASES[state] in TERMINAL)
    assert made.exit_code == (0 if made.complete else 10 if not made.terminal else 1)


def test_wire_form() -> None:
    assert as_wire(ticket("t1", "export", "queued")) == {
        "contractVersion": "task.v1", "taskId": "t1", "kind": "export", "state": "queued", "complete": False,
    }  # fmt: skip
    failed = ticket("t1", "export", "FAILED", error=Problem("permission_denied", "no"))
    assert failed.exit_code == 6
    assert as_wire(failed)["error"]["kind"] == "permission_denied"
    assert msgspec.convert(as_wire(failed), Ticket) == failed
    assert ticket("t1", "export", "dreaming").phase == "unknown"


@pytest.mark.parametrize("lie", [{"complete": True}, {"taskId": ""}, {"status": "success"}, {"nextCommand": "x"}, {"steps": []}])
def test_S0_20_a_ticket_that_says_more_than_it_knows_does_not_exist(lie: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(as_wire(ticket("t1", "export", "running")) | lie, Ticket)
