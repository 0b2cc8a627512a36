"""Fold `changes/*.md` into CHANGELOG.md: `python tools/changelog.py VERSION DATE`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = ("added", "changed", "fixed", "removed")


def release(root: Path, version: str, date: str) -> int:
    """Put a section for `version` above the older ones and remove its fragments; returns how many there were."""
    fragments = sorted((root / "changes").glob("*.*.md"))
    lines = [f"## {version} ({date})\n"]
    for section in SECTIONS:
        texts = [" ".join(f.read_text().split()) for f in fragments if f.name.endswith(f".{section}.md")]
        if texts:
            lines.append(f"### {section.capitalize()}\n\n" + "".join(f"- {text}\n" for text in texts))
    changelog = root / "CHANGELOG.md"
    head, mark, older = changelog.read_text().partition("\n## ")
    changelog.write_text(head.rstrip() + "\n\n" + "\n".join(lines) + mark + older)
    for fragment in fragments:
        fragment.unlink()
    return len(fragments)


if __name__ == "__main__":
    match sys.argv[1:]:
        case [version, date]:
            print(f"{release(ROOT, version, date)} fragments folded into CHANGELOG.md")
        case _:
            sys.exit(__doc__)
