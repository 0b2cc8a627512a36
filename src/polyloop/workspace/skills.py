"""Skills: folders of instructions that an agent may look up (`skill_search`, `skill_read_file`). Read only, confined to one folder.

A skill is a folder with a `SKILL.md`; its first lines say what it is for. Everything in it can be read, nothing outside.
"""

from __future__ import annotations

from typing import Any, Final

from ..contract.problem import Problem, ProblemError
from ..files import FileProblem, Root
from ..kernel.objects import Json, ToolSpec
from ..kernel.seams import Action
from .tools import WorkspaceTool

SKILL: Final = "SKILL.md"
FILE_BYTES: Final = 256 << 10
ABOUT_CHARS: Final = 400
FOUND_MAX: Final = 20

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
