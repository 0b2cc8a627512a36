"""The maintenance scripts: fragments become one section, newest first; the reference is what the code says."""

from __future__ import annotations

from pathlib import Path

import changelog
import reference
from inline_snapshot import snapshot


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


def test_the_reference_is_what_the_code_says() -> None:
    assert reference.PAGE.read_text() == reference.page(), "run `make docs`"
