"""A canvas agent from its first reading to its final answer: every tool an agent has there, through the real kernel, canvas and provider.

The model is played: it does one thing after another, and takes every hash, id and selection from what it was last told, as a model must.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from polyloop.app.answers import answer
from polyloop.app.approvals import decide
from polyloop.app.final import final_answer
from polyloop.app.request_file import load
from polyloop.app.store import open_runs
from polyloop.app.wiring import catalogue_specs, request_for, wire
from polyloop.kernel import records as r
from polyloop.kernel.seams import ModelRequest
from polyloop.testing.fakes import ScriptedModel
from tests.dialogue.chain import Chain, act
from tests.dialogue.plain_words import breaches
from tests.dialogue.test_injections import polyloop
from tests.media.scenes import SIZE, written

pytestmark = pytest.mark.needs("media")

Seen = dict[str, Any]
Move = tuple[str, Callable[[Seen], dict[str, Any]]]
#: The tools of the canvas seed.
NINETEEN = (
    "canvas_get_state", "canvas_list_node_types", "canvas_apply_ops", "canvas_arrange_nodes", "canvas_create_storyboard",
    "canvas_read_storyboard", "canvas_edit_storyboard", "canvas_read_batch_table", "canvas_edit_batch_table", "model_list", "generate_media",
    "task_get", "ask_user", "skill_search", "skill_read_file", "canvas_inspect_image", "image_text_detect", "image_annotation_render",
    "image_layer_split",
)  # fmt: skip


def select(seen: Seen, name: str) -> dict[str, Any]:
    """The first selection of a kind, as the list gave it."""
    return next(m["selection"] for m in seen["model_list"]["models"] if m["selectable"] and name in json.dumps(m["selection"]))


def form(*fields: tuple[str, str, str]) -> dict[str, Any]:
    return {"question": "几个要点", "fields": [{"id": i, "title": t, "type": "text", "defaultValue": d} for i, t, d in fields]}


FORM = form(("type", "项目类型", "短片"), ("ratio", "画幅", "16:9"), ("style", "风格", "写实"))
NODES = [
    {"type": "add_node", "id": "note", "nodeType": "text", "content": "海边，清晨。", "x": 0, "y": 0},
    {"type": "add_node", "id": "plan", "nodeType": "batch-table", "title": "计划", "x": 10, "y": 10},
]
PINS = [{"label": "1", "x": 0.5, "y": 0.5}]
MOVES: list[Move] = [
    ("skill_search", lambda _: {"query": "style"}),
    ("skill_read_file", lambda _: {"skill": "style"}),
    ("canvas_get_state", lambda _: {}),
    ("ask_user", lambda _: FORM),
    ("sub_run", lambda _: {"task": "画布上的图片叫什么？", "tools": ["canvas_get_state"]}),
    ("canvas_list_node_types", lambda _: {}),
    ("canvas_apply_ops", lambda s: {"snapshotHash": s["canvas_get_state"]["snapshotHash"], "ops": NODES}),
    ("canvas_arrange_nodes", lambda s: {"snapshotHash": s["canvas_apply_ops"]["data"]["snapshotHash"]}),
    ("canvas_get_state", lambda _: {}),
    ("canvas_create_storyboard", lambda s: {
        "snapshotHash": s["canvas_get_state"]["snapshotHash"], "nodeId": "board", "title": "分镜",
        "rows": [{"durationSeconds": 3, "plotDescription": "海"}],
    }),
    ("canvas_read_storyboard", lambda _: {"nodeId": "board", "offset": 0}),
    ("canvas_edit_storyboard", lambda s: {
        "snapshotHash": s["canvas_read_storyboard"]["snapshotHash"], "nodeId": "board", "action": "update",
        "rowId": s["canvas_read_storyboard"]["storyboard"]["rows"][0]["rowId"], "patch": {"camera": "低机位"},
    }),
    ("canvas_read_batch_table", lambda _: {"nodeId": "plan", "offset": 0}),
    ("canvas_edit_batch_table", lambda s: {
        "snapshotHash": s["canvas_read_batch_table"]["snapshotHash"], "nodeId": "plan", "action": "append", "patch": {"prompt": "海"},
    }),
    ("canvas_inspect_image", lambda _: {"nodeId": "src"}),
    ("image_text_detect", lambda _: {"nodeId": "src"}),
    ("image_annotation_render", lambda _: {"nodeId": "src", "annotations": PINS}),
    ("model_list", lambda _: {"mode": "image", "referenceNodeIds": []}),
    ("generate_media", lambda s: {
        "mode": "image", "prompt": "海边的清晨", "nodeId": "made", "title": "清晨", "referenceNodeIds": [], "size": "512x512",
        **select(s, "studio-image"),
    }),
    ("task_get", lambda s: {"taskId": s["generate_media"]["taskId"]}),
    ("model_list", lambda _: {"mode": "image", "referenceNodeIds": ["src"]}),
    ("image_layer_split", lambda s: {
        "prompt": "拆开", "nodeId": "layers", "title": "图层", "referenceNodeIds": ["src"], **select(s, "local-text"),
    }),
    ("submit", lambda s: {
        "summary": f"全部完成，用 {select(s, 'local-text')} 和 Studio-Image 做了 {s['generate_media']['taskId']}，成片已经发布：HTTPS://A.b/c、cdn.a.cn/x.png。",
        "claims": [{"text": "成片已经发布", "evidence": [], "unverified": True}],
    }),
]  # fmt: skip


class Agent:
    """It does its moves in order, one for each call."""

    def __init__(self) -> None:
        self.seen: Seen = {}

    def __call__(self, request: ModelRequest) -> str:
        for message in request.messages:
            head, _, body = message.text.partition("]\n")
            if head.startswith("[") and ": ok" in head and body.startswith("{"):
                self.seen[head[1:].partition(":")[0]] = json.loads(body)
        tool, args = MOVES[request.reply_no - 1]
        return json.dumps({"action": {"tool": tool, "args": args(self.seen)}})


class Studio(Chain):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "style").mkdir()
        (folder / "style" / "SKILL.md").write_text("---\nname: style\ndescription: house style\n---\nKeep to the house style.\n")
        written(["SALE 50"], SIZE).save(folder / "src.png")
        (folder / "home").mkdir()
        (folder / "home" / "gateway.toml").write_text('[sources."script:top.jsonl"]\nvision = true\n')
        polyloop("skills", "add", folder / "style")
        self.canvas = polyloop("canvas", "new", "--title", "T", "--store", self.store)["canvasId"]
        polyloop("canvas", "upload", "--canvas", self.canvas, "--file", folder / "src.png", "--node", "src", "--store", self.store)
        (folder / "below.jsonl").write_text(act("canvas_get_state", {}) + act("submit", {"summary": "src.png"}))

    def play(self, path: Path) -> tuple[Any, list[str]]:
        """Visits until the run has ended, whatever it waits for being given; and what that was."""

        async def main() -> tuple[Any, list[str]]:
            plan, waits = load(path, {}), list[str]()
            for _ in range(20):
                async with open_runs(self.store, "local", dedicated=True) as runs, runs.holding():
                    result = await runs.run(request_for(plan), replace(wire(plan), model=ScriptedModel(Agent())))
                    if result.waiting is None:
                        return result, waits
                    waits.append(result.waiting.kind)
                    if result.waiting.kind == "answer":
                        await answer(runs, "top", {"answers": {"style": "水墨"}})
                    if result.waiting.kind == "approval":
                        await decide(runs, result.waiting.token, "approved", "")
            raise AssertionError(waits)

        return asyncio.run(main())


def test_an_agent_uses_every_tool_and_its_work_is_told_from_its_receipts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYLOOP_HOME", str(tmp_path / "home"))
    assert set(NINETEEN) <= {spec.name for spec in catalogue_specs()} | {"canvas_inspect_image"}
    studio = Studio(tmp_path)
    tools = ", ".join(f'"{name}"' for name in (*NINETEEN, "sub_run", "submit"))
    head = f'canvas = "{studio.canvas}"\nskills = ["style"]\nsub_model = "script:below.jsonl"\n'
    path = studio.lay("top", tools=tools, head=head)
    path.write_text(path.read_text().replace("= 20\n", "= 40\n"))
    result, waits = studio.play(path)
    steps = [one for one in studio.records("top") if isinstance(one, r.Step)]
    assert result.reason == "completed", (result, [h for h in studio.heard("top") if "error" in h])
    assert [(s.tool, s.outcome) for s in steps if s.outcome != "ok"] == []
    assert {s.tool for s in steps} == {*NINETEEN, "sub_run", "submit"}
    assert list(dict.fromkeys(waits)) == ["answer", "approval", "task"]
    told: str = studio.on(partial(final_answer, run_id="top", lang="zh"))
    heads = [line for line in told.splitlines() if line.startswith("#")]
    assert heads == ["# 已完成，结果都已核对", "## 完成范围", "## 当前状态", "## 下一步", "## 采用的假设", "## 智能体的说明"]
    assert "- 生成媒体：1 项，已完成，结果可以读取" in told
    assert "- 画幅：16:9" in told, "what was not answered is an assumption"
    assert "成片已经发布（未核实）" in told
    task = next(
        one.evidence[0].ref
        for one in studio.records("top")
        if isinstance(one, r.ActionResult) and one.evidence[:1] and one.evidence[0].type == "ticket"
    )
    assert breaches(told, [*NINETEEN, task, "studio-image", "local-text", studio.canvas]) == []
