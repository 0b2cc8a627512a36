"""The embedded provider: pictures, clips and sounds made by a program on this machine, the same for the same work.

It draws the things, colours and hour that a prompt names in words it knows (`shapes`), the rest as its letters seed it, with the prompt written
underneath; it understands nothing and says so (`synthetic`). The files are real: they open, play, and have the size and length asked for.
No state: a job is its work's id and the work is kept by who asked.
"""

from __future__ import annotations

import hashlib
import io
import wave
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from ..contract.problem import problem
from ..formats.font import FONT
from ..words.drawing import named
from . import shapes
from .picture import opened
from .provider import Found, Job, Output, Work

#: Things that are drawn at most.
_THINGS: Final = 5
RATE: Final = 44_100
FPS: Final = 24
#: Semitones over 220 Hz of a scale in which any two sound well together.
_SCALE: Final = (0, 2, 4, 7, 9, 12, 14, 16)
Floats = NDArray[np.floating[Any]]


class Studio:
    """`work_of(id)` gives the work back."""

    synthetic = True

    def __init__(self, work_of: Callable[[str], Work]) -> None:
        self._work_of = work_of

    def submit(self, work: Work) -> Job:
        return Job(work.id)

    def poll(self, job: Job) -> Found:
        return Found("succeeded", (Output(url=f"studio:{job.request_id}"),))

    def cancel(self, job: Job) -> None:
        return  # a job here is done as soon as it is asked for

    def find(self, work_id: str) -> Job | None:
        return Job(work_id)

    def fetch(self, output: Output, limit: int) -> bytes:
        work = self._work_of(output.url.removeprefix("studio:"))
        data = _MAKERS[work.mode](work)
        if len(data) > limit:
            raise problem("validation", f"the result has more than {limit} bytes", stage="fetch")
        return data


def _seed(work: Work) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(f"{work.mode}\0{work.prompt}".encode()).digest()[:8], "big"))


def _scene(work: Work, width: int, height: int) -> Image.Image:
    """A sky, hills, water and the things that are named; the references side by side in the middle; the prompt underneath."""
    rng = _seed(work)
    hour = next((colours for name, colours in shapes.HOURS if named(name, work.prompt) >= 0), None)
    sky, low, *hills = (_rgb(colour) for colour in hour or shapes.DAYS[int(rng.integers(len(shapes.DAYS)))])
    down = np.linspace(0, 1.6, height, dtype=np.float32).clip(0, 1)[:, None, None]
    pixels: Floats = np.broadcast_to(sky * (1 - down) + low * down, (height, width, 3)).copy()
    across, rows = np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)[:, None]
    for n, hill in enumerate(hills):
        ridge = height * (0.52 + 0.13 * n + 0.06 * np.sin(across / width * rng.uniform(4, 12) + rng.uniform(0, 6))).astype(np.float32)
        _laid(pixels, rows - ridge[None, :], hill)
    if named("water", work.prompt) >= 0:
        below = ((rows - 0.6 * height) / (0.4 * height)).clip(0, 1)
        middle = width * (0.5 + 0.16 * (1 - below) * np.sin(5 * below + rng.uniform(0, 6)))
        inside = (0.02 + 0.3 * below**1.5) * width * (below > 0) - (below == 0) - np.abs(across[None, :] - middle)
        _laid(pixels, inside, low * 0.35 + _rgb("#2f6fb8") * 0.65)
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    _things(image, work.prompt, rng)
    _hang(image, [opened(r.data).image for r in work.references if r.mime.startswith("image/")])
    _caption(image, work.prompt)
    return image


def _rgb(colour: str) -> Floats:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.float32)


def _laid(pixels: Floats, inside: Floats, colour: Floats) -> None:
    """A colour where `inside` (pixels to the edge) is above 0, with a soft edge."""
    cover = (inside + 0.5).clip(0, 1)[:, :, None]
    pixels += cover * (colour - pixels)


