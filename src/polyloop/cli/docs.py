"""Commands of documents: every operation by its name, its arguments as JSON, its receipt as JSON."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import typer

from polyloop.app.approvals import PERSON
from polyloop.app.documents import open_documents, read_documents, work_tasks
from polyloop.contract.operation import shown
from polyloop.contract.problem import as_wire, problem
from polyloop.contract.task import Ticket
from polyloop.documents.leaves import ASIDE, OPERATIONS, PURPOSE
from polyloop.journal.carry import Caller
from polyloop.words.catalog import say

from .arguments import arguments, mode_of
from .docs_view import for_people, task_line
from .frame import Place, carry_out, placed
from .live import task_progress

app: Final = typer.Typer(no_args_is_help=True, help="Documents: create, read, change; every write answers with a receipt.")
#: Operations that have nothing to do in a store that is not there.
LOOKS: Final = frozenset({*ASIDE, *(name for name, op in OPERATIONS.items() if op.effect == "read")})
OpArgument = Annotated[str, typer.Argument(metavar="OP", help="Operation; `polyloop docs ops` lists them.")]


@app.command()
@placed
def call(
    place: Place,
    op: OpArgument,
    args: Annotated[str, typer.Option("--args", metavar="FILE|-", help="The arguments, a JSON object.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only the plan.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Approve and carry out in one.")] = False,
    plan: Annotated[str, typer.Option("--plan", help="The approved plan this call consumes.")] = "",
    session: Annotated[str, typer.Option("--session", help="A session; made on first use.")] = "",
    mode: Annotated[str, typer.Option("--mode", help="read_only, request_approval or auto.")] = "auto",
    user: Annotated[str, typer.Option("--as", help="Act as this user of the tenant; without it, as its owner.")] = "",
    workdir: Annotated[str, typer.Option("--workdir", help="Folder of the files that are read and written.")] = ".",
    wait: Annotated[float | None, typer.Option("--wait", min=0, help="Seconds to work on an import or export; 0 leaves it to a worker.")] = None,
) -> None:
    """Carry out one operation."""

    async def work() -> tuple[dict[str, Any], int]:
        caller = Caller(
            mode=mode_of(mode, "docs"), session=session, plan_id=plan, approved_by=PERSON if yes else "", dry_run=dry_run, person=True, wait_s=wait,
            user=user,
        )  # fmt: skip
        given = arguments(args, "docs")
        looks = op not in PURPOSE or op in LOOKS or dry_run
        reading = looks and not session
        with (read_documents if reading else open_documents)(place.store, place.tenant, workdir) as documents:
            documents.watch = task_progress(place) or documents.watch
            return shown(await documents.call(op, given, caller))

    answer, code = carry_out(place, work)
    if place.as_json:
        place.print_json(answer)
    else:
        sys.stdout.write(for_people(place.lang, op, answer) + "\n")
    if code:
        raise typer.Exit(code)


@app.command()
@placed
def work(
    place: Place,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until stopped.")] = False,
) -> None:
    """Carry out imports and exports that wait for a worker, those of dead workers too."""
    tasks: list[Ticket] = []

    def told(task: Ticket) -> None:
        tasks.append(task)
        if not place.as_json:
            sys.stdout.write(task_line(task, place.lang) + "\n")
            sys.stdout.flush()

    async def carry() -> int:
        with open_documents(place.store, place.tenant) as documents:
            return await work_tasks(documents, told, watch=watch)

    done = carry_out(place, carry)
    if place.as_json:
        place.print_json({"tasks": [as_wire(task) for task in tasks], "done": done})
    elif not done:
        sys.stdout.write(say("doc.work.none", place.lang) + "\n")


@app.command()
@placed
def ops(place: Place) -> None:
    """The operations there are."""
    if place.as_json:
        place.print_json({"operations": [{"name": name, "purpose": text} for name, text in PURPOSE.items()]})
    else:
        sys.stdout.write("\n".join(f"{name:<18} {text}" for name, text in PURPOSE.items()) + "\n")


@app.command()
@placed
def schema(
    place: Place,
    op: OpArgument,
) -> None:
    """The JSON Schema of an operation's arguments."""

    async def work() -> dict[str, Any]:
        if op not in PURPOSE:
            raise problem("not_found", f"there is no operation {op!r}", operation="docs", stage="arguments")
        return (ASIDE[op] if op in ASIDE else OPERATIONS[op].arguments).raw

    place.print_json(carry_out(place, work))
