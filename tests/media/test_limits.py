"""What takes long or has no end: bounded, out of everybody's way, and said by name."""

from __future__ import annotations

import asyncio
import base64
import io
import threading

import pytest

from polyloop.app import media as app_media
from polyloop.contract.problem import ProblemError
from polyloop.journal.carry import Caller
from polyloop.media import limits
from polyloop.media.provider import Found
from tests.media.room import picture, room

pytestmark = pytest.mark.needs("media")


def _sound(seconds: int, rate: int = 8000) -> bytes:
    import wave

    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(rate)
        file.writeframes(b"\x80" * seconds * rate)
    return out.getvalue()


def test_a_sound_may_be_as_long_as_one_may_be_asked_for_and_no_longer():
    from polyloop.media.verify import examined

    assert examined(_sound(limits.SECONDS, 4000), "audio").seconds == limits.SECONDS
    with pytest.raises(ProblemError) as stop:
        examined(_sound(limits.SECONDS + 60, 4000), "audio")
    assert stop.value.problem.details["reason"] == "length"


def test_a_clip_is_looked_through_up_to_so_many_pixels(monkeypatch):
    from polyloop.media.provider import Work
    from polyloop.media.studio import Studio
    from polyloop.media.verify import examined

    work = Work(id="c", mode="video", model="m", prompt="p", width=320, height=180, seconds=1)
    clip = Studio(lambda _: work).fetch(Studio(lambda _: work).poll(Studio(lambda _: work).submit(work)).outputs[0], 1 << 24)
    assert examined(clip, "video").seconds == 1
    for name, most, reason in (("CLIP_PIXELS", 320 * 180 * 12, "length"), ("PIXELS", 320 * 180 - 1, "size")):
        monkeypatch.setattr(limits, name, most)
        with pytest.raises(ProblemError) as stop:
            examined(clip, "video")
        monkeypatch.undo()
        assert stop.value.problem.details["reason"] == reason


def test_an_upload_that_is_too_large_is_told_so(tmp_path):
    from polyloop.testing.media_provider import red

    with room(tmp_path) as here:
        for data, kind, word in ((red(9000, 10), "validation", "8192"), (b"nothing", "type_mismatch", "no picture")):
            told, code = here.call("upload", {"nodeId": "v", "title": "p", "file": base64.b64encode(data).decode()})
            assert (code, told["error"]["kind"], word in told["error"]["message"]) == (2, kind, True), told
        told, code = here.call("upload", {"nodeId": "v", "title": "p", "file": "é"})
        assert (code, told["error"]["details"]["field"]) == (2, "file")


def test_a_file_is_looked_at_before_the_store_is_held(tmp_path, monkeypatch):
    """While it is decoded another may write."""
    from polyloop.media import verify
    from polyloop.testing.media_provider import red

    with room(tmp_path) as here:
        seen, real = [], verify.recognised

        def meanwhile(data: bytes):
            writer = threading.Thread(target=lambda: seen.append(here.db.write_sync(lambda tx: tx.row("select 1"))))
            writer.start()
            writer.join(20)
            seen.append(writer.is_alive())
            return real(data)

        monkeypatch.setattr(verify, "recognised", meanwhile)
        assert here.call("upload", {"nodeId": "v", "title": "p", "file": base64.b64encode(red()).decode()})[1] == 0
        assert seen == [(1,), False]


def test_who_is_stopped_while_waiting_for_a_task_stops(tmp_path, monkeypatch):
    from polyloop.testing.media_provider import ScriptedProvider

    with room(tmp_path) as here:
        here.grant()

        begun = threading.Event()
        provider = ScriptedProvider(poll=[lambda _: begun.set() or Found("running")])
        monkeypatch.setattr(app_media, "_providers", lambda *_: {"studio": provider})

        async def stopped() -> None:
            waiting = asyncio.create_task(app_media.answered(here.db, "local", "generate_media", picture(), Caller(within=here.canvas), 10**6))
            await asyncio.to_thread(begun.wait)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

        asyncio.run(stopped())


def test_providers_are_made_once_for_all_who_ask_how_a_task_stands(tmp_path, monkeypatch):
    made, real = [], app_media._providers
    monkeypatch.setattr(app_media, "_providers", lambda *given: made.append(1) or real(*given))
    with room(tmp_path) as here:
        media = app_media.media_of(here.db, "local", here.settings, moves=True)
        here.grant()
        ticket, _ = here.call("generate_media", picture())
        made.clear()
        for _ in range(4):
            asyncio.run(media.call("task_get", {"taskId": ticket["taskId"]}, Caller(within=here.canvas)))
        assert (len(made), here.call("task_get", {"taskId": ticket["taskId"]})[0]["complete"]) == (1, True)
