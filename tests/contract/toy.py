"""A toy service (a shelf of named texts) and the desk that drives the pipeline against it, with faults on the way.

The shelf has what the contract asks of a real service: one revision, a write log keyed by step id in the same "commit" as
the content, fences, tasks. The desk is both kinds of driver: `network` (intent, call, result, each durable on its own) and
`atomic` (one commit; a rollback undoes everything).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from polyloop.contract import leaf
from polyloop.contract.approval import Approval
from polyloop.contract.leaf import Call, Conclusion, Operation, Prepared, Step
from polyloop.contract.ledger import Entry
from polyloop.contract.operation import drive, operate, reconcile
from polyloop.contract.problem import FieldProblem, Problem, refusal
from polyloop.contract.receipt import Compensation, Receipt, compared
from polyloop.contract.schema import Shape, closed
from polyloop.contract.session import Issued, Need, Read, Session
from polyloop.contract.spend import Charge, Grant, Quote
from polyloop.contract.task import ticket

NOW = 1_700_000_000_000
PUT = {"name": "a", "value": "1"}
NAME = {"type": "string", "maxLength": 20}
ITEM = {"name": NAME, "value": {"type": "string"}, "expectedRevision": {"type": "integer", "minimum": 0}}
REPLY = Shape({"type": "object", "required": ["name", "revision"], "properties": {"name": NAME, "revision": {"type": "integer"}}})
STARTED = Shape({"type": "object", "required": ["taskId", "kind", "state"], "properties": {"taskId": {"type": "string", "minLength": 1}}})
RESULT = Shape({"type": "object", "properties": {"revision": {"type": "integer"}}})


def _op(name: str, **more: Any) -> Operation:
    fields = {"type": "object", "required": ["name", "value"], "properties": ITEM}
    base: dict[str, Any] = {
        "name": name, "contract": "toy.operation.v1", "effect": "write", "verify": "readback", "arguments": closed(fields), "output": RESULT,
        "steps": (Step("write", effect=True, reply=REPLY, echo=("name",)),), "based_on": "expectedRevision",
    }  # fmt: skip
    return Operation(**base | more)


SUBMIT = Step("submit", effect=True, reply=STARTED)
OPS = {
    op.name: op
    for op in (
        _op("put", retry="once"),
        _op("put_thrice", retry="once", steps=(Step("write", effect=True, reply=REPLY),)),
        _op("append"),
        _op("buy", effect="pay"),
        _op("remove", confirm=True),
        _op("bake", steps=(SUBMIT, Step("finish", awaits=True)), verify="terminal_state"),
        _op("order", steps=(SUBMIT,), answers="ticket", output=STARTED),
        _op(
            "get", effect="read", verify="none", steps=(Step("get"),), based_on="",
            arguments=closed({"type": "object", "required": ["name"], "properties": {"name": NAME, "offset": {"type": "integer"}}}),
            output=Shape({"type": "object", "required": ["name", "value", "revision"]}), handles={"offset": "offset"},
        ),
    )
}  # fmt: skip

#: What a fault does on the way: (the request arrives, it is carried out, what the caller sees instead of the reply).
LOST = Problem("invalid_response", "the reply was lost", execution_started=None)
BUSY = {"kind": "rate_limited", "executionStarted": False, "retryable": True}
FAULTS: dict[str, tuple[bool, bool, Any]] = {
    "refuse_connect": (False, False, Problem("capability_unavailable", "connection refused", execution_started=False)),
    "drop_request": (True, False, LOST),
    "drop_reply": (True, True, LOST),
    "half_reply": (True, True, Problem("invalid_response", "the reply ended early", execution_started=None)),
    "502": (True, False, refusal(502)),
    "502_committed": (True, True, refusal(502, "<html>bad gateway</html>")),
    "504": (True, False, refusal(504)),
    "404": (True, False, refusal(404, "<html>")),
    "429_bare": (True, False, refusal(429)),
    "429_after_0": (True, False, refusal(429, {"error": {**BUSY, "retryAfterSeconds": 0}})),
    "429_after_2": (True, False, refusal(429, {"error": {**BUSY, "retryAfterSeconds": 2}})),
    "429_after_3600": (True, False, refusal(429, {"error": {**BUSY, "retryAfterSeconds": 3600}})),
    "429_after_none": (True, False, refusal(429, {"error": BUSY})),
    "503_not_started": (True, False, refusal(503, {"error": {"kind": "capability_unavailable", "executionStarted": False}})),
    "400": (True, False, refusal(400)),
    "401": (True, False, refusal(401)),
    "403": (True, False, refusal(403)),
    "409_conflict": (True, False, refusal(409, {"error": {"kind": "revision_conflict", "executionStarted": False}})),
    "empty_object": (True, True, {}),
    "text_ok": (True, True, "ok"),
    "ok_true": (True, False, {"ok": True, "success": True}),
    "id_only": (True, True, {"name": "a"}),
    "other_id": (True, True, {"name": "zz", "revision": 1}),
}
COMMIT_LOST = Problem("commit_unknown", "COMMIT failed", execution_started=None)


class Shelf:
    """The service."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.revision = 0
        self.log: dict[str, dict[str, Any]] = {}
        self.fenced: set[str] = set()
        self.task_state = "SUCCESS"

    def write(self, step_id: str, verb: str, name: str, value: str) -> Any:
        if step_id in self.log:
            return self.log[step_id]
        if step_id in self.fenced:
            return Problem("conflict", "fenced", execution_started=False)
        self.values[name] = self.values.get(name, "") + value if verb == "append" else value
        if verb == "remove":
            del self.values[name]
        self.revision += 1
        task = {"taskId": f"t-{step_id}", "kind": verb, "state": "INIT"} if verb in ("bake", "order") else {}
        self.log[step_id] = {"name": name, "revision": self.revision, **task}
        return self.log[step_id]


