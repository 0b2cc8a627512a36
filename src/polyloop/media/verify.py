"""Is a file what was asked for? Decoded from the first frame to the last, measured, compared; a name or a header proves nothing.

Seed: S1.5, S1.36, S1.37.
"""

from __future__ import annotations

import hashlib
import io
from typing import Any, Final, get_args

import av
from av.audio.frame import AudioFrame
from av.error import PatchWelcomeError
from av.video.frame import VideoFrame
from PIL import Image

from ..contract.problem import ProblemError, problem
from . import limits
from .ending import ends
from .picture import Picture, every_frame, opened
from .provider import Facts, Mode, Work

#: Seconds a clip may be shorter or longer than asked: encoders end on whole frames.
SLACK_S: Final = 0.25
#: A frame smaller than this takes as long as one of so many pixels.
_LEAST_PX: Final = 1 << 14
#: Bytes at the end of a JPEG that must be of its picture.
_TAIL: Final = 64
#: Container names as the demuxer tells them -> media type.
_MIME: Final = {"mov,mp4,m4a,3gp,3g2,mj2": "video/mp4", "matroska,webm": "video/webm", "wav": "audio/wav", "mp3": "audio/mpeg", "ogg": "audio/ogg"}


def examined(data: bytes, mode: Mode, longest_s: float = limits.SECONDS) -> Facts:
    """Decode it whole, and no further than it may be long and large. Raises ProblemError(task_failed) for a file that is broken, empty, of
    another kind, or beyond that.
    """
    sha256 = hashlib.sha256(data).hexdigest()
    if wrong := ends(data):
        raise _wrong("truncated" if "before" in wrong else "trailing", wrong)
    if mode == "image":
        try:
            found = opened(data)
            _decoded(data, found)
        except ProblemError as stop:
            raise _wrong("size" if stop.problem.kind == "validation" else "not_decodable", stop.problem.message) from stop
        except Exception as error:
            raise _wrong("not_decodable", str(error)[:200]) from error
        return Facts(sha256, found.mime, len(data), *found.size, frames=found.frames)
    try:
        return _played(data, sha256, mode, longest_s)
    except ProblemError:
        raise
    except Exception as error:  # what a decoder makes of a stranger's file, nobody has listed
        raise _wrong("not_decodable", str(error)[:200]) from error


def recognised(data: bytes) -> Facts:
    """What a file of any of our kinds is. Raises ProblemError: type_mismatch for none, validation for one that is over a limit of ours."""
    over: ProblemError | None = None
    for mode in get_args(Mode):
        try:
            return examined(data, mode)
        except ProblemError as stop:
            over = over or (stop if stop.problem.details.get("reason") in ("size", "length") else None)
    if over is not None:
        why, details = over.problem.message.partition(": ")[2], {"field": "file", "issue": "too_large", **over.problem.details}
        raise problem("validation", f"this is more than is taken: {why}", stage="decode", details=details)
    raise problem("type_mismatch", "this is no picture, clip or sound that can be read whole", stage="decode")


def accepted(data: bytes, work: Work) -> Facts:
    """The facts of a result that is what was asked for. Raises ProblemError(task_failed) naming what differs."""
    facts = examined(data, work.mode, work.seconds + SLACK_S if work.seconds else limits.SECONDS)
    if work.width and (facts.width, facts.height) != (work.width, work.height):
        raise _wrong("size", f"{facts.width}x{facts.height} instead of {work.width}x{work.height}")
    if work.seconds and abs(facts.seconds - work.seconds) > SLACK_S:
        raise _wrong("length", f"{facts.seconds} s instead of {work.seconds} s")
    if work.mode == "video" and work.sound and not facts.sound:
        raise _wrong("sound", "the clip has no sound")
    if work.mode == "video" and work.sound and work.seconds and facts.sound_seconds < work.seconds - SLACK_S:
        raise _wrong("sound", f"its sound is heard for {facts.sound_seconds} s instead of {work.seconds} s")
    if work.mode == "image" and facts.frames > 1:
        raise _wrong("type", f"{facts.frames} pictures where one was asked for")
    return facts