def _things(image: Image.Image, prompt: str, rng: np.random.Generator) -> None:
    """What the prompt names, or some discs: in the sky what belongs there, the rest on the hills, what is named first the largest."""
    width, height = image.size
    colour = next((c for name, c in shapes.COLOURS.items() if named(name, prompt) >= 0), "")
    found = sorted((at, n) for n, thing in enumerate(shapes.THINGS) if (at := named(thing.name, prompt)) >= 0)
    things = [shapes.THINGS[n] for _, n in found[:_THINGS]] or list(shapes.PLAIN)
    first = next((thing for thing in things if thing.place == "hill"), things[0])
    places = {"sky": [*rng.permutation([0.2, 0.5, 0.8]), 0.35, 0.65], "hill": [*rng.permutation([0.3, 0.6, 0.85]), 0.15, 0.45]}
    for thing in (*(t for t in things if t.place == "sky"), *reversed([t for t in things if t.place == "hill"])):
        sky = thing.place == "sky"
        side = max(8, round(min(width, height) * (0.24 if sky else 0.44 if thing is first else 0.26)))
        x = places[thing.place].pop(0) * width - side / 2
        y = height * rng.uniform(0.06, 0.16) if sky else height * 0.84 - side
        drawn = shapes.drawn(thing, side, colour if colour and thing is first else thing.colour)
        image.paste(drawn, (round(min(max(0, x), width - side)), round(y)), drawn)


def _hang(image: Image.Image, references: list[Image.Image]) -> None:
    side = min(image.height // 3, image.width // max(1, len(references)) * 2 // 3)
    for n, reference in enumerate(references):
        small = reference.convert("RGB")
        small.thumbnail((side, side))
        image.paste(small, (round((n + 0.5) * image.width / len(references)) - small.width // 2, (image.height - small.height) // 2))


def _caption(image: Image.Image, prompt: str) -> None:
    letter = max(10, min(image.size) // 22)
    font, text = ImageFont.truetype(str(FONT), letter), " ".join(prompt.split())
    while text and font.getlength(text) > image.width - 2 * letter:
        text = text[: -max(1, len(text) // 20)]
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, image.height - 2 * letter, image.width, image.height), fill="#15171c")
    draw.text((letter, image.height - letter), text, font=font, fill="#f3f1ea", anchor="lm")


def _picture(work: Work) -> bytes:
    note, out = PngInfo(), io.BytesIO()
    note.add_text("synthetic", "true")
    note.add_text("prompt-sha256", hashlib.sha256(work.prompt.encode()).hexdigest())
    _scene(work, work.width, work.height).save(out, "PNG", pnginfo=note)
    return out.getvalue()


def _tones(work: Work) -> NDArray[np.int16]:
    """A slow arpeggio, mono."""
    rng, samples = _seed(work), round(work.seconds * RATE)
    sound: Floats = np.zeros(samples)
    step = RATE // 3
    for n, at in enumerate(range(0, samples, step)):
        length = min(2 * step, samples - at)
        time = np.arange(length) / RATE
        pitch = 220 * 2 ** (_SCALE[int(rng.integers(len(_SCALE)))] / 12) * (1 if n % 4 else 0.5)
        sound[at : at + length] += np.sin(2 * np.pi * pitch * time) * np.exp(-3 * time) * np.minimum(1, time * 60)
    return (sound / max(1.0, float(np.abs(sound).max(initial=1))) * 24_000).astype(np.int16)


def _sound(work: Work) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(_tones(work).astype("<i2").tobytes())
    return out.getvalue()


#: With its weighing of blocks by what follows them (mbtree) the encoder wrote another file each time, with one thread too.
ENCODER: Final = {"preset": "veryfast", "crf": "26", "threads": "1", "mbtree": "0"}


def _clip(work: Work) -> bytes:
    """H.264 and, if wanted, AAC in MP4: the scene, drifting. The same bytes each time, so a result asked for again after a crash
    is the same asset: one thread, and none of the encoder's shortcuts that depend on the machine or on what memory held before.
    """
    out, frames = io.BytesIO(), round(work.seconds * FPS)
    room = max(work.width, work.height) // 10 // 2 * 2
    wide = np.asarray(_scene(work, work.width + room, work.height))
    container: Any  # the streams of the library are typed by halves
    with av.open(out, "w", format="mp4") as container:
        video = container.add_stream("libx264", rate=FPS, options=ENCODER)
        video.width, video.height, video.pix_fmt = work.width, work.height, "yuv420p"
        audio = container.add_stream("aac", rate=RATE, layout="mono") if work.sound else None
        for n in range(frames):
            left = round(room * n / max(1, frames - 1))
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(wide[:, left : left + work.width]), format="rgb24")
            frame.pts, frame.time_base = n, Fraction(1, FPS)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        if audio is not None:
            sound = av.AudioFrame.from_ndarray(_tones(work)[None, :], format="s16", layout="mono")
            sound.sample_rate, sound.pts, sound.time_base = RATE, 0, Fraction(1, RATE)
            container.mux(audio.encode(sound))
            container.mux(audio.encode(None))
    return out.getvalue()


_MAKERS: Final[dict[str, Callable[[Work], bytes]]] = {"image": _picture, "video": _clip, "audio": _sound}
