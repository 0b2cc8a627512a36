"""Is a file what was asked for? Decoded from the first frame to the last, measured, compared; a name or a header proves nothing.

Seed: S1.5, S1.36, S1.37.
"""

from __future__ import annotations

import hashlib
import io
from typing import Any, Final, get_args

import av
from av.audio.frame import AudioFrame
from av.video.frame import VideoFrame

from ..contract.problem import ProblemError, problem
from . import limits
from .picture import opened
from .provider import Facts, Mode, Work

#: Seconds a clip may be shorter or longer than asked: encoders end on whole frames.
SLACK_S: Final = 0.25
#: A frame smaller than this takes as long as one of so many pixels.
_LEAST_PX: Final = 1 << 14
#: Container names as the demuxer tells them -> media type.
_MIME: Final = {"mov,mp4,m4a,3gp,3g2,mj2": "video/mp4", "matroska,webm": "video/webm", "wav": "audio/wav", "mp3": "audio/mpeg", "ogg": "audio/ogg"}


def examined(data: bytes, mode: Mode, longest_s: float = limits.SECONDS) -> Facts:
    """Decode it whole, and no further than it may be long and large. Raises ProblemError(task_failed) for a file that is broken, empty, of
    another kind, or beyond that.
    """
    sha256 = hashlib.sha256(data).hexdigest()
    if not _whole(data):
        raise _wrong("truncated", "the file ends before it says it does")
    if mode == "image":
        try:
            found = opened(data)
        except ProblemError as stop:
            raise _wrong("size" if stop.problem.kind == "validation" else "not_decodable", stop.problem.message) from stop
        except Exception as error:
            raise _wrong("not_decodable", str(error)[:200]) from error
        return Facts(sha256, found.mime, len(data), *found.size)
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
    return facts


def _whole(data: bytes) -> bool:
    """Does it end where it says? Decoders forgive a missing tail; a format unknown here is theirs to judge."""
    if data.startswith(b"\x89PNG"):
        return data.rstrip(b"\0").endswith(b"IEND\xaeB`\x82")
    if data.startswith(b"\xff\xd8"):
        return data.rfind(b"\xff\xd9") > data.rfind(b"\xff\xda")
    if data.startswith(b"GIF8"):
        return data.rstrip(b"\0").endswith(b";")
    if data.startswith(b"RIFF"):
        return len(data) >= int.from_bytes(data[4:8], "little") + 8
    if data[4:8] == b"ftyp":
        return _boxes_fit(data)
    return True


def _boxes_fit(data: bytes) -> bool:
    """The boxes of an MP4 cover it exactly; 0 as a length = up to the end, 1 = the length stands in the 8 bytes behind."""
    at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size == 0:
            return True
        size = int.from_bytes(data[at + 8 : at + 16], "big") if size == 1 else size
        if size < 8:  # noqa: PLR2004  # a box has at least its head
            return False
        at += size
    return at == len(data)


def _played(data: bytes, sha256: str, mode: Mode, longest_s: float) -> Facts:
    with av.open(io.BytesIO(data), "r") as container:
        mime = _MIME.get(container.format.name, "")
        if not mime.startswith(mode) and (mode, mime) != ("audio", "video/mp4"):
            raise _wrong("type", f"{container.format.name} where {mode} was asked for")
        streams = [stream for stream in container.streams if stream.type in ("video", "audio")]
        if not any(stream.type == mode for stream in streams) or (mode == "audio" and len(streams) > 1):
            raise _wrong("type", f"there is no {mode} in it" if streams else "there is nothing in it")
        spans: dict[str, tuple[float, float]] = {}
        size, seen = (0, 0), 0
        for packet in container.demux(streams):
            for frame in packet.decode():
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
    return Facts(sha256, mime, len(data), *size, seconds=round(spans[mode][1] - spans[mode][0], 3), sound="audio" in spans)


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
