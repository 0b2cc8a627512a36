"""House rules about documents: links, examples, design records, change fragments. Run by tidy.py."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

Files = Mapping[str, str]

RECORD_PARTS = ("Question", "Options", "Decision", "What would change our mind", "What was measured")
RECORD_STATES = ("proposed", "accepted", "superseded")
FRAGMENT = re.compile(r"[a-z0-9-]+\.(?:added|changed|fixed|removed)\.md")


def _anchors(text: str) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def broken_links(files: Files) -> Iterator[str]:
    folders = {parent.as_posix() for path in files for parent in PurePosixPath(path).parents}
    for path, text in files.items():
        if not path.endswith(".md"):
            continue
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            if re.match(r"https?:|mailto:", target):
                continue
            place, _, anchor = target.partition("#")
            full = path if not place else _join(PurePosixPath(path).parent, place)
            if full not in files and full not in folders:
                yield f"{path}: no such file: {target}"
            elif anchor and anchor not in _anchors(files.get(full, "")):
                yield f"{path}: no such heading: {target}"


def twin_readmes(files: Files) -> Iterator[str]:
    """Both languages show the same examples, and what calls itself toml or json is that."""
    blocks = {path: re.findall(r"^```(\w*)\n(.*?)^```$", files[path], re.DOTALL | re.MULTILINE) for path in ("README.md", "README.zh-CN.md")}
    if blocks["README.md"] != blocks["README.zh-CN.md"]:
        yield "README.zh-CN.md: its examples differ from README.md"
    for kind, text in blocks["README.md"]:
        try:
            _ = {"toml": tomllib.loads, "json": json.loads}.get(kind, str)(text)
        except ValueError as error:
            yield f"README.md: an example is no {kind}: {error}"


def _join(folder: PurePosixPath, place: str) -> str:
    parts: list[str] = []
    for part in (folder / place).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts) or "."


def design_records(files: Files) -> Iterator[str]:
    records = sorted(path for path in files if path.startswith("docs/design/") and not path.endswith("/template.md"))
    for number, path in enumerate(records, 1):
        text, name = files[path], path.removeprefix("docs/design/")
        if not re.fullmatch(rf"{number:04d}-[a-z0-9-]+\.md", name):
            yield f"{path}: expected number {number:04d} and a lower-case title"
        if not text.startswith(f"# {name[:4]} "):
            yield f"{path}: the first line is not `# {name[:4]} Title`"
        if not re.search(rf"^Status: (?:{'|'.join(RECORD_STATES)})\b", text, re.MULTILINE):
            yield f"{path}: no `Status: {'|'.join(RECORD_STATES)}`"
        parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
        if parts != list(RECORD_PARTS):
            yield f"{path}: its parts are {parts}, not {list(RECORD_PARTS)}"
        yield from (f"{path}: nothing under {part}" for part in parts if not re.search(rf"^## {re.escape(part)}\n+(?!#)\S", text, re.MULTILINE))


def change_fragments(files: Files) -> Iterator[str]:
    for path, text in files.items():
        name = path.removeprefix("changes/")
        if name in (path, "README.md"):
            continue
        if not FRAGMENT.fullmatch(name):
            yield f"{path}: a fragment is named SLUG.(added|changed|fixed|removed).md"
        if not text.strip() or text.startswith(("#", "-")):
            yield f"{path}: a fragment is one plain paragraph"
