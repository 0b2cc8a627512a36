"""What media ask of a canvas, and how an operation of media is made. Whoever wires the two implements `Surface`.

An operation looks at its circumstances (`Asked`), says what it means (`Plan.prepared`), and is carried out by `Plan.act` in the
transaction of the call. It never writes before that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from ..contract.leaf import Call, Conclusion, Operation, Prepared
from ..contract.ledger import Entry
from ..contract.problem import ProblemError, problem
from ..contract.session import Session
from ..contract.spend import Charge, Purse
from ..db import Tx
from ..journal import spending
from ..journal.carry import Caller
from .catalog import Catalog

#: The marks and kinds under which a canvas notes what a session has read and been given there.
CANVAS_READ: Final = "canvas_get_state"
NODE: Final = "node"


class Seen(Struct, frozen=True, kw_only=True):
    """A node as media see it. `kind` = what it gives (text, image, ...); `asset` None = it has no file yet; `hash` covers all of it."""

    id: str
    type: str
    title: str
    kind: str
    text: str = ""
    asset: dict[str, Any] | None = None
    hash: str = ""


class Placed(Struct, frozen=True, kw_only=True):
    """A node to be made: `sources` = the nodes it is made from, each gets a connection to it."""

    id: str
    type: str
    title: str
    body: dict[str, Any]
    sources: tuple[str, ...] = ()


class BatchRow(Struct, frozen=True, kw_only=True):
    """One enabled row of a batch plan. `prompt` with its mentions resolved; `output` = the node its result came to last, "" = none."""

    id: str
    prompt: str
    inputs: tuple[str, ...]
    output: str = ""


class Batch(Struct, frozen=True, kw_only=True):
    """A batch plan as it stands. `problems` = (field, issue, message) of rows that cannot be run."""

    title: str
    hash: str
    concurrency: int
    rows: tuple[BatchRow, ...]
    problems: tuple[tuple[str, str, str], ...] = ()


class Surface(Protocol):
    """One canvas inside one transaction."""

    @property
    def media_hash(self) -> str:
        """Of everything but places."""
        ...

    @property
    def content_hash(self) -> str: ...

    def seen(self, node_id: str) -> Seen | None: ...

    def changed_since(self, state: str) -> dict[str, Any]: ...

    def place(self, nodes: Sequence[Placed], *, actor: str, operation: str, at: int) -> None:
        """Make nodes and their connections. Raises conflict when one is there already."""
        ...

    def deliver(self, node_id: str, task_id: str, body: Mapping[str, Any], *, operation: str, at: int) -> str:
        """Put what became of a task on its node; "" = done, else why not: node_gone, node_changed, canvas_gone."""
        ...

    def batch(self, node_id: str) -> Batch | None: ...

    def outputs(self, node_id: str, made: Mapping[str, str], *, actor: str, operation: str, at: int) -> None:
        """Note in the rows of a batch plan which node each one's result is to come to."""
        ...


#: (transaction, tenant, owner, canvas id). Raises not_found, the same for what is not there and what is another's.
SurfaceOf = Callable[[Tx, str, str, str], Surface]


class Rooms(Struct, frozen=True, kw_only=True):
    """Where calls happen and tasks are carried out. `purse` = the accounts whose caps hold for all a tenant spends; None = there are none."""

    tenant: str
    catalog: Catalog
    surface_of: SurfaceOf
    purse: Purse | None = None

    def found(self, tx: Tx, owner: str, canvas: str) -> Surface | None:
        """None = it is not there any more."""
        try:
            return self.surface_of(tx, self.tenant, owner, canvas)
        except ProblemError as stop:
            if stop.problem.kind != "not_found":
                raise
            return None

    def charge(self, tx: Tx, made: Charge, session: str, at: int) -> None:
        """Raises as `spending.charge`."""
        spending.charge(tx, self.tenant, made, at, self.purse, session)


class Asked(Struct, frozen=True, kw_only=True):
    """The circumstances of one call. `ready` = what `Tool.before` made of its arguments, or the Problem that stopped it."""

    op: Operation
    tx: Tx
    tenant: str
    caller: Caller
    call: Call
    session: Session
    rooms: Rooms
    surface: Surface
    ready: Any = None

    @property
    def catalog(self) -> Catalog:
        return self.rooms.catalog

    @property
    def args(self) -> dict[str, Any]:
        return self.call.arguments

    @property
    def canvas_id(self) -> str:
        return self.caller.within

    @property
    def actor(self) -> str:
        return self.caller.session or self.caller.owner

    def node(self, field: str, node_id: str) -> Seen:
        """Raises not_found."""
        found = self.surface.seen(node_id)
        if found is None:
            raise problem("not_found", f"there is no node {node_id!r}", stage="resolve", details={"field": field, "nodeId": node_id})
        return found


class Plan(Struct, frozen=True, kw_only=True):
    """`act(step_id)` carries it out and gives the reply; `end(reply)` reads back what is then known. `known` = the task that this call stands
    for already, `repeats` = the operation it is once more: nothing is carried out; "" = none.
    """

    prepared: Prepared
    act: Callable[[str], dict[str, Any]]
    end: Callable[[dict[str, Any]], Conclusion]
    known: str = ""
    repeats: str = ""


class Known(Exception):
    """This wish is a task already (`task_id`), or what an operation has done already (`entry`); nothing is asked of anybody."""

    def __init__(self, task_id: str = "", entry: Entry | None = None) -> None:
        super().__init__(task_id)
        self.task_id, self.entry = task_id, entry


class Tool(Struct, frozen=True, kw_only=True):
    """One operation. `people` = never offered to an agent; `vision` = only where the model can see pictures; `before` = what takes long
    and needs no store, made before the transaction of the call.
    """

    op: Operation
    purpose: str
    plan: Callable[[Asked], Plan]
    people: bool = False
    vision: bool = False
    before: Callable[[dict[str, Any]], Any] | None = None


def reads(plan: Callable[[Asked], dict[str, Any]]) -> Callable[[Asked], Plan]:
    """A plan of an operation that only answers."""

    def made(asked: Asked) -> Plan:
        return Plan(prepared=Prepared(), act=lambda _: plan(asked), end=lambda reply: Conclusion(data=reply))

    return made
