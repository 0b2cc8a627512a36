"""The page of a run: self-contained, whole, and no text of a run is markup."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from polyloop.views.page import run_page
from tests.outside import command

EVIL = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>"
REQUEST = f"""
run_id = "r"
model = "script:replies.jsonl"
tools = ["workspace_*", "submit"]
workspace = "ws"
[agent]
id = "<b>agent"
[budget]
max_valid_steps = 9
max_iterations = 9
[[segments]]
name = "task"
text = '{EVIL}'
"""
REPLIES = [
    {"text": "```json\n" + json.dumps({"reflection": EVIL, "action": {"tool": "workspace_write", "args": {"path": "a", "text": EVIL}}}) + "\n```"},
    {"text": json.dumps({"action": {"tool": "workspace_read_lines", "args": {"path": "a"}}})},
    {"text": json.dumps({"action": {"tool": EVIL, "args": {}}})},
    {"text": json.dumps({"action": {"tool": "submit", "args": {"summary": "done"}}})},
]


class Read(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(("lang", "says"), [("zh", "修复后"), ("en", "repaired, as it was judged")])
def test_S2_21_raw_stands_beside_repaired_and_nothing_is_markup(tmp_path: Path, lang: str, says: str) -> None:
    (tmp_path / "REQUEST.toml").write_text(REQUEST)
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps(reply) + "\n" for reply in REPLIES))
    assert command(tmp_path, "run", "REQUEST.toml", "--json").code == 0
    done = command(tmp_path, "export", "r", "--format", "html", "--lang", lang)
    assert done.code == 0
    read = Read()
    read.feed(done.out)
    assert not {"script", "img", "link", "iframe"} & set(read.tags)
    assert not {"src", "href", "onerror"} & set(read.attributes)
    for text in (says, EVIL, "```json", "fence", "unknown_tool", "workspace_read_lines", "<b>agent", "max_valid_steps 9"):
        assert text in read.text
    assert read.tags.count("section") == 4


def test_what_was_erased_is_told_as_such() -> None:
    head = {"at": 0, "fence": 1, "prev": "0" * 64, "hash": "f" * 64, "erased": True}
    page = run_page([{"seq": seq, "kind": kind, **head} for seq, kind in enumerate(("run_started", "step", "run_ended"))], "en").decode()
    assert page.count("erased") == 2
