"""The same from the outside: commands, their JSON, their exit codes."""

from __future__ import annotations

import hashlib

import pytest

from tests.media.room import picture

pytestmark = pytest.mark.needs("media")


def test_S1_4_a_grant_lets_a_task_be_made_and_asking_brings_it_to_its_end(cli, tmp_path):
    canvas = cli("canvas", "new", "--title", "t")[0]["canvasId"]

    def call(tool, given, *more):
        return cli("canvas", "call", tool, "--canvas", canvas, "--args", "-", *more, given=given)

    told, code = call("generate_media", picture())
    assert (code, told["error"]["kind"]) == (5, "confirmation_required")
    shown, code = cli("approvals", "show", told["error"]["details"]["planId"])
    assert (code, shown["prompt"]["quote"]["amountMicro"]) == (0, 1_000_000)
    grant, code = cli("spend", "grant", "--canvas", canvas, "--credits", "2", "--mode", "image", "--max-size", "1024x1024")
    assert (code, grant["credits"], grant["maxWidth"]) == (0, "2", 1024)
    ticket, code = call("generate_media", picture())
    assert code == 10
    for _ in range(5):
        done, code = call("task_get", {"taskId": ticket["taskId"]})
        if code == 0:
            break
        assert (code, done["complete"]) == (10, False)
    assert (done["state"], done["complete"]) == ("succeeded", True)
    saved, code = cli("canvas", "save", "--canvas", canvas, "--node", "p1", "--out", "out/p1.png")
    assert (code, saved["sha256"]) == (0, hashlib.sha256((tmp_path / "out" / "p1.png").read_bytes()).hexdigest())
    assert cli("canvas", "save", "--canvas", canvas, "--node", "p1", "--out", "out/p1.png")[1] == 7
    used = cli("spend", "show", "--canvas", canvas)[0]["grants"][0]
    assert (used["held"], used["spent"], used["tasksUsed"]) == ("0", "1", 1)


def test_a_task_is_waited_for_and_worked_on_where_it_is_said(cli):
    canvas = cli("canvas", "new", "--title", "t")[0]["canvasId"]
    cli("spend", "grant", "--canvas", canvas, "--credits", "9")
    told, code = cli("canvas", "call", "generate_media", "--canvas", canvas, "--args", "-", "--wait", "60", given=picture())
    assert (code, told["complete"]) == (0, True)
    cli("canvas", "call", "generate_media", "--canvas", canvas, "--args", "-", given=picture("p2", "another"))
    assert cli("canvas", "work")[0]["moves"] >= 2


KEYED = """
[[providers]]
channel = "oai"
kind = "openai"
url = "http://127.0.0.1:9"
key_env = "OAI_TEST_KEY"
[[models]]
channel = "oai"
key = "k"
logical_id = "oai-image"
name = "N"
mode = "image"
sizes = ["512x512"]
prices = [{tier = "s", credits = "1"}]
"""


