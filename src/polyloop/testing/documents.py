"""A way to a document service on which things go wrong as told, and which counts what the service really saw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from polyloop.contract.problem import Problem, ProblemError, refusal
from polyloop.db import Database
from polyloop.documents import requests as ask
from polyloop.documents.service import made_small, serve

_LOST: Final = Problem("invalid_response", "the reply was lost", execution_started=None)
_BUSY: Final = {"kind": "rate_limited", "executionStarted": False, "retryable": True}
#: name -> (the service gets the request, it carries it out, what the caller sees instead of the reply).
FAULTS: Final[dict[str, tuple[bool, bool, Any]]] = {
    "refuse_connect": (False, False, Problem("capability_unavailable", "connection refused", execution_started=False)),
    "lose_request": (False, False, _LOST),
    "lose_reply": (True, True, _LOST),
    "half_reply": (True, True, Problem("invalid_response", "the reply ended early", execution_started=None)),
    "502": (True, False, refusal(502, "<html>")),
    "502_committed": (True, True, refusal(502, "<html>")),
    "504": (True, False, refusal(504)),
    "504_committed": (True, True, refusal(504)),
    "403": (True, False, refusal(403)),
    "401": (True, False, refusal(401)),
    "429_bare": (True, False, refusal(429)),
    "429_after_0": (True, False, refusal(429, {"error": {**_BUSY, "retryAfterSeconds": 0}})),
    "429_after_2": (True, False, refusal(429, {"error": {**_BUSY, "retryAfterSeconds": 2}})),
    "429_after_none": (True, False, refusal(429, {"error": _BUSY})),
    "empty_object": (True, True, {}),
    "text_ok": (True, True, "ok"),
    "id_only": (True, True, {"nodeId": "n_1"}),
    "other_node": (True, True, {"nodeId": "n_other", "revision": 1, "before": 0}),
}
#: Faults by which the service gets the request more than once, or later than its answer.
DELIVERIES: Final = ("deliver_twice", "late")


class FaultTransport:
    """`faults` are taken one per write ("" = none). `on_read(request, reply)` may change, or refuse, what a read says.

    `seen` counts the writes the service got; `late` holds requests still under way: `deliver()` lets them arrive.
    """

    def __init__(self, db: Database, tenant: str, faults: Iterable[str] = (), *, chunk_chars: int = 0, user: str = "") -> None:
        self.chunk_chars = chunk_chars
        self.faults, self.seen, self.sent = list(faults), 0, 0
        self.late: list[tuple[ask.Request, str]] = []
        self.on_read: Callable[[ask.Request, ask.Reply], Any] = lambda _, reply: reply
        self._db, self._tenant, self._user = db, tenant, user

    def ask(self, request: ask.Request, step_id: str = "") -> ask.Reply:
        if not isinstance(request, ask.Write):
            return self.on_read(request, self._serve(request, step_id))
        self.sent += 1
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "late":
            self.late.append((request, step_id))
            raise ProblemError(_LOST)
        if fault == "deliver_twice":
            self._got(request, step_id)
        arrives, done, instead = FAULTS.get(fault, (True, True, None))
        reply = self._got(request, step_id) if done else None
        self.seen += arrives and not done
        if isinstance(instead, Problem):
            raise ProblemError(instead)
        return reply if instead is None else instead  # type: ignore[return-value]  # a fault's answer is whatever it is

    def deliver(self) -> list[Problem | ask.Reply]:
        """What was under way arrives, and what the service says to each."""
        said: list[Problem | ask.Reply] = []
        for request, step_id in self.late:
            try:
                said.append(self._got(request, step_id))
            except ProblemError as stop:
                said.append(stop.problem)
        self.late = []
        return said

    def _got(self, request: ask.Request, step_id: str) -> ask.Reply:
        self.seen += 1
        return self._serve(request, step_id)

    def _serve(self, request: ask.Request, step_id: str) -> ask.Reply:
        return made_small(request, self._db.write_sync(serve, self._tenant, request, step_id, self._user))
