"""The final answer of a run on a canvas hides what there is to hide, whether or not the run was told of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from polyloop.app.final import final_answer
from polyloop.app.media import settings
from tests.dialogue.chain import Chain
from tests.dialogue.plain_words import breaches
from tests.outside import command

pytestmark = pytest.mark.needs("media")


def test_S1_93_a_model_that_the_run_was_never_told_of_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYLOOP_HOME", str(tmp_path))
    chain, names = Chain(tmp_path), [m.key for m in settings().catalog.models]
    canvas = command(tmp_path, "canvas", "new", "--title", "T", "--store", chain.store, "--json").said["canvasId"]
    said = ("submit", {"summary": "用了 " + "、".join(names)})
    chain.run(chain.lay("r1", said, tools='"canvas_*", "submit"', head=f'canvas = "{canvas}"'))
    told: str = chain.on(partial(final_answer, run_id="r1", lang="zh"))
    assert "用了 …" in told
    assert breaches(told, names) == []
    (tmp_path / "media.toml").write_text("not = [toml")
    assert chain.on(partial(final_answer, run_id="r1", lang="zh")).startswith("# "), "settings that cannot be read take nothing from the answer"
