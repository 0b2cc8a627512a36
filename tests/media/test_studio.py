"""The embedded provider's files are real, deterministic and measured; the check of results believes nothing but their bytes."""

from __future__ import annotations

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.media.provider import Output, Reference, Work

pytestmark = pytest.mark.needs("media")

WORKS = {
    "image": Work(id="w1", mode="image", model="studio", prompt="夕阳下的红色狐狸 red fox", width=640, height=360),
    "video": Work(id="w2", mode="video", model="studio", prompt="night river", width=320, height=180, seconds=2, sound=True),
    "audio": Work(id="w3", mode="audio", model="studio", prompt="calm", seconds=3),
}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {mode: _made(work) for mode, work in WORKS.items()}


def _made(work: Work) -> bytes:
    from polyloop.media.studio import Studio

    studio = Studio({work.id: work}.__getitem__)
    return studio.fetch(studio.poll(studio.submit(work)).outputs[0], 1 << 26)


@pytest.mark.parametrize("mode", WORKS)
def test_S1_36_a_made_file_decodes_whole_and_is_what_was_asked_for(mode, files):
    from polyloop.media.verify import accepted

    facts = accepted(files[mode], WORKS[mode])
    assert (facts.width, facts.height) == (WORKS[mode].width, WORKS[mode].height)
    assert facts.seconds == pytest.approx(WORKS[mode].seconds, abs=0.1)
    assert {_made(WORKS[mode]) for _ in range(6)} == {files[mode]}


def test_the_picture_says_that_it_is_synthetic(files):
    import io

    from PIL import Image

    assert Image.open(io.BytesIO(files["image"])).text["synthetic"] == "true"


def test_references_are_seen_in_the_result(files):
    from msgspec.structs import replace

    work = replace(WORKS["image"], references=(Reference("image/png", files["image"]),))
    assert _made(work) != files["image"]


@pytest.mark.parametrize("mode", WORKS)
@pytest.mark.parametrize("left", [0, 10, 0.5, -400, -20, -3])
def test_S1_37_a_truncated_file_is_never_accepted(mode, left, files):
    from polyloop.media.verify import accepted

    data = files[mode]
    cut = data[: int(len(data) * left)] if isinstance(left, float) else data[:left]
    with pytest.raises(ProblemError) as stop:
        accepted(cut, WORKS[mode])
    assert stop.value.problem.kind == "task_failed"
    assert stop.value.problem.details["reason"] in ("truncated", "not_decodable", "length", "type")


@pytest.mark.parametrize(
    ("made", "asked", "more", "reason"),
    [
        ("image", "video", {}, "not_decodable|type"), ("video", "audio", {}, "type"), ("audio", "video", {}, "type"),
        ("audio", "image", {}, "not_decodable"),
        ("image", "image", {"width": 641}, "size"), ("video", "video", {"seconds": 3}, "length"), ("audio", "audio", {"seconds": 2}, "length"),
        ("video", "video", {"height": 360}, "size"),
    ],
)  # fmt: skip
def test_S1_37_a_file_of_another_type_size_or_length_is_never_accepted(made, asked, more, reason, files):
    from msgspec.structs import replace

    from polyloop.media.verify import accepted

    with pytest.raises(ProblemError) as stop:
        accepted(files[made], replace(WORKS[asked], **more))
    assert stop.value.problem.details["reason"] in reason.split("|")


def test_a_silent_clip_where_sound_was_asked_for_is_not_accepted():
    from msgspec.structs import replace

    from polyloop.media.verify import accepted

    silent = replace(WORKS["video"], sound=False, seconds=1)
    data = _made(silent)
    assert not accepted(data, silent).sound
    with pytest.raises(ProblemError) as stop:
        accepted(data, replace(silent, sound=True))
    assert stop.value.problem.details["reason"] == "sound"


def test_a_result_over_the_limit_is_refused():
    from polyloop.media.studio import Studio

    studio = Studio({"w1": WORKS["image"]}.__getitem__)
    with pytest.raises(ProblemError):
        studio.fetch(Output(url="studio:w1"), 100)
    assert studio.find("w1") == studio.submit(WORKS["image"])
    assert studio.cancel(studio.submit(WORKS["image"])) is None


