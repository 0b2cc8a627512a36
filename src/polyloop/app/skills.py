"""Installed skills, and those a run names: frozen into it by version and digest.

They stand in POLYLOOP_HOME, each version of each in a folder of its own that never changes. A run keeps the mark of each skill it
names in its assembly; what is offered on resume is the mark of that version as it is on the disk then, so that a change is drift.
They are texts to read and grant nothing. Seed: S1.51.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from shutil import rmtree
from typing import Final

from msgspec.structs import replace

from polyloop.contract.problem import Problem, ProblemError, problem
from polyloop.files import FileProblem, Root, write_atomic
from polyloop.ids import uuid7
from polyloop.kernel.objects import Request
from polyloop.workspace.skills import NAME, SKILL, Frozen, Skill, read_skill

#: Before a skill's name: keys of the assembly.
PREFIX: Final = "skill."


def _home() -> Path:
    return Path(os.environ.get("POLYLOOP_HOME") or ".polyloop") / "skills"


def add(folder: Path) -> Skill:
    """Install the skill a folder is, under the folder's name; the same once more changes nothing.

    Raises ProblemError: as `read_skill`; conflict when this version of it is there with other content.
    """
    skill = read_skill(str(folder), folder.resolve().name)
    place = _home() / skill.name / skill.version
    if not (place / SKILL).exists():
        _land(skill, place)
    if read_skill(str(place), skill.name).mark != skill.mark:
        why = f"version {skill.version} of {skill.name} is there with other content; give it another version"
        raise problem("conflict", why, operation="skills", stage="precondition", details={"version": skill.version})
    return skill


def _land(skill: Skill, place: Path) -> None:
    """Whole in a folder of its own first, then by its name: what a kill left half done stands in nobody's way."""
    fresh = place.with_name(f".{skill.version}-{uuid7()}")
    try:
        with Root(fresh, make=True) as root:
            for path in skill.files:
                write_atomic(root, path, skill.files[path].encode(), replace=True)
        if place.is_dir() and not (place / SKILL).exists():
            place.rename(fresh.with_name(f"{fresh.name}-half"))
        fresh.rename(place)
    except FileProblem as p:
        raise ProblemError(Problem(p.kind, p.message, operation="skills", stage="write", details=p.details)) from p
    except OSError as error:
        if not (place / SKILL).exists():  # else somebody else has installed it in this instant: the caller compares
            raise problem("local_io", str(error), operation="skills", stage="write") from error
    finally:
        for left in (fresh, fresh.with_name(f"{fresh.name}-half")):
            rmtree(left, ignore_errors=True)


def installed() -> list[Skill]:
    """All versions of all skills, by name, the newest first. Raises as `read_skill`."""
    home = _home()
    names = sorted(p.name for p in home.iterdir() if NAME.fullmatch(p.name)) if home.is_dir() else []
    return [read_skill(str(home / name / version), name) for name in names for version in _versions(home / name)]


def _versions(place: Path) -> list[str]:
    found = [p.name for p in place.iterdir() if (p / SKILL).is_file()] if place.is_dir() else []
    return sorted((v for v in found if v.replace(".", "").isdecimal()), key=lambda v: [int(n) for n in v.split(".") if n], reverse=True)


def _find(name: str, version: str = "") -> Skill | None:
    """A version of a skill, the newest if none is said; None = it is not installed."""
    if not NAME.fullmatch(name):
        return None
    versions = _versions(_home() / name)
    chosen = version if version in versions else "" if version else next(iter(versions), "")
    return read_skill(str(_home() / name / chosen), name) if chosen else None


def marks(names: Iterable[str]) -> dict[str, str]:
    """What a run's assembly says of the skills it names: `name`, the newest, or `name@version`.

    Raises ProblemError: not_found, validation for two versions of one.
    """
    found: dict[str, str] = {}
    for said in names:
        name, _, version = said.partition("@")
        skill = _find(name, version)
        if skill is None:
            raise problem("not_found", f"no skill {said!r} is installed", operation="run", stage="resolve", details={"skill": said})
        if found.setdefault(PREFIX + name, skill.mark) != skill.mark:
            raise problem("validation", f"{name} is named in two versions", operation="run", stage="arguments", details={"skill": said})
    return found


def refrozen(request: Request) -> Request:
    """A logged request with the marks of its skills as they are on the disk now; "" for one that is gone, which `frozen` refuses."""
    kept = {key: mark for key, mark in request.assembly.items() if key.startswith(PREFIX)}
    now = {key: _find(key.removeprefix(PREFIX), mark.partition(" ")[0]) for key, mark in kept.items()}
    return replace(request, assembly=request.assembly | {key: skill.mark if skill else "" for key, skill in now.items()}) if kept else request


def frozen(assembly: Mapping[str, str]) -> Frozen | None:
    """The skills of a run, read whole and held to their marks. Raises ProblemError(parameter_drift)."""
    kept = {key.removeprefix(PREFIX): mark for key, mark in assembly.items() if key.startswith(PREFIX)}
    held = [skill for name, mark in kept.items() if (skill := _find(name, mark.partition(" ")[0])) is not None and skill.mark == mark]
    if len(held) != len(kept):
        gone = sorted(kept.keys() - {skill.name for skill in held})
        why = f"skills are not what they were: {', '.join(gone)}"
        raise problem("parameter_drift", why, operation="run", stage="precondition", details={"skills": gone})
    return Frozen(held) if held else None
