"""A media provider played from lists, for what a worker makes of its words. Nothing is sent anywhere.

provider = ScriptedProvider(poll=[Found("running"), LOST, Found("succeeded", (Output(url="u"),))])
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

from PIL import Image

from polyloop.contract.problem import problem
from polyloop.media.provider import Found, Job, Output, Work

#: What a provider's refusal, a lost reply and an unreachable host come to.
REFUSED: Final = problem("task_failed", "the provider answered 404", stage="reply", execution_started=False, details={"status": 404})
LOST: Final = problem("invalid_response", "the reply was lost", stage="reply", execution_started=None)
DOWN: Final = problem("capability_unavailable", "the provider cannot be reached", stage="connect")
DONE: Final = Found("succeeded", (Output(url="u"),))


def red(width: int = 512, height: int = 512) -> bytes:
    """A PNG of this size."""
    out = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(out, "PNG")
    return out.getvalue()


def _accepted(work: Work) -> Job:
    return Job(work.id)


class ScriptedProvider:
    """Each verb gives its lines one after the other, the last one for ever; a line that is an exception is raised, one that can be called is
    called with what the verb was given. `seen` holds every word, in order.
    """

    synthetic = False

    def __init__(self, **lines: Sequence[Any]) -> None:
        """By verb: submit, poll, cancel, find, fetch; those not given go well, and the file is red and of the size asked for."""
        self._lines: dict[str, Sequence[Any]] = {"submit": [_accepted], "poll": [DONE], "cancel": [None], "find": [None], **lines}
        self.seen: list[tuple[str, Any]] = []
        self._size = (0, 0)

    def count(self, verb: str) -> int:
        return sum(name == verb for name, _ in self.seen)

    def submit(self, work: Work) -> Job:
        self._size = (work.width, work.height)
        return self._say("submit", work)

    def poll(self, job: Job) -> Found:
        return self._say("poll", job)

    def cancel(self, job: Job) -> None:
        self._say("cancel", job)

    def find(self, work_id: str) -> Job | None:
        return self._say("find", work_id)

    def fetch(self, output: Output, limit: int) -> bytes:
        return self._say("fetch", output) if "fetch" in self._lines else output.data or red(*self._size)

    def _say(self, verb: str, given: Any) -> Any:
        lines = self._lines[verb]
        line = lines[min(self.count(verb), len(lines) - 1)]
        self.seen.append((verb, given))
        line = line(given) if callable(line) else line
        if isinstance(line, BaseException):
            raise line
        return line
