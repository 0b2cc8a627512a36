"""Files that other programs on this machine make now: the same sample as the kept ones, by whatever version is here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from polyloop.formats import read
from polyloop.words.losses import LOSS_WORDS

SAMPLE = Path(__file__).parent / "fixtures/rich.markdown"
TEXTS = ("采购清单", "三级", "已办", "第四", "引用二", 'print("a & b")', "名称", "脚注内容")


def checked(path: Path) -> None:
    document = read(path.name, path.read_bytes())
    assert {loss.code for loss in document.losses} <= LOSS_WORDS.keys()
    assert [text for text in TEXTS if text not in document.text] == [], "nothing is dropped"
    assert any(b.table for b in document.blocks)


@pytest.mark.needs("pandoc")
@pytest.mark.parametrize("ending", ["html", "docx"])
def test_files_pandoc_makes(tmp_path: Path, ending: str) -> None:
    made = tmp_path / f"rich.{ending}"
    subprocess.run(["pandoc", "-s", "--metadata", "pagetitle=rich", SAMPLE, "-o", made], check=True, capture_output=True)
    checked(made)


@pytest.mark.needs("pandoc", "soffice")
def test_files_libreoffice_makes(tmp_path: Path) -> None:
    subprocess.run(["pandoc", SAMPLE, "-o", tmp_path / "rich.odt"], check=True, capture_output=True)
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    for ending in ("html", "docx"):
        words = ["soffice", "--headless", "--convert-to", ending, "--outdir", tmp_path / "out", tmp_path / "rich.odt"]
        subprocess.run(words, check=True, capture_output=True, env=home)
        checked(tmp_path / f"out/rich.{ending}")
