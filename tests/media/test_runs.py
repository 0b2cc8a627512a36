"""Media tools in runs: what a run may spend, how it waits for a task, and a picture on its way to a model that sees."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from polyloop.cli.main import app
from tests import outside
from tests.media.room import picture

pytestmark = pytest.mark.needs("media")

REQUEST = """
run_id = "r1"
model = "{model}"
tools = ["canvas_*", "model_list", "generate_media", "task_get"{more}, "submit"]
completes = ["submit"]
canvas = "{canvas}"
{spend}
[agent]
id = "a"
protocol = "{protocol}"
[budget]
max_valid_steps = 20
max_iterations = 30
[[segments]]
name = "task"
text = "Draw."
"""
SPEND = '[spend]\ncredits = 2\nmodes = ["image"]'


def line(name: str, **args: Any) -> str:
    return json.dumps({"text": json.dumps({"action": {"tool": name, "args": args}})}) + "\n"


def command(folder: Path, *words: object) -> tuple[int, Any]:
    """In a process of its own: runs leave theirs for good."""
    done = outside.command(folder, *words, "--store", folder / "s.db", "--json", env=os.environ | {"POLYLOOP_HOME": str(folder)})
    return done.code, json.loads(done.out)


def lay(folder: Path, *, model: str = "script:replies.jsonl", spend: str = SPEND, protocol: str = "json-text/1", more: str = "") -> str:
    made = CliRunner().invoke(app, ["canvas", "new", "--title", "T", "--store", str(folder / "s.db"), "--json"])
    canvas = json.loads(made.stdout)["canvasId"]
    (folder / "r.toml").write_text(REQUEST.format(canvas=canvas, model=model, spend=spend, protocol=protocol, more=more))
    return canvas


FIRST = [line("canvas_get_state"), line("model_list", mode="image", referenceNodeIds=[]), line("generate_media", **picture())]


def test_S1_59_a_run_waits_for_its_task_and_goes_on_with_the_truth(tmp_path):
    lay(tmp_path)
    (tmp_path / "replies.jsonl").write_text("".join([*FIRST, line("submit", summary="made")]))
    code, result = command(tmp_path, "run", tmp_path / "r.toml")
    for _ in range(6):  # each look brings the task one step further
        if result["ended"]:
            break
        assert (code, result["state"], result["waiting"]["kind"]) == (10, "waiting", "task")
        code, result = command(tmp_path, "resume", "r1")
    assert (code, result["reason"]) == (0, "completed"), result
    log = outside.command(tmp_path, "log", "r1", "--jsonl", "--store", tmp_path / "s.db").out
    told = [record for text in log.splitlines() if (record := json.loads(text))["kind"] == "action_result"]
    assert '"complete": true' in json.dumps(told[2]).replace("\\", "")


def test_S1_50_what_a_run_was_not_given_a_person_is_asked_for(tmp_path):
    lay(tmp_path, spend="")
    (tmp_path / "replies.jsonl").write_text("".join([*FIRST, line("submit", summary="made")]))
    code, result = command(tmp_path, "run", tmp_path / "r.toml")
    assert (code, result["waiting"]["kind"]) == (5, "approval")
    assert command(tmp_path, "approvals", "approve", result["waiting"]["token"])[0] == 0
    code, result = command(tmp_path, "resume", "r1")
    assert (code, result["waiting"]["kind"]) == (10, "task")


def test_S1_69_a_model_that_sees_gets_the_picture_s_own_bytes_and_one_that_does_not_has_no_such_tool(tmp_path):
    from polyloop.testing.fake_openai import FakeOpenAI, calls
    from tests.media.scenes import scene

    data, _ = scene("hill")
    (tmp_path / "hill.jpg").write_bytes(data)
    answers = [calls(("c1", "canvas_inspect_image", '{"nodeId": "src"}')), calls(("c2", "submit", '{"summary": "a hill"}'))]
    with FakeOpenAI(answers) as server:
        model = f"openai:eyes@{server.url}"
        canvas = lay(tmp_path, model=model, protocol="native-tools/1", more=', "canvas_inspect_image"')
        assert command(tmp_path, "canvas", "upload", "--canvas", canvas, "--file", tmp_path / "hill.jpg", "--node", "src")[0] == 0
        code, refused = command(tmp_path, "run", tmp_path / "r.toml")
        assert (code, refused["error"]["kind"]) == (2, "validation")
        assert server.seen == []
        (tmp_path / "gateway.toml").write_text(f'[sources."{model}"]\nvision = true\n')
        code, result = command(tmp_path, "run", tmp_path / "r.toml")
        assert (code, result["reason"]) == (0, "completed"), result
        pieces = [p for m in server.seen[1]["messages"] if isinstance(m.get("content"), list) for p in m["content"] if p["type"] == "image_url"]
        sent = base64.b64decode(pieces[0]["image_url"]["url"].partition("base64,")[2])
        assert hashlib.sha256(sent).hexdigest() == hashlib.sha256(data).hexdigest()
        assert "canvas_inspect_image" in {tool["function"]["name"] for tool in server.seen[0]["tools"]}


def test_S1_37_S1_94_a_run_whose_picture_was_not_made_is_not_told_as_done_whatever_its_model_says(tmp_path, monkeypatch):
    from polyloop.testing.media_server import MediaServer
    from tests.outside import command as outside

    monkeypatch.setenv("POLYLOOP_HOME", str(tmp_path))
    lie = line("submit", summary="The picture is done, 已完成", claims=[{"text": "It is complete", "evidence": ["task_made_up"]}])
    wish = {**picture(), "size": "256x144", "channelId": "x", "channelModelKey": "owner/m"}
    del wish["logicalModelId"]
    with MediaServer(tmp_path / "log", ["refuse"]) as server:
        (tmp_path / "media.toml").write_text(
            f'[[providers]]\nchannel = "x"\nkind = "replicate"\nurl = "{server.url("replicate")}"\n[[models]]\nchannel = "x"\nkey = "owner/m"\n'
            'name = "X"\nmode = "image"\nsizes = ["256x144"]\nprices = [{ tier = "s", credits = "1" }]\n'
        )
        lay(tmp_path)
        (tmp_path / "replies.jsonl").write_text("".join([*FIRST[:2], line("generate_media", **wish), lie, line("submit", summary="已完成")]))
        done = outside(tmp_path, "run", "r.toml", "--store", "s.db", "--json")
        while not done.said["ended"]:
            done = outside(tmp_path, "resume", "r1", "--store", "s.db", "--json")
    log = [json.loads(text) for text in outside(tmp_path, "log", "r1", "--jsonl", "--store", "s.db").out.splitlines()]
    results = [record["status"] for record in log if record["kind"] == "action_result"]
    assert results == ["ok", "ok", "error", "error", "ok"], "the made-up reference is no evidence, and the run goes on"
    head = done.said["finalAnswer"].partition("## 智能体的说明")[0]
    assert head.startswith("# 没有完成")
    assert "已完成" not in head


@pytest.mark.parametrize("mode", ["read_only", "auto"])
def test_S1_48_a_look_at_a_task_of_another_session_moves_nothing(tmp_path, mode):
    """A run that may only read, and one that merely asks how somebody else's task stands: only its own run, a person or a worker moves it."""
    canvas = lay(tmp_path)
    (tmp_path / "replies.jsonl").write_text("".join([*FIRST, line("submit", summary="made")]))
    begun = command(tmp_path, "run", tmp_path / "r.toml")[1]
    task = begun["waiting"]["token"]
    look = (tmp_path / "r.toml").read_text().replace('"r1"', '"r2"').replace("replies", "looks").replace(SPEND, f'permission_mode = "{mode}"')
    (tmp_path / "r2.toml").write_text(look)
    (tmp_path / "no.json").write_text("{}")
    before = command(tmp_path, "canvas", "call", "canvas_get_state", "--canvas", canvas, "--args", tmp_path / "no.json")[1]
    (tmp_path / "looks.jsonl").write_text(line("task_get", taskId=task) * 4 + line("submit", summary="seen"))
    code, result = command(tmp_path, "run", tmp_path / "r2.toml")
    assert (code, result["reason"]) == (0, "completed"), result
    log = outside.command(tmp_path, "log", "r2", "--jsonl", "--store", tmp_path / "s.db").out
    told = [one["observation"][0]["text"] for one in map(json.loads, log.splitlines()) if one["kind"] == "action_result"]
    seen = [json.loads(text) for text in told[:4]]
    assert {one["state"] for one in seen} == {"running"}
    assert command(tmp_path, "canvas", "call", "canvas_get_state", "--canvas", canvas, "--args", tmp_path / "no.json")[1] == before
    code, result = command(tmp_path, "resume", "r1")
    while not result["ended"]:
        code, result = command(tmp_path, "resume", "r1")
    assert (code, result["reason"]) == (0, "completed")
