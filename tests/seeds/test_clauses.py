"""No clause of the seeds lacks a test, for the parts that are built.

`clauses.txt` holds ids and (abridged) wording. A test serves a clause by its name: `test_S2_16_missing_args_stays_an_error`.
A part joins BUILT together with its tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import tidy

CLAUSES = dict(line.split("\t") for line in Path(__file__).with_name("clauses.txt").read_text().splitlines())

Verb = ast.FunctionDef | ast.AsyncFunctionDef

#: part -> the clauses it must answer for.
BUILT = {
    "whole": "S2.1 S2.2 S2.10 S2.36 S2.53",
    "consumers": "S2.6 S2.18 S2.19",
    "kernel": "S1.88 S2.14 S2.15 S2.17 S2.20 S2.21 S2.27 S2.28 S2.30 S2.31 S2.34 S2.35 S2.37 S2.38 S2.40 S2.45 S2.47 S2.50 S2.51 S2.52",
    "toolbox": "S1.25 S2.12 S2.13 S2.16 S2.22 S2.23",
    "gateway": "S2.39 S2.41 S2.42 S2.43 S2.44 S2.46 S2.48",
    "files": "S0.42 S0.43 S0.44 S2.25",
    "command line": "S1.48 S1.49 S2.11 S2.24 S2.29 S2.33 S2.49",
    "phases": "S2.3 S2.4 S2.5 S2.7 S2.8 S2.9 S2.12 S2.26 S2.32 S2.47",
    "documents": "S0.18 S0.1 S0.2 S0.3 S0.4 S0.9 S0.12 S0.14 S0.15 S0.19 S0.25 S0.30 S0.40",
    "canvas": "S1.24 S1.25 S1.26 S1.27 S1.31 S1.32 S1.39 S1.40 S1.42 S1.43 S1.52 S1.53 S1.56 S1.62 S1.63 S1.64 S1.71 S1.72 S1.73 S1.74 S1.87 S1.88",
    "storyboards, tables, places": "S1.33 S1.41 S1.44 S1.54 S1.57 S1.60 S1.61 S1.62 S1.75 S1.76 S1.77",
    "dialogue": (
        "S1.5 S1.6 S1.7 S1.8 S1.9 S1.10 S1.11 S1.12 S1.13 S1.14 S1.16 S1.17 S1.18 S1.19 S1.20 S1.21 S1.22 S1.23 S1.1 S1.48 S1.51 S1.68"
        " S1.36 S1.37 S1.38 S1.89 S1.90 S1.92 S1.93 S1.94 S1.95"
        " S1.96 S1.97 S1.2 S1.15 S1.30"
    ),
    "media": (
        "S1.4 S1.5 S1.28 S1.34 S1.35 S1.36 S1.37 S1.45 S1.46 S1.47 S1.50 S1.55 S1.58 S1.59 S1.65 S1.66 S1.67 S1.69 S1.70 S1.78 S1.79 S1.80 S1.81"
        " S1.82 S1.83 S1.84 S1.85 S1.86 S1.90 S1.91"
    ),
    "contract": (
        "S0.1 S0.2 S0.3 S0.4 S0.5 S0.6 S0.7 S0.8 S0.9 S0.10 S0.11 S0.12 S0.13 S0.14 S0.15 S0.16 S0.17 S0.19 S0.20 S0.21 S0.22 S0.23 S0.24"
        " S0.25 S0.26 S0.27 S0.28 S0.29 S0.30 S0.31 S0.32 S0.33 S0.34 S0.35 S0.36 S0.37 S0.38 S0.39 S0.40 S0.41"
        " S1.3 S1.24 S1.26 S1.28 S1.29 S1.32 S1.33 S1.43 S1.50 S1.87"
    ),
}


def served(files: Mapping[str, str]) -> dict[str, list[str]]:
    """clause id -> the test functions whose names carry it."""
    tests: dict[str, list[str]] = {}
    for path, text in files.items():
        if not re.fullmatch(r"tests/.*test_\w+\.py", path):
            continue
        for node in ast.walk(ast.parse(text, path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for seed, clause in re.findall(r"S(\d)_(\d+)(?![\dA-Za-z])", node.name):
                    tests.setdefault(f"S{seed}.{clause}", []).append(f"{path}:{node.name}")
    return tests


def gaps(clauses: Iterable[str], built: Mapping[str, str], tests: Mapping[str, list[str]]) -> list[str]:
    """What is wrong between the table, the parts and the tests."""
    known = set(clauses)
    asked = {clause: part for part, text in built.items() for clause in text.split()}
    return [
        *(f"{clause} ({part}) has no test" for clause, part in asked.items() if clause not in tests),
        *(f"{part} names {clause}, which no seed has" for clause, part in asked.items() if clause not in known),
        *(f"{where[0]} names {clause}, which no seed has" for clause, where in tests.items() if clause not in known),
    ]


def test_S2_2_every_clause_is_answered_for_by_a_part_and_named_by_a_test() -> None:
    assert gaps(CLAUSES, BUILT, served(tidy.load())) == []
    assert set(CLAUSES) - {clause for text in BUILT.values() for clause in text.split()} == set()


def uncalled(files: Mapping[str, str]) -> list[str]:
    """Verbs of protocols that nothing under src calls."""
    texts = {path: text for path, text in files.items() if path.startswith(tidy.SRC) and path.endswith(".py")}
    called = {name for text in texts.values() for name in re.findall(r"\.(\w+)", text)}
    nodes = [(path, node) for path, text in texts.items() if "Protocol)" in text for node in ast.walk(ast.parse(text))]
    seams = [(p, n) for p, n in nodes if isinstance(n, ast.ClassDef) and "Protocol" in map(ast.unparse, n.bases)]
    verbs = [(f"{path}:{seam.name}.{verb.name}", verb.name) for path, seam in seams for verb in seam.body if isinstance(verb, Verb)]
    return [where for where, name in verbs if name not in called and name != "__call__"]


def test_S2_10_no_seam_has_a_verb_without_a_caller() -> None:
    assert uncalled(tidy.load()) == []
    planted = {"src/polyloop/a.py": "class Door(Protocol):\n    def open(self): ...\n    def knock(self): ...\nhouse.open()"}
    assert uncalled(planted) == ["src/polyloop/a.py:Door.knock"]


def test_the_table_is_whole() -> None:
    numbers = {seed: [int(c.partition(".")[2]) for c in CLAUSES if c.startswith(seed)] for seed in ("S0", "S1", "S2")}
    assert numbers == {"S0": list(range(1, 45)), "S1": list(range(1, 98)), "S2": list(range(1, 54))}
    assert all(CLAUSES.values())


def test_a_gap_is_seen() -> None:
    files = {
        "tests/kernel/test_machine.py": "class TestX:\n    async def test_S2_16_S2_17_both(self): ...\ndef helper_S2_1(): ...",
        "src/polyloop/clock.py": "def test_S2_3(): ...",
    }
    tests = served(files)
    assert sorted(tests) == ["S2.16", "S2.17"]
    assert gaps(CLAUSES, {"kernel": "S2.16 S2.17"}, tests) == []
    assert gaps(CLAUSES, {"kernel": "S2.16 S2.1"}, tests) == ["S2.1 (kernel) has no test"]
    assert gaps(CLAUSES, {"kernel": "S2.99"}, {}) == ["S2.99 (kernel) has no test", "kernel names S2.99, which no seed has"]
    assert gaps(CLAUSES, {}, served({"tests/a/test_a.py": "def test_S9_1(): ..."})) == ["tests/a/test_a.py:test_S9_1 names S9.1, which no seed has"]