class Desk:
    """The driver. `faults` are taken one per Send; `readback`, `settle`, `rollback` name one fault each."""

    def __init__(self, transport: str = "network", *, faults: Iterable[str] = (), readback: str = "", settle: str = "", rollback: str = "") -> None:
        self.atomic = transport == "atomic"
        self.faults, self.readback, self.settle, self.rollback = list(faults), readback, settle, rollback
        self.shelf = Shelf()
        self.ledger: dict[str, Entry] = {}
        self.approvals: list[Approval] = []
        self.grants = [Grant(id="g1", credits_micro=10_000_000)]
        self.charges: list[Charge] = []
        self.requests, self.waits, self.seen = 0, list[float](), list[str]()
        self.calls: dict[str, Call] = {}
        self.intended: dict[str, Entry] = {}
        self.bases: dict[str, str] = {}
        self.price = 3_000_000
        self.needs: tuple[Need, ...] = ()
        self.problems: tuple[FieldProblem, ...] = ()
        self.confirm = False
        self.count = 0

    # the two doors

    def call(self, op: str, args: dict[str, Any] | None = None, session: Session | None = None, **more: Any) -> Any:
        self.count += 1
        call = Call(operation_id=f"op{self.count}", arguments=PUT if args is None else args, now_ms=NOW, **more)
        self.calls[call.operation_id] = call
        self.before = (copy.deepcopy(self.shelf), dict(self.ledger), list(self.charges))
        return drive(operate(OPS[op], call, session or Session("auto", lasting=False), atomic=self.atomic), self.answer)

    def reconcile(self, operation_id: str) -> Entry:
        entry = self.ledger.get(operation_id) or self.intended[operation_id]
        return drive(reconcile(OPS[entry.operation], entry), self.answer)

    # answers to commands

    def answer(self, command: leaf.Command) -> Any:
        self.seen.append(type(command).__name__)
        return getattr(self, "_" + type(command).__name__)(command)

    def _Recall(self, c: leaf.Recall) -> Any:
        return next((e for e in self.ledger.values() if e.key == c.key), None)

    def _Prepare(self, c: leaf.Prepare) -> Any:
        args, name = c.call.arguments, c.call.arguments["name"]
        self.bases[c.call.operation_id] = self.shelf.values.get(name, "")
        thrice = args.get("value") == "thrice"
        return Prepared(
            target={"name": name}, target_id=name, current=self.shelf.revision, changed={"revision": self.shelf.revision},
            quote=Quote(self.price, **c.settings), resolved={**args, **c.settings}, needs=self.needs, problems=self.problems, confirm=self.confirm,
            steps=tuple(Step(f"write_{n}", effect=True, reply=REPLY) for n in "abc") if thrice else (),
        )  # fmt: skip

    def _Grants(self, c: leaf.Grants) -> Any:
        return [(g, [x for x in self.charges if x.source == g.id]) for g in self.grants]

    def _FindApproval(self, c: leaf.FindApproval) -> Any:
        mine = [a for a in self.approvals if (a.id == c.plan_id if c.plan_id else a.plan.arguments == c.request)]
        return mine[-1] if mine else None

    def _KeepApproval(self, c: leaf.KeepApproval) -> Any:
        self.approvals = [*(a for a in self.approvals if a.id != c.approval.id), c.approval]

    def _Intend(self, c: leaf.Intend) -> Any:
        taken = next((e for e in self.ledger.values() if c.entry.key and e.key == c.entry.key and e.operation_id != c.entry.operation_id), None)
        if taken:
            return taken
        self.intended[c.entry.operation_id] = self.ledger[c.entry.operation_id] = c.entry
        self._charge(c.entry)
        if c.approval:
            self._KeepApproval(leaf.KeepApproval(c.approval))
        return None

    def _charge(self, entry: Entry) -> None:
        if entry.charge:
            self.charges.append(entry.charge)

    def _Send(self, c: leaf.Send) -> Any:
        args = c.call.arguments
        operation = self.intended[c.step_id.split("/")[0]].operation if c.step.effect or c.step.awaits else "get"
        verb = {"put_thrice": "put", "buy": "put"}.get(operation, operation)
        if operation == "get":
            if self.faults:
                return FAULTS[self.faults.pop(0)][2]
            return {"name": args["name"], "value": self.shelf.values.get(args["name"], ""), "revision": self.shelf.revision}
        if c.step.awaits:
            return self._ticket(c.replies["submit"]["taskId"])
        fault = self.faults.pop(0) if self.faults else "none"
        name = c.step.name.rpartition("_")[2] if "_" in c.step.name else args["name"]
        value = "1" if "_" in c.step.name else args["value"]
        arrives, done, instead = FAULTS.get(fault, (True, True, None))
        self.requests += arrives
        reply = self.shelf.write(c.step_id, verb, name, value) if done else None
        if fault == "deliver_twice":
            self.requests += 1
            reply = self.shelf.write(c.step_id, verb, name, value)
        return reply if instead is None else instead

    def _ticket(self, task_id: str) -> Any:
        state = {"running": "PROCESSING", "task_failed": "FAILED", "cancelled": "CANCELLED"}.get(self.readback, self.shelf.task_state)
        error = Problem("task_failed", "the oven broke", execution_started=True) if state == "FAILED" else None
        if self.readback == "other_task":
            task_id = "t-other"
        return ticket(task_id, "bake", state, result={"loaf": 1} if state == "SUCCESS" else None, error=error)

    def _Find(self, c: leaf.Find) -> Any:
        if self.readback == "unreachable":
            return Problem("capability_unavailable", "unreachable")
        if c.step.awaits:
            submit = c.step_id.rpartition("/")[0] + "/submit"
            return self._ticket(self.shelf.log[submit]["taskId"]) if submit in self.shelf.log else None
        if c.step_id not in self.shelf.log:
            self.shelf.fenced.add(c.step_id)
            return None
        return self.shelf.log[c.step_id]

    def _Conclude(self, c: leaf.Conclude) -> Any:
        call, operation = self.calls[c.entry.operation_id], c.entry.operation
        if operation == "get":
            data = c.replies["get"]
            offset = Issued("offset", (7,), snapshot=str(self.shelf.revision))
            return Conclusion(data=data, facts=(offset, Read("get", call.arguments["name"], token=str(self.shelf.revision))))
        if c.read_back and self.readback == "lost":
            return LOST
        started = next((r for r in c.replies.values() if isinstance(r, dict) and "taskId" in r), {})
        data = {"revision": self.shelf.revision} | {k: started[k] for k in ("taskId", "kind", "state") if k in started}
        if c.read_back and self.readback == "bad_data":
            data = {"revision": "seven"}
        undo = Compensation(available=True, operation="remove", arguments={"name": "a", "value": "x"}, expected=self.shelf.revision)
        return Conclusion(data=data, proofs=self._proofs(c, call), compensation=undo)

    def _proofs(self, c: leaf.Conclude, call: Call) -> Any:
        if not c.read_back or c.entry.operation == "bake":
            return ()
        name, value = call.arguments["name"], call.arguments["value"]
        wanted = {name: value}
        if c.entry.operation == "append":
            wanted = {name: self.bases[call.operation_id] + value}
        elif c.entry.operation == "put_thrice":
            wanted = dict.fromkeys("abc", "1")
        found = {n: self.shelf.values.get(n, "") for n in wanted}
        if c.entry.operation in ("remove", "order"):
            wanted = found
        if self.readback == "differs":
            found = {"other": "words"}
        return (compared("transport" if self.readback == "transport_only" else "readback", str(wanted), str(found), self.shelf.revision),)

    def _RollBack(self, c: leaf.RollBack) -> Any:
        if self.rollback == "lost":
            return COMMIT_LOST
        self.shelf = copy.deepcopy(self.before[0])
        return None

    def _Wait(self, c: leaf.Wait) -> Any:
        self.waits.append(c.seconds)

    def _Settle(self, c: leaf.Settle) -> Any:
        fault, self.settle = self.settle, ""
        if fault in ("lost_rolled_back", "rolled_back"):
            self.shelf, self.ledger, self.charges = self.before
        if fault == "rolled_back":
            return Problem("local_io", "disk full", execution_started=False)
        if fault in ("", "lost_committed"):
            self.ledger[c.entry.operation_id] = c.entry
            self._charge(c.entry)
        return COMMIT_LOST if fault else None


def asks(desk: Desk, *wanted: str) -> None:
    """The commands since the last look were exactly these."""
    assert desk.seen == list(wanted)
    desk.seen.clear()


def error(answer: Any, kind: str) -> Problem:
    assert isinstance(answer, Problem), answer
    assert answer.kind == kind
    return answer


def receipt_of(answer: Any) -> Receipt:
    assert isinstance(answer, Receipt), answer
    return answer
