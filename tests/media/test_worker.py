"""What becomes of a task when its provider misbehaves: its state, its money and its file, told apart and never guessed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from polyloop.media import limits
from polyloop.media.worker import Worker
from tests.media.room import Clock, picture, room
from tests.media.test_kills import outside

pytestmark = pytest.mark.needs("media")

#: fault -> state of the task, last move of its money, reason in its error.
FATES = {
    "": ("succeeded", "settle", ""), "twice": ("succeeded", "settle", ""), "slow": ("succeeded", "settle", ""),
    "refuse": ("failed", "refund", ""), "fail_late": ("failed", "refund", ""), "empty_result": ("failed", "refund", ""),
    "truncate": ("failed", "refund", "truncated"), "wrong_type": ("failed", "refund", "not_decodable"), "wrong_size": ("failed", "refund", "size"),
    "cut": ("unknown", "uncertain", "not_fetched"),  # it was made, and may have to be paid
    "drop_reply": ("unknown", "uncertain", ""), "error_after": ("unknown", "uncertain", ""), "no_id": ("unknown", "uncertain", ""),
}  # fmt: skip
#: A ComfyUI server is asked by our own id: what it has taken is found again.
FOUND_AGAIN = dict.fromkeys(("drop_reply", "error_after", "no_id"), ("succeeded", "settle", ""))


def _wish(n: int) -> dict:
    wish = {**picture(f"n{n}", f"wish {n}"), "size": "256x144", "channelId": "x", "channelModelKey": "owner/m"}
    wish.pop("logicalModelId")
    return wish


@pytest.mark.parametrize("kind", ["replicate", "comfyui"])
def test_S1_37_S1_47_S1_81_S1_90_no_failure_is_called_complete_and_none_is_paid_twice(kind, tmp_path):
    from polyloop.testing.media_server import MediaServer

    fates = {**FATES, **(FOUND_AGAIN if kind == "comfyui" else {})}
    with MediaServer(tmp_path / "log", list(fates)) as server, room(tmp_path, outside(kind, server.url(kind))) as here:
        here.grant("1000")
        clock = Clock()
        worker = Worker(here.db, replace(here.worker.means, now_ms=clock, pause=clock.pause))
        for n, (fault, (state, money, reason)) in enumerate(fates.items()):
            ticket, _ = here.call("generate_media", _wish(n))
            for _ in range(20 if fault == "cut" else 2 if fault in FOUND_AGAIN else 1):
                worker.all()
                clock.now += limits.ASK_AGAIN_MS
            told, code = here.call("task_get", {"taskId": ticket["taskId"]})
            last = [k for order, k, _ in here.charges() if order == told["billing"]["orderId"]][-1]
            assert (told["state"], last) == (state, money), (fault, told)
            done = state == "succeeded"
            assert (told["complete"], "result" in told, code) == (done, done, {"succeeded": 0, "unknown": 10, "failed": 1}[state]), fault
            if reason:
                assert told["error"]["details"]["reason"] == reason
            assert here.node(f"n{n}").get("referenceReady") == (state == "succeeded"), fault
        prompts = [s["prompt"] for s in server.submissions()]
        assert len(prompts) == len(set(prompts)) == len(fates) - 1  # what was refused was never taken


def test_S1_36_what_a_provider_knows_nothing_of_is_neither_done_nor_failed(tmp_path, monkeypatch):
    from polyloop.testing.media_server import MediaServer

    monkeypatch.setattr(limits, "POLL_MS", 5)
    with MediaServer(tmp_path / "log", ["lost"]) as server, room(tmp_path, outside("comfyui", server.url("comfyui"))) as here:
        here.grant("1000")
        ticket, _ = here.call("generate_media", _wish(1))
        here.worker.all()
        told, code = here.call("task_get", {"taskId": ticket["taskId"]})
        assert (told["state"], told["complete"], told["billing"]["state"], code) == ("unknown", False, "uncertain", 10)
        again, code = here.call("generate_media", {**_wish(2), "prompt": "wish 1"})
        assert (code, again["error"]["kind"]) == (5, "confirmation_required")  # a person must allow another one


@pytest.mark.parametrize("kind", ["fal", "replicate", "comfyui"])
def test_S1_90_a_running_task_is_cancelled_at_its_provider_and_a_late_cancel_changes_nothing(kind, tmp_path, monkeypatch):
    from polyloop.testing.media_server import MediaServer

    monkeypatch.setattr(limits, "POLL_MS", 5)
    ends = {"stuck": ("cancelled", "refunded"), "cancel_late": ("succeeded", "settled")}
    ends |= {"cancel_refused": ends["cancel_late"], "poll_refused": ("unknown", "uncertain")} if kind in ("fal", "replicate") else {}
    with MediaServer(tmp_path / "log", list(ends)) as server, room(tmp_path, outside(kind, server.url(kind))) as here:
        here.grant("1000")
        for n, (state, money) in enumerate(ends.values()):
            ticket, _ = here.call("generate_media", _wish(n))
            here.worker.one()
            assert here.call("task_cancel", {"taskId": ticket["taskId"]})[1] == 0
            here.worker.all()
            told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
            assert (told["state"], told["billing"]["state"]) == (state, money)
        assert len(server.submissions()) == len(ends)


def test_a_picture_given_as_an_address_is_fetched_from_there(tmp_path, monkeypatch):
    from polyloop.testing.media_server import MediaServer

    monkeypatch.setattr(limits, "POLL_MS", 5)
    with MediaServer(tmp_path / "log", ["by_url"]) as server, room(tmp_path, outside("openai", server.url("openai"))) as here:
        here.grant("1000")
        ticket, _ = here.call("generate_media", _wish(1))
        here.worker.all()
        told, _ = here.call("task_get", {"taskId": ticket["taskId"]})
        assert (told["complete"], told["billing"]["state"]) == (True, "settled")
