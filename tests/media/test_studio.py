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
def test_S1_5_a_made_file_decodes_whole_and_is_what_was_asked_for(mode, files):
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
