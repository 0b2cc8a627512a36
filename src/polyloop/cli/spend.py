"""Commands of money: what a person allows to be spent without being asked again, and what of it is used."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from polyloop.app.documents import read_database
from polyloop.app.media import Spent, grant_spending, spent
from polyloop.clock import SystemClock
from polyloop.contract.problem import problem
from polyloop.contract.spend import Balance, Grant, micro
from polyloop.media.tasks import credits_of
from polyloop.words.catalog import say

from .frame import Place, carry_out, placed

app: Final = typer.Typer(no_args_is_help=True, help="Money: what may be spent without asking again.")
CanvasOption = Annotated[str, typer.Option("--canvas", help="Id of the canvas.")]
OwnerOption = Annotated[str, typer.Option("--owner", help="Whose canvas.")]
SessionOption = Annotated[str, typer.Option("--session", help="A session, or the id of a run.")]
_SIZE: Final = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,4})")


def _scope(canvas: str, session: str) -> tuple[str, str]:
    if bool(canvas) == bool(session):
        raise _wrong("canvas", "exactly_one", "one of --canvas and --session")
    return ("canvas", canvas) if canvas else ("session", session)


def _wrong(field: str, issue: str, why: str) -> Exception:
    return problem("validation", f"--{field}: {why}", operation="spend.grant", stage="arguments", details={"field": field, "issue": issue})


def _until(text: str) -> int:
    """Epoch ms of an ISO date and time with its zone; 0 = no end."""
    if not text:
        return 0
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise _wrong("expires", "format", "a date and time such as 2030-01-31T12:00:00+08:00") from error
    if at.tzinfo is None:
        raise _wrong("expires", "format", "it needs its time zone")
    until = int(at.timestamp() * 1000)
    if until <= SystemClock().now_ms():
        raise _wrong("expires", "past", "that time is over")
    return until


def _granted(credits_: str, limits: dict[str, Any], size: str, expires: str) -> Grant:
    try:
        amount = micro(credits_)
    except ValueError as error:
        raise _wrong("credits", "format", str(error)) from error
    found = _SIZE.fullmatch(size) if size else None
    if size and found is None:
        raise _wrong("max-size", "format", "WIDTHxHEIGHT in pixels")
    width, height = (int(found[1]), int(found[2])) if found else (0, 0)
    return Grant(id="", credits_micro=amount, max_width=width, max_height=height, until=_until(expires), **limits)


def _json(grant: Grant, used: Balance | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {
        "grantId": grant.id, "credits": credits_of(grant.credits_micro), "tasks": grant.tasks or None, "modes": list(grant.modes),
        "models": list(grant.models), "tiers": list(grant.tiers), "maxSeconds": grant.max_seconds or None, "maxWidth": grant.max_width or None,
        "maxHeight": grant.max_height or None, "until": grant.until or None,
    }  # fmt: skip
    if used is not None:
        told |= _used(used)
    return told


def _used(used: Balance) -> dict[str, Any]:
    return {"held": credits_of(used.held_micro), "spent": credits_of(used.spent_micro), "tasksUsed": used.tasks}


@app.command()
@placed
def grant(
    place: Place,
    credits_: Annotated[str, typer.Option("--credits", help="At most so many credits.")],
    canvas: CanvasOption = "",
    session: SessionOption = "",
    mode: Annotated[list[str] | None, typer.Option("--mode", help="image, video, audio; may be given again.")] = None,
    model: Annotated[list[str] | None, typer.Option("--model", help="A model; may be given again.")] = None,
    tier: Annotated[list[str] | None, typer.Option("--tier", help="A price tier; may be given again.")] = None,
    tasks: Annotated[int, typer.Option("--tasks", min=0, help="At most so many tasks; 0 = no such limit.")] = 0,
    max_seconds: Annotated[float, typer.Option("--max-seconds", min=0, help="Longest result.")] = 0,
    max_size: Annotated[str, typer.Option("--max-size", metavar="WxH", help="Largest result.")] = "",
    expires: Annotated[str, typer.Option("--expires", help="Until when, with time zone.")] = "",
    owner: OwnerOption = "local",
) -> None:
    """Allow spending on a canvas or in a session, within these limits."""

    async def work() -> Grant:
        named = {"modes": tuple(mode or ()), "models": tuple(model or ()), "tiers": tuple(tier or ())}
        if wrong := set(named["modes"]) - {"image", "video", "audio"}:
            raise _wrong("mode", "invalid_value", f"there is no mode {min(wrong)}")
        made = _granted(credits_, {**named, "tasks": tasks, "max_seconds": max_seconds}, max_size, expires)
        return await grant_spending(place.store, place.tenant, _scope(canvas, session), made, owner)

    made = carry_out(place, work)
    if place.as_json:
        place.print_json(_json(made))
    else:
        sys.stdout.write(f"{made.id}  {credits_of(made.credits_micro)}\n")


@app.command()
@placed
def show(place: Place, canvas: CanvasOption = "", session: SessionOption = "", owner: OwnerOption = "local") -> None:
    """The grants of a canvas or session and what of each is used, what was approved by itself, and the whole."""

    async def work() -> Spent:
        with read_database(place.store, place.tenant) as db:
            return spent(db, place.tenant, _scope(canvas, session), owner)

    found = carry_out(place, work)
    if place.as_json:
        sums = {"approved": _used(found.approved), "total": _used(found.total)}
        place.print_json({"grants": [_json(grant, used) for grant, used in found.grants], **sums})
    else:
        for grant, used in found.grants:
            sys.stdout.write(f"{grant.id}  {credits_of(used.held_micro + used.spent_micro)} / {credits_of(grant.credits_micro)}\n")
        for name, used in (("approved", found.approved), ("total", found.total)):
            told = {"held": credits_of(used.held_micro), "spent": credits_of(used.spent_micro), "tasks": used.tasks}
            sys.stdout.write(say(f"spend.{name}", place.lang, **told) + "\n")
