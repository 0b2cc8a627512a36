"""The driver of the contract's pipeline for documents: each command is one small function of service and journal.

`ask` reaches the service, `run` the journal. Atomic, both are the transaction the whole call runs in; over a transport each
`run` is a commit of its own, and every request may be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ..contract import leaf
from ..contract.approval import Approval
from ..contract.leaf import Conclusion, Prepared
from ..contract.ledger import Entry
from ..contract.paging import Seal
from ..contract.problem import Problem, is_object
from ..contract.receipt import Compensation, Verification, compared
from ..contract.snapshot import digest
from ..contract.task import Ticket
from ..db import Tx
from ..db.tasks import find
from ..journal import operations
from ..journal.operations import Recorded
from . import exchange, media, reading, remarks, tasks
from . import requests as ask
from .access import admit
from .leaves import LANDED, LOCAL, TASKED
from .memo import Memo, memo_of, without_words
from .plan import Asked, Plan, planned
from .service import serve

SAVEPOINT: Final = "doc_steps"
#: What an item is called in a receipt.
_ITEMS: Final = {"comment": "commentId", "access": "user", "media": "resourceId"}


class Reach(Struct, frozen=True):
    """How far a call reaches: `send` to the service, `run(fn, *args)` a function of a transaction of the journal."""

    send: Callable[[ask.Request, str], ask.Reply]
    run: Callable[..., Any]
    atomic: bool = False


class Desk:
    """Answers the commands of one call, or of one reconciliation (then `asked` is None and `memo` is what was kept)."""

    def __init__(
        self, tenant: str, reach: Reach, *, session: str = "", seal: Seal | None = None, wait: Callable[[float], object] | None = None,
        asked: Asked | None = None, memo: Memo | None = None, finish: Callable[[str], Ticket] | None = None,
    ) -> None:  # fmt: skip
        self._finish = finish
        self.tenant, self.session, self._seal, self._wait, self._asked = tenant, session, seal, wait, asked
        self.send, self.run, self.atomic = reach.send, reach.run, reach.atomic
        self._plan = Plan(prepared=Prepared(), memo=memo or Memo())

    def answer(self, command: leaf.Command) -> Any:
        return _ANSWERS[type(command)](self, command)

    # --- whether it may go on

    def recall(self, command: leaf.Recall) -> Entry | None:
        return self._known(self.run(operations.by_key, self.tenant, command.key))

    def _known(self, found: Recorded | None) -> Entry | None:
        """An operation that may have to be reconciled now, by what was kept of its own plan."""
        if found is None:
            return None
        self._plan = replace(self._plan, memo=memo_of(found.memo))
        return found.entry

    def prepare(self, command: leaf.Prepare) -> Prepared:
        self._plan = (_PLANS.get(self.asked.name) or planned)(replace(self.asked, call=command.call))
        first = next(iter(self._plan.requests.values()), None)
        if self.asked.user and first is not None and not isinstance(first, ask.Land):
            self.run(admit, self.tenant, self.asked.user, first)  # before a person is asked, or another's approval is taken for it
        return self._plan.prepared

    def find_approval(self, command: leaf.FindApproval) -> Approval | None:
        return self.run(operations.find_approval, self.tenant, command.plan_id, command.request)

    def keep_approval(self, command: leaf.KeepApproval) -> None:
        self.run(operations.keep_approval, self.tenant, command.approval)

    # --- doing it

    def intend(self, command: leaf.Intend) -> Entry | None:
        recorded = Recorded(command.entry, self._plan.memo.text, self.session, command.entry.target.get("nodeId", ""))
        return self._known(self.run(self._intend, recorded, command.approval))

    def _intend(self, tx: Tx, recorded: Recorded, approval: Approval | None) -> Recorded | None:
        taken = operations.intend(tx, self.tenant, recorded)
        if taken is None and approval is not None:
            operations.keep_approval(tx, self.tenant, approval)
        if self.atomic:
            tx.run(f"savepoint {SAVEPOINT}")
        return taken

    def send_step(self, command: leaf.Send) -> Any:
        if command.step.awaits and self._finish is not None:
            return self._finish(command.replies["submit"]["taskId"])
        request = self._plan.requests.get(command.step.name)
        if request is None:
            assert self._seal is not None
            return reading.read(replace(self.asked, call=command.call), self._plan, self._seal, _LISTS)
        if isinstance(request, ask.Land):
            return media.land(exchange.folder_of(self.asked), request, self._plan.upload)
        if isinstance(request, ask.Local):
            return self.run(self._keep, request, command.step_id)
        return self.send(request, command.step_id)

    def _keep(self, tx: Tx, request: ask.Local, step_id: str) -> ask.Reply:
        """A task is kept here, with the file it is about, whatever the way to the service."""
        if self._plan.upload:
            tasks.keep_upload(tx, self.tenant, request.task, self._plan.upload)
        return serve(tx, self.tenant, request, step_id, self.asked.user)

    def conclude(self, command: leaf.Conclude) -> Conclusion:
        replies, memo = command.replies, self._plan.memo
        if command.entry.operation.removeprefix("doc.") in TASKED:
            return self._concluded(command)
        if command.entry.operation.removeprefix("doc.") in LANDED:
            return self._landed(command)
        if self._asked is not None and self._asked.op.effect == "read":
            answer = replies["read"]
            return Conclusion(data=answer, facts=reading.facts(self._asked, answer))
        done = {name: reply for name, reply in replies.items() if is_object(reply) and "revision" in reply}
        target = command.entry.target
        data: dict[str, Any] = {"nodeId": target["nodeId"], "canonicalUrl": target["canonicalUrl"]}
        for reply in done.values():
            data |= {name: reply[name] for name in ("revision", "blockIds", "version") if name in reply}
            if "item" in reply:
                data[_ITEMS.get(reply.get("kind", ""), "item")] = reply["item"]
        proofs = tuple(self._proof(command.entry, name, reply) for name, reply in done.items()) if command.read_back else ()
        moved = self._plan.prepared.resolved.get("container")
        elsewhere = {**target, "container": moved} if moved else {}
        return Conclusion(data=data, proofs=proofs, warnings=memo.warnings, compensation=_taken_back(memo, done), target=elsewhere)

    def _landed(self, command: leaf.Conclude) -> Conclusion:
        """A file as it stands: it is opened again."""
        target, nothing = command.entry.target, dict[str, Any]()
        told = next((r for r in command.replies.values() if is_object(r)), nothing)
        data = {"nodeId": target["nodeId"], "canonicalUrl": target["canonicalUrl"], **{n: told[n] for n in ("path", "sha256", "bytes") if n in told}}
        if not command.read_back:
            return Conclusion(data=data)
        found = media.landed(self._plan.memo)
        proof = compared("readback", self._plan.memo.facts["land"]["sha256"], found["sha256"] if found else "")
        return Conclusion(data=data, proofs=(proof,))

    def _concluded(self, command: leaf.Conclude) -> Conclusion:
        """A task as it stands: its row is read again, and says what was submitted."""
        entry, wanted = command.entry, self._plan.memo.facts
        told = next((r for r in command.replies.values() if is_object(r)), {"taskId": tasks.id_of(self.tenant, entry.operation_id)})
        task: tasks.Task | None = self.run(find, self.tenant, told["taskId"])
        if task is None:
            return Conclusion()
        body = tasks.body_of(task)
        result = body.result or {}
        held = {"submit": {"body": digest(tasks.text_of(body.as_submitted))}, "cancel": {"state": task.state}}
        known = {name: {fact: held[name].get(fact) for fact in facts} for name, facts in wanted.items()}
        proofs = tuple(compared("readback", digest(facts), digest(known[name])) for name, facts in wanted.items()) if command.read_back else ()
        data = {**tasks.told(task), **{name: value for name, value in result.items() if name not in ("target", "warnings")}}
        return Conclusion(data=data, proofs=proofs, warnings=tuple(result.get("warnings", ())), target=result.get("target") or entry.target)

    def _proof(self, entry: Entry, step: str, reply: dict[str, Any]) -> Verification:
        """What the step should have brought about against what its revision holds. Raises ProblemError when it cannot be read."""
        wanted = self._plan.memo.facts[step]
        more = {name: reply[name] for name in ("version", "kind", "item", "seq") if name in reply}
        asked = ask.Facts(node=entry.target["nodeId"], revision=reply["revision"], step=entry.step_id(step), **more)
        found = self.send(asked, "")
        held = {name: found.get(name) for name in wanted} if is_object(found) else {}
        return compared("readback", digest(wanted), digest(held), reply["revision"])

    def find(self, command: leaf.Find) -> Any:
        if command.step.awaits:
            return tasks.ticket_of(self.run(tasks.get, self.tenant, tasks.id_of(self.tenant, command.step_id.split("/")[0])))
        if command.step.name == "land":
            return media.landed(self._plan.memo)
        if command.step.name in LOCAL:
            return self.run(serve, self.tenant, ask.Find(step_id=command.step_id))["reply"]
        node, box = command.target.get("nodeId", ""), command.target.get("container", {}).get("id", "")
        found = self.send(ask.Find(step_id=command.step_id, node=node, container=box), "")
        if is_object(found) and "reply" in found:
            return found["reply"]
        return Problem("invalid_response", "the service told nothing about this step", execution_started=None)

    def roll_back(self, _: leaf.RollBack) -> None:
        self.run(_roll_back)

    def pause(self, command: leaf.Wait) -> None:
        if self._wait is not None:
            self._wait(command.seconds)

    def settle(self, command: leaf.Settle) -> None:
        self.run(_settle, self.tenant, command.entry)

    @property
    def asked(self) -> Asked:
        assert self._asked is not None
        return self._asked


def _settle(tx: Tx, tenant: str, entry: Entry) -> None:
    operations.settle(tx, tenant, entry)
    if entry.operation == "doc.purge" and entry.receipt is not None and entry.receipt.ok:
        tasks.relate(tx, tenant, entry.target["nodeId"])
        operations.forget(tx, tenant, entry.target["nodeId"], without_words, "it was purged", tasks.without_words)
        tasks.erase(tx, tenant, entry.target["nodeId"])


def _roll_back(tx: Tx) -> None:
    tx.run(f"rollback to savepoint {SAVEPOINT}")


def _taken_back(memo: Memo, done: dict[str, dict[str, Any]]) -> Compensation:
    """Bound to the last revision written. Not offered when others wrote in between: it would take back theirs too."""
    writes = [reply for name, reply in done.items() if name != "checkpoint"]
    if memo.undo is None:
        return Compensation(reason="this cannot be taken back")
    if not writes:
        return Compensation(reason="nothing was changed")
    if any(later["before"] != earlier["revision"] for earlier, later in pairwise(writes)):
        return Compensation(reason="others have written in between")
    arguments = {**memo.undo.arguments, **({"revision": writes[0]["before"]} if memo.undo.before else {})}
    return Compensation(available=True, operation=memo.undo.operation, arguments=arguments, expected=writes[-1]["revision"])


#: What is planned, and how lists are read, beyond content and places.
_PLANS: Final = {**exchange.PLANS, **remarks.PLANS, **media.PLANS}
_LISTS: Final = {**reading.LISTS, **remarks.LISTS, **media.LISTS}
_ANSWERS: Final[dict[type, Callable[[Desk, Any], Any]]] = {
    leaf.Recall: Desk.recall, leaf.Prepare: Desk.prepare, leaf.FindApproval: Desk.find_approval, leaf.KeepApproval: Desk.keep_approval,
    leaf.Intend: Desk.intend, leaf.Send: Desk.send_step, leaf.Conclude: Desk.conclude, leaf.Find: Desk.find, leaf.RollBack: Desk.roll_back,
    leaf.Wait: Desk.pause, leaf.Settle: Desk.settle,
}  # fmt: skip
