"""Everything of a canvas in one ZIP: every file there once, named by its digest."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import pytest

from polyloop.views.canvas.board import Asset, Board, facts
from polyloop.views.canvas.bundle import MANIFEST, bundle
from tests.views.boards import BOARDS, node


@pytest.mark.parametrize("board", BOARDS)
def test_the_manifest_names_every_file_by_its_digest(board: str) -> None:
    own = BOARDS[board]()
    with zipfile.ZipFile(io.BytesIO(bundle(own, "zh"))) as archive:
        assert archive.testzip() is None
        manifest = json.loads(archive.read(MANIFEST))
        listed = {one["path"]: one for one in manifest["files"]}
        assert {*listed, MANIFEST} == set(archive.namelist())
        for path, one in listed.items():
            data = archive.read(path)
            assert (one["sha256"], one["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
        assert (manifest["canvasId"], manifest["snapshotHash"]) == (own.canvas_id, own.snapshot_hash)
        names = archive.namelist()
        assert all(name.isascii() and not name.startswith("/") and ".." not in name for name in names)
        assert len(names) == len(set(names))
        sheets = {one["nodeId"] for one in manifest["files"] if one["path"].startswith("storyboards/")}
        assert sheets == {n.id for n in own.nodes if n.type == "script"}
        assert json.loads(archive.read("canvas.json")) == json.loads(json.dumps(facts(own), ensure_ascii=False).encode("utf-8", "replace"))
        assert {i.date_time for i in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_file_of_several_nodes_is_bundled_once_and_named_by_all() -> None:
    asset = Asset(hashlib.sha256(b"x").hexdigest(), "image/png", b"x")
    nodes = [node(name, "image", 0, 0, 400, 300) for name in ("b", "a")]
    own = Board(canvas_id="c", title="", snapshot_hash="h", nodes=nodes, edges=[], assets={n.id: asset for n in nodes})
    with zipfile.ZipFile(io.BytesIO(bundle(own, "en"))) as archive:
        files = [one for one in json.loads(archive.read(MANIFEST))["files"] if one["path"] == asset.path]
        assert [one["nodeIds"] for one in files] == [["a", "b"]]
        assert archive.namelist().count(asset.path) == 1
