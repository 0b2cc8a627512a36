"""Foreign words in an answer: what only machines read is taken out of them, however it is disguised, and nothing else is."""

from __future__ import annotations

import pytest

from polyloop.dialogue.prose import GONE, line

HIDDEN = ["\ufe0f", "\u034f", "\u200b", "\u2060", "\u00ad", "\u3164", "\u202e"]


@pytest.mark.parametrize("unseen", HIDDEN)
@pytest.mark.parametrize("text", ["canvas_{}get_state", "canvas{}_get_state", "https:/{}/evil.com/a", "java{}script:alert(1)", "/et{}c/passwd"])
def test_S1_93_what_nobody_sees_hides_nothing(text: str, unseen: str) -> None:
    assert line(f"见 {text.format(unseen)} 。", ["canvas_get_state"]) == f"见 {GONE} 。"


MACHINE = [
    "mailto:a@b.c", "MAILTO:a@b.c", "javascript:alert(1)", "vbscript:x", "data:text/html;base64,xx", "data:,x", "blob:null",
    "C:\\Data\\me\\secret", "c:/data/me", "\\\\host\\share", "/etc/passwd", "/srv/me/a.txt", "~/a", "/Volumes/me", "/usr/bin/env",
]  # fmt: skip


@pytest.mark.parametrize("text", MACHINE)
def test_S1_93_addresses_without_slashes_and_absolute_paths_are_not_shown(text: str) -> None:
    assert line(f"在 {text} 里") == f"在 {GONE} 里"
    assert line(f"在{text}") == f"在{GONE}"


@pytest.mark.parametrize("text", ["data: 5 项", "男声/女声/无声", "中文/English/日本語", "画幅 16:9/9:16", "A/B", "and/or", "1/2", "选 C: 好", "👍"])
def test_words_stay_words(text: str) -> None:
    assert line(text) == text
