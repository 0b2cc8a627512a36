"""How an operation on a canvas is made: a leaf, what it plans or reads, and what is then known. One table of these is the whole canvas.

An operation plans on `Asked.draft()` and hands the changes over; it never writes. What it wants read before is a `Need` under the
canvas' marks; what its answer issues and counts as read are facts, kept for this session and this canvas. Seed: S1.26, S1.43, S1.52.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from msgspec import Struct

from ..contract.leaf import Operation, Step
from ..contract.problem import FieldProblem, is_object
from ..contract.schema import Shape, closed
from ..contract.session import Fact, Need, Session
from ..contract.snapshot import State
from .board import Board
from .model import Change, Draft, Node

CONTRACT: Final = "canvas.operation.v1"
READ: Final = "canvas.read.v1"
#: Marks of readings, named as the operation that makes them: of a canvas (its id) and of a node (canvas/node).
GET_STATE: Final = "canvas_get_state"
NODE_TYPES: Final = "canvas_list_node_types"
#: Levels at which a node is read: only that it is there, its texts as far as shown, all of it.
INDEX, PAGE, DETAIL = 1, 2, 3
#: Kind of the handles that node ids are.
NODE: Final = "node"

_HASHES: Final = {name: {"type": "string", "minLength": 1} for name in ("snapshotHash", "beforeSnapshotHash")}
_REPLY: Final = Shape({"type": "object", "required": ["canvasId", "snapshotHash"], "properties": {"canvasId": {"type": "string", "minLength": 1}}})
_WRITTEN: Final = Shape({"type": "object", "required": ["canvasId", *_HASHES], "properties": _HASHES})
_TOLD: Final = Shape({"type": "object"})
WRITE: Final = Step("write", effect=True, reply=_REPLY, echo=("canvasId",))


def whole_texts(schema: Any) -> Any:
    """The schema with no text that holds a NUL: not every store can keep one."""
    if isinstance(schema, list):
        return [whole_texts(part) for part in cast("list[Any]", schema)]
    if not is_object(schema):
        return schema
    out = {name: whole_texts(part) for name, part in schema.items()}
    if out.get("type") == "string" and not {"enum", "const", "pattern"} & out.keys():
        out["pattern"] = r"^[^\x00]*$"
    return out


class Deliveries(Struct, frozen=True):
    """What others deliver to nodes, outside the order of do and undo. `of` = what stands on a node that comes back, if they have ended with
    it meanwhile; `arrived` = it has come back, and with it what they had for it; `kept` = whether the file of a node is still there.
    """

    of: Callable[[Board, Node], dict[str, Any]] = lambda _, __: {}
    arrived: Callable[[Board, Node], None] = lambda _, __: None
    kept: Callable[[Board, Node], bool] = lambda _, __: True


class Asked(Struct, frozen=True, kw_only=True):
    """The circumstances of one call. `mark` = the id of the operation: ids the server makes come from it; `yes` = a person
    says yes with the call.
    """

    op: Operation
    args: dict[str, Any]
    board: Board
    session: Session
    mark: str
    now_ms: int
    owner: str
    yes: bool = False
    deliveries: Deliveries = Deliveries()

    @property
    def canvas_id(self) -> str:
        return self.board.head.id

    def draft(self) -> Draft:
        return Draft(self.board)

    def node_mark(self, node_id: str) -> str:
        return f"{self.canvas_id}/{node_id}"

    def must_know(self, field: str, node_id: str) -> tuple[Need, ...]:
        """Nothing if this session was ever given this node's id, else that it must read it (S1.26)."""
        return () if self.session.handles.knows(NODE, node_id, self.canvas_id) else (Need(field, GET_STATE, self.node_mark(node_id), INDEX),)


class Plan(Struct, frozen=True, kw_only=True):
    """What a call means. `problems` = why not; `needs` = what must be read first; `resolved` = what a person is shown to approve;
    `data` = what the receipt tells beside the hashes.
    """

    changes: tuple[Change, ...] = ()
    problems: tuple[FieldProblem, ...] = ()
    needs: tuple[Need, ...] = ()
    resolved: dict[str, Any] = {}
    data: dict[str, Any] = {}
    warnings: tuple[str, ...] = ()
    kind: str = "do"
    undoes: int = 0


class Done(Struct, frozen=True, kw_only=True):
    """What is known after a write, or by a read."""

    data: dict[str, Any] = {}
    facts: tuple[Fact, ...] = ()


def canvas_state(asked: Asked) -> tuple[State, Callable[[str], dict[str, Any]]]:
    """The state most writes are based on, and what changed since another one."""
    return asked.board.head.content, asked.board.changed_since


def _nothing(_: Asked) -> Plan:
    return Plan()


def _no_more(_: Asked, __: Plan) -> Done:
    return Done()


def _nothing_beside(_: Asked, __: Plan) -> None:
    """Items are all that is written."""


class Doing(Struct, frozen=True, kw_only=True):
    """One operation. A read has `read`; a write has `plan`, `also` writes what is no item, `after` looks at the board then. `base` = the state it is
    based on, with what tells the changes since. `people` = never offered to an agent. `makes` = it makes the canvas it is about.
    """

    op: Operation
    purpose: str
    plan: Callable[[Asked], Plan] = _nothing
    read: Callable[[Asked, Plan], Done] | None = None
    also: Callable[[Asked, Plan], None] = _nothing_beside
    after: Callable[[Asked, Plan], Done] = _no_more
    base: Callable[[Asked], tuple[State, Callable[[str], dict[str, Any]]]] = canvas_state
    people: bool = False
    makes: bool = False

    @property
    def tool(self) -> str:
        """Its name among tools."""
        return self.op.name.replace(".", "_")


def reading(name: str, schema: dict[str, Any], purpose: str, read: Callable[[Asked, Plan], Done], **more: Any) -> Doing:
    """A read: `schema` = its arguments."""
    op = Operation(name=f"canvas.{name}", contract=READ, effect="read", arguments=closed(whole_texts(schema)), output=_TOLD, steps=(Step("read"),))
    return Doing(op=op, purpose=purpose, read=read, **more)


def writing(
    name: str, schema: dict[str, Any], purpose: str, plan: Callable[[Asked], Plan], *, arguments: Shape | None = None, confirm: bool = False,
    **more: Any,
) -> Doing:  # fmt: skip
    """A write based on its argument `snapshotHash`, if it has one. `arguments` = a shape of its own, instead of the closed schema."""
    op = Operation(
        name=f"canvas.{name}", contract=CONTRACT, effect="write", verify="readback", output=_WRITTEN, steps=(WRITE,), confirm=confirm,
        arguments=arguments or closed(whole_texts(schema)), based_on="snapshotHash" if "snapshotHash" in schema["properties"] else "",
    )  # fmt: skip
    return Doing(op=op, purpose=purpose, plan=plan, **more)
