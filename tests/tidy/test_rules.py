"""Every house rule holds on the tree, catches its planted breach, and passes the like that is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
import tidy
import tidy_docs

TREE = tidy.load()
ROOM = tidy.BUDGETS["views"]
RECORD = "# 0001 A title\n\nStatus: accepted\n" + "".join(f"\n## {part}\n\nText.\n" for part in tidy_docs.RECORD_PARTS)
README = "# Words\n```toml\na = 1\n```\nmore\n```\nmake demo\n```\n"
GLOSSARY = "| **iteration** | one model call | `turn`, `round` | all |\n| **run** | one agent run | `phase` | kernel |\n"
PROJECT = """[project]
dependencies = ["A-b>=1", "markdown-it-py"]
optional-dependencies = {dev = ["pytest", "hypothesis"], x = ["opt[y]>=2"]}"""
KERNEL = tidy.SRC + "kernel/machine.py"
VIEWS = tidy.SRC + "views/show.py"


def function(lines: int) -> str:
    return "def long():\n" + "    x = 1\n" * (lines - 1)


# rule, tree, what the breach says ("" = none)
SAMPLES = [
    ("long_files", {"tests/a/test_x.py": "x = 1\n" * 400}, ""),
    ("long_files", {"tests/a/test_x.py": "x = 1\n" * 401}, "401 lines, the limit is 400"),
    ("long_functions", {VIEWS: function(60), KERNEL: function(30)}, ""),
    ("long_functions", {VIEWS: function(61)}, "61 lines, the limit is 60"),
    ("long_functions", {KERNEL: function(31)}, "31 lines, the limit is 30"),
    ("long_functions", {KERNEL: f"class A:\n    async {function(31).replace('    ', '        ')}"}, "31 lines"),
    ("package_budgets", {VIEWS: "x = 1\n" * ROOM + "# why\n\n" * 400}, ""),
    ("package_budgets", {VIEWS: "x = 1\n" * (ROOM + 1)}, f"{ROOM + 1} code lines, the budget is {ROOM}"),
    ("package_budgets", {tidy.SRC + "extras/x.py": "x = 1\n"}, "not in the river"),
    ("drawers", {tidy.SRC + "views/board.py": ""}, ""),
    ("drawers", {tidy.SRC + "views/_utils.py": ""}, "`_utils.py` is a drawer"),
    ("drawers", {"tests/common/test_x.py": ""}, "`common` is a drawer"),
    ("theories", {KERNEL: '"""What it is for.\n' + "more\n" * 14 + '"""\nx = 1\n', tidy.SRC + "views/__init__.py": ""}, ""),
    ("theories", {KERNEL: "x = 1\n"}, "does not say what it is for"),
    ("theories", {KERNEL: '"""What it is for.\n' + "more\n" * 15 + '"""\nx = 1\n'}, "16 lines, the limit is 15"),
    ("banned_imports", {tidy.SRC + "clock.py": "import time", "tests/x/test_x.py": "import time, random, sqlite3"}, ""),
    ("banned_imports", {tidy.SRC + "timeline.py": "from . import time\nimport timeit"}, ""),
    ("banned_imports", {tidy.SRC + "db/sqlite.py": "import apsw.ext", tidy.SRC + "testing/sim.py": "import random"}, ""),
    ("banned_imports", {KERNEL: "import time"}, "imports time"),
    ("banned_imports", {KERNEL: "def f():\n    from random import choice"}, "imports random"),
    ("banned_imports", {tidy.SRC + "stores/sqlite.py": "import apsw"}, "imports apsw"),
    ("banned_imports", {"tests/x/test_x.py": "from unittest.mock import patch"}, "imports unittest.mock"),
    ("banned_imports", {"tests/x/test_x.py": "from unittest import mock"}, "imports unittest.mock"),
    ("banned_imports", {"tests/x/test_x.py": "import pickle"}, "imports pickle"),
    ("declared_imports", {"pyproject.toml": PROJECT, VIEWS: "import os, a_b.c, markdown_it, opt, polyloop\nfrom . import z"}, ""),
    ("declared_imports", {"pyproject.toml": PROJECT, tidy.SRC + "testing/kit.py": "import pytest"}, ""),
    ("declared_imports", {"pyproject.toml": PROJECT, "tools/x.py": "", "tests/a/test_a.py": "import hypothesis, x, tests.a.b"}, ""),
    ("declared_imports", {"pyproject.toml": PROJECT, "tests/a/test_a.py": "import docx"}, "docx is not among the dependencies"),
    ("declared_imports", {"pyproject.toml": PROJECT, VIEWS: "import hypothesis"}, "hypothesis is not among the dependencies"),
    ("declared_imports", {"pyproject.toml": PROJECT, VIEWS: "def f():\n    import pytest"}, "pytest is not among the dependencies"),
    ("banned_calls", {tidy.SRC + "ids.py": "import os\nx = os.urandom(2)", VIEWS: "x = datetime.fromtimestamp(0)"}, ""),
    ("banned_calls", {KERNEL: "import os\nx = os.urandom(2)"}, "os.urandom is behind"),
    ("banned_calls", {VIEWS: "import datetime\nx = datetime.datetime.now()"}, "datetime.now is behind"),
    ("silent_excepts", {KERNEL: "try:\n    f()\nexcept OSError as e:\n    g(e)"}, ""),
    ("silent_excepts", {KERNEL: "try:\n    f()\nexcept:\n    raise"}, "bare except"),
    ("silent_excepts", {KERNEL: "try:\n    f()\nexcept OSError:\n    pass"}, "an error is swallowed"),
    ("silent_excepts", {KERNEL: "try:\n    f()\nexcept OSError:\n    ..."}, "an error is swallowed"),
    ("unexplained_ignores", {KERNEL: "x = f()  # type: ignore[arg-type]  # the stub is wrong about None\n"}, ""),
    ("unexplained_ignores", {KERNEL: "x = f()  # type: ignore[arg-type]\n"}, "without its reason"),
    ("unexplained_ignores", {KERNEL: "x = f()  # pyright: ignore[reportAny]\n"}, "without its reason"),
    ("unexplained_ignores", {KERNEL: "x = f()  # pragma: no cover\n"}, "without its reason"),
    ("dead_names", {VIEWS: "A = 1\ndef f(): return A\n@app.command('x')\ndef g(): return f()"}, ""),
    ("dead_names", {VIEWS: "class B:\n    @property\n    def c(self): return B().c"}, ""),
    ("dead_names", {VIEWS: "def main(): ...", "pyproject.toml": 'x = "polyloop.views.show:main"', tidy.SRC + "testing/kit.py": "A = 1"}, ""),
    ("dead_names", {VIEWS: "def f(): ...", "tests/x/test_x.py": "f()"}, ""),
    ("dead_names", {VIEWS: "def f(): ..."}, "nothing uses f"),
    ("dead_names", {VIEWS: "LIMIT = 1\nLIMIT = 2"}, "nothing uses LIMIT"),
    ("dead_names", {VIEWS: "class A:\n    def f(self): ...\nA()"}, "nothing uses f"),
    ("public_names", {tidy.SRC + "__init__.py": ""}, ""),
    ("public_names", {tidy.SRC + "__init__.py": '__all__ = ["b", "a"]', "tests/tidy/public_names.txt": "a\nb\n"}, ""),
    ("public_names", {tidy.SRC + "__init__.py": '__all__ = ["b", "a"]', "tests/tidy/public_names.txt": "a\n"}, "b is public but not in"),
    ("public_names", {tidy.SRC + "__init__.py": '__all__ = ["a"]', "tests/tidy/public_names.txt": "a\nb\n"}, "b was public and is gone"),
    ("public_names", {tidy.SRC + "__init__.py": f"__all__ = {list('abcdefghijklmnopqrstuvwxyzABCDE')}",
                      "tests/tidy/public_names.txt": " ".join("abcdefghijklmnopqrstuvwxyzABCDE")}, "31 public names, the limit is 30"),
    ("chinese", {tidy.SRC + "words/zh.py": 'X = "\u5b8c\u6210"', "tests/x/test_x.py": 'x = "\u5b8c\u6210"', KERNEL: 'X = "\uff0c"'}, ""),
    ("chinese", {KERNEL: 'X = "\u5b8c\u6210"'}, "Chinese outside its places"),
    ("chinese", {"docs/tour.md": "\u5b8c\u6210"}, "Chinese outside its places"),
    ("chinese", {"tests/x/test_x.py": "x = 1  # \u5b8c\u6210"}, "test_x.py:1: Chinese outside its places"),
    ("outside_names", {"README.md": "network and framework/ and http://127.0.0.1/work"}, ""),
    ("outside_names", {".ci/run": "curl https://pyp" + "i.org/simple"}, "names a registry host"),
    ("outside_names", {"docs/tour.md": "x\nsee /wor" + "k/main"}, "docs/tour.md:2: names"),
    ("outside_names", {"docs/tour.md": "in /hom" + "e/someone"}, "names a registry host or a path"),
    ("glossary_words", {"docs/glossary.md": GLOSSARY, VIEWS: "def returned(phase): ground = phase"}, ""),
    ("glossary_words", {"docs/glossary.md": GLOSSARY, VIEWS: "def next_turn(): ..."}, "the glossary says iteration, not turn"),
    ("glossary_words", {"docs/glossary.md": GLOSSARY, VIEWS: "class RoundLimit: ..."}, "the glossary says iteration, not round"),
    ("glossary_words", {"docs/glossary.md": GLOSSARY, KERNEL: "phase: int = 1"}, "the glossary says run, not phase"),
    ("broken_links", {"docs/a.md": "[x](../b.md#two-words) [y](#here) [z](https://x.y) [f](../docs)\n# Here\n", "b.md": "## Two words\n"}, ""),
    ("broken_links", {"docs/a.md": "[x](b.md)", "b.md": ""}, "no such file: b.md"),
    ("broken_links", {"a.md": "[x](b.md#three)", "b.md": "# Two\n"}, "no such heading: b.md#three"),
    ("twin_readmes", {"README.md": README, "README.zh-CN.md": README.replace("Words", "\u8bcd")}, ""),
    ("twin_readmes", {"README.md": README, "README.zh-CN.md": README.replace("a = 1", "a = 2")}, "its examples differ"),
    ("twin_readmes", {"README.md": README.replace("a = 1", "a 1"), "README.zh-CN.md": README.replace("a = 1", "a 1")}, "is no toml"),
    ("design_records", {"docs/design/0001-a.md": RECORD, "docs/design/template.md": "any"}, ""),
    ("design_records", {"docs/design/0002-a.md": RECORD.replace("# 0001", "# 0002")}, "expected number 0001"),
    ("design_records", {"docs/design/0001-a.md": RECORD.replace("# 0001", "# 1")}, "the first line is not"),
    ("design_records", {"docs/design/0001-a.md": RECORD.replace("accepted", "fine")}, "no `Status:"),
    ("design_records", {"docs/design/0001-a.md": RECORD.replace("## Options", "## Choices")}, "its parts are"),
    ("design_records", {"docs/design/0001-a.md": RECORD.replace("Decision\n\nText.", "Decision\n")}, "nothing under Decision"),
    ("change_fragments", {"changes/README.md": "# x", "changes/json-rungs.added.md": "A paragraph.\n"}, ""),
    ("change_fragments", {"changes/json-rungs.md": "A paragraph.\n"}, "a fragment is named"),
    ("change_fragments", {"changes/json-rungs.fixed.md": "- a list\n"}, "one plain paragraph"),
]  # fmt: skip


@pytest.mark.parametrize("rule", tidy.RULES, ids=lambda rule: rule.__name__)
def test_rule_holds_on_the_tree(rule: tidy.Rule) -> None:
    assert list(rule(TREE)) == []


@pytest.mark.parametrize(("name", "files", "says"), SAMPLES, ids=[f"{n}-{i}" for i, (n, _, _) in enumerate(SAMPLES)])
def test_rule_tells_good_from_bad(name: str, files: dict[str, str], says: str) -> None:
    breaches = list(getattr(tidy, name)(files))
    assert bool(breaches) == bool(says), breaches
    assert all(says in breach for breach in breaches)


def test_every_rule_has_a_good_and_a_bad_sample() -> None:
    rules = {rule.__name__ for rule in tidy.RULES}
    assert {name for name, _, says in SAMPLES if says} == rules
    assert {name for name, _, says in SAMPLES if not says} == rules


@pytest.mark.parametrize(("ceiling", "says"), [(45, ""), (40, "41 lines, the limit is 40"), (30, "41 lines")])
def test_a_long_function_may_not_grow_past_its_entry(ceiling: int, says: str) -> None:
    breaches = list(tidy.long_functions({KERNEL: function(41)}, {f"{KERNEL}:long": ceiling}))
    assert [says in breach for breach in breaches] == [True] * bool(says)


def test_a_function_that_shrank_loses_its_entry() -> None:
    assert "take it out of LONG" in next(tidy.long_functions({KERNEL: function(30)}, {f"{KERNEL}:long": 45}))


def test_what_only_tests_use_is_unwired() -> None:
    files = {VIEWS: "def f(): ...\ndef g(): ...\ng()", "tests/x/test_x.py": "f()"}
    assert list(tidy.dead_names(files, ("src/",))) == [f"{VIEWS}:1: nothing uses f"]


def test_a_folder_in_gitignore_is_not_looked_at(tmp_path: Path) -> None:
    for name in (".git/a.py", "made/b.py", "x.egg-info/c.py", ".ci/run", "src/d.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("")
    (tmp_path / "src/picture").write_bytes(b"\xff\xfe")
    (tmp_path / ".gitignore").write_text("made/\n*.egg-info/\n")
    assert tidy.load(tmp_path).keys() == {".ci/run", "src/d.py", ".gitignore"}


def test_the_tree_is_all_there() -> None:
    assert {"pyproject.toml", ".ci/run", "tools/tidy.py", "tests/tidy/test_rules.py", tidy.SRC + "kernel/records.py"} <= TREE.keys()
