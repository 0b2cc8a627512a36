"""The maintenance scripts: fragments become one section, newest first; the reference is what the code says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import again
import changelog
import pytest
import reference
from inline_snapshot import snapshot
from msgspec.structs import fields

from polyloop.app.request_file import RequestFile
from polyloop.cli.frame import run_json
from polyloop.kernel.objects import Counters, RunResult

PAGE = reference.PAGE.with_name("requests.md")


def test_fragments_become_one_section_and_are_gone(tmp_path: Path) -> None:
    (tmp_path / "changes").mkdir()
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\nWords.\n")
    fragments = {"b-run.added.md": "Runs\nresume.\n", "a-log.added.md": "Logs verify.\n", "c.fixed.md": "No lost line.\n", "README.md": "# How\n"}
    for version, names in (("0.1.0", ["b-run.added.md", "README.md"]), ("0.2.0", ["a-log.added.md", "c.fixed.md"])):
        for name in names:
            (tmp_path / "changes" / name).write_text(fragments[name])
        changelog.release(tmp_path, version, "2026-12-01")
    assert [p.name for p in (tmp_path / "changes").iterdir()] == ["README.md"]
    assert (tmp_path / "CHANGELOG.md").read_text() == snapshot("""\
# Changelog

Words.

## 0.2.0 (2026-12-01)

### Added

- Logs verify.

### Fixed

- No lost line.

## 0.1.0 (2026-12-01)

### Added

- Runs resume.
""")


def test_S2_1_a_changed_record_does_not_land_without_its_reference() -> None:
    assert reference.PAGE.read_text() == reference.page(), "run `make docs`"


def kept(root: Path, *failed: str) -> Path:
    """A folder in which these tests failed last."""
    path = root / ".pytest_cache/v/cache/lastfailed"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(dict.fromkeys(failed, True)))
    return root


@pytest.mark.parametrize(("failed", "code"), [("a", 0), ("ab", 0), ("b", 0), ("x", 1), ("3", 1), ("ax", 1), ("", 1), ("abcdef", 1)])
def test_what_failed_beside_others_must_pass_three_times_alone(tmp_path: Path, failed: str, code: int) -> None:
    runs: list[str] = []

    def alone(_: Path, test: str) -> bool:
        runs.append(test)
        return test != "x" and not (test == "3" and runs.count("3") == 3)

    assert again.main(kept(tmp_path, *failed), alone) == code
    assert code or all(runs.count(test) == 3 for test in failed)


def test_a_failed_test_is_run_again_by_its_name(tmp_path: Path) -> None:
    count = "n = len(Path('n').read_text()) if Path('n').exists() else 0\n    Path('n').write_text('.' * (n + 1))\n    assert n < 2"
    (tmp_path / "test_it.py").write_text(f"from pathlib import Path\ndef test_third():\n    {count}\ndef test_other():\n    assert False\n")
    assert again.main(kept(tmp_path, "test_it.py::test_third")) == 1
    assert (tmp_path / "n").read_text() == "..."


def test_without_a_list_of_failures_nothing_is_run_again(tmp_path: Path) -> None:
    assert again.main(tmp_path) == 1


def test_every_field_of_a_request_and_of_a_result_is_in_the_reference() -> None:
    told = set(re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in PAGE.read_text().splitlines() if row.startswith("| `"))))
    result = run_json(RunResult("r", "local", "ended", Counters()))
    assert told == {field.name for field in fields(RequestFile)} | set(result) | {"finalAnswer"}
