"""Commands of skills: what is installed for runs to name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from polyloop.app.skills import add, installed
from polyloop.words.catalog import say
from polyloop.workspace.skills import Skill

from .frame import Place, carry_out, placed

app: Final = typer.Typer(no_args_is_help=True, help="Skills: Markdown that runs may read.")


def _wire(skill: Skill) -> dict[str, Any]:
    return {"name": skill.name, "version": skill.version, "sha256": skill.sha256, "files": sorted(skill.files)}


def add_(
    place: Place,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder with a SKILL.md, of Markdown files alone.")],
) -> None:
    """Install a skill. Each version stays as it is; a changed skill needs another `version:` in its SKILL.md."""

    async def work() -> Skill:
        return add(folder)

    _print(place, [carry_out(place, work)], one=True)


def list_(place: Place) -> None:
    """List the installed skills, all versions, the newest of each first."""

    async def work() -> list[Skill]:
        return installed()

    _print(place, carry_out(place, work), one=False)


def _print(place: Place, skills: list[Skill], *, one: bool) -> None:
    if place.as_json:
        place.print_json(_wire(skills[0]) if one else {"skills": [_wire(s) for s in skills], "complete": True})
        return
    lines = [f"{s.name}  {s.version}  sha256:{s.sha256}" for s in skills]
    sys.stdout.write("\n".join(lines or [say("skills.none", place.lang)]) + "\n")


for _name, _command in {"add": add_, "list": list_}.items():
    app.command(_name)(placed(_command))
