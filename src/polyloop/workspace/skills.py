"""Skills: folders of instructions that an agent may look up (`skill_search`, `skill_read_file`). Read only, confined to one folder.

A skill is a folder with a `SKILL.md`; its first lines say what it is for. Everything in it can be read, nothing outside.
A `Skill` is one as it was at one moment, whole: what a run that names it reads, whatever becomes of the folder (S1.51).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from ..contract.problem import Problem, ProblemError
from ..files import FileProblem, Root
from ..kernel.objects import Json, ToolSpec
from ..kernel.seams import Action
from .tools import WorkspaceTool

SKILL: Final = "SKILL.md"
FILE_BYTES: Final = 256 << 10
ABOUT_CHARS: Final = 400
FOUND_MAX: Final = 20
NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
#: What a SKILL.md says of itself before its text, and the line there that says its version; 1 without one.
HEAD: Final = re.compile(r"\A---[ \t\r]*\n(.*?)^---[ \t\r]*$", re.DOTALL | re.MULTILINE)
VERSION: Final = re.compile(r"(?m)^version:[ \t]*\"?([0-9]{1,9}(?:\.[0-9]{1,9}){0,3})\"?[ \t\r]*$")
FILES_MAX: Final = 64
SKILL_BYTES: Final = 1 << 20

_SEARCH: Final[dict[str, Json]] = {
    "type": "object", "additionalProperties": False, "required": ["query"],
    "properties": {"query": {"type": "string", "description": "words; a skill that holds more of them comes first"}},
}  # fmt: skip
_READ: Final[dict[str, Json]] = {
    "type": "object", "additionalProperties": False, "required": ["skill"],
    "properties": {"skill": {"type": "string"}, "path": {"type": "string", "description": f"a file of the skill; {SKILL} if left out"}},
}  # fmt: skip


class Skills:
    """The skills in a folder. A folder that is not there holds none."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def search(self, query: str) -> list[dict[str, Json]]:
        """Skills, those that hold most of the words first. Raises ProblemError."""
        words = query.casefold().split()
        found: list[tuple[int, str, str, list[str]]] = []
        for name, files in sorted(self._all().items()):
            text = self.read_file(name)
            held = sum(word in f"{name} {text}".casefold() for word in words)
            if held or not words:
                found.append((-held, name, text[:ABOUT_CHARS], files))
        return [{"skill": name, "about": about, "files": [*files]} for _, name, about, files in sorted(found)[:FOUND_MAX]]

    def read_file(self, skill: str, path: str = SKILL) -> str:
        """A file of a skill. Raises ProblemError: not_found, permission_denied, validation, type_mismatch."""
        try:
            with Root(self.folder) as root:
                return root.read_bytes(f"{skill}/{path}", FILE_BYTES).decode()
        except FileProblem as p:
            raise ProblemError(Problem(p.kind, p.message, operation="skills", details=p.details)) from p
        except UnicodeDecodeError as error:
            raise ProblemError(Problem("type_mismatch", f"{skill}/{path} is not UTF-8 text", operation="skills")) from error

    def _all(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        try:
            with Root(self.folder) as root:
                for entry in root.walk():
                    skill, _, path = entry.path.partition("/")
                    if path and entry.kind == "file":
                        found.setdefault(skill, []).append(path)
        except FileProblem as p:
            if p.kind != "not_found":
                raise ProblemError(Problem(p.kind, p.message, operation="skills", details=p.details)) from p
        return {skill: files for skill, files in found.items() if SKILL in files}


class Skill(Struct, frozen=True):
    """`files` = its texts by path, all of them Markdown."""

    name: str
    files: dict[str, str]

    @property
    def version(self) -> str:
        head = HEAD.match(self.files[SKILL])
        said = VERSION.search(head[1]) if head else None
        return said[1] if said else "1"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(self.files, ensure_ascii=False, sort_keys=True).encode()).hexdigest()

    @property
    def mark(self) -> str:
        """What a run's snapshot keeps of it."""
        return f"{self.version} sha256:{self.sha256}"


def read_skill(folder: str, name: str) -> Skill:
    """The skill a folder is. Raises ProblemError: not_found, permission_denied, validation, type_mismatch."""
    if not NAME.fullmatch(name):
        raise _wrong(f"{name!r} is no name of a skill: small letters, digits and -, at most 64")
    try:
        with Root(folder) as root:
            paths = sorted(islice((entry.path for entry in root.walk() if entry.kind == "file"), FILES_MAX + 1))
            if SKILL not in paths or len(paths) > FILES_MAX or not all(path.endswith(".md") for path in paths):
                raise _wrong(f"a skill is a folder with a {SKILL}, of Markdown files (*.md) alone, at most {FILES_MAX}")
            files = {path: root.read_bytes(path, FILE_BYTES).decode() for path in paths}
    except FileProblem as p:
        raise ProblemError(Problem(p.kind, p.message, operation="skills", details=p.details)) from p
    except UnicodeDecodeError as error:
        raise ProblemError(Problem("type_mismatch", f"a file of {name} is not UTF-8 text", operation="skills")) from error
    if sum(len(text.encode()) for text in files.values()) > SKILL_BYTES:
        raise _wrong(f"a skill has at most {SKILL_BYTES} bytes")
    return Skill(name, files)


def _wrong(message: str) -> ProblemError:
    return ProblemError(Problem("validation", message, operation="skills", stage="arguments"))


class Frozen(Skills):
    """The skills of a run, as they were when it was wired. No folder is looked at any more."""

    def __init__(self, skills: Iterable[Skill]) -> None:
        self.skills = {skill.name: skill.files for skill in skills}

    def read_file(self, skill: str, path: str = SKILL) -> str:
        """Raises ProblemError(not_found)."""
        text = self.skills.get(skill, {}).get(path)
        if text is None:
            raise ProblemError(Problem("not_found", "there is no such skill, or no such file in it", operation="skills", stage="resolve"))
        return text

    def _all(self) -> dict[str, list[str]]:
        return {name: list(files) for name, files in self.skills.items()}


def skill_tools(skills: Skills) -> dict[str, WorkspaceTool]:
    """A catalogue for a registry."""

    async def search(action: Action) -> Any:
        return {"skills": skills.search(str(action.args["query"]))}

    async def read_file(action: Action) -> Any:
        return skills.read_file(str(action.args["skill"]), str(action.args.get("path", SKILL)))

    about = f"Find skills: folders of instructions. Read the {SKILL} of one with skill_read_file."
    limit = FILE_BYTES + 1024
    return {
        "skill_search": WorkspaceTool(ToolSpec("skill_search", about, _SEARCH, "read", "rerun", "async"), search),
        "skill_read_file": WorkspaceTool(
            ToolSpec("skill_read_file", "Read a file of a skill.", _READ, "read", "rerun", "async", result_limit=limit), read_file
        ),
    }
