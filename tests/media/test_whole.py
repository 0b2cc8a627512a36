"""A result is whole and nothing but itself (S1.5, S1.36, S1.37): what is missing of it, damaged in it, or behind it, is found in its bytes."""

from __future__ import annotations

import io
import struct
from fractions import Fraction

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.media.provider import Work

pytestmark = pytest.mark.needs("media")

PAGE = b"<html><script>alert(document.cookie)</script><body>a page of quite another kind, which somebody may open</body></html>"
STYLES = [{}, {"progressive": True}, {"optimize": True}, {"subsampling": 0}, {"restart_marker_blocks": 10}, {"quality": 100}, {"quality": 5}]
SIZE = (264, 200)
WORK = Work(id="w", mode="image", model="m", prompt="p", width=SIZE[0], height=SIZE[1])
CLIP = Work(id="w", mode="video", model="m", prompt="p", width=64, height=48, seconds=2, sound=True)


def drawn(kind: str = "smooth"):
    import numpy as np
    from PIL import Image

    odds = np.random.default_rng(3)
    if kind == "noise":
        return Image.fromarray(odds.integers(0, 255, (SIZE[1], SIZE[0], 3), dtype=np.uint8))
    if kind == "smooth":
        return Image.fromarray(odds.integers(0, 255, (12, 16, 3), dtype=np.uint8)).resize(SIZE, Image.Resampling.BICUBIC)
    return Image.new("RGB", SIZE, kind)


def saved(image, form: str = "JPEG", **style) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **style)
    return out.getvalue()


def reason(data: bytes, work: Work = WORK) -> str:
    """The reason of the refusal; "" = it is accepted."""
    from polyloop.media.verify import accepted

    try:
        accepted(data, work)
    except ProblemError as stop:
        return f"{stop.problem.details['reason']}{stop.problem.kind.removeprefix('task_failed')}"
    return ""


@pytest.mark.parametrize("style", STYLES, ids=str)
@pytest.mark.parametrize("kind", ["smooth", "noise", "white", "grey", "L", "CMYK"])
def test_a_whole_jpeg_is_accepted_and_one_that_was_cut_and_closed_is_not(kind, style):
    image = drawn(kind if kind not in ("L", "CMYK") else "smooth")
    data = saved(image.convert(kind) if kind in ("L", "CMYK") else image, **style)
    assert reason(data) == ""
    assert reason(data + b"\0" * 64) == "", "zeros are padding"
    for part in (0.5, 0.8, 0.95) if (kind, style) != ("white", STYLES[1]) else ():  # there a scan less is the same picture
        assert reason(data[: int(len(data) * part)] + b"\xff\xd9"), part
    assert reason(data + PAGE) == "trailing"
    assert reason(data + PAGE + b"\xff\xd9") == "trailing"
    assert reason(data[: len(data) // 2] + PAGE + b"\xff\xd9")
    assert reason(data[:-2] + PAGE + b"\xff\xd9"), "within, behind the picture"


@pytest.mark.parametrize("style", [{}, {"progressive": True}, {"subsampling": 0}, {"quality": 100}], ids=str)
def test_a_jpeg_whose_middle_is_lost_is_not_accepted(style):
    data = bytearray(saved(drawn("noise"), **style))
    middle = len(data) // 2
    data[middle : middle + len(data) // 4] = bytes(len(data) // 4)
    assert reason(bytes(data)) == "not_decodable"


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_nothing_stands_behind_the_end_whatever_the_format(form):
    data = saved(drawn(), form)
    assert reason(data) == ""
    ending = {"PNG": b"\0\0\0\0IEND\xaeB`\x82", "JPEG": b"\xff\xd9", "GIF": b";", "WEBP": b""}[form]
    for more in (PAGE, PAGE + ending, b"\0\0" + PAGE + ending):
        assert reason(data + more) == "trailing", more
    for cut in (0.3, 0.6, 0.9):
        assert reason(data[: int(len(data) * cut)] + ending), cut


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "TIFF"])
def test_one_picture_is_no_picture_that_moves(form):
    from polyloop.media.verify import recognised

    frames = [drawn(colour) for colour in ("red", "green", "blue")]
    moving = saved(frames[0], form, save_all=True, append_images=frames[1:])
    assert reason(moving) == "type"
    assert recognised(moving).frames == 3, "a person may bring one in"


def test_every_frame_of_a_picture_that_moves_is_decoded():
    from polyloop.media.verify import recognised

    frames = [drawn("noise"), drawn(), drawn("red")]
    moving = bytearray(saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True))
    last = moving.rindex(b"ANMF")
    moving[last + 32 : last + 400] = b"\xff" * 368
    with pytest.raises(ProblemError) as stop:
        recognised(bytes(moving))
    assert stop.value.problem.kind == "type_mismatch"


def test_pixels_of_all_frames_are_limited(monkeypatch):
    from polyloop.media import limits
    from polyloop.media.verify import recognised

    monkeypatch.setattr(limits, "MOVING_PIXELS", SIZE[0] * SIZE[1] * 2)
    frames = [drawn(colour) for colour in ("red", "green", "blue")]
    with pytest.raises(ProblemError) as stop:
        recognised(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert (stop.value.problem.kind, stop.value.problem.details["issue"]) == ("validation", "too_large")


def clip(heard: float, start: float = 0, form: str = "mp4") -> bytes:
    """Two seconds of pictures, with sound from `start` on for `heard` seconds."""
    import av
    import numpy as np

    odds, out = np.random.default_rng(5), io.BytesIO()
    with av.open(out, "w", format=form) as file:
        pictures = file.add_stream("h264", rate=12)
        pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
        sound = file.add_stream("aac", rate=48_000)
        sound.layout = "mono"
        for n in range(24):
            frame = av.VideoFrame.from_ndarray(odds.integers(0, 255, (48, 64, 3), dtype=np.uint8), format="rgb24")
            frame.pts, frame.time_base = n, Fraction(1, 12)
            file.mux(pictures.encode(frame))
        file.mux(pictures.encode())
        for at in range(0, int(heard * 48_000), 960):
            piece = av.AudioFrame.from_ndarray(np.full((1, 960), 0.1, dtype=np.float32), format="fltp", layout="mono")
            piece.sample_rate, piece.pts, piece.time_base = 48_000, int(start * 48_000) + at, Fraction(1, 48_000)
            file.mux(sound.encode(piece))
        file.mux(sound.encode())
    return out.getvalue()


@pytest.mark.parametrize(("heard", "start", "wrong"), [(2, 0, ""), (1.9, 0, ""), (0.1, 0, "sound"), (1, 0, "sound"), (0.5, 1.5, "sound")])
def test_sound_that_was_asked_for_is_heard_as_long_as_the_clip(heard, start, wrong):
    assert reason(clip(heard, start), CLIP) == wrong


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_a_clip_with_a_part_lost_is_not_accepted(share):
    data = bytearray(clip(2))
    at = data.index(b"mdat") + 4
    size = struct.unpack(">I", data[at - 8 : at - 4])[0] - 8
    lost = int(size * share)
    data[at + size - lost : at + size] = bytes(lost)
    assert reason(bytes(data), CLIP)


def test_nothing_stands_behind_a_sound():
    samples = b"\1\0" * 16_000
    head = struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16_000, 2, 16)
    data = b"RIFF" + struct.pack("<I", 36 + len(samples)) + b"WAVEfmt " + head + b"data" + struct.pack("<I", len(samples)) + samples
    work = Work(id="w", mode="audio", model="m", prompt="p", seconds=2)
    assert reason(data, work) == ""
    assert reason(data + PAGE, work) == "trailing"