def test_a_key_that_cannot_be_sent_holds_up_the_tasks_of_its_own_provider_and_no_other(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("POLYLOOP_HOME", str(tmp_path))
    monkeypatch.setenv("OAI_TEST_KEY", "k\u00e9y")
    (tmp_path / "media.toml").write_text(KEYED)
    canvas = cli("canvas", "new", "--title", "t")[0]["canvasId"]
    cli("spend", "grant", "--canvas", canvas, "--credits", "9")
    call = ("canvas", "call", "generate_media", "--canvas", canvas, "--args", "-", "--wait")
    told, code = cli(*call, "60", given=picture())
    assert (code, told["complete"]) == (0, True)
    told, code = cli(*call, "1", given={**picture("p2", "another"), "logicalModelId": "oai-image"})
    assert (code, told["state"], told["error"]["kind"]) == (10, "queued", "capability_unavailable")
    assert "'oai'" in told["error"]["message"]
    assert "header" in told["error"]["message"]
    assert cli("canvas", "work")[1] == 0


def test_a_task_that_cannot_be_worked_on_here_is_told_all_the_same(cli, monkeypatch):
    """Its money is held: whoever asked for it gets its id, whatever stops the work."""
    from polyloop.app import media as app_media
    from polyloop.contract.problem import problem

    canvas = cli("canvas", "new", "--title", "t")[0]["canvasId"]
    cli("spend", "grant", "--canvas", canvas, "--credits", "9")

    def broken(*_given, **_more):
        raise problem("local_io", "the disk is full", stage="store")

    monkeypatch.setattr(app_media, "media_worker", broken)
    told, code = cli("canvas", "call", "generate_media", "--canvas", canvas, "--args", "-", "--wait", "5", given=picture())
    assert (code, told["state"], told["error"]["message"]) == (10, "queued", "the disk is full")
    assert told["taskId"].startswith("task_")


@pytest.mark.parametrize(
    "words",
    [
        ("--credits", "1"), ("--credits", "x", "--canvas", "c"), ("--credits", "-1", "--canvas", "c"),
        ("--credits", "1", "--canvas", "c", "--session", "s"), ("--credits", "1", "--canvas", "c", "--max-size", "big"),
        ("--credits", "1", "--canvas", "c", "--expires", "tomorrow"),
        ("--credits", "1", "--session", "x" * 500), ("--credits", "1", "--session", "a\x1fb"),
        ("--credits", "1", "--session", "s", "--model", "\x1b[31m"),
        ("--credits", "1", "--session", "s", "--tier", ""), ("--credits", "1", "--session", "s", "--expires", "2020-01-01T00:00:00+00:00"),
        ("--credits", "1", "--canvas", "c", "--expires", "2030-01-01T00:00:00"), ("--credits", "1", "--canvas", "c", "--mode", "smell"),
    ],
)  # fmt: skip
def test_a_grant_that_says_nothing_clear_is_refused(cli, words):
    told, code = cli("spend", "grant", *words)
    assert (code, told["error"]["kind"]) == (2, "validation")


def test_a_file_as_large_as_a_result_may_be_is_brought_in_and_what_is_no_file_is_not_waited_for(cli, tmp_path):
    import os
    import wave

    from polyloop.media import limits

    canvas = cli("canvas", "new", "--title", "t")[0]["canvasId"]

    def upload(name: str):
        return cli("canvas", "upload", "--canvas", canvas, "--file", name, "--node", "n")

    with wave.open(str(tmp_path / "long.wav"), "wb") as sound:
        sound.setparams((2, 2, 48_000, 0, "NONE", ""))
        sound.writeframes(bytes(17 << 20))
    with (tmp_path / "huge.wav").open("wb") as file:
        file.truncate(limits.RESULT_BYTES + 1)
    os.mkfifo(tmp_path / "fifo")
    for name, why in (("fifo", "regular file"), ("/dev/zero", "regular file"), (".", "folder"), ("huge.wav", str(limits.RESULT_BYTES)), ("none", "")):
        told, code = upload(name)
        assert (code, told["error"]["kind"], told["error"]["operation"]) == (2, "validation", "media.upload"), name
        assert why in told["error"]["message"], name
    told, code = cli("canvas", "call", "model_list", "--canvas", canvas, "--args", "fifo")
    assert (code, told["error"]["kind"]) == (2, "validation")
    told, code = upload("long.wav")
    assert (code, told["data"]["asset"]["bytes"] > 17 << 20) == (0, True)


def test_a_grant_on_a_canvas_of_another_owner_is_given_to_that_owner(cli):
    canvas = cli("canvas", "new", "--title", "t", "--owner", "alice")[0]["canvasId"]
    assert cli("spend", "grant", "--canvas", canvas, "--credits", "2")[1] == 2
    assert cli("spend", "show", "--canvas", canvas)[1] == 2
    assert cli("spend", "grant", "--canvas", canvas, "--credits", "2", "--owner", "alice")[1] == 0
    assert [g["credits"] for g in cli("spend", "show", "--canvas", canvas, "--owner", "alice")[0]["grants"]] == ["2"]
    call = ("canvas", "call", "generate_media", "--canvas", canvas, "--args", "-", "--owner", "alice")
    assert cli(*call, given=picture())[1] == 10


def test_a_file_is_brought_in_and_what_is_none_is_refused(cli, tmp_path):
    from tests.media.scenes import scene

    canvas = cli("canvas", "new", "--title", "t")[0]["canvasId"]
    (tmp_path / "a.jpg").write_bytes(scene("hill")[0])
    (tmp_path / "b.jpg").write_bytes(b"<html>")
    told, code = cli("canvas", "upload", "--canvas", canvas, "--file", "a.jpg", "--node", "a")
    assert (code, told["data"]["asset"]["mimeType"]) == (0, "image/jpeg")
    assert cli("canvas", "upload", "--canvas", canvas, "--file", "b.jpg", "--node", "b")[1] == 2
    assert cli("canvas", "upload", "--canvas", canvas, "--file", "none.jpg", "--node", "c")[1] == 2
