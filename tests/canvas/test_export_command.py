"""`polyloop canvas export` and `wish`, from outside: its files, what it prints, its exit codes."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app
from tests.canvas.easel import node

SHOT = {"durationSeconds": 2, "plotDescription": "=1+1", "dialogue": "</script><script>alert(1)</script>"}


class Desk:
    """A folder with a store, and the command line to work on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.canvas = json.loads(self.do("new", "--title", "Film", "--json"))["canvasId"]

    def run(self, *words: str, stdin: str = "") -> tuple[int, bytes]:
        store = str(self.folder / "store.db")
        done = CliRunner().invoke(app, ["canvas", *words, "--store", store], input=stdin.encode())
        return done.exit_code, done.stdout_bytes

    def do(self, *words: str, stdin: str = "") -> bytes:
        code, told = self.run(*words, stdin=stdin)
        assert code == 0, told
        return told

    def call(self, tool: str, **args: Any) -> Any:
        return json.loads(self.do("call", tool, "--canvas", self.canvas, "--args", "-", "--json", stdin=json.dumps(args)))

    def export(self, form: str, *words: str) -> bytes:
        return self.do("export", "--canvas", self.canvas, "--format", form, *words)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    state = made.call("canvas_get_state")["snapshotHash"]
    ops = [node("a", title="修表匠", content="hello"), node("b", x=0, y=0), node("t", "batch-table", x=10, y=10)]
    state = made.call("canvas_apply_ops", snapshotHash=state, ops=ops)["data"]["snapshotHash"]
    made.call("canvas_create_storyboard", snapshotHash=state, nodeId="s", title="Shots", rows=[SHOT])
    return made


def test_a_canvas_is_given_out_in_every_form(desk: Desk) -> None:
    told = json.loads(desk.export("json"))
    assert (told["canvasId"], {n["id"] for n in told["nodes"]}) == (desk.canvas, {"a", "b", "t", "s"})
    assert {n["id"] for n in json.loads(desk.export("jsoncanvas"))["nodes"]} == {"a", "b", "t", "s"}
    page = desk.export("html").decode()
    assert "修表匠" in page
    assert "<script" not in page
    assert desk.export("svg").startswith(b"<svg ")
    lines = list(csv.DictReader(io.StringIO(desk.export("csv", "--node", "s").decode("utf-8-sig"))))
    assert lines[0]["plotDescription"] == "'=1+1"
    assert "## 第 1 镜" in desk.export("markdown", "--node", "s").decode()
    assert "## Shot 1" in desk.export("markdown", "--node", "s", "--lang", "en").decode()


def test_a_bundle_lands_once_and_is_what_was_said(desk: Desk) -> None:
    out = str(desk.folder / "film.zip")
    told = json.loads(desk.export("zip", "--out", out, "--json"))
    data = (desk.folder / "film.zip").read_bytes()
    assert (told["bytes"], told["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for one in json.loads(archive.read("manifest.json"))["files"]:
            assert hashlib.sha256(archive.read(one["path"])).hexdigest() == one["sha256"]
    code, _ = desk.run("export", "--canvas", desk.canvas, "--format", "json", "--out", out, "--json")
    assert (code != 0, (desk.folder / "film.zip").read_bytes() == data) == (True, True)


@pytest.mark.parametrize(
    ("words", "code", "kind"),
    [
        (("--format", "doc"), 2, "validation"), (("--format", "csv"), 2, "validation"), (("--format", "csv", "--node", "none"), 2, "not_found"),
        (("--format", "csv", "--node", "a"), 2, "type_mismatch"), (("--format", "html", "--node", "s"), 2, "validation"),
        (("--format", "json", "--owner", "bob"), 2, "not_found"), (("--format", "json", "--tenant", "other"), 2, "not_found"),
    ],
)  # fmt: skip
def test_what_cannot_be_given_out_says_why(desk: Desk, words: tuple[str, ...], code: int, kind: str) -> None:
    found, told = desk.run("export", "--canvas", desk.canvas, *words, "--json")
    assert (found, json.loads(told)["error"]["kind"]) == (code, kind)


def test_S1_60_S1_61_arranging_from_outside(desk: Desk) -> None:
    words = ("call", "canvas_arrange_nodes", "--canvas", desk.canvas, "--args", "-", "--json", "--session", "s1")
    state = json.loads(desk.do("call", "canvas_get_state", "--canvas", desk.canvas, "--args", "-", "--json", "--session", "s1", stdin="{}"))
    receipt = json.loads(desk.do(*words, stdin=json.dumps({"snapshotHash": state["snapshotHash"]})))
    assert {m["nodeId"] for m in receipt["data"]["moved"]} >= {"t"}
    code, blocked = desk.run(*words, stdin=json.dumps({"snapshotHash": receipt["data"]["snapshotHash"]}))
    assert (code, json.loads(blocked)["error"]["details"]["issue"]) == (2, "read_first")
    desk.do("call", "canvas_get_state", "--canvas", desk.canvas, "--args", "-", "--json", "--session", "s1", stdin="{}")
    idle = json.loads(desk.do(*words, stdin=json.dumps({"snapshotHash": receipt["data"]["snapshotHash"], "mode": "column"})))
    assert (idle["data"]["moved"], "nothing_to_arrange" in idle["warnings"]) == ([], True)
    desk.do("wish", "arrange", "--canvas", desk.canvas, "--session", "s1")
    wished = json.loads(desk.do(*words, stdin=json.dumps({"snapshotHash": receipt["data"]["snapshotHash"], "mode": "column"})))
    assert wished["data"]["moved"]