def _decoded(data: bytes, found: Picture) -> None:
    """Every frame of it, and with a decoder that forgives nothing: the usual one fills up with grey what is missing of a JPEG."""
    if found.frames > 1:
        every_frame(data)
    if found.mime == "image/jpeg":
        codec: Any = av.CodecContext.create("mjpeg", "r")
        codec.options = {"err_detect": "explode"}
        try:
            codec.decode(av.Packet(data))
        except PatchWelcomeError:  # a variant it does not know has been decoded by the other one
            return
        if _spare(data):
            raise ValueError("there is more in it than its picture")


def _spare(data: bytes) -> bool:
    """Whether the last bytes of a JPEG are nothing of its picture: other bytes there make the same one. (Those of a flat one are all alike.)"""
    end = data.rindex(b"\xff\xd9")
    tail = data[max(0, end - _TAIL) : end]
    if len(set(tail)) < _TAIL // 4:
        return False
    other = data[: end - len(tail)] + bytes((byte ^ 0x5A) & 0xFE for byte in tail) + data[end:]
    try:
        with Image.open(io.BytesIO(data)) as one, Image.open(io.BytesIO(other)) as two:
            return one.tobytes() == two.tobytes()
    except OSError:  # they break the decoder, so it does read them
        return False


def _played(data: bytes, sha256: str, mode: Mode, longest_s: float) -> Facts:
    with av.open(io.BytesIO(data), "r") as container:
        mime = _MIME.get(container.format.name, "")
        if not mime.startswith(mode) and (mode, mime) != ("audio", "video/mp4"):
            raise _wrong("type", f"{container.format.name} where {mode} was asked for")
        streams = [stream for stream in container.streams if stream.type in ("video", "audio")]
        if not any(stream.type == mode for stream in streams) or (mode == "audio" and len(streams) > 1):
            raise _wrong("type", f"there is no {mode} in it" if streams else "there is nothing in it")
        for stream in streams:
            stream.codec_context.options = {"err_detect": "explode"}
        spans: dict[str, tuple[float, float]] = {}
        size, seen = (0, 0), 0
        for packet in container.demux(streams):
            for frame in packet.decode():
                if isinstance(frame, VideoFrame | AudioFrame) and (packet.is_corrupt or frame.is_corrupt):
                    raise _wrong("not_decodable", "a part of it is damaged")
                if isinstance(frame, VideoFrame):
                    size = _same_size(size, (frame.width, frame.height))
                    seen += max(size[0] * size[1], _LEAST_PX)
                    rate = packet.stream.average_rate if packet.stream.type == "video" else None
                    spans["video"] = _span(spans.get("video"), float(frame.time or 0), float(1 / rate) if rate else 0)
                elif isinstance(frame, AudioFrame):
                    spans["audio"] = _span(spans.get("audio"), float(frame.time or 0), frame.samples / frame.sample_rate)
                if any(end - start > longest_s for start, end in spans.values()):
                    raise _wrong("length", f"longer than {longest_s} s")
                if seen > limits.CLIP_PIXELS:
                    raise _wrong("length", f"its frames have more than {limits.CLIP_PIXELS} pixels")
    if mode not in spans:
        raise _wrong("not_decodable", "not one frame of it can be decoded")
    mime = "audio/mp4" if (mode, mime) == ("audio", "video/mp4") else mime
    (start, end), (first, last) = spans[mode], spans.get("audio", (0.0, 0.0))
    heard = max(0.0, min(end, last) - max(start, first))
    seconds = round(end - start, 3)
    return Facts(sha256, mime, len(data), *size, seconds=seconds, sound="audio" in spans, sound_seconds=round(heard, 3))


def _span(known: tuple[float, float] | None, at: float, length: float) -> tuple[float, float]:
    """From where to where a stream goes, with one more frame: a clip need not begin at 0."""
    start, end = known or (at, at)
    return min(start, at), max(end, at + length)


def _same_size(known: tuple[int, int], size: tuple[int, int]) -> tuple[int, int]:
    if max(size) > limits.SIDE_PX or size[0] * size[1] > limits.PIXELS:
        raise _wrong("size", f"{size[0]}x{size[1]} is too large")
    if known not in ((0, 0), size):
        raise _wrong("size", f"{known[0]}x{known[1]} becomes {size[0]}x{size[1]}")
    return size


def _wrong(reason: str, why: str) -> Exception:
    details: dict[str, Any] = {"reason": reason}
    return problem("task_failed", f"the result is not what was asked for: {why}", stage="verify", execution_started=True, details=details)
