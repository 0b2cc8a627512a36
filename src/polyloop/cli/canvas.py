"""Commands of canvases: make one, list them, and carry out every operation by its tool name."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from polyloop.app.approvals import PERSON
from polyloop.app.canvas_export import exported
from polyloop.app.documents import canvases_of, open_database, read_database
from polyloop.app.export import land
from polyloop.app.media import answered, encoded, save_file, work_media
from polyloop.canvas.doings import DOINGS
from polyloop.contract.operation import shown
from polyloop.contract.problem import problem
from polyloop.journal.carry import Caller
from polyloop.media.runtime import TOOLS
from polyloop.views.canvas.forms import FORMS
from polyloop.words.catalog import say

from .arguments import arguments, mode_of
from .cells import plain
from .frame import Place, carry_out, placed
from .told import headline

app: Final = typer.Typer(no_args_is_help=True, help="Canvases: make, read, change; every write answers with a receipt.")
ToolArgument = Annotated[str, typer.Argument(metavar="TOOL", help="Operation; `polyloop canvas tools` lists them.")]
CanvasOption = Annotated[str, typer.Option("--canvas", help="Id of the canvas.")]
OwnerOption = Annotated[str, typer.Option("--owner", help="Whose canvas.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Approve and carry out in one.")]
PlanOption = Annotated[str, typer.Option("--plan", help="The approved plan this call consumes.")]
SessionOption = Annotated[str, typer.Option("--session", help="A session; made on first use.")]
ModeOption = Annotated[str, typer.Option("--mode", help="read_only, request_approval or auto.")]


def _carry(place: Place, tool: str, given: dict[str, Any], mode: str, wait_s: float = 0, **more: Any) -> tuple[dict[str, Any], int]:
    async def work() -> tuple[dict[str, Any], int]:
        caller = Caller(mode=mode_of(mode, "canvas"), **more)
        if tool in TOOLS:
            with open_database(place.store, place.tenant) as db:
                return shown(await answered(db, place.tenant, tool, given, caller, wait_s))
        doing = DOINGS.get(tool)
        looks = (doing is None or doing.read is not None or caller.dry_run) and not caller.session
        with (read_database if looks else open_database)(place.store, place.tenant) as db:
            return shown(await canvases_of(db, place.tenant).call(tool, given, caller))

    return carry_out(place, work)


def _print(place: Place, tool: str, answer: dict[str, Any], code: int) -> None:
    if place.as_json:
        place.print_json(answer)
    else:
        sys.stdout.write(_for_people(place, tool, answer) + "\n")
    if code:
        raise typer.Exit(code)


def _for_people(place: Place, tool: str, answer: dict[str, Any]) -> str:
    line = headline(place.lang, tool, answer)
    if (error := answer.get("error")) and "taskId" not in answer:
        return "\n".join([line, plain(f"{error['kind']}: {error['message']}"), *(f"planId {p}" for p in [error["details"].get("planId")] if p)])
    told = json.dumps(answer.get("data", answer), ensure_ascii=False, indent=2)
    return "\n".join([line, *map(plain, told.split("\n"))])


@app.command()
@placed
def new(
    place: Place,
    title: Annotated[str, typer.Option("--title", help="What it is called.")],
    owner: OwnerOption = "local",
    session: SessionOption = "",
    mode: ModeOption = "auto",
    yes: YesOption = False,
) -> None:
    """Make a canvas."""
    answer, code = _carry(place, "canvas_new", {"title": title}, mode, session=session, owner=owner, approved_by=PERSON if yes else "")
    _print(place, "canvas_new", answer if code else {**answer["data"], "receipt": answer} if place.as_json else answer, code)


@app.command("list")
@placed
def list_(place: Place, owner: OwnerOption = "local") -> None:
    """The canvases of an owner."""

    async def work() -> list[tuple[str, str]]:
        with read_database(place.store, place.tenant) as db:
            return await canvases_of(db, place.tenant).canvases(owner)

    found = carry_out(place, work)
    if place.as_json:
        place.print_json({"canvases": [{"canvasId": canvas_id, "title": title} for canvas_id, title in found]})
    else:
        sys.stdout.write("".join(f"{canvas_id}  {plain(title)}\n" for canvas_id, title in found))


@app.command()
@placed
def call(
    place: Place,
    tool: ToolArgument,
    canvas: CanvasOption,
    args: Annotated[str, typer.Option("--args", metavar="FILE|-", help="The arguments, a JSON object.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only the plan.")] = False,
    yes: YesOption = False,
    plan: PlanOption = "",
    session: SessionOption = "",
    mode: ModeOption = "auto",
    owner: OwnerOption = "local",
    wait: Annotated[float, typer.Option("--wait", metavar="SECONDS", help="Work on a task it begins, so long at most.")] = 0,
) -> None:
    """Carry out one operation."""

    async def given() -> dict[str, Any]:
        return arguments(args, "canvas")

    asked = carry_out(place, given)
    more = {"session": session, "plan_id": plan, "approved_by": PERSON if yes else "", "dry_run": dry_run, "owner": owner, "within": canvas}
    _print(place, tool, *_carry(place, tool, asked, mode, wait, **more))


@app.command()
@placed
def work(place: Place, watch: Annotated[bool, typer.Option("--watch", help="Until it is stopped.")] = False) -> None:
    """Carry out the media tasks of a tenant until nothing waits any more."""

    async def carried() -> int:
        with open_database(place.store, place.tenant) as db:
            return await work_media(db, place.tenant, watch=watch)

    moves = carry_out(place, carried)
    if place.as_json:
        place.print_json({"moves": moves})


@app.command()
@placed
def upload(
    place: Place,
    canvas: CanvasOption,
    file: Annotated[Path, typer.Option("--file", help="A picture, clip or sound.")],
    node: Annotated[str, typer.Option("--node", help="Id of the new node.")],
    title: Annotated[str, typer.Option("--title", help="What it is called; else the file's name.")] = "",
    session: SessionOption = "",
    owner: OwnerOption = "local",
) -> None:
    """Bring a file onto a canvas as a new node."""

    async def given() -> dict[str, Any]:
        return {"nodeId": node, "title": title or file.name, "file": encoded(file)}

    _print(place, "upload", *_carry(place, "upload", carry_out(place, given), "auto", session=session, owner=owner, within=canvas))


@app.command()
@placed
def save(
    place: Place,
    canvas: CanvasOption,
    out: Annotated[str, typer.Option("--out", help="Where to; never over another file.")],
    node: Annotated[str, typer.Option("--node", help="Whose file.")] = "",
    transient: Annotated[str, typer.Option("--transient", help="An annotation of the session.")] = "",
    session: SessionOption = "",
    owner: OwnerOption = "local",
) -> None:
    """Save the file of a node, or the picture of an annotation."""

    async def saved() -> dict[str, Any]:
        with read_database(place.store, place.tenant) as db:
            return await save_file(db, place.tenant, out, node, transient, Caller(session=session, owner=owner, within=canvas))

    told = carry_out(place, saved)
    if place.as_json:
        place.print_json(told)
    else:
        sys.stdout.write(f"{told['path']}\n")


def _all() -> dict[str, tuple[str, bool, dict[str, Any]]]:
    """Purpose, whether for people alone, and schema of every operation."""
    own = {name: (d.purpose, d.people, d.op.arguments.raw) for name, d in DOINGS.items()}
    return own | {name: (t.purpose, t.people, t.op.arguments.raw) for name, t in TOOLS.items()}


@app.command()
@placed
def wish(
    place: Place,
    what: Annotated[str, typer.Argument(metavar="WISH", help="arrange: nodes may be moved though none lies over another.")],
    canvas: CanvasOption,
    session: SessionOption,
    owner: OwnerOption = "local",
) -> None:
    """Let a session (a run is one too) do on a canvas what it else does only in need."""

    async def work() -> None:
        with open_database(place.store, place.tenant) as db:
            await canvases_of(db, place.tenant).wish(what, session, canvas, owner)

    carry_out(place, work)
    if place.as_json:
        place.print_json({"canvasId": canvas, "session": session, "wish": what})


@app.command()
@placed
def export(
    place: Place,
    canvas: CanvasOption,
    format_: Annotated[str, typer.Option("--format", help=f"One of: {', '.join(FORMS)}.")],
    node: Annotated[str, typer.Option("--node", help="The storyboard or batch table, for markdown and csv.")] = "",
    out: Annotated[str | None, typer.Option("--out", help="File to write (never over an existing one).")] = None,
    owner: OwnerOption = "local",
) -> None:
    """Give a canvas out: for other programs (json, jsoncanvas), to look at (html, svg, png), to keep (zip), row by row (markdown, csv)."""

    async def work() -> bytes:
        with read_database(place.store, place.tenant) as db:
            data = await exported(db, place.tenant, owner, canvas, form=format_, lang=place.lang, node_id=node)
        if out is not None:
            land(out, data)
        return data

    data = carry_out(place, work)
    if out is None:
        sys.stdout.buffer.write(data)
    elif place.as_json:
        digest = hashlib.sha256(data).hexdigest()
        place.print_json({"canvasId": canvas, "format": format_, "file": out, "bytes": len(data), "sha256": digest})
    else:
        sys.stdout.write(say("exported", place.lang, path=out) + "\n")


@app.command()
@placed
def tools(place: Place) -> None:
    """The operations there are; those for people alone are marked."""
    found = _all()
    if place.as_json:
        place.print_json({"tools": [{"name": name, "purpose": purpose, "people": people} for name, (purpose, people, _) in found.items()]})
    else:
        sys.stdout.write("".join(f"{name:<26} {'*' if people else ' '} {purpose}\n" for name, (purpose, people, _) in found.items()))


@app.command()
@placed
def schema(place: Place, tool: ToolArgument) -> None:
    """The JSON Schema of an operation's arguments."""

    async def work() -> dict[str, Any]:
        found = _all()
        if tool not in found:
            raise problem("not_found", f"there is no operation {tool!r}", operation="canvas", stage="arguments")
        return found[tool][2]

    place.print_json(carry_out(place, work))
