"""Whatever a task has come to, no surface calls it done that is not: answers, the canvas, its pictures and pages, programs' forms, files."""

from __future__ import annotations

import asyncio
import base64
import io
import re
import zipfile

import pytest

from polyloop.app.canvas_export import exported
from polyloop.contract.problem import ProblemError
from tests.media.room import picture, room
from tests.media.test_kills import outside

pytestmark = pytest.mark.needs("media")
#: State of a task -> its word on boards and pages, in both languages.
STATES = {
    "queued": ("等待处理", "waiting"), "running": ("正在处理", "in progress"), "unknown": ("结果不明", "outcome unknown"),
    "failed": ("失败", "failed"),
    "cancelled": ("已取消", "cancelled"), "succeeded": ("没有可用的结果", "no result"),
}  # fmt: skip
DONE = re.compile(r"已完成|完成了|\bdone\b|\bcomplete\b|succe", re.IGNORECASE)


#: What the provider does to bring a task there; of a success, the file is lost afterwards.
FAULTS = {"queued": "stuck", "running": "stuck", "unknown": "error_after", "failed": "fail_late", "cancelled": "stuck", "succeeded": ""}


def _wish(node: str, prompt: str = "a quiet river", **more: object) -> dict[str, object]:
    wish = {**picture(node, prompt), "size": "256x144", "channelId": "x", "channelModelKey": "owner/m", **more}
    wish.pop("logicalModelId")
    return wish


def _brought(here, task: str, state: str) -> None:
    """As far as the worker brings it with such a provider."""
    if state == "queued":
        return
    if state == "cancelled":
        here.worker.one(task)
        here.call("task_cancel", {"taskId": task})
    for _ in range(2 if state == "running" else 6):
        here.db.write_sync(lambda tx: tx.run("update task set due = 0 where id = ? and due < 9000000000000000", task))
        here.worker.one(task)
    if state == "succeeded":
        here.db.write_sync(lambda tx: tx.run("delete from media_part"))


@pytest.mark.parametrize("state", STATES)
def test_S1_36_S1_37_S1_47_S1_90_no_surface_calls_it_done(state, tmp_path):
    from polyloop.testing.media_server import MediaServer

    with MediaServer(tmp_path / "log", [FAULTS[state]]) as server, room(tmp_path, outside("replicate", server.url("replicate"))) as here:
        here.grant()
        task = here.call("generate_media", _wish("p1"))[0]["taskId"]
        _brought(here, task, state)
        told, code = here.call("task_get", {"taskId": task})
        assert (told["state"], here.node("p1")["generation"]["status"]) == (state, state), "the node says of its task what the task says"
        assert (told["complete"], "result" in told, code != 0) == (False, False, True)
        node = here.node("p1")
        assert (node["referenceReady"], "asset" in node) == (False, state == "succeeded")
        again, code = here.call("generate_media", _wish("p2"))
        assert code != 0
        assert again.get("complete") is not True
        used, code = here.call("generate_media", _wish("p3", "with it", referenceNodeIds=["p1"]))
        assert (code, used["error"]["kind"]) == (2, "validation")
        with pytest.raises(ProblemError):
            asyncio.run(here.media.file("p1", _caller(here)))
        for lang, word in zip(("zh", "en"), STATES[state], strict=True):
            for form in ("html", "svg"):
                page = asyncio.run(exported(here.db, here.tenant, "local", here.canvas, form=form, lang=lang)).decode()
                assert word in page, (form, lang)
                assert not DONE.search(re.sub(r"<style>.*?</style>", "", page)), (form, lang)
        for form in ("jsoncanvas", "png", "zip"):
            data = asyncio.run(exported(here.db, here.tenant, "local", here.canvas, form=form, lang="zh"))
            assert b"assets/" not in data, "there is no file"


def _caller(here):
    from polyloop.journal.carry import Caller

    return Caller(within=here.canvas)


def test_S1_37_what_is_done_is_shown_with_its_file_and_as_synthetic(tmp_path):
    with room(tmp_path) as here:
        here.grant()
        clip = {**picture("c1", "a river at night"), "mode": "video", "logicalModelId": "studio-video", "size": "640x360", "durationSeconds": 1}
        for wish in (picture(), clip):
            here.call("generate_media", wish)
        here.worker.all()
        pages = {lang: asyncio.run(exported(here.db, here.tenant, "local", here.canvas, form="html", lang=lang)).decode() for lang in ("zh", "en")}
        assert "video/mp4 · 640×360 · 1" in pages["zh"]
        assert pages["zh"].count("合成素材") == 4, "on the board and beneath it"
        assert pages["en"].count("synthetic") == 4
        assert not any(word in pages["zh"] for word, _ in STATES.values())


BROKEN = {
    "lost": "delete from media_part", "cut": "delete from media_part where no > 0", "changed": "update media_part set data = zeroblob(length(data))",
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_S1_37_a_lost_file_is_of_its_node_and_takes_no_board_away(how, tmp_path, monkeypatch):
    from polyloop.media import store
    from tests.media.scenes import scene

    monkeypatch.setattr(store, "_PART", 4096)
    with room(tmp_path) as here:
        for node in ("a", "b"):
            data = scene("hill" if node == "a" else "two things")[0]
            assert here.call("upload", {"nodeId": node, "title": node, "file": base64.b64encode(data).decode()})[1] == 0
        lost = here.node("a")["asset"]["assetId"].removeprefix("sha256:")
        more = f"{'and' if 'where' in BROKEN[how] else 'where'} sha256 = '{lost}'"
        here.db.write_sync(lambda tx: tx.run(f"{BROKEN[how]} {more}"))
        told = here.node("a")
        assert (told["referenceReady"], told.get("referenceIssue")) == ((True, None) if how == "changed" else (False, "asset_lost"))
        assert here.node("b")["referenceReady"] is True
        for lang, word in (("zh", "没有可用的结果"), ("en", "no result")):
            for form in ("html", "svg"):
                page = asyncio.run(exported(here.db, here.tenant, "local", here.canvas, form=form, lang=lang)).decode()
                assert (word in page, page.count("data:image/jpeg") > 0) == (True, True), (form, lang)
        assert asyncio.run(exported(here.db, here.tenant, "local", here.canvas, form="png", lang="zh")).startswith(b"\x89PNG")
        packed = asyncio.run(exported(here.db, here.tenant, "local", here.canvas, form="zip", lang="zh"))
        names = zipfile.ZipFile(io.BytesIO(packed)).namelist()
        assert [name for name in names if name.startswith("assets/")] == [f"assets/{here.node('b')['asset']['assetId'][7:]}.jpg"]
        used, code = here.call("generate_media", picture("c", "with it", referenceNodeIds=["a"]))
        assert (code, used["error"]["kind"]) in ((2, "validation"), (5, "confirmation_required") if how == "changed" else ())
