"""The embedded provider: pictures, clips and sounds made by a program on this machine, the same for the same work.

It draws what a prompt's own letters seed, in the colours it names, with the prompt written underneath; it understands nothing and says so
(`synthetic`). The files are real: they open, play, and have the size and length asked for. No state: a job is its work's id and the
work is kept by who asked.
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
from .picture import opened
from .provider import Found, Job, Output, Work

RATE: Final = 44_100
FPS: Final = 24
_COLOURS: Final = {
    "red": "#c8372d", "orange": "#e8833a", "yellow": "#f0c846", "green": "#3f8f57", "blue": "#3567b0", "purple": "#7a4fa3", "pink": "#e59ab5",
    "brown": "#7b563a", "black": "#20232a", "white": "#f3f1ea", "grey": "#8d939b", "gold": "#d9a441", "night": "#1c2440", "sunset": "#e8703a",
}  # fmt: skip
#: Semitones over 220 Hz of a scale in which any two sound well together.
_SCALE: Final = (0, 2, 4, 7, 9, 12, 14, 16)
Floats = NDArray[np.float64]


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


def _palette(prompt: str, rng: np.random.Generator) -> list[str]:
    named = [colour for word, colour in _COLOURS.items() if word in prompt.lower()]
    drawn = [str(colour) for colour in rng.permutation(list(_COLOURS.values()))]
    return list(dict.fromkeys([*named, *drawn]))


def _scene(work: Work, width: int, height: int) -> Image.Image:
    """A sky, hills, a few discs; the references side by side in the middle; the prompt underneath."""
    rng = _seed(work)
    colours = [np.array([int(c[i : i + 2], 16) for i in (1, 3, 5)], np.float64) for c in _palette(work.prompt, rng)[:6]]
    down = np.linspace(0, 1, height)[:, None, None]
    pixels: Floats = np.broadcast_to(colours[0] * (1 - down) + colours[1] * down, (height, width, 3)).copy()
    across, rows = np.arange(width), np.arange(height)[:, None]
    for n in range(3):
        ridge = height * (0.5 + 0.15 * n + 0.07 * np.sin(across / width * rng.uniform(4, 14) + rng.uniform(0, 6)))
        pixels[rows > ridge[None, :]] = colours[2 + n] * (0.9 - 0.2 * n)
    for _ in range(4):
        x, y, radius = rng.uniform(0.1, 0.9) * width, rng.uniform(0.08, 0.45) * height, rng.uniform(0.03, 0.12) * min(width, height)
        pixels[(across[None, :] - x) ** 2 + (rows - y) ** 2 < radius**2] = colours[5]
    image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    _hang(image, [opened(r.data).image for r in work.references if r.mime.startswith("image/")])
    _caption(image, work.prompt)
    return image


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
