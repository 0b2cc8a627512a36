"""`polyloop demo canvas`, as people start it."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app

pytestmark = pytest.mark.needs("media")


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_S1_92_the_demonstration_leaves_real_files_and_says_what_is_synthetic(tmp_path, monkeypatch, lang):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POLYLOOP_STORE", raising=False)
    if lang == "zh":
        told = CliRunner().invoke(app, ["demo", "canvas", "--lang", lang])
        assert told.exit_code == 0, told.output
        assert told.output.count("合成素材") == 3
        assert not re.search(r"generate_media|task_|sha256", told.output)
        folder = tmp_path / "polyloop-demo" / "canvas-1"
    else:
        told = CliRunner().invoke(app, ["demo", "canvas", "--lang", lang, "--json"])
        facts = json.loads(told.output)
        assert [(m["mode"], m["ticket"]["complete"], m["ticket"]["synthetic"]) for m in facts["made"]] == [
            ("image", True, True), ("video", True, True), ("audio", True, True),
        ]  # fmt: skip
        folder = tmp_path / "polyloop-demo" / "canvas-1"
    from polyloop.media.verify import examined

    for name, mode, size, seconds in (
        ("image.png", "image", (1024, 576), 0),
        ("video.mp4", "video", (640, 360), 2),
        ("audio.wav", "audio", (0, 0), 3),
    ):
        found = examined((folder / name).read_bytes(), mode)
        assert (found.width, found.height) == size
        assert found.seconds == pytest.approx(seconds, abs=0.1)
