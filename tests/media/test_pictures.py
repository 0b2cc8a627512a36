"""Tools that look at pictures: what is measured, read, drawn and taken apart, against pictures whose content is known."""

from __future__ import annotations

import hashlib
import io
import os
import random
import struct
import sys
import zlib

import pytest

from polyloop.contract.problem import ProblemError
from polyloop.media import limits
from polyloop.media.picture import libraries, opened, png
from tests import outside

pytestmark = pytest.mark.needs("media")


def _plain(text: str) -> str:
    return text.replace(" ", "").lower()


def _distance(one: str, other: str) -> int:
    """Edits from one to the other."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def test_S1_69_a_look_states_facts_of_the_bytes():
    from polyloop.media.look import measured
    from tests.media.scenes import scene

    data, _ = scene("two things")
    found = measured(opened(data), data)
    assert (found["width"], found["height"], found["mimeType"], found["alpha"]) == (640, 400, "image/jpeg", False)
    assert found["sha256"] == hashlib.sha256(data).hexdigest()
    assert found["bytes"] == len(data)
    assert 0.5 < found["brightness"] < 0.8
    assert len(found["colours"]) == limits.COLOURS
    assert sum(c["share"] for c in found["colours"]) == pytest.approx(1, abs=0.01)
    assert measured(opened(data), data) == found


def test_S1_70_random_strings_in_a_bare_jpeg_are_read():
    from polyloop.media.text import lines
    from tests.media.scenes import jpeg, words, written

    rng = random.Random(20)
    strings = [words(rng) for _ in range(24)]
    wrong = total = 0
    for start in range(0, len(strings), 12):
        part = strings[start : start + 12]
        found = lines(opened(jpeg(written(part))).image)
        wrong += sum(min((_distance(_plain(s), _plain(line.text)) for line in found), default=len(s)) for s in part)
        total += sum(len(_plain(s)) for s in part)
        for line, string in zip(found, part, strict=True):  # in reading order, each in its own place
            assert 0 < line.box[0] < 0.1, string
            assert all(0 <= part <= 1 for part in line.box)
    assert 1 - wrong / total >= 0.99, "0.98 is asked for; a line that is read with doubt is read again"


def test_S1_83_labels_drawn_on_a_picture_can_be_read_again_and_the_source_stays():
    from polyloop.media.annotate import Annotation, rendered
    from polyloop.media.text import lines
    from tests.media.scenes import busy, words

    rng = random.Random(3)
    notes = [Annotation(words(rng)[:14].strip(), rng.random(), rng.random()) for _ in range(limits.ANNOTATIONS)]
    source = busy()
    before = source.tobytes()
    out = rendered(source, notes)
    assert source.tobytes() == before
    assert out.overlay.size == out.composite.size == source.size
    found = {_plain(line.text) for line in lines(out.composite)}
    read = sum(any(_plain(note.label) in text for text in found) for note in notes)
    assert read / len(notes) >= 0.95
    assert out.unshown == ""


def test_S1_83_an_annotation_never_leaves_the_frame_and_names_what_it_cannot_show():
    from PIL import Image

    from polyloop.media.annotate import Annotation, rendered

    corners = [Annotation("角" * limits.LABEL_CHARS, x, y) for x in (0.0, 1.0) for y in (0.0, 1.0)]
    out = rendered(Image.new("RGB", (320, 200), "navy"), [*corners, Annotation("𠮷😀ok", 0.5, 0.5)])
    assert out.unshown == "😀𠮷"
    left, top, right, bottom = out.overlay.getbbox() or (0, 0, 0, 0)
    assert left >= 0
    assert top >= 0
    assert right <= 320
    assert bottom <= 200


def test_S1_84_nothing_is_drawn_but_what_was_asked_for():
    from PIL import Image, ImageChops

    from polyloop.media.annotate import Annotation, rendered

    source = Image.new("RGB", (320, 200), "navy")
    one, other = Annotation("a", 0.25, 0.5), Annotation("b", 0.75, 0.5)
    left, right = rendered(source, [one]), rendered(source, [other])
    assert left.overlay.getbbox()[2] < 160 < right.overlay.getbbox()[0], "each mark stands where its own was asked for"
    clear = left.overlay.getchannel("A").point(lambda alpha: 0 if alpha else 255)
    assert ImageChops.multiply(ImageChops.difference(left.composite.convert("RGB"), source), Image.merge("RGB", [clear] * 3)).getbbox() is None


def test_S1_83_points_are_those_of_the_upright_picture():
    """A photo that says in its EXIF to be turned is drawn on as people see it."""
    from PIL import Image

    from tests.media.scenes import jpeg

    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.new("RGB", (80, 40), "white")
    image.paste("red", (0, 0, 20, 20))
    shown = opened(jpeg(image, exif=exif))
    assert shown.size == (40, 80)
    assert shown.image.getpixel((35, 5))[1] < 100  # the red corner has turned to the right


@pytest.mark.parametrize("name", ["two things", "beach", "hill"])
def test_S1_85_colour_regions_are_the_things_of_a_known_scene(name):
    import numpy as np

    from polyloop.media.layers import recomposed, split
    from tests.media.scenes import overlap, scene

    data, masks = scene(name)
    image = opened(data).image
    layers = split(image, "colour-regions")
    assert np.array_equal(recomposed(layers)[:, :, :3], np.asarray(image))
    assert sum(0.02 <= layer.coverage <= 0.9 for layer in layers) >= 2
    seen = [np.asarray(layer.image)[:, :, 3] > 0 for layer in layers]
    assert [max(overlap(mask, one) for one in seen) >= 0.85 for mask in masks] == [True] * len(masks)


def test_S1_85_an_object_is_cut_out_around_the_point_a_person_set():
    import numpy as np

    from polyloop.media.layers import recomposed, split
    from tests.media.scenes import overlap, scene

    data, (disc, box) = scene("two things")
    image = opened(data).image
    layers = split(image, "point-cut", [(180 / 640, 180 / 400), (460 / 640, 225 / 400)])
    assert np.array_equal(recomposed(layers)[:, :, :3], np.asarray(image))
    assert [layer.name for layer in layers] == ["background", "object 1", "object 2"]
    assert overlap(np.asarray(layers[1].image)[:, :, 3] > 0, disc) >= 0.85
    assert overlap(np.asarray(layers[2].image)[:, :, 3] > 0, box) >= 0.85


def test_S1_85_the_text_layer_leaves_a_background_without_text():
    import numpy as np

    from polyloop.media.layers import recomposed, split
    from polyloop.media.text import lines
    from tests.media.scenes import written

    image = written(["夏日海滩", "SUMMER BEACH"], (420, 140))
    background, writing = split(image, "text-layer")
    assert np.array_equal(recomposed([background, writing])[:, :, :3], np.asarray(image))
    assert lines(background.image) == []
    assert {_plain(line.text) for line in lines(writing.image)} == {"夏日海滩", "summerbeach"}
    assert writing.coverage < 0.3


def test_S1_85_layers_recompose_whatever_the_transparency():
    import numpy as np
    from PIL import Image

    from polyloop.media.layers import recomposed, split
    from tests.media.scenes import scene

    rng = np.random.default_rng(7)
    pixels = np.dstack([np.asarray(opened(scene("beach")[0]).image), rng.integers(0, 256, (400, 640), dtype=np.uint8)])
    image = opened(png(Image.fromarray(pixels))).image
    pixels[pixels[:, :, 3] == 0] = 0
    assert np.array_equal(recomposed(split(image, "colour-regions")), pixels)


@pytest.mark.parametrize(("method", "kind"), [("colour-regions", "task_failed"), ("text-layer", "task_failed"), ("point-cut", "validation")])
def test_S1_91_nothing_to_part_is_said_and_not_made_up(method, kind):
    from PIL import Image

    from polyloop.media.layers import split

    with pytest.raises(ProblemError) as stop:
        split(Image.new("RGB", (64, 64), "teal"), method)
    assert stop.value.problem.kind == kind


def _png_of(width: int, height: int) -> bytes:
    """A PNG that only says it is so large."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))  # noqa: E731
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def _truncated() -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.effect_noise((200, 200), 80).save(out, "PNG")
    return out.getvalue()[:-2000]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (lambda: b"", "type_mismatch"), (lambda: b"<svg xmlns='x'/>", "type_mismatch"), (lambda: b"%PDF-1.7", "type_mismatch"),
        (_truncated, "type_mismatch"), (lambda: _png_of(50_000, 50_000), "validation"), (lambda: _png_of(8_000, 8_000), "validation"),
        (lambda: _png_of(9_000, 10), "validation"), (lambda: b"\x89PNG" + bytes(limits.PICTURE_BYTES), "validation"),
    ],
    ids=["empty", "svg", "pdf", "truncated", "a bomb", "too many pixels", "too long a side", "too many bytes"],
)  # fmt: skip
def test_hostile_bytes_are_a_typed_error(data, kind):
    with pytest.raises(ProblemError) as stop:
        opened(data())
    assert stop.value.problem.kind == kind


def test_S1_91_a_missing_extra_is_no_capability_and_other_faults_are_themselves(monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] == "PIL"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ProblemError) as stop:
        opened(b"x")
    assert (stop.value.problem.kind, stop.value.problem.details) == ("capability_unavailable", {"extra": "media"})
    with pytest.raises(ModuleNotFoundError), libraries():
        raise ModuleNotFoundError(name="elsewhere")


def test_the_shipped_font_tells_two_characters_apart():
    from PIL import ImageFont

    from polyloop.formats.font import FONT

    font = ImageFont.truetype(str(FONT), 24)
    shapes = [bytes(font.getmask(c)) for c in "中国人Aé，。“”①"]
    assert len(set(shapes)) == len(shapes)
    assert all(any(shape) for shape in shapes)
    assert "SIL Open Font License" in FONT.with_name("OFL.txt").read_text()


def test_the_engine_that_reads_text_keeps_no_account_of_it_for_its_maker(tmp_path):
    """It would begin with a session file among the temporary ones."""
    code = "from PIL import Image; from polyloop.media.text import lines; lines(Image.new('RGB', (64, 32)))"
    done = outside.run("-c", code, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr, [*tmp_path.iterdir()]) == (0, "", [])
