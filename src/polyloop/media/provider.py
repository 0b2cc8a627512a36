"""The port to whoever makes media: submit once, then only ask. A provider keeps nothing here and retries nothing.

`submit` is called at most once for a piece of work. What it raises says what is known: `execution_started` False = refused, it never
began and costs nothing; None = the reply was lost, the work may be running and may cost. After that only `find` may be called, which
asks and never sends, and only providers to which the caller's own id was given can answer it. Seed: S1.80, S1.81, S1.90.
"""

from __future__ import annotations

from typing import Final, Literal, Protocol

from msgspec import Struct, field

from ..contract.problem import Problem

Mode = Literal["image", "video", "audio"]
State = Literal["queued", "running", "succeeded", "failed", "cancelled", "unknown"]


class Reference(Struct, frozen=True):
    """A picture, clip or sound that is given along."""

    mime: str
    data: bytes


class Work(Struct, frozen=True, kw_only=True):
    """What is asked for. `id` is ours, the same for ever for this piece of work; sizes in pixels, 0 = does not apply."""

    id: str
    mode: Mode
    model: str
    prompt: str
    width: int = 0
    height: int = 0
    seconds: float = 0
    sound: bool = False
    quality: str = ""
    references: tuple[Reference, ...] = ()


class Output(Struct, frozen=True):
    """One file of a result: where the provider keeps it, or its bytes where they came with the answer."""

    url: str = ""
    data: bytes = b""


class Job(Struct, frozen=True):
    """What a provider gave us to ask by: its id for the work, and plain addresses. `outputs` = the result, where it came at once;
    `stopped` = it has taken our wish to end it.
    """

    request_id: str
    links: dict[str, str] = field(default_factory=dict[str, str])
    outputs: tuple[Output, ...] = ()
    stopped: bool = False


class Found(Struct, frozen=True):
    """What a provider says now. `unknown` = it knows nothing of this work: neither done nor failed."""

    state: State
    outputs: tuple[Output, ...] = ()
    error: str = ""


class Facts(Struct, frozen=True, rename="camel"):
    """What a file proved to be. Pixels and seconds; 0 = does not apply. `sound_seconds` = how long sound goes with what is played; `frames`
    of a picture.
    """

    sha256: str
    mime_type: str
    bytes: int
    width: int = 0
    height: int = 0
    seconds: float = 0
    sound: bool = False
    sound_seconds: float = 0
    frames: int = 1


class Provider(Protocol):
    """Blocking; called from a thread. Raises ProblemError only."""

    #: Nothing real is made: said wherever its results are shown.
    synthetic: bool

    def submit(self, work: Work) -> Job: ...

    def poll(self, job: Job) -> Found:
        """Raises when it cannot be asked now; the work goes on."""
        ...

    def cancel(self, job: Job) -> None:
        """Ask for it. Whether it helped is what `poll` says."""
        ...

    def find(self, work_id: str) -> Job | None:
        """The job of a submission whose reply was lost; None = this provider cannot tell. Never sends."""
        ...

    def fetch(self, output: Output, limit: int) -> bytes:
        """The bytes of a result. May be asked again. Raises local_io when they cannot be had, validation when there are more than `limit`."""
        ...


def refused(why: Problem) -> bool:
    """Whether the provider itself said no, rather than that it could not be asked now."""
    status = why.details.get("status")
    return isinstance(status, int) and 400 <= status < 500 and status not in _LATER  # noqa: PLR2004  # what HTTP calls the asker's fault


#: Answers that mean: ask again.
_LATER: Final = frozenset({408, 425, 429})
