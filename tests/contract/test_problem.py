"""Problems: wire form, exit codes, and what a service's answer of an error code proves."""

from __future__ import annotations

from typing import Any

import pytest

from polyloop.contract.problem import INVENTED, KINDS, FieldProblem, Problem, ProblemError, bad_arguments, problem, refusal

#: interface.md, "Exit codes everywhere".
EXITS = {
    1: "rate_limited task_failed local_io capability_unavailable invalid_response corrupt_store",
    2: "validation type_mismatch not_found ambiguous",
    3: "partial_success pagination",
    4: "commit_unknown",
    5: "confirmation_required",
    6: "permission_denied authentication_required",
    7: "revision_conflict conflict parameter_drift owned_elsewhere",
    8: "budget_exceeded",
}


def test_S0_36_exit_codes_of_all_kinds() -> None:
    wanted = {kind: code for code, kinds in EXITS.items() for kind in kinds.split()}
    assert {kind: Problem(kind, "").exit_code for kind in KINDS} == wanted


def test_the_status_retryable_decides_before_the_kind() -> None:
    assert Problem("validation", "", details={"status": "retryable"}).exit_code == 11
    assert Problem("validation", "", details={"status": "failed"}).exit_code == 2


def test_S0_37_wire_form_and_carrier() -> None:
    error = problem("rate_limited", "busy", operation="put", stage="write", retry_after_seconds=0, actions=("repeat",), details={"a": (1, 2)})
    assert isinstance(error, ProblemError)
    assert str(error) == "rate_limited: busy"
    assert error.problem.as_json() == {
        "kind": "rate_limited", "message": "busy", "operation": "put", "stage": "write", "executionStarted": False, "retryable": False,
        "retryAfterSeconds": 0, "actions": ["repeat"], "details": {"a": [1, 2]},
    }  # fmt: skip


def test_all_argument_problems_at_once() -> None:
    error = bad_arguments([FieldProblem("a", "required"), FieldProblem("", "wrong_type", "not an object")], attempt=2).problem
    assert (error.kind, error.message) == ("validation", "a: required; arguments: not an object")
    assert error.details == {
        "field": "a", "issue": "required", "attempt": 2,
        "problems": [{"field": "a", "issue": "required", "message": ""}, {"field": "", "issue": "wrong_type", "message": "not an object"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("code", "body", "kind", "started", "retryable", "wait"),
    [
        (400, None, "validation", False, False, None),
        (401, "no", "authentication_required", False, False, None),
        (403, {}, "permission_denied", False, False, None),
        (422, {"error": "text"}, "validation", False, False, None),
        (404, "<html>", "invalid_response", None, False, None),
        (409, None, "invalid_response", None, False, None),
        (429, None, "rate_limited", None, False, None),
        (500, None, "invalid_response", None, False, None),
        (502, {"error": {"kind": "no such kind"}}, "invalid_response", None, False, None),
        (504, None, "invalid_response", None, False, None),
        (404, {"error": {"kind": "not_found", "message": "gone"}}, "not_found", None, False, None),
        (429, {"error": {"executionStarted": False, "retryable": True, "retryAfterSeconds": 0}}, "rate_limited", False, True, 0),
        (429, {"error": {"executionStarted": False, "retryable": True, "retryAfterSeconds": 2.5}}, "rate_limited", False, True, 2.5),
        (429, {"error": {"executionStarted": False, "retryable": True}}, "rate_limited", False, True, None),
        (429, {"error": {"retryable": True, "retryAfterSeconds": 1}}, "rate_limited", None, False, 1),  # a retry without proof is none
        (429, {"error": {"executionStarted": "false", "retryable": "true", "retryAfterSeconds": "2"}}, "rate_limited", None, False, None),
        (429, {"error": {"executionStarted": 0, "retryAfterSeconds": True}}, "rate_limited", None, False, None),
        (429, {"error": {"retryAfterSeconds": -1}}, "rate_limited", None, False, None),
        (429, {"error": {"retryAfterSeconds": float("inf")}}, "rate_limited", None, False, None),
        (429, {"error": {"retryAfterSeconds": float("nan")}}, "rate_limited", None, False, None),
    ],
)
def test_S0_39_only_typed_words_prove_that_execution_had_not_begun(
    code: int, body: Any, kind: str, started: bool | None, retryable: bool, wait: float | None
) -> None:
    told = refusal(code, body)
    assert (told.kind, told.execution_started, told.retryable, told.retry_after_seconds) == (kind, started, retryable, wait)
    assert told.message


def test_S0_41_invented_fields_of_a_service_are_not_passed_on() -> None:
    error = {
        "kind": "conflict", "actions": ["read", 1], "suggestedAction": "again", "nextCommand": "x",
        "details": {"a": [{"nextCommand": "x", "b": 1}], "suggestedAction": "again"},
    }  # fmt: skip
    told = refusal(409, {"error": error, "nextCommand": "x"})
    assert told.details == {"a": [{"b": 1}]}
    assert told.actions == ("read",)
    assert {"suggestedAction", "nextCommand"} == INVENTED
