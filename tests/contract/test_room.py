"""The room's own rules: verbs and evidence only, one maker of receipts, small."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOM = Path(__file__).parents[2] / "src/polyloop/contract"
TREES = {path.name: ast.parse(path.read_text()) for path in sorted(ROOM.glob("*.py"))}
SUBJECTS = {"node", "row", "document", "storyboard", "canvas", "table", "media", "block"}


def identifiers(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for part in ast.walk(tree):
        match part:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.alias(name=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
    return found


@pytest.mark.parametrize("name", TREES)
def test_no_subject_nouns(name: str) -> None:
    words = {w.lower() for i in identifiers(TREES[name]) for w in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", i)}
    plural = {w.removesuffix("s") for w in words}
    assert not (words | plural) & SUBJECTS


def test_S0_6_only_the_pipeline_makes_receipts() -> None:
    makers = {
        path.relative_to(ROOM.parent).as_posix()
        for path in ROOM.parent.rglob("*.py")
        for part in ast.walk(ast.parse(path.read_text()))
        if isinstance(part, ast.ImportFrom) and (part.module or "").endswith("receipt") and any(a.name == "derive" for a in part.names)
    }
    assert makers == {"contract/trial.py"}


def test_S0_41_the_invented_fields_are_named_once_and_only_to_be_dropped() -> None:
    holders = {name for name in TREES if re.search("suggestedAction|nextCommand", (ROOM / name).read_text())}
    assert holders == {"problem.py"}
    assert (ROOM / "problem.py").read_text().count("nextCommand") == 1


def test_the_room_stays_small() -> None:
    modules = [name for name in TREES if name != "__init__.py"]
    assert len(modules) <= 14