def _png(width: int, height: int) -> bytes:
    """A PNG that says to be so large, and is a few bytes."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 4096)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(60_000, 60_000), (8_193, 1), (2**31 - 1, 2**31 - 1), (0, 0), (640, 360)])
def test_S1_37_a_picture_that_unpacks_to_more_than_it_may_is_refused_before_it_does(size):
    from polyloop.media.verify import accepted, recognised

    data = _png(*size)
    with pytest.raises(ProblemError) as stop:
        accepted(data, WORKS["image"])
    assert stop.value.problem.kind == "task_failed"
    with pytest.raises(ProblemError) as stop:
        recognised(data)
    assert stop.value.problem.kind == ("validation" if max(size) > 8_192 else "type_mismatch")  # a picture, but too large


def test_S1_37_a_file_that_is_two_kinds_at_once_is_what_its_bytes_decode_to_or_nothing(files):
    from polyloop.media.verify import accepted

    page = b"<html><script>alert(1)</script></html>"
    for data in (
        files["image"] + page,
        page + files["image"],
        files["video"] + page,
        b"GIF89a" + page + b";",
        b"\x89PNG\r\n\x1a\n" + page + b"IEND\xaeB`\x82",
    ):
        with pytest.raises(ProblemError):
            accepted(data, WORKS["video" if data.startswith(files["video"]) else "image"])


def test_S1_37_a_clip_is_decoded_no_further_than_it_may_be_long(files):
    from msgspec.structs import replace

    from polyloop.media.verify import accepted, examined

    with pytest.raises(ProblemError) as stop:
        accepted(files["video"], replace(WORKS["video"], seconds=1))
    assert stop.value.problem.details["reason"] == "length"
    assert "longer than 1.25" in stop.value.problem.message
    assert examined(files["video"], "video", 3).seconds == pytest.approx(2, abs=0.1)


def test_a_clip_that_does_not_begin_at_nought_is_as_long_as_it_is(files):
    import io

    import av

    from polyloop.media.verify import accepted

    out = io.BytesIO()
    with av.open(io.BytesIO(files["video"])) as source, av.open(out, "w", format="matroska") as target:
        streams = {s.index: target.add_stream_from_template(s) for s in source.streams}
        for packet in source.demux():
            if packet.pts is not None and packet.dts is not None:
                shift = int(7 / packet.time_base)
                packet.pts, packet.dts, packet.stream = packet.pts + shift, packet.dts + shift, streams[packet.stream.index]
                target.mux(packet)
    assert accepted(out.getvalue(), WORKS["video"]).seconds == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("mode", WORKS)
def test_S1_37_a_damaged_file_is_judged_and_never_breaks_the_judge(mode, files):
    """Facts or a typed refusal, whatever the bytes: decoders fail in many ways."""
    import random

    odds, small = random.Random(11), _made(Work(id="w", mode=mode, model="studio", prompt="x", width=64, height=48, seconds=1))
    for _ in range(40):
        data = bytearray(small)
        for _ in range(odds.choice([1, 4, 40])):
            data[odds.randrange(min(len(data), odds.choice([64, 600, len(data)])))] = odds.randrange(256)
        found = _judged(bytes(data), Work(id="w", mode=mode, model="studio", prompt="x", width=64, height=48, seconds=1))
        assert found.startswith((mode, "task_failed")), found


def _judged(data: bytes, work: Work) -> str:
    """Its type, or the kind of its refusal."""
    from polyloop.media.verify import accepted

    try:
        return accepted(data, work).mime_type
    except ProblemError as stop:
        return stop.problem.kind


NAMED = {"夕阳下的红色狐狸": ["sun", "fox"], "A red fox at sunset": ["fox", "sun"], "scatter boatload": [], "夜里安静的河": ["moon"]}


@pytest.mark.parametrize(("prompt", "names"), NAMED.items())
def test_what_a_prompt_names_is_drawn_and_nothing_is_read_into_it(prompt, names):
    import numpy as np

    from polyloop.media.picture import opened
    from polyloop.media.shapes import COLOURS, THINGS
    from polyloop.words.drawing import NAMES, named

    assert {t.name for t in THINGS} | set(COLOURS) <= set(NAMES)
    found = sorted((at, t.name) for t in THINGS if (at := named(t.name, prompt)) >= 0)
    assert [name for _, name in found] == names
    pixels = np.asarray(opened(_made(Work(id="w", mode="image", model="s", prompt=prompt, width=256, height=144))).image, np.int16)
    red = (np.abs(pixels - [200, 55, 45]).sum(axis=2) < 12).mean()
    assert (red > 0.01) == ("fox" in names), "the colour is that of the thing it is said of"
